"""The strokes: real, fixed, with parts that share nothing."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from dbinfer.base.errors import UsageError
from dbinfer.images.builtin import PARTS, stroke_files, write_strokes


def test_strokes_are_written_with_their_masks_and_are_always_the_same(tmp_path: Path) -> None:
    written = write_strokes(tmp_path / "a", "heldout", 3)
    write_strokes(tmp_path / "b", "heldout", 5)
    for image, mask in written:
        assert mask.name == f"{image.stem}_mask.png"
        assert image.read_bytes() == (tmp_path / "b" / image.name).read_bytes()
        pixels = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
        assert pixels.shape == (128, 128)
        assert set(np.unique(pixels)) == {0, 255}
        assert 0.005 < (pixels == 255).mean() < 0.4


def test_strokes_differ_between_parts_and_images() -> None:
    images = [image for part in PARTS for image, _ in stroke_files(part, range(4))]
    assert len(set(images)) == 8


def test_an_unknown_part() -> None:
    with pytest.raises(UsageError, match="part is 'test', but must be one of train, heldout"):
        write_strokes(Path("unused"), "test")
