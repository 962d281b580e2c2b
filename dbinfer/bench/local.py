"""A model outside of the database: the backends' own code, decode to output, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbinfer.bench.networks import ModelFiles
from dbinfer_udf import libraries
from dbinfer_udf.model import Model
from dbinfer_udf.tasks import TASKS

Score = Callable[[bytes], Any]


def local_model(files: ModelFiles, threads: int = 1, exact: bool = False) -> Model:
    """Return the model, compiled as a backend does it (one stream, pinning off).

    Args:
        exact: decode every pixel and average them all into the network's size, instead of decoding to size.
    """
    manifest = files.manifest.to_dict()
    if exact:
        manifest.update(decode="exact", interpolation="area")
    facts = {"model": files.manifest.name, "version": 0, "manifest": manifest, "settings": {}}
    return Model(libraries.load("")["openvino"], files.entry, facts, threads)


def local_score(files: ModelFiles, function: str, threads: int = 1, exact: bool = False) -> Score:
    """Return what scores one image file as the SQL function of that name does."""
    model, task = local_model(files, threads, exact), TASKS[function]
    return lambda img: task(model, img, None)
