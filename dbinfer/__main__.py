"""`python -m dbinfer` is `dbinfer`, also where no folder of programs is in PATH."""

from __future__ import annotations

from dbinfer.cli import main

main()
