"""A model with a tower for texts finds images by words, under one name, with the rights and versions of that name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, make_images, planned_as, refused, role, rows
from psycopg2.extensions import connection as Connection
from servers import allowed
from text_towers import VALUES, write_tokenizer, write_tower
from variants import wide

from dbinfer.base.errors import ModelFileError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import DeployOptions, activate, deploy, drop
from dbinfer.score import ScoreOptions, score

COLOURS = [(250, 5, 5), (5, 250, 5), (5, 5, 250), (200, 180, 10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("towers")


@pytest.fixture(scope="module", autouse=True)
def pair(dsn: str, folder: Path) -> None:
    words = tiny_models.word_embedding(folder)
    report = deploy(tiny_models.colour_embedding(folder), DeployOptions(name="pair", text=words), dsn)
    assert report.new
    assert report.parts == 4
    assert not deploy(folder / "vector.xml", DeployOptions(name="pair", text=words), dsn).new
    deploy(words, dsn=dsn)


@pytest.fixture(autouse=True)
def shots(db: Connection, dsn: str) -> Iterator[None]:
    make_images(db, "shots", [tiny_models.file(tiny_models.picture(*colour)) for colour in COLOURS])
    score("shots", "found", ScoreOptions(model="pair", function="embed"), dsn)
    yield
    rows(db, "DROP TABLE IF EXISTS shots, found, found_errors")


def test_words_find_images(db: Connection, subtests: pytest.Subtests) -> None:
    for table in ("found", "shots"):
        for text, first in (("R", 0), ("GG", 1), ("a B at night", 2), ("RRG, of R and G", 3)):
            with subtests.test(table=table, text=text):
                query = f"SELECT id FROM dbinfer.similar('{table}', text => %s, model => 'pair', k => 1)"
                assert ask(db, query, text) == first
    query = "SELECT id FROM dbinfer.similar('found', text => 'R', model => 'pair', condition => 'id <> 0')"
    assert [row[0] for row in rows(db, query)][:1] == [3]
    assert rows(db, "SELECT * FROM dbinfer.similar('found', text => NULL, model => 'pair')") == []


@pytest.mark.parametrize("plan", ["standard plan", *wide("parallel plan")])
def test_embed_text(db: Connection, plan: str) -> None:
    planned = planned_as(db, plan)
    rows(
        planned,
        "CREATE TABLE public.texts AS SELECT n, repeat('R', n) || 'B' AS t FROM generate_series(0, 40) n",
    )
    query = "SELECT n, dbinfer.embed_text(t, %s) FROM texts WHERE n < 3 ORDER BY n"
    expected = [[0, 0, 1], [0.5**0.5, 0, 0.5**0.5], [0.8**0.5, 0, 0.2**0.5]]
    for model in ("pair", "pair@1", "words"):
        found = rows(planned, query, model)
        assert [row[1] for row in found] == [pytest.approx(each, abs=1e-6) for each in expected]
    assert ask(planned, "SELECT dbinfer.embed_text(NULL, 'pair')") is None
    assert ask(planned, "SELECT count(dbinfer.embed_text(t, 'pair')) FROM texts") == 41
    rows(planned, "DROP TABLE texts")


def test_what_is_wrong_is_said(db: Connection, subtests: pytest.Subtests) -> None:
    image = "(SELECT img FROM shots WHERE id = 1)"
    for call, state, message in (
        (
            "embed_text(repeat('x', 65), 'pair')",
            "22P03",
            "the text has 65 bytes, but the model takes 64 at most",
        ),
        ("embed_text('R', 'nobody')", "42704", 'model "nobody" does not exist'),
        ("embed_text('R', 'pair@7')", "42704", 'model "pair" has no version or alias "7"'),
        (
            f"embed({image}, 'words')",
            "22023",
            'model "words" is for text_embedding, but embed() needs embedding',
        ),
        (f"predict({image}, 'words')", "22P03", "the model reads text, but these"),
    ):
        with subtests.test(call=call):
            assert message in str(refused(db, state, f"SELECT dbinfer.{call}").message_primary)
    assert ask(db, "SELECT dbinfer.embed_text(repeat('x', 65), 'pair', on_error => 'null')") is None


@pytest.mark.wide
def test_the_default_model_has_both_towers(db: Connection) -> None:
    rows(db, "SELECT dbinfer.set_default('pair')")
    assert ask(db, "SELECT id FROM dbinfer.similar('found', text => 'G', k => 1)") == 1


@pytest.mark.wide
def test_one_name_has_one_row_and_one_right(db: Connection, dsn: str, folder: Path) -> None:
    assert rows(db, "SELECT version, versions FROM dbinfer.models WHERE name = 'pair'") == [(1, 1)]
    assert rows(db, "SELECT version, task FROM dbinfer.model_versions WHERE name = 'pair'") == [
        (1, "embedding")
    ]
    rows(db, "SELECT dbinfer.revoke_model('pair', 'public')")
    with role(db):
        refused(db, "42501", "SELECT dbinfer.embed_text('R', 'pair')")
    rows(db, "SELECT dbinfer.grant_model('pair', 'public')")
    with role(db):
        assert ask(db, "SELECT dbinfer.embed_text('R', 'pair')") == [1, 0, 0]
    parts = ask(db, "SELECT count(*) FROM dbinfer_private.part")
    other = tiny_models.colour_embedding(folder, "other", l2_normalize=False)
    deploy(other, DeployOptions(name="pair", text=tiny_models.word_embedding(folder, "longer", 128)), dsn)
    assert ask(db, "SELECT cardinality(dbinfer.embed_text(repeat('x', 128), 'pair'))") == 3
    activate("pair@1", dsn)
    refused(db, "22P03", "SELECT dbinfer.embed_text(repeat('x', 128), 'pair')")
    drop("pair@2", dsn=dsn)
    assert ask(db, "SELECT count(*) FROM dbinfer_private.part") == parts


@pytest.mark.wide
def test_towers_that_do_not_fit(dsn: str, folder: Path) -> None:
    image, words = tiny_models.colour_embedding(folder), tiny_models.word_embedding(folder)
    with pytest.raises(ModelFileError, match=r"is for embedding and .* for embedding"):
        deploy(image, DeployOptions(name="odd", text=image), dsn)
    flat = tiny_models.flattened(folder)
    with pytest.raises(ModelFileError, match=r"gives 2 values and .* gives 3"):
        deploy(flat, DeployOptions(name="odd", text=words), dsn)


@pytest.mark.parametrize("isolation", ["never", *wide("always")])
def test_a_tower_with_a_tokenizer(db: Connection, dsn: str, venv: Path, folder: Path, isolation: str) -> None:
    """In the backend, and in the engine's workers, which may open no file."""
    pytest.importorskip("openvino_tokenizers", reason="needs openvino-tokenizers: pip install dbinfer[text]")
    if not list(venv.glob("lib/python3*/site-packages/openvino_tokenizers")):
        pytest.skip("needs openvino-tokenizers in the backends' environment")
    pytest.importorskip("transformers", reason="needs transformers: pip install dbinfer[text]")
    write_tower(folder / "text.onnx", write_tokenizer(folder))
    convert(folder / "text.onnx", folder / "text.xml", ConvertOptions(force=True))
    name = f"tokens_{isolation}"
    deploy(folder / "text.xml", DeployOptions(name=name, isolation=allowed(isolation)), dsn)
    first = "SELECT dbinfer.cosine_distance(dbinfer.embed_text(%s, %s), dbinfer.embed_text(%s, %s))"
    assert ask(db, first, "a red car", name, "A  RED car", name) > 0.01  # two spaces are another token
    assert ask(db, first, "a red car", name, "A RED CAR", name) == pytest.approx(0, abs=1e-6)
    long = "SELECT cardinality(dbinfer.embed_text(repeat('the quick fox ', 70), %s))"
    assert ask(db, long, name) == VALUES
    if isolation == "always":
        assert name in str(rows(db, "SELECT models FROM dbinfer.engines"))  # one may be left of other tests
