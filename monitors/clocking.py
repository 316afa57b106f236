"""A law's clock over recorded frames: from the letters of frames to those of ticks.

A tick takes in the frames since the last one, so that nothing seen in between is
lost. Where no frame came for longer than a period, the ticks of that time hold what
was last seen: bounds are in seconds, and time passes whether frames come or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Latch
from forewarn.abstractions.errors import TooLarge
from forewarn.abstractions.expression.tree import Expression, Implies, Not
from forewarn.abstractions.latching import latch, tick_ends
from forewarn.monitors.formula import (
    Always,
    Eventually,
    Formula,
    Historically,
    Once,
    Since,
    Until,
    is_temporal,
)

MAX_TICKS = 20_000_000


@dataclass(frozen=True, slots=True)
class Ticks:
    """What a monitor's clock shows of a trace.

    Args:
        letters: The letter of each tick.
        frames: The index of the frame at which each tick is complete.
        times_s: When each tick is complete.
    """

    letters: NDArray[np.int64]
    frames: NDArray[np.int64]
    times_s: NDArray[np.float64]


def regular_period(times: NDArray[np.float64]) -> float | None:
    """The time between frames where it is the same all along, to within 1 %."""
    if times.size < 2:
        return None
    gaps = np.diff(times)
    middle = float(np.median(gaps))
    if np.abs(gaps - middle).max() > 0.01 * middle:
        return None
    return float(f"{(times[-1] - times[0]) / (times.size - 1):.6g}")


def ticks_of(
    letters: NDArray[np.int64],
    times: NDArray[np.float64],
    period_s: float | None,
    latches: Sequence[Latch],
) -> Ticks:
    """The ticks of a clock over frames; without a period each frame is a tick.

    Raises:
        TooLarge: The trace lasts for more ticks than we hold.
    """
    every = np.arange(times.size, dtype=np.int64)
    if period_s is None or times.size == 0:
        return Ticks(letters, every, times)
    ends = tick_ends(times, period_s)
    numbers = np.floor((times[ends] - times[0]) / period_s + 1e-6).astype(np.int64)
    if ends[-1] != every[-1]:
        # What came after the last full tick was seen too.
        ends = np.append(ends, every[-1])
        numbers = np.append(numbers, numbers[-1] + 1)
    total = int(numbers[-1]) + 1
    if total > MAX_TICKS:
        raise TooLarge(
            f"the trace lasts for {total} ticks of {period_s:g} s",
            mend="give a coarser clock with --period",
        )
    held = latch(letters, ends, latches)
    if total == ends.size:
        return Ticks(held, ends, times[ends])
    return _filled(letters, times, period_s, latches, ends, numbers, held)


def _filled(
    letters: NDArray[np.int64],
    times: NDArray[np.float64],
    period_s: float,
    latches: Sequence[Latch],
    ends: NDArray[np.int64],
    numbers: NDArray[np.int64],
    held: NDArray[np.int64],
) -> Ticks:
    """The ticks with those that no frame completed in time."""
    shown: list[int] = [int(held[0])]
    frames: list[int] = [int(ends[0])]
    when: list[float] = [float(times[ends[0]])]
    for k in range(1, ends.size):
        before, end = int(ends[k - 1]), int(ends[k])
        missed = int(numbers[k] - numbers[k - 1]) - 1
        for i in range(missed):
            late = letters[before + 1 : end] if i == 0 else letters[end - 1 : end]
            if not late.size:
                late = letters[before : before + 1]
            shown.append(int(latch(late, np.array([late.size - 1]), latches)[0]))
            frames.append(end)
            when.append(float(times[0]) + int(numbers[k - 1] + i + 1) * period_s)
        shown.append(int(letters[end]) if missed else int(held[k]))
        frames.append(end)
        when.append(float(times[end]))
    return Ticks(np.array(shown, np.int64), np.array(frames), np.array(when))


def law_latches(
    formula: Formula, propositions: Sequence[Expression]
) -> tuple[Latch, ...]:
    """What a tick takes of each proposition, so that a law loses nothing by it.

    What can break the law, or begin or meet an obligation, counts if it held at any
    frame; what must hold all along counts if it held at all of them; what works both
    ways is taken from the last.
    """
    uses: dict[str, set[Latch]] = {repr(p): set() for p in propositions}
    _collect(formula, True, False, uses)
    return tuple(_latch(uses[repr(p)]) for p in propositions)


def _latch(uses: set[Latch]) -> Latch:
    return next(iter(uses)) if len(uses) == 1 else "last"


def _collect(
    node: Formula, positive: bool, waits: bool, uses: dict[str, set[Latch]]
) -> None:
    """Notes how each proposition under the node is used.

    Args:
        node: A formula.
        positive: Whether its truth keeps the law.
        waits: Whether one moment of truth within some time is enough.
        uses: The uses found so far, by the proposition's text.
    """
    if not is_temporal(node):
        while isinstance(node, Not):
            node, positive = node.operand, not positive
        if repr(node) in uses:
            uses[repr(node)].add("any" if positive == waits else "all")
        return
    match node:
        case Not(operand=operand):
            _collect(operand, not positive, waits, uses)
        case Implies(left=left, right=right):
            _collect(left, not positive, waits, uses)
            _collect(right, positive, waits, uses)
        case Eventually(operand=operand) | Once(operand=operand):
            _collect(operand, positive, positive, uses)
        case Always(operand=operand) | Historically(operand=operand):
            _collect(operand, positive, not positive, uses)
        case Until(left=left, right=right) | Since(left=left, right=right):
            _collect(left, positive, not positive, uses)
            _collect(right, positive, positive, uses)
        case _:
            for child in node.children:
                _collect(child, positive, waits, uses)
