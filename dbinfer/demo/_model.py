"""From a network of the zoo to a deployed model: train, convert, deploy; what is done already is left alone."""

from __future__ import annotations

import json
from pathlib import Path

from dbinfer.convert import ConvertOptions, convert
from dbinfer.demo._story import Story
from dbinfer.registry import DeployOptions, deploy
from dbinfer.train import TrainJob, TrainReport, train
from dbinfer.train.report import read_report


def make_model(story: Story, name: str, job: TrainJob, command: str, dsn: str | None) -> None:
    """Train as `job` says, convert and deploy under `name`."""
    with story.step(f"Train {name}: {job.network} on {job.data}", command):
        result = _trained(story, job)
        story.say("validation: " + ", ".join(f"{key} {value:.4g}" for key, value in result.metrics.items()))
    target = Path(job.out) / f"{name}.xml"
    with story.step("Convert to OpenVINO IR", f"dbinfer convert {result.model} -o {target}"):
        report = convert(result.model, target, ConvertOptions(force=True))
        state = "written" if report.written else "is there already"
        story.say(f"{target} {state}; largest difference to Keras {report.check.difference or 0:.1e}")
    with story.step("Deploy into the database", f"dbinfer deploy {target} --name {name} --precision f32"):
        # not auto: the README shows what comes out, which shall be the same on every processor
        done = deploy(target, DeployOptions(name=name, values={"precision": "f32"}), dsn)
        state = "deployed" if done.new else "already deployed"
        story.say(f"{state}: {done.name}@{done.version}, {done.size / 1e6:.1f} MB")


def _trained(story: Story, job: TrainJob) -> TrainReport:
    if _same_run(job):
        story.say("trained already")
        return read_report(job)
    return train(job.network, job.data, job, progress=story.within)


def _same_run(job: TrainJob) -> bool:
    folder = Path(job.out)
    try:
        done = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return False
    # As a file would give it back: tuples are lists there
    wanted = json.loads(json.dumps(job.to_dict()))
    return bool(done == wanted) and (folder / f"{job.network}.keras").is_file()
