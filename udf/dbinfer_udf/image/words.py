"""A text as networks with a tokenizer take it: its bytes in UTF-8 as a picture of one row, with zeros behind them.

So a text goes the way of an image, through sessions, batches and the engine.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from ..errors import ImageError
from .file import Header


class Words:
    """Reads texts for one model.

    Args:
        most: bytes that the network takes.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self, data: bytes) -> Tuple[np.ndarray, Header]:
        """Return the bytes as uint8 (1, n), with what an image's header would say.

        Raises:
            ImageError: it is too long, or no text.
        """
        try:
            data.decode()
        except UnicodeDecodeError:
            raise ImageError("the model reads text, but these %d bytes are none" % len(data)) from None
        if len(data) > self._most:
            raise ImageError(
                "the text has %d bytes, but the model takes %d at most" % (len(data), self._most)
            )
        return np.frombuffer(data, np.uint8)[None], Header("text", len(data), 1, 1, len(data))


def write(text: np.ndarray, out: np.ndarray) -> None:
    """Write what `Words` gave into the tensor's memory, uint8 (1, most, 1)."""
    length = text.shape[1]
    out[:, :length, 0] = text
    out[:, length:] = 0
