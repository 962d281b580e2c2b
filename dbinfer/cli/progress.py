"""The one progress bar of all commands: it shows what a verb tells through dbinfer.base.progress, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from dbinfer.base.errors import harmless, one_line
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.cli.screen import Screen, bytes_text


@contextmanager
def progress_bar(steps: bool = False, console: Console | None = None) -> Iterator[OnProgress]:
    """Yield the listener to give to a verb; the bar goes when the verb is done, notes stay.

    Args:
        steps: where stderr is no terminal print each new step as a line, for commands that run for many minutes.
    """
    stderr = console or Screen(stderr=True, soft_wrap=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), Amount(), Rate(), Left())
    with Bar(
        *columns, TimeElapsedColumn(), console=stderr, disable=not stderr.is_terminal, transient=True
    ) as bar:
        yield Listener(bar, steps)


class Listener:
    """Shows one step at a time; a new step starts a new line, so that its rate is its own."""

    def __init__(self, bar: Bar, steps: bool) -> None:
        self._bar, self._steps = bar, steps
        self._step = ""
        self._task: TaskID | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.step != self._step:
            self._begin(progress)
        if self._task is not None:
            self._bar.update(
                self._task, completed=progress.done, total=progress.total, errors=progress.errors
            )
        if progress.note:
            # Names of files may hold brackets, which are markup to Rich
            self._bar.console.print(harmless(progress.note))

    def _begin(self, progress: Progress) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._step = progress.step
        step = one_line(progress.step)
        self._task = self._bar.add_task(step, total=progress.total, unit=progress.unit, errors=0)
        if self._steps and self._bar.disable:
            self._bar.console.print(step)


class Words(ProgressColumn):
    """Words that stay on one line: where it is narrow, the bar alone gets shorter."""

    def get_table_column(self) -> Column:
        """Return a column that does not wrap."""
        return Column(no_wrap=True)


class Amount(Words):
    """How much is done, of how much where that is known."""

    def render(self, task: Task) -> Text:
        """Return `120/400 images`, or `1.2 of 30.5 MB`."""
        unit = task.fields["unit"]
        if not unit:
            return Text()
        if unit == "bytes":
            total = f" of {bytes_text(task.total)}" if task.total is not None else ""
            return Text(bytes_text(task.completed) + total)
        total = f"/{task.total:,.0f}" if task.total is not None else ""
        return Text(f"{task.completed:,.0f}{total} {unit}")


class Rate(Words):
    """How much is done each second."""

    def render(self, task: Task) -> Text:
        """Return `85 images/s`; nothing before there is a rate."""
        unit = task.fields["unit"]
        if not (unit and task.speed):
            return Text()
        return Text(f"{bytes_text(task.speed)}/s" if unit == "bytes" else f"{task.speed:,.0f} {unit}/s")


class Left(Words):
    """How much of a long step is done, how long the rest takes, and how much was bad."""

    def render(self, task: Task) -> Text:
        """Return `57 %, 0:03:10 left, 2 errors`; nothing where nobody knows how much there is."""
        words = []
        if task.total and task.fields["unit"]:
            words.append(f"{100 * task.completed / task.total:.0f} %")
            if task.time_remaining:
                words.append(f"{timedelta(seconds=int(task.time_remaining))} left")
        if task.fields["errors"]:
            words.append(f"{task.fields['errors']} errors")
        return Text(", ".join(words))
