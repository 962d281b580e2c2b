"""Imports point one way: the client knows the manifest and the zoo; the runtime knows nothing of the client."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IN_BACKENDS = {"numpy", "cv2", "openvino", "orjson", "dbinfer_udf"}
MANIFEST = {"dbinfer_udf", "dbinfer_udf.manifest"}
# Training, quantization and the bare loop of the benchmark see pixels exactly as backends do: by the same functions.
PIXELS = {f"dbinfer_udf.{name}" for name in ("image", "preprocess", "postprocess", "mask", "errors")}
# The benchmark's bare loop is the backend's own work without the database.
LOOP = PIXELS | {f"dbinfer_udf.{name}" for name in ("cache", "libraries", "model", "tasks")}
# What is loaded is what can be scored.
HEADER = {"dbinfer_udf.header"}
MORE = {"load": HEADER, "bench": LOOP, "quantize": PIXELS, "train": PIXELS}
ZOO_MAY_USE_OF_OURS = {"dbinfer_models", "dbinfer_udf.manifest", "dbinfer_udf"}
STANDARD_LIBRARY_ONLY = (
    "manifest",
    "errors",
    "place",
    "bootstrap",
    "session",
    "ticket",
    "cache",
    "header",
    "exif",
)


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert len(found) > 3
    return found


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (module, names) of each import of a file, also those within functions; relative ones start with a dot."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]


def tops(path: Path) -> set[str]:
    return {module.partition(".")[0] for module, _ in imports(path) if not module.startswith(".")}


def ours(path: Path) -> set[str]:
    """Return the full names of our modules that a file imports; `from dbinfer_udf import x` counts as dbinfer_udf.x."""
    found = set()
    for module, names in imports(path):
        if module.partition(".")[0].startswith("dbinfer"):
            found |= {f"{module}.{name}" for name in names} if module == "dbinfer_udf" else {module}
    return found


@pytest.mark.parametrize("path", sources("udf"), ids=lambda path: path.name)
def test_the_runtime_needs_only_what_hosts_have(path: Path) -> None:
    unknown = tops(path) - set(sys.stdlib_module_names) - IN_BACKENDS
    assert unknown == set()


@pytest.mark.parametrize("path", sources("udf"), ids=lambda path: path.name)
def test_the_runtime_knows_nothing_of_client_server_drivers_or_training(path: Path) -> None:
    assert (
        tops(path) & {"dbinfer", "dbinfer_models", "psycopg2", "sqlalchemy", "tensorflow", "keras", "plpy"}
        == set()
    )


@pytest.mark.parametrize("name", STANDARD_LIBRARY_ONLY)
def test_what_resolves_a_model_imports_no_library(name: str) -> None:
    """Resolving costs no import of numpy, OpenCV or OpenVINO; only functions that score may import those modules."""
    tree = ast.parse((ROOT / "udf" / "dbinfer_udf" / f"{name}.py").read_text(encoding="utf-8"))
    relative = set()
    for node in tree.body:
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level:
            relative |= {node.module} if node.module else {alias.name for alias in node.names}
        else:
            assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)
    assert relative <= set(STANDARD_LIBRARY_ONLY)


@pytest.mark.parametrize("path", sources("dbinfer"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_client_uses_only_the_manifest_or_where_it_must_pixels_of_the_runtime(path: Path) -> None:
    used = {module for module in ours(path) if module.startswith("dbinfer_udf")}
    assert used <= MANIFEST | MORE.get(path.relative_to(ROOT / "dbinfer").parts[0], set())


@pytest.mark.parametrize("path", sources("models"), ids=lambda path: path.name)
def test_the_zoo_knows_nothing_of_the_client(path: Path) -> None:
    used = {module for module in ours(path) if not module.startswith("dbinfer_models")}
    assert used <= ZOO_MAY_USE_OF_OURS


def test_only_the_command_line_imports_typer() -> None:
    users = {
        path.relative_to(ROOT / "dbinfer").parts[0] for path in sources("dbinfer") if "typer" in tops(path)
    }
    assert users == {"cli"}


def test_the_runtime_is_written_for_python_3_9() -> None:
    for path in sources("udf"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))
        assert (
            "from __future__ import annotations" in path.read_text(encoding="utf-8")
            or path.stat().st_size < 300
        )
