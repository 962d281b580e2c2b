"""Tables whose answers are known, drawn by chance, and the rounds in which `estimate` and `find` score them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbinfer_udf.session import finding, sampling

# where sql/functions/estimate.sql and find.sql cut a proxy's values into strata
SAMPLING = [0.004, 0.016, 0.06, 0.25, 0.5, 0.75, 0.94, 0.984, 0.996]
FINDING = [*(one / 20 for one in range(1, 19)), 0.925, 0.95, 0.97, 0.985, 0.992, 0.996, 0.998, 0.999]


@dataclass
class Cell:
    """Rows of a table that are sampled alike: their answers in the order in which chance takes them."""

    part: str | None
    stratum: int
    half: int
    answers: np.ndarray
    at: np.ndarray

    def known(self) -> dict[str, Any]:
        found = {"part": self.part, "stratum": self.stratum, "half": self.half, "rows": len(self.answers)}
        return found | {"upto": 0.0, "taken": 0, "known": 0, "total": 0.0, "squares": 0.0}

    def score(self, begin: float, end: float) -> dict[str, Any]:
        """What a round finds: rows whose place by chance is within these bounds; NaN is no answer."""
        answers = self.answers[np.searchsorted(self.at, begin) : np.searchsorted(self.at, end)]
        known = answers[~np.isnan(answers)]
        found = {"part": self.part, "stratum": self.stratum, "half": self.half, "taken": len(answers)}
        return found | {"known": len(known), "total": known.sum(), "squares": (known**2).sum()}


def cells(rng: Any, answers: np.ndarray, strata: np.ndarray, part: str | None = None) -> list[Cell]:
    at, halves = rng.random(len(answers)), rng.integers(0, 2, len(answers))
    found = []
    for stratum in np.unique(strata):
        for half in (0, 1):
            mine = np.flatnonzero((strata == stratum) & (halves == half))
            mine = mine[np.argsort(at[mine])]
            if len(mine):
                found.append(Cell(part, int(stratum), half, answers[mine], at[mine]))
    return found


def estimate(
    table: list[Cell], within: float, share: bool = True, confidence: float = 0.95
) -> list[dict[str, Any]]:
    """As dbinfer.estimate does, in rounds."""
    state: dict[str, Any] = {
        "share": share,
        "within": within,
        "confidence": confidence,
        "cells": [c.known() for c in table],
    }
    state = json.loads(sampling.next_round(json.dumps([state, []])))
    while state["more"]:
        taken = [
            cell.score(wanted["from"], wanted["upto"])
            for cell, wanted in zip(table, state["cells"], strict=True)
            if wanted["upto"] > wanted["from"]
        ]
        state = json.loads(sampling.next_round(json.dumps([state, taken])))
    groups: list[dict[str, Any]] = state["groups"]
    return groups


def by_proxy(proxy: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.searchsorted(np.quantile(proxy, SAMPLING), proxy, side="right")
    return found


@dataclass
class Found:
    recall: float
    precision: float
    scored: float
    explained: dict[str, Any]


def find(rng: Any, truth: np.ndarray, proxy: np.ndarray, recall: float, precision: float = 1.0) -> Found:
    """As dbinfer.find does, in rounds."""
    strata = np.searchsorted(np.unique(np.quantile(proxy, FINDING)), proxy, side="right")
    at, scored, found = rng.random(len(truth)), np.zeros(len(truth), bool), []
    blocks = {int(one): np.flatnonzero(strata == one) for one in np.unique(strata)}
    cells = [{"stratum": one, "rows": len(rows)} for one, rows in blocks.items()]
    state: dict[str, Any] = {"recall": recall, "precision": precision, "confidence": 0.95, "cells": cells}
    while (state := json.loads(finding.next_round(json.dumps([state, found]))))["more"]:
        found = []
        for cell in state["cells"]:
            rows = blocks[cell["stratum"]]
            rows = rows[(at[rows] >= cell["from"]) & (at[rows] < cell["upto"])]
            assert not scored[rows].any()
            scored[rows] = True
            if len(rows):
                found.append({"stratum": cell["stratum"], "taken": len(rows), "true": int(truth[rows].sum())})
    accepted = np.isin(strata, [cell["stratum"] for cell in state["cells"] if cell["accepted"]])
    returned = scored & truth | accepted & ~scored
    right = (returned & truth).sum()
    return Found(
        right / max(1, truth.sum()), right / max(1, returned.sum()), float(scored.mean()), state["explained"]
    )
