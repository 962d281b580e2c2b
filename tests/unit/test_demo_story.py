"""The demo's story: a title, its command, results as psql shows them; the steps of a verb once each."""

from __future__ import annotations

import pytest

from dbinfer.base.progress import Progress
from dbinfer.demo import story as demo_story
from dbinfer.demo.story import Story


def told(*, notes: list[str]) -> Story:
    return Story(lambda progress: notes.append(progress.note))


def test_a_step_tells_its_title_and_the_command_for_it() -> None:
    notes: list[str] = []
    with told(notes=notes).step("Convert", "dbinfer convert m.keras"):
        pass
    assert notes[:2] == ["\n==> Convert", "    $ dbinfer convert m.keras"]
    assert notes[2].endswith(" s")


def test_rows_are_shown_as_psql_does() -> None:
    notes: list[str] = []
    told(notes=notes).rows(["path", "digit"], [("a/0.png", 4), ("b.png", 12)])
    assert notes == [
        "    path    | digit",
        "    --------+------",
        "    a/0.png | 4",
        "    b.png   | 12",
    ]


def test_a_verb_in_a_step_shows_where_it_is_and_of_its_notes_one_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training of minutes behind one bar said nothing of its dice; fifteen epochs of a second are one line."""
    now = [100.0]
    monkeypatch.setattr(demo_story.time, "monotonic", lambda: now[0])
    seen: list[Progress] = []
    story = Story(seen.append)
    story.say("before")
    for epoch, now[0] in ((1, 101.0), (2, 106.0), (3, 107.0)):
        story.within(Progress(f"epoch {epoch}/3", 5, 10, "images", f"epoch {epoch}/3  dice 0.9"))
    assert [progress.note for progress in seen if progress.note] == ["    before", "    epoch 2/3  dice 0.9"]
    assert [p for p in seen if not p.note] == [Progress(f"epoch {n}/3", 5, 10, "images") for n in (1, 2, 3)]


def test_notes_of_a_verb_become_lines_of_the_step() -> None:
    notes: list[str] = []
    story = told(notes=notes)
    for progress in (Progress("up"), Progress("up", note="making a cluster")):
        story.retell(progress)
    assert notes == ["    making a cluster"]
