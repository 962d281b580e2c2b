"""report in a real browser: it loads nothing, runs nothing of the database's, fits a phone, reads in the dark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import browser
import cv2
import psycopg2
import pytest
import report_tables
import variants

from dbinfer.report import ReportOptions, report

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
# Lines of a text, the size of its letters on the screen, and texts that lie on each other
READ = """
const box = (what) => what.getBoundingClientRect();
const texts = (what) => {
  const walk = page.createTreeWalker(what, NodeFilter.SHOW_TEXT), found = [];
  while (walk.nextNode()) if (walk.currentNode.data.trim() && !walk.currentNode.parentElement.closest("title, style"))
    found.push(walk.currentNode);
  return found;
};
const lines = (text) => {
  const range = page.createRange();
  range.selectNodeContents(text);
  return range.getClientRects().length;
};
const size = (text) => {
  const around = text.parentElement, drawn = around.getScreenCTM ? around.getScreenCTM() : {a: 1, b: 0};
  return parseFloat(view.getComputedStyle(around).fontSize) * Math.hypot(drawn.a, drawn.b);
};
const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const matrix = page.querySelector(".matrix"), scroll = matrix && matrix.closest(".scroll");
const reached = () => {
  const room = box(scroll), seen = (cell) => box(cell).left >= room.left - 1 && box(cell).right <= room.right + 1;
  const line = [...matrix.querySelectorAll("tbody tr")].at(-1).cells, found = new Set();
  for (let at = 0; at <= scroll.scrollWidth; at += 20) {
    scroll.scrollLeft = at;
    if (!seen(line[0])) return "the names of the lines are out of sight";
    [...line].filter(seen).forEach((cell) => found.add(cell.cellIndex));
  }
  return line.length - found.size;
};
const wrapped = matrix ? texts(matrix).filter((text) => lines(text) > 1).map((text) => text.data) : [];
const charts = [...page.querySelectorAll("svg.chart, svg.map")].map((chart) => {
  const boxes = texts(chart).map((text) => [text.data, box(text.parentElement)]);
  const card = box(chart.closest(".card"));
  return {texts: boxes.length,
    over: boxes.flatMap(([a, one], n) => boxes.slice(n + 1)
      .filter(([, other]) => over(one, other)).map(([b]) => a + "|" + b)),
    cut: boxes.filter(([, one]) => one.left < card.left || one.right > card.right).map(([a]) => a)};
});
const names = [...page.querySelectorAll(".bars th, .matrix th")].flatMap(texts);
return {wrapped, names: names.filter((name) => name.data.length < 6 && lines(name) > 1).map((name) => name.data),
  hidden: matrix ? reached() : 0, charts,
  small: texts(page.body).filter((text) => size(text) < 12).map((text) => [text.data, size(text)]).slice(0, 5),
  wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
  captions: [...page.querySelectorAll("figcaption")].map((one) => one.textContent)};
"""


@pytest.fixture(scope="module")
def page(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        report_tables.make_colours(db, dsn, folder)
        report_tables.make_digits(db)
        report_tables.make_masks(db, dsn, folder)
    return report(options=ReportOptions(out=folder / "page.html"), dsn=dsn).out


@pytest.fixture(scope="module")
def digits(page: Path, dsn: str) -> Path:
    return report("scans", "answers", ReportOptions(out=page.with_name("digits.html")), dsn).out


@pytest.fixture(scope="module")
def masks(page: Path, dsn: str) -> Path:
    return report("shots", "masks", ReportOptions(out=page.with_name("masks.html")), dsn).out


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


@pytest.fixture(scope="module")
def read(page: Path, digits: Path, masks: Path) -> Callable[[str, int], Any]:
    """What a reader sees of a page at a width; asked once."""
    pages_by_name = {"colours": page, "digits": digits, "masks": masks}
    return cache(lambda name, width: browser.ask(pages_by_name[name], READ, width))


WIDTHS = pytest.mark.parametrize("width", [390, *variants.wide(320, 768, 1280)])


@WIDTHS
def test_no_cell_of_the_matrix_wraps_its_number(read: Callable[[str, int], Any], width: int) -> None:
    assert read("digits", width)["wrapped"] == []


@WIDTHS
def test_no_short_name_of_a_class_breaks_beside_a_long_one(
    read: Callable[[str, int], Any], width: int
) -> None:
    assert read("colours", width)["names"] == []


@WIDTHS
def test_every_column_of_the_matrix_is_reached_beside_the_names_of_its_lines(
    read: Callable[[str, int], Any], width: int
) -> None:
    assert read("digits", width)["hidden"] == 0


@WIDTHS
def test_no_two_labels_of_a_chart_lie_on_each_other(read: Callable[[str, int], Any], width: int) -> None:
    charts = [chart for name in ("digits", "masks") for chart in read(name, width)["charts"]]
    assert [chart["over"] + chart["cut"] for chart in charts] == [[]] * 4
    assert all(chart["texts"] > 3 for chart in charts)


@WIDTHS
def test_every_letter_can_be_read(read: Callable[[str, int], Any], width: int) -> None:
    assert [read(name, width)["small"] for name in ("digits", "masks")] == [[], []]


@WIDTHS
def test_nothing_is_wider_than_the_screen(read: Callable[[str, int], Any], width: int) -> None:
    assert max(read(name, width)["wide"] for name in ("digits", "masks")) <= 0


def test_a_picture_bears_the_path_of_its_row(read: Callable[[str, int], Any]) -> None:
    captions = read("digits", 390)["captions"]
    assert len(captions) > 30
    assert [text for text in captions if "key" in text] == []
    # a path that is cut keeps its end
    assert [text for text in captions if not text.endswith(".png") and "stolen" not in text] == []
    # where the table has no such column, the key says which row it is
    assert all("key 1, " in text for text in read("masks", 390)["captions"])
