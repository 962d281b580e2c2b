"""What a catalog shows decides, whatever the server calls itself; catalogs that we have not are answered from here."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from dbinfer.base.errors import InstallError
from dbinfer.database.platform import COLUMNS, NEEDED, Features, Platform, detect
from dbinfer.install.steps import check_server

GREENPLUM = set(COLUMNS)
# Greenplum 5 has neither replicated tables nor EXECUTE ON
GREENPLUM5 = {column for column in GREENPLUM if not column.startswith(("gp_distribution", "pg_proc"))}
FOUR = {"gp_role": "dispatch", "optimizer": "on"}


class Server:
    """Answers detect's questions as a server of that version string, columns, settings and segments would."""

    def __init__(self, text: str, columns: set[str], settings: dict[str, str], segments: int = 4) -> None:
        self.text, self.columns, self.settings, self.segments = text, columns, settings, segments
        self.asked: list[str] = []

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, query: str, values: object = None) -> None:
        self.asked.append(query)

    def fetchone(self) -> tuple[Any, ...]:
        query = self.asked[-1]
        if "pg_catalog.version()" in query:
            return (self.text,)
        if "server_version_num" in query:
            return (140004,)
        return (int("optimizer" in self.settings),) if "gp_opt_version" in query else (self.segments,)

    def fetchall(self) -> list[tuple[str, ...]]:
        if "pg_settings" in self.asked[-1]:
            return list(self.settings.items())
        return [(column,) for column in self.columns]


def test_postgresql_is_asked_four_times() -> None:
    server = Server("PostgreSQL 14.4 (Debian 14.4-1) on x86_64-pc-linux-gnu", set(), {})
    found = detect(server)
    assert (found.name, found.version, found.segments, found.mpp) == ("postgresql", "14.4", 0, False)
    assert (str(found), found.warning, len(server.asked)) == ("postgresql 14.4", "", 4)


class Stranger(Server):
    """Answers nothing but its version string, as Redshift has no to_regclass and CockroachDB not every catalog."""

    def execute(self, query: str, values: object = None) -> None:
        if query != "SELECT pg_catalog.version()":
            raise psycopg2.errors.UndefinedFunction(query)
        super().execute(query, values)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.73359",
            "redshift",
        ),
        ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27, go1.19.13)", "cockroachdb"),
    ],
)
def test_strangers_are_asked_their_version_alone(text: str, name: str) -> None:
    """Before, they were asked for a setting and the catalog first, and install showed what they said to that."""
    found = detect(Stranger(text, set(), {}))
    assert (found.name, found.mpp) == (name, False)
    with pytest.raises(InstallError, match="has no PL/Python 3"):
        check_server(found)


def test_cloudberry() -> None:
    found = detect(Server("PostgreSQL 14.4 (Apache Cloudberry 2.0.0 build 1) on x86_64", GREENPLUM, FOUR))
    assert (found.name, found.segments, found.mpp, found.features.orca) == ("cloudberry", 4, True, "on")
    assert str(found) == "cloudberry 2.0.0, kernel 14, 4 segments"
    assert "nobody has run dbinfer on cloudberry" in found.warning


def test_cloudberry_on_a_single_node_is_no_cluster() -> None:
    settings = {"gp_role": "utility", "gp_internal_is_singlenode": "on", "optimizer": "on"}
    found = detect(Server("PostgreSQL 14.4 (Apache Cloudberry 2.0.0 build 1) on x86_64", GREENPLUM, settings))
    assert (found.segments, found.mpp, found.features.single_node) == (0, False, True)
    assert str(found).endswith("a single node")


def test_a_relative_of_another_name_is_known_by_its_catalog() -> None:
    found = detect(Server("PostgreSQL 12.12 (Chestnut Warehouse 3.1 build 7) on x86_64", GREENPLUM, FOUR))
    assert found.mpp
    assert "a relative of Greenplum's" in found.warning
    assert "Chestnut Warehouse 3.1" in found.warning
    assert all(name in found.warning for name in (*NEEDED, "ORCA (on)"))


def test_a_name_alone_makes_no_cluster() -> None:
    found = detect(Server("PostgreSQL 12.12 (Greenplum Database 7.1.0 build 1) on x86_64", set(), {}))
    assert (found.mpp, found.features.family) == (False, False)
    assert "has none of Greenplum's catalog" in found.warning


def test_what_an_old_relative_lacks_is_named() -> None:
    found = detect(
        Server("PostgreSQL 8.3.23 (Greenplum Database 5.28.0 build 1) on x86_64", GREENPLUM5, FOUR)
    )
    assert found.features.lacking == (
        "replicated tables",
        "tables on some of the segments",
        "EXECUTE ON ALL SEGMENTS",
    )
    assert "no replicated tables" in str(found.features)


@pytest.mark.parametrize(("kernel", "words"), [(90426, "9.4"), (120012, "12"), (160009, "16")])
def test_the_kernel_is_told_as_people_say_it(kernel: int, words: str) -> None:
    features = Features(found=tuple(NEEDED))
    assert f"kernel {words}," in str(Platform("greenplum", "x", kernel, 3, "", features))
