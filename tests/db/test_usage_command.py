"""`dbinfer usage`, and what `dbinfer drop` says of a version that somebody uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner

from dbinfer.base.errors import RegistryError
from dbinfer.cli.app import app
from dbinfer.models import DeployOptions, deploy, drop, usage

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    for value in (5, 6):
        deploy(
            tiny_models.constant(tmp_path_factory.mktemp("irs"), value, "told"),
            DeployOptions(activate=value == 6),
            dsn=dsn,
        )
    deploy(tiny_models.constant(tmp_path_factory.mktemp("irs"), 7, "other"), dsn=dsn)


@pytest.fixture(autouse=True)
def counting(db: Connection) -> Iterator[None]:
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    yield
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")


def shown(dsn: str, *options: str) -> str:
    found = CliRunner().invoke(app, ["usage", *options, "--dsn", dsn])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_command_shows_who_used_what_and_what_nobody_did(db: Connection, dsn: str) -> None:
    # of a column: Greenplum computes the answer for a constant once
    rows(
        db,
        "SELECT dbinfer.predict(img, 'told@1') FROM unnest(%s::bytea[]) AS img",
        [IMAGE, IMAGE + b"2", IMAGE + b"3"],
    )
    table = shown(dsn)
    (used,) = (line for line in table.splitlines() if "told@1" in line)
    assert ask(db, "SELECT current_user") in used
    (unused,) = (line for line in table.splitlines() if "told@2" in line)
    assert "never since 20" in unused
    found = json.loads(shown(dsn, "--model", "told", "--json"))
    assert [(each["version"], each["rows"]) for each in found["usage"]] == [(1, 3), (2, 0)]
    assert found["since"] <= found["usage"][0]["last_used"]
    # a copy was kept on the way
    assert ask(db, "SELECT sum(rows)::integer FROM dbinfer_private.usage") == 3


def test_it_says_where_nothing_is_counted(db: Connection, dsn: str) -> None:
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
    assert "dbinfer install --usage on" in shown(dsn)
    assert usage(dsn=dsn).since is None


def test_who_is_no_administrator_sees_his_own_alone(db: Connection, dsn: str) -> None:
    rows(db, "SELECT dbinfer.predict(%s, 'told@1')", IMAGE)
    with role(db) as name:
        rows(db, "SELECT dbinfer.predict(%s, 'other')", IMAGE)
        report = usage(dsn=make_dsn(dsn, options=f"-c role={name}"))
    assert [(each["model"], each["role"], each["rows"]) for each in report.usage] == [("other", name, 1)]


@pytest.mark.wide
def test_drop_names_who_used_a_version_lately(db: Connection, dsn: str, tmp_path: Path) -> None:
    for value in (1, 2):
        deploy(tiny_models.constant(tmp_path, value, "old"), dsn=dsn)
    rows(db, "SELECT dbinfer.predict(%s, 'old@1')", IMAGE)
    who = ask(db, "SELECT current_user")
    with pytest.raises(
        RegistryError, match=rf"^old@1 was used in the last 30 days: by {who} \(1 rows? of old@1"
    ) as caught:
        drop("old@1", dsn=dsn)
    assert "--force" in caught.value.hint
    assert ask(db, "SELECT count(*) FROM dbinfer.model_versions WHERE name = 'old'") == 2
    drop("old@1", force=True, dsn=dsn)
    with pytest.raises(RegistryError, match='version 2 of model "old" is active'):
        drop("old", dsn=dsn)
    drop("old", force=True, dsn=dsn)


@pytest.mark.wide
def test_use_of_long_ago_keeps_nobody_from_dropping(db: Connection, dsn: str, tmp_path: Path) -> None:
    for value in (1, 2):
        deploy(tiny_models.constant(tmp_path, value, "aged"), dsn=dsn)
    number = ask(db, "SELECT id FROM dbinfer_private.model_version WHERE model = 'aged' AND version = 1")
    rows(
        db,
        "INSERT INTO dbinfer_private.usage VALUES ('elsewhere', 10, %s, 'somebody', 9, 1, now() - interval '31 days')",
        number,
    )
    assert ask(db, "SELECT rows FROM dbinfer.usage WHERE model = 'aged'") == 9
    drop("aged@1", dsn=dsn)
