"""Hours of mixed load in which parts are ended: no answer is wrong, nothing is lost, left lying about, or ever grows.

SOAK_HOURS says for how long (`make soak HOURS=8`); without it they are not run. build/soak.json and build/soak.svg have
what was measured.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
import numpy as np
import pytest
from asking import ask
from breakable import Breakable, until
from engine_processes import below, title
from soak import Samples, Soak, engines

from dbinfer import server as embedded
from dbinfer.database.state import locate
from dbinfer.install.hosts import CacheOptions, cache

HOURS = float(os.environ.get("SOAK_HOURS", "") or 0)
pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("stops and kills a server that is its own"),
    pytest.mark.timeout(HOURS * 3600 + 900),
    pytest.mark.alone("everybody at once"),
]
BUILD = Path(__file__).parents[2] / "build"
GROW = ("server_mb", "engine_mb", "client_mb", "client_files", "engine_files")
BLOCKS = 20
LOG_MB = 2.5  # two files of one MB, and what is written until the first is renamed


def slope(samples: list[dict[str, float]], name: str) -> tuple[float, float]:
    """Return by how much a value grows an hour, and the standard error of that.

    From the means of blocks, because neighbours in time are alike; the first quarter is for warming up.
    """
    settled = samples[len(samples) // 4 :]
    blocks = [block for block in np.array_split(np.arange(len(settled)), BLOCKS) if len(block)]
    hours = [np.mean([settled[i]["seconds"] for i in block]) / 3600 for block in blocks]
    values = [np.mean([settled[i][name] for i in block]) for block in blocks]
    (grows, _), cov = np.polyfit(hours, values, 1, cov=True)
    return float(grows), float(np.sqrt(cov[0, 0]))


def grown(samples: list[dict[str, float]], name: str) -> str:
    """Return what to say of a value that grew in this run beyond its error, and by what counts; else nothing."""
    per_hour, error = slope(samples, name)
    mean = float(np.mean([sample[name] for sample in samples]))
    least = (per_hour - 3 * error) * samples[-1]["seconds"] / 3600
    return f"{name} grew by {least:.1f} or more from {mean:.1f}" if least > 0.05 * mean + 5 else ""


def test_a_value_that_grows_is_seen_and_noise_is_none() -> None:
    noise = np.random.default_rng(0).normal(0, 20, 400)
    flat = [{"seconds": 10.0 * n, "x": 300 + noise[n]} for n in range(400)]
    leak = [{"seconds": 10.0 * n, "x": 300 + noise[n] + n / 4} for n in range(400)]
    assert grown(flat, "x") == ""
    assert grown(leak, "x").startswith("x grew")


@pytest.mark.skipif(not HOURS, reason="a load for minutes or hours: make soak HOURS=8")
def test_everybody_at_once(broken: Breakable, tmp_path: Path, known_once: Callable[[], None]) -> None:
    seconds = HOURS * 3600
    soak, samples = Soak(broken, tmp_path, min(60.0, seconds / 25), known_once), Samples(broken)
    soak.prepare()
    try:
        soak.run(seconds, samples.take, every=max(1.0, seconds / 2000))
    finally:
        # also of a run that was ended: it took hours
        if len(samples.taken) > 2 * BLOCKS:
            problems = Counter(re.sub(r"\d+", "N", problem) for problem in soak.problems)
            publish({"done": soak.done, "excused": soak.excused, "problems": problems}, samples.taken)
            shutil.copy(locate(broken.server.home).log, BUILD / "soak.log")
    with broken.session() as db:
        left = [pid for top in engines(db) for pid in below(top)]
        unfinished = ask(db, "SELECT count(*) FROM dbinfer.jobs WHERE state = 'running'")
    # what killed processes were writing is removed by the next that fetches a model, or by this
    cache(CacheOptions(prune=True), broken.dsn)
    leftovers, zombies = broken.leftovers(), [pid for pid in below(os.getpid()) if not title(pid)]
    embedded.down(broken.server.home)
    until(lambda: not any(title(pid).startswith("dbinfer-") for pid in left), "the engine has ended")
    lost = {kind: found - samples.before[kind] for kind, found in samples.shared().items()}
    figures.record("soak", rows=soak.done["statements"], wrong=len(soak.problems))
    assert soak.problems == []
    assert [actor for actor in ("ask", "job", "load", "bad", "change") if not soak.done[actor]] == []
    assert [name for name in ("worker", "engine", "crash", "restart") if not soak.done[name]] == []
    assert (unfinished, leftovers, zombies) == (0, [], [])
    assert not any(lost.values()), lost
    assert [grew for name in GROW if (grew := grown(samples.taken, name))] == []
    assert max(sample["log_mb"] for sample in samples.taken) < LOG_MB


def publish(counts: dict[str, Counter[str]], samples: list[dict[str, float]]) -> None:
    """Print and keep what was done and measured, and draw its curve."""
    BUILD.mkdir(exist_ok=True)
    found: dict[str, Any] = {**counts, "an hour": {name: slope(samples, name) for name in GROW}}
    (BUILD / "soak.json").write_text(json.dumps({**found, "samples": samples}) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(figsize=(9, 4))
    for name in ("server_mb", "engine_mb", "client_mb"):
        axes.plot(
            [sample["seconds"] / 3600 for sample in samples],
            [sample[name] for sample in samples],
            label=name.removesuffix("_mb"),
            linewidth=0.8,
        )
    axes.set_xlabel("hours")
    axes.set_ylabel("MB")
    axes.set_ylim(bottom=0)
    axes.legend()
    picture.tight_layout()
    picture.savefig(BUILD / "soak.svg", metadata={"Date": None})
    plt.close(picture)
