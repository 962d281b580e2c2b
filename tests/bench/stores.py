"""Measures what it costs that images lie elsewhere: whole tables of references beside the same tables of bytea.

python tests/bench/stores.py [DSN]    prints the table of docs/how-to/images-elsewhere.md, after about 6 minutes

The server of the database and this program must run on one host. Stores: a folder; nginx as a web server, where it is
installed; moto's server of S3, which is written in Python and takes most of the time itself.
"""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import median

from moto.server import ThreadedMotoServer

from dbinfer.base.progress import silent
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.networks import model_files
from dbinfer.bench.report import Case
from dbinfer.images import builtin

CASES = (
    (Case("digits", "f32", "28x28", "classify"), 20_000),
    (Case("mobilenet_v2", "f32", "500x375", "classify"), 2_000),
    (Case("resnet50", "f32", "500x375", "classify"), 600),
)
ROUNDS = 3
NGINX = """
daemon off; pid {folder}/pid; error_log stderr; events {{ worker_connections 256; }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
"""


def files(case: Case) -> list[bytes]:
    """Return the images of a case: digits as PNG, photographs as JPEG."""
    if case.images == "28x28":
        return [data for data, _label in islice(builtin.digit_files("heldout"), 256)]
    return builtin.photograph_files(case.size, 32)


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port))
    process = subprocess.Popen(["nginx", "-c", config, "-p", folder], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert time.monotonic() < until, "nginx does not answer"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def stores(opened: Database, folder: Path, images: list[bytes], stack: ExitStack) -> list[str]:
    """Put the images into every store there can be; return the stores' names."""
    import http.client

    for number, image in enumerate(images):
        (folder / f"{number}").write_bytes(image)
    add = "SELECT dbinfer.add_store(%s, %s, %s, private => true)"
    found = {"disk": (f"file://{folder}", None)}
    if shutil.which("nginx"):
        found["web"] = (stack.enter_context(nginx(folder)), None)
    # `verbose` is about its start only
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    stack.callback(moto.stop)
    host, port = moto.get_host_and_port()
    for path, body in [("/bench", b""), *((f"/bench/a/{n}", image) for n, image in enumerate(images))]:
        connection = http.client.HTTPConnection(host, port)
        connection.request("PUT", path, body, {"x-amz-acl": "public-read"})
        connection.getresponse().read()
    found["bucket"] = ("s3://bench/a", f"http://{host}:{port}")
    for name, (url, endpoint) in found.items():
        opened.rows(add, (name, url, endpoint))
    return list(found)


def seconds(opened: Database, table: str, column: str, model: str) -> float:
    """Return how long a whole table takes."""
    began = time.monotonic()
    call = "SELECT count(*) FROM dbinfer.classify_table(%s, %s, img_column => %s)"
    opened.one(call, (f"{opened.schema}.{table}", model, column))
    return time.monotonic() - began


def measure(opened: Database, case: Case, rows: int) -> list[str]:
    """Return the cells of a case: images a second of bytea, and the share of it that each store reaches."""
    images = files(case)
    opened.deploy(case, model_files(case.network, case.precision))
    opened.images(images)
    opened.fill("kept", rows, len(images))
    with ExitStack() as stack:
        # in /tmp, because the server's user must enter it
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dbinfer-bench-", dir="/tmp")))
        folder.chmod(0o755)
        names = stores(opened, folder, images, stack)
        for name in names:
            opened.run(f"DROP TABLE IF EXISTS {{{name}}}", **{name: opened.table(name)})
            opened.run(
                f"CREATE TABLE {{{name}}} WITH (parallel_workers = {opened.workers - 1}) AS "
                f"SELECT id, '{name}/' || id %% {len(images)} AS path, repeat('x', 700) AS pad FROM {{kept}}",
                (),
                **{name: opened.table(name), "kept": opened.table("kept")},
            )
            opened.run(f"VACUUM ANALYZE {{{name}}}", **{name: opened.table(name)})
        times: dict[str, list[float]] = {"kept": [], **{name: [] for name in names}}
        for _ in range(ROUNDS):
            for name, taken in times.items():
                taken.append(seconds(opened, name, "img" if name == "kept" else "path", case.model))
        for name in names:
            opened.rows("SELECT dbinfer.drop_store(%s)", (name,))
    kept = median(times["kept"])
    shares = [
        f"{kept / median(times[name]):.2f}" if name in times else "-" for name in ("disk", "web", "bucket")
    ]
    return [case.network, f"{rows:,}", f"{rows / kept:,.0f}", *shares]


def main(dsn: str | None) -> None:
    """Print a line for each case as it is done."""
    print("| network | rows | bytea, images/s | folder | web server | S3 (moto) |")
    print("|---|---|---|---|---|---|")
    with database(server_dsn(dsn, silent)) as opened:
        for case, rows in CASES:
            print("| " + " | ".join(measure(opened, case, rows)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
