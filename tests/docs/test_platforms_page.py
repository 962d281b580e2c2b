"""docs/explanation/platforms.md: a PostgreSQL beside another one scores its images; install knows its services."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import make_dsn, parse_dsn

from dbinfer.database.platform import NEEDED
from dbinfer.install.steps import SERVICES
from dbinfer.models import deploy

TEXT = (Path(__file__).parents[2] / "docs" / "explanation" / "platforms.md").read_text(encoding="utf-8")
IMAGES = 5


def recipe(dsn: str, service: str) -> str:
    """Return the page's SQL with the places of a real server, and a model's name, filled in."""
    (text,) = re.findall(r"^```sql\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    known = parse_dsn(make_dsn(dsn, dbname=service))
    password = Path(known["passfile"]).read_text(encoding="utf-8").strip().rpartition(":")[2]
    text = text.replace("user '...', password '...'", f"user '{known['user']}', password '{password}'")
    place = f"host '{known['host']}', port '{known['port']}', dbname '{service}'"
    return text.replace("host '...', dbname 'shop'", place).replace("'digits'", "'colours'")


@pytest.mark.postgres_only("the server beside a managed service is a PostgreSQL")
def test_a_server_beside_another_scores_its_images(dsn: str, server_dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.colour_classifier(tmp_path), dsn=dsn)
    with closing(psycopg2.connect(server_dsn)) as admin:
        admin.autocommit = True
        rows(admin, "CREATE DATABASE service_beside")
        try:
            with closing(psycopg2.connect(make_dsn(server_dsn, dbname="service_beside"))) as service:
                service.autocommit = True
                make_images(
                    service, "images", [tiny_models.file(tiny_models.picture(200, 0, 0))], copies=IMAGES
                )
                rows(service, "CREATE TABLE answers (id bigint, label text, score real)")
                with closing(psycopg2.connect(dsn)) as ours, ours.cursor() as cursor:
                    ours.autocommit = True
                    cursor.execute(recipe(dsn, "service_beside"))
                assert ask(service, "SELECT count(label) FROM answers") == IMAGES
        finally:
            rows(admin, "DROP DATABASE service_beside")


def test_every_service_and_feature_is_on_the_page() -> None:
    assert all(f"`{sign}`" in TEXT for sign in SERVICES)
    assert all(f"\n| {feature}" in TEXT for feature in NEEDED)
