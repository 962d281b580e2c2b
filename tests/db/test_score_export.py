"""export: rows become files in a folder or a bucket, each once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import obstore
import psycopg2
import pytest
import tiny_models
from asking import PARALLEL, ask, make_images, rows
from buckets import BUCKET, bucket
from obstore.store import S3Store
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import DataError, DbinferError, UsageError
from dbinfer.base.progress import Progress
from dbinfer.models import deploy
from dbinfer.score import ExportOptions, export

ROWS = 40
MASKS = "SELECT 'part ' || id % 3 || '/' || id || '.png', dbinfer.segment(img, 'redness') FROM images"
SLOWLY = """CREATE FUNCTION slowly(seconds double precision) RETURNS text LANGUAGE plpgsql STABLE AS
$$ BEGIN PERFORM pg_sleep(seconds); RETURN ''; END $$"""


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.red_mask(tmp_path_factory.mktemp("irs")), dsn=dsn)
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, SLOWLY)


@pytest.fixture(autouse=True)
def counting(db: Connection) -> Iterator[None]:
    pictures = [tiny_models.file(tiny_models.picture(30 * n, 0, 0)) for n in range(4)]
    make_images(db, "images", list(pictures), copies=ROWS // 4)
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    yield
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")


def scored(db: Connection) -> int:
    """Return how many rows were scored so far, by all sessions."""
    return int(ask(db, "SELECT coalesce(sum(rows), 0) FROM dbinfer.usage"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def done(folder: Path) -> list[Path]:
    """Return the texts that are there whole, while an export writes more."""
    return list(folder.glob("*.txt"))


def masks(db: Connection) -> dict[str, bytes]:
    return dict(rows(db, MASKS))


class TestFolder:
    """What a folder gets."""

    def test_masks_are_the_files_that_sql_returns(self, db: Connection, dsn: str, tmp_path: Path) -> None:
        seen: list[Progress] = []
        report = export(MASKS + " -- all of them;", tmp_path / "new" / "masks", dsn=dsn, progress=seen.append)
        found = files(tmp_path / "new" / "masks")
        assert found == masks(db)
        assert (report.written, report.skipped, report.empty) == (ROWS, 0, 0)
        assert report.bytes == sum(map(len, found.values()))
        assert (seen[-1].done, seen[-1].total, seen[-1].unit) == (ROWS, ROWS, "files")

    def test_a_second_run_scores_only_what_is_missing(self, db: Connection, dsn: str, tmp_path: Path) -> None:
        export(MASKS, tmp_path, dsn=dsn)
        (tmp_path / "part 1" / "1.png").unlink()
        (tmp_path / "mine").write_text("which is no row's")
        before, kept = scored(db), (tmp_path / "part 2" / "2.png").stat().st_mtime_ns
        report = export(MASKS, tmp_path, dsn=dsn)
        assert (report.written, report.skipped) == (1, ROWS - 1)
        assert scored(db) - before == 1
        assert (tmp_path / "part 2" / "2.png").stat().st_mtime_ns == kept
        (tmp_path / "mine").unlink()
        assert files(tmp_path) == masks(db)

    def test_names_of_all_kinds_are_known_again(
        self, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # in several parts
        monkeypatch.setattr(sys.modules["dbinfer.score.export"], "MOST_NAMES", 2)
        names = ["käse", "it's", 'a "b"', "c\\d", "100 %s", "{}", "\t", "ünd/so weiter", "€.png"]
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
        query = f"SELECT name, 'x' FROM unnest(ARRAY[{listed}]) name"
        assert export(query, tmp_path, dsn=dsn).written == len(names)
        (tmp_path / "it's").unlink()
        report = export(query, tmp_path, dsn=dsn)
        assert (report.written, report.skipped) == (1, len(names) - 1)

    @pytest.mark.parametrize(
        ("more", "again"),
        [
            (" ORDER BY id DESC", False),
            (" LIMIT 30", True),
            *wide((" WHERE id IN (SELECT id FROM images)", False), (" OFFSET 0", True)),
        ],
    )
    @pytest.mark.postgres_only("the planner of PostgreSQL")
    def test_what_is_scored_again_is_said(
        self, db: Connection, dsn: str, tmp_path: Path, more: str, again: bool
    ) -> None:
        export(MASKS + more, tmp_path, dsn=dsn)
        before, seen = scored(db), list[Progress]()
        report = export(MASKS + more, tmp_path, dsn=dsn, progress=seen.append)
        assert report.written == 0
        assert (scored(db) > before) is again
        assert any("scored again" in one.note for one in seen) is again

    @pytest.mark.postgres_only("parallel plans")
    @pytest.mark.wide
    def test_workers_share_the_rows_also_of_a_second_run(
        self, db: Connection, dsn: str, tmp_path: Path
    ) -> None:
        """A cursor has no parallel plan, and a temporary table is none of the workers'."""
        rows(db, "ALTER TABLE images ADD seen integer DEFAULT 0, SET (parallel_workers = 2)")
        options = " ".join(f"-c {name}={value}" for name, value in PARALLEL.items())
        forced = make_dsn(dsn, options=options + " -c parallel_leader_participation=off")
        query = "SELECT id || '.txt', pg_backend_pid()::text FROM images"
        export(query + " WHERE id < 20", tmp_path, dsn=forced)
        assert export(query, tmp_path, dsn=forced).skipped == 20
        assert len(files(tmp_path)) == ROWS
        assert len(set(files(tmp_path).values())) > 1

    def test_texts_and_all_else(self, db: Connection, dsn: str, tmp_path: Path) -> None:
        cases = {
            "'käse.txt', 'grüße'::text": "grüße",
            "'a.json', '{\"a\": [1, 2.50]}'::json": '{"a": [1, 2.50]}',
            "'b.json', '{1,2}'::integer[]": "[1,2]",
            "'c', 5": "5",
            "'d', ''": "",
        }
        for case, content in cases.items():
            assert export(f"SELECT {case}", tmp_path, dsn=dsn).written == 1
            assert content in [data.decode() for data in files(tmp_path).values()]
        label = "SELECT 'label', dbinfer.classify(img, 'colours') FROM images WHERE id = 1"
        export(label, tmp_path, dsn=dsn)
        assert json.loads((tmp_path / "label").read_text())["label"] == "red"

    def test_null_makes_no_file(self, dsn: str, tmp_path: Path) -> None:
        report = export(
            "SELECT n::text, CASE WHEN n > 2 THEN 'x' END FROM generate_series(1, 5) n", tmp_path, dsn=dsn
        )
        assert (report.written, report.empty, report.skipped) == (3, 2, 0)
        assert sorted(files(tmp_path)) == ["3", "4", "5"]

    @pytest.mark.wide
    def test_a_million_rows_do_not_grow_the_client(self, dsn: str, tmp_path: Path) -> None:
        """Rows come as they are written: 64 MiB of 4 GiB wait at most; stopped after some."""

        def stop(progress: Progress) -> None:
            if progress.done == 100:
                raise KeyboardInterrupt

        query = "SELECT n::text, pg_catalog.repeat('x', 4194304) FROM generate_series(1, 1000) n"
        before = memory()
        with pytest.raises(KeyboardInterrupt):
            export(query, tmp_path, dsn=dsn, progress=stop)
        assert memory() - before < 400 << 20
        assert 100 <= len(files(tmp_path)) < 200


def memory() -> int:
    """Return the most memory that this process has had."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT '../out', 'x'", "'../out' cannot be the name of a file"),
        ("SELECT NULL::text, 'x'", "no name"),
        ("SELECT 'a', 'x' UNION ALL SELECT 'a', 'y'", "two rows of the query have the name 'a'"),
        ("SELECT 'a', 'x' UNION ALL SELECT 'a/b', 'y'", "cannot be written to"),
        ("SELECT 1, 'x'", "must return a name"),
        *wide(
            ("SELECT '/etc/x', 'x'", "cannot be the name"),
            ("SELECT 'a//b', 'x'", "cannot be the name"),
            ("SELECT 'a/./b', 'x'", "cannot be the name"),
            ("SELECT '.dbinfer-export/0', 'x'", "cannot be the name"),
            ("SELECT '', 'x'", "no name"),
            ("SELECT repeat('n', 300), 'y'", "File name too long"),
            ("SELECT 'there', 'y'", "directory"),
            ("SELECT 'a'", "must return a name"),
            ("SELECT 'a', 'b', 'c'", "must return a name"),
            ("DELETE FROM images", "syntax error"),
            ("SELECT 'a', 1/0", "division by zero"),
            ("", "syntax error"),
        ),
    ],
)
def test_a_bad_query_is_one_sentence(dsn: str, tmp_path: Path, query: str, said: str) -> None:
    (tmp_path / "folder" / "there").mkdir(parents=True)
    with pytest.raises(DataError, match=said) as caught:
        export(query, tmp_path / "folder", dsn=dsn)
    assert "\n" not in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]
    assert [path.name for path in (tmp_path / "folder").iterdir() if path.name.startswith(".")] == []


@pytest.mark.wide
def test_rows_of_one_name_that_nobody_could_count(dsn: str, tmp_path: Path) -> None:
    """Where the names come from scored rows, they are looked at as they are written."""
    query = "SELECT 'x' || (dbinfer.classify(img, 'colours')).class, 'y' FROM images"
    with pytest.raises(DataError, match="two rows of the query have the name 'x"):
        export(query, tmp_path, dsn=dsn)


def test_bad_places_are_one_sentence(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be a folder"):
        export(MASKS, tmp_path / "file", dsn=dsn)
    for place, options in (("ftp://host/x", ExportOptions()), (tmp_path, ExportOptions(endpoint="http://x"))):
        with pytest.raises(UsageError):
            export(MASKS, place, options, dsn=dsn)


def started(dsn: str, query: str, to: Path | str, *more: str, **env: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from dbinfer.cli import main; main()", "export", query, "--to", str(to)]
    return subprocess.Popen(
        [*program, "--dsn", dsn, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )


def slowly(seconds: float) -> str:
    """Return a query whose rows are slow; by a STABLE function, as a volatile one runs when rows are counted, too."""
    return f"SELECT n || '.txt', repeat(n::text, 5000) || slowly({seconds}) FROM generate_series(1, 200) n"


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_killed_in_the_midst_and_run_again(dsn: str, tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("killed", "whole")}
    process = started(dsn, slowly(0.02), places["killed"])
    until(lambda: len(done(places["killed"])) > 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 20 < len(done(places["killed"])) < 200
    (places["killed"] / ".dbinfer-export" / "part").write_text("as if it was killed while it wrote")
    reports = {name: export(slowly(0), to, dsn=dsn) for name, to in places.items()}
    assert files(places["killed"]) == files(places["whole"])
    assert reports["killed"].written + (reports["killed"].skipped or 0) == 200


def test_two_at_once_and_a_cancel(dsn: str, tmp_path: Path) -> None:
    process = started(dsn, slowly(0.1), tmp_path)
    until(lambda: len(done(tmp_path)) > 2)
    process.send_signal(signal.SIGSTOP)  # on a slow machine it would be done before the other one begins
    with pytest.raises(DataError, match="another export writes to"):
        export(slowly(0), tmp_path, dsn=dsn)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said[1]
    assert all(name.endswith(".txt") for name in files(tmp_path))


def test_the_command_tells(dsn: str, tmp_path: Path) -> None:
    out, err = started(dsn, "SELECT 'a', 'xyz'", tmp_path).communicate()
    assert out.startswith(f"{tmp_path}: 1 files (3 B) in "), err
    out, err = started(dsn, "SELECT 'a', 'xyz'", tmp_path, "--json").communicate()
    assert {**json.loads(out), "seconds": 0} == {
        "to": str(tmp_path),
        "written": 0,
        "skipped": 1,
        "empty": 0,
        "bytes": 0,
        "seconds": 0,
    }


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of S3 with an empty bucket, and keys for it in the environment."""
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "of-nobody")):
        monkeypatch.setenv(name, value)
    with bucket() as door:
        yield f"http://127.0.0.1:{door.behind}"


def objects(endpoint: str, prefix: str) -> dict[str, bytes]:
    store = client(endpoint, prefix)
    return {name: bytes(obstore.get(store, name).bytes()) for name in names(store)}


def names(store: Any) -> list[str]:
    return [one["path"] for some in obstore.list(store) for one in some]


def client(endpoint: str, prefix: str) -> Any:
    # of its own for each test: moto keeps what is in a bucket as long as the process lives
    config = {"endpoint": endpoint, "region": "us-east-1"}
    return S3Store(BUCKET, prefix=prefix, config=config, client_options={"allow_http": True})  # type: ignore[arg-type]


def test_a_bucket_gets_each_row_once(db: Connection, dsn: str, s3: str) -> None:
    options, to = ExportOptions(endpoint=s3), f"s3://{BUCKET}/masks/2024"
    report = export(MASKS + " WHERE id < 30", to, options, dsn=dsn)
    assert (report.written, report.skipped) == (30, 0)
    before = scored(db)
    report = export(MASKS, to, options, dsn=dsn)
    assert (report.written, report.skipped) == (10, 30)
    assert scored(db) - before == 10
    assert objects(s3, "masks/2024") == masks(db)


@pytest.mark.wide
def test_a_bucket_after_a_kill(dsn: str, s3: str) -> None:
    to = f"s3://{BUCKET}/texts"
    process, store = started(dsn, slowly(0.05), to, "--endpoint", s3), client(s3, "texts")
    until(lambda: len(names(store)) > 20)
    process.kill()
    process.communicate()
    assert len(names(store)) < 200
    export(slowly(0), to, ExportOptions(endpoint=s3), dsn=dsn)
    assert objects(s3, "texts") == {f"{n}.txt": (str(n) * 5000).encode() for n in range(1, 201)}


@pytest.mark.wide
def test_a_bucket_that_is_not_there_is_one_sentence(dsn: str, s3: str) -> None:
    for to, endpoint in (("s3://none/x", s3), (f"s3://{BUCKET}", "http://127.0.0.1:9")):
        with pytest.raises(DbinferError, match=f"^{to} ") as caught:
            export("SELECT 'a', 'b'", to, ExportOptions(endpoint=endpoint), dsn=dsn)
        assert "\n" not in caught.value.message
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint
