"""The demo's two acts: handwritten digits are classified, strokes on photographs are segmented."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dbinfer.demo import _picture, _queries
from dbinfer.demo._first_look import draw_first_look
from dbinfer.demo._model import make_model
from dbinfer.demo._pages import write_pages
from dbinfer.demo._story import Story
from dbinfer.demo.report import DemoOptions, DemoReport
from dbinfer.dsn import named
from dbinfer.errors import DataError
from dbinfer.install import ensure
from dbinfer.load import LoadOptions, load
from dbinfer.progress import OnProgress
from dbinfer.samples import write_digits
from dbinfer.server import up
from dbinfer.train import TrainJob
from dbinfer.train.data.strokes import write_strokes

DIGITS_EPOCHS, STROKES_EPOCHS = 15, 7
STROKES_SHAPE = {"size": 128, "depth": 4, "base_width": 8}
LEAST_ACCURACY, LEAST_DICE = 0.97, 0.85
SHOWN = 4


def play(options: DemoOptions, dsn: str | None, progress: OnProgress) -> DemoReport:
    """Play both acts; see dbinfer.demo.demo."""
    story = Story(progress)
    embedded = named(dsn) is None
    if embedded:
        dsn = _start(story)
    story.say(ensure(dsn).message)
    accuracy, rate = _digits(story, options.out, dsn)
    dice, masks, truths = _strokes(story, options.out, dsn)
    pages = write_pages(story, options.out, dsn, truths)
    if options.picture:
        draw_first_look(options.picture, _queries.ask(dsn, "masks"), _queries.ask(dsn, "sample"))
    psql = "dbinfer psql" if embedded else f'psql "{dsn}"'
    story.note(f"\nDone. The picture: {masks}\nThe pages, to open in a browser: {pages[0]} and {pages[1]}")
    story.note(f'Go on with: {psql} -c "SELECT path, dbinfer.classify(img) FROM images LIMIT 3"')
    return DemoReport(accuracy, rate, dice, masks, pages)


def _start(story: Story) -> str | None:
    with story.step("Start a PostgreSQL of our own, with PL/Python and dbinfer", "dbinfer up"):
        server = up(progress=story.retell)
        story.say(f"PostgreSQL {server.version}, port {server.port}, {server.cores} cores")
    return server.dsn


def _digits(story: Story, out: Path, dsn: str | None) -> tuple[float, float]:
    """Train, load and score the digits; return accuracy and images per second."""
    folder = str(out / "digits")
    job = TrainJob(network="digits", data="digits", out=folder, epochs=DIGITS_EPOCHS, augment=True)
    command = f"dbinfer train digits --data digits --epochs {DIGITS_EPOCHS} --augment --out {folder}"
    make_model(story, "digits", job, command, dsn)
    _load_digits(story, out / "heldout", dsn)
    with story.step("Ask in SQL", "SELECT path, dbinfer.predict(img) FROM images ORDER BY id LIMIT 3"):
        for path, outputs in _queries.ask(dsn, "predict"):
            story.say(f"{path}  {np.round(outputs, 3).tolist()}")
    with story.step("Read the digits", "SELECT path, label, dbinfer.classify(img, 'digits') FROM images"):
        story.rows(["path", "label", "digit", "score"], [row[:4] for row in _queries.ask(dsn, "sample")])
    with story.step("Accuracy, computed in SQL on images that training never saw"):
        images, accuracy = _queries.ask(dsn, "accuracy")[0]
        story.say(f"{accuracy:.4f} of {images} images")
    rate = _speed(story, dsn)
    _require("accuracy", accuracy, LEAST_ACCURACY, folder)
    return accuracy, rate


def _load_digits(story: Story, folder: Path, dsn: str | None) -> None:
    command = f"dbinfer load {folder} --table images --label-from folder"
    with story.step("Load the held-out digits as PNG files", command):
        write_digits(folder)
        report = load([folder], LoadOptions("images", label_from="folder"), dsn)
        story.say(f"{report.loaded} loaded, {report.skipped} there already")


def _speed(story: Story, dsn: str | None) -> float:
    with story.step("Images per second", _queries.SPEED):
        measured = _queries.speed(dsn)
        rate = measured.images / measured.seconds
        story.say(f"{rate:,.0f} images/s: {measured.images} in {measured.seconds:.2f} s")
        shares = " + ".join(str(share) for share in measured.shares)
        story.say(f"{len(measured.shares)} processes shared the work: {shares} rows")
    return rate


def _strokes(story: Story, out: Path, dsn: str | None) -> tuple[float, Path, dict[str, bytes]]:
    """Train, load and segment the photographs with strokes; return the dice, the picture and the true masks."""
    _make_strokes(story, str(out / "strokes"), dsn)
    images = out / "photos"
    command = f"dbinfer load {images / 'img'} --table strokes"
    with story.step("Load photographs with handwriting on them", command):
        truths = _write_photos(images)
        report = load([images / "img"], LoadOptions("strokes"), dsn)
        story.say(f"{report.loaded} loaded, {report.skipped} there already")
    with story.step("Find the strokes", "SELECT path, dbinfer.segment(img, 'strokes') FROM strokes"):
        rows = [(Path(path).name, img, mask) for path, img, mask in _queries.ask(dsn, "masks")]
        found = [(img, truths[name], mask) for name, img, mask in rows if name in truths]
        average = float(np.mean([_picture.dice_of_files(mask, truth) for _, truth, mask in found]))
        story.say(f"dice of the masks that SQL returned: {average:.4f} over {len(found)} images")
        path = out / "strokes.png"
        _picture.draw(path, found[:SHOWN], f"handwriting on photographs, dice {average:.3f}")
    _require("dice", average, LEAST_DICE, str(out / "strokes"))
    return average, path, truths


def _make_strokes(story: Story, folder: str, dsn: str | None) -> None:
    job = TrainJob(
        network="unet",
        data="strokes",
        out=folder,
        network_options=STROKES_SHAPE,
        epochs=STROKES_EPOCHS,
        batch=8,
        lr=4e-3,
        schedule="cosine",  # 7 epochs reach what 12 at a constant rate do
    )
    shape = " ".join(f"--set {key}={value}" for key, value in STROKES_SHAPE.items())
    given = f"{shape} --epochs {job.epochs} --batch {job.batch} --lr {job.lr} --schedule {job.schedule}"
    make_model(story, "strokes", job, f"dbinfer train unet --data strokes {given} --out {folder}", dsn)


def _write_photos(folder: Path) -> dict[str, bytes]:
    """Write the held-out photographs to folder/img; return the true mask of each by the image's file name."""
    truths = {}
    for image, mask in write_strokes(folder / "all", "heldout"):
        target = folder / "img" / image.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(image.read_bytes())
        truths[image.name] = mask.read_bytes()
    return truths


def _require(name: str, value: float, least: float, folder: str) -> None:
    if value < least:
        raise DataError(f"the {name} is {value:.4f}, below {least}", f"Remove {folder} and run again.")
