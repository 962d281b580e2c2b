"""Runs the processes of a training: what they inherit, what they tell on the way, and how they end."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from dbinfer.errors import DbinferError, harmless
from dbinfer.train import events, guard
from dbinfer.train.data.share import held_for_ranks
from dbinfer.train.options import TrainJob

KEPT_LINES = 40
WARNING = "dbinfer: left out: "  # of dbinfer.train.loader
Report = Callable[[dict[str, Any]], None]


def encode(job: TrainJob) -> str:
    """Return the options as one word that no shell changes; the dsn goes through the environment."""
    return base64.urlsafe_b64encode(json.dumps(job.to_dict()).encode()).decode()


def decode(text: str) -> TrainJob:
    """Return the options that `encode` has packed."""
    return TrainJob(**json.loads(base64.urlsafe_b64decode(text)))


def train_in_process(
    job: TrainJob, module: str, report: Report, more: Mapping[str, str] | None = None
) -> None:
    """Run `python -m MODULE OPTIONS` to its end; it sends dbinfer.train.events.

    Args:
        job: what is trained; the module gets it as `decode` reads it.
        module: of ours; it trains, and leaves the files of the run.
        report: is told of the progress.
        more: environment variables for it.

    Raises:
        TrainError: it stopped.
        DbinferError: what it has sent as an error.
    """
    run_all(job, lambda environment: [sys.executable, "-m", module, encode(job)], report, more)


def run_all(
    job: TrainJob,
    command: Callable[[dict[str, str]], Sequence[str]],
    report: Report,
    more: Mapping[str, str] | None = None,
) -> None:
    """Run the command that starts all processes of a training; a snapshot is held until they have read their rows."""
    with ExitStack() as stack:
        environment = inherited({**stack.enter_context(held_for_ranks(job)), **(more or {})})

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                stack.close()  # all ranks have read their rows
            report(event)

        # -I: beside it lie modules of ours that are not to stand in for Python's
        guarded = [sys.executable, "-I", guard.__file__, *command(environment)]
        process = start(guarded, environment, stdin=subprocess.PIPE)
        try:
            failure, last = follow(process, on_event)
        finally:
            end(process)
    if failure is not None:
        raise failure
    if process.returncode:
        raise events.stopped(job, process.returncode, last)


def inherited(more: Mapping[str, str]) -> dict[str, str]:
    """Return what the processes inherit; the dsn is here, where `ps` does not show its password."""
    # The user may ask for TensorFlow's log again
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    # Not the user's to choose: the strategy does, and progress must not wait in a buffer
    environment.update({"KERAS_BACKEND": "tensorflow", "PYTHONUNBUFFERED": "1", **more})
    return environment


def start(
    command: Sequence[str], environment: dict[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start a command whose output `follow` reads."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        # A process group of its own: `end` reaches the ranks behind the launcher, too
        start_new_session=True,
    )


def follow(process: subprocess.Popen[str], report: Report) -> tuple[DbinferError | None, list[str]]:
    """Read the output to its end; return the first error that was sent, and the last lines."""
    failure: DbinferError | None = None
    last: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdout is not None
    for line in process.stdout:
        event = events.find(line)
        if event is None:
            last.append(line.rstrip())
            if WARNING in line:
                print(harmless(line[line.index(WARNING) :].rstrip()), file=sys.stderr, flush=True)
        elif event["event"] == "error":
            # The first: what other ranks say after it comes of losing that one
            failure = failure or events.to_error(event)
        else:
            report(event)
    process.wait()
    return failure, list(last)


def end(process: subprocess.Popen[str]) -> None:
    """End what still runs, e.g. after Ctrl-C, and close its pipes."""
    stop(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def stop(process: subprocess.Popen[str]) -> None:
    """End what still runs: first asking, then not."""
    for how, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            break
        os.killpg(process.pid, how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
