"""image() reads what lies in stores, says what is wrong in one sentence, and leads nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, on_server, refused, role, rows
from buckets import KEYS, Door, bucket, cutting, elsewhere, refusing, slow
from psycopg2.extensions import connection as Connection
from servers import server_log
from sqlalchemy import create_engine, select
from test_image_bad_input import GOOD
from typer.testing import CliRunner
from variants import wide

from dbinfer import sqlalchemy as infer
from dbinfer.cli.app import app
from dbinfer.models import deploy


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with bucket() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def stores(dsn: str, door: Door, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    with psycopg2.connect(dsn) as connection:
        declare(connection, "photos", "s3://pictures/2024", endpoint=door.url)
        declare(connection, "web", f"{door.url}/pictures/2024")


def declare(db: Connection, name: str, url: str, endpoint: str | None = None, seconds: int = 5) -> None:
    add = "SELECT dbinfer.add_store(%s, %s, endpoint => %s, private => true, seconds => %s)"
    rows(db, add, name, url, endpoint, seconds)


@pytest.fixture(autouse=True)
def faultless(door: Door) -> Iterator[None]:
    yield
    door.faults.clear()
    door.seen.clear()


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_an_image_is_classified_where_it_lies(db: Connection, door: Door, store: str) -> None:
    door.put("2024/summer/käse 1+2%20.jpg", GOOD)
    path = f"{store}/summer/käse 1+2%20.jpg"
    assert ask(db, "SELECT dbinfer.image(%s)", path) == GOOD
    found = "SELECT (dbinfer.classify(dbinfer.image(%s), 'colours')).label"
    assert ask(db, found, path) == ask(db, "SELECT (dbinfer.classify(%s, 'colours')).label", GOOD)
    assert ask(db, "SELECT dbinfer.image(NULL)") is None


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_by_its_whole_address(db: Connection, door: Door, store: str) -> None:
    door.put("2024/a.png", GOOD)
    url = ask(db, "SELECT url FROM dbinfer.stores WHERE name = %s", store)
    assert ask(db, "SELECT dbinfer.image(%s)", f"{url}/a.png") == GOOD


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_what_is_not_there_is_null_or_an_error(db: Connection, store: str) -> None:
    assert ask(db, "SELECT dbinfer.image(%s, on_error => 'null')", f"{store}/none.png") is None
    diag = refused(db, "P0002", "SELECT dbinfer.image(%s)", f"{store}/none.png")
    assert diag.message_primary == f"dbinfer: the store {store} has no 'none.png'"
    assert "on_error => 'null'" in str(diag.message_hint)


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_only_the_version_that_is_asked_for(db: Connection, door: Door, store: str) -> None:
    etag = door.put("2024/v.png", GOOD)
    path, digest = f"{store}/v.png", hashlib.sha256(GOOD).hexdigest()
    for version in (etag, etag.strip('"'), f"sha256:{digest}", f"sha256:{digest.upper()}"):
        assert ask(db, "SELECT dbinfer.image(%s, %s)", path, version) == GOOD
    door.put("2024/v.png", GOOD + b"changed")
    for version in (etag, f"sha256:{digest}"):
        assert ask(db, "SELECT dbinfer.image(%s, %s, 'null')", path, version) is None
        diag = refused(db, "22P03", "SELECT dbinfer.image(%s, %s)", path, version)
        assert "has another version of 'v.png'" in str(diag.message_primary)
    for wrong in ("", '""', "sha256:12", "ö", "a\nb"):
        assert "is no etag" in str(
            refused(db, "22023", "SELECT dbinfer.image(%s, %s)", path, wrong).message_primary
        )


@pytest.mark.parametrize("store", ["photos", "web"])
@pytest.mark.parametrize(
    "path", ["../2023/a.png", "a/../../x", "/a", "a//b", ".", "", "a/", "a\\b", "a\nb", "x" * 1025]
)
def test_no_reference_leaves_its_store(db: Connection, door: Door, store: str, path: str) -> None:
    door.put("2023/a.png", GOOD)
    refused(db, "22P03", "SELECT dbinfer.image(%s)", f"{store}/{path}")
    assert not door.seen


@pytest.mark.parametrize(
    "reference",
    [
        "photos",
        "nobodys/a.png",
        "s3://pictures/2023/a.png",
        "s3://pictures/2024x/a.png",
        "http://127.0.0.1/a",
    ],
)
def test_what_is_in_no_store(db: Connection, door: Door, reference: str) -> None:
    sqlstate = "22P03" if reference == "photos" else "42501"
    refused(db, sqlstate, "SELECT dbinfer.image(%s, on_error => 'error')", reference)
    assert not door.seen


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_a_server_that_is_busy_is_asked_again(db: Connection, door: Door, store: str) -> None:
    door.put("2024/busy.png", GOOD)
    door.faults["busy"] = refusing(503, times=2)
    assert ask(db, "SELECT dbinfer.image(%s)", f"{store}/busy.png") == GOOD
    assert list(door.seen.values()) == [3]
    door.faults["busy"] = refusing(503)
    diag = refused(db, "58030", "SELECT dbinfer.image(%s, on_error => 'null')", f"{store}/busy.png")
    assert str(diag.message_primary).startswith(f"dbinfer: the store {store} cannot be read: ")
    assert "dbinfer store check" in str(diag.message_hint)


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_a_server_that_refuses(db: Connection, door: Door, store: str) -> None:
    door.faults["secret"] = refusing(403)
    diag = refused(db, "42501", "SELECT dbinfer.image(%s, on_error => 'null')", f"{store}/secret.png")
    assert diag.message_primary == f"dbinfer: the store {store} refuses to give 'secret.png'"


@pytest.mark.parametrize("store", ["photos", *wide("web")])
def test_an_answer_that_is_cut_is_no_image(db: Connection, door: Door, store: str) -> None:
    door.faults["cut"] = cutting
    refused(db, "58030", "SELECT dbinfer.image(%s, on_error => 'null')", f"{store}/cut.png")


@pytest.mark.parametrize("store", ["photos", *wide("web")])
@pytest.mark.wide
def test_a_slow_server_has_a_limit(db: Connection, door: Door, store: str) -> None:
    url = ask(db, "SELECT url FROM dbinfer.stores WHERE name = %s", store)
    declare(db, "hasty", url, door.url if store == "photos" else None, seconds=1)
    door.faults["slow"] = slow
    refused(db, "58030", "SELECT dbinfer.image('hasty/slow.png', on_error => 'null')")


def test_a_fetch_is_cancelled(db: Connection, door: Door) -> None:
    door.faults["slow"] = slow
    door.put("2024/fast.png", GOOD)
    rows(db, "SET statement_timeout = '300ms'")
    refused(db, "57014", "SELECT dbinfer.image('photos/slow.png')")
    rows(db, "RESET statement_timeout")
    assert ask(db, "SELECT dbinfer.image('photos/fast.png')") == GOOD


@pytest.mark.parametrize("store", ["photos", "web"])
def test_redirects_lead_nowhere(db: Connection, door: Door, store: str) -> None:
    with listening() as (port, came):
        door.faults["moved"] = elsewhere(f"http://127.0.0.1:{port}/other.png")
        with pytest.raises(psycopg2.Error) as caught:
            ask(db, "SELECT dbinfer.image(%s)", f"{store}/moved.png")
        assert caught.value.pgcode in ("22P03", "58030")
        assert came == []


@contextmanager
def listening() -> Iterator[tuple[int, list[object]]]:
    """A port where nobody may come."""
    came = list[object]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    came.append(listener.accept())
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1], came
        time.sleep(0.2)
        # accept() would wait on although the descriptor is closed
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_private_addresses_are_for_private_stores(db: Connection, door: Door) -> None:
    port = door.server_address[1]
    rows(db, "SELECT dbinfer.add_store('outside', %s)", f"https://localhost:{port}/pictures")
    diag = refused(db, "58030", "SELECT dbinfer.image('outside/a.png')")
    assert "only a store that is declared private may have" in str(diag.message_primary)
    declare(db, "metadata", "http://169.254.169.254/latest")
    diag = refused(db, "58030", "SELECT dbinfer.image('metadata/meta-data')")
    assert "169.254.169.254" in str(diag.message_primary)
    assert not door.seen


def test_too_large_is_not_fetched(db: Connection, door: Door) -> None:
    door.put("2024/large.png", GOOD + bytes(5000))
    rows(db, "SELECT dbinfer.set_setting('max_image_bytes', '2000')")
    try:
        for store in ("photos", "web"):
            diag = refused(db, "54000", "SELECT dbinfer.image(%s)", f"{store}/large.png")
            assert "more than 2000 bytes" in str(diag.message_primary)
    finally:
        rows(db, "SELECT dbinfer.set_setting('max_image_bytes', '268435456')")


class TestKept:
    """Images that were fetched before are not sent again as long as they are the store's version."""

    @pytest.mark.parametrize("store", ["photos", *wide("web")])
    def test_the_store_is_asked_and_sends_what_is_new(self, db: Connection, door: Door, store: str) -> None:
        name = f"2024/kept-{store}.png"
        door.put(name, GOOD)
        path = f"{store}/kept-{store}.png"
        for sent in (200, 304):
            assert ask(db, "SELECT dbinfer.image(%s)", path) == GOOD
            assert door.answered == sent
        door.put(name, GOOD + b"new")
        assert ask(db, "SELECT dbinfer.image(%s)", path) == GOOD + b"new"
        assert door.answered == 200

    @pytest.mark.parametrize("store", ["photos", *wide("web")])
    def test_versions_that_are_asked_for_are_those_of_the_store(
        self, db: Connection, door: Door, store: str
    ) -> None:
        etag = door.put(f"2024/here-{store}.png", GOOD)
        path, image = f"{store}/here-{store}.png", "SELECT dbinfer.image(%s, %s, 'null')"
        assert ask(db, image, path, None) == GOOD
        digest = f"sha256:{hashlib.sha256(GOOD).hexdigest()}"
        for version in (etag, digest):
            assert ask(db, image, path, version) == GOOD
            assert door.answered == 304
        assert ask(db, image, path, "sha256:" + "0" * 64) is None
        # rights are those of now
        with role(db):
            refused(db, "42501", image, path, etag)
        door.put(f"2024/here-{store}.png", GOOD + b"new")
        for version in (etag, digest):
            assert ask(db, image, path, version) is None

    def test_what_another_store_has_is_another_image(self, db: Connection, door: Door) -> None:
        door.put("2024/twin.png", GOOD)
        door.put("2025/twin.png", GOOD + b"other")
        declare(db, "later", "s3://pictures/2025", endpoint=door.url)
        assert ask(db, "SELECT dbinfer.image('photos/twin.png')") == GOOD
        assert ask(db, "SELECT dbinfer.image('later/twin.png')") == GOOD + b"other"

    @pytest.mark.wide
    def test_no_more_than_the_limit(self, db: Connection, door: Door) -> None:
        rows(db, "SELECT dbinfer.set_setting('image_cache_mb', '1')")
        for number in range(80):
            door.put(f"2024/big/{number}.png", GOOD + bytes(60_000))
        rows(db, "SELECT dbinfer.image('photos/big/' || n || '.png') FROM generate_series(0, 79) n")
        size = "SELECT sum((pg_stat_file(f)).size) FROM (SELECT '{0}/' || pg_ls_dir('{0}') AS f) s"
        # it looks every 64 files
        assert ask(db, size.format("base/pgsql_tmp/pgsql_tmp_dbinfer_images")) < (1 << 20) + 64 * 60_200
        rows(db, "SELECT dbinfer.set_setting('image_cache_mb', '256')")


@pytest.mark.wide
def test_a_table_in_parallel(db: Connection, door: Door) -> None:
    for number in range(8):
        door.put(f"2024/many/{number}.png", GOOD + bytes([number]))
    rows(
        db,
        "CREATE TABLE many AS SELECT n AS id, 'photos/many/' || n % 8 || '.png' AS path FROM generate_series(1, 200) n",
    )
    rows(db, "ANALYZE many")
    rows(db, "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    found = rows(db, "SELECT id, dbinfer.image(path) FROM many ORDER BY id")
    assert found == [(n, GOOD + bytes([n % 8])) for n in range(1, 201)]


class TestRights:
    def test_only_those_to_whom_it_is_granted(self, db: Connection, door: Door) -> None:
        door.put("2024/a.png", GOOD)
        with role(db) as name:
            diag = refused(db, "42501", "SELECT dbinfer.image('photos/a.png')")
            assert diag.message_primary == "dbinfer: you may read no store with 'photos/a.png'"
            assert rows(db, "SELECT name FROM dbinfer.stores") == []
            rows(db, "RESET ROLE")
            rows(db, "SELECT dbinfer.grant_store('photos', %s)", name)
            rows(db, f"SET ROLE {name}")
            assert ask(db, "SELECT dbinfer.image('photos/a.png')") == GOOD
            assert rows(db, "SELECT name, kind, url, secret FROM dbinfer.stores") == [
                ("photos", "s3", None, None)
            ]
            refused(db, "42501", "SELECT dbinfer.image('web/a.png')")
            rows(db, "RESET ROLE")
            rows(db, "SELECT dbinfer.revoke_store('photos', %s)", name)
            rows(db, f"SET ROLE {name}")
            refused(db, "42501", "SELECT dbinfer.image('photos/a.png')")

    @pytest.mark.parametrize(
        "call", ["add_store('mine', 'file:///etc')", "grant_store('photos', 'public')", "drop_store('photos')",
                 "revoke_store('photos', 'public')"],
    )  # fmt: skip
    def test_only_superusers_declare(self, db: Connection, call: str) -> None:
        with role(db):
            refused(db, "42501", f"SELECT dbinfer.{call}")

    @pytest.mark.wide
    def test_what_is_wrong_with_a_host_is_for_superusers(self, db: Connection) -> None:
        declare(db, "gone", "http://127.0.0.1:9/x")
        assert "127.0.0.1:9" in str(refused(db, "58030", "SELECT dbinfer.image('gone/a')").message_primary)
        rows(db, "SELECT dbinfer.grant_store('gone', 'public')")
        with role(db):
            diag = refused(db, "58030", "SELECT dbinfer.image('gone/a')")
            assert diag.message_primary == "dbinfer: the store gone cannot be read now"
            assert "127.0.0.1" not in f"{diag.message_detail} {diag.message_hint}"


WRONG = {
    "name": ("add_store('a b', 's3://b/c')", "42602"),
    "scheme": ("add_store('a', 'ftp://b/c')", "22023"),
    "no folder": ("add_store('a', 'file://b')", "22023"),
    "parent": ("add_store('a', 'file:///srv/../etc')", "22023"),
    "query": ("add_store('a', 'https://h/a?b')", "22023"),
    "user": ("add_store('a', 'https://u@h/a')", "22023"),
    "plain": ("add_store('a', 'http://h/a')", "22023"),
    "plain endpoint": ("add_store('a', 's3://b', 'http://h:1')", "22023"),
    "endpoint with path": ("add_store('a', 's3://b', 'https://h/x')", "22023"),
    "endpoint of files": ("add_store('a', 'file:///b', 'https://h')", "22023"),
    "azure": ("add_store('a', 'az://c/d')", "22023"),
    "secret": ("add_store('a', 's3://b', secret => 'AKIA123')", "22023"),
    "seconds": ("add_store('a', 's3://b', seconds => 0)", "22023"),
    "nothing": ("add_store('a', NULL)", "22023"),
    "unknown": ("drop_store('a')", "42704"),
    "unknown grant": ("grant_store('a', 'public')", "42704"),
    "nobody": ("grant_store('photos', 'nobody')", "42704"),
    "not granted": ("revoke_store('photos', 'public')", "42704"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_declaration_has_one_sentence(db: Connection, kind: str) -> None:
    call, sqlstate = WRONG[kind]
    diag = refused(db, sqlstate, f"SELECT dbinfer.{call}")
    assert diag.message_hint
    assert ask(db, "SELECT count(*) FROM dbinfer.stores WHERE name = 'a'") == 0


class TestSecrets:
    """A secret is a file of the server's user; here the server itself writes it."""

    @pytest.fixture
    def locked(self, db: Connection, door: Door) -> Iterator[str]:
        door.put("locked/a.png", GOOD)
        file = f"/tmp/dbinfer-test-secret-{os.getpid()}-{time.time_ns()}"
        add = "SELECT dbinfer.add_store('locked', 's3://pictures/locked', %s, secret => %s, private => true)"
        rows(db, add, door.url, file)
        yield file
        on_server(db, f"rm -f {file}")

    def write(self, db: Connection, file: str, text: str, mode: str = "600") -> None:
        on_server(db, f"umask 077; cat > {file}; chmod {mode} {file}", text)

    def test_opens_what_is_locked(self, db: Connection, locked: str, door: Door) -> None:
        rows(
            db, "SELECT dbinfer.add_store('unlocked', 's3://pictures/locked', %s, private => true)", door.url
        )
        refused(db, "42501", "SELECT dbinfer.image('unlocked/a.png')")
        self.write(db, locked, KEYS)
        assert ask(db, "SELECT dbinfer.image('locked/a.png')") == GOOD
        assert "Credential=test/" in door.heads["authorization"]

    @pytest.mark.parametrize(
        ("text", "mode", "problem"),
        [
            (KEYS, "640", "others than its owner may use it"),
            ("{", "600", "it is no JSON"),
            ("[]", "600", "it is no JSON object of texts"),
            ('{"a": 5}', "600", "it is no JSON object of texts"),
            ('{"what": "x"}', "600", "what"),
            (None, "600", "No such file or directory"),
        ],
    )
    def test_that_cannot_be_used(
        self, db: Connection, locked: str, text: str | None, mode: str, problem: str
    ) -> None:
        if text is not None:
            self.write(db, locked, text, mode)
        diag = refused(db, "58030", "SELECT dbinfer.image('locked/a.png')")
        assert problem in str(diag.message_primary)
        assert "of-nobody" not in f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"
        # the other stores of this session are as good as before
        assert ask(db, "SELECT dbinfer.image('photos/none', on_error => 'null')") is None

    def test_is_shown_to_nobody(self, db: Connection, locked: str, door: Door) -> None:
        """Neither among the sessions nor the processes, nor in the log, whether a fetch succeeds or fails."""
        log = server_log()
        begin = log.stat().st_size if log else 0
        self.write(db, locked, KEYS)
        rows(
            db, "SET log_min_messages = debug1; SET log_statement = 'all'; SET log_error_verbosity = verbose"
        )
        assert ask(db, "SELECT dbinfer.image('locked/a.png')") == GOOD
        door.faults |= {"refused": refusing(403), "broken": refusing(500), "cut": cutting}
        for path, sqlstate in (("refused", "42501"), ("broken", "58030"), ("cut", "58030"), ("no", "P0002")):
            refused(db, sqlstate, "SELECT dbinfer.image(%s)", f"locked/{path}.png")
            shown = [ask(db, "SELECT string_agg(a::text, ' ') FROM pg_stat_activity a").encode()]
            for program in Path("/proc").glob("[0-9]*"):
                for file in ("cmdline", "environ"):
                    with suppress(OSError):  # it has ended, or is another's
                        shown.append((program / file).read_bytes())
            assert b"of-nobody" not in b"".join(shown)
        if log:
            told = log.read_bytes()[begin:]
            assert b"locked/broken.png" in told
            assert b"of-nobody" not in told


class TestFiles:
    @pytest.fixture
    def folder(self, db: Connection) -> Iterator[Path]:
        """A folder that the server's user has made."""
        folder = Path(f"/tmp/dbinfer-test-files-{os.getpid()}-{time.time_ns()}")
        script = (
            f"mkdir -p {folder}/sub && cd {folder} && ln -s /etc/passwd link && ln -s /etc way && mkfifo pipe"
        )
        on_server(db, f"{script}; printf abc > sub/a.png")
        rows(db, "SELECT dbinfer.add_store('disk', %s)", f"file://{folder}")
        yield folder
        on_server(db, f"rm -r {folder}")

    def test_below_the_folder_and_nothing_else(self, db: Connection, folder: Path) -> None:
        assert ask(db, "SELECT dbinfer.image('disk/sub/a.png')") == b"abc"
        assert ask(db, "SELECT dbinfer.image(%s)", f"file://{folder}/sub/a.png") == b"abc"
        digest = hashlib.sha256(b"abc").hexdigest()
        assert ask(db, "SELECT dbinfer.image('disk/sub/a.png', %s)", f"sha256:{digest}") == b"abc"
        for path in ("link", "way/passwd", "pipe", "sub", "none", "sub/a.png/b", "../x", "sub/../link"):
            assert ask(db, "SELECT dbinfer.image(%s, on_error => 'null')", f"disk/{path}") is None, path
        refused(db, "22023", "SELECT dbinfer.image('disk/sub/a.png', 'abc')")
        refused(db, "42501", "SELECT dbinfer.image('file:///etc/passwd')")


class TestCommands:
    @staticmethod
    def run(dsn: str, *words: str, status: int = 0) -> str:
        done = CliRunner().invoke(app, ["store", *words, "--dsn", dsn])
        assert done.exit_code == status, done.output
        return done.stdout if not status else f"{done.exception}"

    def test_from_declaring_to_dropping(self, db: Connection, dsn: str, door: Door) -> None:
        door.put("2024/a.png", GOOD)
        added = self.run(dsn, "add", "told", "s3://pictures/2024", "--endpoint", door.url, "--private")
        assert added == "Store told is declared. Try it: dbinfer store check told\n"
        assert "can be read, and has no such image" in self.run(dsn, "check", "told")
        found = json.loads(self.run(dsn, "check", "told", "a.png", "--json"))
        assert found["bytes"] == len(GOOD)
        assert found["places"] >= 1
        with role(db) as name:
            assert f"{name} may read" in self.run(dsn, "grant", "told", name)
            listed = {one["name"]: one for one in json.loads(self.run(dsn, "--json"))}
            assert listed["told"]["granted_to"] == [name]
            assert "told" in self.run(dsn)
            assert f"{name} may no longer" in self.run(dsn, "revoke", "told", name)
        assert "is forgotten" in self.run(dsn, "drop", "told")
        assert "told" not in self.run(dsn)

    def test_what_is_wrong_is_one_sentence(self, dsn: str, door: Door) -> None:
        assert "is not the address of a store" in self.run(dsn, "add", "a", "b", status=1)
        assert "has no image 'none'" in self.run(dsn, "check", "photos", "none", status=1)
        door.faults["dbinfer-store-check"] = refusing(403)
        assert "refuses to give" in self.run(dsn, "check", "photos", status=1)
        assert "you may read no store" in self.run(dsn, "check", "nobodys", status=1)


@pytest.mark.wide
def test_as_an_expression_of_sqlalchemy(dsn: str, door: Door) -> None:
    door.put("2024/a.png", GOOD)
    engine = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn))
    with engine.connect() as connection:
        found = infer.classify(infer.image("photos/a.png"), "colours").label
        assert connection.execute(select(found)).scalar_one() == "red"
        assert bytes(connection.execute(select(infer.image("photos/a.png"))).scalar_one()) == GOOD
    engine.dispose()


def test_what_fetches_is_shut_in_and_ends_with_its_session(dsn: str, door: Door, server: object) -> None:
    """Two processes, of which the one that holds the secrets has no rights."""
    door.put("2024/a.png", GOOD)
    with closing(psycopg2.connect(dsn)) as connection:
        ask(connection, "SELECT dbinfer.image('photos/a.png')")
        (gate,) = children(ask(connection, "SELECT pg_backend_pid()"))
        (fetcher,) = children(gate)
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{fetcher}/status").read_text().splitlines()
            if ":" in line
        )
        assert status["NoNewPrivs"].strip() == "1"
        assert status["Seccomp"].strip() == "2"
    until = time.monotonic() + 10
    while time.monotonic() < until and (Path(f"/proc/{gate}").exists() or Path(f"/proc/{fetcher}").exists()):
        time.sleep(0.05)
    assert not Path(f"/proc/{gate}").exists()
    assert not Path(f"/proc/{fetcher}").exists()


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.wide
def test_one_that_was_killed_is_started_again(dsn: str, door: Door, server: object) -> None:
    door.put("2024/a.png", GOOD)
    with closing(psycopg2.connect(dsn)) as connection:
        assert ask(connection, "SELECT dbinfer.image('photos/a.png')") == GOOD
        (gate,) = children(ask(connection, "SELECT pg_backend_pid()"))
        os.kill(gate, 9)
        assert ask(connection, "SELECT dbinfer.image('photos/a.png')") == GOOD
