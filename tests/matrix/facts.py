"""Writes what a server of the matrix consists of: its version, and those of Python and packages in its backends."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
from psycopg2.extras import RealDictCursor

from dbinfer.server import UpOptions, down, up

FACTS = """SELECT current_setting('server_version') AS postgresql, python, numpy, openvino, opencv, problem
  FROM dbinfer.segments"""


def main(target: Path) -> None:
    """Start the embedded server, which makes the backends' venv the first time, and ask one backend."""
    running = up(None, UpOptions(), lambda progress: print(progress.note))
    assert running.dsn is not None
    with closing(psycopg2.connect(running.dsn, cursor_factory=RealDictCursor)) as db, db.cursor() as cursor:
        cursor.execute(FACTS)
        target.write_text(json.dumps(cursor.fetchone(), indent=1))
    # the tests have servers of their own
    down()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
