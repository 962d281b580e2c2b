"""Runs what may crash, hang or take all memory in a Python process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any, Dict

# Variables of OpenVINO, oneDNN and OpenCV: whoever limits a server's instructions means all of its processes
INSTRUCTIONS = ("OV_CPU_MAX_ISA", "ONEDNN_MAX_CPU_ISA", "OPENCV_CPU_DISABLE")

# In a backend our package is not a file: its sources, and what imports them, travel with the program
RUN = """
import importlib
import json as _json
_call = _json.loads(%r)
sys.path[:] = _call["paths"]
if _call["modules"]:
    sys.meta_path.insert(0, Finder(_call["package"], _call["modules"]))
importlib.import_module(_call["package"] + ".%s").child(_call)
"""


def python_of(settings: Dict[str, str]) -> str:
    """Return the interpreter of the venv; where there is none, that of this process."""
    venv = settings.get("venv", "")
    if venv:
        return os.path.join(venv, "bin", "python")
    # In a backend sys.executable may be the server's or empty: Python is embedded there
    return os.path.join(sys.base_exec_prefix, "bin", "python%d.%d" % sys.version_info[:2])


def program_of(module: str, call: Dict[str, Any]) -> bytes:
    """Return what calls the function `child` of a module of this package, with `call`, in a process of its own."""
    modules = getattr(globals()["__loader__"], "modules", {})
    call = dict(
        call,
        modules=modules,
        package=__package__.partition(".")[0],
        paths=[path for path in sys.path if path],
    )
    source: str = modules.get("bootstrap", "import sys\n") + RUN % (json.dumps(call), module)
    return source.encode()


def start_python(python: str, program: bytes, name: str = "", **options: Any) -> Any:
    """Return the process that runs a program, which it reads from its standard input.

    Args:
        name: what ps shows behind the command.
        options: of subprocess.Popen: where its output goes, and what it inherits.

    Raises:
        OSError: the Python cannot be started.
    """
    # -I: nothing of the environment or of the working directory decides what the process imports
    command = [python, "-I", "-", name] if name else [python, "-I", "-"]
    environment = {"OPENBLAS_NUM_THREADS": "1", "PATH": os.environ.get("PATH", ""), **instructions()}
    process = subprocess.Popen(command, env=environment, cwd="/", stdin=subprocess.PIPE, **options)
    try:
        # if it is dead already, its output says why
        with contextlib.suppress(BrokenPipeError), process.stdin as source:  # type: ignore[union-attr]
            source.write(program)
    except BaseException:
        process.kill()
        process.wait()  # a backend must not collect zombies
        raise
    return process


def instructions() -> Dict[str, str]:
    """Return what this process's environment says of the instructions of the processor that libraries may use."""
    return {name: os.environ[name] for name in INSTRUCTIONS if name in os.environ}
