"""Which rows to score next to find those that fulfil a condition, with a promised recall and precision.

A proxy orders the rows. Above one threshold it accepts them unseen, below another it leaves them out unseen, and
between the two all are scored, as in SUPG's search for both targets (Kang et al. 2020). Its bounds by the normal
approximation are left out: a few true rows below the threshold break them. Instead, where the thresholds lie is guessed
from what was scored so far, and then tested: fresh rows by chance, without replacement, bound how many of those unseen
are wrong. The bound is valid after each row (a mixture's likelihood ratio is a martingale: Ville 1939; Waudby-Smith and
Ramdas 2020), so a test goes on until it suffices. Another threshold needs another test, and all tests together spend
the promised error once. So the promise depends on no guess and on no proxy. Only the standard library, as in sampling.
"""

from __future__ import annotations

import json
from math import inf, lgamma, log

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

PILOT = 12  # rows that each round takes at least, and
FIRST = 330  # of the first one, in all blocks alike
GROWTH = 2.5  # a round brings the rows to at most so many times those before it: the first rates are rough
STEP = 0.6  # of what a test is likely to need yet, in each round
SPEND = 0.75  # of the error that is left, for the next tests
LONGEST = 100  # rounds, after which all is scored: rows that have gone meanwhile are waited for in vain
EVENTS = 1.0  # wrong rows that a test's prior is worth


class Test:
    """A sample of rows unseen that says how many of them are wrong, at any moment.

    Args:
        rows: of which it is a sample.
        prior: wrong and right rows that are expected (of a beta distribution).
        error: how likely the bound may fail.
        taken, wrong: rows of the sample so far, and the wrong ones.
    """

    def __init__(
        self, rows: int, prior: Sequence[float], error: float, taken: float = 0, wrong: float = 0
    ) -> None:
        self.rows, self.prior, self.error, self.taken, self.wrong = rows, prior, error, taken, wrong

    def excludes(self, left: float) -> bool:
        """Return whether so many wrong rows among those not taken are too many to be true."""
        first, second = self.prior
        right = self.taken - self.wrong
        mixture = _log_beta(first + self.wrong, second + right) - _log_beta(first, second)
        return left + self.wrong > self.rows * self.wrong / (self.taken or 1) and mixture + log(
            self.error
        ) >= (
            _log_falling(left + self.wrong, self.wrong)
            + _log_falling(self.rows - left - self.wrong, right)
            - _log_falling(self.rows, self.taken)
        )

    def most_left(self) -> int:
        """Return how many of the rows that were not taken may be wrong."""
        low, high = 0, int(self.rows - self.taken)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.excludes(middle + 1) else (middle + 1, high)
        return low

    def needs(self, rate: float, allowed: int) -> int:
        """Return how many rows more exclude more wrong ones than allowed, if this is their rate; all, if none do."""
        low, high = 0, int(self.rows - self.taken)
        while low < high:
            more = (low + high) // 2
            then = Test(self.rows, self.prior, self.error, self.taken + more, self.wrong + more * rate)
            enough = self.rows - then.taken <= allowed or then.excludes(allowed + 1)
            low, high = (low, more) if enough else (more + 1, high)
        return low


def _log_beta(first: float, second: float) -> float:
    return lgamma(first) + lgamma(second) - lgamma(first + second)


def _log_falling(rows: float, taken: float) -> float:
    """Return the logarithm of rows * (rows - 1) * ..., so many factors."""
    return lgamma(rows + 1) - lgamma(rows - taken + 1) if rows >= taken else -inf


class Zone:
    """Blocks of rows of which the proxy alone decides: it accepts them, or leaves them out.

    Args:
        known: edge (how many blocks lie above it), and of its test, if it has one: rows, prior, error, taken, wrong and
            most (how many of all these rows may be wrong).
        cells: all blocks, from the proxy's highest values down.
        accepts: or leaves out.
    """

    def __init__(self, known: Dict[str, Any], cells: Sequence[Dict[str, Any]], accepts: bool) -> None:
        self.known, self.accepts = known, accepts
        self.cells = cells[: known["edge"]] if accepts else cells[known["edge"] :]
        self.unseen = sum(map(unseen, self.cells))

    def wrong(self) -> int:
        """Return how many of the unseen rows may be wrong: all, before a test."""
        return (
            min(self.unseen, self.known["most"] - self.known["wrong"])
            if "most" in self.known
            else self.unseen
        )

    def learn(self, news: Dict[int, Dict[str, Any]]) -> None:
        """Add what a round has found to the test."""
        if "error" in self.known:
            for new in [news[cell["stratum"]] for cell in self.cells if cell["stratum"] in news]:
                self.known["taken"] += new["taken"]
                self.known["wrong"] += new["taken"] - new["true"] if self.accepts else new["true"]
            most = self._test().most_left() + self.known["wrong"]
            self.known["most"] = min(most, self.known.get("most", most))

    def _test(self) -> Test:
        return Test(*[self.known[key] for key in ("rows", "prior", "error", "taken", "wrong")])

    def needs(self, expected: float, allowed: int, error: float) -> int:
        """Return how many rows a test needs to show that no more are wrong than allowed, if so many are."""
        if self.wrong() <= allowed:
            return 0
        rate = max(expected, 1e-9) / self.unseen
        test = self._test() if "error" in self.known else Test(self.unseen, prior(rate), error)
        return test.needs(rate, allowed)

    def begin(self, expected: float, error: float) -> None:
        """Begin a test."""
        rate = max(expected, 1e-9) / self.unseen
        self.known.update(rows=self.unseen, prior=prior(rate), error=error, taken=0, wrong=0)


def prior(rate: float) -> Tuple[float, float]:
    """Return the wrong and right rows that a test expects."""
    return EVENTS, EVENTS * (1 / rate - 1) + 1e-9


def unseen(cell: Dict[str, Any]) -> int:
    """Return how many rows of a block may still be scored: none once all were, though some may have gone."""
    return cell["rows"] - cell["taken"] if cell["upto"] < 1 else 0


class Search:
    """What is known of the rows, in blocks of alike values of the proxy, and what to score next.

    Args:
        state: recall, precision, error (what is left of it), rounds so far, cells (of each block: stratum, rows, upto,
            taken and true), and the zones accepted and left_out.
    """

    def __init__(self, state: Dict[str, Any]) -> None:
        self.state = state
        self.cells = sorted(state["cells"], key=lambda cell: -float(cell["stratum"]))
        self._see()

    def _see(self) -> None:
        self.zones = [
            Zone(self.state[name], self.cells, name == "accepted") for name in ("accepted", "left_out")
        ]
        self.between = self.cells[self.state["accepted"]["edge"] : self.state["left_out"]["edge"]]
        self.taken, self.true = (sum(cell[key] for cell in self.cells) for key in ("taken", "true"))

    def learn(self, found: Sequence[Dict[str, Any]]) -> None:
        """Add what the last round has found."""
        news = {new["stratum"]: new for new in found}
        for cell in self.cells:
            for key in ("taken", "true"):
                cell[key] += news.get(cell["stratum"], {}).get(key, 0)
        self._see()
        for zone in self.zones:
            zone.learn(news)

    def sure(self) -> Tuple[float, float]:
        """Return the recall and the precision that are sure by now."""
        accepted, left_out = self.zones
        true = self.true + accepted.unseen - accepted.wrong()
        missed = left_out.wrong() + sum(map(unseen, self.between))
        return true / ((true + missed) or 1), true / ((self.true + accepted.unseen) or 1)

    def explained(self) -> Dict[str, Any]:
        """Mark the accepted cells; return how the thresholds were chosen: strata, and the rows unseen beyond them."""
        accepted, left_out = self.zones
        for cell in self.cells:
            cell["accepted"] = cell in accepted.cells
        above = self.cells[: self.state["left_out"]["edge"]]
        recall, precision = self.sure()
        return {
            "accepted": accepted.unseen,
            "accepted_from": accepted.cells[-1]["stratum"] if accepted.cells else None,
            "false": accepted.wrong(),
            "left_out": left_out.unseen,
            "left_out_below": above[-1]["stratum"] if above else None,
            "missed": left_out.wrong(),
            "recall": recall if self.true or accepted.unseen else 1.0,
            "precision": precision if self.true or accepted.unseen else 1.0,
        }

    def go_on(self) -> bool:
        """Let each cell say which part of its rows comes next, from `from` up to `upto`; return whether any does."""
        for cell in self.cells:
            cell["from"] = cell["upto"]
        recall, precision = self.sure()
        if not sum(map(unseen, self.cells)):
            return False
        if self.true and recall >= self.state["recall"] and precision >= self.state["precision"]:
            return False
        self.state["rounds"] += 1
        if not self.taken or self.state["rounds"] > LONGEST:
            for cell in self.cells:
                self._take(
                    [cell], FIRST / len(self.cells) if self.state["rounds"] <= LONGEST else cell["rows"]
                )
            return True
        plan = self._plan()
        if sum(map(unseen, self.between)):
            self._take(self.between, (GROWTH - 1) * self.taken + PILOT)
            return True
        self._test(plan)
        return True

    def _test(self, plan: Sequence[Tuple[float, int]]) -> None:
        """Begin the tests that are wanting, or go on with them.

        Args:
            plan: of each zone, how many wrong rows are expected, and how many rows its test needs.
        """
        fresh = [zone for zone, (_, size) in zip(self.zones, plan) if size and "error" not in zone.known]
        share = self._share()
        for zone, (expected, size) in zip(self.zones, plan):
            if size:
                if zone in fresh:
                    zone.begin(expected, share)
                    self.state["error"] -= share
                self._take(zone.cells, STEP * size + PILOT)

    def _share(self) -> float:
        return float(SPEND * self.state["error"] / (2 if self.state["precision"] < 1 else 1))

    def _take(self, cells: Sequence[Dict[str, Any]], rows: float) -> None:
        """Take so many rows of these cells, of all the same part of what is unseen."""
        part = rows / (sum(map(unseen, cells)) or 1)
        for cell in cells:
            cell["upto"] = min(1.0, cell["upto"] + part * (1 - cell["upto"]))

    def _rates(self) -> List[float]:
        """Return the likely rate of true rows in each block, which falls with the proxy (pool adjacent violators)."""
        pools: List[List[float]] = []
        for cell in self.cells:
            pools.append([cell["true"], cell["taken"], 1])
            while len(pools) > 1 and pools[-1][0] * pools[-2][1] >= pools[-2][0] * pools[-1][1]:
                last = pools.pop()
                pools[-1] = [one + other for one, other in zip(pools[-1], last)]
        usual = sum(cell["rows"] * cell["true"] / (cell["taken"] or 1) for cell in self.cells) / sum(
            cell["rows"] for cell in self.cells
        )
        return [(true + usual) / (taken + 1) for true, taken, blocks in pools for _ in range(int(blocks))]

    def _plan(self) -> List[Tuple[float, int]]:
        """Set the edges so that least is scored, by what is likely; return what _test needs."""
        rows = [unseen(cell) for cell in self.cells]
        trues = [rate * count for rate, count in zip(self._rates(), rows)]
        falses = [count - true for count, true in zip(rows, trues)]
        true = self.true + sum(trues)
        false = (1 - self.state["precision"]) * true * self.state["recall"]
        highs = [
            self._choice("accepted", edge, sum(falses[:edge]), false)
            for edge in range(len(rows) + 1 if false > 0 else 1)
        ]
        lows = [
            self._choice("left_out", edge, missed, (1 / self.state["recall"] - 1) * (true - missed - false))
            for edge in range(len(rows) + 1)
            for missed in [sum(trues[edge:])]
        ]
        _, *best = max(
            ((high[0] + low[0], high, low) for high in highs for low in lows if high[1] <= low[1]),
            key=lambda one: (one[0], one[2][1]),
        )
        for name, (_, edge, _, _) in zip(("accepted", "left_out"), best):
            if edge != self.state[name]["edge"]:
                self.state[name] = {"edge": edge}
        self._see()
        return [(expected, size) for _, _, expected, size in best]

    def _choice(self, name: str, edge: int, expected: float, allowed: float) -> Tuple[int, int, float, int]:
        """Return how many rows it saves to let this zone end at the edge; the edge; and what _test needs."""
        known = self.state[name] if edge == self.state[name]["edge"] else {"edge": edge}
        zone = Zone(known, self.cells, name == "accepted")
        size = zone.needs(expected, int(allowed), self._share())
        return zone.unseen - size, edge, expected, size


def next_round(asked: str) -> str:
    """Return what to score next, and what is known now, as JSON: the state, whether there is more, if not, explained.

    Args:
        asked: JSON: recall, precision, confidence and cells (stratum and rows of each), or what this returned; and what
            the last round has found in some strata: taken and true.
    """
    state, found = json.loads(asked)
    if "error" not in state:
        state.update(rounds=0, error=1 - state["confidence"], accepted={"edge": 0}, left_out={"edge": 0})
        for cell in state["cells"]:
            cell.update(upto=0.0, taken=0, true=0)
    search = Search(state)
    search.learn(found)
    state["more"] = search.go_on()
    if not state["more"]:
        state["explained"] = search.explained()
    return json.dumps(state)
