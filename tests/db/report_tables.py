"""Tables for the tests of reports, as jobs make them: two versions of results, bad rows, labels that mean harm."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import tiny_models
from asking import rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

EVIL = "<script>document.title='stolen'</script>"
EVIL_KEY = "\"'><img src=http://127.0.0.1:9/x onerror=\"document.title='stolen'\">"
LABELS = ("red", EVIL, "blue")
COLOURS = ((200, 0, 0), (0, 200, 0), (0, 0, 200))
EACH = 10


def make_colours(db: Connection, dsn: str, folder: Path) -> None:
    """Make 30 images and two versions of results: the first takes two of them for blue, the second one."""
    for version in ("colours", "again"):
        values = {"labels": list(LABELS), "provenance": {"data": EVIL, "file": version}}
        deploy(tiny_models.colour_classifier(folder, version, **values), DeployOptions(name="colours"), dsn)
    rows(db, "CREATE TABLE public.images (id text PRIMARY KEY, img bytea, label text)")
    rows(
        db,
        f"CREATE TABLE public.predictions (id text, {VERSION}, class integer, label text, score real, {SCORED})",
    )
    rows(db, f"CREATE TABLE public.predictions_errors (id text, {VERSION}, reason text, at timestamptz)")
    for number in range(3 * EACH):
        key, colour = EVIL_KEY if number == 4 else f"{number:02d}", number % 3
        img = tiny_models.file(tiny_models.picture(*(channel - number for channel in COLOURS[colour])))
        rows(db, "INSERT INTO public.images VALUES (%s, %s, %s)", key, img, LABELS[colour])
        for version, mistakes in ((1, (3, 4)), (2, (4,))):
            found = 2 if number in mistakes else colour
            values = (key, version, found, LABELS[found], 0.5 + number / 100, number + 60 * version)
            rows(db, f"INSERT INTO public.predictions VALUES (%s, 'colours', %s, %s, %s, %s, {AT})", *values)
    rows(db, "INSERT INTO public.images VALUES ('bad', '\\x00', 'red'), ('none', NULL, 'red')")
    rows(
        db,
        "INSERT INTO public.predictions_errors VALUES ('bad', 'colours', 2, %s, now())",
        f"no image: {EVIL}",
    )
    rows(db, "INSERT INTO public.predictions VALUES ('none', 'colours', 2, NULL, NULL, NULL, now())")


VERSION = "model text, version integer"
SCORED = "scored_at timestamptz"
AT = "timestamptz '2026-01-01 UTC' + %s * interval '1 second'"


def make_digits(db: Connection) -> None:
    """Make scans with paths, a thousand and more of each of ten classes, their results, and a bad row."""
    img = tiny_models.file(tiny_models.picture(90, 90, 90))
    number = "heldout/2026-11-23/scanner-1/' || lpad(n::text, 6, '0') || '.png"
    rows(
        db,
        f"CREATE TABLE public.scans AS SELECT n AS id, '{number}' AS path, %s AS img, (n %% 10)::text AS label "
        "FROM generate_series(1, 13000) n",
        img,
    )
    rows(db, "UPDATE public.scans SET path = %s WHERE id = 7", EVIL_KEY)
    rows(
        db,
        "CREATE TABLE public.answers AS SELECT n AS id, 'digits'::text AS model, 1 AS version, found AS class, "
        "found::text AS label, (1 - ((n * 7919) % 1000 / 1000.0) ^ 2)::real AS score, now() AS scored_at "
        "FROM (SELECT n, CASE WHEN n % 13 = 0 THEN (n / 13) % 10 ELSE n % 10 END AS found "
        "FROM generate_series(1, 12999) n) s",
    )
    rows(db, f"CREATE TABLE public.answers_errors (id integer, {VERSION}, reason text, at timestamptz)")
    rows(db, "INSERT INTO public.answers_errors VALUES (13000, 'digits', 1, 'no image', now())")


def make_masks(db: Connection, dsn: str, folder: Path) -> None:
    """Make four images, what `redness` finds in them, and true masks of which one is quite another."""
    deploy(tiny_models.red_mask(folder), dsn=dsn)
    rows(db, "CREATE TABLE public.shots (shop integer, number integer, img bytea, truth bytea)")
    for number in range(4):
        img = tiny_models.file(tiny_models.picture(200 if number < 3 else 0, 0, 0))
        rows(
            db,
            "INSERT INTO public.shots VALUES (1, %s, %s, dbinfer.segment(%s, 'redness'))",
            number,
            img,
            img,
        )
    rows(
        db,
        "UPDATE public.shots SET truth = (SELECT truth FROM public.shots WHERE number = 3) WHERE number = 2",
    )
    rows(
        db,
        "CREATE TABLE public.masks AS SELECT shop, number, 'redness'::text AS model, 1 AS version, "
        "dbinfer.segment(img, 'redness') AS mask, now() AS scored_at FROM public.shots",
    )


class Links(HTMLParser):
    """Collects what a page could load or run: addresses, scripts, handlers of events."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.harm: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "link", "base", "form"):
            self.harm.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.harm.append(f"{tag} {name}")
            if name in ("src", "href", "srcset", "data", "action", "poster"):
                self.addresses.append(value or "")
