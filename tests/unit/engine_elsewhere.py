"""An engine that another process starts, under conditions of its own: a filter of system calls, or full disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_models
import tiny_models

SCORE = """
import json, sys
from dbinfer_udf.engine import client; from dbinfer_udf.host import sandbox as kernel, sandbox as seccomp
call = json.load(sys.stdin)
kernel.no_new_privileges()
if call["steps"]:
    seccomp._load_filter([tuple(step) for step in call["steps"]])
engine = client.Engine(call["settings"], call["digest"], lambda: call["modules"])
img = open(call["img"], "rb").read()
spec, found = call["spec"], []
try:
    for threads in (1, 2):
        # set, because a trial finds one to be best
        wanted = dict(spec, settings=dict(spec["settings"], threads=str(threads)))
        found.append(engine.open(wanted, call["folder"], threads).ask("predict", img, None))
    print(json.dumps([found, client.status(call["settings"])]))
finally:
    client.stop(call["settings"])
"""


def scored(
    folder: Path, img: bytes, steps: list[Any], command: list[str], **more: str
) -> tuple[list[str], Any]:
    """Return what an engine answers with one thread and with two, and its facts.

    Args:
        steps: of a filter of system calls that it inherits.
        command: what runs the process, in front of its own; `more` is added to its environment.
    """
    spec, entry = engine_models.ticket(tiny_models.convolution(folder), folder / "cache")
    (folder / "img").write_bytes(img)
    made = engine_models.engine(folder / "engine")
    call = {"settings": made.settings, "digest": made.digest, "modules": made.modules(), "spec": spec}
    told = json.dumps(dict(call, folder=entry.folder, img=str(folder / "img"), steps=steps))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}
    run = [*command, sys.executable, "-c", SCORE]
    answer = subprocess.run(run, check=False, capture_output=True, text=True, input=told, env=environment)
    assert answer.returncode == 0, answer.stderr
    found, (facts,) = json.loads(answer.stdout)
    return found, facts
