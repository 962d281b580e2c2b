"""classify_table gives what classify gives row by row, whatever the batches are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import PLANS, ask, make_images, plan_parallel, planned_as, refused, role, rows
from float32 import tolerance
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import DeployOptions, deploy
from dbinfer.models.ir import import_openvino

NASTY = ['say "red"', "back\\slash, {brace}", "NULL"]
BY_ROW = "SELECT id, (c).class, (c).label, (c).score FROM (SELECT id, dbinfer.classify(img, '{}') c FROM {} OFFSET 0) x"
IN_BATCHES = "SELECT * FROM dbinfer.classify_table('{1}', '{0}')"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder, "nasty", labels=NASTY), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder, "unnamed", labels=[]), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder, "powers", activation="softmax"), dsn=dsn)
    deploy(tiny_models.convolution(folder), dsn=dsn)
    deploy(tiny_models.colour_embedding(folder), DeployOptions(private=True), dsn=dsn)
    deploy(one_at_a_time(folder), dsn=dsn)
    deploy(mixing(folder), dsn=dsn)


def one_at_a_time(folder: Path) -> Path:
    """Write a classifier whose graph names its batch size of one."""
    return _classifier(folder, "single", lambda ops, mean: ops.reshape(mean, np.array([1, -1]), False))


def mixing(folder: Path) -> Path:
    """Write a classifier that would mix the images of a batch."""
    return _classifier(
        folder,
        "mixing",
        lambda ops, mean: ops.add(mean, ops.reduce_max(mean, np.array([0]), True)),
    )


def _classifier(folder: Path, name: str, finish: object) -> Path:
    def head(ops: object, image: object) -> object:
        return finish(ops, tiny_models._mean(ops, image))  # type: ignore[operator]

    graph = tiny_models._graph(head)
    described = tiny_models.manifest("classification", labels=list(tiny_models.COLOURS))
    return tiny_models._write(graph, folder, name, described)


@pytest.fixture(scope="module", autouse=True)
def images(dsn: str, models: None) -> None:
    random = np.random.default_rng(3)
    pictures = [random.integers(0, 256, (9, 11, 3)).astype(np.uint8) for _ in range(50)]
    files: list[bytes | None] = [tiny_models.file(p) for p in pictures]
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    make_images(connection, "many", files, copies=21)
    make_images(connection, "few", files[:7])
    make_images(connection, "none", [])
    make_images(connection, "holes", [files[0], None, b"no image", *files[1:9], None])
    large = tiny_models.file(random.integers(0, 256, (200, 200, 3)).astype(np.uint8))
    make_images(connection, "large", [large, *files[:2], large], copies=3)
    connection.close()


@pytest.fixture(params=PLANS)
def planned(request: pytest.FixtureRequest, db: Connection) -> Connection:
    return planned_as(db, request.param)


@pytest.mark.parametrize(
    "model", ["conv", *wide("nasty", "colours", "unnamed", "powers", "single", "mixing")]
)
@pytest.mark.parametrize("table", ["many", "none", *wide("few", "large")])
def test_every_row_is_as_row_by_row(planned: Connection, model: str, table: str) -> None:
    one = sorted(rows(planned, BY_ROW.format(model, table)))
    many = sorted(rows(planned, IN_BATCHES.format(model, table)))
    assert [row[:3] for row in many] == [row[:3] for row in one]
    # Four sums, the longest of 3 * 3 * 16 terms, of grey levels to 255; softmax makes shares of such differences
    rounding = tolerance(255.0, 4, 3 * 3 * 16)
    assert [row[3] for row in many] == pytest.approx([row[3] for row in one], rel=rounding)


SCAN = "SELECT dbinfer._scan_query(dbinfer._new_scan(), 'classify', %s, %s, 'error', 'id', 'img')"


def test_batches_of_32_are_what_runs(db: Connection) -> None:
    """The equality above would hold as well if every row went alone."""
    inner = "SELECT cardinality((b).ids) FROM (%s) s WHERE (b).ids IS NOT NULL"
    for model, table, size in (("conv", "many", 32), ("single", "few", 1)):
        query = ask(db, SCAN, table, model)
        taken = query[query.index("FROM (") + 6 : query.index(") s")]
        assert {row[0] for row in rows(db, inner % taken)} == {size}


@pytest.mark.postgres_only(
    "Greenplum has no parallel workers; tests/greenplum/test_plans_motion.py reads its plans"
)
def test_the_plan_is_parallel(db: Connection) -> None:
    plan_parallel(db)
    query = ask(db, SCAN, "many", "conv")
    plan = "\n".join(row[0] for row in rows(db, f"EXPLAIN (VERBOSE) {query}"))
    assert "Workers Planned" in plan, plan
    assert plan.count("Output: _take(") == 1, plan
    # below the Gather, and what waits goes no further
    assert (
        plan.index("Gather") < plan.index("Filter: ((s.b).ids IS NOT NULL)") < plan.index("Output: _take(")
    ), plan


def test_rows_without_an_image_stay_rows(db: Connection) -> None:
    query = "SELECT id, class FROM dbinfer.classify_table('holes', 'colours', 'null')"
    found = dict(rows(db, query))
    assert sorted(found) == list(range(12))
    assert {number for number, winner in found.items() if winner is None} == {1, 2, 11}


def test_a_bad_image_is_an_error_and_the_next_statement_is_clean(db: Connection) -> None:
    diag = refused(db, "22P03", "SELECT * FROM dbinfer.classify_table('holes', 'colours')")
    assert "dbinfer" in diag.message_primary
    assert len(rows(db, IN_BATCHES.format("colours", "few"))) == 7


def test_a_view_with_other_names_and_a_filter(db: Connection) -> None:
    rows(db, "CREATE OR REPLACE VIEW chosen AS SELECT id AS number, img AS photo FROM many WHERE id < 100")
    query = "SELECT id FROM dbinfer.classify_table('chosen', 'conv', id_column => 'number', img_column => 'photo')"
    assert sorted(row[0] for row in rows(db, query)) == list(range(100))


def test_results_go_into_a_table(db: Connection) -> None:
    rows(db, "DROP TABLE IF EXISTS classes")
    rows(db, "CREATE TABLE classes (id bigint, class integer, label text, score real)")
    assert ask(db, "SELECT dbinfer.classify_into('classes', 'many', 'colours')") == 1050
    assert ask(db, "SELECT dbinfer.classify_into('classes', 'none', 'colours')") == 0
    label = "(dbinfer.classify(m.img, 'colours')).label"
    assert ask(db, f"SELECT count(*) FROM classes k JOIN many m USING (id) WHERE k.label = {label}") == 1050
    refused(db, "42703", "SELECT dbinfer.classify_into('many', 'few', 'colours')")


@pytest.mark.postgres_only("on Greenplum it stands alone in its FROM: tests/greenplum/test_result_batches.py")
def test_results_can_be_kept_and_joined(db: Connection) -> None:
    rows(db, "DROP TABLE IF EXISTS kept")
    rows(db, "CREATE TABLE kept AS SELECT * FROM dbinfer.classify_table('many', 'colours')")
    label = "(dbinfer.classify(m.img, 'colours')).label"
    assert ask(db, f"SELECT count(*) FROM kept k JOIN many m USING (id) WHERE k.label = {label}") == 1050
    call = "dbinfer.classify_table('many', '{}')"
    twice = f"SELECT count(*) FROM {call.format('colours')} a JOIN {call.format('conv')} b USING (id)"
    assert ask(db, twice) == 1050


def test_wrong_calls_are_told_so(db: Connection, subtests: pytest.Subtests) -> None:
    for arguments, sqlstate, words in [
        ("'few', 'colours', id_column => 'number'", "42703", 'few has no column "number"'),
        (
            "'few', 'colours', img_column => 'id'",
            "42804",
            'column "id" of few is of type integer, but must be bytea',
        ),
        ("NULL, 'colours'", "42703", 'NULL has no column "id"'),
        ("'few', 'nobody'", "42704", "nobody"),
        ("'few', 'vector'", "22023", "is for embedding, but classify_table() needs classification"),
        ("'few', 'colours', 'perhaps'", "22023", "perhaps"),
        ("'nowhere', 'colours'", "42P01", "nowhere"),
    ]:
        with subtests.test(arguments=arguments, sqlstate=sqlstate, words=words):
            diag = refused(db, sqlstate, f"SELECT * FROM dbinfer.classify_table({arguments})")
            assert words in diag.message_primary


def test_a_row_without_id_is_told_so(db: Connection) -> None:
    rows(db, "CREATE OR REPLACE VIEW nameless AS SELECT NULL::integer AS id, img FROM few")
    diag = refused(db, "22023", "SELECT * FROM dbinfer.classify_table('nameless', 'colours')")
    assert "a row has no id" in diag.message_primary


def test_the_callers_rights_count(db: Connection) -> None:
    rows(db, "REVOKE SELECT ON few FROM PUBLIC")
    with role(db):
        refused(db, "42501", "SELECT * FROM dbinfer.classify_table('public.few', 'colours')")
        assert len(rows(db, IN_BATCHES.format("colours", "public.many"))) == 1050
    rows(db, "GRANT SELECT ON few TO PUBLIC")
    with role(db):
        refused(db, "42501", "SELECT * FROM dbinfer.classify_table('public.few', 'vector')")


def test_the_networks_are_what_their_names_say(tmp_path: Path) -> None:
    """`single` cannot take a batch, and `mixing` would give other results in one."""
    core = import_openvino().Core()
    graph = core.read_model(mixing(tmp_path))
    graph.reshape([2, 8, 8, 3])
    run = core.compile_model(graph, "CPU")
    both = run(np.stack([np.zeros((8, 8, 3), np.float32), np.full((8, 8, 3), 9, np.float32)]))[0]
    assert both[0].tolist() == [9, 9, 9]
