"""The pins of the backends' packages: one version for each Python, and which is the older one."""

from __future__ import annotations

import pytest

from dbinfer import pins

PACKAGES = {"numpy", "opencv-python-headless", "openvino", "orjson"}


@pytest.mark.parametrize("python", ["3.9", "3.10", "3.11.2", "3.12", "3.13.5", "3.14"])
def test_every_python_has_one_version_of_each_package(python: str) -> None:
    assert set(pins.versions(python)) == PACKAGES
    named = [line for line in pins.text().splitlines() if line and not line.startswith("#")]
    assert all(pins.LINE.fullmatch(line) for line in named)


def test_python_3_9_has_an_openvino_of_its_own() -> None:
    """2025.3 is the last one that has wheels for it."""
    assert pins.versions("3.9.2")["openvino"].startswith("2025.3")
    assert pins.numbers(pins.versions("3.9.2")["openvino"]) < pins.numbers(
        pins.versions("3.10.12")["openvino"]
    )


def test_versions_compare_as_numbers() -> None:
    assert pins.numbers("2026.4.1") < pins.numbers("2026.10.0-19000-abc")
    assert pins.numbers("3.9") < pins.numbers("3.10")


def test_a_backend_with_an_older_openvino_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins.metadata, "version", lambda _package: "2026.4.1")
    note = pins.openvino_note("3.9.2", pins.versions("3.9")["openvino"])
    assert (
        "older than this client's 2026.4.1, the newest for Python 3.9: a model that only a newer OpenVINO reads"
        in note
    )
    # deploy tries it with the client's, and cannot know
    assert note.endswith("is deployed, but refused there at its first use")
    assert "older than this client's 2026.4.1: a model" in pins.openvino_note("3.11.2", "2026.1.0")
    assert [pins.openvino_note("3.11.2", found) for found in ("2026.4.1", "2026.5.0", "")] == [""] * 3
