"""The experiments of three papers in small: their methods beside ours, on the same made-up tables.

BlazeIt (Kang, Bailis and Zaharia, PVLDB 2019) estimates counts of objects by control variates. SUPG ("Approximate
selection with guarantees using proxies", Kang et al., PVLDB 2020) finds rows with a promised recall by importance
sampling. ABae ("Accelerating approximate aggregation queries with expensive predicates", Kang et al., PVLDB 2021)
estimates the mean of rows that fulfil a condition in two stages. Written from the papers; `-s` prints what each costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from drawn_tables import by_proxy, cells, estimate, find
from scipy.signal import lfilter
from variants import wide

LONG = bool(os.environ.get("LONG"))
RUNS = 200 if LONG else 40
Z = NormalDist().inv_cdf(0.975)
# of 95 %, less four standard deviations of so many runs
COVERED = 0.93 - 4 * (0.95 * 0.05 / RUNS) ** 0.5


def video(rng: Any, rows: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Cars in each frame of a film, and what a small network says of it: jams last for seconds."""
    jam = lfilter([0.1], [1, -0.995], rng.normal(size=rows))
    counts = rng.poisson(np.exp(jam - 0.5)).astype(float)
    return counts, counts + rng.normal(size=rows) * noise


def control_variates(rng: Any, counts: np.ndarray, proxy: np.ndarray, within: float) -> tuple[float, int]:
    """BlazeIt's estimate and how many frames it takes: rounds of the counts' range by the error, until it is small."""
    order, step = rng.permutation(len(counts)), int((counts.max() + 1) / within)
    taken = 0
    while True:
        taken = min(taken + step, len(counts))
        sample = order[:taken]
        both = np.cov(counts[sample], proxy[sample])
        values = counts[sample] - both[0, 1] / both[1, 1] * (proxy[sample] - proxy.mean())
        half = Z * values.std(ddof=1) * np.sqrt((1 - taken / len(counts)) / taken)
        if half <= within or taken == len(counts):
            return float(values.mean()), taken


@pytest.mark.parametrize(("noise", "within"), [(0.7, 0.05), *wide((0.3, 0.05), (1.5, 0.05), (0.7, 0.02))])
def test_counts_of_blazeit(noise: float, within: float) -> None:
    """Strata of the small network's counts need no more frames than control variates do, and far fewer than none."""
    covered, ours, theirs, simple = 0, [], [], []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        counts, proxy = video(rng, 100_000, noise)
        (found,) = estimate(cells(rng, counts, by_proxy(proxy)), within, share=False)
        covered += found["low"] <= counts.mean() <= found["high"]
        ours.append(found["scored"])
        theirs.append(control_variates(rng, counts, proxy, within)[1])
        simple.append(control_variates(rng, counts, rng.normal(size=len(counts)), within)[1])
    print(
        f"\ncorrelation {np.corrcoef(counts, proxy)[0, 1]:.2f}, +-{within}: {covered / RUNS:.3f} covered; frames: ours "
        f"{np.mean(ours):.0f}, control variates {np.mean(theirs):.0f}, neither {np.mean(simple):.0f}"
    )
    assert covered / RUNS > COVERED
    assert np.mean(ours) < np.mean(theirs)
    assert np.mean(ours) < np.mean(simple) / 2


def importance_sampling(
    rng: Any, truth: np.ndarray, proxy: np.ndarray, recall: float, budget: int
) -> tuple[float, float]:
    """SUPG's search (its IS-CI-R, then all that it returns is scored): the recall, and the part of the rows scored."""
    weights = np.sqrt(proxy)
    weights = 0.9 * weights / weights.sum() + 0.1 / len(weights)
    drawn = rng.choice(len(proxy), budget, p=weights)
    drawn = drawn[np.argsort(-proxy[drawn])]
    true = truth[drawn] / (len(proxy) * weights[drawn])
    reached = np.cumsum(true)

    def threshold(wanted: float) -> float:
        place = np.searchsorted(reached, wanted * reached[-1])
        return float(proxy[drawn[min(place, budget - 1)]])

    above = proxy[drawn] >= threshold(recall)
    bound = np.sqrt(2 * np.log(2 / 0.05) / budget)
    most = (true * above).mean() + (true * above).std() * bound
    least = (true * ~above).mean() - (true * ~above).std() * bound
    kept = proxy >= threshold(min(1.0, most / (most + max(0.0, least))))
    kept[drawn] = True
    return float(truth[kept].sum() / truth.sum()), float(kept.mean())


@pytest.mark.parametrize(
    ("beta", "blind"), [(1, 0.0), (1, 0.12), *wide((2, 0.0), (2, 0.12), (1, 0.08), (2, 0.08))]
)
def test_searches_of_supg(beta: int, blind: float) -> None:
    """Their own tables, whose proxy is how likely a row is true: both reach 0.9. Of a proxy that knows nothing of some
    true rows theirs breaks the promise, ours pays."""
    rows, found = 1_000_000 if LONG else 100_000, []
    for seed in range(100 if LONG else 10):
        rng = np.random.default_rng(seed)
        proxy = rng.beta(0.01, beta, rows)
        truth = rng.random(rows) < proxy
        unseen = truth & (rng.random(rows) < blind)
        proxy[unseen] = 1e-3 * rng.beta(0.01, beta, unseen.sum())
        ours = find(rng, truth, proxy, 0.9)
        found.append((ours.recall, ours.scored, *importance_sampling(rng, truth, proxy, 0.9, rows // 100)))
    recall, scored, their_recall, their_scored = np.array(found).T
    print(
        f"\nBeta(0.01, {beta}), blind for {blind:.0%}: ours {np.mean(recall >= 0.9):.3f} reach it, {scored.mean():.3f} "
        f"scored; SUPG {np.mean(their_recall >= 0.9):.3f}, {their_scored.mean():.3f}"
    )
    assert (recall >= 0.9).sum() >= 0.95 * len(found) - 1
    if blind > 0.1:
        assert (their_recall >= 0.9).mean() < 0.9


def two_stages(rng: Any, answers: np.ndarray, proxy: np.ndarray, budget: int) -> float:
    """ABae's estimate: five strata, a half of the budget for all alike, the other where the pilot saw most variance."""
    strata = np.searchsorted(np.quantile(proxy, [0.2, 0.4, 0.6, 0.8]), proxy, side="right")
    rows = [rng.permutation(np.flatnonzero(strata == one)) for one in range(5)]
    pilot = budget // 10
    values = [answers[one[:pilot]] for one in rows]
    wanted = np.array([np.sqrt(_part(one)) * (np.nanstd(one) if _part(one) else 0) for one in values])
    more = (budget / 2 * wanted / wanted.sum()).astype(int)
    values = [answers[one[: pilot + also]] for one, also in zip(rows, more, strict=True)]
    parts = np.array([_part(one) * len(all_of) for one, all_of in zip(values, rows, strict=True)])
    means = np.array([np.nanmean(one) if _part(one) else 0.0 for one in values])
    return float(parts @ means / parts.sum())


def _part(values: np.ndarray) -> float:
    return float(np.mean(~np.isnan(values)))


CONDITIONS: dict[str, Callable[[Any, int], np.ndarray]] = {
    "often": lambda rng, rows: rng.beta(0.5, 3, rows),
    "seldom": lambda rng, rows: rng.beta(0.1, 2, rows),
}


@pytest.mark.parametrize("condition", ["often", *wide("seldom")])
def test_means_of_abae(condition: str) -> None:
    """The mean of rows that fulfil a condition, which is NULL for the others: as close as theirs from as many rows."""
    covered, scored, errors = 0, [], []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        likely = CONDITIONS[condition](rng, 100_000)
        numbers = 3 + 4 * likely + rng.normal(size=len(likely)) * (0.5 + 2 * likely)
        answers = np.where(rng.random(len(likely)) < likely, numbers, np.nan)
        truth = np.nanmean(answers)
        (found,) = estimate(cells(rng, answers, by_proxy(likely)), 0.1, share=False)
        covered += found["low"] <= truth <= found["high"]
        assert (found["high"] - found["low"]) / 2 <= 0.1
        scored.append(found["scored"])
        theirs = two_stages(rng, answers, likely, found["scored"])
        simple = np.nanmean(rng.choice(answers, found["scored"], replace=False))
        errors.append([found["estimate"] - truth, theirs - truth, simple - truth])
    ours, their, usual = np.sqrt(np.mean(np.square(errors), axis=0))
    print(
        f"\n{condition}: {covered / RUNS:.3f} covered, {np.mean(scored):.0f} rows; "
        f"root mean square error: ours {ours:.4f}, ABae {their:.4f}, simple sampling {usual:.4f}"
    )
    assert covered / RUNS > COVERED
    # each has a relative standard deviation of 1 / sqrt(2 * RUNS)
    assert ours < their * (1 + 3 / RUNS**0.5)
    assert ours < usual


@pytest.mark.parametrize("rate", [0.05, *wide(0.01, 0.25)])
def test_a_mean_of_few_rows_covers_the_truth(rate: float) -> None:
    """How many rows of a stratum fulfil the condition is chance, too, and strata with few of them have other means."""
    covered, times = 0, max(RUNS, 150)
    for seed in range(times):
        rng = np.random.default_rng(seed)
        likely = 2 * rate * rng.random(100_000)
        numbers = 5 * likely / rate + rng.normal(size=len(likely))
        answers = np.where(rng.random(len(likely)) < likely, numbers, np.nan)
        (found,) = estimate(cells(rng, answers, by_proxy(likely)), 0.2, share=False)
        covered += found["low"] <= np.nanmean(answers) <= found["high"]
    print(f"\n{rate}: {covered / times:.3f} covered")
    assert covered / times > 0.93 - 4 * (0.95 * 0.05 / times) ** 0.5


def test_few_numbers_end_no_estimate() -> None:
    """Two numbers that happen to be alike have no variance: more are looked for, or all rows are scored."""
    rng = np.random.default_rng(1)
    for rows, numbers in ((20_000, 100), (300, 2)):
        answers = np.full(rows, np.nan)
        answers[rng.permutation(rows)[:numbers]] = rng.integers(0, 2, numbers) * 10.0
        (found,) = estimate(cells(rng, answers, np.zeros(rows, int)), 1.0, share=False)
        assert found["low"] <= np.nanmean(answers) <= found["high"]
        assert found["scored"] == rows or found["scored"] * (1 - found["unknown"]) >= 30
