"""The demo's acts: digits are classified and strokes on photographs segmented, from a zoo network to SQL and a page."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import DataError
from dbinfer.base.progress import OnProgress
from dbinfer.convert import ConvertOptions, convert
from dbinfer.database.connection import named, session
from dbinfer.database.platform import detect
from dbinfer.database.sql import read
from dbinfer.demo.pictures import dice_of_files, draw, draw_first_look
from dbinfer.demo.story import DemoOptions, DemoReport, Story
from dbinfer.images.builtin import write_digits, write_strokes
from dbinfer.images.load import LoadOptions, load
from dbinfer.install import ensure
from dbinfer.models import DeployOptions, deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, score
from dbinfer.server import up
from dbinfer.train import TrainJob, TrainReport, train
from dbinfer.train.report import read_report

SPEED = "SELECT count(dbinfer.classify(img, 'digits')) FROM many_images"


def ask(dsn: str | None, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of sql/demo/NAME.sql; bytea as bytes."""
    with session(dsn) as conn, conn.cursor() as cur:
        cur.execute(detect(conn).adapt(read(f"demo/{name}.sql")))
        if cur.description is None:
            return []
        return [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in cur.fetchall()]


@dataclass(frozen=True)
class Speed:
    """One measured statement.

    Attributes:
        images: rows scored; seconds: of the statement, processes starting included.
        shares: rows that each process scored.
    """

    images: int
    seconds: float
    shares: list[int]


def speed(dsn: str | None) -> Speed:
    """Score many_images; return how long it took and how the processes shared the rows."""
    with session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        cur.execute(detect(conn).adapt(read("demo/many.sql")))
        cur.execute("ANALYZE many_images")
        shares = _segment_shares(cur) if detect(conn).mpp else _process_shares(cur)
        begin = time.monotonic()
        cur.execute(SPEED)
        row = cur.fetchone()
        return Speed(row[0] if row else 0, time.monotonic() - begin, shares)


def _segment_shares(cur: Any) -> list[int]:
    cur.execute("SELECT count(*) FROM many_images GROUP BY gp_segment_id ORDER BY gp_segment_id")
    return [int(row[0]) for row in cur.fetchall()]


def _process_shares(cur: Any) -> list[int]:
    """Return the rows of the scan that each process took, the leader's first; as EXPLAIN ANALYZE counts them."""
    cur.execute(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {SPEED}")
    explained = cur.fetchone()[0]
    return _shares(json.loads(explained) if isinstance(explained, str) else explained)


def _shares(explained: list[dict[str, Any]]) -> list[int]:
    plan = explained[0]["Plan"]
    while plan.get("Plans"):
        plan = plan["Plans"][0]
    workers = [int(worker["Actual Rows"]) for worker in plan.get("Workers", [])]
    # Actual Rows is the mean over the loops, and each process counts as one
    total = round(plan["Actual Rows"] * plan["Actual Loops"])
    return [share for share in [total - sum(workers), *workers] if share]


def make_model(story: Story, name: str, job: TrainJob, command: str, dsn: str | None) -> None:
    """Train as `job` says, convert and deploy under `name`."""
    with story.step(f"Train {name}: {job.network} on {job.data}", command):
        result = _trained(story, job)
        story.say("validation: " + ", ".join(f"{key} {value:.4g}" for key, value in result.metrics.items()))
    target = Path(job.out) / f"{name}.xml"
    with story.step("Convert to OpenVINO IR", f"dbinfer convert {result.model} -o {target}"):
        report = convert(result.model, target, ConvertOptions(force=True))
        state = "written" if report.written else "is there already"
        story.say(f"{target} {state}; largest difference to Keras {report.check.difference or 0:.1e}")
    with story.step("Deploy into the database", f"dbinfer deploy {target} --name {name} --precision f32"):
        # Not auto: the README shows the results, which must be the same on every processor
        done = deploy(target, DeployOptions(name=name, values={"precision": "f32"}), dsn)
        state = "deployed" if done.new else "already deployed"
        story.say(f"{state}: {done.name}@{done.version}, {done.size / 1e6:.1f} MB")


def _trained(story: Story, job: TrainJob) -> TrainReport:
    if _same_run(job):
        story.say("trained already")
        return read_report(job)
    return train(job.network, job.data, job, progress=story.within)


def _same_run(job: TrainJob) -> bool:
    folder = Path(job.out)
    try:
        done = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return False
    # As read from a file: tuples become lists there
    wanted = json.loads(json.dumps(job.to_dict()))
    return bool(done == wanted) and (folder / f"{job.network}.keras").is_file()


DIGITS, STROKES = "digit_results", "stroke_results"


def write_pages(story: Story, out: Path, dsn: str | None, truths: Mapping[str, bytes]) -> tuple[Path, Path]:
    """Score both tables and write a page on each; return the pages.

    Args:
        truths: the true mask of each photograph, by the name of its file.
    """
    _store_truths(dsn, truths)
    digits = _page(story, "digits", table="images", into=DIGITS, out=out / "digits.html", dsn=dsn)
    strokes = _page(story, "strokes", table="strokes", into=STROKES, out=out / "strokes.html", dsn=dsn)
    return digits, strokes


def _page(story: Story, model: str, table: str, into: str, out: Path, dsn: str | None) -> Path:
    command = f"dbinfer report --table {table} --predictions {into} --out {out}"
    with story.step(f"A page on the {model}: what came out, how good it is, what to look at", command):
        scored = score(table, into, ScoreOptions(model=model), dsn, story.within)
        done = report(table, into, ReportOptions(out=out), dsn, story.within)
        story.say(f"{scored.rows} rows scored, {out}: {done.bytes / 1000:.0f} kB")
    return out


def _store_truths(dsn: str | None, truths: Mapping[str, bytes]) -> None:
    with session(dsn) as conn, conn.cursor() as cur:
        cur.execute(read("demo/truth_column.sql"))
        for name, mask in truths.items():
            cur.execute(
                "UPDATE strokes SET truth = %s WHERE path = %s AND truth IS NULL", (mask, f"img/{name}")
            )


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
        draw_first_look(options.picture, ask(dsn, "masks"), ask(dsn, "sample"))
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
        for path, outputs in ask(dsn, "predict"):
            story.say(f"{path}  {np.round(outputs, 3).tolist()}")
    with story.step("Read the digits", "SELECT path, label, dbinfer.classify(img, 'digits') FROM images"):
        story.rows(["path", "label", "digit", "score"], [row[:4] for row in ask(dsn, "sample")])
    with story.step("Accuracy, computed in SQL on images that training never saw"):
        images, accuracy = ask(dsn, "accuracy")[0]
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
    with story.step("Images per second", SPEED):
        measured = speed(dsn)
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
        rows = [(Path(path).name, img, mask) for path, img, mask in ask(dsn, "masks")]
        found = [(img, truths[name], mask) for name, img, mask in rows if name in truths]
        average = float(np.mean([dice_of_files(mask, truth) for _, truth, mask in found]))
        story.say(f"dice of the masks that SQL returned: {average:.4f} over {len(found)} images")
        path = out / "strokes.png"
        draw(path, found[:SHOWN], f"handwriting on photographs, dice {average:.3f}")
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
