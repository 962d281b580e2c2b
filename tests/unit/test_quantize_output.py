"""The INT8 model: smaller, the same answers, its manifest inside; what does not agree is not written."""

from __future__ import annotations

from pathlib import Path

import pytest
from quantize_models import classifier, pictures

from dbinfer.base.errors import DataError, ModelFileError, UsageError
from dbinfer.convert.quantize import QuantizeOptions, quantize_here, quantize_images
from dbinfer.models import agree
from dbinfer.models.ir import import_openvino, read_manifest

pytest.importorskip("nncf")


def test_the_result_agrees_and_carries_the_manifest(tmp_path: Path) -> None:
    source, output = classifier(tmp_path), tmp_path / "net-int8.xml"
    files, labels = pictures(30)
    labelled = list(zip(files[15:], labels[15:], strict=True))
    options = QuantizeOptions(subset=15)
    report = quantize_images(source, output, files[:15], files[15:], options, labelled)
    assert (report.measure, report.agreement) == ("top-1", 1.0)
    assert (report.original.accuracy, report.quantized.accuracy) == (1.0, 1.0)
    assert (report.calibrated, report.compared, report.held_out) == (15, 15, True)
    assert 0 < report.mean_difference <= report.max_difference < 0.05

    graph = import_openvino().Core().read_model(output)
    manifest = read_manifest(graph)
    assert manifest is not None
    assert (manifest.name, manifest.labels) == ("net", ("red", "green", "blue"))
    assert manifest.metrics["int8_top-1"] == 1.0
    assert "FakeQuantize" in {op.get_type_name() for op in graph.get_ops()}


def test_below_the_limit_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agree, "agreement", lambda *rest: ("top-1", 0.9))
    output = tmp_path / "net-int8.xml"
    with pytest.raises(DataError, match=r"0\.9000 .*nothing was written"):
        quantize_here(classifier(tmp_path), output, pictures(5)[0], [], QuantizeOptions(subset=5))
    assert not output.exists()
    assert not output.with_suffix(".bin").exists()


def test_an_output_that_is_there_needs_force(tmp_path: Path) -> None:
    source, output = classifier(tmp_path), tmp_path / "taken.xml"
    output.write_text("mine")
    with pytest.raises(ModelFileError, match="already exists"):
        quantize_images(source, output, pictures(3)[0], [], QuantizeOptions())
    assert output.read_text() == "mine"
    quantize_images(source, output, pictures(3)[0], [], QuantizeOptions(force=True))
    assert output.with_suffix(".bin").exists()


def test_several_outputs_are_refused_before_the_work(tmp_path: Path) -> None:
    graph = import_openvino().Core().read_model(classifier(tmp_path))
    graph.add_outputs(graph.get_ordered_ops()[-3].output(0))
    import_openvino().save_model(graph, tmp_path / "two.xml")
    with pytest.raises(DataError, match=r"two\.xml has 2 outputs \(.*, .*\), but quantize") as caught:
        quantize_images(tmp_path / "two.xml", tmp_path / "int8.xml", pictures(3)[0], [], QuantizeOptions())
    assert "--output-name" in caught.value.cure


def test_the_output_is_an_xml_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"must end in \.xml"):
        quantize_images(classifier(tmp_path), tmp_path / "net.onnx", [], [], QuantizeOptions())


@pytest.mark.parametrize(("name", "value"), [("subset", 0), ("limit", 1.5), ("limit", -0.1)])
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        QuantizeOptions(**{name: value})  # type: ignore[arg-type]
