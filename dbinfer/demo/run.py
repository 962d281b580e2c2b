"""The demo's two acts: handwritten digits are classified, strokes on photographs are segmented."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dbinfer.demo import _picture, _sql
from dbinfer.demo._model import make_model
from dbinfer.demo._tell import console, say, show, step
from dbinfer.errors import DataError
from dbinfer.install import ensure
from dbinfer.load import LoadOptions, load
from dbinfer.load.table import Columns
from dbinfer.samples import write_digits
from dbinfer.train import TrainJob
from dbinfer.train.data.strokes import write_strokes

DIGITS_EPOCHS, STROKES_EPOCHS = 15, 12
LEAST_ACCURACY, LEAST_DICE = 0.97, 0.85
SHOWN = 4


def run(out: Path, dsn: str | None = None) -> None:
    """Run the demo; everything but the database's own files goes under `out`.

    Raises:
        DbinferError: a step failed, or the results are worse than they should be.
    """
    server = dsn or _start()
    say(ensure(server).message)
    _digits(out, server)
    picture = _strokes(out, server)
    console.print(f"\n[bold green]Done.[/] The picture: {picture}")
    psql = "dbinfer psql" if dsn is None else f'psql "{dsn}"'
    console.print(f'Go on with: .venv/bin/{psql} -c "SELECT path, dbinfer.classify(img) FROM images LIMIT 3"')


def _start() -> str:
    from dbinfer.server import up

    with step("Start a PostgreSQL of our own, with PL/Python and dbinfer", "dbinfer up"):
        server = up(progress=lambda told: say(told.note) if told.note else None)
        say(f"PostgreSQL {server.version}, port {server.port}, {server.cores} cores")
    return str(server.dsn)


def _digits(out: Path, dsn: str) -> None:
    folder = str(out / "digits")
    job = TrainJob(network="digits", data="digits", out=folder, epochs=DIGITS_EPOCHS, augment=True)
    command = f"dbinfer train digits --data digits --epochs {DIGITS_EPOCHS} --augment --out {folder}"
    make_model("digits", job, command, dsn)
    _load(out / "heldout", dsn)
    with step("Ask in SQL", "SELECT path, dbinfer.predict(img) FROM images ORDER BY id LIMIT 3"):
        for path, outputs in _sql.ask(dsn, "predict"):
            say(f"{path}  {np.round(outputs, 3).tolist()}")
    with step("Read the digits", "SELECT path, label, dbinfer.classify(img, 'digits') FROM images"):
        show(["path", "label", "digit", "score"], _sql.ask(dsn, "sample"))
    with step("Accuracy, computed in SQL on images that training never saw"):
        images, accuracy = _sql.ask(dsn, "accuracy")[0]
        say(f"[bold]{accuracy:.4f}[/] of {images} images")
    _speed(dsn)
    if accuracy < LEAST_ACCURACY:
        raise DataError(
            f"the accuracy is {accuracy:.4f}, below {LEAST_ACCURACY}.", f"Remove {folder} and run again."
        )


def _load(folder: Path, dsn: str) -> None:
    with step(
        "Load the held-out digits as PNG files", f"dbinfer load {folder} --table images --label-from folder"
    ):
        write_digits(folder)
        report = load([folder], LoadOptions("images", Columns(label="label")), dsn)
        say(f"{report.loaded} loaded, {report.skipped} there already")


def _speed(dsn: str) -> None:
    with step("Images per second", _sql.SPEED):
        measured = _sql.speed(dsn)
        shares = " + ".join(str(share) for share in measured.shares)
        rate = measured.images / measured.seconds
        say(f"[bold]{rate:,.0f} images/s[/]: {measured.images} in {measured.seconds:.2f} s")
        say(f"{len(measured.shares)} processes shared the work: {shares} rows")


def _strokes(out: Path, dsn: str) -> Path:
    folder, images = str(out / "strokes"), out / "photos"
    shape = {"size": 128, "depth": 4, "base_width": 8}
    job = TrainJob(
        network="unet",
        data="strokes",
        out=folder,
        network_options=shape,
        epochs=STROKES_EPOCHS,
        batch=8,
        lr=2e-3,
    )
    options = " ".join(f"--set {key}={value}" for key, value in shape.items())
    options += f" --epochs {STROKES_EPOCHS} --batch 8 --lr 0.002"
    command = f"dbinfer train unet --data strokes {options} --out {folder}"
    make_model("strokes", job, command, dsn)
    with step("Load photographs with handwriting on them", f"dbinfer load {images / 'img'} --table strokes"):
        truths = _write_photos(images)
        report = load([images / "img"], LoadOptions("strokes"), dsn)
        say(f"{report.loaded} loaded, {report.skipped} there already")
    with step("Find the strokes", "SELECT path, dbinfer.segment(img, 'strokes') FROM strokes"):
        rows = [row for row in _sql.ask(dsn, "masks") if Path(row[0]).name in truths]
        scores = [
            _picture.dice(_picture.decode(m), _picture.decode(truths[Path(p).name])) for p, _, m in rows
        ]
        average = float(np.mean(scores))
        say(f"dice of the masks that SQL returned: [bold]{average:.4f}[/] over {len(rows)} images")
        path = out / "strokes.png"
        lines = [(image, truths[Path(name).name], mask) for name, image, mask in rows[:SHOWN]]
        _picture.draw(path, lines, f"handwriting on photographs, dice {average:.3f}")
    if average < LEAST_DICE:
        raise DataError(f"the dice is {average:.4f}, below {LEAST_DICE}.", f"Remove {folder} and run again.")
    return path


def _write_photos(folder: Path) -> dict[str, bytes]:
    """Write the held-out photographs to folder/img; return the true mask of each by the image's file name."""
    truths = {}
    for image, mask in write_strokes(folder / "all", "heldout"):
        target = folder / "img" / image.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(image.read_bytes())
        truths[image.name] = mask.read_bytes()
    return truths
