"""Combines frames into ticks, so that a monitor with a long period misses no event.

Frames are grouped into ticks, one for each period of the monitor. A tick records for
each predicate whether it was true in any frame of the tick, in all frames, or in the
last frame. A predicate with a lag is evaluated at the latest tick that is at least as
old as the lag, or else at the first tick.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Latch
from forewarn.abstractions.errors import InvalidTrace, SignalFault

Starts = NDArray[np.int64] | tuple[int, ...]
"""The index of the first frame of each run, if an array contains several runs."""

_NOTHING = 0, -1
"""The initial masks of predicates that were true in any frame, and in all frames."""

_SLACK = 1e-6
"""A frame may be early by this fraction of a period and still complete the tick,
because clocks round.
"""


class Latcher:
    """Combines the states of frames into the states of ticks, one frame at a time.

    Args:
        period_s: The time between two ticks, in s.
        latches: The latch of each predicate, in the order of the bits.
        lags_s: The lag of each predicate, in s; empty if no predicate has a lag.
    """

    def __init__(
        self, period_s: float, latches: Sequence[Latch], lags_s: Sequence[float] = ()
    ) -> None:
        self.period_s = period_s
        self._any, self._all, self._last = _masks(latches)
        lagging = _lagging(lags_s, period_s)
        self._now = ~sum(lagging.values())
        self._lagging = [
            (ticks, mask, deque[tuple[int, int]]()) for ticks, mask in lagging.items()
        ]
        self.reset()

    def reset(self) -> None:
        """Begins a new run: discards all frames so far."""
        self._origin: float | None = None
        self._time = -math.inf
        self._tick = 0
        self.missed = 0
        self._seen = _NOTHING
        for _, _, past in self._lagging:
            past.clear()

    def frame(self, time_s: float, bits: int) -> int | None:
        """Adds a frame; returns the state of the tick if this frame completes one.

        The first frame alone completes the first tick. After each completed tick,
        `missed` is the number of ticks just before it that had no frame.

        Raises:
            SignalFault: The time does not increase.
        """
        if not self._time < time_s < math.inf:
            raise SignalFault(
                f"the time must increase, but goes from {self._time} to {time_s} s"
            )
        self._time = time_s
        if self._origin is None:
            self._origin = time_s
        due = self._tick
        reached = (time_s - self._origin) / self.period_s + _SLACK
        if reached < due:
            seen_any, seen_all = self._seen
            self._seen = seen_any | bits, seen_all & bits
            return None
        tick = int(reached)
        self.missed = tick - due
        # For a tick of one frame, all latches give the same result.
        if self._seen is not _NOTHING:
            bits = self._held(bits)
            self._seen = _NOTHING
        if self._lagging:
            bits = self._looked_back(tick, bits)
        self._tick = tick + 1
        return bits

    def _looked_back(self, tick: int, held: int) -> int:
        """Stores the state of a tick, and returns the state with lags applied."""
        told = self._told(tick, held)
        for ticks, _, past in self._lagging:
            past.append((tick, held))
            while len(past) > 1 and past[1][0] <= tick + 1 - ticks:
                past.popleft()
        return told

    def peek(self, bits: int) -> int:
        """Returns the state of the current tick if a frame with this state completed it
        now.
        """
        return self._told(self._tick, self._held(bits))

    def _told(self, tick: int, held: int) -> int:
        """Returns the state at a tick, with lags applied."""
        told = held & self._now
        for ticks, mask, past in self._lagging:
            then = past[0][1] if past else held
            for number, earlier in past:
                if number > tick - ticks:
                    break
                then = earlier
            told |= then & mask
        return told

    def _held(self, bits: int) -> int:
        seen_any, seen_all = self._seen
        seen_any |= bits
        seen_all &= bits
        return seen_any & self._any | seen_all & self._all | bits & self._last


def _lagging(lags_s: Sequence[float], period_s: float) -> dict[int, int]:
    """Maps each lag in ticks to the bit mask of its predicates."""
    found: dict[int, int] = {}
    for i, lag_s in enumerate(lags_s):
        if lag_s:
            ticks = round(lag_s / period_s)
            found[ticks] = found.get(ticks, 0) | 1 << i
    return found


def _masks(latches: Sequence[Latch]) -> tuple[int, int, int]:
    def mask(kind: Latch) -> int:
        return sum(1 << i for i, latch in enumerate(latches) if latch == kind)

    return mask("any"), mask("all"), mask("last")


def tick_ends(
    times: NDArray[np.float64], period_s: float, starts: Starts = (0,)
) -> NDArray[np.int64]:
    """Returns the index of the frame that completes each tick.

    The first frame at or after the time of a tick completes the tick. Frames after the
    last completed tick do not belong to any tick. If frames are missing for more than a
    period, the next frame completes one tick, not several, so no states are invented
    for the gap.

    Args:
        times: The times of the frames of one run or several consecutive runs.
        period_s: The time between two ticks, in s.
        starts: The index of the first frame of each run.

    Raises:
        InvalidTrace: The times do not increase.
    """
    if times.size == 0:
        return np.empty(0, np.int64)
    before = np.concatenate([[-math.inf], times[:-1]])
    first = np.asarray(starts, np.int64)
    before[first] = -math.inf
    wrong = ~((before < times) & (times < math.inf))
    if wrong.any():
        frame = int(np.flatnonzero(wrong)[0])
        raise InvalidTrace(
            f"the time must increase, but goes from {before[frame]} to "
            f"{times[frame]} s",
            place=f"frame {frame}",
        )
    completes = np.diff(_reached(times, period_s, starts), prepend=-1) > 0
    completes[first] = True
    return np.flatnonzero(completes)


def _reached(
    times: NDArray[np.float64], period_s: float, starts: Starts
) -> NDArray[np.int64]:
    """Returns for each time the number of the last tick that is due in the same run."""
    first = np.asarray(starts, np.int64)
    origin = np.repeat(times[first], np.diff(first, append=times.size))
    ticks = np.floor((times - origin) / period_s + _SLACK)
    return ticks.astype(np.int64)


def latch(
    states: NDArray[Any],
    ends: NDArray[np.int64],
    latches: Sequence[Latch],
    starts: Starts = (0,),
) -> NDArray[np.int64]:
    """Computes the state of each tick from the states of all frames."""
    if ends.size == 0:
        return np.empty(0, np.int64)
    held = states.astype(np.int64)
    begins = np.zeros(held.size + 1, bool)
    begins[np.asarray(starts, np.int64)] = begins[ends + 1] = True
    number = np.cumsum(begins[:-1]) - 1
    first = np.flatnonzero(begins[:-1])
    seen_any = np.bitwise_or.reduceat(held, first)[number[ends]]
    seen_all = np.bitwise_and.reduceat(held, first)[number[ends]]
    for_any, for_all, for_last = _masks(latches)
    told: NDArray[np.int64] = seen_any & for_any | seen_all & for_all
    return told | held[ends] & for_last


def look_back(
    ticks: NDArray[np.int64],
    times: NDArray[np.float64],
    period_s: float,
    lags_s: Sequence[float],
    starts: Starts = (0,),
) -> NDArray[np.int64]:
    """Returns the states of ticks with lags applied, as `Latcher` returns them.

    Args:
        ticks: The states of the ticks, without lags.
        times: The time at which each tick was completed.
        period_s: The time between two ticks, in s.
        lags_s: The lag of each predicate, in s.
        starts: The index of the first tick of each run.
    """
    lagging = _lagging(lags_s, period_s)
    if not lagging or not ticks.size:
        return ticks
    numbers = _reached(times, period_s, starts)
    first = np.asarray(starts, np.int64)
    run = np.repeat(np.arange(first.size), np.diff(first, append=ticks.size))
    # Shift the runs so far apart that no lag reaches from one run into another.
    numbers += run * (int(numbers.max()) + max(lagging) + 1)
    told = ticks & ~sum(lagging.values())
    for lag, mask in lagging.items():
        then = np.searchsorted(numbers, numbers - lag, side="right") - 1
        told |= ticks[np.maximum(then, first[run])] & mask
    return told
