"""Tables of real digits to train on: id, image file, label."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from dbinfer.images import builtin


def digit_table(dsn: str, name: str, rows: int) -> str:
    """Make a table of the first digits of the training part; return the dsn, which tests hand on."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, img bytea, label int)")
        for number, (data, label) in zip(range(rows), builtin.digit_files("train"), strict=False):
            cursor.execute(f"INSERT INTO {name} VALUES (%s, %s, %s)", (number, data, label))
    return dsn
