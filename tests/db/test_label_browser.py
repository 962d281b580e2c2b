"""label in a real browser, by keyboard alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
import webdriver
from asking import rows
from labelling import opened
from psycopg2.extensions import connection as Connection

from dbinfer.label import serving

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(
        webdriver.find() is None,
        reason="no chromedriver is installed (Debian: apt-get install chromium chromium-driver)",
    ),
]
EVIL = "<img src=x onerror=alert(1)>"
SHOWN = "return document.getElementById('row').textContent"
STATUS = "return document.getElementById('last').textContent"
READY = "return !document.querySelector('.waits')"


@pytest.fixture
def db(dsn: str) -> Iterator[Connection]:
    """Six rows to label; the third is no image."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE TABLE public.scans (id int PRIMARY KEY, img bytea)")
        rows(connection, "CREATE TABLE public.scans_next (id int, rank int, proposal text, score real)")
        for key in range(1, 7):
            img = b"x" if key == 3 else tiny_models.file(tiny_models.picture(40 * key, 0, 0, (300, 200)))
            rows(connection, "INSERT INTO public.scans VALUES (%s, %s)", key, img)
            proposal = EVIL if key == 1 else "cat"
            rows(connection, "INSERT INTO public.scans_next VALUES (%s, %s, %s, 0.5)", key, key, proposal)
        yield connection
        rows(connection, "DROP TABLE public.scans, public.scans_next, public.scans_labels")


def answers(db: Connection) -> list[tuple[str, ...]]:
    return rows(db, "SELECT id, label FROM public.scans_labels ORDER BY id")


def test_the_loop_by_keyboard_alone(db: Connection, dsn: str, tmp_path: Path) -> None:
    classes = ("cat", "dog", "7", EVIL, "zebra finch")
    with webdriver.driven(tmp_path) as driver, opened("public.scans", dsn, classes=classes) as page:

        def at(key: int | str) -> None:
            driver.wait(SHOWN, f"Row {key}")
            driver.wait(READY)

        driver.go(page.url)
        at(1)
        # a name is a text: nothing of it has become an element
        assert driver.run("return document.getElementById('accept').textContent").startswith(f"↵{EVIL}")
        assert driver.run("return document.images.length") == 1
        driver.press("Enter")
        at(2)
        driver.press("7")  # a class of one sign has its own key
        at(3)
        assert driver.run("return document.getElementById('problem').textContent").startswith("not an image")
        driver.press("Enter", "1", "/")  # nobody has seen it
        assert (driver.run(SHOWN), answers(db)) == ("Row 3", [(1, EVIL), (2, "7")])
        driver.press("s")
        at(4)
        driver.press("2")
        at(5)
        driver.press("Backspace")
        at(4)
        assert answers(db) == [(1, EVIL), (2, "7")]
        driver.press("/", *"FINCH")
        driver.wait("return document.querySelectorAll('#found li').length", 1)
        driver.press("Enter")
        at(5)
        driver.press("?")
        driver.wait("return document.getElementById('help').open")
        driver.press("1", "Escape")  # behind the help nothing is answered
        driver.wait("return document.getElementById('help').open", False)
        rows(db, "INSERT INTO public.scans_labels VALUES (6, 'dog', NULL, 'ben', now())")
        driver.press(" ")
        # what ben has labelled meanwhile is told, not asked
        driver.wait("return document.getElementById('end').hidden", False)
        assert driver.run(STATUS) == "Row 6: ben has labelled it dog meanwhile."
        said = driver.run("return document.getElementById('end-text').textContent")
        assert said == "4 labelled, 1 skipped, 1 by others. The labels are in public.scans_labels."
        driver.press("r")
        at(3)
        driver.press("s")
        driver.wait("return document.getElementById('end').hidden", False)
        driver.press("Enter")
        driver.wait(
            "return document.getElementById('problem').textContent", "Finished. You can close this page."
        )
        # only the image that is none was complained of
        assert [line for line in driver.log() if "/api/image/2" not in line] == []
    assert answers(db) == [(1, EVIL), (2, "7"), (4, "zebra finch"), (5, "cat"), (6, "dog")]
    assert [(report.labelled, report.corrected, report.left) for report in page.reports] == [(4, 2, 1)]


def test_focus_is_seen_and_the_page_fits(db: Connection, dsn: str, tmp_path: Path) -> None:
    classes = tuple(f"class {number}" for number in range(50))
    for width, height in ((1280, 800), (500, 900)):
        folder = tmp_path / str(width)
        folder.mkdir()
        with (
            webdriver.driven(folder, width, height) as driver,
            opened("public.scans", dsn, classes=classes) as page,
        ):
            driver.go(page.url)
            driver.wait(SHOWN, "Row 1")
            driver.wait(READY)
            assert driver.run("return document.documentElement.scrollWidth <= innerWidth")
            # 1-9, 0 and the letters that mean nothing else
            assert driver.run("return document.querySelectorAll('#classes button').length") == 31
            driver.press("Tab", "Tab")
            assert driver.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
            assert driver.run("return document.activeElement.id") == "accept"
            # the proposal is none of these classes: the refusal is said, and the row stays
            driver.press("Enter")
            driver.wait("return document.getElementById('message').hidden", False)
            assert driver.run(SHOWN) == "Row 1"


def test_a_server_that_has_gone_is_told(db: Connection, dsn: str, tmp_path: Path) -> None:
    with webdriver.driven(tmp_path) as driver:
        with opened("public.scans", dsn) as page:
            driver.go(page.url)
            driver.wait(SHOWN, "Row 1")
            driver.wait(READY)
        driver.press("Enter")
        driver.wait("return document.getElementById('message').textContent.startsWith('dbinfer label ')")
        assert driver.run(SHOWN) == "Row 1"
    assert answers(db) == []


def test_a_key_before_the_image_is_seen_is_no_answer(
    db: Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types ahead would label an image by the one before it."""
    seen, real = threading.Event(), serving.pictures.decode
    # of the first row and those that are fetched ahead, all but the first wait
    first = iter([True])

    def slow(data: bytes | None, *more: Any) -> Any:
        assert next(first, False) or seen.wait(60)
        return real(data, *more)

    monkeypatch.setattr(serving.pictures, "decode", slow)
    with webdriver.driven(tmp_path) as driver, opened("public.scans", dsn, classes=("cat", EVIL)) as page:
        driver.go(page.url)
        driver.wait(SHOWN, "Row 1")
        driver.wait(READY)
        driver.press("1")
        driver.wait(READY, False)
        driver.press("1", "s", "Enter")
        seen.set()
        driver.wait(SHOWN, "Row 2")
        driver.wait(READY)
        assert answers(db) == [(1, "cat")]
