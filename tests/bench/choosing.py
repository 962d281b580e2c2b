"""Measures how many labels `dbinfer next` saves: python tests/bench/choosing.py [SEED ...], three seeds without.

Of scikit-learn's digits, 1438 are a table without labels. Fifty rows, drawn by the seed, get their labels. A network is
trained on them and deployed, the table is scored, and more rows get labels: those that `next` chooses, or random ones.
Each network learns for the same number of epochs, the last one counts, and the held-out digits judge it. The target is
the best accuracy that random rows reach with at most 300 labels; each way, in steps of 25, needs the labels with which
it first reaches that. The database is $DBINFER_DSN or the embedded server; the tables of the schema
choosing are made anew.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from statistics import fmean
from typing import Any

import numpy as np
from psycopg2 import Binary

import dbinfer
from dbinfer.database.connection import connect
from dbinfer.images import builtin

FIRST, MORE, MOST = 50, 25, 300  # labels: at the start, of a round, at the end
EPOCHS, BATCH, RATE = 40, 8, 0.002
TABLE, ANSWERS = "choosing.scans", "choosing.answers"


def run(query: str, *values: Any) -> list[Any]:
    """Execute one statement."""
    with closing(connect()) as conn, conn, conn.cursor() as cur:
        cur.execute(query, values or None)
        return cur.fetchall() if cur.description else []


def make(seed: int) -> None:
    """Make the tables anew, with the first labels."""
    run("DROP SCHEMA IF EXISTS choosing CASCADE")
    run("CREATE SCHEMA choosing")
    for part, name in (("train", TABLE), ("heldout", "choosing.heldout")):
        run(f"CREATE TABLE {name} (id int PRIMARY KEY, img bytea, truth text, label text)")
        images, labels = zip(*builtin.digit_files(part), strict=True)
        rows = "unnest(%s::int[], %s::bytea[], %s::text[])"
        values = (list(range(len(labels))), list(map(Binary, images)), list(map(str, labels)))
        run(f"INSERT INTO {name} SELECT *, NULL FROM {rows}", *values)
    first = np.random.default_rng(seed).permutation(len(run(f"SELECT 1 FROM {TABLE}")))[:FIRST]
    label(map(int, first))


def label(keys: Any) -> None:
    """Do what a person does who looks at these rows."""
    run(f"UPDATE {TABLE} SET label = truth WHERE id = ANY (%s)", list(keys))


def trained(seed: int, folder: str, deploy: bool) -> float:
    """Train on what has a label; return the accuracy on the held-out digits."""
    options = dbinfer.TrainOptions(
        out=folder,
        epochs=EPOCHS,
        batch=BATCH,
        lr=RATE,
        val="SELECT img, truth, id FROM choosing.heldout",
        final="last",
        keep=0,
        seed=seed,
        deploy="choosing" if deploy else "",
        activate=deploy,
    )
    report = dbinfer.train("digits", f"SELECT img, label, id FROM {TABLE} WHERE label IS NOT NULL", options)
    return report.metrics["val_accuracy"]


def curve(seed: int, by_next: bool, enough: float) -> dict[int, float]:
    """Return the accuracy by the number of labels, until it is enough, or there are MOST labels."""
    make(seed)
    random, found = np.random.default_rng(seed + 100), {}
    for count in range(FIRST, MOST + 1, MORE):
        with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
            found[count] = trained(seed, folder, by_next)
        if found[count] >= enough or count == MOST:
            break
        if by_next:
            dbinfer.score(TABLE, ANSWERS, dbinfer.ScoreOptions(model="choosing"))
            dbinfer.next(TABLE, ANSWERS, dbinfer.NextOptions(count=MORE))
            label(key for (key,) in run("SELECT id FROM choosing.scans_next"))
        else:
            left = [key for (key,) in run(f"SELECT id FROM {TABLE} WHERE label IS NULL ORDER BY id")]
            label(int(key) for key in random.permutation(left)[:MORE])
    return found


if __name__ == "__main__":
    ratios = []
    for seed in map(int, sys.argv[1:] or "012"):
        by_chance = curve(seed, False, 2.0)
        target = max(by_chance.values())
        chosen = curve(seed, True, target)
        needs = [
            next((count for count, value in found.items() if value >= target), MOST)
            for found in (chosen, by_chance)
        ]
        ratios.append(needs[0] / needs[1])
        print(
            f"seed {seed}: accuracy {target:.4f} needs {needs[0]} chosen labels, {needs[1]} random ones",
            flush=True,
        )
        for name, found in (("next", chosen), ("random", by_chance)):
            print(
                f"  {name}: " + ", ".join(f"{count} {value:.4f}" for count, value in found.items()),
                flush=True,
            )
    print(f"labels needed, chosen / random: mean {fmean(ratios):.2f}, worst {max(ratios):.2f}")
