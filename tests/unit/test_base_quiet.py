"""TensorFlow comes without what Keras would take along, and the others can be imported afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from dbinfer.base.quiet import OPTIONAL, tensorflow
keras = tensorflow().keras
found = sorted(set(OPTIONAL) & set(sys.modules))
import matplotlib, sklearn
print(found, keras.Input((1,)).shape)
"""


@pytest.mark.wide
def test_tensorflow_comes_alone() -> None:
    pytest.importorskip("sklearn")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[] (None, 1)\n"
