"""Damaged files by the thousand, in a process that is watched: an image or one clean error, and memory is flat."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import figures
import hostile_images as hostile
import numpy as np
import pytest
from films import film
from mutate import ANYWHERE, mutants
from seeds import FORMATS, seeds
from watched import Watched

from dbinfer_udf.errors import ImageError
from dbinfer_udf.session import images

pytestmark = pytest.mark.wide

COUNT, ALL = 300, 10_000
SEED = int(os.environ.get("DBINFER_TRUST_SEED", "11"))
GROWTH = 96  # MB that a process may keep of what it once took


@pytest.mark.parametrize("kind", FORMATS)
def test_the_seeds_are_sound(kind: str) -> None:
    with Watched() as watched:
        answers = [watched.decode(f"{kind} seed {n}", data) for n, data in enumerate(seeds(kind))]
    assert watched.summary.bad == []
    sound = [answer is not None and "image" in answer["found"].values() for answer in answers]
    assert sum(sound) >= len(sound) * 0.8  # OpenCV reads no CMYK, YCbCr or float TIFF


def test_a_damaged_animation_does_not_end_the_process() -> None:
    """OpenCV's reader of animated PNGs jumps into a function that returned: 157 bytes end all sessions."""
    with Watched() as watched:
        sound = watched.decode("sound", hostile.animated_png())
        damaged = watched.decode("damaged", hostile.animated_png(damage=True))
    assert watched.summary.bad == []
    assert sound is not None
    assert damaged is not None
    assert set(sound["found"].values()) == {"image"}
    assert set(damaged["found"].values()) == {"image"}  # the damage is in the second picture


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind: str) -> None:
    count = ALL if figures.long() else COUNT
    with Watched() as watched:
        for name, data in mutants(kind, count, SEED):
            watched.decode(name, data)
    summary = watched.summary
    figures.record(
        f"damaged {kind} files",
        inputs=summary.inputs,
        crashes=summary.crashes,
        hangs=summary.hangs,
        memory_mb=round(summary.memory_mb),
        slowest_s=round(summary.slowest_s, 3),
    )
    assert [name for name, _ in summary.bad] == []
    assert summary.inputs == count
    assert summary.images > 0
    assert summary.grown_mb < GROWTH


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["film", "GIF", "WebP", "PNG", "AVIF", "TIFF"])
def test_damaged_films_and_animations(kind: str) -> None:
    """Their decoders crash at some; that is the error of a row, as whatever else is wrong."""
    count = ALL // 20 if figures.long() else 15
    outcomes = Counter(
        _frames(data) for _, data in (_films(count) if kind == "film" else mutants(kind, count, SEED))
    )
    figures.record(f"damaged {kind} files, all pictures", inputs=count, wrong=0)
    assert sum(outcomes.values()) == count
    assert set(outcomes) <= {"frames", "22P03", "54000"}


@pytest.mark.timeout(3600)
def test_damaged_tiffs_by_tiles() -> None:
    """Each strip or tile is wrapped anew, with what the damaged directory says of it."""
    count = ALL // 20 if figures.long() else 15
    outcomes = Counter(_tiles(data) for _, data in mutants("TIFF", count, SEED))
    figures.record("damaged TIFF files, by tiles", inputs=count, wrong=0)
    assert sum(outcomes.values()) == count
    assert set(outcomes) <= {"tiles", "22P03", "54000"}


def _tiles(data: bytes) -> str:
    settings = {"venv": sys.prefix, "isolation": "always"}
    try:
        return "tiles" if list(images.tiles(settings, data, (64, 16))) else "nothing"
    except ImageError as err:
        return err.sqlstate


def _films(count: int) -> Iterator[tuple[str, bytes]]:
    sound = [film("mp4", "mp4v", 35, 10), film("avi", "MJPG", 35, 10), film("mkv", "mp4v", 35, 10)]
    for number in range(count):
        rng = np.random.default_rng([SEED, number])
        yield f"film {number}", ANYWHERE[int(rng.integers(len(ANYWHERE)))](sound[number % len(sound)], rng)


def _frames(data: bytes) -> str:
    try:
        return "frames" if list(images.frames({"venv": sys.prefix}, data, None)) else "nothing"
    except ImageError as err:
        return err.sqlstate
