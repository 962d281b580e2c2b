"""Small sound files of each format in many of its variants, to be damaged."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache

import cv2
import hostile_images as hostile
import numpy as np
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()
FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WebP", "GIF", "AVIF", "HEIC")


def _pixels(height: int = 40, width: int = 56) -> np.ndarray:
    """Return a picture with smooth areas, edges and noise."""
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[0:height, 0:width]
    image = np.stack([rows * 5, columns * 4, (rows + columns) * 2], axis=2).astype(np.uint8)
    image[10:20, 10:30] = (250, 20, 30)
    image[25:, 30:] = rng.integers(0, 256, (height - 25, width - 30, 3))
    return image


def _pillow(kind: str, mode: str = "RGB", frames: int = 1, **options: object) -> bytes:
    pictures = [Image.fromarray(np.roll(_pixels(), 7 * n, axis=1)).convert(mode) for n in range(frames)]
    if frames > 1:
        options.update(save_all=True, append_images=pictures[1:])
    target = io.BytesIO()
    pictures[0].save(target, "HEIF" if kind == "HEIC" else kind, **options)
    return target.getvalue()


def _exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x112], exif[0x10F] = 6, "maker"
    return exif


def _opencv(kind: str, image: np.ndarray, *options: int) -> bytes:
    return cv2.imencode(kind, image, list(options))[1].tobytes()


def _jpegs() -> list[bytes]:
    return [
        _pillow("JPEG", quality=80),
        _pillow("JPEG", quality=95, subsampling=0, exif=_exif(), comment=b"a comment"),
        _pillow("JPEG", quality=70, progressive=True),
        _pillow("JPEG", "L"),
        _pillow("JPEG", "CMYK"),
        _opencv(".jpg", _pixels(), cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
        hostile.many_scans(40, 40, 5),
    ]


def _pngs() -> list[bytes]:
    deep = _pixels().astype(np.uint16) * 257
    texts = hostile.png_chunk(b"tEXt", b"Comment\0words") + hostile.png_chunk(
        b"zTXt", b"k\0\0" + zlib.compress(b"x" * 99)
    )
    return [
        *(_pillow("PNG", mode) for mode in ("RGB", "L", "LA", "RGBA", "P", "1")),
        _pillow("PNG", exif=_exif()),
        _pillow("PNG", "RGBA", frames=3),
        _opencv(".png", deep),
        _opencv(".png", np.dstack([deep, deep[..., :1]])),
        hostile.png(33, 21, 2, 0, before=texts, behind=texts),
        _interlaced(),
    ]


def _interlaced() -> bytes:
    """Return a gray PNG in the seven passes of Adam7."""
    image = _pixels()[..., 0]
    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    rows = b"".join(b"\0" + row.tobytes() for y, x, down, right in passes for row in image[y::down, x::right])
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 0, 0, 0, 1)
    chunks = hostile.png_chunk(b"IHDR", header) + hostile.png_chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + chunks + hostile.png_chunk(b"IEND")


def _bmps() -> list[bytes]:
    runs = (
        b"".join(b"\x1c" + bytes([row]) + b"\x1c" + bytes([row + 9]) + b"\0\0" for row in range(40)) + b"\0\1"
    )
    four = b"".join(b"\x38" + bytes([row * 6]) + b"\0\0" for row in range(40)) + b"\0\1"
    return [
        *(_pillow("BMP", mode) for mode in ("RGB", "L", "P", "1", "RGBA")),
        _opencv(".bmp", _pixels()),
        hostile.bmp((56, 40), 8, runs, 1, hostile.GRAYS),
        hostile.bmp((56, 40), 4, four, 2, hostile.GRAYS[:64]),
        hostile.bmp((16, -16), 16, struct.pack("<III", 0xF800, 0x7E0, 0x1F) + bytes(range(256)) * 2, 3),
    ]


def _tiffs() -> list[bytes]:
    tile = [(322, 4, 1, 16), (323, 4, 1, 16), (324, 4, 4, struct.pack("<4I", *[8 + 2 + 12 * 12 + 4] * 4)),
            (325, 4, 4, struct.pack("<4I", *[768] * 4))]  # fmt: skip
    return [
        _pillow("TIFF"),
        _pillow("TIFF", exif=_exif()),
        *(
            _pillow("TIFF", compression=name)
            for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg")
        ),
        *(_pillow("TIFF", mode) for mode in ("L", "RGBA", "P", "1", "CMYK", "LAB", "YCbCr")),
        _pillow("TIFF", "1", compression="group4"),
        _pillow("TIFF", frames=3),
        _pillow("TIFF", big_tiff=True),
        _opencv(".tiff", _pixels().astype(np.uint16) * 257),
        _opencv(".tiff", _pixels().astype(np.float32)),
        hostile.rgb_tiff(32, 32, bytes(range(256)) * 3, tile, compression=1),
        hostile.lab_strips(12),
    ]


def _webps() -> list[bytes]:
    return [
        _pillow("WEBP", quality=80),
        _pillow("WEBP", lossless=True),
        _pillow("WEBP", "RGBA", quality=60),
        _pillow("WEBP", "RGBA", lossless=True, exif=_exif()),
        _pillow("WEBP", frames=3, lossless=True),
        _pillow("WEBP", frames=3, quality=50),
    ]


def _gifs() -> list[bytes]:
    return [
        _pillow("GIF", "P"),
        _pillow("GIF", "L", interlace=1),
        _pillow("GIF", "1"),
        _pillow("GIF", "P", frames=4, loop=0, duration=40, disposal=2),
        _pillow("GIF", "RGBA", frames=2, disposal=3),
        hostile.gif((1, 1), (1, 1), hostile.ONE_PIXEL, before=b"!\xfe\3abc\0"),
    ]


def _avifs() -> list[bytes]:
    return [
        _pillow("AVIF", quality=80),
        _pillow("AVIF", "RGBA", quality=60, subsampling="4:4:4"),
        _pillow("AVIF", "L"),
        _pillow("AVIF", exif=_exif()),
        _pillow("AVIF", frames=3),
    ]


def _heics() -> list[bytes]:
    return [
        _pillow("HEIC", quality=80),
        _pillow("HEIC", "RGBA"),
        _pillow("HEIC", "L"),
        _pillow("HEIC", exif=_exif().tobytes()),
        _pillow("HEIC", frames=2),
    ]


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Return the sound files of a format."""
    makers = {
        "JPEG": _jpegs, "PNG": _pngs, "BMP": _bmps, "TIFF": _tiffs, "WebP": _webps, "GIF": _gifs,
        "AVIF": _avifs, "HEIC": _heics,
    }  # fmt: skip
    return tuple(makers[kind]())
