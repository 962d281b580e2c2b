"""A manifest with values of other types, which comes with a foreign model, is refused with the key and the value."""

from __future__ import annotations

import json

import pytest

from dbinfer_udf.manifest import Manifest, ManifestError

GOOD = {"task": "tensor", "height": 8, "width": 8}


def test_a_value_of_another_type(subtests: pytest.Subtests) -> None:
    """Before, each gave TypeError, ValueError or a manifest that failed at the first image; `labels: "cat"` c, a, t."""
    for key, value in [
        ("pad_value", "9"),
        ("height", "8"),
        ("height", None),
        ("height", True),
        ("width", 8.5),
        ("channels", [3]),
        ("task", 7),
        ("task", ["tensor"]),
        ("color", {}),
        ("name", 3),
        ("threshold", "high"),
        ("threshold", None),
        ("mean", 3),
        ("mean", "123"),
        ("mean", ["a"]),
        ("mean", [[1]]),
        ("mean", [None]),
        ("scale", {"a": 1}),
        ("labels", 5),
        ("labels", "cat"),
        ("metrics", 3),
        ("provenance", []),
        ("l2_normalize", 1),
    ]:
        with subtests.test(key=key, value=value):
            with pytest.raises(ManifestError, match=f"^{key} is ") as caught:
                Manifest.from_json(json.dumps(GOOD | {key: value}))
            assert "must be" in str(caught.value)


def test_numbers_that_are_none(subtests: pytest.Subtests) -> None:
    for text in ['"mean": [NaN]', '"scale": [Infinity]', '"threshold": NaN', '"mean": [1e999]']:
        with subtests.test(text=text), pytest.raises(ManifestError, match="finite"):
            Manifest.from_json(json.dumps(GOOD)[:-1] + ", " + text + "}")


def test_what_is_no_object(subtests: pytest.Subtests) -> None:
    for text in ["[" * 100_000, "", "[1]", "7", '{"height": ' + "9" * 5000 + "}"]:
        with subtests.test(text=text), pytest.raises(ManifestError):
            Manifest.from_json(text)
