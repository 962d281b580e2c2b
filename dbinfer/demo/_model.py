"""From a network of the zoo to a deployed model: train, convert, deploy; what is done already is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dbinfer.convert import ConvertOptions, convert
from dbinfer.demo._tell import console, say, step
from dbinfer.registry import DeployOptions, deploy
from dbinfer.train import TrainConfig, TrainResult, run
from dbinfer.train.result import read_result


def make_model(name: str, config: TrainConfig, command: str, dsn: str) -> None:
    """Train as `config` says, convert and deploy under `name`."""
    with step(f"Train {name}: {config.network} on {config.data}", command):
        result = _trained(config)
        say("validation: " + ", ".join(f"{key} {value:.4g}" for key, value in result.metrics.items()))
    target = Path(config.out) / f"{name}.xml"
    with step("Convert to OpenVINO IR", f"dbinfer convert {result.model} -o {target}"):
        report = convert(result.model, target, ConvertOptions(force=True))
        state = "written" if report.written else "is there already"
        say(f"{target} {state}; largest difference to Keras {report.check.difference or 0:.1e}")
    with step("Deploy into the database", f"dbinfer deploy {target} --name {name}"):
        done = deploy(target, DeployOptions(name=name), dsn)
        say(
            f"{'deployed' if done.new else 'already deployed'}: {done.name}@{done.version}, {done.size / 1e6:.1f} MB"
        )


def _trained(config: TrainConfig) -> TrainResult:
    if _same_run(config):
        say("trained already")
        return read_result(config)
    columns = (TextColumn("    epoch"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=config.epochs)

        def report(event: dict[str, Any]) -> None:
            if event["event"] == "epoch":
                bar.advance(task)

        return run(config, report)


def _same_run(config: TrainConfig) -> bool:
    folder = Path(config.out)
    try:
        done = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return False
    wanted = json.loads(json.dumps(config.to_dict()))
    return bool(done == wanted) and (folder / f"{config.network}.keras").is_file()
