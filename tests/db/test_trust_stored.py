"""What an administrator of models may store: nothing that breaks a view or a command for all, and IRs only."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.cli import main
from dbinfer.models import deploy

sys.path.append(str(Path(__file__).parents[1] / "trust"))
import mutate

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
GOOD: dict[str, Any] = {"task": "tensor", "height": 8, "width": 8}
IR = b'<?xml version="1.0"?>\n<net name="x" version="11"></net>'
TRIAL = {"milliseconds": 1.5, "batch_milliseconds": None, "by_threads": {"2": 1.0}}


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.constant(tmp_path_factory.mktemp("irs"), 7, "open"), dsn=dsn)


def add(db: Connection, name: str, manifest: Any = None, xml: bytes = IR, trial: Any = None) -> int:
    """Call _add_version as a client that need not be ours."""
    digest = hashlib.sha256(xml).hexdigest()
    if ask(db, "SELECT dbinfer._missing_parts(%s)", [digest]):
        rows(db, "SELECT dbinfer._add_part(%s, %s)", digest, psycopg2.Binary(xml))
    facts = {
        "manifest": GOOD if manifest is None else manifest, "size": "9", "source_digest": "1" * 64,
        "xml_digest": digest, "bin_digest": hashlib.sha256(b"").hexdigest(), "xml_parts": [digest], "bin_parts": [],
        "trial": TRIAL if trial is None else trial,
    }  # fmt: skip
    call = "SELECT dbinfer._add_version(%s, %s, true, dbinfer._ask('dbinfer deploy'))"
    return int(ask(db, call, name, json.dumps(facts)))


WRONG: tuple[dict[str, Any], ...] = (
    {"labels": 5}, {"labels": "cat"}, {"labels": [1]}, {"labels": None}, {"metrics": []}, {"metrics": 7},
    {"provenance": "x"},
    {"task": 3}, {"task": None}, {"precision": []}, {"height": "8"}, {"width": None}, {"channels": {}}, {"mean": 1},
    {"color": 1}, {"outputs": "a"}, {"name": []}, {"l2_normalize": 1}, {"threshold": "high"},
)  # fmt: skip


def test_a_manifest_of_other_types_is_not_stored(db: Connection) -> None:
    """`labels: 5` broke dbinfer.models for everybody: cannot get array length of a scalar."""
    for change in WRONG:
        key = next(iter(change))
        with pytest.raises(psycopg2.errors.DataException, match=f"the manifest's {key} is"):
            add(db, "odd", GOOD | change)
    for trial in ({"milliseconds": "fast"}, {"by_threads": 3}, {"peak_bytes": []}, {"precision": 1}):
        with pytest.raises(psycopg2.errors.DataException, match=f"the trial's {next(iter(trial))} is"):
            add(db, "odd", trial=trial)
    assert ask(db, "SELECT count(*) FROM dbinfer.models WHERE name = 'odd'") == 0


def test_the_least_that_a_manifest_says_is_stored(db: Connection) -> None:
    assert add(db, "least") == 1
    rows(db, "SELECT dbinfer.drop_model('least', force => true)")


@pytest.mark.wide
def test_views_and_commands_cope_with_whatever_is_stored(
    db: Connection, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Older registries may hold what _add_version let in."""
    before = ask(db, "SELECT manifest FROM dbinfer_private.model_version WHERE model = 'open'")
    put = "UPDATE dbinfer_private.model_version SET manifest = %s WHERE model = 'open'"
    odd: tuple[Any, ...] = (5, "x", None, [1, {}], {"a": [1]})
    keys = ("labels", "metrics", "provenance", "task", "precision", "width")
    manifests = [{**before, key: value} for key in keys for value in odd]
    try:
        for number, manifest in enumerate([*manifests, *odd]):
            rows(db, put, json.dumps(manifest))
            assert len(rows(db, "SELECT * FROM dbinfer.models WHERE name = 'open'")) == 1
            assert len(rows(db, "SELECT * FROM dbinfer.model_versions WHERE name = 'open'")) == 1
            # the commands are slower, and read fewer keys
            for words in (
                (["models"], ["models", "--json"], ["plan", "--images", "2k", "--model", "open"])
                if number % 3
                else ()
            ):
                ended = run([*words, "--dsn", dsn])
                said = capsys.readouterr()
                assert ended in (0, 1), (words, manifest)
                assert not re.search("Traceback|unexpected|bug", said.err + said.out), (words, manifest)
    finally:
        rows(db, put, json.dumps(before))


def run(words: list[str]) -> object:
    try:
        main(words)
    except SystemExit as end:
        return end.code
    return 0


def onnx_file(path: Path) -> bytes:
    """Return a network that OpenVINO runs, for an image of 8 x 8, and that is no IR."""
    import onnx
    from onnx import TensorProto, helper

    image = helper.make_tensor_value_info("image", TensorProto.UINT8, [1, 8, 8, 3])
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, [1, 8, 8, 3])
    graph = helper.make_graph(
        [helper.make_node("Cast", ["image"], ["result"], to=TensorProto.FLOAT)], "g", [image], [result]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, str(path))
    return path.read_bytes()


def test_an_onnx_file_is_neither_stored_nor_run(db: Connection, tmp_path: Path) -> None:
    """OpenVINO looks at the content, not at the name model.xml: it ran."""
    data = onnx_file(tmp_path / "a.onnx")
    with pytest.raises(psycopg2.errors.DataException, match="is not an OpenVINO IR"):
        add(db, "foreign", xml=data)
    # what an older version has let in
    number = add(db, "foreign")
    digest = hashlib.sha256(data).hexdigest()
    where = "WHERE model = 'foreign' AND version = %s"
    rows(db, f"UPDATE dbinfer_private.model_version SET xml_digest = %s {where}", digest, number)
    rows(
        db,
        "UPDATE dbinfer_private.model_part SET digest = %s WHERE kind = 'xml' AND version_id = "
        f"(SELECT id FROM dbinfer_private.model_version {where})",
        digest,
        number,
    )
    for isolation in ("never", "always"):
        rows(db, "SELECT dbinfer.set_isolation('foreign', %s)", isolation)
        with pytest.raises(psycopg2.Error, match="is not an OpenVINO IR"):
            ask(db, "SELECT dbinfer.predict(%s, 'foreign')", IMAGE)


ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e300, 2**63, "", "x", "\u202e\x1b[2J", "9" * 400,
    [], [None], ["a", 1], [[]], [1e308] * 3, {}, {"a": [1]},
)  # fmt: skip


def changed(facts: dict[str, Any], rng: np.random.Generator) -> str:
    """Return JSON of what a client says of a version, with one to three of its values or some of its bytes changed."""
    made = deepcopy(facts)
    for _ in range(int(rng.integers(1, 4))):
        part = made if rng.random() < 0.1 else made[("manifest", "trial")[int(rng.integers(2))]]
        key = sorted(part)[int(rng.integers(len(part)))]
        alike = [odd for odd in ODD if type(odd) is type(part[key])]
        odd = alike if alike and rng.random() < 0.7 else ODD
        part[key] = deepcopy(odd[int(rng.integers(len(odd)))])
        if not all(isinstance(made[name], dict) and made[name] for name in ("manifest", "trial")):
            break
    text = json.dumps(made)
    if rng.random() < 0.3:
        change = (mutate.flip_bits, mutate.cut_out, mutate.repeat_range, mutate.insert_noise)[
            int(rng.integers(4))
        ]
        text = change(text.encode(), rng).decode("utf-8", "replace").replace("\0", "\\u0000")
    return text


# wrong values, no JSON, and texts and numbers that jsonb does not know
SENTENCES = ("22000 ", "22P02 ", "22P05 ", "22003 ")


@pytest.mark.wide
def test_changed_manifests_are_stored_and_readable_or_refused_in_a_sentence(db: Connection) -> None:
    """The server's check is not the runtime's. `mean: [null]` was stored, and then each row an unexpected error."""
    known = "SELECT manifest, xml_digest, bin_digest FROM dbinfer_private.model_version WHERE model = 'open'"
    ((manifest, xml, weights),) = rows(db, known)
    parts = (
        "SELECT coalesce(jsonb_agg(digest ORDER BY part), '[]') FROM dbinfer_private.model_part p "
        "JOIN dbinfer_private.model_version v ON v.id = p.version_id WHERE v.model = 'open' AND kind = %s"
    )
    sound = {
        "manifest": {**manifest, "mean": [1.0], "scale": [2.0], "labels": ["a", "b", "c"]}, "size": "9",
        "source_digest": "1" * 64, "xml_digest": xml, "bin_digest": weights, "trial": TRIAL,
        "xml_parts": ask(db, parts, "xml"), "bin_parts": ask(db, parts, "bin"),
    }  # fmt: skip
    call = "SELECT dbinfer._add_version('changed', %s, true, dbinfer._ask('dbinfer deploy'))"
    backend, stored, refused = db.info.backend_pid, 0, 0
    for number in range(5000 if os.environ.get("LONG") else 400):
        rng = np.random.default_rng([23, number])
        said = why_not(db, call, changed(sound, rng))
        stored, refused = stored + (not said), refused + bool(said)
        assert not said or (said.startswith(SENTENCES) and "\n" not in said), (number, said)
        assert len(rows(db, "SELECT * FROM dbinfer.models")) >= 1
        if stored and number % 8 == 0:
            assert len(rows(db, "SELECT * FROM dbinfer.model_versions")) > stored
            said = why_not(db, "SELECT dbinfer.predict(%s, 'changed')", IMAGE)
            assert not re.search("XX000|unexpected|bug|\x1b|\n", said), (number, said)
    assert min(stored, refused) > 50
    assert db.info.backend_pid == backend
    rows(db, "SELECT dbinfer.drop_model('changed', force => true)")


def why_not(db: Connection, query: str, *values: Any) -> str:
    """Return what the server says against a query; nothing where it has none."""
    try:
        rows(db, query, *values)
    except psycopg2.Error as err:
        return f"{err.pgcode} {err.diag.message_primary}"
    return ""


CHOICE = {
    "op_code": 5,
    "trial_id": 0,
    "param_name": "b",
    "distribution": '{"name": "CategoricalDistribution"}',
}


def test_entries_of_a_study_that_are_none(db: Connection) -> None:
    """One with the op_code "x" broke dbinfer.trials for everybody."""
    plain = json.dumps({"name": "FloatDistribution"})
    good = [
        {"op_code": 4, "datetime_start": "2026-01-01T00:00:00"},
        {"op_code": 5, "trial_id": 0, "param_name": "a", "param_value_internal": 1.0, "distribution": plain},
        {"op_code": 7, "trial_id": 0, "step": 1, "intermediate_value": 0.5},
        {
            "op_code": 6,
            "trial_id": 0,
            "state": 1,
            "values": [0.5],
            "datetime_complete": "2026-01-01T00:00:01",
        },
    ]
    odd: list[Any] = [
        5, "x", [], {}, {"op_code": "x"}, {"op_code": 1e300}, {"op_code": 5, "trial_id": "x"},
        {"op_code": 5, "trial_id": 1e300}, {"op_code": 5, "trial_id": 0},
        {"op_code": 5, "trial_id": 0, "param_name": "b", "distribution": "x"},
        {**CHOICE, "param_value_internal": "x"}, {**CHOICE, "param_value_internal": 1e99},
        {"op_code": 6, "trial_id": 0, "state": "x"}, {"op_code": 6, "trial_id": 0, "state": 1e99},
        {"op_code": 6, "trial_id": 0, "values": ["x"]}, {"op_code": 6, "trial_id": 0, "datetime_complete": "never"},
        {"op_code": 7, "trial_id": 0}, {"op_code": 4, "datetime_start": "x"}, {"op_code": 4, "state": "x"},
    ]  # fmt: skip
    for entry in good:
        rows(db, "SELECT dbinfer._add_journal_entry('sound', %s)", json.dumps(entry))
    before = rows(db, "SELECT * FROM dbinfer.trials WHERE study = 'sound'")
    assert before[0][:5] == ("sound", 0, "complete", 0.5, {"a": 1.0})
    for entry in odd:
        with pytest.raises(psycopg2.DataError, match="an entry of the journal makes no sense"):
            rows(db, "SELECT dbinfer._add_journal_entry('odd', %s)", json.dumps(entry))
    assert rows(db, "SELECT * FROM dbinfer.trials") == before
    rows(db, "DELETE FROM dbinfer_private.tuning_journal")


def test_what_optuna_tells_is_stored(db: Connection) -> None:
    optuna = pytest.importorskip("optuna")
    from optuna.storages.journal import BaseJournalBackend, JournalStorage

    kept: list[dict[str, Any]] = []

    class Kept(BaseJournalBackend):
        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            kept.extend(logs)

        def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
            return kept[log_number_from:]

    def once(trial: Any) -> float:
        trial.set_user_attr("worker", "a")
        trial.report(trial.suggest_float("rate", 1e-4, 1, log=True), 1)
        trial.suggest_categorical("network", ["a", None, 2])
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError
        return float(trial.suggest_int("layers", 1, 3))

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=JournalStorage(Kept()), study_name="told")
    study.optimize(once, n_trials=4, catch=ValueError)
    for log in kept:
        rows(db, "SELECT dbinfer._add_journal_entry('told', %s)", json.dumps(log))
    states = [
        state for (state,) in rows(db, "SELECT state FROM dbinfer.trials WHERE study = 'told' ORDER BY trial")
    ]
    assert states == ["complete", "pruned", "failed", "complete"]
    rows(db, "DELETE FROM dbinfer_private.tuning_journal")
