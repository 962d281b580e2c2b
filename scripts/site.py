"""Takes pages from outside of docs/ into the site (the README is its tour), and points links at them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# where a file of the repository is in the site
OUTSIDE = {"README.md": "tutorial/tour.md", "CONTRIBUTING.md": "explanation/contributing.md"}
# who searches wants to do something first, and to understand it later
BOOST = {"tutorial": 3.0, "how-to": 2.0}
LINK = re.compile(r"(\]\()([^)\s#]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside."""
    for source, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links that are right in the site; they are written as they are right in the repository."""
    place = page.file.src_uri
    page.meta["search"] = {"boost": BOOST.get(place.partition("/")[0], 1.0)}
    source = next((name for name, there in OUTSIDE.items() if there == place), f"docs/{place}")

    def pointed(found: re.Match[str]) -> str:
        if "://" in found[2]:
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        wanted = OUTSIDE.get(wanted, wanted.removeprefix("docs/"))
        return found[1] + posixpath.relpath(wanted, posixpath.dirname(place) or ".")

    return LINK.sub(pointed, markdown)
