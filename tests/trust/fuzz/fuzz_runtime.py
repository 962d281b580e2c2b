"""Coverage-guided fuzzing of what reads strangers' bytes; see README.md here."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from xml.etree import ElementTree

import atheris
import numpy as np

ROOT = Path(__file__).parents[3]
OURS = ["dbinfer_udf", "dbinfer.load", "dbinfer.images.files"]
# operations that load nothing by themselves; Loop, TensorIterator and If hold graphs of their own
TYPES = (
    "Loop",
    "If",
    "Reshape",
    "Concat",
    "Broadcast",
    "Range",
    "Tile",
    "Pad",
    "Interpolate",
    "NonZero",
    "Const",
)
ABSURD = ("-1", "0", "4294967296", "9223372036854775807", "99999999", "nan", "", "?", "1e999", "..")

with atheris.instrument_imports(include=OURS):
    from targets import NET, TARGETS


def another_graph(data: bytes, most: int, seed: int) -> bytes:
    """Change an IR in its structure: what is changed byte by byte is hardly ever XML."""
    head, end, weights = data.partition(NET)
    rng = np.random.default_rng(seed)
    try:
        root = ElementTree.fromstring(head + end)
    except (ElementTree.ParseError, ValueError, LookupError):
        return bytes(atheris.Mutate(data, most))
    for _ in range(int(rng.integers(1, 4))):
        _change(root, rng)
    return (
        ElementTree.tostring(root) + weights if rng.random() < 0.95 else bytes(atheris.Mutate(data, most))
    )[:most]


def _change(root: ElementTree.Element, rng: np.random.Generator) -> None:
    parents = {child: parent for parent in root.iter() for child in parent}
    nodes = list(parents)
    if not nodes:
        return
    one, other = (nodes[int(rng.integers(len(nodes)))] for _ in range(2))
    what = int(rng.integers(6))
    if what == 0:
        parents[one].insert(0, copy.deepcopy(one))
    elif what == 1:
        parents[one].remove(one)
    elif what == 2:
        one.append(copy.deepcopy(other))
    elif what == 3 and one.attrib:
        one.set(str(rng.choice(list(one.attrib))), str(rng.choice([*ABSURD, *other.attrib.values()])))
    elif what == 4:
        one.text = str(rng.choice([*ABSURD, other.text or "1"]))
    elif one.get("type"):
        one.set("type", str(rng.choice(TYPES)))


def main() -> None:
    target, corpus = sys.argv[1], Path(sys.argv[2])
    run, sound, _ = TARGETS[target]
    if not corpus.exists():
        corpus.mkdir(parents=True)
        for number, data in enumerate(sound()):
            (corpus / f"seed{number}").write_bytes(data)
    change = {"custom_mutator": another_graph} if target == "ir" else {}
    atheris.Setup([sys.argv[0], *sys.argv[2:]], run, **change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
