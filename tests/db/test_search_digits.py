"""The example of docs/how-to/search.md, measured: digits are found by the features of a network that reads them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from asking import rows
from psycopg2.extensions import connection as Connection

from dbinfer.images import builtin
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[train]", allow_module_level=True)

# one process trains and converts, as a user's shell would
pytestmark = pytest.mark.wide

PROGRAM = """
import sys
from pathlib import Path
import dbinfer

folder = Path(sys.argv[1])
done = dbinfer.train("digits", "digits", dbinfer.TrainOptions(epochs=12, augment=True, out=str(folder)))
options = dbinfer.ConvertOptions(output_name="fc1", values={"l2_normalize": True, "name": "features"})
report = dbinfer.convert(folder / "digits.keras", folder / "features.xml", options)
assert report.manifest.task == "embedding" and report.check.done
"""


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "features.xml"


def test_the_nearest_digit_is_of_the_same_class(db: Connection, dsn: str, features: Path) -> None:
    rows(db, "CREATE TABLE digits (id int PRIMARY KEY, img bytea, label int)")
    known = list(builtin.digit_files("train"))
    with db.cursor() as cursor:
        for number, (data, label) in enumerate(known):
            cursor.execute("INSERT INTO digits VALUES (%s, %s, %s)", (number, data, label))
    deploy(features, dsn=dsn)
    score("digits", "embeddings", ScoreOptions(model="features", function="embed"), dsn)
    unseen, right = list(builtin.digit_files("heldout")), 0
    for data, label in unseen:
        ((nearest, *_),) = rows(db, "SELECT * FROM dbinfer.similar('embeddings', %s, 'features', 1)", data)
        right += known[nearest][1] == label
    print(f"\nnearest digit of the same class: {right / len(unseen):.4f} of {len(unseen)}")
    assert right / len(unseen) >= 0.97
    # all pairs of 300, not of 1,438: without pgvector each costs some 50 us
    rows(db, "CREATE TABLE few AS SELECT * FROM embeddings WHERE id < 300")
    # alone in its FROM, as Greenplum wants it
    pairs = rows(db, "SELECT id, other FROM dbinfer.near_duplicates('few', 0.02, 'features')")
    label = dict(rows(db, "SELECT id, label FROM digits"))
    same = sum(label[one] == label[other] for one, other in pairs)
    print(f"near duplicates: {len(pairs)} pairs, {same} of the same class")
    assert pairs
    assert same >= 0.97 * len(pairs)
