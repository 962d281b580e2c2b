"""Kinds of servers that install refuses or notes, which no test can start here."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import InstallError
from dbinfer.cli import database as cli
from dbinfer.database.backends import Check
from dbinfer.database.platform import NEEDED, Features, Platform
from dbinfer.install.steps import Offer, check_server, note, refusal

ALL = tuple(NEEDED)


def cluster(name: str, found: tuple[str, ...] = ALL, role: str = "dispatch") -> Platform:
    lacking = tuple(feature for feature in ALL if feature not in found)
    return Platform(name, "7.1", 120012, 4, "", Features(found, lacking, "on", role))


@pytest.mark.parametrize(
    ("name", "words"), [("redshift", "Amazon Redshift 7.1"), ("cockroachdb", "CockroachDB 7.1")]
)
def test_other_servers_are_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(InstallError) as caught:
        check_server(Platform(name, "7.1", 80002, 0))
    assert caught.value.message == f"{words} has no PL/Python 3"
    assert "docs/explanation/platforms.md#managed-services" in caught.value.hint


@pytest.mark.parametrize("name", ["postgresql", "yugabytedb"])
def test_an_old_server_is_refused(name: str) -> None:
    """It got the texts of Greenplum 6, which lack parallel plans and a check for traps."""
    old = Platform(name, "11.22", 110022, 0)
    with pytest.raises(InstallError, match=f"{name} 11.22 is too old: .* PostgreSQL 12 or newer"):
        check_server(old)
    assert old.adapt("CREATE FUNCTION f() PARALLEL SAFE") == "CREATE FUNCTION f() PARALLEL SAFE"
    check_server(Platform(name, "15.2", 150002, 0))


def test_a_relative_that_lacks_something_is_refused() -> None:
    """Before, the first file of SQL failed with a syntax error."""
    with pytest.raises(
        InstallError, match="lacks what dbinfer needs on a cluster: replicated tables, "
    ) as caught:
        check_server(cluster("greenplum", ("segments in a catalog", "one row on every segment")))
    assert "docs/explanation/platforms.md" in caught.value.hint


def test_utility_mode_is_refused_on_a_cluster_alone() -> None:
    with pytest.raises(InstallError, match="utility mode"):
        check_server(cluster("greenplum", role="utility"))
    single = Features(ALL, (), "on", "utility", single_node=True)
    check_server(Platform("cloudberry", "2.0.0", 140004, 0, "", single))


def test_the_family_is_let_in_with_a_note_where_nobody_has_run_it(subtests: pytest.Subtests) -> None:
    for name in ["greenplum", "warehousepg", "greengage", "cloudberry"]:
        with subtests.test(name=name):
            check_server(cluster(name))
            assert note(cluster(name)) == (
                "" if name == "greenplum" else f" Note: nobody has run dbinfer on {name} yet."
            )


def test_a_cluster_is_not_told_of_packages_of_debian() -> None:
    """It said: apt-get install postgresql-plpython3-12, which is another server's."""
    found = refusal(Offer("gpadmin", superuser=True, python=False), cluster("greenplum"))
    assert "apt-get" not in found.hint
    assert "on all of its hosts" in found.hint


def test_what_is_unusual_but_not_wrong_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [
        Check("server", True, "a"),
        Check("load", True, "b", "hint"),
        Check("skew", False, "c", "another"),
    ]
    cli._show_checks(checks)
    assert capsys.readouterr().out.splitlines() == [
        "ok   server: a",
        "note load: b",
        "      hint",
        "FAIL skew: c",
        "      another",
    ]
