"""Coverage-guided fuzzing of what reads strangers' bytes: image headers, decoding, manifests; see README.md here."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import atheris

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[3] / "udf")]

with atheris.instrument_imports(include=["dbinfer_udf"]):
    from dbinfer_udf.errors import ImageError
    from dbinfer_udf.header import read_header, sniff
    from dbinfer_udf.image import Decoder, Target
    from dbinfer_udf.manifest import Manifest, ManifestError

DECODERS = (Decoder("RGB"), Decoder("GRAY", target=Target(16, 16)))


def header(data: bytes) -> None:
    """A header is read or refused, and the same file is called an image by its first bytes."""
    try:
        found = read_header(data)
    except ImageError:
        return
    assert sniff(data[:18]) == found.format
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


TARGETS = {"header": header, "decode": decode, "manifest": manifest}


def write_seeds(target: str, folder: Path) -> None:
    """Fill a new folder with sound inputs."""
    from seeds import FORMATS, seeds

    folder.mkdir(parents=True)
    sound = [data for kind in FORMATS for data in seeds(kind)]
    if target == "manifest":
        whole = Manifest("classification", 8, 8, mean=(1.0,), scale=(2.0,), labels=("a", "b"))
        sound = [whole.to_json().encode(), b'{"task": "tensor", "height": 1, "width": 1}']
    for number, data in enumerate(sound):
        (folder / f"seed{number}").write_bytes(data)


def main() -> None:
    target, corpus = sys.argv[1], Path(sys.argv[2])
    if not corpus.exists():
        write_seeds(target, corpus)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
