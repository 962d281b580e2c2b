"""The site of docs/: every link in it leads somewhere, search finds all kinds of pages, it needs no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = {"tutorial", "how-to", "reference", "explanation"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it; a page that is in no menu, and a link that leads nowhere, is an error."""
    pytest.importorskip("material", reason="needs the extra docs: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_search_finds_functions_settings_and_the_readme(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    places = {entry["location"].partition("/")[0] for entry in found if "/" in entry["location"]}
    assert places == KINDS
    assert any(entry["location"] == "reference/sql.html#classify_table" for entry in found)
    text = "\n".join(entry["text"] for entry in found)
    assert "max_image_scans" in text
    assert "make demo" in text


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]* src=\"?([^\"\s>]+)", page.read_text(encoding="utf-8")
        )
        loaded += re.findall(r"<link[^>]* href=\"?([^\"\s>]+)[^>]* rel=\"?stylesheet", page.read_text())
        assert not [place for place in loaded if place.startswith(("http:", "https:", "//"))], page.name
