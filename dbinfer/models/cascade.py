"""Two classifiers as one network: the small one's scores where the best of them is high enough, else the large one's.

OpenVINO's If runs the large network only where the condition asks for it.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError, RegistryError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.connection import one, session
from dbinfer.models.ir import embed_manifest, import_openvino, read_model
from dbinfer.models.keras_file import Fetched
from dbinfer.models.registry import FILES, parts
from dbinfer_udf.host.libraries import leave_out
from dbinfer_udf.manifest import Manifest

PREFIX = "cascade:"
# What both read of an image, which is decoded once
SHARED = ("height", "width", "channels", "resize", "interpolation", "pad_value", "decode", "labels")


@contextmanager
def cascade(asked: str, sure: float | None, dsn: str | None, progress: OnProgress) -> Iterator[Path]:
    """Yield the IR of two deployed classifiers as one, in a folder that goes afterwards.

    Args:
        asked: `cascade:SMALL+LARGE`, each NAME, NAME@VERSION or NAME@ALIAS.
        sure: the score from which the small network's answer counts; dbinfer.cheap_threshold finds it.

    Raises:
        ModelFileError: there are not two, `sure` is missing, or they do not read and answer the same.
        RegistryError: one is not deployed, or the role may not have its files.
    """
    names = asked[len(PREFIX) :].split("+")
    if len(names) != 2 or not all(names):
        raise ModelFileError(f"{asked!r} does not name two models", "Name them: cascade:small+large.")
    if sure is None or not math.isfinite(sure):
        query = f"SELECT threshold FROM dbinfer.cheap_threshold('images', '{names[0]}', '{names[1]}')"
        raise ModelFileError(
            f"a cascade asks the large network where the small one is not sure, but sure is {sure}",
            f"Set --sure; {query} finds it.",
        )
    with tempfile.TemporaryDirectory(prefix="dbinfer-cascade-") as temporary:
        given, made = Path(temporary, "given"), Path(temporary, "made")
        given.mkdir()
        made.mkdir()
        small, large = (
            _fetch(name, given / f"{place}.xml", dsn, progress) for place, name in enumerate(names)
        )
        manifest = _manifest(small, large, sure)
        call = {
            "given": given,
            "made": made / "model.xml",
            "sure": sure,
            "manifests": [each.to_json() for each in (small.manifest, large.manifest, manifest)],
        }
        progress(Progress(f"joining {small.version} and {large.version}"))
        read = [*given.iterdir()]
        apart.run(apart.Job(f"{__name__}:join_apart", call, Path(asked), made, read), progress)
        for file in (made / "model.xml", made / "model.bin"):
            apart.received(file)
        yield made / "model.xml"


def _fetch(reference: str, xml: Path, dsn: str | None, progress: OnProgress) -> Fetched:
    """Write the files of a version, as the registry holds them."""
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(FILES, (reference,))
        found = json.loads(one(cur))
        version = f"{found['model']}@{found['version']}"
        for place, (kind, data) in enumerate(parts(cur, found["id"], found["parts"])):
            progress(Progress(f"reading {version}", place, len(found["parts"]), "parts"))
            with xml.with_suffix(f".{kind}").open("ab") as file:
                file.write(data)
    return Fetched(version, Manifest.from_dict(found["manifest"]))


def _manifest(small: Fetched, large: Fetched, sure: float) -> Manifest:
    """Return the manifest of both as one network, which computes scores from pixels.

    Raises:
        ModelFileError: one is no classifier, or they read or answer something else.
    """
    for each in (small, large):
        if each.manifest.task != "classification":
            raise ModelFileError(
                f"{each.version} is for {each.manifest.task}, but a cascade is of two models for classification"
            )
    for key in SHARED:
        if getattr(small.manifest, key) != getattr(large.manifest, key):
            first, second = (_shown(getattr(each.manifest, key)) for each in (small, large))
            call = f"dbinfer.cheaply(img, '{small.version}', '{large.version}', {sure:g})"
            raise ModelFileError(
                f"{small.version} has {key} {first} and {large.version} {second}, but the networks of a cascade have "
                "the same",
                f"Convert one of them again, or ask both: {call}.",
            )
    return replace(
        large.manifest,
        name="-".join(each.version.partition("@")[0] for each in (small, large)),
        mean=(),
        scale=(),
        activation="none",
        precision=large.manifest.precision if large.manifest.precision == small.manifest.precision else "f32",
        metrics={},
        provenance={"cascade": [small.version, large.version], "sure": sure},
    )


def _shown(value: Any) -> str:
    text = ",".join(value) or "''" if isinstance(value, tuple) else str(value)
    return text if len(text) <= 40 else text[:40] + "..."


def join_apart(given: str, made: str, sure: float, manifests: list[str], progress: OnProgress) -> None:
    """Write the IR of both networks, which lie in `given` as registries hold them: pixels in, preprocessing inside."""
    leave_out()
    ov = import_openvino()
    small, large = (read_model(Path(given, f"{place}.xml")).graph for place in (0, 1))
    first, second, manifest = map(Manifest.from_json, manifests)
    graph = _joined(small, large, (first, second), sure)
    embed_manifest(graph, manifest)
    ov.save_model(graph, made, compress_to_fp16=False)


def _joined(small: Any, large: Any, manifests: tuple[Manifest, Manifest], sure: float) -> Any:
    ov = import_openvino()
    import numpy as np
    from openvino import opset13 as ops

    first, second = manifests
    image = ops.parameter([1, second.height, second.width, second.channels], np.uint8, name="image")
    image.set_layout(ov.Layout("NHWC"))
    pixels = image
    if first.color != second.color:
        pixels = ops.gather(image, np.array([2, 1, 0]), np.array(3))
    for target in small.get_parameters()[0].output(0).get_target_inputs():
        target.replace_source_output(pixels.output(0))
    scores, others = _scores(ops, small, first), _scores(ops, large, second)
    classes, expected = (node.output(0).get_shape()[1] for node in (scores, others))
    if classes != expected:
        raise ModelFileError(
            f"the small network has {classes} classes and the large one {expected}, but in a cascade they have the same"
        )
    answer = ops.parameter(scores.output(0).get_shape(), np.float32)
    alone = ov.Model([ops.result(answer)], [answer])
    asked = ov.Model([ops.result(others)], large.get_parameters())
    best = ops.reduce_max(scores, np.array([1]), False)
    either = ops.if_op(ops.greater_equal(best, np.float32(sure)).output(0))
    either.set_then_body(alone)
    either.set_else_body(asked)
    either.set_input(scores.output(0), answer, None)
    either.set_input(image.output(0), None, large.get_parameters()[0])
    chosen = either.set_output(alone.get_results()[0], asked.get_results()[0])
    chosen.set_names({"scores"})
    return ov.Model([ops.result(chosen)], [image], "cascade")


def _scores(ops: Any, graph: Any, manifest: Manifest) -> Any:
    """Return one score a class, as dbinfer_udf.result.vectors.scores computes them."""
    import numpy as np

    output = graph.get_results()[0].input_value(0)
    # of one image: a batch does not fit this shape, for the condition holds for all of it or for none
    values = ops.reshape(output, np.array([1, np.prod(output.get_shape(), dtype=int)]), False)
    if manifest.activation == "softmax":
        values = ops.softmax(values, 1)
    if manifest.activation == "sigmoid":
        values = ops.sigmoid(values)
    if len(manifest.labels) == 2 and values.output(0).get_shape()[1] == 1:
        return ops.concat([ops.subtract(np.float32(1), values), values], 1)
    return values
