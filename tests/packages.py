"""Packages that a test compares with, and that nothing else needs: pip gets them, or the test is skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def installed(folder: Path, *packages: str) -> Path:
    """Install packages, without what they need, into a folder, and return it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot get {', '.join(packages)}: {done.stderr.strip().splitlines()[-1]}")
    return folder
