"""Encodes runs as sequences of states, and counts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidTrace, naming, near_miss
from forewarn.abstractions.latching import latch, look_back, tick_ends
from forewarn.abstractions.readers.stored import Batch, Stored
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.chains.chain import compressed
from forewarn.monitors.laws.clocking import regular_period

_GAP = 1.5
"""If two states are further apart than this many periods, frames are missing."""

_MOST_LATE = 1.2
"""If frames are further apart than this many periods, some steps have no frame.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The states of several runs, concatenated; latched if the abstraction has a
    period.

    Args:
        states: The states.
        times_s: The time at which each state was complete, in seconds.
        starts: The index of the first state of each run.
    """

    states: NDArray[np.int64]
    times_s: NDArray[np.float64]
    starts: NDArray[np.int64]


def encode(batch: Batch, abstraction: Abstraction) -> Encoded:
    """Encodes several runs."""
    header = batch.headers[0]
    lacking = [name for name in abstraction.signals if not header.can_know(name)]
    if lacking:
        of = f" of the scenario {header.scenario}" if header.scenario else ""
        raise InvalidTrace(
            f"the trace{of} does not provide {', '.join(lacking)}",
            mend=near_miss(lacking[0], header.provides)
            or "add these signals, or leave out the predicates that use them",
        )
    times, starts = batch.times_s, batch.starts
    columns = {name: batch.signals[name] for name in abstraction.signals}
    if abstraction.past and len(starts) > 1:
        states = np.concatenate(
            [
                abstraction.encode_arrays(run.signals, len(run), run.times_s)
                for run in batch.apart()
            ]
        )
    else:
        states = abstraction.encode_arrays(columns, len(batch), times)
    period_s = abstraction.period_s
    if period_s is None:
        return Encoded(states, times, starts)
    ends = tick_ends(times, period_s, starts)
    ticks = latch(states, ends, abstraction.latches, starts)
    first = np.searchsorted(ends, starts)
    told = look_back(ticks, times[ends], period_s, abstraction.lags_s, first)
    return Encoded(told, times[ends], first)


def encode_traces(
    traces: Sequence[Trace | Kept], abstraction: Abstraction
) -> list[Encoded]:
    """Encodes runs, many of them together, because this is faster."""
    names = abstraction.signals
    kept = (each if isinstance(each, Kept) else Kept.of(each, names) for each in traces)
    found: list[Encoded] = []
    for _, group in groupby(kept, lambda run: _shape(run, names)):
        whole = encode(Batch.joined(list(group), names), abstraction)
        for first, last in pairwise([*whole.starts.tolist(), len(whole.states)]):
            rows = slice(first, last)
            start = np.zeros(1, np.int64)
            found.append(Encoded(whole.states[rows], whole.times_s[rows], start))
    return found


def _shape(run: Kept, names: Sequence[str]) -> tuple[object, ...]:
    """Returns the properties that runs must share to be encoded together."""
    kinds = [run.signals[name].dtype for name in names if name in run.signals]
    return run.header.provides, kinds


def encode_trace(trace: Trace | Kept, abstraction: Abstraction) -> NDArray[np.int64]:
    """Returns the states of one run."""
    return encode_traces([trace], abstraction)[0].states


def tick_times(trace: Trace | Kept, abstraction: Abstraction) -> NDArray[np.float64]:
    """Returns the time at which each state of a trace was complete, in seconds."""
    times = trace.times()
    period_s = abstraction.period_s
    return times if period_s is None else times[tick_ends(times, period_s)]


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The states of runs that were read from a file, ready to be counted.

    Args:
        runs: The runs.
        headers: The header of each run.
        names: The names of the states that occur.
        numbers: The states of all runs, concatenated, as indices into `names`.
        starts: The index at which each run begins.
        gaps: The indices of states that follow a gap in time.
        periods: The time between two states of each run, in seconds.
        late: The mean time between frames in seconds, for runs in which it is much
            longer than the period.
    """

    runs: tuple[Stored, ...]
    headers: tuple[TraceHeader, ...]
    names: list[str]
    numbers: NDArray[np.integer]
    starts: NDArray[np.int64]
    gaps: NDArray[np.int64]
    periods: list[float | None]
    late: dict[str, float]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of states in each run."""
        return np.diff(self.starts, append=len(self.numbers))


def count(batch: Batch, abstraction: Abstraction) -> Counted:
    """Encodes runs that were read from a file, to be counted."""
    path, lengths = batch.runs[0].path, batch.lengths
    if not lengths.all():
        raise InvalidTrace("the trace has no frames", source=str(path))
    with naming(path):
        found = encode(batch, abstraction)
    periods = [
        abstraction.period_s or kept.header.period_s or regular_period(kept.times_s)
        for kept in batch.apart()
    ]
    codes, numbers = compressed(found.states)
    return Counted(
        batch.runs,
        batch.headers,
        [abstraction.state_name(code) for code in codes.tolist()],
        numbers,
        found.starts,
        _gaps(found, periods),
        periods,
        _late(batch, periods),
    )


def _lengths(found: Encoded) -> NDArray[np.int64]:
    return np.diff(found.starts, append=len(found.states))


def _late(batch: Batch, periods: Sequence[float | None]) -> dict[str, float]:
    """Returns the mean time between frames, for runs in which it is much longer than
    the period.
    """
    last = batch.starts + batch.lengths - 1
    passed = batch.times_s[last] - batch.times_s[batch.starts]
    between = passed / np.maximum(batch.lengths - 1, 1)
    late = between > _MOST_LATE * np.array(periods, np.float64)
    return {batch.runs[i].name: float(between[i]) for i in np.flatnonzero(late)}


def _gaps(found: Encoded, periods: Sequence[float | None]) -> NDArray[np.int64]:
    """Returns the indices of states that follow a gap in time."""
    times, starts, lengths = found.times_s, found.starts, _lengths(found)
    period = np.repeat(np.array(periods, np.float64), lengths)
    wide = np.diff(times, prepend=math.inf) > _GAP * period
    wide[starts] = False
    gaps = [np.empty(0, np.int64)]
    runs = np.searchsorted(starts, np.flatnonzero(wide), side="right") - 1
    for number in np.unique(runs).tolist():
        start = int(starts[number])
        passed = np.diff(times[start : start + int(lengths[number])])
        usual = max(float(period[start]), float(np.median(passed)))
        gaps.append(np.flatnonzero(passed > _GAP * usual) + start + 1)
    return np.concatenate(gaps)
