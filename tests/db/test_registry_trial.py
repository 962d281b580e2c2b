"""Models are tried before they are believed: at deploy, and on each host by whoever needs one first."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused
from psycopg2.extensions import connection as Connection

from dbinfer.errors import ModelFileError
from dbinfer.ir import import_openvino
from dbinfer.registry import deploy
from dbinfer_udf.trial import Result

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
ENDLESS = 2 * 10**9
TABLES = ("model", "model_version", "model_part", "part")


@pytest.fixture(scope="module", autouse=True)
def limits(dsn: str) -> None:
    """One second an image: 30, the default, would only make the tests wait."""
    with psycopg2.connect(dsn) as conn, conn.cursor() as cur:
        cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '1')")
    conn.close()


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that believes what it is given, as one that calls the SQL functions itself."""
    monkeypatch.setattr("dbinfer.registry.trial.try_model", lambda *given: Result(0.1, 0.1, 1))


def test_what_the_trial_took_is_stored(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path, "sound")
    done = deploy(path, dsn=dsn)
    assert done.trial is not None
    stored = ask(db, "SELECT trial FROM dbinfer.model_versions WHERE name = 'sound'")
    assert stored == {
        "compile_milliseconds": done.trial.compile_milliseconds,
        "milliseconds": done.trial.milliseconds,
        "peak_bytes": done.trial.peak_bytes,
    }
    assert deploy(path, dsn=dsn).trial is None


def shortened(folder: Path) -> Path:
    path = tiny_models.convolution(folder, "shortened")
    weights = path.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes()[:-100])
    return path


def newer(folder: Path) -> Path:
    path = tiny_models.convolution(folder, "newer")
    graph = import_openvino().Core().read_model(path)
    text = graph.get_rt_info(["dbinfer", "manifest"]).astype(str)
    graph.set_rt_info(text.replace("{", '{"schema": 2, ', 1), ["dbinfer", "manifest"])
    import_openvino().save_model(graph, folder / "later.xml")
    return folder / "later.xml"


def malformed(folder: Path) -> Path:
    path = tiny_models.convolution(folder, "malformed")
    path.write_text(path.read_text().replace('type="Convolution"', 'type="Convulsion"'))
    return path


HOSTILE = {
    "loop": (lambda folder: tiny_models.loop(folder, ENDLESS), "one image took more than 1 s"),
    "terabytes": (tiny_models.enormous, "was not deployed"),
    "short weights": (shortened, "OpenVINO cannot read"),
    "newer manifest": (newer, "schema 2 is newer"),
    "malformed": (malformed, "OpenVINO cannot read"),
}


def counts(db: Connection) -> list[int]:
    return [ask(db, f"SELECT count(*) FROM dbinfer_private.{table}") for table in TABLES]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_refused_leaves_nothing(db: Connection, dsn: str, tmp_path: Path, name: str) -> None:
    make, message = HOSTILE[name]
    before = counts(db)
    with pytest.raises(ModelFileError, match=message):
        deploy(make(tmp_path), dsn=dsn)
    assert counts(db) == before


@pytest.mark.usefixtures("believed")
def test_the_first_use_of_what_nobody_tried_is_bounded(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.loop(tmp_path, ENDLESS, "untried"), dsn=dsn)
    for _ in range(2):  # the second answer comes from the host cache
        diag = refused(db, "55000", "SELECT dbinfer.predict(%s, 'untried')", IMAGE)
        assert diag.message_primary == "dbinfer: the model was not run: one image took more than 1 s"
        assert "--max-inference-seconds" in diag.message_hint


@pytest.mark.usefixtures("believed")
def test_a_cancel_ends_the_trial(db: Connection, dsn: str, tmp_path: Path) -> None:
    with db.cursor() as cur:
        cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '500')")
        try:
            deploy(tiny_models.loop(tmp_path, ENDLESS, "cancelled"), dsn=dsn)
            cur.execute("SET statement_timeout = '2s'")
            with pytest.raises(psycopg2.errors.QueryCanceled):
                cur.execute("SELECT dbinfer.predict(%s, 'cancelled')", (IMAGE,))
        finally:
            cur.execute("RESET statement_timeout")
            cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '1')")
    assert ask(db, "SELECT count(*) FROM dbinfer.model_versions WHERE name = 'cancelled'") == 1
