"""precision: auto: what is tried, what must agree, what is chosen, and what stays as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from variants import wide

from dbinfer.base.errors import ModelFileError
from dbinfer.base.progress import silent
from dbinfer.models import precision as precisions
from dbinfer.models.agree import dice, made, sameness
from dbinfer.models.describe import describe
from dbinfer.models.ir import import_openvino, read_model
from dbinfer.models.precision import Choice, Measured, choose
from dbinfer.models.prepare import PreparedModel, prepare
from dbinfer_udf.host import process, tokenizers
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model.trial import Limits, Result, Sample

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))
import tiny_models


def manifest(task: str = "classification", **values: Any) -> Manifest:
    return Manifest(task, 8, 8, precision="auto", **values)


class Trials:
    """Stands for the processes: each precision has its speed and adds its error to the outputs of f32."""

    def __init__(self, **given: tuple[float, float] | None) -> None:
        self.given = given
        self.asked: list[str] = []

    def __call__(self, path: Path, prepared: Any, name: str, limits: Any, sample: Sample | None) -> Result:
        self.asked.append(name)
        found = self.given[name]
        if found is None:
            raise ModelFileError("it crashed")
        milliseconds, error = found
        if sample is not None:
            images = np.load(sample.images)
            outputs = images.reshape(len(images), -1)[:, :10].astype(np.float32)
            outputs[:, 9] += error
            outputs.tofile(sample.outputs)
            Path(sample.outputs + ".json").write_text(str([milliseconds] * len(images)))
        return Result(1.0, milliseconds, 1)


def test_a_client_without_tokenizers_deploys_no_text_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "PACKAGE", "lacking_tokenizers")
    prepared = PreparedModel(b'<net><layer version="extension"/></net>', b"")
    with pytest.raises(ModelFileError, match="needs openvino-tokenizers, which is not installed") as caught:
        precisions.try_model(Path("words.xml"), prepared, "f32", Limits())
    assert "pip install" in caught.value.hint
    assert "openvino-tokenizers" in caught.value.hint


def chosen(
    monkeypatch: pytest.MonkeyPatch, able: list[str], outputs: tuple[str, ...] = (), **given: Any
) -> tuple[Choice, Result, Trials]:
    trials = Trials(**given)
    monkeypatch.setattr(precisions, "try_model", trials)
    monkeypatch.setattr(precisions, "precisions", lambda: able)
    prepared = PreparedModel(b"<net/>", b"", (10,))
    choice, result = choose(Path("net.xml"), prepared, manifest(outputs=outputs), Limits(), None, silent)
    return choice, result, trials


def test_the_fastest_that_agrees_is_chosen(monkeypatch) -> None:
    choice, result, _ = chosen(monkeypatch, ["bf16", "f16"], f32=(9.0, 0), bf16=(4.0, 0), f16=(3.0, 0))
    assert (choice.precision, choice.measure, choice.images, choice.of_query) == ("f16", "top-1", 32, False)
    assert choice.tried == {"f32": Measured(9.0), "bf16": Measured(4.0, 1.0), "f16": Measured(3.0, 1.0)}
    # of the precision that will run: its memory and time are what counts
    assert result.milliseconds == 3.0


def test_one_that_answers_otherwise_is_not(monkeypatch) -> None:
    choice, result, _ = chosen(monkeypatch, ["bf16", "f16"], f32=(9.0, 0), bf16=(4.0, 0), f16=(3.0, 999))
    assert (choice.precision, result.milliseconds) == ("bf16", 4.0)
    assert choice.tried is not None
    agreed = choice.tried["f16"].agreement
    assert agreed is not None
    assert agreed < 0.999


def test_a_network_of_several_outputs_stays_in_f32(monkeypatch) -> None:
    choice, _, trials = chosen(monkeypatch, ["bf16"], ("a", "b"), f32=(9.0, 0), bf16=(4.0, 0))
    assert (choice, trials.asked) == (Choice("f32"), ["f32"])


@pytest.mark.parametrize("other", [(8.9, 0.0), (20.0, 0.0), (1.0, float("nan")), None])
def test_f32_stays_where_nothing_is_won(monkeypatch, other) -> None:
    choice, result, _ = chosen(monkeypatch, ["bf16"], f32=(9.0, 0), bf16=other)
    assert (choice.precision, result.milliseconds) == ("f32", 9.0)


def test_a_processor_without_instructions_tries_nothing_else(monkeypatch) -> None:
    choice, _, trials = chosen(monkeypatch, [], f32=(9.0, 0))
    assert (choice, trials.asked) == (Choice("f32"), ["f32"])


def test_a_network_of_microseconds_stays(monkeypatch) -> None:
    choice, _, trials = chosen(monkeypatch, ["bf16"], f32=(0.05, 0), bf16=(0.01, 0))
    assert (choice, trials.asked) == (Choice("f32"), ["f32"])


def test_a_quantized_network_stays(monkeypatch) -> None:
    trials = Trials(f32=(9.0, 0))
    monkeypatch.setattr(precisions, "try_model", trials)
    monkeypatch.setattr(precisions, "precisions", lambda: ["bf16"])
    prepared = PreparedModel(b'<layer type="FakeQuantize"/>', b"", (10,))
    assert choose(Path("net.xml"), prepared, manifest(), Limits(), None, silent)[0] == Choice("f32")
    assert trials.asked == ["f32"]


def test_a_model_that_fails_in_f32_is_refused(monkeypatch) -> None:
    with pytest.raises(ModelFileError):
        chosen(monkeypatch, ["bf16"], f32=None, bf16=(1.0, 0))


@pytest.mark.parametrize("task", ["tensor", *wide("embedding")])
def test_a_real_network_is_compared(tmp_path: Path, monkeypatch, task) -> None:
    monkeypatch.setattr(precisions, "precisions", lambda: ["bf16"])
    monkeypatch.setattr(precisions, "WORTH_MILLISECONDS", 0.0)
    path = tiny_models.convolution(tmp_path, "net")
    model = read_model(path)
    known = describe(model, {"precision": "auto", "task": task})
    choice, _ = choose(path, prepare(model, known), known.manifest, Limits(), None, silent)
    assert (choice.measure, choice.images) == ("cosine", precisions.IMAGES)
    assert choice.tried is not None
    assert set(choice.tried) <= {"f32", "bf16"}


def test_pictures_are_the_same_each_time_and_of_every_kind() -> None:
    color, gray = manifest(), manifest(channels=1, color="GRAY")
    first = made(16, color)
    assert np.array_equal(first, made(16, color))
    assert first.shape == (16, 8, 8, 3)
    assert first.dtype == np.uint8
    assert first.std() > 10
    assert made(2, gray).shape == (2, 8, 8, 1)


def test_masks_agree_over_all_pictures_together() -> None:
    first, second = np.zeros((2, 1, 8, 8, 1), np.float32), np.zeros((2, 1, 8, 8, 1), np.float32)
    first[0, 0, :4], second[0, 0, :4] = 1, 1
    first[1, 0, 0, 0] = 1
    # 32 pixels in common, one more in the first: the small mask alone would give 0
    assert sameness(manifest("segmentation"), list(first), list(second)) == ("dice", 64 / 65)
    assert dice(np.zeros((2, 2)), np.zeros((2, 2))) == 1.0


def test_masks_of_nothing_agree_by_their_values() -> None:
    first = [np.full((1, 8, 8, 1), 0.1, np.float32)]
    assert sameness(manifest("segmentation"), first, [first[0] * 2])[0] == "cosine"


def boxes(*rows: tuple[float, ...]) -> list[np.ndarray]:
    return [np.array([rows], np.float32)]


def test_boxes_agree_where_they_have_partners() -> None:
    first = boxes((0, 0, 10, 10, 0.9, 1), (20, 20, 40, 40, 0.8, 2), (0, 0, 5, 5, 0.1, 1))
    moved = boxes((20, 20, 40.2, 40, 0.85, 2), (0, 0, 10, 10, 0.84, 1), (3, 3, 9, 9, 0.2, 0))
    assert sameness(manifest("detection"), first, moved) == ("boxes", 1.0)
    other = boxes((0, 0, 10, 10, 0.9, 7), (20, 20, 40, 40, 0.8, 2), (0, 0, 5, 5, 0.1, 1))
    assert sameness(manifest("detection"), first, other) == ("boxes", 0.5)
    assert sameness(manifest("detection"), first, boxes((0, 0, 0, 0, 0, 0))) == ("boxes", 0.0)


def test_detections_of_nothing_agree_by_their_scores() -> None:
    first = boxes((0, 0, 10, 10, 0.2, 1), (0, 0, 4, 4, 0.1, 1))
    turned = boxes((0, 0, 4, 4, 0.1, 1), (0, 0, 10, 10, 0.2, 1))
    measure, value = sameness(manifest("detection"), first, turned)
    assert (measure, round(value, 6)) == ("cosine", 1.0)


@pytest.mark.parametrize(
    ("text", "able"),
    [
        ("flags : fpu avx512f avx512_bf16 avx512_fp16\n", ["bf16", "f16"]),
        ("flags\t: fpu amx_bf16\n", ["bf16"]),
        ("flags : fpu avx2 avx512f\n", []),
        ("Features : fp asimd asimdhp bf16\n", ["bf16", "f16"]),
        ("model name : x\n", []),
    ],
)
def test_the_processor_says_what_it_can(tmp_path: Path, text, able) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\n" + text)
    assert process.precisions(str(path)) == able
    assert process.precisions(str(tmp_path / "none")) == []


def test_foreign_files_leave_it_open_and_ours_say_it(tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path, "ours")
    assert describe(read_model(path)).manifest.precision == "f32"
    ov = import_openvino()
    graph = ov.Core().read_model(path)
    ov.save_model(_without_manifest(graph), tmp_path / "foreign.xml", compress_to_fp16=False)
    foreign = read_model(tmp_path / "foreign.xml")
    assert describe(foreign, {"task": "tensor"}).manifest.precision == "auto"
    assert describe(foreign, {"task": "tensor", "precision": "bf16"}).manifest.precision == "bf16"


def _without_manifest(graph: Any) -> Any:
    ov = import_openvino()
    return ov.Model(graph.get_results(), graph.get_parameters(), "foreign")
