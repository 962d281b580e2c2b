"""Writes docs/reference from what the code and an installed database say of themselves; `make docs` runs it.

A function, a view, a column, a setting, a key of the manifest or a command that says nothing of itself is an error, and
so is an SQL function without an example.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import MISSING, fields
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import psycopg2
from typer.main import get_command

from dbinfer import server
from dbinfer.cli.app import COMMANDS, app
from dbinfer.install import CHOICES, DEFAULT_VENV, InstallOptions
from dbinfer_udf import manifest
from dbinfer_udf.image.file import DEFAULT_LIMITS, Limits
from dbinfer_udf.manifest import Manifest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
EXAMPLE = ", e.g. "
NOTE = "<!-- scripts/reference.py wrote this page: change what it is made from, and run make docs -->"


class UndescribedError(LookupError):
    """Something that users see says nothing of itself, or has no example."""


def told(what: str, text: str | None) -> str:
    """Return the text; UndescribedError where there is none."""
    if not text or not text.strip():
        raise UndescribedError(f"{what} has no description")
    return text.strip()


def described(what: str, text: str | None) -> str:
    """Return the text as a sentence; UndescribedError where there is none."""
    text = told(what, text).rstrip(".")
    return f"{text[0].upper()}{text[1:]}."


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def page(title: str, about: str, *parts: str) -> str:
    """Return a page with its note and its introduction."""
    return "\n\n".join([f"# {title}", NOTE, dedent(about).strip(), *(part.strip() for part in parts)]) + "\n"


# SQL

SQL = """
    Everything lies in the schema `dbinfer`. In psql, `\\df+ dbinfer.*` prints the same descriptions.

    These arguments mean the same in every function:

    - `model` is a name, `digits`; a version, `digits@2`; or an alias, `digits@production`. The plain name means the
      active version. Without it, functions use the default model (`dbinfer.set_default`).
    - `on_error` says what a damaged image gives: `'error'` (the default) ends the statement with the reason, `'null'`
      gives NULL.
    - `img` is an image file: JPEG, PNG, BMP, TIFF, WebP, GIF, AVIF or HEIC (for which the hosts need the package
      `pillow-heif`). NULL gives NULL.
    - `images` is a table or view with a column of ids (`id_column`, `'id'`) and a column of images (`img_column`,
      `'img'`): image files (bytea), references to stores (text, see `dbinfer.image`), or large objects (oid).

    The examples use the tables of `make demo` and models of four tasks: `digits` (classification), `strokes`
    (segmentation), `finder` (detection) and `features` (embedding).
"""
FUNCTIONS = """
    SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
           obj_description(p.oid, 'pg_proc'), has_function_privilege('public', p.oid, 'EXECUTE')
      FROM pg_proc p WHERE p.pronamespace = 'dbinfer'::regnamespace AND p.proname !~ '^_' ORDER BY 1
"""
VIEWS = """
    SELECT c.relname, obj_description(c.oid, 'pg_class'),
           array_agg(a.attname::text ORDER BY a.attnum),
           array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
           array_agg(col_description(c.oid, a.attnum) ORDER BY a.attnum)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relnamespace = 'dbinfer'::regnamespace AND c.relkind = 'v' AND c.relname !~ '^_'
     GROUP BY c.oid, 1 ORDER BY 1
"""
TYPES = """
    SELECT t.typname, obj_description(t.oid, 'pg_type'),
           array_agg(a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
      FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE t.typnamespace = 'dbinfer'::regnamespace AND t.typname !~ '^_' GROUP BY t.oid, 1 ORDER BY 1
"""


class Function(NamedTuple):
    """An SQL function as the database describes it."""

    name: str
    arguments: str
    result: str
    comment: str | None
    public: bool

    @property
    def signature(self) -> str:
        """Return the call and its result, with defaults as a caller writes them; a long one with an argument a line."""
        arguments = re.sub(r"::[\w. ]+(\[\])?", "", self.arguments)
        call = f"dbinfer.{self.name}({arguments})"
        if len(call) > 80:
            lines = arguments.replace(", ", ",\n    ")
            call = f"dbinfer.{self.name}(\n    {lines})"
        return f"{call}\n  → {self.result}"

    @property
    def example(self) -> str:
        """Return the statement at the end of the comment."""
        return example(f"dbinfer.{self.name}", self.comment)

    @property
    def group(self) -> str:
        """Return the heading under which people look for it, by its rights and its first argument."""
        if not self.public:
            return "Models and settings"
        first = self.arguments.partition(" ")[0]
        known = {"img": "One image", "images": "Whole tables", "results": "Whole tables"}
        likeness = self.name == "similar" or first in ("embeddings", "a")
        return "Likeness" if likeness else known.get(first, "Jobs and sessions")


GROUPS = {
    "One image": "Each of these is an expression: use it in a SELECT list, in `WHERE`, or in `CREATE TABLE AS`.",
    "Whole tables": "These read a whole table and score in batches where that is faster. What ends in `_into` adds its "
    "rows to an existing table; its columns must have the names and types that the example shows.",
    "Likeness": "See [searching by likeness](../how-to/search.md).",
    "Models and settings": "For superusers and members of `dbinfer_admin`.",
    "Jobs and sessions": "",
}


def example(what: str, comment: str | None) -> str:
    """Return the statement that a comment ends with."""
    found = (comment or "").partition(EXAMPLE)[2]
    if not found:
        raise UndescribedError(f"{what} has no example")
    return f"{found};"


def answer(db: Any, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, with the names of types qualified whatever the session's search path is."""
    with db.cursor() as cursor:
        cursor.execute("SET search_path = pg_catalog")
        cursor.execute(query)
        found = list(cursor.fetchall())
        cursor.execute("RESET search_path")
    return found


def functions(db: Any) -> list[Function]:
    """Return the SQL functions that are for users."""
    return [Function(*row) for row in answer(db, FUNCTIONS)]


def views(db: Any) -> list[tuple[Any, ...]]:
    """Return each view's name, comment, columns, their types and their comments."""
    return answer(db, VIEWS)


def sql_page(db: Any) -> str:
    """Return the page of functions, views and types."""
    found = functions(db)
    parts = []
    for group, about in GROUPS.items():
        parts += [f"## {group}", about]
        parts += [_function(one) for one in found if one.group == group]
    parts += ["## Views", "Everybody may read them; each shows a user what that user may see."]
    parts += [_view(*view) for view in views(db)]
    rows = [
        (f"`dbinfer.{name}`", f"`({', '.join(columns)})`", described(name, comment))
        for name, comment, columns in answer(db, TYPES)
    ]
    parts += ["## Types", table(("type", "fields", "meaning"), rows)]
    return page("SQL", SQL, *filter(None, parts))


def _function(one: Function) -> str:
    text = described(f"dbinfer.{one.name}", (one.comment or "").partition(EXAMPLE)[0])
    return f"### {one.name}\n\n{text}\n\n```text\n{one.signature}\n```\n\n```sql\n{one.example}\n```"


def _view(
    name: str, comment: str | None, columns: list[str], types: list[str], texts: list[str | None]
) -> str:
    what = f"dbinfer.{name}"
    rows = [
        (f"`{column}`", kind, described(f"{what}.{column}", text))
        for column, kind, text in zip(columns, types, texts, strict=True)
    ]
    about = described(what, (comment or "").partition(EXAMPLE)[0])
    shown = f"```sql\n{example(what, comment)}\n```"
    return f"### {name}\n\n{about}\n\n{shown}\n\n{table(('column', 'type', 'meaning'), rows)}"


# Settings

SETTINGS = """
    Settings belong to a database and are kept in it. A change holds from the next statement on.

    - A superuser sets those that have an *option* with `dbinfer install`:

            $ dbinfer install --max-models 2

    - Members of `dbinfer_admin` set those that have a value in the column *up to*, the highest one that they may set:

            SELECT dbinfer.set_setting('max_image_scans', '200');
"""
DEFAULT = re.compile(r"\s*Default: (.*?)\.?$")
UNSAID = {"venv": DEFAULT_VENV, "threads": "auto"}  # defaults that the help of install leaves out


class Setting(NamedTuple):
    """A setting of the database."""

    name: str
    default: str
    meaning: str
    option: str


def settings() -> list[Setting]:
    """Return the settings that users make: the options of install, and the limits of images."""
    limits, found = attributes(Limits), {}
    for name, default in DEFAULT_LIMITS._asdict().items():
        found[f"max_image_{name[4:]}"] = (f"{default:,}", described(name, limits.get(name)), "")
    known = {field.name for field in fields(InstallOptions)} - set(CHOICES)
    for option in get_command(app).commands["install"].params:  # type: ignore[attr-defined]
        if option.name not in known:
            continue
        text = described(option.opts[0], option.help)
        default = DEFAULT.search(text)
        if option.name in found:
            found[option.name] = (*found[option.name][:2], option.opts[0])
        elif default or option.name in UNSAID:
            words = default[1] if default else UNSAID[option.name]
            found[option.name] = (words, f"{DEFAULT.sub('', text).rstrip('.')}.", option.opts[0])
        else:
            raise UndescribedError(f"{option.opts[0]} does not say its default")
    return [Setting(name, *found[name]) for name in sorted(found)]


def highest() -> dict[str, str]:
    """Return the settings of `dbinfer.set_setting` with their highest values, as its source has them."""
    source = (ROOT / "sql" / "functions" / "set_setting.sql").read_text(encoding="utf-8")
    return {name: f"{int(most):,}" for name, most in re.findall(r'"(\w+)": (\d+)', source)} | {"usage": "on"}


def settings_page() -> str:
    """Return the page of settings."""
    most = highest()
    rows = [
        (
            f"`{one.name}`",
            one.default,
            one.meaning,
            f"`{one.option}`" if one.option else "",
            most.get(one.name, ""),
        )
        for one in settings()
    ]
    heads = ("setting", "default", "meaning", "option", "up to")
    return page("Settings", SETTINGS, table(heads, rows))


# Manifest

MANIFEST = """
    The manifest says how an image becomes a network's input and what its output means. `dbinfer convert` writes it
    into the IR (`rt_info`), `dbinfer deploy` stores it with the version, and `dbinfer.model_versions` shows it. Three
    keys are required: `task`, `height` and `width`.

    ```json
    {"task": "classification", "height": 224, "width": 224, "mean": [123.675, 116.28, 103.53],
     "scale": [58.395, 57.12, 57.375], "activation": "softmax", "labels": ["cat", "dog"]}
    ```

    Options of `dbinfer convert` and `dbinfer deploy` set most keys. A file `manifest.json` beside the network, or
    another one that `--manifest` names, sets any of them.
"""


def attributes(described_class: type) -> dict[str, str]:
    """Return what the docstring of a class says of each attribute."""
    part = dedent((described_class.__doc__ or "").partition("Attributes:")[2])
    found: dict[str, str] = {}
    for names, text in re.findall(
        r"^ *(\w+(?:, \w+)*): (.+?)(?=^ *\w+(?:, \w+)*: |\Z)", part, re.MULTILINE | re.DOTALL
    ):
        found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def manifest_page() -> str:
    """Return the page of the manifest's keys."""
    texts = attributes(Manifest)
    rows = [
        (
            f"`{field.name}`",
            _kind(field.name, str(field.type)),
            _default(field),
            described(field.name, texts.get(field.name)),
        )
        for field in fields(Manifest)
    ]
    return page("Manifest", MANIFEST, table(("key", "value", "default", "meaning"), rows))


def _kind(key: str, kind: str) -> str:
    allowed = getattr(manifest, f"{key.upper()}S", None)
    if allowed:
        return ", ".join(f"`{value}`" for value in allowed)
    inner = re.sub(r"Tuple\[(\w+), \.\.\.\]", r"list of \1", kind).replace("Dict[str, Any]", "object")
    words = {"int": "whole number", "float": "number", "str": "text", "bool": "`true` or `false`"}
    return (
        re.sub(r"\b(int|float|str|bool)\b", lambda found: words[found[0]], inner)
        .replace("list of number", "list of numbers")
        .replace("list of text", "list of texts")
    )


def _default(field: Any) -> str:
    if field.default is MISSING:
        return "" if field.default_factory is not MISSING else "required"
    return "" if field.default in ((), "") else f"`{field.default}`".replace("False", "false")


# Commands

ABOUT_COMMANDS = """
    `dbinfer COMMAND --help` prints the same. Commands connect to the database that `--dsn` names, otherwise to
    `$DBINFER_DSN`, to what libpq's variables and service files name, or to the embedded server, in this order. The exit
    status is 0 on success, 1 when a task or a check failed, and 2 for a wrong call.
"""


def commands_page() -> str:
    """Return the page of the commands, in the panels of `dbinfer --help`."""
    root, parts, panel = get_command(app), [], ""
    for name, known in COMMANDS.items():
        if known.panel != panel:
            panel = known.panel
            parts.append(f"## {panel}")
        parts += _command(f"dbinfer {name}", root.commands[name], "###")  # type: ignore[attr-defined]
    return page("Commands", ABOUT_COMMANDS, *parts)


def _command(name: str, command: Any, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    yield _usage(name, command)
    text = told(name, command.help).replace("\b", "")
    if not re.search(r"^ {4,}(\$ )?dbinfer ", text, re.MULTILINE) and not hasattr(command, "commands"):
        raise UndescribedError(f"{name} has no example")
    yield re.sub(r"^( {4,}.*(?:\n+ {4,}.*)*)", _block, text, flags=re.MULTILINE)
    # an argument without a text says all by its name in the line of the usage
    shown = [
        one for one in command.params if not one.hidden and (one.help or one.param_type_name == "option")
    ]
    if shown:
        yield table(("option", "meaning", "default"), [_option(name, one) for one in shown])
    for inner, sub in getattr(command, "commands", {}).items():
        if not sub.hidden:
            yield from _command(f"{name} {inner}", sub, f"{level}#")


def _block(found: re.Match[str]) -> str:
    lines = re.sub(r"^(?=dbinfer )", "$ ", re.sub(r"\n\n+", "\n", dedent(found[0])), flags=re.MULTILINE)
    return f"```console\n{lines}\n```"


def _usage(name: str, command: Any) -> str:
    words = [
        f"{one.human_readable_name.upper() if one.required else f'[{one.human_readable_name.upper()}]'}"
        for one in command.params
        if one.param_type_name == "argument"
    ]
    if hasattr(command, "commands"):
        words.append("[COMMAND]" if command.invoke_without_command else "COMMAND")
    return f"```text\n{' '.join([name, *words, '[OPTIONS]'])}\n```"


def _option(command: str, option: Any) -> tuple[str, str, str]:
    names = " / ".join([*option.opts, *option.secondary_opts])
    if option.param_type_name == "argument":
        names = option.human_readable_name.upper()
    value = (
        ""
        if option.default in (None, False, (), [], "") or callable(option.default)
        else f"`{option.default}`"
    )
    text = told(f"{command} {names}", option.help)
    return f"`{names}`", text, value if not isinstance(option.default, bool) else ""


# All of it


def pages(db: Any) -> dict[str, str]:
    """Return each page's text by the name of its file; `db` is a connection to a database with dbinfer."""
    return {
        "sql.md": sql_page(db),
        "settings.md": settings_page(),
        "manifest.md": manifest_page(),
        "commands.md": commands_page(),
    }


@contextmanager
def _server() -> Iterator[str]:
    """Yield the dsn of a fresh database in a server of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="dbinfer-reference-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        # nothing is scored: the client's own packages do for a backend that only installs
        running = server.up(folder, server.UpOptions(Path(sys.prefix)))
        assert running.dsn is not None
        yield running.dsn
    finally:
        server.down(folder)
        shutil.rmtree(folder)


def main() -> None:
    """Write the pages; a dsn as the only argument names a database to ask instead of a server of our own."""
    with (
        _server() if len(sys.argv) < 2 else nullcontext(sys.argv[1]) as dsn,
        closing(psycopg2.connect(dsn)) as db,
    ):
        for name, text in pages(db).items():
            (FOLDER / name).write_text(text, encoding="utf-8")
            print(f"docs/reference/{name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
