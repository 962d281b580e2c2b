"""dbinfer.instances: masks and keypoints of YOLO's networks, against onnxruntime and the published decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import onnxruntime
import pytest
import tiny_models
import yolo_heads
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import deploy
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest

SIDE = yolo_heads.SIDE
LETTERBOX = Manifest("detection", SIDE, SIDE, resize="fit_to_window_letterbox", pad_value=114)
RANDOM = np.random.default_rng(7)


def noise(width: int, height: int, kind: str = "PNG", **options: Any) -> bytes:
    coarse = RANDOM.integers(0, 256, (6, 8, 3), np.uint8)
    return tiny_models.file(
        cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR), kind, **options
    )


# sizes that the letterbox pads right and left, above and below, and not at all, smaller and larger than the input
IMAGES = [noise(300, 200), noise(90, 200), noise(SIDE, SIDE), noise(50, 40)]
TURNED = noise(120, 80, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06" + bytes(6))


class Found(NamedTuple):
    """What the published decoding makes of an image: boxes (left, top, right, bottom) and what belongs to each."""

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    rest: np.ndarray


@pytest.fixture(scope="module", autouse=True)
def networks(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for kind in ("segment", "pose"):
        source = yolo_heads.save(folder / f"{kind}.onnx", kind)
        report = convert(source, folder / f"{kind}.xml", ConvertOptions(values={"precision": "f32"}))
        assert report.detector == f"yolov8_{kind} (recognised)"
        assert report.manifest.task == "detection"
        assert "task" not in report.assumed
        assert report.check.done
        deploy(folder / f"{kind}.xml", dsn=dsn)
    deploy(tiny_models.red_box(folder), dsn=dsn)
    return folder


def published(folder: Path, kind: str, shown: np.ndarray) -> tuple[Found, Any, list[float], list[int]]:
    """Letterbox, onnxruntime, NMS for each class with IoU 0.7, as Ultralytics does."""
    height, width = shown.shape[:2]
    gain = min(SIDE / height, SIDE / width)
    size = round(width * gain), round(height * gain)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    canvas = np.empty((SIDE, SIDE, 3), np.uint8)
    # our resize, for a network of random weights makes much of grey levels
    placement = Resizer(LETTERBOX).resize(shown, canvas)
    assert (placement.x, placement.y, placement.width, placement.height) == (left, top, *size)
    session = onnxruntime.InferenceSession(str(folder / f"{kind}.onnx"), providers=["CPUExecutionProvider"])
    given = canvas.transpose(2, 0, 1)[None].astype(np.float32) / 255
    raw, *more = session.run(None, {"images": given})
    table = raw[0].T
    classes = yolo_heads.CLASSES[kind]
    scores = table[:, 4 : 4 + classes]
    kept = np.flatnonzero(scores.max(1) >= 0.25)
    kept = kept[np.argsort(-scores[kept].max(1), kind="stable")]
    centre, sizes = table[:, :2], table[:, 2:4]
    corners = np.concatenate([centre - sizes / 2, centre + sizes / 2], 1)
    best: list[int] = []
    for at in kept:
        same = [one for one in best if scores[one].argmax() == scores[at].argmax()]
        if all(iou(corners[at], corners[one]) <= 0.7 for one in same):
            best.append(int(at))
    # by each side, as the size has whole pixels: one factor for both would be half a pixel off
    scale = [width / size[0], height / size[1]]
    boxes = (corners[best] - [left, top] * 2) * (scale * 2)
    boxes = np.clip(boxes, 0, [width, height] * 2)
    there = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    picked = np.array(best)[there][:100]
    found = Found(
        boxes[there][:100], scores[picked].max(1), scores[picked].argmax(1), table[picked, 4 + classes :]
    )
    return found, more, scale, [left, top]


def iou(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    both = float(np.prod(np.maximum(sides, 0)))
    return both / (float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - both)


QUERY = (
    "SELECT i.class, i.label, i.score, i.x, i.y, i.width, i.height, i.mask, i.points"
    " FROM unnest(dbinfer.instances(%s, %s)) i"
)


@pytest.mark.parametrize("kind", ["segment", *wide("pose")])
def test_instances_are_those_of_the_published_decoding(db: Connection, networks: Path, kind: str) -> None:
    compared = 0
    for image in [*IMAGES, TURNED]:
        shown = tiny_models.pixels(ask(db, "SELECT dbinfer.draw(%s, '{}')", image))
        expected, more, scale, start = published(networks, kind, shown)
        found = rows(db, QUERY, image, kind)
        # what detect finds is the same, to the last digit
        assert [row[:7] for row in found] == rows(
            db, QUERY.replace("instances", "detect").replace(", i.mask, i.points", ""), image, kind
        )
        assert [row[0] for row in found] == expected.classes.tolist()
        for row, box, score, rest in zip(found, expected.boxes, expected.scores, expected.rest, strict=True):
            x, y, width, height = row[3:7]
            assert np.abs(np.array([x, y, x + width, y + height]) - box).max() < 0.05
            assert abs(row[2] - score) < 1e-3
            if kind == "pose":
                assert row[7] is None
                places = (rest.reshape(-1, 3)[:, :2] - start) * scale
                assert np.abs(np.array(row[8])[:, :2] - places).max() < 0.05
                assert np.abs(np.array(row[8])[:, 2] - rest.reshape(-1, 3)[:, 2]).max() < 1e-3
            else:
                assert row[8] is None
                compared += same_mask(db, image, row, rest, more[0][0], shown.shape)
    assert kind == "pose" or compared > 50_000


def same_mask(
    db: Connection, image: bytes, row: Any, coefficients: np.ndarray, prototypes: np.ndarray, shape: Any
) -> int:
    """Compare a mask with the published one, scaled to the image at once: away from the border all is equal."""
    mask = tiny_models.pixels(row[7])
    part = ask(db, "SELECT dbinfer.crop(%s, ARRAY[%s, %s, %s, %s])", image, *row[3:7])
    assert mask.shape == tiny_models.pixels(part).shape[:2]
    assert set(np.unique(mask)) <= {0, 255}
    values = np.tensordot(coefficients, prototypes, 1)
    gain = min(SIDE / shape[0], SIDE / shape[1])
    size = round(shape[1] * gain), round(shape[0] * gain)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    # the prototype's value at each pixel's middle
    sides = [
        ((np.arange(count) + 0.5) * inner / count + start) / 4 - 0.5
        for count, inner, start in ((shape[1], size[0], left), (shape[0], size[1], top))
    ]
    across, down = (np.clip(side, 0, len(prototypes[0]) - 1) for side in sides)
    whole = cv2.remap(
        values, *np.meshgrid(across.astype(np.float32), down.astype(np.float32)), cv2.INTER_LINEAR
    )
    x, y = round(row[3]), round(row[4])
    near = whole[y : y + mask.shape[0], x : x + mask.shape[1]]
    # a step of 1/32 of a prototype's pixel, and what the resize of the image changes
    clear = np.abs(near) > 0.05 * np.abs(values).max()
    assert ((near > 0) == (mask > 0))[clear].all()
    return int(clear.sum())


@pytest.mark.parametrize("plan", [PLANS[0], *wide(PLANS[1])])
def test_many_rows(db: Connection, plan: str) -> None:
    make_images(db, "scans", [*IMAGES, None], copies=8)
    planned_as(db, plan)
    for kind in ("segment", "pose"):
        counts = rows(
            db,
            "SELECT id % 5, count(DISTINCT i::text), count(*), min(coalesce(array_length(i, 1), 0)) FROM"
            f" (SELECT id, dbinfer.instances(img, '{kind}') AS i FROM public.scans OFFSET 0) s GROUP BY 1 ORDER BY 1",
        )
        assert [row[:3] for row in counts] == [(key, int(key < 4), 8) for key in range(5)]
        assert all(row[3] > 0 for row in counts[:4])


def test_they_compose(db: Connection) -> None:
    """A detector without masks, crop by an instance, keypoints by number, all drawn."""
    red = np.zeros((40, 60, 3), np.uint8)
    red[10:30, 20:50, 0] = 255
    image = tiny_models.file(red)
    (found,) = rows(db, QUERY, image, "redbox")
    assert found[0] == 0
    assert found[7:] == (None, None)
    assert ask(db, "SELECT (dbinfer.instances(%s, 'redbox'))[1].label", image) == "thing"
    for kind in ("segment", "redbox"):
        cut = "SELECT dbinfer.crop(%s, i) FROM unnest(dbinfer.instances(%s, %s)) i LIMIT 1"
        assert tiny_models.pixels(ask(db, cut, IMAGES[0], IMAGES[0], kind)).ndim == 3
    point = "SELECT i.points[2][1:3] FROM unnest(dbinfer.instances(%s, 'pose')) i LIMIT 1"
    assert len(ask(db, point, IMAGES[0])[0]) == 3


def test_draw_shows_masks_and_points(db: Connection) -> None:
    """One object: its mask is tinted, and the point that is likely stands out."""
    image = tiny_models.file(np.full((60, 80, 3), 90, np.uint8))
    half = np.zeros((20, 30), np.uint8)
    half[:, 15:] = 255
    one = "ROW('a', 2, NULL, 20, 20, 30, 20, %s, '{{70,50,0.9},{70,10,0.1},{NaN,NaN,NaN}}')"
    call = f"SELECT dbinfer.draw(%s, instances => ARRAY[{one}]::dbinfer.instance[])"
    found = tiny_models.pixels(ask(db, call, image, tiny_models.file(half)))
    changed = (found != 90).any(2)
    assert changed[25:38, 36:48].all()
    assert not changed[25:38, 22:34].any()
    assert changed[50, 70]
    assert not changed[10, 70]
    diag = refused(db, "22023", call, image, tiny_models.file(half[:, 1:]))
    assert "the mask has 29 x 20 pixels, but its box has 30 x 20" in diag.message_primary
    odd = call.replace("{{70,50,0.9},{70,10,0.1},{NaN,NaN,NaN}}", "{70,50,0.9,1}")
    diag = refused(db, "22023", odd, image, None)
    assert "are 4 numbers, but a point has 3" in diag.message_primary
    rows(db, "SET bytea_output = 'escape'")
    diag = refused(db, "22023", call, image, tiny_models.file(half))
    rows(db, "RESET bytea_output")
    assert "bytea_output" in diag.message_hint
    whole = "SELECT dbinfer.draw(%s, instances => dbinfer.instances(%s, %s))"
    for kind in ("segment", "pose", "redbox"):
        assert tiny_models.pixels(ask(db, whole, IMAGES[0], IMAGES[0], kind)).shape == (200, 300, 3)


def test_in_the_engine(db: Connection) -> None:
    call = "SELECT dbinfer.instances(%s, %s)::text"
    own = [ask(db, call, image, kind) for image in IMAGES for kind in ("segment", "pose", "redbox")]
    rows(db, "BEGIN; SELECT dbinfer_private.set_setting('isolation', 'always')")
    try:
        assert [
            ask(db, call, image, kind) for image in IMAGES for kind in ("segment", "pose", "redbox")
        ] == own
    finally:
        rows(db, "ROLLBACK")


def test_bad_input_is_one_sentence(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.instances(NULL, 'pose') IS NULL") is True
    assert ask(db, "SELECT dbinfer.instances('x', 'pose', 'null') IS NULL") is True
    refused(db, "22P03", "SELECT dbinfer.instances('x', 'pose')")
