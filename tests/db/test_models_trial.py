"""Models are tried before they are believed: at deploy, and on each host by whoever needs one first."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused
from engine_processes import below, threads
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, ModelFileError
from dbinfer.models import DeployOptions, deploy, precision
from dbinfer.models.ir import import_openvino
from dbinfer_udf.host import sandbox
from dbinfer_udf.model.trial import Result

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
    monkeypatch.setattr(precision, "try_model", lambda *given: Result(0.1, 0.1, 1))


@pytest.mark.wide
def test_what_the_trial_took_is_stored(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path, "sound")
    done = deploy(path, dsn=dsn)
    assert done.trial is not None
    stored = ask(db, "SELECT trial FROM dbinfer.model_versions WHERE name = 'sound'")
    assert stored == {
        "compile_milliseconds": done.trial.compile_milliseconds,
        "milliseconds": done.trial.milliseconds,
        "peak_bytes": done.trial.peak_bytes,
        "batch_milliseconds": done.trial.batch_milliseconds,
        "by_threads": done.trial.by_threads,
        "busy": done.trial.busy,
    }
    assert deploy(path, dsn=dsn).trial is None


def test_an_open_precision_is_chosen_once_and_its_reasons_are_stored(
    db: Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "precisions", lambda: ["bf16"])
    monkeypatch.setattr(precision, "WORTH_MILLISECONDS", 0.0)
    monkeypatch.setattr(precision, "GAIN", 1e9)  # any speed: the processor of the tests may be of any kind
    path = tiny_models.convolution(tmp_path, "left_open")
    done = deploy(path, DeployOptions(values={"precision": "auto"}), dsn=dsn)
    assert done.choice is not None
    assert done.choice.images == precision.IMAGES
    shown = "SELECT precision FROM dbinfer.models WHERE name = 'left_open'"
    assert ask(db, shown) == done.manifest.precision == done.choice.precision
    stored = ask(db, "SELECT trial->'precision' FROM dbinfer.model_versions WHERE name = 'left_open'")
    assert stored["precision"] == done.choice.precision
    assert set(stored["tried"]) == {"f32", "bf16"}
    assert stored["tried"]["bf16"]["agreement"] >= 0
    again = deploy(path, DeployOptions(values={"precision": "auto"}), dsn=dsn)
    assert (again.new, again.choice, again.manifest.precision) == (False, None, done.manifest.precision)
    said = deploy(path, DeployOptions(values={"precision": "f32"}), dsn=dsn)
    assert (said.new, said.choice, said.manifest.precision) == (True, None, "f32")


@pytest.mark.wide
def test_precisions_are_compared_on_images_of_a_query(
    db: Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "precisions", lambda: ["bf16"])
    monkeypatch.setattr(precision, "WORTH_MILLISECONDS", 0.0)
    with db.cursor() as cur:
        cur.execute("CREATE TABLE seen AS SELECT %s::bytea AS img FROM generate_series(1, 5)", (IMAGE,))
    values = {"precision": "auto"}
    path = tiny_models.convolution(tmp_path, "on_images")
    done = deploy(path, DeployOptions(values=values, check="SELECT img FROM seen"), dsn=dsn)
    assert done.choice is not None
    assert (done.choice.images, done.choice.of_query) == (5, True)
    with pytest.raises(DataError, match="returns no images"):
        deploy(path, DeployOptions("empty", values=values, check="SELECT img FROM seen WHERE false"), dsn=dsn)
    with pytest.raises(DataError, match="cannot be used"):
        deploy(path, DeployOptions("bad", values=values, check="SELECT '\\x00'::bytea"), dsn=dsn)
    assert ask(db, "SELECT count(*) FROM dbinfer.models WHERE name IN ('empty', 'bad')") == 0


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
@pytest.mark.skipif(
    not (sandbox.landlock_version() and sandbox.has_seccomp()),
    reason="this kernel has no Landlock, or no filter of system calls",
)
@pytest.mark.postgres_only("looks for the backend's processes on this host")
def test_the_trial_of_a_backend_is_shut_in(db: Connection, dsn: str, tmp_path: Path) -> None:
    """It had all rights of the server's user, where it was not an engine that tried."""
    deploy(tiny_models.loop(tmp_path, ENDLESS, "watched"), dsn=dsn)
    with db.cursor() as cur:
        cur.execute("SELECT dbinfer.set_isolation('watched', 'never')")
        cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '300')")
    found: list[dict[str, str]] = []

    def look() -> None:
        pid, until = db.info.backend_pid, time.monotonic() + 120
        while time.monotonic() < until and not found:
            found.extend(threads(one)[one] for one in below(pid)[1:] if filtered(one))
            time.sleep(0.02)
        with psycopg2.connect(dsn) as other, other.cursor() as cur:
            cur.execute("SELECT pg_cancel_backend(%s)", (pid,))
        other.close()

    watch = threading.Thread(target=look)
    watch.start()
    try:
        with pytest.raises(psycopg2.errors.QueryCanceled):
            ask(db, "SELECT dbinfer.predict(%s, 'watched')", IMAGE)
    finally:
        watch.join()
        ask(db, "SELECT dbinfer_private.set_setting('max_inference_seconds', '1') IS NULL")
    (status,) = found
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) & ~0b110 == 0


def filtered(pid: int) -> bool:
    """Return whether a process has more filters of system calls than this one; a container's has some already."""
    own = os.getpid()
    found, here = threads(pid), threads(own)[own]
    return pid in found and int(found[pid]["Seccomp_filters"]) > int(here["Seccomp_filters"])


@pytest.mark.wide
@pytest.mark.usefixtures("believed")
def test_a_cancel_ends_the_trial(db: Connection, dsn: str, tmp_path: Path) -> None:
    with db.cursor() as cur:
        cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '300')")
        try:
            deploy(tiny_models.loop(tmp_path, ENDLESS, "cancelled"), dsn=dsn)
            cur.execute("SET statement_timeout = '2s'")
            with pytest.raises(psycopg2.errors.QueryCanceled):
                cur.execute("SELECT dbinfer.predict(%s, 'cancelled')", (IMAGE,))
        finally:
            cur.execute("RESET statement_timeout")
            cur.execute("SELECT dbinfer_private.set_setting('max_inference_seconds', '1')")
    assert ask(db, "SELECT count(*) FROM dbinfer.model_versions WHERE name = 'cancelled'") == 1
