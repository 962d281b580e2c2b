"""A plan says what it takes for granted: cores, threads, skew, and steps that nobody has measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbinfer.plan import PlanOptions
from dbinfer.plan.cost import Coefficients, Network, Picture, lacking, missing, shipped
from dbinfer.plan.find import Source
from dbinfer.plan.forecast import forecast
from dbinfer.plan.shown import lacking_text

NET = Network("net", "f32", "classification", 224, 224, 3, milliseconds=5.0)
PHOTO = Picture("JPEG", 500, 375, 51_000)
SECONDS = {
    "infer": 1.0,
    "jpeg": 1e-4,
    "fit": 1e-6,
    "fit_sample": 1e-9,
    "classification": 1e-6,
    "row_engine": 1e-4,
}
FOUND = Coefficients({"cores": 2}, SECONDS, {}, {"engine": 0.06}, {})
SOURCE = Source("net", "classify", FOUND, NET, (PHOTO,), 1e6, cores=2, segments=2)
SOUGHT = PlanOptions(images=1e6)


def notes(options: PlanOptions = SOUGHT, **changes: object) -> tuple[str, ...]:
    return forecast(replace(SOURCE, **changes), options).notes  # type: ignore[arg-type]


def test_what_was_measured_needs_no_note() -> None:
    assert notes() == ()
    assert notes(notes=("images of 5 x 5 pixels",)) == ("images of 5 x 5 pixels",)


def test_more_cores_than_were_measured() -> None:
    assert notes(cores=16, segments=16) == (
        "16 cores that slow each other no more than the 2 of the measured machine",
    )
    assert notes(cores=1, segments=1) == ()
    assert notes(coefficients=replace(FOUND, machine={}), cores=16, segments=16) == ()


@pytest.mark.parametrize(
    ("segments", "cores", "words"),
    [
        (2, 16, "; the runtime gives a process up to 8 threads where they pay, so it may take less time"),
        (1, 2, "; the runtime gives a process up to 2 threads where they pay, so it may take less time"),
        (3, 4, ""),
    ],
)
def test_fewer_segments_than_cores(segments: int, cores: int, words: str) -> None:
    found = [note for note in notes(segments=segments, cores=cores) if "at work" in note]
    assert found == [f"{segments} of {cores} cores of a host at work, one for each process{words}"]


BY_THREADS = {"1": 8.0, "2": 4.2, "4": 2.5, "8": 2.0}


@pytest.mark.parametrize(
    ("segments", "cores", "threads", "milliseconds", "idle"),
    [
        (2, 2, 1, 10.0, ""),
        (1, 2, 2, 10.0 * 4.2 / 8, ""),
        # three threads are as busy as four, which were measured
        (1, 3, 3, 10.0 * 2.5 * 4 / 3 / 8, ""),
        (4, 16, 4, 10.0 * 2.5 / 8, ""),
        # more than four did not pay
        (2, 16, 4, 10.0 * 2.5 / 8, "8 of 16 cores of a host at work, 4 for each process"),
    ],
)
def test_a_plan_counts_the_threads_that_the_trial_found_to_pay(
    segments: int, cores: int, threads: int, milliseconds: float, idle: str
) -> None:
    network = replace(NET, milliseconds=10.0, by_threads=BY_THREADS)
    report = forecast(replace(SOURCE, network=network, segments=segments, cores=cores), SOUGHT)
    assert (report.threads, report.row_ms["infer"]) == (threads, pytest.approx(milliseconds, abs=1e-4))
    assert [note for note in report.notes if "at work" in note] == ([idle] if idle else [])


def test_a_network_of_the_engine_stays_there_with_more_threads() -> None:
    network = replace(NET, milliseconds=1.5, by_threads={"1": 1.5, "2": 0.8})
    report = forecast(replace(SOURCE, network=network, segments=1), SOUGHT)
    assert (report.threads, network.in_engine, report.row_ms["row"]) == (2, True, 0.1)


def test_as_many_segments_as_cores_or_more_leave_none_idle() -> None:
    assert notes(segments=8) == ()


def test_rows_of_one_key_stay_where_they_are() -> None:
    (note,) = notes(skew=1.6)
    assert note.startswith("a skew of 1.60 however many hosts there are; ")
    assert notes(skew=1.5) == ()
    assert notes(PlanOptions(images=1e6, hosts=4), skew=1.6) == ()


@pytest.mark.parametrize(
    ("picture", "network", "words"),
    [
        (Picture("GIF", 500, 375, 51_000), NET, "decoding GIF"),
        (PHOTO, replace(NET, task="detection"), "results of detection"),
        (PHOTO, replace(NET, milliseconds=0.1), "a row in the backend"),
        (PHOTO, replace(NET, isolation="never"), "a row in the backend"),
        (Picture("JPEG", 100, 100, 5_000), NET, "resizing"),
        (
            Picture("PNG", 224, 224, 5_000),
            replace(NET, milliseconds=0.1),
            "decoding PNG, resizing, a row in the backend",
        ),
    ],
)
def test_steps_without_a_coefficient_are_named(picture: Picture, network: Network, words: str) -> None:
    """They cost nothing, without a word."""
    assert notes(pictures=(picture, PHOTO), network=network) == (
        f"no time for {words}: there is no coefficient",
    )


def test_the_page_names_what_the_shipped_coefficients_lack() -> None:
    """It promised a constant for each task, and one for scoring in the backend."""
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8")
    assert f"<!-- lacking -->\n{lacking_text(shipped())}<!-- /lacking -->" in page
    assert "decoding GIF" in lacking(shipped())


def test_all_that_is_lacking() -> None:
    steps = lacking(replace(FOUND, seconds={**SECONDS, "row_backend": 1e-5, "detection": 1e-6}))
    assert {"decoding GIF", "decoding PNG", "results of segmentation", "resizing"} <= set(steps)
    assert not {"decoding JPEG", "results of detection", "a row in the backend", "inference"} & set(steps)


def test_a_term_that_the_fit_left_out_is_not_missing() -> None:
    assert missing(FOUND, (PHOTO,), NET) == ()
    few = replace(FOUND, seconds={**SECONDS, "row_engine_byte": 0.0})
    del few.seconds["row_engine"]
    assert missing(few, (PHOTO,), NET) == ()
