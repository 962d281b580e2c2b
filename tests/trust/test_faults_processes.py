"""Backends and clients are killed, statements time out: the registry is as before or complete, the same call works."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows, without_timeout
from breakable import IMAGE, PREDICT, SEVEN, SLOW, Breakable, empty, kill, outcome, until
from costly_models import wide_model

pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("breaks a server that is its own"),
    pytest.mark.usefixtures("as_before"),
]
SCORING = """
SELECT pid FROM pg_stat_activity
 WHERE state = 'active' AND query LIKE '%count(dbinfer.predict%' AND pid <> pg_backend_pid()"""


def test_a_backend_killed_while_scoring_costs_its_statement_only(broken: Breakable) -> None:
    before = broken.registry()
    with broken.session() as db:
        make_images(db, "many", [IMAGE], 600)
    text = "SELECT count(dbinfer.predict(img, 'slow')) FROM many"
    with closing(psycopg2.connect(broken.dsn, async_=True)) as scoring, broken.session() as killer:
        psycopg2.extensions.register_type(psycopg2.extensions.UNICODE)
        until(lambda: scoring.poll() == psycopg2.extensions.POLL_OK, "the session is open")
        scoring.cursor().execute(text)
        until(lambda: rows(killer, SCORING), "the statement runs")
        kill(rows(killer, SCORING)[0][0])
        with pytest.raises(psycopg2.Error):
            until(lambda: scoring.poll() == psycopg2.extensions.POLL_OK, "the statement ends")
    until(lambda: _answers(broken), "the server has recovered")
    assert broken.registry() == before


def _answers(broken: Breakable) -> bool:
    try:
        with broken.session() as db:
            return bool(ask(db, "SELECT NOT pg_is_in_recovery()"))
    except psycopg2.OperationalError:
        return False


def test_what_a_killed_backend_left_half_written_goes_with_the_next_use(broken: Breakable) -> None:
    empty(broken.cache)
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
    (folder,) = broken.cache.iterdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [folder / f"{gone.pid}-abc.tmp", folder / "blobs" / f"{gone.pid}-def.tmp" / "x.blob"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    living = folder / f"{os.getpid()}-abc.tmp"
    living.write_bytes(b"another backend is writing this")
    for path in (*left, left[1].parent, living):
        shutil.chown(path, folder.owner())
    for kind in ("model.bin", "stamp.json"):
        (folder / kind).unlink()
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
    there = [path.exists() for path in (*left, living)]
    living.unlink()
    assert there == [False, False, True]


def test_deploy_killed_while_it_sends_leaves_nothing_and_works_again(
    broken: Breakable, tmp_path: Path
) -> None:
    model = wide_model(tmp_path, 12)
    before = broken.registry()
    broken.kill_client_at("LOCK TABLE dbinfer_private.part IN SHARE MODE", "deploy", model)
    until(lambda: broken.registry() == before, "the registry is as before")
    assert broken.leftovers() == []
    broken.run("deploy", model)
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "wide") == [1, 1, 1]
        rows(db, "SELECT dbinfer.drop_model('wide', force => true)")


def test_upgrade_killed_in_the_middle_leaves_the_old_state_and_works_again(broken: Breakable) -> None:
    with broken.session() as db:
        rows(db, "UPDATE dbinfer_private.setting SET value = 'older' WHERE name LIKE '%%digest%%'")
    before = broken.registry()
    broken.kill_client_at("LOCK TABLE dbinfer_private.setting IN SHARE MODE", "upgrade")
    until(lambda: broken.registry() == before, "the registry is as before")
    assert "upgraded" in broken.run("upgrade")
    assert broken.registry() != before
    assert "nothing changed" in broken.run("upgrade")


def test_load_killed_in_the_middle_leaves_the_table_as_it_was_and_works_again(
    broken: Breakable, tmp_path: Path
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for number in range(40):
        folder = first if number < 20 else second
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.png").write_bytes(IMAGE)
    broken.run("load", first, "--table", "loads")
    broken.kill_client_at("LOCK TABLE loads IN SHARE MODE", "load", second, "--table", "loads")
    with broken.session() as db:
        until(lambda: broken.leftovers() == [], "its session is gone")
        assert ask(db, "SELECT count(*) FROM loads") == 20
        broken.run("load", second, "--table", "loads")
        assert rows(db, "SELECT count(*), count(DISTINCT path) FROM loads") == [(40, 40)]


def test_quantize_killed_leaves_no_file_and_works_again(broken: Breakable, tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    source = tiny_models.convolution(tmp_path)
    target = tmp_path / "out" / "conv-int8.xml"
    target.parent.mkdir()
    with broken.session() as db:
        make_images(db, "calibration", [tiny_models.file(tiny_models.picture(n, 30, 10)) for n in range(32)])
    words = (
        "quantize",
        source,
        "-o",
        target,
        "--calibrate",
        "SELECT img FROM calibration",
        "--subset",
        "8",
        "--limit",
        "0",
    )
    broken.kill_client_at("LOCK TABLE calibration IN ACCESS EXCLUSIVE MODE", *words)
    assert list(target.parent.iterdir()) == []
    broken.run(*words)
    assert sorted(path.name for path in target.parent.iterdir()) == ["conv-int8.bin", "conv-int8.xml"]


@pytest.mark.parametrize("milliseconds", [1, 5, 10, 20, 40, 80, 160, 320])
def test_a_timeout_during_import_compile_or_inference_is_one_error_and_the_session_goes_on(
    broken: Breakable, milliseconds: int
) -> None:
    with broken.session() as db:
        make_images(db, "few", [IMAGE], 5)
    empty(broken.cache)
    with broken.session() as db:
        rows(db, f"SET statement_timeout = {milliseconds}")
        for _ in range(3):
            found, diag = outcome(db, "SELECT dbinfer.predict(img, 'slow') FROM few")
            assert found == [(SLOW,)] * 5 if diag is None else diag.sqlstate == "57014", diag
        without_timeout(db)
        assert rows(db, "SELECT dbinfer.predict(img, 'slow') FROM few") == [(SLOW,)] * 5
