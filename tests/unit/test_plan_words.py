"""What a plan is asked on the command line: numbers as people write them, and one clear sentence for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbinfer.cli._values import count, hours, pixels
from dbinfer.cli.plan import count_text, time_text
from dbinfer.errors import DataError, UsageError
from dbinfer.plan import PlanOptions, plan


@pytest.mark.parametrize(
    ("text", "number"),
    [("50M", 50e6), ("1.5k", 1500), ("2000000", 2e6), ("3G", 3e9), ("1b", 1e9), (" 7 ", 7), (".5M", 5e5)],
)
def test_counts(text: str, number: float) -> None:
    assert count("images", text) == number


@pytest.mark.parametrize("text", ["", "0", "0M", "-5", "50 Mio", "1e6", "M", "1,5k", "nan", "inf", "五"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(UsageError, match=r"--images is .*must be a number above 0"):
        count("images", text)


@pytest.mark.parametrize(
    ("text", "number"), [("6", 6), ("6h", 6), ("90m", 1.5), ("90min", 1.5), ("36s", 0.01), ("1.5H", 1.5)]
)
def test_hours(text: str, number: float) -> None:
    assert hours("hours", text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "0", "-6", "6d", "six", "6:30", "1e1"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match=r"--hours is .*must be a time above 0"):
        hours("hours", text)


def test_pixels() -> None:
    assert pixels("size", "500x375") == (500, 375)
    for text in ("500", "500x", "x375", "-1x5", "500x375x3"):
        with pytest.raises(UsageError, match="width x height"):
            pixels("size", text)


def test_nothing_said_is_nothing() -> None:
    assert count("images", None) is hours("hours", None) is pixels("size", None) is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"images": 0.0}, "images is 0, but must be greater than 0"),
        ({"images": -1.0}, "images is -1"),
        ({"images": float("nan")}, "images is nan"),
        ({"images": 1e30}, "images is 1e"),
        ({"images": 1.0, "hours": -6.0}, "hours is -6"),
        ({"images": 1.0, "hours": 25.0}, "hours is 25, but must be at most 24"),
        ({"images": 1.0, "hosts": 0}, "hosts is 0"),
        ({"images": 1.0, "hosts": 2, "hours": 2.0}, "hours and hosts are both given"),
        ({"images": 1.0, "cores": 0}, "cores is 0"),
        ({"images": 1.0, "segments": -4}, "segments is -4"),
        ({"images": 1.0, "skew": 0.5}, "skew is 0.5, but must be at least 1"),
        ({"images": 1.0, "kilobytes": 0.0}, "kilobytes is 0"),
        ({"images": 1.0, "size": (0, 5)}, "size is 0x5"),
        ({"images": 1.0, "format": "jpg"}, "format is 'jpg', but must be one of JPEG"),
        ({}, "neither images nor a table is given"),
    ],
)
def test_options_that_make_no_sense(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        PlanOptions(**values)  # type: ignore[arg-type]
    assert words in raised.value.message


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DBINFER_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DBINFER_HOME", str(tmp_path))


def test_models_that_were_not_measured() -> None:
    for model, words in (("vgg19", "no model 'vgg19' was measured; there are"), (None, "no model is named")):
        with pytest.raises(UsageError) as raised:
            plan(model, PlanOptions(images=1e6))
        assert words in raised.value.message
        assert "--dsn" in raised.value.cure
    with pytest.raises(UsageError, match="resnet50 was not measured in f8, but in"):
        plan("resnet50", PlanOptions(images=1e6, precision="f8"))


def test_files_that_hold_no_coefficients(tmp_path: Path) -> None:
    for text, words in (
        ("[]", "holds no coefficients"),
        ("nonsense", "cannot be read"),
        ('{"form": 0}', "no coefficients of this version"),
        ('{"form": 1}', "no coefficients of this version"),
    ):
        file = tmp_path / "plan.json"
        file.write_text(text)
        with pytest.raises(DataError, match=words):
            plan("resnet50", PlanOptions(images=1e6, coefficients=file))
    with pytest.raises(DataError, match="cannot be read"):
        plan("resnet50", PlanOptions(images=1e6, coefficients=tmp_path / "missing.json"))


def test_numbers_as_people_read_them() -> None:
    assert [count_text(n) for n in (5e7, 1500, 12, 2.5e9)] == ["50M", "1.5k", "12", "2.5G"]
    found = [time_text(h) for h in (6, 1.5, 0.5, 0.001, 72)]
    assert found == ["6 hours", "1.5 hours", "30 minutes", "3.6 seconds", "3 days"]
