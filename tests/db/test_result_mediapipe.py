"""MediaPipe's networks in SQL against MediaPipe's own answers: faces with points, and a hand that is found and read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tiny_models
from asking import rows
from numpy.typing import NDArray
from packages import installed
from psycopg2.extensions import connection as Connection

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import deploy

pytestmark = pytest.mark.wide
# the second two for MediaPipe alone, which runs in a process of its own
PACKAGES = ("mediapipe==0.10.21", "attrs", "scikit-image", "numpy==1.26.4", "protobuf==4.25.8")
NETWORKS = {
    "faces": "face_detection/face_detection_short_range",
    "palms": "palm_detection/palm_detection_full",
    "hand": "hand_landmark/hand_landmark_full",
}
THEIRS = """
import json, sys
sys.modules["tensorflow"] = None  # it would ask for a later protobuf
import cv2, mediapipe
solutions, found = mediapipe.solutions, {}
with solutions.face_detection.FaceDetection() as faces, solutions.hands.Hands(static_image_mode=True) as hands:
    for path in sys.argv[1:]:
        image = cv2.imread(path)[:, :, ::-1].copy()
        size = image.shape[1::-1]
        place = lambda points: [[point.x * size[0], point.y * size[1]] for point in points]
        answer = {"faces": [], "hands": []}
        for one in faces.process(image).detections or []:
            data = one.location_data
            box = data.relative_bounding_box
            answer["faces"].append({
                "score": one.score[0],
                "box": [box.xmin * size[0], box.ymin * size[1], box.width * size[0], box.height * size[1]],
                "points": place(data.relative_keypoints),
            })
        for one in hands.process(image).multi_hand_landmarks or []:
            answer["hands"].append(place(one.landmark))
        found[path] = answer
print(json.dumps(found))
"""
# MediaPipe's rectangle around a hand: upright from the wrist (point 1) to the middle finger (3), 2.6 times the palm's
# longer side, its centre half a palm's height further up
HAND = """
WITH palm AS (
    SELECT x, y, height, 1.3 * greatest(width, height) AS half, atan2(x3 - x1, y1 - y3) AS turn FROM (
        SELECT sum(score * (x + width / 2)) / sum(score) AS x, sum(score * (y + height / 2)) / sum(score) AS y,
               sum(score * width) / sum(score) AS width, sum(score * height) / sum(score) AS height,
               sum(score * points[1][1]) AS x1, sum(score * points[1][2]) AS y1,
               sum(score * points[3][1]) AS x3, sum(score * points[3][2]) AS y3
          FROM unnest(dbinfer.instances(%(img)s, 'palms'))) s
), middle AS (
    SELECT x + 0.5 * height * sin(turn) AS x, y - 0.5 * height * cos(turn) AS y,
           half * cos(turn) AS c, half * sin(turn) AS s, 2 * half / 224 AS gain, turn FROM palm
)
SELECT o.values, x, y, gain, turn FROM middle, dbinfer.outputs(dbinfer.crop(%(img)s,
       ARRAY[x - c + s, y - s - c, x + c + s, y + s - c, x + c - s, y + s + c, x - c - s, y - s + c]), 'hand') o
 WHERE o.values[64] IS NULL AND o.values[63] IS NOT NULL LIMIT 1
"""


def drawn_hand(turn: float) -> NDArray[np.uint8]:
    """Return a picture, 600 x 640, of an open hand that MediaPipe takes for one."""
    side, skin = 2048, (135, 160, 205)
    picture = np.full((side, side, 3), (90, 80, 60), np.uint8)

    def at(*share: float) -> list[int]:
        return [round(one * side) for one in share]

    palm = [(0.38, 0.56), (0.40, 0.80), (0.45, 0.98), (0.58, 0.98), (0.62, 0.80), (0.65, 0.56), (0.52, 0.50)]
    cv2.fillConvexPoly(picture, cv2.convexHull(np.array([at(*one) for one in palm])), skin)
    cv2.ellipse(picture, at(0.51, 0.66), at(0.135, 0.15), 0, 0, 360, skin, -1)
    fingers = [
        ((0.42, 0.58), (0.36, 0.30), 0.058), ((0.49, 0.56), (0.48, 0.23), 0.060), ((0.56, 0.57), (0.59, 0.27), 0.057),
        ((0.62, 0.60), (0.70, 0.36), 0.048), ((0.42, 0.74), (0.25, 0.52), 0.062),
    ]  # fmt: skip
    for root, tip, width in fingers:
        cv2.line(picture, at(*root), at(*tip), skin, round(width * side))
    for root, tip, _ in fingers:
        for share in (0.36, 0.68):
            x, y = np.array(root) * (1 - share) + np.array(tip) * share
            cv2.line(picture, at(x - 0.015, y), at(x + 0.015, y), (97, 115, 147), 8)
    small = cv2.resize(cv2.GaussianBlur(picture, (0, 0), 8), (512, 512), interpolation=cv2.INTER_AREA)
    matrix = cv2.getRotationMatrix2D((256, 300), turn, 1) + np.array([[0, 0, 44], [0, 0, 40]])
    return cv2.warpAffine(small, matrix, (600, 640), borderMode=cv2.BORDER_CONSTANT, borderValue=(90, 80, 60))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("packages"), *PACKAGES)


@pytest.fixture(scope="module")
def pictures(packages: Path) -> dict[str, bytes]:
    astronaut = cv2.imread(str(packages / "skimage" / "data" / "astronaut.png"))
    made = {
        "as it is": astronaut,
        "a part": astronaut[20:280, 60:460],
        "smaller": cv2.resize(astronaut[:300], (320, 188), interpolation=cv2.INTER_AREA),
        "as large as the input": cv2.resize(
            astronaut[:256, 96:352], (128, 128), interpolation=cv2.INTER_AREA
        ),
        "upright": drawn_hand(0),
        "to the left": drawn_hand(15),
        "to the right": drawn_hand(-40),
    }
    return {name: tiny_models.file(picture[:, :, ::-1], "PNG") for name, picture in made.items()}


@pytest.fixture(scope="module")
def theirs(
    packages: Path, pictures: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pictures")
    files = {name: folder / f"{number}.png" for number, name in enumerate(pictures)}
    for name, file in files.items():
        file.write_bytes(pictures[name])
    done = subprocess.run(
        [sys.executable, "-c", THEIRS, *map(str, files.values())],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    return {name: found[str(file)] for name, file in files.items()}


@pytest.fixture(scope="module")
def models(dsn: str, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for name, source in NETWORKS.items():
        report = convert(
            packages / "mediapipe" / "modules" / f"{source}.tflite",
            folder / f"{name}.xml",
            # all boxes, for MediaPipe averages those that overlap
            ConvertOptions(values={"name": name, "precision": "f32", "iou_threshold": 1.0}),
        )
        deploy(report.output, dsn=dsn)


@pytest.mark.parametrize("name", ["as it is", "a part", "smaller", "as large as the input"])
def test_faces(db: Connection, models: None, pictures: Any, theirs: Any, name: str) -> None:
    query = "SELECT d.score, ARRAY[d.x, d.y, d.width, d.height], d.points FROM unnest(dbinfer.instances(%s, 'faces')) d"
    (other,) = theirs[name]["faces"]
    found = rows(db, query, pictures[name])
    scores = [score for score, _, _ in found]
    box, points = (np.average([one[place] for one in found], 0, scores) for place in (1, 2))
    # MediaPipe takes single pixels where we shrink by averages
    near = 1e-5 if name == "as large as the input" else 0.1
    assert max(scores) == pytest.approx(other["score"], abs=near)
    assert box == pytest.approx(other["box"], abs=near * box[2])
    assert points[:, :2] == pytest.approx(np.array(other["points"]), abs=near * box[2])
    # a point is as sure as its box
    assert points[:, 2] == pytest.approx(np.average(scores, weights=scores))


@pytest.mark.parametrize("name", ["upright", "to the left", "to the right"])
def test_a_hand(db: Connection, models: None, pictures: Any, theirs: Any, name: str) -> None:
    (other,) = theirs[name]["hands"]
    with db.cursor() as cursor:
        cursor.execute(HAND, {"img": pictures[name]})
        ((values, x, y, gain, turn),) = cursor.fetchall()
    places = (np.reshape(values, (21, 3))[:, :2] - 112) * gain
    cos, sin = np.cos(turn), np.sin(turn)
    ours = places @ [[cos, sin], [-sin, cos]] + [x, y]
    # a fiftieth of the part of the image that the network sees
    assert ours == pytest.approx(np.array(other), abs=224 * gain / 50)
