"""The terms of one row's cost: how much of what the runtime does there; each has a coefficient in seconds.

They mirror what dbinfer_udf does: `image` decodes JPEGs at a part of their size, `shrink` halves and samples.
"""

from __future__ import annotations

from dbinfer.cost.facts import Network, Picture

Terms = dict[str, float]
# Groups of terms: each is slowed in its own way where other cores work, too
DECODE, FIT, INFER, FINISH, ROW = "decode", "fit", "infer", "finish", "row"
GROUPS = (DECODE, FIT, INFER, FINISH, ROW)


def part(picture: Picture, network: Network) -> int:
    """Return at which part of its size a picture is decoded: 1, 2, 4 or 8."""
    from dbinfer_udf.header import Header
    from dbinfer_udf.image import Target, reduction

    if picture.format != "JPEG" or not network.smooth:
        return 1
    header = Header(picture.format, picture.width, picture.height, 3, int(picture.bytes))
    return reduction(header, Target(network.width, network.height, network.both))


def terms(picture: Picture, network: Network) -> dict[str, Terms]:
    """Return the terms of a row by group."""
    return {
        DECODE: decode_terms(picture, part(picture, network)),
        FIT: fit_terms(picture, network),
        INFER: {"infer": network.inference / 1e3},
        FINISH: finish_terms(picture, network),
        ROW: row_terms(picture, network),
    }


def decode_terms(picture: Picture, part: int) -> Terms:
    """Return those of decoding at 1/part of the size."""
    name = picture.format.lower()
    found = {name: 1.0, f"{name}_byte": picture.bytes, f"{name}_pixel": float(picture.pixels)}
    if picture.format == "JPEG":
        # the inverse transform and the colours work on what comes out, the rest on all that is in the file
        found["jpeg_out"] = picture.pixels / part**2
    return found


def fit_terms(picture: Picture, network: Network) -> Terms:
    """Return those of bringing the decoded pixels into the network's input, as dbinfer_udf.shrink does it."""
    from dbinfer_udf.shrink import EXACT, FOUR, ONE, TWO

    by = part(picture, network)
    width, height = picture.width / by, picture.height / by
    most = max(width / network.width, height / network.height)
    values = float(network.width * network.height * network.channels)
    if (width, height) == (network.width, network.height):
        return {"fit": 1.0, "fit_copy": values}
    if most < ONE or not network.smooth:
        return {"fit": 1.0, "fit_grow": values}
    halved = 0.0
    while most > FOUR:
        halved += width * height * network.channels
        most, width, height = most / 2, width / 2, height / 2
    if TWO < most <= EXACT:
        return {"fit": 1.0, "fit_area": width * height * network.channels, "fit_half": halved}
    times = 2 if most <= TWO else 4
    return {"fit": 1.0, "fit_sample": values * times**2, "fit_half": halved}


def finish_terms(picture: Picture, network: Network) -> Terms:
    """Return those of making a result from the output."""
    found = {network.task: 1.0}
    if network.task == "segmentation":
        found["mask_pixel"] = float(picture.pixels)
    return found


def row_terms(picture: Picture, network: Network) -> Terms:
    """Return those of the executor, the fetching of the image and, for the engine, the way there and back."""
    if network.in_engine:
        return {"row_engine": 1.0, "row_engine_byte": picture.bytes}
    return {"row_backend": 1.0, "row_backend_byte": picture.bytes}
