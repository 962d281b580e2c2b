"""python -m dbinfer.demo [--dsn DSN] [--out FOLDER]"""

from __future__ import annotations

import sys

from dbinfer.cli import main

if __name__ == "__main__":
    main(["demo", *sys.argv[1:]])
