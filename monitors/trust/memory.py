"""Two tests, for each state, of whether the past matters beyond the present state.

In a Markov chain, the past does not matter. `order_test` tests whether the previous
state changes the distribution of the next one. `dwell_test` tests whether it matters
how long a state has lasted, as with a traffic light or a timer, which `order_test`
hardly detects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.errors import InvalidInput

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

FEW = 5.0
"""If an expected count is lower than this, the chi-square approximation is unreliable.
"""

MIN_RUNS = 25
DWELL_BINS = 6
FIRST_DRAWS = 99
MORE_DRAWS = (999, 1999)
DOUBTFUL = 0.05
CHUNK = 100
MAX_CELLS = 20_000_000
"""The maximum number of cells in all random tables drawn for one state."""


@dataclass(frozen=True, slots=True)
class OrderFinding:
    """For one state: whether the next state depends on the state before it.

    Args:
        state: The state.
        visits: The number of visits that have both a previous and a next state.
        p_value: The probability of as large a difference by chance.
        method: "chi-square", or "permutation" if counts are small.
        effect: The total variation distance between the successor distribution after
            each predecessor and the overall one, averaged over the visits.
        predecessor: The previous state that matters most.
        predecessor_effect: The total variation distance for that previous state.
        flagged: Whether the state is significant among all tested states.
    """

    state: str
    visits: int
    p_value: float
    method: Literal["chi-square", "permutation"]
    effect: float
    predecessor: str
    predecessor_effect: float
    flagged: bool = False

    def sentence(self) -> str:
        return (
            f"What follows {self.state} depends on the previous state: after "
            f"{self.predecessor} the distribution is off by "
            f"{self.predecessor_effect:.2f}, on average by {self.effect:.2f} "
            f"({self.visits:,} visits, p = {self.p_value:.2g}). Refine the abstraction "
            "to tell these cases apart."
        )


@dataclass(frozen=True, slots=True)
class DwellFinding:
    """Whether a state is left at a constant rate, as in a Markov chain.

    Args:
        state: The state.
        runs: The number of times that the state was left.
        p_value: The probability of as large a difference by chance.
        effect: The total variation distance between actual and expected durations.
        mean_steps: The mean number of steps that the state lasts.
        early_rate: The probability per step of leaving the state soon after it was
            entered.
        late_rate: The probability per step of leaving the state after a long time.
        flagged: Whether the state is significant among all tested states.
    """

    state: str
    runs: int
    p_value: float
    effect: float
    mean_steps: float
    early_rate: float
    late_rate: float
    flagged: bool = False

    def sentence(self) -> str:
        return (
            f"{self.state} lasts {self.mean_steps:.3g} steps on average, but is not"
            f" left at a constant rate: {self.early_rate:.2g} per step at first,"
            f" {self.late_rate:.2g} later, while a chain has {1 / self.mean_steps:.2g}"
            f" (off by {self.effect:.2f}, {self.runs:,} stays, p = {self.p_value:.2g})."
            " Refine the abstraction to tell early from late."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Traces as state numbers, concatenated.

    Args:
        states: The names of the states.
        codes: The state of every frame.
        trace: The number of the trace to which each frame belongs.
    """

    states: tuple[str, ...]
    codes: Ints
    trace: Ints

    @classmethod
    def of(cls, states: Sequence[str], traces: Sequence[ArrayLike]) -> Sequences:
        arrays = [np.asarray(trace, dtype=np.int64).ravel() for trace in traces]
        codes = np.concatenate([np.zeros(0, np.int64), *arrays])
        if codes.size and not 0 <= codes.min() <= codes.max() < len(states):
            raise InvalidInput(
                f"a trace has state number {codes.max()}, but there are "
                f"{len(states)} states"
            )
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        return cls(tuple(states), codes, np.repeat(np.arange(len(arrays)), lengths))


def order_test(sequences: Sequences, seed: int, level: float) -> list[OrderFinding]:
    """Tests order 1 against order 2 with a likelihood-ratio test (Anderson and
    Goodman), for each state.

    States with one predecessor or one successor cannot be tested and are left out. If
    the expected count of a cell is below five, a permutation test that shuffles the
    successors replaces chi-square.
    """
    n = len(sequences.states)
    codes, trace = sequences.codes, sequences.trace
    inner = trace[:-2] == trace[2:]
    before, now, after = (part[inner] for part in (codes[:-2], codes[1:-1], codes[2:]))
    found, times = np.unique((now * n + before) * n + after, return_counts=True)
    now, pair = np.divmod(found, n * n)
    before, after = np.divmod(pair, n)
    bounds = np.flatnonzero(np.diff(now, prepend=-1, append=n))
    tables = []
    for first, last in zip(bounds[:-1], bounds[1:], strict=True):
        rows, row = np.unique(before[first:last], return_inverse=True)
        columns, column = np.unique(after[first:last], return_inverse=True)
        if len(rows) > 1 and len(columns) > 1:
            table = np.zeros((len(rows), len(columns)), np.int64)
            table[row, column] = times[first:last]
            tables.append((int(now[first]), rows, table))
    draws = int(np.clip(len(tables) / level, *MORE_DRAWS))
    rng = np.random.default_rng(seed)
    return [
        _order_finding(sequences.states, state, rows, table, rng, draws)
        for state, rows, table in tables
    ]


def _order_finding(
    states: tuple[str, ...],
    state: int,
    rows: Ints,
    table: Ints,
    rng: np.random.Generator,
    draws: int,
) -> OrderFinding:
    total = table.sum()
    by_row, by_column = table.sum(axis=1), table.sum(axis=0)
    expected = by_row[:, None] * by_column / total
    terms = np.zeros(table.shape)
    np.log(table / expected, out=terms, where=table > 0)
    information = (2.0 * table * terms).sum(axis=1)
    trusted = expected.min() >= FEW
    if trusted:
        from scipy.special import chdtrc

        freedom = (len(by_row) - 1) * (len(by_column) - 1)
        p_value = float(chdtrc(freedom, information.sum()))
    else:
        p_value = _permutation(table, rng, draws)
    off = np.abs(table / by_row[:, None] - by_column / total).sum(axis=1) / 2
    worst = int(information.argmax())
    return OrderFinding(
        state=states[state],
        visits=int(total),
        p_value=p_value,
        method="chi-square" if trusted else "permutation",
        effect=float((off * by_row).sum() / total),
        predecessor=states[int(rows[worst])],
        predecessor_effect=float(off[worst]),
    )


def _permutation(table: Ints, rng: np.random.Generator, draws: int) -> float:
    """The p-value: the fraction of random tables with the same margins that deviate at
    least as much as this table.

    With fixed margins, the likelihood ratio depends only on the sum of n ln n. If the
    result is doubtful after a few draws, more are made.
    """
    from scipy.special import xlogy
    from scipy.stats import random_table

    drawn = random_table(table.sum(axis=1), table.sum(axis=0))
    seen = xlogy(table, table).sum()

    def p_value(times: int) -> float:
        as_much = 0
        for some in range(0, times, CHUNK):
            tables = drawn.rvs(min(CHUNK, times - some), random_state=rng)
            sums = xlogy(tables, tables).sum(axis=(1, 2))
            as_much += int((sums >= seen * (1 - 1e-12)).sum())
        return (as_much + 1) / (times + 1)

    first = p_value(FIRST_DRAWS)
    if first > DOUBTFUL:
        return first
    return p_value(max(FIRST_DRAWS, min(draws, MAX_CELLS // table.size)))


def dwell_test(sequences: Sequences) -> list[DwellFinding]:
    """Tests whether durations are geometric, with a chi-square test over ages, for each
    state.

    For each range of ages (steps since the state was entered), the number of exits is
    compared with the number expected at a constant rate. A stay that is truncated by
    the end of a trace counts for as long as it was observed.
    """
    codes, trace = sequences.codes, sequences.trace
    if not codes.size:
        return []
    changed = (codes[1:] != codes[:-1]) | (trace[1:] != trace[:-1])
    starts = np.flatnonzero(np.append(True, changed))
    lengths = np.diff(starts, append=len(codes))
    state, run_trace = codes[starts], trace[starts]
    cut = np.append(run_trace[1:] != run_trace[:-1], True)
    order = np.argsort(state, kind="stable")
    names, first = np.unique(state[order], return_index=True)
    findings = []
    for name, runs in zip(names.tolist(), np.split(order, first[1:]), strict=True):
        finding = _dwell_finding(sequences.states[name], lengths[runs], cut[runs])
        if finding:
            findings.append(finding)
    return findings


def _dwell_finding(state: str, lengths: Ints, cut: Bools) -> DwellFinding | None:
    left = int((~cut).sum())
    watched = lengths - cut
    steps = int(watched.sum())
    if left < MIN_RUNS or left == steps:
        return None
    rate = left / steps
    shares = np.arange(1, DWELL_BINS) / DWELL_BINS
    ages = np.unique(np.ceil(np.log1p(-shares) / np.log1p(-rate)).astype(np.int64))
    ages = np.append(ages, max(int(watched.max()), ages[-1]) + 1)
    at_risk, ended = _by_age(watched, lengths[~cut], ages)
    last = _merge((at_risk * min(rate, 1.0 - rate)).tolist())
    ages, at_risk, ended = (
        ages[last],
        np.diff(np.cumsum(at_risk)[last], prepend=0),
        np.diff(np.cumsum(ended)[last], prepend=0),
    )
    if len(ages) < 2:
        return None
    from scipy.special import chdtrc

    off = (ended - rate * at_risk) ** 2 / (at_risk * rate * (1.0 - rate))
    hazard = ended / at_risk
    return DwellFinding(
        state=state,
        runs=left,
        p_value=float(chdtrc(len(ages) - 1, off.sum())),
        effect=_length_variation(ages, hazard, rate),
        mean_steps=steps / left,
        early_rate=float(hazard[0]),
        late_rate=float(hazard[-1]),
    )


def _by_age(watched: Ints, whole: Ints, ages: Ints) -> tuple[Ints, Ints]:
    """The numbers of observed steps and of exits in each range of ages up to `ages`."""
    ordered, total = np.sort(watched), np.append(0, np.cumsum(np.sort(watched)))
    within = np.searchsorted(ordered, ages, side="right")
    until = total[within] + (len(ordered) - within) * ages
    ended = np.searchsorted(np.sort(whole), ages, side="right")
    return np.diff(until, prepend=0), np.diff(ended, prepend=0)


def _merge(expected: list[float]) -> list[int]:
    """Groups neighbours until each sum is large enough; returns the last index of each
    group.
    """
    last, gathered = list[int](), 0.0
    for i, value in enumerate(expected):
        gathered += value
        if gathered >= FEW:
            last.append(i)
            gathered = 0.0
    if last:
        last[-1] = len(expected) - 1
    return last


def _length_variation(ages: Ints, hazard: Floats, rate: float) -> float:
    """The total variation distance between the observed distribution of durations and
    a geometric one, with durations grouped into ranges.
    """
    spans = np.diff(ages, prepend=0)
    shares = []
    for each in (hazard, np.full(len(ages), rate)):
        outlasted = np.cumprod((1.0 - each) ** spans)
        # The last span is open-ended: whatever outlasts the others ends in it.
        outlasted[-1] = 0.0
        shares.append(-np.diff(outlasted, prepend=1.0))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def benjamini_hochberg(p_values: ArrayLike, level: float) -> Bools:
    """Which of many tests are significant, at a false discovery rate of at most
    `level`.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p)
    within = p[order] <= level * np.arange(1, p.size + 1) / max(p.size, 1)
    stands_out = np.zeros(p.size, bool)
    if within.any():
        stands_out[order[: int(np.flatnonzero(within)[-1]) + 1]] = True
    return stands_out
