"""docs/verification.md: it says what docs/verification.json has, and each claim of README and docs leads to a part."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import verify  # noqa: E402 - not on pytest's path, because it is a script

PAGES = [
    ROOT / "README.md",
    *sorted(set((ROOT / "docs").rglob("*.md")) - set((ROOT / "docs" / "reference").iterdir())),
]
OUTPUT = re.compile(r"^ *```.*?^ *```$|^ {4}.*?$|<!--.*?-->", re.MULTILINE | re.DOTALL)
CLAIM = re.compile(
    r"\b(tested (on|with|by)|measured|\d+ passed|images/s|tests/(bench|unit|db)/\w+\.py)\b", re.IGNORECASE
)
LINK = re.compile(r"\]\([./]*(?:docs/)?verification\.md#([\w-]+)\)")


def claims(text: str) -> list[str]:
    """Return the headings of the sections that claim something and have no link; one before the first holds for all."""
    sections = re.split(r"^#+ +(.*)$", OUTPUT.sub("", text), flags=re.MULTILINE)[1:]
    named = list(zip(sections[::2], sections[1::2], strict=True))
    if LINK.search(named[0][1]):
        return []
    return [name for name, words in named if CLAIM.search(words) and not LINK.search(words)]


def test_a_claim_without_a_link_is_seen() -> None:
    assert claims("# A\n\nx\n\n## B\n\nTested on two.\n\n```text\nmeasured\n```\n\n## C\n\nfast") == ["B"]
    assert claims("# A\n\n[measured](../verification.md#bench)\n\n## B\n\n30 images/s") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_claim_leads_to_what_verifies_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert claims(text) == []
    assert set(LINK.findall(text)) <= set(verify.PARTS)


def test_the_page_says_what_is_kept() -> None:
    results = verify.kept()
    assert set(results) <= set(verify.PARTS)
    assert len({one.commit for one in results.values()}) <= 1
    assert verify.PAGE.read_text(encoding="utf-8") == verify.page(results)


def test_what_a_part_calls_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for part in verify.PARTS.values():
        assert set(re.findall(r"\bmake ([a-z-]+)", part.command)) <= targets
        assert [
            name for name in re.findall(r"\btests/\S+\.py", part.command) if not (ROOT / name).exists()
        ] == []


def test_a_run_keeps_figures_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "0123456789ab"
    (clone / ".venv").mkdir(parents=True)
    (clone / ".venv" / "train-env.stamp").touch()
    subprocess.run(["git", "init", "--quiet"], cwd=clone, check=True)
    said = "SKIPPED [2] tests/a.py:3: no host\nSKIPPED [1] tests/b.py: no host\n== 5 passed, 3 skipped in 2.1s ==\n"
    (clone / "said").write_text(said)
    parts = {"good": verify.Part("A", "cat said"), "bad": verify.Part("B", "false | cat")}
    monkeypatch.setattr(verify, "BUILD", tmp_path)
    monkeypatch.setattr(verify, "PARTS", parts)
    good, bad = (verify.run(name, "0123456789abcdef") for name in parts)
    assert (good.passed, good.figures, good.left_out) == (
        True,
        ["5 passed, 3 skipped in 2.1s"],
        ["3: no host"],
    )
    assert not bad.passed
    text = verify.page({"good": good, "bad": bad})
    assert "Commit 0123456789ab: 1 of 2 parts passed." in text
    assert re.search(r"\| \[good\]\(#good\) \| passed \| .* \| 3 \|", text)
    assert "| [bad](#bad) | **failed** |" in text


def test_what_is_missing_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"A": "x"})
    assert verify.unset("A")() == ""
    assert verify.unset("A", "B", "C")() == "B is not set, C is not set"
