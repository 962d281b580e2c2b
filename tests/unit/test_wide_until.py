"""On a slow machine CI leaves out the wide tests for which no time is left, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).with_name("test_train_replicas.py")


def test_wide_tests_that_would_begin_too_late_say_so() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "wide", "-p", "no:cacheprovider", str(FILE)]
    env = {**os.environ, "DBINFER_TEST_UNTIL": "1"}
    said = subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout
    assert "no time is left for it on this machine: make test-all" in said
    assert " passed" not in said
