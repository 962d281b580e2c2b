"""Imports point one way through the rooms, in the order that docs/explanation/design.md shows, and in no circle."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter

import pytest
from source_tree import CLIENT, HOUSE, ROOT, imports_of, modules, needs, ours, resolved, sources, tops

DESIGN = ROOT / "docs" / "explanation" / "design.md"
IN_BACKENDS = {"numpy", "cv2", "openvino", "obstore", "orjson", "pillow_heif", "dbinfer_udf"}
# A room (a package or module of its top) imports only rooms before it; docs/explanation/design.md has the same order.
ROOMS: dict[str, tuple[str, ...]] = {
    "dbinfer": (
        "base", "database", "images", "models", "score", "report", "label", "install", "worker", "convert", "server",
        "train", "tune", "bench", "demo", "plan", "dbinfer", "cli", "sqlalchemy", "__main__",
    ),
    "dbinfer_udf": (
        "dbinfer_udf", "errors", "fastjson", "bootstrap", "tasks", "manifest",
        "host", "store", "image", "result", "model", "engine", "session",
    ),
}  # fmt: skip
# The client takes of the runtime what makes pixels and results the same everywhere, and nothing that only backends do.
OF_BACKENDS = ("session", "engine", "bootstrap")
# which commands ask as backends do, and in which workers score
BUT = ("dbinfer_udf.engine.client", "dbinfer_udf.session.outside")
ZOO_MAY_USE_OF_OURS = {"dbinfer_models", "dbinfer_udf.manifest", "dbinfer_udf"}
# What scores, or loads what scores. All else runs before the first row, and takes the standard library alone.
SCORING = (
    "image.crop.",
    "image.decode.",
    "image.draw.",
    "image.frames.",
    "image.resize.",
    "image.tiles.",
    "image.words.",
    "result.",
    "model.model.",
    "model.functions.",
    "model.tiled.",
    "engine.loader.",
    "engine.worker.",
    "store.fetcher.",
)
BEFORE_SCORING = sorted(
    name.removeprefix("dbinfer_udf.")
    for name in modules("dbinfer_udf", "udf")
    if name.count(".") and not f"{name}.".removeprefix("dbinfer_udf.").startswith(SCORING)
)


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def table(first: str) -> list[list[str]]:
    """Return the rows of the table of docs/explanation/design.md whose first heading this is."""
    text = DESIGN.read_text(encoding="utf-8")
    rows = re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert rows, f"docs/explanation/design.md has no table that begins with | {first} |"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_rooms_before_them(package: str) -> None:
    order, own = ROOMS[package], [name for name in HOUSE if name.split(".")[0] == package]
    assert {room(name) for name in own} == set(order)
    arrows = {(name, room(other)) for name in own for other in needs(name) if other in own}
    assert [(name, to) for name, to in arrows if order.index(to) > order.index(room(name))] == []


def test_no_file_imports_itself_through_others() -> None:
    try:
        TopologicalSorter({name: needs(name) - {name} for name in HOUSE}).prepare()
    except CycleError as err:
        pytest.fail(" -> ".join(reversed(err.args[1])))


def test_the_design_shows_these_rooms_in_this_order() -> None:
    for package, order in ROOMS.items():
        shown = [name for row in table(f"room of `{package}`") for name in words(row[0])]
        assert shown == [name for name in order if name not in ("dbinfer", "dbinfer_udf", "__main__")]


def test_the_runtime_needs_only_what_hosts_have() -> None:
    """Nothing of client, server drivers or training, either: none of these is there."""
    known = set(sys.stdlib_module_names) | IN_BACKENDS
    assert {path.name: unknown for path in sources("udf") if (unknown := tops(path) - known)} == {}


def test_what_resolves_a_model_imports_no_library() -> None:
    """Resolving costs no import of numpy, OpenCV or OpenVINO; only functions that score may import those modules."""
    known = set(sys.stdlib_module_names)
    for name in BEFORE_SCORING:
        path = HOUSE[f"dbinfer_udf.{name}"]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        imported = list(imports_of(tree))
        assert {module.split(".")[0] for module, _ in imported if not module.startswith(".")} <= known, name
        ours = {other.removeprefix("dbinfer_udf.") for other in resolved(f"dbinfer_udf.{name}", imported)}
        assert ours <= {*BEFORE_SCORING, "dbinfer_udf"}, name


def test_the_client_takes_nothing_of_the_runtime_that_only_backends_do() -> None:
    used = {(name, other) for name in CLIENT for other in needs(name) if other.startswith("dbinfer_udf.")}
    assert [pair for pair in used if room(pair[1]) in OF_BACKENDS and pair[1] not in BUT] == []


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


# Functions of others, and one that takes the words of a command
MANY_BY_POSITION = ("op.topk", "op.max_pool", "self._must")


def test_calls_with_more_than_five_arguments_name_them() -> None:
    """Those of the client; the runtime's stand in the way of each image, where names take twice the time."""
    for path in sources("dbinfer"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and not any(isinstance(each, ast.Starred) for each in call.args):
                called = ast.unparse(call.func)
                few = len(call.args) <= 5 or called in MANY_BY_POSITION
                assert few, f"{path}:{call.lineno}: {called} gets {len(call.args)} arguments by position"
