"""Imports point one way: downwards through the floors of the house, which docs/design.md shows, and in no circle."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter

import pytest
from source_tree import CLIENT, HOUSE, ROOT, modules, needs, ours, sources, tops

DESIGN = ROOT / "docs" / "design.md"
IN_BACKENDS = {"numpy", "cv2", "openvino", "orjson", "dbinfer_udf"}
# A room (a module or package of dbinfer/) imports rooms of lower floors only; docs/design.md has the same table.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("_lazy", "_version", "errors", "progress", "relatives", "report", "sqlfiles"),
    ("apart", "boxes", "isolation", "machine", "names", "pins", "platform", "samples", "state"),
    ("dsn", "sqlalchemy"),
    ("connection",),
    ("agree", "backends", "cost", "imagefiles", "ir", "judge"),
    ("balance", "cache", "convert", "install", "load", "mirrors", "page", "quantize", "registry", "score"),
    ("engine", "server", "train"),
    ("doctor", "sample", "tune"),
    ("bench", "demo"),
    ("plan",),
    ("cli",),
    ("__main__", "dbinfer"),
)
PIXELS = ("errors", "image.decode", "result.mask", "result.postprocess", "image.resize")
# What a room takes of dbinfer_udf beside its manifest.
RUNTIME: dict[str, tuple[str, ...]] = {
    "agree": (*PIXELS, "result.detection"),
    "apart": ("host.sandbox", "host.limits"),
    "bench": (
        *PIXELS,
        "host.cache",
        "host.fetched",
        "host.libraries",
        "model.model",
        "model.tasks",
        "model.trial",
    ),
    "cost": ("image.header", "image.decode", "image.resize", "host.limits"),
    "engine": ("engine.client", "errors"),
    "imagefiles": ("image.header",),
    "machine": ("host.limits",),
    "page": ("image.draw", "errors", "image.decode"),
    "plan": ("errors", "image.header", "host.limits"),
    "quantize": PIXELS,
    "server": ("host.own_python", "host.libraries"),
    "registry": ("host.process", "host.limits", "model.trial"),
    "score": ("functions",),
    "train": (*PIXELS, "result.detection"),
}
ZOO_MAY_USE_OF_OURS = {"dbinfer_models", "dbinfer_udf.manifest", "dbinfer_udf"}
# What scores, or loads what scores. All else runs before the first row, and takes the standard library alone.
SCORING = [
    "model.infer",
    "image.decode",
    "result.detection",
    "image.draw",
    "session.draw_apart",
    "result.likeness",
    "result.mask",
    "model.model",
    "result.postprocess",
    "image.resize",
    "session.upkeep",
    "model.tasks",
    "engine.host",
    "engine.worker",
]
BEFORE_SCORING = sorted(
    name.removeprefix("dbinfer_udf.")
    for name in modules("dbinfer_udf", "udf")
    if "." in name and name.removeprefix("dbinfer_udf.") not in SCORING and name != "dbinfer_udf.engine"
)


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def table(first: str) -> list[list[str]]:
    """Return the rows of the table of docs/design.md whose first heading this is."""
    text = DESIGN.read_text(encoding="utf-8")
    rows = re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert rows, f"docs/design.md has no table that begins with | {first} |"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def test_every_room_stands_on_one_floor() -> None:
    rooms = [name for floor in FLOORS for name in floor]
    assert sorted(rooms) == sorted({room(name) for name in CLIENT})


def test_imports_go_to_lower_floors_only() -> None:
    floor = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
    arrows = {(name, room(other)) for name in CLIENT for other in needs(name) if other in CLIENT}
    wrong = {(name, other) for name, other in arrows if floor[other] >= floor[room(name)]}
    assert {(name, other) for name, other in wrong if other != room(name)} == set()


def test_no_file_imports_itself_through_others() -> None:
    try:
        TopologicalSorter({name: needs(name) - {name} for name in HOUSE}).prepare()
    except CycleError as err:
        pytest.fail(" -> ".join(reversed(err.args[1])))


def test_the_design_shows_these_floors() -> None:
    assert tuple(tuple(sorted(words(row[1]))) for row in table("floor")) == FLOORS[::-1]


def test_the_design_shows_what_rooms_take_of_the_runtime() -> None:
    shown = {name: words(row[1]) for row in table("room") for name in words(row[0])}
    assert shown == RUNTIME


def test_the_runtime_needs_only_what_hosts_have() -> None:
    """Nothing of client, server drivers or training, either: none of these is there."""
    known = set(sys.stdlib_module_names) | IN_BACKENDS
    assert {path.name: unknown for path in sources("udf") if (unknown := tops(path) - known)} == {}


def test_what_resolves_a_model_imports_no_library() -> None:
    """Resolving costs no import of numpy, OpenCV or OpenVINO; only functions that score may import those modules."""
    for name in BEFORE_SCORING:
        _imports_no_library(name)


def _imports_no_library(name: str) -> None:
    path = ROOT / "udf" / "dbinfer_udf" / f"{name.replace('.', '/')}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    relative = set()
    for node in tree.body:
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level:
            inner = name.rpartition(".")[0] + "." if node.level < 2 and "." in name else ""
            relative |= {
                inner + member
                for member in ([node.module] if node.module else [alias.name for alias in node.names])
            }
        else:
            assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names), name
    assert relative <= set(BEFORE_SCORING), name


def test_the_client_uses_of_the_runtime_what_the_design_allows() -> None:
    for name in CLIENT:
        used = {other for other in needs(name) if other.startswith("dbinfer_udf")}
        assert used <= {f"dbinfer_udf.{module}" for module in ("manifest", *RUNTIME.get(room(name), ()))}, (
            name
        )


def test_the_zoo_knows_nothing_of_the_client() -> None:
    for path in sources("models"):
        used = {module for module in ours(path) if not module.startswith("dbinfer_models")}
        assert used <= ZOO_MAY_USE_OF_OURS, path


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


def test_no_two_test_files_have_one_name() -> None:
    """They are imported by their names alone: of two files of helpers, too, the whole run takes only the first."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert [name for name, files in Counter(names).items() if files > 1] == []
