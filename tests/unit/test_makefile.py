"""make says at once what is missing, before it builds anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VARIABLES = ("DBINFER_TEST_GREENPLUM_DSN", "DBINFER_TEST_GREENPLUM_VENV")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("missing", VARIABLES)
def test_test_greenplum_names_the_missing_variable_first(missing: str) -> None:
    env = dict(os.environ, **dict.fromkeys(VARIABLES, "set"))
    del env[missing]
    command = ["make", "-C", ROOT, "test-greenplum", "MAKE=echo built:"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert missing in done.stdout
    assert "built:" not in done.stdout
