"""activate, alias, default, drop, grant, revoke: what they change and what they refuse."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_models
from asking import ask, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import RegistryError
from dbinfer.models import DeployOptions, activate, alias, default, deploy, drop, grant, models, revoke

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


@pytest.fixture
def name(dsn: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A model of two versions with two aliases; the second version is active."""
    return two_versions(dsn, tmp_path, request.node.name.partition("[")[0][5:50] + uuid.uuid4().hex[:6])


@pytest.fixture(scope="module")
def kept(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, for the tests that change nothing."""
    return two_versions(dsn, tmp_path_factory.mktemp("kept"), "kept")


def two_versions(dsn: str, folder: Path, name: str) -> str:
    for number in (1, 2):
        deploy(tiny_models.constant(folder, number, name), dsn=dsn)
    alias(f"{name}@1", "old", dsn)
    alias(f"{name}@2", "new", dsn)
    return name


def one(dsn: str, name: str) -> dict[str, object]:
    return next(m for m in models(dsn).models if m["name"] == name)


def test_back_and_forth(db: Connection, dsn: str, name: str) -> None:
    for version in (1, 2, 1):
        activate(f"{name}@{version}", dsn)
        assert ask(db, "SELECT (dbinfer.predict(%s, %s))[1]", IMAGE, name) == version
        assert one(dsn, name)["version"] == version


def test_the_active_version_is_kept_unless_forced(db: Connection, dsn: str, name: str) -> None:
    with pytest.raises(RegistryError, match=f'version 2 of model "{name}" is active') as caught:
        drop(f"{name}@2", dsn=dsn)
    assert "force" in caught.value.hint
    with pytest.raises(RegistryError, match="is active"):
        drop(name, dsn=dsn)
    drop(f"{name}@2", force=True, dsn=dsn)
    assert one(dsn, name)["version"] is None
    diag = refused(db, "42704", "SELECT dbinfer.predict(%s, %s)", IMAGE, name)
    assert diag.message_primary == f'model "{name}" has no active version'
    activate(f"{name}@1", dsn)
    assert ask(db, "SELECT (dbinfer.predict(%s, %s))[1]", IMAGE, name) == 1
    drop(name, force=True, dsn=dsn)
    assert all(m["name"] != name for m in models(dsn).models)


@pytest.mark.wide
def test_force_that_is_null_is_no_force(db: Connection, name: str) -> None:
    refused(db, "55006", "SELECT dbinfer.drop_model(%s, 2, NULL)", name)


def test_a_drop_takes_the_aliases_and_leaves_shared_parts(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path, "shared")
    deploy(path, dsn=dsn)
    deploy(path, DeployOptions(values={"precision": "bf16"}, alias="second"), dsn=dsn)
    drop("shared@1", dsn=dsn)
    assert len(ask(db, "SELECT dbinfer.predict(%s, 'shared@second')", IMAGE)) == 10
    before = ask(db, "SELECT count(*) FROM dbinfer_private.part")
    drop("shared", force=True, dsn=dsn)
    assert ask(db, "SELECT count(*) FROM dbinfer_private.part") < before
    assert ask(db, "SELECT count(*) FROM dbinfer_private.alias WHERE model = 'shared'") == 0
    assert ask(db, "SELECT count(*) FROM dbinfer_private.model_grant WHERE model = 'shared'") == 0
    used = "SELECT digest FROM dbinfer_private.model_part"
    assert ask(db, f"SELECT count(*) FROM dbinfer_private.part WHERE digest NOT IN ({used})") == 0


@pytest.mark.wide
def test_the_default_goes_with_its_model(db: Connection, dsn: str, name: str) -> None:
    default(name, dsn)
    assert ask(db, "SELECT (dbinfer.predict(%s))[1]", IMAGE) == 2
    drop(name, force=True, dsn=dsn)
    assert (
        refused(db, "42704", "SELECT dbinfer.predict(%s)", IMAGE).message_primary
        == "no model is deployed yet"
    )


@pytest.mark.wide
def test_version_numbers_are_not_used_again(dsn: str, name: str, tmp_path: Path) -> None:
    activate(f"{name}@1", dsn)
    assert deploy(tiny_models.constant(tmp_path, 3, name), dsn=dsn).version == 3


WRONG: dict[str, tuple[Callable[[str, str], None], str]] = {
    "version": (lambda n, dsn: activate(f"{n}@9", dsn), 'has no version or alias "9"'),
    "huge version": (
        lambda n, dsn: activate(f"{n}@99999999999", dsn),
        "has no version|does not name a version",
    ),
    "no version": (activate, "does not name a version"),
    "alias": (lambda n, dsn: activate(f"{n}@old", dsn), "does not name a version"),
    "model": (lambda n, dsn: activate("nobody@1", dsn), 'model "nobody" does not exist'),
    "alias of nothing": (lambda n, dsn: alias(f"{n}@9", "x", dsn), 'has no version or alias "9"'),
    "drop of nothing": (lambda n, dsn: drop("nobody", dsn=dsn), 'model "nobody" does not exist'),
    "drop of a version": (lambda n, dsn: drop(f"{n}@9", dsn=dsn), 'has no version or alias "9"'),
    "default": (lambda n, dsn: default("nobody", dsn), 'model "nobody" does not exist'),
    "default version": (lambda n, dsn: default(f"{n}@1", dsn), "does not exist"),
    "grant": (lambda n, dsn: grant("nobody", "public", dsn), 'model "nobody" does not exist'),
    "grant version": (lambda n, dsn: grant(f"{n}@1", "public", dsn), "does not exist"),
    "grant role": (lambda n, dsn: grant(n, "no_such_role", dsn), "role 'no_such_role' does not exist"),
    "revoke": (lambda n, dsn: revoke(n, "no_such_role", dsn), "was not granted to"),
}


def test_wrong(dsn: str, kept: str, subtests: pytest.Subtests) -> None:
    for what, (call, message) in WRONG.items():
        with subtests.test(what=what):
            with pytest.raises(RegistryError, match=message):
                call(kept, dsn)
            assert one(dsn, kept)["version"] == 2


@pytest.mark.wide
def test_nulls_are_refused(db: Connection, dsn: str, kept: str, subtests: pytest.Subtests) -> None:
    for call in [
        "activate(NULL, 1)",
        "activate('{name}', NULL)",
        "set_alias('{name}', NULL, 1)",
        "set_alias('{name}', 'a', NULL)",
        "set_alias(NULL, 'a', 1)",
        "drop_alias('{name}', NULL)",
        "drop_model(NULL)",
        "set_default(NULL)",
        "grant_model(NULL, 'public')",
        "grant_model('{name}', NULL)",
        "revoke_model('{name}', NULL)",
        "activate('{name}@old', 2)",
    ]:
        with subtests.test(call=call):
            with (
                db.cursor() as cursor,
                pytest.raises(Exception, match=r"NULL|does not exist|has no alias") as caught,
            ):
                cursor.execute(f"SELECT dbinfer.{call.format(name=kept)}")
            assert caught.value.diag.sqlstate in ("22004", "42602", "42704")  # type: ignore[attr-defined]
            assert one(dsn, kept)["version"] == 2


def test_references_that_mean_nothing(db: Connection, kept: str, subtests: pytest.Subtests) -> None:
    for reference in ["kept@", "@", "", "kept@1@2", "@1", "kept@@1"]:
        with subtests.test(reference=reference):
            sqlstate = "42704" if reference else "22023"
            diag = refused(db, sqlstate, "SELECT dbinfer.predict(%s, %s)", IMAGE, reference)
            assert "does not exist" in (diag.message_primary or "")


@pytest.mark.wide
def test_grants_to_roles_with_odd_names(db: Connection, dsn: str, name: str) -> None:
    rows(db, """CREATE ROLE "odd 'name" """)
    try:
        revoke(name, "public", dsn)
        grant(name, "odd 'name", dsn)
        grant(name, "odd 'name", dsn)
        assert one(dsn, name)["granted_to"] == ["odd 'name"]
        rows(db, """SET ROLE "odd 'name" """)
        assert ask(db, "SELECT (dbinfer.predict(%s, %s))[1]", IMAGE, name) == 2
        rows(db, "RESET ROLE")
        revoke(name, "odd 'name", dsn)
        rows(db, """SET ROLE "odd 'name" """)
        refused(db, "42501", "SELECT dbinfer.predict(%s, %s)", IMAGE, name)
    finally:
        rows(db, "RESET ROLE")
        rows(db, """DROP ROLE "odd 'name" """)


def test_the_views_show_all_of_it(db: Connection, name: str) -> None:
    query = "SELECT version, active, aliases FROM dbinfer.model_versions WHERE name = %s ORDER BY 1"
    assert rows(db, query, name) == [(1, False, ["old"]), (2, True, ["new"])]
    query = "SELECT version, task, versions, aliases, input, precision, size > 1000 FROM dbinfer.models WHERE name = %s"
    assert rows(db, query, name) == [(2, "tensor", 2, ["new=2", "old=1"], "8x8x3", "f32", True)]
