"""Writes a page: one HTML file that loads nothing, runs nothing, and escapes every text of the database."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dbinfer.errors import DataError
from dbinfer.page import words
from dbinfer.page.classes import SHOWN_CLASSES, peaks

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Return Jinja with escaping, our filters, and errors for names that are not there."""
    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "compact", "short", "percent", "key", "cut", "tail"):
        jinja.filters[name] = getattr(words, name)
    jinja.globals |= {"shown_classes": SHOWN_CLASSES, "peaks": peaks}
    return jinja


def render(page: Any, thumbs: Any, names: Any) -> str:
    """Return the page as HTML; the browser may use its one style sheet and pictures within it, and nothing else."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Ours, not the database's
    trusted = Markup(style)
    template = environment().get_template("page.html")
    return template.render(
        page=page, thumbs=thumbs, names=names, style=trusted, style_hash=f"sha256-{digest}"
    )


def write(path: Path, html: str) -> int:
    """Write the page and return its size in bytes.

    Raises:
        DataError: the file cannot be written.
    """
    data = html.encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as err:
        raise DataError(
            f"cannot write {str(path)!r}: {err.strerror or err}", "Name another file with --out."
        ) from err
    return len(data)
