"""Released schema changes never change again.

A new upgrade: add sql/upgrades/NNNN_what.sql with the next number, run this test, and add the line that it names to
sql/upgrades/frozen.txt. An upgrade that was released is never edited: databases have applied it as it was.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from dbinfer.database import sql
from dbinfer.install.content import RERUN_FOLDERS, Content

UPGRADES = sql.root() / "upgrades"


def files() -> list[Path]:
    return sorted(UPGRADES.glob("*.sql"))


def test_upgrades_are_as_they_were_released() -> None:
    lines = [
        line.split()
        for line in (UPGRADES / "frozen.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    frozen = {name: digest for digest, name in lines}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files()}
    new = [f"{digest} {name}" for name, digest in found.items() if name not in frozen]
    assert new == [], f"add to {UPGRADES / 'frozen.txt'}: {new}"
    changed = [name for name, digest in frozen.items() if found.get(name) != digest]
    assert changed == [], "restore these files; put the change into a new upgrade"


def test_upgrades_are_numbered_without_gaps() -> None:
    numbers = []
    for path in files():
        match = re.fullmatch(r"(\d{4})_[a-z0-9_]+\.sql", path.name)
        assert match, f"{path.name} is not named like 0002_what_changes.sql"
        numbers.append(int(match.group(1)))
    assert numbers == list(range(1, len(numbers) + 1))


def test_what_runs_again_never_makes_or_changes_tables() -> None:
    for folder in RERUN_FOLDERS:
        for path in sorted((sql.root() / folder).glob("*.sql")):
            text = path.read_text(encoding="utf-8")
            assert not re.search(
                r"^(CREATE|ALTER|DROP) (TABLE|TYPE|SEQUENCE|ROLE|SCHEMA)", text, re.MULTILINE
            ), path.name
            assert re.search(r"^CREATE OR REPLACE (FUNCTION|VIEW)", text, re.MULTILINE), path.name
            assert "COMMENT ON" in text, path.name
            assert "OWNER TO" not in text, f"{path.name}: all belongs to the superuser who installs"
            assert re.search(r"^(REVOKE|GRANT) ", text, re.MULTILINE), f"{path.name} says nothing of rights"


def test_python_bodies_are_at_most_five_lines() -> None:
    paths = [path for folder in RERUN_FOLDERS for path in sorted((sql.root() / folder).glob("*.sql"))]
    python = {path.name: text for path in paths if "LANGUAGE plpython3u" in (text := path.read_text("utf-8"))}
    assert len(python) > 10
    # no module is there before they have run, so they catch a cancel themselves
    longer = {"start_code.sql": 6, "_ask.sql": 8}
    for name, text in python.items():
        body = text.split("LANGUAGE plpython3u")[1].split("$$")[1].strip().splitlines()
        assert len(body) <= longer.get(name, 5), f"{name} has {len(body)} lines"
        assert not any(";" in line or re.match(r"\s*(if|for) .*: \w", line) for line in body), name


def test_what_a_database_keeps_is_ascii() -> None:
    """Databases have encodings of their own, and know no other character for sure."""
    kept = Content().modules | {
        path.name: path.read_text(encoding="utf-8") for path in sql.root().rglob("*.sql")
    }
    assert [name for name, text in kept.items() if not text.isascii()] == []
