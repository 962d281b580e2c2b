"""What the server hides or attaches to rows: policies hold in every function, a domain's check runs for nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
OWN, ALL = 3, 10
# Each counts the rows that a caller gets
WAYS = (
    "SELECT pg_catalog.count(dbinfer.predict(img, 'colours')) FROM public.scans",
    "SELECT pg_catalog.count(*) FROM dbinfer.classify_table('public.scans', 'colours')",
    "SELECT pg_catalog.count(*) FROM dbinfer.predict_table('public.scans', 'colours')",
    "SELECT dbinfer.predict_into('found', 'public.scans', 'colours')",
)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture
def reader(db: Connection) -> Iterator[str]:
    """A role that may score, and see three of the ten rows of `scans`, as which the session acts."""
    make_images(db, "scans", [IMAGE], ALL)
    rows(db, "ALTER TABLE public.scans ENABLE ROW LEVEL SECURITY")
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"CREATE POLICY own ON public.scans TO {name} USING (id < {OWN})")
        rows(db, f"SELECT dbinfer.grant_model('colours', '{name}')")
        rows(db, f'SET ROLE {name}; CREATE TEMP TABLE found (id bigint, "values" real[])')
        try:
            yield name
        finally:
            rows(db, "RESET ROLE; DROP TABLE found; DROP TABLE public.scans CASCADE")
            rows(db, f"SELECT dbinfer.revoke_model('colours', '{name}')")


def test_a_policy_holds_in_every_function(reader: str, db: Connection) -> None:
    assert [ask(db, query) for query in WAYS] == [OWN] * len(WAYS)


def test_a_domain_of_images_runs_nothing_with_the_rights_of_who_scores(db: Connection) -> None:
    with role(db) as name:
        rows(
            db,
            f"RESET ROLE; CREATE SCHEMA mallory AUTHORIZATION {name}; SET ROLE {name}",
        )
        # a notice, for a segment may not write from within a function
        rows(
            db,
            "CREATE FUNCTION mallory.spy(bytea) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE NOTICE 'mallory is %', current_user; RETURN true; END $$",
        )
        rows(db, "CREATE DOMAIN mallory.picture AS bytea CHECK (mallory.spy(VALUE))")
        rows(db, "CREATE TABLE mallory.scans (id integer, img mallory.picture)")
        with db.cursor() as cursor:
            cursor.execute("INSERT INTO mallory.scans VALUES (1, %s::bytea)", (IMAGE,))
        rows(db, "RESET ROLE")
        try:
            assert ask(db, WAYS[0].replace("public", "mallory")) == 1
            with pytest.raises(psycopg2.errors.DatatypeMismatch, match="must be bytea"):
                ask(db, WAYS[1].replace("public", "mallory"))
            told = {word for line in db.notices for word in re.findall(r"mallory is (\w+)", line)}
            assert told == {name}
        finally:
            rows(db, "DROP SCHEMA mallory CASCADE")
