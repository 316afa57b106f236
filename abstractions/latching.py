"""Latching: a monitor slower than the frames loses nothing seen between its ticks.

Frames are gathered into ticks of the monitor's period. For each predicate the tick
takes whether it held at any of its frames, at all of them, or at the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Latch
from forewarn.abstractions.errors import InvalidTrace, SignalFault

_NOTHING = 0, -1
"""Which predicates held at any frame, and at all of them, before there is one."""

_SLACK = 1e-6
"""A frame this share of a period before a tick belongs to it: clocks round."""


class Latcher:
    """Gathers the states of frames into ticks, one frame at a time.

    Args:
        period_s: The time between two ticks.
        latches: How each predicate is latched, in the order of its bit.
    """

    def __init__(self, period_s: float, latches: Sequence[Latch]) -> None:
        self.period_s = period_s
        self._any, self._all, self._last = _masks(latches)
        self.reset()

    def reset(self) -> None:
        """Forgets the frames of the tick that is under way."""
        self._origin: float | None = None
        self._time = -math.inf
        self._tick = 0
        self.missed = 0
        self._seen = _NOTHING

    def frame(self, time_s: float, bits: int) -> int | None:
        """Takes in a frame; gives the tick's state when the frame completes one.

        The first frame completes the first tick by itself. `missed` then counts the
        ticks that passed before it without a frame.

        Raises:
            SignalFault: When time does not increase.
        """
        if not self._time < time_s < math.inf:
            raise SignalFault(f"time goes from {self._time} to {time_s} s")
        self._time = time_s
        if self._origin is None:
            self._origin = time_s
        seen_any, seen_all = self._seen
        seen_any |= bits
        seen_all &= bits
        reached = (time_s - self._origin) / self.period_s + _SLACK
        if reached < self._tick:
            self._seen = seen_any, seen_all
            return None
        tick = int(reached)
        self.missed = tick - self._tick
        self._tick = tick + 1
        self._seen = _NOTHING
        return seen_any & self._any | seen_all & self._all | bits & self._last


def _masks(latches: Sequence[Latch]) -> tuple[int, int, int]:
    def mask(kind: Latch) -> int:
        return sum(1 << i for i, latch in enumerate(latches) if latch == kind)

    return mask("any"), mask("all"), mask("last")


def tick_ends(times: NDArray[np.float64], period_s: float) -> NDArray[np.int64]:
    """The index of the frame that completes each tick.

    A frame completes a tick when it is the first at or after the tick's time. Frames
    after the last completed tick belong to none. Where frames are missing for more
    than a period, the frame after the gap completes one tick, not several: nothing
    is invented for the time in which nothing was seen.

    Raises:
        InvalidTrace: When times do not increase.
    """
    if times.size == 0:
        return np.empty(0, np.int64)
    before = np.concatenate([[-math.inf], times[:-1]])
    wrong = ~((before < times) & (times < math.inf))
    if wrong.any():
        frame = int(np.flatnonzero(wrong)[0])
        raise InvalidTrace(
            f"time goes from {before[frame]} to {times[frame]} s",
            place=f"frame {frame}",
        )
    reached = np.floor((times - times[0]) / period_s + _SLACK).astype(np.int64)
    return np.flatnonzero(np.diff(reached, prepend=-1) > 0)


def latch(
    states: NDArray[Any], ends: NDArray[np.int64], latches: Sequence[Latch]
) -> NDArray[np.int64]:
    """The state of each tick, from the states of frames; the same as `Latcher`."""
    if ends.size == 0:
        return np.empty(0, np.int64)
    held = states[: ends[-1] + 1].astype(np.int64)
    begins = np.concatenate([[0], ends[:-1] + 1])
    seen_any = np.bitwise_or.reduceat(held, begins)
    seen_all = np.bitwise_and.reduceat(held, begins)
    for_any, for_all, for_last = _masks(latches)
    return seen_any & for_any | seen_all & for_all | held[ends] & for_last
