"""Tries a prepared model in a process of its own before the registry gets it; backends do so again on their hosts."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from dbinfer import apart
from dbinfer.errors import ModelFileError
from dbinfer.registry.prepare import PreparedModel
from dbinfer_udf.threads import steps
from dbinfer_udf.trial import Limits, Result, Sample, TrialError, run_trial


def try_model(
    path: Path, prepared: PreparedModel, precision: str, limits: Limits, sample: Sample | None = None
) -> Result:
    """Return what the model takes of time and memory, with one thread and with more.

    Args:
        path: of the source, for the message.
        sample: images to run as well.

    Raises:
        ModelFileError: it cannot be compiled, crashes, or takes more than the limits.
    """
    with tempfile.TemporaryDirectory(prefix="dbinfer-trial-") as folder:
        xml = Path(folder, "model.xml")
        xml.write_bytes(prepared.xml)
        xml.with_suffix(".bin").write_bytes(prepared.bin)
        try:
            folders = [folder, *({os.path.dirname(path) for path in sample[:2]} if sample else ())]
            guards = (apart.libraries(), folders)
            return run_trial(
                sys.executable, str(xml), precision, limits, steps({}), sample=sample, guards=guards
            )
        except TrialError as err:
            raise ModelFileError(f"{path} was not deployed: {err.message}", _cure(err.setting)) from err


def _cure(setting: str) -> str:
    if not setting:
        return "Convert the model again, with the OpenVINO version that the database's hosts have."
    option = setting.replace("_", "-")
    return f"If the model is right, a superuser can allow more: dbinfer install --{option} NUMBER"
