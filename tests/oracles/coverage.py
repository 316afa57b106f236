"""Measures how often `[low, high]` contains the true risk, for known chains."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.calibration import Calibration, calibrated
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_sets
from forewarn.monitors.risk.tables import guard_bound, guard_risk
from tests.dense import from_dense

LAWS = {
    "invariant": compile_law(parse_formula("always not u")),
    "response": compile_law(parse_formula("always (t -> eventually[0, 2 steps] d)")),
}
HORIZON = 5
DELTA = 0.05
TRACES = (2, 5, 20, 100, 1000)
LONGEST = 300
WIDENED, MAPPED = "widened by the curve", "mapped through the curve"

Rows = NDArray[np.float64]
Labels = dict[str, tuple[str, ...]]
Risks = dict[str, float]
"""The risk of each state."""


def random_truth(rng: np.random.Generator) -> tuple[Chain, Labels]:
    """Returns a chain that ends with probability 0.1 per step and has a rare bad state.

    In one of three chains, other states are as rare as the bad state, so that a few
    traces leave much unseen.
    """
    n = int(rng.integers(3, 7))
    rows = np.zeros((n + 1, n + 1))
    evenness = rng.choice([0.15, 0.4, 1.5])
    for state in range(n):
        ways = rng.choice(n, min(int(rng.integers(2, 5)), n), replace=False)
        rows[state, ways] = 0.9 * rng.dirichlet(np.full(len(ways), evenness))
        spared = 0.8 * rows[state, n - 1]
        rows[state, n - 1] -= spared
        rows[state, state if state < n - 1 else 0] += spared
        rows[state, n] = 0.1
    rows[n, n] = 1.0
    names = [f"s{i}" for i in range(n)]
    bad = f"s{n - 1}"
    labels: Labels = {"u": (bad,), "t": (bad, "s1"), "d": ("s0",)}
    return from_dense([*names, "END"], rows, end=n), labels


def walker(rng: np.random.Generator, truth: Chain) -> Callable[[int], list[str]]:
    """Returns a function that draws a trace of a chain, given the first state."""
    edges = truth.dense().cumsum(axis=1).tolist()

    def walk(state: int) -> list[str]:
        names: list[str] = []
        while state != truth.end and len(names) < LONGEST:
            names.append(truth.states[state])
            state = bisect_left(edges[state], rng.random() * edges[state][-1])
        return names

    return walk


def sampled(rng: np.random.Generator, truth: Chain, traces: int) -> Model:
    """Learns a model from a number of traces that start in one of two states."""
    walk, tally = walker(rng, truth), Tally()
    for _ in range(traces):
        tally.add_sequence(walk(int(rng.integers(0, 2))))
    return learn(tally, Support("observed"), Fraction(0), "absorb")


def letters(chain: Chain, automaton: Automaton, labels: Labels) -> Any:
    known = {name: i for i, name in enumerate(chain.states)}
    sets = {
        label: [known[s] for s in states if s in known]
        for label, states in labels.items()
    }
    return letters_of_states(chain, automaton, truth_in_sets(sets, chain.n))


@dataclass
class Covered:
    """The coverage of interval tables for one law and number of traces.

    Args:
        tables: The number of tables.
        covered: The number of tables that contain the true risk of every visited state.
        states: The number of visited states in all tables.
        width: The sum of the widths of the intervals.
    """

    tables: int = 0
    covered: int = 0
    states: int = 0
    width: float = 0.0

    @property
    def share(self) -> float:
        return self.covered / max(self.tables, 1)

    @property
    def mean_width(self) -> float:
        return self.width / max(self.states, 1)


def interval_coverage(
    seed: int, chains: int, traces: tuple[int, ...] = TRACES
) -> dict[tuple[str, int], Covered]:
    """Measures the coverage of `[low, high]` for random chains, by law and traces."""
    rng = np.random.default_rng(seed)
    found = {(law, size): Covered() for law in LAWS for size in traces}
    for _ in range(chains):
        truth, labels = random_truth(rng)
        for size in traces:
            model = sampled(rng, truth, size)
            for law, automaton in LAWS.items():
                low, high = bounds(model, labels, automaton)
                right = at_first(truth, labels, automaton)
                _cover(found[law, size], right, low, high)
    return found


def bounds(model: Model, labels: Labels, automaton: Automaton) -> tuple[Risks, Risks]:
    """Returns the lower and upper bounds of each state."""
    chain, intervals = model.chain, model_intervals(model, DELTA)
    read = letters(chain, automaton, labels)
    low, high = (
        _first(
            chain,
            read,
            automaton,
            guard_bound(intervals, chain.end, read, automaton, HORIZON, maximise),
        )
        for maximise in (False, True)
    )
    return low, high


def at_first(chain: Chain, labels: Labels, automaton: Automaton) -> Risks:
    """Returns the guard's risk of each state at the start of a trace."""
    read = letters(chain, automaton, labels)
    risks = guard_risk(chain, read, automaton, HORIZON)
    return _first(chain, read, automaton, risks)


def _first(chain: Chain, read: Any, automaton: Automaton, table: Rows) -> Risks:
    """Returns the risk of each state for a trace that begins in this state."""
    return {
        name: float(table[automaton.step[automaton.initial, read[i]], i])
        for i, name in enumerate(chain.states)
        if i != chain.end
    }


def _cover(into: Covered, right: Risks, low: Risks, high: Risks) -> None:
    inside = True
    for state, lowest in low.items():
        value, highest = right[state], high[state]
        inside &= lowest - 1e-9 <= value <= highest + 1e-9
        into.states += 1
        into.width += highest - lowest
    into.tables += 1
    into.covered += inside


def calibrated_coverage(
    seed: int, chains: int, traces: int = 1000, runs: int = 100
) -> dict[str, Covered]:
    """Measures the coverage of `[low, high]` after two ways of applying a curve.

    The intervals are widened to include the calibrated risk, or their ends are mapped
    through the curve as if it were exact. The curve is computed from further runs of
    the same chain, as in `tune`.
    """
    rng, automaton = np.random.default_rng(seed), LAWS["invariant"]
    found = {way: Covered() for way in (WIDENED, MAPPED)}
    for _ in range(chains):
        truth, labels = random_truth(rng)
        model = sampled(rng, truth, traces)
        low, high = bounds(model, labels, automaton)
        states = list(low)
        ends = np.array([[low[s], high[s]] for s in states]).T
        point = at_first(model.chain, labels, automaton)
        curve = _curve(rng, truth, labels["u"][0], point, runs)
        right = at_first(truth, labels, automaton)
        for way, both in zip(
            found, (curve.widened(*ends), (curve(ends[0]), curve(ends[1]))), strict=True
        ):
            drawn = (dict(zip(states, each.tolist(), strict=True)) for each in both)
            _cover(found[way], right, *drawn)
    return found


def _curve(
    rng: np.random.Generator, truth: Chain, bad: str, risks: Risks, runs: int
) -> Calibration:
    """Computes the calibration curve of the risks from runs, up to their violations."""
    walk = walker(rng, truth)
    said, happened, run = list[float](), list[bool](), list[int]()
    for number in range(runs):
        names = walk(int(rng.integers(0, 2)))
        for i, name in enumerate(names[: names.index(bad)] if bad in names else names):
            if name in risks:
                said.append(risks[name])
                happened.append(bad in names[i : i + HORIZON + 1])
                run.append(number)
    return calibrated(np.array(said), np.array(happened), np.array(run, np.int64))
