"""What the packages export is what they say, and can be imported without a server, TensorFlow or OpenVINO."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = (
    "dbinfer",
    "dbinfer.registry",
    "dbinfer.install",
    "dbinfer.server",
    "dbinfer.cli",
    "dbinfer.convert",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_there_and_sorted(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    exported = module.__all__
    assert [member for member in exported if not hasattr(module, member)] == []
    assert list(exported) == sorted(
        exported, key=lambda member: (not member.isupper(), not member[0].isupper(), member)
    )


def test_the_command_line_starts_without_heavy_imports() -> None:
    code = (
        "import sys, dbinfer.cli; "
        "print([m for m in ('tensorflow', 'keras', 'openvino', 'cv2', 'sqlalchemy', 'matplotlib', 'numpy') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
