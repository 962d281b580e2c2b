"""What a plan is asked on the command line: numbers as people write them, and one clear sentence for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plan_shipped import nothing_named  # noqa: F401

from dbinfer.base.errors import UsageError
from dbinfer.cli.options import count, hours, pixels
from dbinfer.plan import PlanOptions, plan
from dbinfer.plan.cost import shipped, write
from dbinfer.plan.forecast import count_text, time_text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("50M", 50e6),
        ("1.5k", 1500),
        ("2000000", 2e6),
        ("3G", 3e9),
        ("1b", 1e9),
        (" 7 ", 7),
        (".5M", 5e5),
        ("1e6", 1e6),
        ("2.5E6", 2.5e6),
        ("1e3k", 1e6),
        (".5e-1M", 5e4),
        ("2t", 2e12),
    ],
)
def test_counts(text: str, number: float) -> None:
    assert count("images", text) == number


@pytest.mark.parametrize(
    "text", ["", "0", "0M", "-5", "50 Mio", "e6", "1e", "1e-999", "M", "1,5k", "nan", "inf", "五"]
)
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(UsageError, match=r"--images is .*must be a number above 0"):
        count("images", text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("6", 6), ("6h", 6), ("90m", 1.5), ("90min", 1.5), ("36s", 0.01), ("1.5H", 1.5), ("1e1", 10)],
)
def test_hours(text: str, number: float) -> None:
    assert hours("hours", text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "0", "-6", "6d", "six", "6:30", "1e"])
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
        ({"images": 1e30}, "images is 1e+30, but must be greater than 0 and at most 1e+15"),
        ({"images": float("inf")}, "images is inf"),
        ({"images": 1.0, "hours": -6.0}, "hours is -6"),
        ({"images": 1.0, "hours": 25.0}, "hours is 25, but must be at most 24"),
        ({"images": 1.0, "hosts": 0}, "hosts is 0"),
        ({"images": 1.0, "hosts": 2, "hours": 2.0}, "hours and hosts are both given"),
        ({"images": 1.0, "hosts": 10**8}, "hosts is 1e+08, but must be greater than 0 and at most 1e+07"),
        ({"images": 1.0, "cores": 0}, "cores is 0"),
        ({"images": 1.0, "cores": 10**9}, "cores is 1e+09, but must be greater than 0 and at most 10000"),
        ({"images": 1.0, "segments": -4}, "segments is -4"),
        ({"images": 1.0, "skew": 0.5}, "skew is 0.5, but must be at least 1"),
        ({"images": 1.0, "kilobytes": 0.0}, "kilobytes is 0"),
        ({"images": 1.0, "size": (0, 5)}, "size is 0x5"),
        ({"images": 1.0, "format": "heic"}, "format is 'heic', but must be one of JPEG"),
        ({"images": 1.0, "format": ""}, "format is '', but must be one of JPEG"),
        ({"images": 1.0, "column": "img"}, "a column is given, but no table"),
        ({"images": 1.0, "table": "t", "hours": 25.0}, "hours is 25, but must be at most 24"),
        ({}, "neither images nor a table is given"),
    ],
)
def test_options_that_make_no_sense(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        PlanOptions(**values)  # type: ignore[arg-type]
    assert words in raised.value.message


CLASHES = [
    ({"hours": 6.0, "hosts": 4}, "hours and hosts"),
    ({"table": "t", "size": (5, 5)}, "size and table"),
    ({"table": "t", "format": "PNG"}, "format and table"),
    ({"table": "t", "kilobytes": 5.0}, "kilobytes and table"),
    ({"here": True, "calibrate": True}, "here and calibrate"),
    ({"coefficients": Path("x"), "calibrate": True}, "coefficients and calibrate"),
]


@pytest.mark.parametrize(("values", "words"), CLASHES, ids=[words for _, words in CLASHES])
def test_options_of_which_one_would_be_ignored(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        PlanOptions(images=1.0, **values)  # type: ignore[arg-type]
    assert raised.value.message.startswith(f"{words} are both given, but ")
    assert raised.value.cure.startswith("Leave out ")


def test_a_precision_is_that_of_a_deployed_model() -> None:
    for options, dsn in ((PlanOptions(table="t", precision="f32"), None), (INT8, "dbname=nowhere")):
        with pytest.raises(UsageError, match="but a deployed model has its own") as raised:
            plan("net", options, dsn)
        assert raised.value.cure


INT8 = PlanOptions(images=1.0, precision="int8")


def test_formats_as_people_write_them() -> None:
    words = ("jpeg", "jpg", "JPG", "webp", "tif", "PNG")
    assert [PlanOptions(images=1.0, format=word).format for word in words] == [
        "JPEG",
        "JPEG",
        "JPEG",
        "WebP",
        "TIFF",
        "PNG",
    ]


def test_rows_of_a_table_are_of_no_day() -> None:
    assert PlanOptions(table="t", hours=72.0).hours == 72


def test_models_that_were_not_measured() -> None:
    for model, words in (("vgg19", "no model 'vgg19' was measured; there are"), (None, "no model is named")):
        with pytest.raises(UsageError) as raised:
            plan(model, PlanOptions(images=1e6))
        assert words in raised.value.message
        assert "--dsn" in raised.value.cure
    with pytest.raises(UsageError, match="resnet50 was not measured in f8, but in"):
        plan("resnet50", PlanOptions(images=1e6, precision="f8"))


def test_errors_speak_of_amounts_as_the_report_does(tmp_path: Path) -> None:
    """It was: 5e+07 images in 1.94444e-05 hours need more than 10000000 hosts."""
    write(tmp_path / "plan.json", replace(shipped(), start={"engine": 0.06}, error={}))
    for hours_, words in (
        (0.07 / 3600, "50M images in 0.07 seconds need more than 10M hosts"),
        (0.01 / 3600, "0.01 seconds are over before the first image is scored"),
    ):
        with pytest.raises(UsageError) as raised:
            plan("resnet50", PlanOptions(images=50e6, hours=hours_))
        assert raised.value.message == words
        assert raised.value.cure.startswith("Allow more hours")


def test_numbers_as_people_read_them() -> None:
    assert [count_text(n) for n in (5e7, 1500, 12, 2.5e9, 1e15)] == ["50M", "1.5k", "12", "2.5G", "1000T"]
    found = [time_text(h) for h in (6, 1, 1.5, 0.5, 0.001, 72)]
    assert found == ["6 hours", "1 hour", "1.5 hours", "30 minutes", "3.6 seconds", "3 days"]
