"""Image files that cost far more than their size shows are refused before the decoder runs.

What each did before, on one core: a GIF of 35 bytes 765 MB, a BMP of 1 kB 574 MB, a TIFF of 6 kB with tags twice 669 MB
for what image_info called 8 x 8; 200 kB of emptied GIF tables 6 s, 400 kB of Lab strips 7 s, 7 MB of PNG texts 20 s,
60 MB of PNG chunks 14 s, 60 MB of JPEG segments 4 s in image_info alone, 400 scans of a JPEG more than a minute.
"""

from __future__ import annotations

import struct
import zlib

import hostile_images as hostile
import numpy as np
import pytest

from dbinfer_udf.errors import ImageError, UsageError
from dbinfer_udf.image.decode import Decoder, Target, decode
from dbinfer_udf.image.file import DEFAULT_LIMITS, Limits, image_limits
from dbinfer_udf.image.header import read_header


def test_a_bomb_is_refused_with_the_setting_to_change(subtests: pytest.Subtests) -> None:
    for name in hostile.BOMBS:
        with subtests.test(name=name):
            make, words, setting = hostile.BOMBS[name]
            with pytest.raises(ImageError, match=words) as caught:
                decode(make())
            assert caught.value.sqlstate == "54000"
            assert f"'max_image_{setting}'" in caught.value.hint
            assert "limit is" in caught.value.message


@pytest.mark.wide
def test_the_setting_named_lets_it_through(subtests: pytest.Subtests) -> None:
    for name in hostile.BOMBS:
        with subtests.test(name=name):
            make, _words, setting = hostile.BOMBS[name]
            raised = Limits(max_memory=1 << 40, max_expansion=1 << 30)._replace(**{f"max_{setting}": 1 << 40})
            with pytest.raises(ImageError) as caught:
                Decoder("RGB", raised._replace(max_pixels=0))(make())
            assert "pixels, but the limit is 0" in caught.value.message


def test_tags_that_stand_twice_count_as_the_decoder_counts_them() -> None:
    """libtiff takes the first; we took the last: 8 x 8, and 10000 x 10000 were decoded."""
    pixels = zlib.compress(bytes(32 * 16 * 3))
    data = hostile.tiff(
        [(256, 4, 1, 32), (256, 4, 1, 8), (257, 3, 1, 16), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 8),
         (262, 3, 1, 2), (273, 4, 1, -1), (277, 3, 1, 3), (278, 4, 1, 16), (279, 4, 1, len(pixels))], pixels,
    )  # fmt: skip
    assert read_header(data)[1:3] == (32, 16)
    assert decode(data).shape == (16, 32, 3)


def test_a_size_in_an_unusual_type_of_number_is_refused(subtests: pytest.Subtests) -> None:
    for kind in [2, 5, 8, 9, 11, 12, 17]:
        with subtests.test(kind=kind):
            data = hostile.rgb_tiff(8, 8, bytes(192), [(256, kind, 1, 8)], compression=1)
            with pytest.raises(ImageError, match=f"tag 256 has type {kind}"):
                decode(data)


def test_bits_that_stand_elsewhere_are_found() -> None:
    deep = struct.pack("<HHH", 16, 16, 16)
    data = hostile.rgb_tiff(4000, 4000, b"", [(258, 3, 3, deep)], compression=1)
    assert read_header(data).buffers >= 4000 * 4000 * 7


def test_a_pages_list_that_is_a_circle_ends() -> None:
    data = hostile.rgb_tiff(8, 8, bytes(192), compression=1)
    circle = hostile.tiff([(256, 4, 1, 8), (257, 4, 1, 8)], next_page=8)
    assert len(circle) < len(data)
    with pytest.raises(ImageError, match="pages"):
        read_header(circle)


def test_a_tiff_directory_is_not_read_beyond_what_libtiff_reads() -> None:
    data = hostile.tiff([(40000, 4, 1, 0)] * 60_000)
    with pytest.raises(ImageError, match="no pixels"):
        read_header(data)


def test_scans_are_counted(subtests: pytest.Subtests) -> None:
    for scans in [1, 2, 10, 99]:
        with subtests.test(scans=scans):
            assert read_header(hostile.many_scans(64, 64, scans)).scans == scans


def test_markers_of_appended_files_are_no_scans() -> None:
    data = hostile.jpeg(64, 64, progressive=True) + b"\xff\xda" * 5000
    assert read_header(data).scans < 20
    assert decode(data).shape == (64, 64, 3)


def test_an_end_marker_in_a_comment_hides_no_scan() -> None:
    data = hostile.many_scans(64, 64, 3)
    at = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    comment = b"\xff\xfe\0\x06\xff\xd9ab"
    more = data[:at] + comment + data[at:-2] + data[at:-2] * 60 + b"\xff\xd9"
    assert read_header(more).scans > 100


def test_a_reduced_jpeg_may_have_more_pixels_than_memory_allows_in_full() -> None:
    data = hostile.jpeg(3000, 3000)
    small = Limits(max_memory=20_000_000)
    assert Decoder("RGB", small, Target(224, 224))(data)[0].shape == (375, 375, 3)
    with pytest.raises(ImageError, match="54000000 bytes of memory"):
        Decoder("RGB", small)(data)
    assert Decoder("GRAY", small)(data)[0].shape == (3000, 3000)


def test_a_progressive_jpeg_keeps_its_coefficients_however_small_it_is_decoded() -> None:
    with pytest.raises(ImageError, match="bytes of memory"):
        Decoder("RGB", Limits(max_memory=50_000_000), Target(224, 224))(hostile.jpeg(3000, 3000, True))


def test_a_blank_page_may_be_a_small_file() -> None:
    blank = hostile.png(2480, 3508, 1, 0)
    assert len(blank) < 5000
    assert decode(blank, "GRAY").shape == (3508, 2480)


def test_a_header_that_two_readers_understand_differently_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    from dbinfer_udf.image import decode as decoding

    monkeypatch.setattr(decoding.cv2, "imdecode", lambda data, flags: np.zeros((9, 7, 3), np.uint8))
    with pytest.raises(ImageError, match="its header says 8 x 8 pixels, but the decoder found 7 x 9"):
        decode(hostile.png(8, 8))


@pytest.mark.parametrize("failure", [MemoryError(), None])
def test_no_memory_is_said_so(failure: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from dbinfer_udf.image import decode as decoding

    error = failure or decoding.cv2.error("Insufficient memory")
    if not failure:
        error.code = decoding.cv2.Error.StsNoMem  # type: ignore[attr-defined]

    def fail(data: object, flags: int) -> None:
        raise error

    monkeypatch.setattr(decoding.cv2, "imdecode", fail)
    with pytest.raises(ImageError, match="out of memory") as caught:
        decode(hostile.png(8, 8))
    assert caught.value.sqlstate == "53200"
    assert "max_image_memory" in caught.value.hint


def test_a_png_without_pixels_is_not_given_to_the_decoder() -> None:
    """OpenCV read on behind the end, and made room for what that claimed: 45 bytes took 2.1 GB and 2 seconds."""
    with pytest.raises(ImageError, match="no pixels"):
        decode(hostile.png(8, 8)[:33] + hostile.png_chunk(b"IEND") + b"\xff\xff\xff\xf0IEND")


def test_a_png_whose_end_claims_gigabytes_is_cut_off() -> None:
    good = hostile.png(8, 8)
    with pytest.raises(ImageError, match="cut off"):
        decode(good[:-12] + b"\xff\xff\xff\xf0IEND" + good[-4:])


def test_jpegs_in_a_tiff_are_read_and_counted_each_time_they_are_used() -> None:
    """Neither their scans nor the way they are coded counted: 23 kB held a backend for 7.2 s, past every timeout."""
    one = hostile.many_scans(64, 64, 10)
    few, many = (hostile.tiff_of_jpegs(side, 64, one) for side in (64, 640))
    assert decode(many).shape == (640, 640, 3)
    header = read_header(many)
    assert header.scans == 10
    alone = read_header(one)
    assert header.seconds >= 100 * alone.seconds
    assert header.buffers >= alone.buffers
    assert read_header(few).seconds >= alone.seconds


def test_tables_apart_and_strips_of_jpeg_are_read_as_ever() -> None:
    import io

    from PIL import Image

    picture, file = Image.new("RGB", (300, 2000), "red"), io.BytesIO()
    picture.save(file, "TIFF", compression="jpeg", strip_size=300 * 3 * 64)
    data = file.getvalue()
    assert read_header(data).scans == 1
    assert decode(data).shape == (2000, 300, 3)


def test_two_lists_of_places_are_refused() -> None:
    """libtiff takes the later one of strips' and tiles' offsets."""
    data = hostile.tiff_of_jpegs(64, 64, hostile.jpeg(64, 64), [(273, 4, 1, 8)])
    with pytest.raises(ImageError, match="tag 273 or 324 makes no sense"):
        read_header(data)


def test_the_old_form_of_jpeg_in_a_tiff_is_not_decoded() -> None:
    """What the libraries do not know needs no bound; this fails if they learn it."""
    data = hostile.tiff_of_jpegs(64, 64, hostile.jpeg(64, 64))
    assert decode(data).shape == (64, 64, 3)
    with pytest.raises(ImageError, match="OpenCV cannot decode it"):
        decode(data.replace(struct.pack("<HHII", 259, 3, 1, 7), struct.pack("<HHII", 259, 3, 1, 6)))


def test_arithmetic_coding_costs_what_it_costs() -> None:
    """The same bytes count many times what Huffman's count; a third of what they took was estimated."""
    data = hostile.arithmetic_jpeg(3000, 3000, 9_000_000)
    huffman = data.replace(b"\xff\xc9", b"\xff\xc0", 1)
    # measured: three samples a pixel, 120 ns each
    assert read_header(data).seconds > 3 * 3000 * 3000 * 120e-9
    assert read_header(huffman).seconds < read_header(data).seconds / 8


def test_only_the_first_exif_chunk_of_a_png_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 65,000 chunks was walked over in Python, 4,096 entries each: four minutes."""
    from dbinfer_udf.image import header as headers

    read = []
    monkeypatch.setattr(headers, "exif_orientation", lambda exif: read.append(exif) or 1)
    data = hostile.png(8, 8, before=hostile.png_chunk(b"eXIf", hostile.exif_of_entries(4096)) * 50)
    read_header(data)
    assert len(read) == 1


def test_limits_are_settings() -> None:
    assert image_limits({}) == DEFAULT_LIMITS
    given = {f"max_image_{name[4:]}": str(n + 7) for n, name in enumerate(Limits._fields)}
    assert image_limits(given) == Limits(*range(7, 7 + len(Limits._fields)))
    with pytest.raises(UsageError, match="max_image_scans is 'many', but must be a whole number"):
        image_limits({"max_image_scans": "many"})
