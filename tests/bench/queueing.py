"""What an insert pays for the trigger of `dbinfer follow`: processor time of the backend, without it and with it.

A third table has a trigger that does nothing, which is the least that any trigger costs.

    .venv/bin/python tests/bench/queueing.py [--dsn DSN]

Each round inserts the same images into a table without and one with the trigger; of each the quickest round counts. The
server must be on this host, for /proc says what a backend has used.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

import dbinfer
from dbinfer.bench.database import server_dsn
from dbinfer.database.connection import connect

ROUNDS = 40
SIZES = {10_000: 200, 100_000: 40}  # bytes of an image: rows a round
TABLE = "CREATE TABLE {}.{} (id bigint PRIMARY KEY, path text, img bytea)"
TABLES = ("plain", "followed", "idle")
NOTHING = (
    "CREATE FUNCTION {0}.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
    "CREATE TRIGGER nothing AFTER INSERT ON {0}.idle FOR EACH ROW EXECUTE FUNCTION {0}.nothing()"
)
Way = Callable[[Connection, str, list[bytes]], None]


def copy(conn: Connection, table: str, images: list[bytes]) -> None:
    """All rows by one COPY."""
    text = io.StringIO("".join(f"{n}\tphotos/{n}.jpg\t\\\\x{img.hex()}\n" for n, img in enumerate(images)))
    with conn.cursor() as cur:
        cur.copy_expert(f"COPY {table} FROM STDIN", text)


def insert(conn: Connection, table: str, images: list[bytes]) -> None:
    """An INSERT and a transaction a row."""
    with conn.cursor() as cur:
        for n, img in enumerate(images):
            cur.execute(f"INSERT INTO {table} VALUES (%s, 'x.jpg', %s)", (n, psycopg2.Binary(img)))


def used(conn: Connection) -> float:
    """Return the seconds that the backend has run."""
    return int(Path(f"/proc/{conn.info.backend_pid}/schedstat").read_text().split()[0]) / 1e9


def measure(conn: Connection, table: str, way: Way, images: list[bytes]) -> float:
    """Return the backend's microseconds for a row."""
    with conn.cursor() as cur:
        cur.execute(f"TRUNCATE {table}")
    begin = used(conn)
    way(conn, table, images)
    return (used(conn) - begin) / len(images) * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn")
    dsn = server_dsn(parser.parse_args().dsn, dbinfer.silent)
    schema = f"bench_queueing_{os.getpid()}"
    with closing(connect(dsn)) as conn, conn.cursor() as cur:
        conn.autocommit = True
        cur.execute(f"CREATE SCHEMA {schema}")
        try:
            for name in TABLES:
                cur.execute(sql.SQL(TABLE).format(sql.Identifier(schema), sql.Identifier(name)))
                cur.execute(f"ALTER TABLE {schema}.{name} ALTER img SET STORAGE EXTERNAL")
            options = dbinfer.FollowOptions(function="image_info")
            dbinfer.follow(f"{schema}.followed", f"{schema}.predictions", options, dsn)
            cur.execute(NOTHING.format(schema))
            print("image   way      without       with   more   a trigger that does nothing")
            for size, count in SIZES.items():
                images = [os.urandom(size) for _ in range(count)]
                for way in (copy, insert):
                    compare(conn, schema, way, images)
        finally:
            cur.execute(f"DROP SCHEMA {schema} CASCADE")


def compare(conn: Connection, schema: str, way: Way, images: list[bytes]) -> None:
    """Print a line; each turn begins with another table, so that what disturbs disturbs all."""
    found: dict[str, list[float]] = {name: [] for name in TABLES}
    for turn in range(ROUNDS):
        for place in range(len(TABLES)):
            name = TABLES[(turn + place) % len(TABLES)]
            found[name].append(measure(conn, f"{schema}.{name}", way, images))
    # what else runs here only makes a round longer: the quickest ones compare the work itself
    without, with_it, idle = (min(found[name]) for name in TABLES)
    size = f"{len(images[0]) // 1000:>3} kB  {way.__name__:<7}"
    print(
        f"{size} {without:>7.1f} us {with_it:>7.1f} us {with_it / without - 1:>6.1%} {idle / without - 1:>6.1%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
