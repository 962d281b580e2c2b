"""`dbinfer tune`: trials are rows; workers share them, die, and are replaced; the best model is ready for SQL."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalog import another_database
from digit_tables import digit_table
from searching import ask, kill_a_worker
from variants import at_length

pytest.importorskip("optuna")

from dbinfer.base.errors import DataError
from dbinfer.base.progress import Progress
from dbinfer.convert import convert
from dbinfer.models import DeployOptions, deploy
from dbinfer.train import TrainOptions
from dbinfer.tune import TuneOptions, tune
from dbinfer.tune.study import Journal

SEARCH = ["lr=1e-4..1e-1:log", "batch=16,32"]
QUERY = "SELECT img, label, id FROM scans"


@pytest.fixture(scope="module")
def scans(dsn: str) -> str:
    return digit_table(dsn, "scans", 200)


def options(out: Path, **more: Any) -> TuneOptions:
    train = TrainOptions(epochs=2, val_fraction=0.2, threads=1)
    return TuneOptions(**{"train": train, "trials": 3, "pruner": "none", "out": str(out), **more})


def test_a_search_leaves_rows_a_picture_and_a_model_for_sql(scans: str, tmp_path: Path) -> None:
    told: list[Progress] = []
    report = tune("digits", QUERY, SEARCH, options(tmp_path, workers=2, trials=2), scans, told.append)
    assert len(report.trials) == 2
    assert next(one.note for one in told if one.note).startswith("trial ")
    rows = ask(
        scans,
        "SELECT trial, state, value, params, scores FROM dbinfer.trials WHERE study = 'digits' ORDER BY 1",
    )
    assert [row[:2] for row in rows] == [(number, "complete") for number in range(2)]
    for row, trial in zip(rows, report.trials, strict=True):
        assert row[2] == pytest.approx(trial.value)
        assert row[3]["lr"] == pytest.approx(trial.values["lr"])
        assert row[3]["batch"] == trial.values["batch"]
        assert row[4] == {str(epoch): pytest.approx(score) for epoch, score in trial.scores.items()}
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    assert report.best.value == max(row[2] for row in rows)

    convert(report.model, tmp_path / "digits.xml")
    deploy(tmp_path / "digits.xml", DeployOptions(name="tuned"), scans)
    found = ask(
        scans, "SELECT provenance->'tuning'->>'trial', provenance->'training'->>'lr' FROM dbinfer.models"
    )
    assert found == [(str(report.best.number), str(report.best.values["lr"]))]

    with pytest.raises(DataError, match="the study 'digits' has begun already"):
        tune("digits", QUERY, SEARCH, options(tmp_path), scans)
    with pytest.raises(DataError, match="the study 'digits' was begun with search"):
        tune("digits", QUERY, SEARCH[:1], options(tmp_path, resume=True), scans)


@at_length
def test_a_search_goes_on(scans: str, tmp_path: Path) -> None:
    given = options(tmp_path, study="more", workers=2, trials=2)
    tune("digits", QUERY, SEARCH, given, scans)
    more = tune("digits", QUERY, SEARCH, replace(given, resume=True, trials=3), scans)
    assert [trial.number for trial in more.trials] == [0, 1, 2]


@pytest.mark.wide
def test_a_killed_worker_loses_no_trial(scans: str, tmp_path: Path) -> None:
    """kill -9 in the middle of a trial: the trial is trained again, with the same values, and none stays running."""
    killer = threading.Thread(target=_kill_one, args=(scans, "killed"), daemon=True)
    killer.start()
    report = tune("digits", QUERY, SEARCH, options(tmp_path, study="killed", trials=4), scans)
    killer.join(60)
    assert not list(tmp_path.glob("trial-*/checkpoint-*"))
    states = ask(
        scans, "SELECT state, count(*)::int FROM dbinfer.trials WHERE study = 'killed' GROUP BY 1 ORDER BY 1"
    )
    assert states == [("complete", 4), ("failed", 1)]
    assert len(report.taken_up) == 1
    values = ask(scans, "SELECT params FROM dbinfer.trials WHERE study = 'killed' ORDER BY state DESC, trial")
    assert values[0] in values[1:]


def _kill_one(dsn: str, study: str) -> None:
    """Kill the worker whose trial has begun."""
    begun = f"SELECT 1 FROM dbinfer.trials WHERE study = '{study}' AND state = 'running' AND params ? 'batch'"
    kill_a_worker(dsn, begun)


@at_length
def test_pruning_takes_fewer_epochs(scans: str, tmp_path: Path) -> None:
    train = TrainOptions(epochs=6, val_fraction=0.2, threads=1)
    given = options(tmp_path, study="pruned", train=train, trials=8, pruner="hyperband")
    report = tune("digits", QUERY, SEARCH, given, scans)
    assert {trial.state for trial in report.trials} == {"complete", "pruned"}
    assert report.epoch_share < 1
    states = ask(
        scans, "SELECT state, count(*)::int FROM dbinfer.trials WHERE study = 'pruned' GROUP BY 1 ORDER BY 1"
    )
    assert dict(states)["pruned"] == sum(trial.state == "pruned" for trial in report.trials)


@pytest.mark.wide
def test_values_that_no_network_can_have_fail_and_the_search_goes_on(scans: str, tmp_path: Path) -> None:
    report = tune("digits", QUERY, ["dropout=-1,0.25"], options(tmp_path, study="odd", trials=4), scans)
    failed = [trial for trial in report.trials if trial.state == "failed"]
    assert failed
    assert all("dropout" in trial.note or "rate" in trial.note for trial in failed)
    assert report.best.values == {"dropout": 0.25}


def test_two_writers_leave_no_gap_in_the_journal(scans: str) -> None:
    journals = [Journal(scans, "writers") for _ in range(3)]

    def write(journal: Journal) -> None:
        for number in range(40):
            journal.append_logs([{"op_code": 2, "number": number}, {"op_code": 2, "number": -number}])

    threads = [threading.Thread(target=write, args=(journal,)) for journal in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(journals[0].read_logs(0))) == 240
    assert ask(
        scans, "SELECT max(number)::int FROM dbinfer_private.tuning_journal WHERE study = 'writers'"
    ) == [(239,)]
    first, second, _ = [journal.become_worker() for journal in journals]
    assert (first, second) == (1, 2)
    assert journals[0].is_alive(2)
    journals[1].close()
    while journals[0].is_alive(2):  # the server notices within a moment
        time.sleep(0.01)
    for journal in (journals[0], journals[2]):
        journal.close()


def test_a_database_without_dbinfer(empty_dsn: str, tmp_path: Path) -> None:
    without = "dbinfer is not installed in this database"
    with (
        another_database(empty_dsn, "test_without_dbinfer") as other,
        pytest.raises(DataError, match=without),
    ):
        tune("digits", "digits", SEARCH, options(tmp_path), other)
