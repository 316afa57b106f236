"""Measures the coverage of first-visit bounds and of the chain's bounds on equal runs.

The chains are those of `coverage`. With `memory`, two states look the same, so the
future depends on the past. The true risk after a first visit is then estimated from
many further runs.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.first_visits import FirstVisits
from forewarn.monitors.risk.product import consistent_pairs
from forewarn.monitors.risk.tables import guard_bound, guard_risk, short_of_violation
from forewarn.monitors.trust.visiting import count_first_visits
from tests.oracles.coverage import (
    DELTA,
    HORIZON,
    LAWS,
    LONGEST,
    Covered,
    letters,
    random_truth,
)

Ints = NDArray[np.int64]
SIZES = (20, 100, 500)
FURTHER = 20_000
"""The number of runs for estimating the true risks with `memory`."""


def walked(rng: np.random.Generator, truth: Chain, runs: int) -> list[Ints]:
    """Draws runs of a chain from one of its first two states to its end."""
    edges = truth.dense().cumsum(axis=1)
    state = rng.integers(0, 2, runs)
    columns = [state]
    for _ in range(LONGEST):
        drawn = rng.random(runs)
        state = (edges[state] < drawn[:, None]).sum(axis=1).clip(max=truth.end)
        columns.append(state)
        if (state == truth.end).all():
            break
    table = np.stack(columns, axis=1)
    lengths = (table != truth.end).sum(axis=1)
    return [row[:length] for row, length in zip(table, lengths, strict=True)]


def visits(automaton: Automaton, read: Ints, runs: list[Ints]) -> FirstVisits:
    whole = ((run, True) for run in runs)
    return count_first_visits(automaton, read, whole, HORIZON, 1.0)


def coverage(
    seed: int, chains: int, sizes: tuple[int, ...] = SIZES, memory: bool = False
) -> dict[tuple[str, str, int], Covered]:
    """Returns the coverage by kind of bound, law and number of runs."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[str, str, int], Covered] = {}
    for _ in range(chains):
        truth, labels = random_truth(rng)
        seen = np.arange(truth.n)
        if memory:
            # The last two states that are neither bad nor triggers look the same.
            seen[truth.n - 3] = max(truth.n - 4, 0)
        for law, automaton in LAWS.items():
            read = letters(truth, automaton, labels)
            read[truth.n - 3] = read[seen[truth.n - 3]]
            shown = np.array(read)
            pairs = consistent_pairs(automaton, shown, truth.end)
            pairs[:, truth.end] = False
            possible = short_of_violation(pairs, automaton)
            right, slack = guard_risk(truth, read, automaton, HORIZON), 1e-9
            if memory:
                further = [seen[run] for run in walked(rng, truth, FURTHER)]
                right, slack = _share(visits(automaton, shown, further), right), 0.02
            for size in sizes:
                runs = [seen[run] for run in walked(rng, truth, size)]
                counted = visits(automaton, shown, runs)
                both = {"first visits": counted.bounds(possible, DELTA)}
                both["chain"] = _chain_bounds(runs, truth, automaton, shown)
                monitor, state = counted.pairs[:, :2].T
                for kind, (low, high) in both.items():
                    into = found.setdefault((kind, law, size), Covered())
                    least, most = low[monitor, state], high[monitor, state]
                    value = right[monitor, state]
                    inside = (least - slack <= value) & (value <= most + slack)
                    into.tables += 1
                    into.covered += bool(inside.all())
                    into.states += len(state)
                    into.width += float((most - least).sum())
    return found


def _share(counted: FirstVisits, like: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.full(like.shape, np.nan)
    monitor, state, runs, came, _ = counted.pairs.T
    share[monitor, state] = came / runs
    return share


def _chain_bounds(
    runs: list[Ints], truth: Chain, automaton: Automaton, read: Ints
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the bounds of the learned chain, by the states of the true chain."""
    tally = Tally()
    for run in runs:
        tally.add_sequence([truth.states[i] for i in run.tolist()])
    model = learn(tally, Support("observed"), Fraction(0), "absorb")
    own = [truth.states.index(name) for name in model.chain.states]
    intervals = model_intervals(model, DELTA)
    ends: list[NDArray[np.float64]] = []
    for maximise in (False, True):
        table = np.full((automaton.n, truth.n), float(maximise))
        table[:, own] = guard_bound(
            intervals, model.chain.end, read[own], automaton, HORIZON, maximise
        )
        ends.append(table)
    return ends[0], ends[1]
