"""More images, larger ones or fewer cores need more; hosts and hours answer each other; skew costs what it costs."""

from __future__ import annotations

import json

import pytest
from plan_shipped import found, nothing_named  # noqa: F401
from typer.testing import CliRunner

from dbinfer.base.errors import UsageError
from dbinfer.cli.app import app
from dbinfer.plan.cost import shipped


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"images": 5e6}, {"images": 50e6}),
        ({"hours": 12.0}, {"hours": 3.0}),
        ({"cores": 32}, {"cores": 8}),
        ({"size": (500, 375)}, {"size": (4000, 3000)}),
        ({"kilobytes": 50.0}, {"kilobytes": 500.0}),
        ({"format": "JPEG"}, {"format": "PNG"}),
        ({"skew": 1.0}, {"skew": 1.5}),
        ({"segments": 16}, {"segments": 8}),
    ],
)
def test_what_is_more_needs_more_hosts_or_hours(less: dict[str, object], more: dict[str, object]) -> None:
    one, other = found(**less), found(**more)
    assert (one.hosts, one.hours) < (other.hosts, other.hours)


def test_slower_networks_need_more_hosts() -> None:
    assert found("digits").hosts < found("mobilenet_v2").hosts < found("resnet50").hosts < found("unet").hosts


def test_the_hosts_are_enough_and_one_less_is_not() -> None:
    needed = found()
    assert needed.hours <= 6
    assert found(hours=None, hosts=needed.hosts).hours == pytest.approx(needed.hours)
    assert found(hours=None, hosts=needed.hosts - 1).hours > 6


def test_the_error_is_a_margin_of_hosts() -> None:
    error, report = shipped().error["largest"], found(images=5e9)
    least, most = report.hosts_between
    # error is predicted / true - 1: a prediction that is 20 % too short has to be divided by 0.8
    assert most / report.hosts == pytest.approx(1 / (1 - error), rel=0.01)
    assert least / report.hosts == pytest.approx(1 / (1 + error), rel=0.01)
    assert report.hours_between[0] * (1 + error) == pytest.approx(report.hours)
    assert report.hours_between[1] * (1 - error) == pytest.approx(report.hours)
    assert found(hours=None, hosts=3).hosts_between == (3, 3)


def test_without_a_deadline_it_is_a_day() -> None:
    assert found(hours=None).hosts == found(hours=24.0).hosts


def test_twice_the_hosts_take_half_the_time() -> None:
    two, four = (found(hours=None, hosts=n).hours for n in (2, 4))
    assert two == pytest.approx(2 * four, rel=0.01)


def test_the_slowest_segment_decides() -> None:
    even, skewed = found(hours=None, hosts=4), found(hours=None, hosts=4, skew=2.0)
    # its core is hardly crowded once the others have ended, so not quite twice
    assert 1.7 < skewed.hours / even.hours <= 2.0
    everything = found(hours=None, hosts=4, skew=1e6)
    assert everything.hours == pytest.approx(
        50e6 * even.efficiency * sum(even.row_ms.values()) / 3.6e6, rel=0.02
    )


def test_more_segments_than_cores_win_nothing() -> None:
    assert found(cores=16, segments=48).hosts == found(cores=16, segments=16).hosts


def test_more_segments_hold_skew_in_check() -> None:
    """A fuller segment of many waits less, because the others leave it the cores."""
    few, many = (found(cores=8, segments=n, skew=1.5, hours=None, hosts=2).hours for n in (8, 32))
    assert many < few


def test_hours_that_are_over_before_the_first_image() -> None:
    with pytest.raises(UsageError, match="over before the first image"):
        found(hours=1e-7)


def test_more_hosts_than_there_are() -> None:
    with pytest.raises(UsageError, match=r"^1000T images in 36 seconds need more than 10M hosts"):
        found(images=1e15, hours=0.01)


def test_the_report_adds_up() -> None:
    report = found()
    assert report.images_per_second * report.hours * 3600 == pytest.approx(50e6)
    assert report.images_per_second_host * report.hosts == pytest.approx(report.images_per_second)
    assert 0.3 < report.efficiency <= 1
    assert report.host_read == pytest.approx(report.images_bytes / report.hours / 3600 / report.hosts)
    assert report.host_memory > 100e6
    assert report.host_disk > 100e6  # ResNet-50 has 102 MB of weights
    assert "hosts of 16 cores (--cores)" in report.notes


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, ["plan", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_shows_a_table() -> None:
    text = shown("--images", "50M", "--model", "resnet50", "--hours", "6")
    assert "50M images with resnet50 in f32" in text
    lines = {
        line.split("│")[1].strip(): line.split("│")[2].strip() for line in text.splitlines() if "│" in line
    }
    least, most = found().hosts_between
    assert least <= found().hosts <= most
    assert lines["hosts"] == f"{found().hosts} ({least} to {most} within the error)"
    assert lines["time"].endswith("within the error)")
    assert "inference" in lines["one image, one core"]
    assert "largest error there" in text
    assert "Not in it: other processors" in text


def test_the_command_tells_how_long_hosts_take() -> None:
    report = json.loads(shown("--images", "1.5M", "--model", "digits", "--hosts", "4", "--json"))
    assert (report["hosts"], report["images"]) == (4, 1.5e6)
    assert report["hours"] == pytest.approx(found("digits", images=1.5e6, hours=None, hosts=4).hours)
    assert report["error"]["largest"] > 0
