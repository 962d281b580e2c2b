"""Imports point one way: downwards through the floors of the house, which docs/design.md shows, and in no circle."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design.md"
IN_BACKENDS = {"numpy", "cv2", "openvino", "orjson", "dbinfer_udf"}
# A room (a module or package of dbinfer/) imports rooms of lower floors only; docs/design.md has the same table.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("_version", "errors", "progress", "relatives", "report", "sqlfiles"),
    ("boxes", "isolation", "machine", "names", "pins", "platform", "samples", "state"),
    ("dsn", "sqlalchemy"),
    ("connection",),
    ("agree", "backends", "cost", "imagefiles", "ir", "judge"),
    ("balance", "cache", "convert", "install", "load", "mirrors", "page", "quantize", "registry", "score"),
    ("engine", "server", "train"),
    ("doctor", "sample", "tune"),
    ("bench", "demo"),
    ("plan",),
    ("cli",),
    ("dbinfer",),
)
PIXELS = ("errors", "image", "mask", "postprocess", "preprocess")
# What a room takes of dbinfer_udf beside its manifest.
RUNTIME: dict[str, tuple[str, ...]] = {
    "agree": (*PIXELS, "detection"),
    "bench": (*PIXELS, "cache", "fetched", "libraries", "model", "tasks", "trial"),
    "cost": ("header", "image", "shrink"),
    "engine": ("engine.client", "errors"),
    "imagefiles": ("header",),
    "machine": ("limits",),
    "page": ("draw", "errors", "image"),
    "plan": ("errors", "header"),
    "quantize": PIXELS,
    "server": ("venv",),
    "registry": ("processor", "trial"),
    "score": ("batch_rows",),
    "train": (*PIXELS, "detection"),
}
ZOO_MAY_USE_OF_OURS = {"dbinfer_models", "dbinfer_udf.manifest", "dbinfer_udf"}
STANDARD_LIBRARY_ONLY = (
    "manifest",
    "manifest_types",
    "errors",
    "limits",
    "process",
    "transaction",
    "interrupts",
    "threads",
    "bootstrap",
    "pack",
    "session",
    "gate",
    "admit",
    "handover",
    "marks",
    "own_folder",
    "ticket",
    "usage",
    "usage_file",
    "cache",
    "housekeeping",
    "unfinished",
    "header",
    "imagefile",
    "image_limits",
    "jpeg",
    "png",
    "bmp",
    "tiff",
    "webp",
    "gif",
    "exif",
    "tried",
    "turns",
    "memory",
    "limits",
    "own_python",
    "trial",
    "trial_facts",
    "trial_process",
    "processor",
    "batch_rows",
    "kept",
    "waiting",
    "figures",
    "fastjson",
    "fetched",
    "signals",
    "use",
    "draw_task",
    "image_info",
    "isolation",
    "libraries",
    "memory",
    "models",
    "purpose",
    "remote",
    "venv",
    "engines",
    "engine.address",
    "engine.calls",
    "engine.client",
    "engine.control",
    "engine.ends",
    "engine.errors",
    "engine.forking",
    "engine.guards",
    "engine.hosted",
    "engine.kernel",
    "engine.landlock",
    "engine.listener",
    "engine.log",
    "engine.loop",
    "engine.main",
    "engine.measure",
    "engine.questions",
    "engine.remote",
    "engine.remote_batch",
    "engine.seccomp",
    "engine.servers",
    "engine.shelf",
    "engine.shown",
    "engine.slots",
    "engine.start",
    "engine.steps",
    "engine.supervisor",
    "engine.tokens",
    "engine.wire",
    "engine.zygote",
    "engine.zygotes",
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


def modules(package: str, folder: str = ".") -> dict[str, Path]:
    """Return the modules of a package by their full names; a package itself is its __init__."""
    top = ROOT / folder
    paths = sorted((top / package).rglob("*.py"))
    names = [".".join(path.relative_to(top).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


CLIENT = modules("dbinfer")
HOUSE = CLIENT | modules("dbinfer_udf", "udf") | modules("dbinfer_models", "models")


@cache
def needs(name: str) -> frozenset[str]:
    """Return which of our modules a module imports, also within functions."""
    package = name if HOUSE[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for module, members in imports(HOUSE[name]):
        dots = len(module) - len(module.lstrip("."))
        start = package.split(".")[: len(package.split(".")) - dots + 1] if dots else []
        whole = ".".join(filter(None, [*start, module.lstrip(".")]))
        # `from package import module` needs the module; `from module import function` needs the module
        found |= {
            f"{whole}.{member}" if f"{whole}.{member}" in HOUSE else whole for member in members or [""]
        }
    return frozenset(found & set(HOUSE))


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


@pytest.mark.parametrize("name", CLIENT)
def test_imports_go_to_lower_floors_only(name: str) -> None:
    floor = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
    own = room(name)
    others = {room(other) for other in needs(name) if other in CLIENT} - {own}
    assert {other for other in others if floor[other] >= floor[own]} == set()


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
            assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)
    assert relative <= set(STANDARD_LIBRARY_ONLY)


@pytest.mark.parametrize("name", CLIENT)
def test_the_client_uses_of_the_runtime_what_the_design_allows(name: str) -> None:
    used = {other for other in needs(name) if other.startswith("dbinfer_udf")}
    allowed = {f"dbinfer_udf.{module}" for module in ("manifest", *RUNTIME.get(room(name), ()))}
    assert used <= allowed


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


def test_no_two_test_files_have_one_name() -> None:
    """They are imported by their names alone: of two files of helpers, too, the whole run takes only the first."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert [name for name, files in Counter(names).items() if files > 1] == []
