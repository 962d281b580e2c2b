"""Reading against a real one: PaddleOCR's three networks and RapidOCR's own answers, both in rapidocr-onnxruntime."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest
from asking import ask
from numpy.typing import NDArray
from packages import installed
from psycopg2.extensions import connection as Connection

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import deploy

pytestmark = pytest.mark.wide
PACKAGES = (
    "rapidocr-onnxruntime==1.4.4",
    "scikit-image",
    "pyclipper",
    "shapely",
    "pyyaml",
    "six",
    "lazy-loader",
)
PIXELS = {"color": "BGR", "mean": [127.5], "scale": [127.5]}
LINES = (
    "The quick brown fox jumps over the lazy dog.",
    "Invoice 2024-0815, due on 31 March: 1,250.00",
    "Pack my box with five dozen liquor jugs!",
    "Sphinx of black quartz, judge my vow (twice)",
)
FONTS = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "DejaVuSans-Bold", "STIXGeneral")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of the packages, which is in sys.path meanwhile."""
    folder = installed(tmp_path_factory.mktemp("packages"), *PACKAGES)
    # behind everything, so that nothing else changes
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def reference(packages: Path) -> Any:
    from rapidocr_onnxruntime import RapidOCR

    # by itself each line is as wide as it needs, not as the widest of six
    return RapidOCR(rec_batch_num=1)


@pytest.fixture(scope="module")
def models(dsn: str, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, sources = tmp_path_factory.mktemp("irs"), packages / "rapidocr_onnxruntime" / "models"
    options = {
        "ch_PP-OCRv4_det_infer": {"name": "lines", "task": "text_detection", **PIXELS},
        # its characters are in the file
        "ch_PP-OCRv4_rec_infer": {"name": "letters"},
        "ch_ppocr_mobile_v2.0_cls_infer": {
            "name": "side", "labels": ["0", "180"], "height": 48, "width": 192, "resize": "keep_height",
            "pad_value": 127, **PIXELS,
        },
    }  # fmt: skip
    for source, values in options.items():
        report = convert(sources / f"{source}.onnx", folder / f"{source}.xml", ConvertOptions(values=values))
        deploy(report.output, dsn=dsn)


class Line(NamedTuple):
    text: str
    score: float
    corners: NDArray[np.float64]


def read(db: Connection, picture: bytes, models: str = "'lines', 'letters', 'side'") -> list[Line]:
    found = ask(db, f"SELECT coalesce(json_agg(l), '[]') FROM unnest(dbinfer.read(%s, {models})) l", picture)
    return [Line(one["text"], one["score"], np.reshape(one["box"], (4, 2))) for one in found]


def theirs(reference: Any, picture: bytes) -> list[Line]:
    found = reference(cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR))[0] or []
    return [Line(text, float(score), np.array(box)) for box, text, score in found]


def page(font: str, size: int, angle: float = 0.0, lines: tuple[str, ...] = LINES) -> bytes:
    """Return a PNG of black lines on white."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    face = ImageFont.truetype(str(path), size)
    widest = max(face.getlength(line) for line in lines)
    height = int(size * 2 * (len(lines) + 1))
    image = Image.new("RGB", (int(widest) + 4 * size, height), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((2 * size, size + 2 * size * number), line, "black", font=face)
    turned = image.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
    return cv2.imencode(".png", np.asarray(turned)[:, :, ::-1])[1].tobytes()


PAGES = {
    f"{font} {size} {angle:g}": (font, size, angle)
    for font in FONTS
    for size, angle in ((16, 0), (24, 3), (40, -8))
}


def apart(ours: Line, other: Line) -> float:
    return float(np.abs(ours.corners - other.corners).max())


def edits(one: str, other: str) -> int:
    """Return Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def letters(text: str) -> str:
    """Return the text without spaces, which this network drops between small letters, each time others."""
    return text.replace(" ", "")


@pytest.mark.parametrize("name", ["page", "text", *PAGES])
def test_lines_are_those_of_rapidocr(
    db: Connection, models: None, packages: Path, reference: Any, name: str
) -> None:
    picture = (
        page(*PAGES[name]) if name in PAGES else (packages / "skimage" / "data" / f"{name}.png").read_bytes()
    )
    ours, others = read(db, picture), theirs(reference, picture)
    assert len(ours) == len(others) > 0
    for other in others:
        line = min(ours, key=lambda ours: apart(ours, other))
        assert apart(line, other) <= 2
        # its corners are rounded twice more, so that letters may become their neighbours
        assert edits(letters(line.text), letters(other.text)) <= 2
        assert abs(line.score - other.score) < 0.1


def test_characters_of_set_pages(db: Connection, models: None) -> None:
    from rapidocr_onnxruntime import RapidOCR

    as_it_comes, expected = RapidOCR(), "\n".join(LINES)
    wrong, other = [0, 0], 0
    for font, size, angle in PAGES.values():
        picture = page(font, size, angle)
        text = ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters')", picture)
        wrong[0] += edits(letters(text), letters(expected))
        wrong[1] += edits(text, expected)
        other += edits("\n".join(line.text for line in theirs(as_it_comes, picture)), expected)
    total = len(PAGES) * len(letters(expected))
    assert wrong[0] <= 0.02 * total
    # with spaces the network is weaker; not more than it is by the package itself
    assert wrong[1] <= other + 0.01 * total


def test_a_page_upside_down(db: Connection, models: None) -> None:
    picture = page("DejaVuSans", 40, 180)
    text = ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters', 'side')", picture)
    assert edits(letters(text), letters("".join(reversed([f"\n{line}" for line in LINES])))) <= 5
