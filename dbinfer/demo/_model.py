"""From a network of the zoo to a deployed model: train, convert, deploy; what is done already is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dbinfer.convert import ConvertOptions, convert
from dbinfer.demo._tell import console, say, step
from dbinfer.registry import DeployOptions, deploy
from dbinfer.train import TrainJob, TrainReport, run
from dbinfer.train.report import read_report


def make_model(name: str, job: TrainJob, command: str, dsn: str) -> None:
    """Train as `job` says, convert and deploy under `name`."""
    with step(f"Train {name}: {job.network} on {job.data}", command):
        result = _trained(job)
        say("validation: " + ", ".join(f"{key} {value:.4g}" for key, value in result.metrics.items()))
    target = Path(job.out) / f"{name}.xml"
    with step("Convert to OpenVINO IR", f"dbinfer convert {result.model} -o {target}"):
        report = convert(result.model, target, ConvertOptions(force=True))
        state = "written" if report.written else "is there already"
        say(f"{target} {state}; largest difference to Keras {report.check.difference or 0:.1e}")
    with step("Deploy into the database", f"dbinfer deploy {target} --name {name}"):
        done = deploy(target, DeployOptions(name=name), dsn)
        say(
            f"{'deployed' if done.new else 'already deployed'}: {done.name}@{done.version}, {done.size / 1e6:.1f} MB"
        )


def _trained(job: TrainJob) -> TrainReport:
    if _same_run(job):
        say("trained already")
        return read_report(job)
    columns = (TextColumn("    epoch"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=job.epochs)

        def report(event: dict[str, Any]) -> None:
            if event["event"] == "epoch":
                bar.advance(task)

        return run(job, report)


def _same_run(job: TrainJob) -> bool:
    folder = Path(job.out)
    try:
        done = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return False
    wanted = json.loads(json.dumps(job.to_dict()))
    return bool(done == wanted) and (folder / f"{job.network}.keras").is_file()
