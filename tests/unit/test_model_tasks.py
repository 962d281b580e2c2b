"""The table of tasks: its numbers stay, and all that it names is there."""

from __future__ import annotations

from dataclasses import fields

from dbinfer_udf.manifest import MODEL_INFO, Manifest
from dbinfer_udf.tasks import EACH, FUNCTIONS, REQUESTS, TASKS, imported

NUMBERS = {
    "predict": 0, "tensor": 1, "classify": 2, "classify_top": 3, "segment": 4, "embed": 5, "profile": 6, "warm": 7,
    "rows": 8, "detect": 9, "outputs": 12, "classify_all": 13, "instances": 14,
}  # fmt: skip


def test_numbers_of_requests_stay_and_no_two_are_equal() -> None:
    found = {name: function.number for name, function in FUNCTIONS.items()} | REQUESTS
    assert found | NUMBERS == found
    assert len(set(found.values())) == len(found)


def test_what_the_table_names_is_there() -> None:
    for function in FUNCTIONS.values():
        for path in (function.finish, function.batch):
            assert path in ("", EACH) or callable(imported(path)), path
    for task in TASKS.values():
        assert not task.layout or callable(imported(task.layout))
        assert set(task.keys) <= {field.name for field in fields(Manifest)}
        assert set(task.model_info) <= set(MODEL_INFO)
