"""deploy: versions by content, shared parts, what is refused, what an interruption leaves."""

from __future__ import annotations

import hashlib
import shutil
import threading
import zipfile
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import ModelFileError, RegistryError
from dbinfer.base.progress import Progress
from dbinfer.models import DeployOptions, deploy, deployment, drop, models
from dbinfer.models.ir import read_model
from dbinfer.models.keras_file import fetch

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
COUNTS = "SELECT count(*) FROM dbinfer_private."
TABLES = ("model", "model_version", "model_part", "part", "alias", "model_grant")


def counts(db: Connection) -> list[int]:
    return [ask(db, COUNTS + table) for table in TABLES]


@pytest.mark.parametrize("form", ["digest", "older_digest"])
def test_content_that_older_clients_deployed_is_known_again(
    db: Connection, dsn: str, tmp_path: Path, form: str
) -> None:
    """Clients on Python 3.11 hashed the hashes of both files, clients on 3.10 their bytes."""
    path = tiny_models.constant(tmp_path, 5, f"known_by_{form}")
    done = deploy(path, dsn=dsn)
    files = getattr(read_model(path), form)
    old = hashlib.sha256(f"{files}\0{done.manifest.to_json()}".encode()).hexdigest()
    with db.cursor() as cur:
        cur.execute(
            "UPDATE dbinfer_private.model_version SET source_digest = %s WHERE model = %s", (old, done.name)
        )
    again = deploy(path, dsn=dsn)
    assert (again.new, again.version) == (False, 1)


def test_the_same_content_again_is_already_deployed(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.constant(tmp_path, 1, "twice")
    first = deploy(path, dsn=dsn)
    before = counts(db)
    second = deploy(path, dsn=dsn)
    assert (first.new, first.version) == (True, 1)
    assert (second.new, second.version, second.active) == (False, 1, True)
    assert counts(db) == before


@pytest.mark.wide
def test_the_files_name_and_place_do_not_matter(dsn: str, tmp_path: Path) -> None:
    path = tiny_models.constant(tmp_path, 4, "moved")
    deploy(path, dsn=dsn)
    other = tmp_path / "elsewhere" / "renamed.xml"
    other.parent.mkdir()
    shutil.copy(path, other)
    shutil.copy(path.with_suffix(".bin"), other.with_suffix(".bin"))
    assert deploy(other, DeployOptions(name="moved"), dsn=dsn).new is False


def test_changed_content_is_a_new_version_and_shares_parts(db: Connection, dsn: str, tmp_path: Path) -> None:
    first = deploy(tiny_models.convolution(tmp_path, "net"), dsn=dsn)
    second = deploy(
        tiny_models.convolution(tmp_path, "net"), DeployOptions(values={"precision": "bf16"}), dsn=dsn
    )
    assert (first.version, second.version, second.new) == (1, 2, True)
    assert second.new_parts < second.parts
    used = "SELECT max(n) FROM (SELECT count(*) n FROM dbinfer_private.model_part GROUP BY digest) x"
    assert ask(db, used) >= 2


@pytest.mark.wide
def test_parts_are_small_and_named_by_their_digest(
    db: Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "PART_BYTES", 1000)
    done = deploy(tiny_models.convolution(tmp_path, "pieces", seed=5), dsn=dsn)
    assert done.parts > 5
    assert ask(db, "SELECT max(length(data)) FROM dbinfer_private.part WHERE length(data) <= 1000") == 1000
    assert ask(db, "SELECT bool_and(digest = encode(sha256(data), 'hex')) FROM dbinfer_private.part")
    assert len(ask(db, "SELECT dbinfer.predict(%s, 'pieces')", IMAGE)) == 10


@pytest.mark.wide
def test_progress_tells_bytes_sent(dsn: str, tmp_path: Path) -> None:
    told: list[Progress] = []
    deploy(tiny_models.convolution(tmp_path, "told", seed=6), dsn=dsn, progress=told.append)
    sent = [progress for progress in told if progress.unit == "bytes"]
    assert sent[0].done == 0
    assert sent[-1].total is not None
    assert sent[-1].done == sent[-1].total > 1000


def test_not_activated(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 1, "later"), DeployOptions(activate=False), dsn=dsn)
    with pytest.raises(psycopg2.errors.UndefinedObject, match="has no active version"):
        ask(db, "SELECT dbinfer.predict(%s, 'later')", IMAGE)
    assert ask(db, "SELECT dbinfer.predict(%s, 'later@1')", IMAGE) == [1, 1, 1]
    done = deploy(tiny_models.constant(tmp_path, 2, "later"), dsn=dsn)
    assert done.active
    deploy(tiny_models.constant(tmp_path, 3, "later"), DeployOptions(activate=False), dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s, 'later')", IMAGE) == [2, 2, 2]


def test_an_alias_follows_the_new_version(db: Connection, dsn: str, tmp_path: Path) -> None:
    for number in (1, 2):
        deploy(tiny_models.constant(tmp_path, number, "aliased"), DeployOptions(alias="production"), dsn=dsn)
        assert ask(db, "SELECT (dbinfer.predict(%s, 'aliased@production'))[1]", IMAGE) == number


def test_the_first_model_is_the_default_and_another_can_be(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 9, "chosen"), DeployOptions(default=True), dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s)", IMAGE) == [9, 9, 9]
    assert [m["name"] for m in models(dsn).models if m["default"]] == ["chosen"]


def test_private_models_are_granted_to_nobody(dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 1, "hidden"), DeployOptions(private=True), dsn=dsn)
    deploy(tiny_models.constant(tmp_path, 1, "shown"), dsn=dsn)
    granted = {m["name"]: m["granted_to"] for m in models(dsn).models}
    assert granted["hidden"] == []
    assert granted["shown"] == ["public"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a@1", "x" * 64, "naïve", "a;b", "'", "a\n"])
@pytest.mark.wide
def test_names_that_cannot_be(db: Connection, dsn: str, tmp_path: Path, name: str) -> None:
    before = counts(db)
    with pytest.raises(RegistryError, match="is not a valid model name"):
        deploy(tiny_models.constant(tmp_path, 1), DeployOptions(name=name or " "), dsn=dsn)
    assert counts(db) == before


@pytest.mark.parametrize("alias", ["", "2", "a b", "a@b", "x" * 64])
@pytest.mark.wide
def test_aliases_that_cannot_be_leave_nothing(db: Connection, dsn: str, tmp_path: Path, alias: str) -> None:
    before = counts(db)
    with pytest.raises(RegistryError, match="is not a valid alias"):
        deploy(tiny_models.constant(tmp_path, 77, "badalias"), DeployOptions(alias=alias or " "), dsn=dsn)
    assert counts(db) == before


def test_an_interruption_leaves_nothing(db: Connection, dsn: str, tmp_path: Path) -> None:
    before = counts(db)

    def interrupt(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deploy(tiny_models.constant(tmp_path, 55, "interrupted"), dsn=dsn, progress=interrupt)
    assert counts(db) == before


def test_deploys_at_the_same_time_each_get_a_version(dsn: str, tmp_path: Path) -> None:
    results: list[int] = []
    failures: list[Exception] = []

    def one(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            results.append(deploy(tiny_models.constant(folder, number, "busy"), dsn=dsn).version)
        except Exception as err:
            failures.append(err)

    threads = [threading.Thread(target=one, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(results) == [1, 2, 3]


def test_a_role_outside_of_the_owner_is_told_what_it_needs(db: Connection, dsn: str, tmp_path: Path) -> None:
    with role(db) as name:
        with pytest.raises(RegistryError) as caught:
            deploy(tiny_models.constant(tmp_path, 1), dsn=make_dsn(dsn, options=f"-c role={name}"))
        assert "permission denied" in caught.value.message
        assert "GRANT dbinfer_admin TO" in caught.value.hint


@pytest.mark.wide
def test_a_member_of_the_owner_deploys(db: Connection, dsn: str, tmp_path: Path) -> None:
    with role(db, "dbinfer_admin") as name:
        own = make_dsn(dsn, options=f"-c role={name}")
        done = deploy(tiny_models.constant(tmp_path, 8, "members"), DeployOptions(alias="a"), dsn=own)
        assert done.version == 1
        assert ask(db, "SELECT dbinfer.predict(%s, 'members')", IMAGE) == [8, 8, 8]


def test_without_dbinfer_in_the_database(server_dsn: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="not installed"):
        deploy(tiny_models.constant(tmp_path, 1), dsn=make_dsn(server_dsn, dbname="template1"))


def _wrong_xml(path: Path) -> None:
    path.write_text("<net")


def _no_ir(path: Path) -> None:
    path.write_text("<html/>")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _no_bin(path: Path) -> None:
    path.with_suffix(".bin").unlink()


def _short_bin(path: Path) -> None:
    data = path.with_suffix(".bin").read_bytes()
    path.with_suffix(".bin").write_bytes(data[: len(data) // 2])


def _empty_bin(path: Path) -> None:
    path.with_suffix(".bin").write_bytes(b"")


def _no_file(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [_wrong_xml, _no_ir, _empty, _no_bin, _short_bin, _empty_bin, _no_file])
def test_files_that_cannot_be_used_are_refused_before_anything_is_written(
    db: Connection, dsn: str, tmp_path: Path, damage: object
) -> None:
    before = counts(db)
    path = tiny_models.convolution(tmp_path, "broken")
    damage(path)  # type: ignore[operator]
    with pytest.raises(ModelFileError) as caught:
        deploy(path, dsn=dsn)
    assert "broken" in caught.value.message
    assert "\n" not in caught.value.message
    assert counts(db) == before


def test_other_files_are_named(dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"not an OpenVINO IR") as caught:
        deploy(path, dsn=dsn)
    assert "dbinfer convert" in caught.value.hint
    with pytest.raises(ModelFileError, match="no file"):
        deploy(tmp_path / "nowhere.xml", dsn=dsn)
    (tmp_path / "folder.xml").mkdir()
    with pytest.raises(ModelFileError):
        deploy(tmp_path / "folder.xml", dsn=dsn)


@pytest.mark.wide
def test_a_damaged_part_in_the_registry_is_found(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.convolution(tmp_path, "rotten", seed=11), dsn=dsn)
    digest = ask(
        db,
        "SELECT p.digest FROM dbinfer_private.model_part p JOIN dbinfer_private.model_version v ON v.id = p.version_id "
        "WHERE v.model = 'rotten' AND p.kind = 'bin'",
    )
    rows(db, "UPDATE dbinfer_private.part SET data = '\\x00' WHERE digest = %s", digest)
    with pytest.raises(psycopg2.Error, match="registry is damaged") as caught:
        ask(db, "SELECT dbinfer.predict(%s, 'rotten')", IMAGE)
    assert caught.value.diag.sqlstate == "XX001"
    assert caught.value.diag.message_hint == "Deploy the model again."
    assert ask(db, "SELECT 1") == 1


def keras_file(folder: Path, name: str = "model.keras") -> Path:
    """Write what looks like a Keras file from outside."""
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
    return path


def test_a_keras_file_is_kept_beside_the_version(db: Connection, dsn: str, tmp_path: Path) -> None:
    """Backends load the version without it; the same version with a file is a new one, of which only that is sent."""
    path, source = tiny_models.constant(tmp_path, 7, "kept"), keras_file(tmp_path)
    deploy(path, dsn=dsn)
    done = deploy(path, DeployOptions(source=source), dsn=dsn)
    assert (done.version, done.new_parts, done.source_size) == (2, 1, source.stat().st_size)
    assert deploy(path, DeployOptions(source=source), dsn=dsn).new is False
    assert ask(db, "SELECT dbinfer.predict(%s, 'kept@2')", IMAGE) == [7, 7, 7]
    sizes = rows(db, "SELECT source_size FROM dbinfer.model_versions WHERE name = 'kept' ORDER BY version")
    assert sizes == [(None,), (source.stat().st_size,)]
    fetch("kept@2", tmp_path / "back.keras", dsn)
    assert (tmp_path / "back.keras").read_bytes() == source.read_bytes()
    drop("kept", force=True, dsn=dsn)
    used = "SELECT digest FROM dbinfer_private.model_part"
    assert ask(db, f"SELECT count(*) FROM dbinfer_private.part WHERE digest NOT IN ({used})") == 0


@pytest.mark.wide
def test_who_may_not_read_the_weights_gets_no_keras_file(db: Connection, dsn: str, tmp_path: Path) -> None:
    options = DeployOptions(source=keras_file(tmp_path))
    deploy(tiny_models.constant(tmp_path, 8, "unseen"), options, dsn=dsn)
    with role(db) as name:
        with pytest.raises(RegistryError, match='permission denied for the files of model "unseen"'):
            fetch("unseen", tmp_path / "no.keras", make_dsn(dsn, options=f"-c role={name}"))
        assert ask(db, "SELECT dbinfer.predict(%s, 'unseen')", IMAGE) == [8, 8, 8]
    assert not (tmp_path / "no.keras").exists()


@pytest.mark.wide
def test_sources_that_are_refused(db: Connection, dsn: str, tmp_path: Path) -> None:
    origin = {"provenance": {"source_sha256": "0" * 64}}
    path = tiny_models.constant(tmp_path, 9, "refused")
    (tmp_path / "text.keras").write_text("no zip")
    for source, values, message in [
        (tmp_path / "none.keras", {}, "cannot be read: No such file"),
        (tmp_path / "text.keras", {}, "is not a .keras file"),
        (keras_file(tmp_path, "a.h5"), {}, "is not a .keras file"),
        (keras_file(tmp_path), origin, "is not the file that the model was converted from"),
    ]:
        with pytest.raises(ModelFileError, match=message):
            deploy(path, DeployOptions(source=source, values=values), dsn=dsn)
    deploy(path, dsn=dsn)
    with pytest.raises(RegistryError, match="refused@1 has no Keras file in the database"):
        fetch("refused", tmp_path / "no.keras", dsn)
