"""What reads strangers' bytes, each as a function that returns, or refuses with an error of ours; all else is a find.

As a program: replays folders of inputs, and says as JSON how much of the modules that they are for was reached.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import os
import signal
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import DbinferError
from dbinfer.images.files import Refused
from dbinfer.images.sources import Tar, Zip, kind_of
from dbinfer.models import ir as ir_read
from dbinfer_udf.engine import served
from dbinfer_udf.engine.slots import SIZE, Slots, make_slots
from dbinfer_udf.errors import ImageError, UdfError
from dbinfer_udf.host import protocol
from dbinfer_udf.image.decode import Decoder, Target
from dbinfer_udf.image.header import HEAD_BYTES, read_header, sniff
from dbinfer_udf.manifest import Manifest, ManifestError
from dbinfer_udf.model import trial, trial_process

DECODERS = (Decoder("RGB"), Decoder("GRAY", target=Target(16, 16)))
TRIAL = trial.Limits(start_seconds=10, image_seconds=3, memory_bytes=2 << 30)
NET = b"</net>"
FOLDER = Path(tempfile.mkdtemp(prefix="dbinfer-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))


def header(data: bytes) -> None:
    """A header is read or refused, and the same file is called an image by its first bytes."""
    try:
        found = read_header(data)
    except ImageError:
        return
    assert sniff(data[:HEAD_BYTES]) == found.format
    assert found.width > 0
    assert found.height > 0
    assert found.buffers >= 0
    assert found.seconds >= 0


def decode(data: bytes) -> None:
    """A file becomes pixels of the size that its header says, or is refused."""
    for decoder in DECODERS:
        with contextlib.suppress(ImageError):
            image, _ = decoder(data)
            assert image.dtype == "uint8"


def manifest(data: bytes) -> None:
    """A manifest is read, and then is the same when written and read again, or is refused."""
    try:
        found = Manifest.from_json(data.decode("utf-8", "replace"))
    except ManifestError:
        return
    assert Manifest.from_json(found.to_json()).to_json() == found.to_json()


def ir(data: bytes) -> None:
    """A model file (the .xml, then the .bin) passes its trial, or is refused in one line."""
    head, end, weights = data.partition(NET)
    xml = FOLDER / "model.xml"
    xml.write_bytes(head + end)
    xml.with_suffix(".bin").write_bytes(weights)
    with contextlib.suppress(DbinferError):
        ir_read._check_xml(xml)
    process, said = _forked(str(xml)), "passed"
    try:
        trial._Watch(process, TRIAL, bool).result()
    except trial.TrialError as err:
        said = err.message
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    assert len(said.splitlines()) == 1


def _forked(xml: str) -> Any:
    """Return a process that tries a model as run_trial does, forked because Python and OpenVINO start slowly."""
    call: dict[str, Any] = {"xml": xml, "precision": "f32", "memory": TRIAL.memory_bytes, "sample": None,
            "threads": [], "pays": 0.7, "guards": None}  # fmt: skip
    pipes = [os.pipe(), os.pipe()]
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            for number, (_, into) in enumerate(pipes, 1):
                os.dup2(into, number)
            for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
                signal.signal(number, signal.SIG_DFL)  # the fuzzer's, which would note a find
            trial_process.child(call)
        os._exit(1)
    for _, into in pipes:
        os.close(into)
    return Forked(pid, *(os.fdopen(out, "rb", 0) for out, _ in pipes))


@dataclass
class Forked:
    """What the trial's watch needs of a subprocess.Popen."""

    pid: int
    stdout: Any
    stderr: Any
    returncode: int | None = None

    def wait(self) -> None:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def messages(data: bytes) -> None:
    """What a worker or a host sends is a message, or refused; what is believed of it is bounded."""
    kind, body = data[:1], data[1:]
    for read in (protocol.unframe, protocol.unpack_head):
        with contextlib.suppress(protocol.ClosedError):
            read(body)
    with contextlib.suppress(UdfError, protocol.RemoteError):
        protocol.unpack_answer(kind[0] if kind else 0, body)
    for function in ("classify", "embed"):
        with contextlib.suppress(UdfError):
            protocol.unpack_results(body, function, 3)
    with contextlib.suppress(ValueError, RecursionError, protocol.ClosedError):  # as Served._read has it
        said = protocol.bounded(json.loads(body))
        facts = served._bounded_facts(said, {"rows": 32, "threads": 1})
        assert 1 <= facts["rows"] <= 32
        told = "".join(protocol.bounded_error(said).values())
        assert all(sign.isprintable() or sign in "\n\t" for sign in told)
        json.dumps(facts, allow_nan=False)


def slots(data: bytes) -> None:
    """Whatever a worker writes into shared memory, what is read of it can be counted, added and sent."""
    fd = make_slots(4)
    os.pwrite(fd, data[: 4 * SIZE], 0)
    found = Slots(fd)
    for number, state in enumerate(found.all()):
        assert 0 <= state.since < 1e12
        found.clear(number, True)
        own = found.slot(number)
        own.requests += 1
        own.errors += 1
        own.begin(b"12345678")
        own.end()
    assert sum(state.requests + state.errors for state in found.all()) < 2**63
    assert found.running() == {}
    os.close(fd)


def archives(data: bytes) -> None:
    """An archive is read to its end, or refused in one sentence; so is a tar whose sums and packing are right."""
    ways = [data]
    if data[257:262] == b"ustar":
        whole = b"".join(_mended(data[at : at + 512]) for at in range(0, len(data), 512))
        ways += [whole, gzip.compress(whole, 1)]
    for number, content in enumerate(ways):
        file = FOLDER / f"archive{number}"
        file.write_bytes(content)
        with contextlib.suppress(DbinferError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile's, of names that are there twice
            refused: list[Refused] = []
            source = Zip(file) if kind_of(file) == "zip" else Tar(file)
            found = list(source.entries(refused))
            for outcome in source.reader()(found):
                assert isinstance(outcome, Refused) or len(outcome[1]) <= outcome[0].size
            source.close()
            assert all(one.reason and "\n" not in one.reason for one in refused)
            assert not any(".." in one.path.split("/") or one.path.startswith("/") for one in found)


def _mended(block: bytes) -> bytes:
    """Return a header with its right sum."""
    if block[257:262] != b"ustar" or len(block) < 512:
        return block
    blank = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % (sum(blank) & 0o777777) + block[156:]


Seeds = Callable[[], list[bytes]]


def _images() -> list[bytes]:
    from seeds import FORMATS, seeds

    return [data for kind in FORMATS for data in seeds(kind)]


def _manifests() -> list[bytes]:
    whole = Manifest("classification", 8, 8, mean=(1.0,), scale=(2.0,), labels=("a", "b"))
    return [whole.to_json().encode(), b'{"task": "tensor", "height": 1, "width": 1}']


def _irs() -> list[bytes]:
    import tiny_models as tiny

    made = [
        tiny.colour_classifier(FOLDER),
        tiny.red_mask(FOLDER),
        tiny.convolution(FOLDER),
        tiny.red_box(FOLDER),
    ]
    return [file.read_bytes().split(NET)[0] + NET + file.with_suffix(".bin").read_bytes() for file in made]


def _messages() -> list[bytes]:
    found = [
        protocol.frame({"op": "open", "rows": 3}),
        protocol.pack_error(ImageError("no"))[protocol.ANSWER.size :],
    ]
    found += [
        b"".join(protocol.pack_request(bytes(8), "rows", None, ("classify", True, [(1, b"x"), (2, None)])))
    ]
    facts = {"rows": 2, "result_bytes": 9, "infer_milliseconds": 1.5, "sandbox": {"files": True}}
    found += [protocol.pack_results(["a", None, "b"]), json.dumps(facts).encode()]
    return [bytes([kind]) + one for kind in range(5) for one in found]


def _slots() -> list[bytes]:
    return [b"\xff" * 4 * SIZE, bytes(4 * SIZE), b"12345678" + np.array([1.5]).tobytes() + bytes(300)]


def _archives() -> list[bytes]:
    import tarfile

    found, image = [], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(20)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        file = BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form, bufsize=512) as tar:
            for name in ("a/1.png", "b/\u00e4" + "x" * 120 + ".png", "text.txt"):
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(image), 1.5
                tar.addfile(info, BytesIO(image))
        found.append(file.getvalue().rstrip(b"\0") + bytes(1536))
    for way in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        file = BytesIO()
        with zipfile.ZipFile(file, "w", way) as packed:
            packed.writestr("a/1.png", image)
            packed.writestr("2.png", image * 9)
        found.append(file.getvalue())
    return found


UDF = "dbinfer_udf."
FORMATS_READ = tuple(UDF + name for name in ["image.header", "image.file", "image.jpeg", "image.tiff"])
# of each target: what it does, its sound inputs, and the modules that read them
TARGETS: dict[str, tuple[Callable[[bytes], None], Seeds, tuple[str, ...]]] = {
    "header": (header, _images, FORMATS_READ),
    "decode": (decode, _images, (UDF + "image.decode", *FORMATS_READ)),
    "manifest": (manifest, _manifests, (UDF + "manifest",)),
    "ir": (ir, _irs, (UDF + "model.trial",)),
    "messages": (messages, _messages, (UDF + "host.protocol",)),
    "slots": (slots, _slots, (UDF + "engine.slots",)),
    "archives": (archives, _archives, ("dbinfer.images.sources",)),
}  # fmt: skip


def reached(name: str, folders: list[Path]) -> dict[str, float]:
    """Replay inputs; return how many there were, and how much of the functions of the target's modules they reached."""
    run, sound, modules = TARGETS[name]
    files = {str(importlib.import_module(module).__file__): set[int]() for module in modules}

    def look(frame: Any, event: str, _: object) -> Any:
        lines = files.get(frame.f_code.co_filename)
        if lines is not None and event == "line":
            lines.add(frame.f_lineno)
        return look if lines is not None else None

    inputs = [*sound(), *(file.read_bytes() for folder in folders for file in sorted(folder.glob("*")))]
    sys.settrace(look)
    for data in inputs:
        run(data)
    sys.settrace(None)
    wanted = {file: _lines(file) for file in files}
    there = sum(len(lines & wanted[file]) for file, lines in files.items())
    return {"inputs": len(inputs), "coverage": round(100 * there / sum(map(len, wanted.values())), 1)}


def _lines(file: str) -> set[int]:
    """Return the lines of a file's functions."""
    code, found = [compile(Path(file).read_text(encoding="utf-8"), file, "exec")], set[int]()
    while code:
        one = code.pop()
        code += [inner for inner in one.co_consts if hasattr(inner, "co_lines")]
        if one.co_flags & 2:  # of a function, not of a module or class
            found |= {line for *_, line in one.co_lines() if line and line != one.co_firstlineno}
    return found


if __name__ == "__main__":
    print(json.dumps(reached(sys.argv[1], [Path(folder) for folder in sys.argv[2:]])))
