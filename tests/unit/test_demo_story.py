"""The demo's story: a title, its command, results as psql shows them; the steps of a verb once each."""

from __future__ import annotations

from dbinfer.demo._story import Story
from dbinfer.progress import Progress


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


def test_a_verb_in_a_step_shows_where_it_is_and_tells_no_notes() -> None:
    seen: list[Progress] = []
    Story(seen.append).within(Progress("epoch 1/3", 5, 10, "images", "loss 1.0"))
    assert seen == [Progress("epoch 1/3", 5, 10, "images")]


def test_notes_of_a_verb_become_lines_of_the_step() -> None:
    notes: list[str] = []
    story = told(notes=notes)
    for progress in (Progress("up"), Progress("up", note="making a cluster")):
        story.retell(progress)
    assert notes == ["    making a cluster"]
