"""report in a real browser: it loads nothing, runs nothing of the database's, fits a phone, reads in the dark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import browser
import cv2
import pages
import psycopg2
import pytest

from dbinfer.page import ReportOptions, report

pytestmark = pytest.mark.skipif(
    browser.find() is None, reason="no Chromium is installed (Debian: apt-get install chromium)"
)
LOOK = """
const images = [...page.images];
return {title: page.title, scripts: page.scripts.length, images: images.length,
  broken: images.filter((image) => !image.complete || !image.naturalWidth).length,
  loaded: view.performance.getEntriesByType("resource").map((one) => one.name)
    .filter((name) => !name.startsWith("data:")),
  wide: page.documentElement.scrollWidth, room: page.documentElement.clientWidth,
  back: style("body").backgroundColor, card: style(".card").backgroundColor,
  text: style("body").color, soft: style(".soft").color};
"""
OPEN = """
const sheet = page.getElementById("cell-1-2"), shown = () => view.getComputedStyle(sheet).display;
const before = shown();
page.querySelector("a[href='#cell-1-2']").click();
await wait();
const open = [shown(), sheet.querySelectorAll("img").length, sheet.getBoundingClientRect().top];
sheet.querySelector(".close").click();
await wait();
return {before, open, after: shown()};
"""


@pytest.fixture(scope="module")
def page(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        pages.make_colours(db, dsn, folder)
    return report(options=ReportOptions(out=folder / "page.html"), dsn=dsn).out


def light(colour: str) -> float:
    """Return the relative luminance of an rgb(...) colour (WCAG 2)."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_the_page_is_whole_and_fits(page: Path, width: int, dark: bool) -> None:
    seen: dict[str, Any] = browser.ask(page, LOOK, width, dark)
    assert seen["title"] == "colours@2"
    assert (seen["scripts"], seen["broken"], seen["loaded"]) == (0, 0, [])
    assert seen["images"] > 30
    assert seen["wide"] <= seen["room"] <= width
    assert (light(seen["back"]) < 0.1) == dark
    assert contrast(seen["text"], seen["card"]) > 7
    assert contrast(seen["soft"], seen["card"]) > 4.5


def test_a_cell_of_the_matrix_opens_its_images_and_closes(page: Path) -> None:
    seen = browser.ask(page, OPEN, 390)
    assert seen == {"before": "none", "open": ["block", 1, 0], "after": "none"}


def test_its_picture_is_light_or_dark(page: Path, tmp_path: Path) -> None:
    levels = []
    for dark in (False, True):
        picture = cv2.imread(str(browser.shoot(page, tmp_path / "page.png", dark=dark)))
        assert picture is not None
        assert picture.shape[:2] == (browser.SCREEN_HEIGHT, 1280)
        levels.append(float(picture.mean()))
    assert levels[0] > 200
    assert levels[1] < 60
