"""docs/explanation/security.md: each boundary names its check, and tests that attack it and are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()
# one for each who is not trusted with everything
BOUNDARIES = {
    *(
        "login",
        "granted user",
        "owner of a table",
        "search path",
        "administrator",
        "image",
        "worker outside",
        "model file",
        "archive",
        "exported file",
        "folder",
        "foreign file",
        "text",
        "page",
        "reference",
    ),
    *("host user", "worker", "loader", "supervisor", "network"),
}


def test_each_boundary_has_its_check_and_its_attack() -> None:
    table = PAGE.partition("## Boundaries")[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in table.splitlines()
        if line[:2] == "| "
    ]
    known = {name: (crosses, check, attacks) for name, crosses, check, attacks in lines[1:]}
    assert known.keys() == BOUNDARIES
    for name, (crosses, check, attacks) in known.items():
        assert crosses, name
        assert check, name
        files = re.findall(r"`(tests/[\w/]+\.py)`", attacks)
        assert files, name
        assert [file for file in files if not (ROOT / file).is_file()] == [], name


def test_every_test_of_trust_is_named_on_the_page() -> None:
    """A test that the page does not name says nothing to who asks what was tried."""
    patterns = [pattern.replace("*", r"[\w]*") for pattern in re.findall(r"`(tests/[\w/*]+\.py)`", PAGE)]
    named = re.compile("|".join(patterns))
    found = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob("*/test_trust_*.py"))]
    assert len(found) > 10
    assert [path for path in found if not named.fullmatch(path)] == []
