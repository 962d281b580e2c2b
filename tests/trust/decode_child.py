"""Decodes the files that come in as `length, bytes`, answers each with JSON; runs in a process that may die."""

from __future__ import annotations

import json
import resource
import struct
import sys
import time

MEMORY = 4 << 30  # of address space; libraries alone take 1 GB of it

resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

import cv2  # noqa: E402

from dbinfer_udf.errors import ImageError  # noqa: E402
from dbinfer_udf.image.decode import Decoder, Target  # noqa: E402
from dbinfer_udf.image.header import read_header  # noqa: E402

cv2.setNumThreads(1)
WAYS = {
    "exact": Decoder("RGB"),
    "gray": Decoder("GRAY"),
    "reduced": Decoder("BGR", target=Target(16, 16)),
}


def outcome(data: bytes) -> dict[str, str]:
    """Return what each way to decode gave: "image", the SQLSTATE of an ImageError, or the name of another exception."""
    found = {}
    for name, decode in WAYS.items():
        try:
            image, header = decode(data)
            found[name] = "image" if image.dtype == "uint8" and header == read_header(data) else "wrong"
        except ImageError as err:
            found[name] = (
                err.sqlstate if err.message and "\n" not in err.message else "unclear: " + err.message
            )
        except BaseException as err:
            found[name] = f"{type(err).__name__}: {err}"
    return found


def memory_mb() -> tuple[float, float]:
    """Return the memory that is resident now, and the most that ever was."""
    # not getrusage, which counts what the parent had when it forked
    with open("/proc/self/status", encoding="ascii") as status:
        sizes = dict(line.split(":", 1) for line in status)
    now, most = (int(sizes[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    return now, most


def main() -> None:
    source, answers = sys.stdin.buffer, sys.stdout
    while head := source.read(4):
        data = source.read(struct.unpack("<I", head)[0])
        started = time.process_time()  # other tests run beside
        found = outcome(data)
        seconds = (time.process_time() - started) / len(WAYS)
        now, most = memory_mb()
        answers.write(json.dumps({"found": found, "seconds": seconds, "now": now, "most": most}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
