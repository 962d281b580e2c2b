"""The backends' packages, one version for each Python, and which is the older one; and what extras lack."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from importlib import metadata

import pytest
from packaging.requirements import Requirement

import dbinfer
from dbinfer.base.errors import TrainError
from dbinfer.database import pins

PACKAGES = {"numpy", "obstore", "opencv-python-headless", "openvino", "openvino-telemetry", "orjson"}
LISTED = re.compile(r"^[\w-]+==[^\\\n]+", re.MULTILINE)
ALONE = re.compile(r"^([\w-]+)(==\S+) \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", re.MULTILINE)
# What only some need
MORE = {"3.9": {"packaging", "typing_extensions"}, "3.13": set[str](), "3.14": set[str]()}


def test_every_python_has_one_version_of_each_package(subtests: pytest.Subtests) -> None:
    """With its digests, for pip takes no file then whose digest it does not know."""
    for python in ["3.9", "3.10", "3.11.2", "3.12", "3.13.5", "3.14"]:
        short = ".".join(python.split(".")[:2])
        with subtests.test(python=python):
            listed = {
                one.name: str(one.specifier)
                for one in map(Requirement, LISTED.findall(pins.text()))
                if one.marker is None or one.marker.evaluate({"python_version": short})
            }
            assert set(listed) == PACKAGES | MORE.get(short, {"typing_extensions"})
            assert {name: f"=={version}" for name, version in pins.versions(python).items()} == listed
            again = re.findall(
                r"^([\w-]+)(==\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
                pins.listed(python),
                re.M,
            )
            assert {name: version for name, version, _ in again} == listed


def test_what_is_pinned_needs_nothing_else() -> None:
    """pip refuses a list with digests that names less than all."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    known = {pins.plain(name): version for name, version in pins.versions(python).items()}
    for name in known:
        for text in metadata.requires(name) or []:
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                assert known[pins.plain(one.name)] in one.specifier


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


def test_what_is_installed_is_not_asked_for(subtests: pytest.Subtests) -> None:
    """A package whose module has another name, which `MODULES` lacks, would be asked for again and again."""
    for extra in ["convert", "mnist", "quantize", "split", "train", "tune"]:
        with subtests.test(extra=extra):
            assert pins.lacking(extra) == []


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the packages be there that dbinfer itself needs."""
    of_train = ("tensorflow", "sklearn", "PIL", "matplotlib", "onnx", "onnxruntime", "pycocotools")
    for name in of_train:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    "call", [dbinfer.demo, lambda: dbinfer.train("digits", "digits")], ids=["demo", "train"]
)
def test_all_that_is_missing_is_asked_for_at_once(call: Callable[[], object]) -> None:
    """By names that the registries have: dbinfer may have come from a file."""
    with pytest.raises(TrainError) as caught:
        call()
    command = shlex.split(caught.value.hint.partition(": ")[2])
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    names = {"tensorflow-cpu", "scikit-learn", "pillow", "matplotlib", "onnx", "onnxruntime", "pycocotools"}
    assert {word.partition(">=")[0] for word in command[4:]} == names
