"""Prints the table of what the trust tests did at the end of the run."""

from __future__ import annotations

import figures
import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = figures.table()
    if lines:
        terminalreporter.section("trust")
        for line in lines:
            terminalreporter.write_line(line)
        terminalreporter.write_line("" if figures.long() else "A part was tried; LONG=1 tries all of it.")
