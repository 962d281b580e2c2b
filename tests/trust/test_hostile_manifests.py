"""A manifest with values of other types, which comes with a foreign model, is refused with the key and the value."""

from __future__ import annotations

import json

import pytest

from dbinfer_udf.manifest import Manifest, ManifestError

GOOD = {"task": "tensor", "height": 8, "width": 8}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pad_value", "9"), ("height", "8"), ("height", None), ("height", True), ("width", 8.5), ("channels", [3]),
        ("task", 7), ("task", ["tensor"]), ("color", {}), ("name", 3), ("threshold", "high"), ("threshold", None),
        ("mean", 3), ("mean", "123"), ("mean", ["a"]), ("mean", [[1]]), ("mean", [None]), ("scale", {"a": 1}),
        ("labels", 5), ("labels", "cat"), ("metrics", 3), ("provenance", []), ("l2_normalize", 1),
    ],
)  # fmt: skip
def test_a_value_of_another_type(key: str, value: object) -> None:
    """Before, each gave TypeError, ValueError or a manifest that failed at the first image; `labels: "cat"` c, a, t."""
    with pytest.raises(ManifestError, match=f"^{key} is ") as caught:
        Manifest.from_json(json.dumps(GOOD | {key: value}))
    assert "must be" in str(caught.value)


@pytest.mark.parametrize(
    "text", ['"mean": [NaN]', '"scale": [Infinity]', '"threshold": NaN', '"mean": [1e999]']
)
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(ManifestError, match="finite"):
        Manifest.from_json(json.dumps(GOOD)[:-1] + ", " + text + "}")


@pytest.mark.parametrize("text", ["[" * 100_000, "", "[1]", "7", '{"height": ' + "9" * 5000 + "}"])
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(ManifestError):
        Manifest.from_json(text)
