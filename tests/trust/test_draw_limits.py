"""What dbinfer.draw may take: memory is bounded before a picture is decoded, time by looks at the server's flags.

Before, a PNG of 79 kB with a mask held a backend for 8.7 s and 940 MB past a timeout of one second, and 10,000 boxes
on it would have taken the better part of an hour.
"""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from collections.abc import Callable

import hostile_images as hostile
import numpy as np
import pytest

from dbinfer_udf.errors import CancelledError, ImageError, UsageError
from dbinfer_udf.host import interrupts
from dbinfer_udf.image import draw
from dbinfer_udf.image.apart import answers
from dbinfer_udf.image.decode import decode
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.session import images

NO_LIMIT = DEFAULT_LIMITS._replace(max_seconds=1 << 40)
# what one stripe of rows takes beside the picture, and the interpreter's own
SLACK = 8 << 20


def boxes(count: int, side: int, label: str = "W" * 60) -> str:
    one = {"label": label, "class": 1, "score": 0.5, "x": 5, "y": 5, "width": side - 10, "height": side - 10}
    return json.dumps([[one] * count])


def looked(monkeypatch: pytest.MonkeyPatch, ends: Callable[[int], bool]) -> list[int]:
    """Let the server's flags say that the statement is to end once `ends` says so of the number of looks."""
    looks: list[int] = []

    def cancelled() -> bool:
        looks.append(1)
        return ends(len(looks))

    monkeypatch.setattr(interrupts, "cancelled", cancelled)
    return looks


@pytest.mark.parametrize(("what", "at"), [("boxes", 20), ("mask", 6), ("nothing", 3)])
def test_a_cancel_ends_it_in_the_midst(what: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing looked at the server's flags: what was drawn came, however long it took."""
    looks = looked(monkeypatch, lambda count: count >= at)
    given = (boxes(100, 600), None) if what == "boxes" else (None, hostile.png(600, 600, 8, 0))
    with pytest.raises(CancelledError, match="cancelled while it worked"):
        images.draw({}, hostile.png(600, 600), given if what != "nothing" else (None, None))
    assert len(looks) == at


@pytest.mark.wide
def test_the_memory_of_a_mask_is_that_of_the_picture() -> None:
    """Whole copies of the picture were made for the colours, their mixture and what is under it."""
    picture, values = hostile.png(4000, 4000), np.zeros((4000, 4000), np.uint8)
    values[::2] = 3
    mask = draw.cv2.imencode(".png", values)[1].tobytes()
    tracemalloc.start()
    try:
        draw.drawn(picture, None, mask, DEFAULT_LIMITS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # the picture (three bytes a pixel), the mask (one)
    assert peak < 4 * 4000 * 4000 + SLACK


def test_the_picture_and_its_mask_count_together_before_either_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was below the limit, so 25 bytes a pixel were taken."""
    picture = hostile.png(1000, 1000)
    # lossless: seven bytes a pixel beside the one that comes out
    lossless = [draw.cv2.IMWRITE_WEBP_QUALITY, 101]
    mask = draw.cv2.imencode(".webp", np.zeros((1000, 1000), np.uint8), lossless)[1]
    limits = DEFAULT_LIMITS._replace(max_memory=9_000_000)
    decode(mask.tobytes(), "GRAY", limits)
    decode(picture, "BGR", limits)
    monkeypatch.setattr("dbinfer_udf.image.decode._decode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ImageError, match="11000000 bytes of memory") as caught:
        draw.drawn(picture, None, mask.tobytes(), limits)
    assert caught.value.sqlstate == "54000"
    assert "'max_image_memory'" in caught.value.hint


def test_a_mask_of_another_size_is_refused_before_anything_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dbinfer_udf.image.decode._decode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(UsageError, match="the mask has 9 x 7 pixels, but the image has 8 x 8"):
        draw.drawn(hostile.png(8, 8), None, hostile.png(9, 7, 8, 0), DEFAULT_LIMITS)


def test_boxes_that_would_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 boxes with long labels on a large picture were drawn to the last."""
    monkeypatch.setattr("dbinfer_udf.image.decode._decode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ImageError, match=r"seconds to draw 10000 boxes, but the limit is 5") as caught:
        draw.drawn(hostile.png(6000, 6000), boxes(10_000, 6000), None, DEFAULT_LIMITS)
    assert caught.value.sqlstate == "54000"
    assert "detections[1:100]" in caught.value.hint
    assert "'max_image_seconds'" in caught.value.hint


def test_what_people_draw_is_far_below_the_limits() -> None:
    """Hundreds of boxes on a photograph of 12 megapixels, thousands on a small one."""
    for side, count in ((3500, 300), (1000, 10_000)):
        draw.check_boxes(json.loads(boxes(count, side // 10, "pedestrian"))[0], (side, side), DEFAULT_LIMITS)


def test_a_text_of_boxes_beyond_all_use_is_not_parsed() -> None:
    """A hundred million characters would be parsed before they were counted."""
    with pytest.raises(UsageError, match="characters of JSON"):
        draw.drawn(hostile.png(8, 8), "[" + " " * 10_000_001 + "]", None, DEFAULT_LIMITS)


def test_the_png_holds_every_pixel(subtests: pytest.Subtests) -> None:
    for width, height in [(1, 1), (1, 300), (257, 129), (640, 480)]:
        with subtests.test(width=width, height=height):
            pixels = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
            source = draw.cv2.imencode(".png", pixels)[1].tobytes()
            assert (decode(draw.drawn(source, None, None, NO_LIMIT), "BGR") == pixels).all()


def test_a_process_that_draws_and_writes_without_end() -> None:
    """Before, all that it wrote in a minute went into the backend's memory."""
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as taken:
        with pytest.raises(ImageError, match="gave more than an image"):
            next(answers(taken, 1 << 20))
        taken.kill()
