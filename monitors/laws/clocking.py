"""The clock of a law on recorded frames: combines the letters of frames into ticks.

A tick combines the frames since the last one, so that no frame is ignored. If no frame
arrives for longer than a period, the ticks in the gap repeat the last state, so that
times in seconds stay correct.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Latch
from forewarn.abstractions.errors import TooLarge
from forewarn.abstractions.expression.tree import Expression, Implies, Not
from forewarn.abstractions.latching import latch, tick_ends
from forewarn.monitors.laws.formula import (
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
_JITTER = 0.2
"""The maximum jitter of regular frames, as a fraction of the period."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """A trace, resampled to a monitor's clock.

    Args:
        letters: The letter of each tick.
        frames: The index of the frame at which each tick is complete.
        times_s: The time at which each tick is complete, in seconds.
        open: The letters that the last tick could still get, if the trace ends within
            this tick.
    """

    letters: NDArray[np.int64]
    frames: NDArray[np.int64]
    times_s: NDArray[np.float64]
    open: tuple[int, ...] = ()


def regular_period(times: NDArray[np.float64]) -> float | None:
    """Returns the time between frames in seconds, if it is constant apart from jitter.

    Recorders round times, so a period within 0.1 % of a whole number of milliseconds,
    or of a whole number of frames per second, is rounded to it.
    """
    if times.size < 2:
        return None
    gaps = np.diff(times)
    mean = float(gaps.mean())
    if np.abs(gaps - mean).max() > _JITTER * mean:
        return None
    for nominal in (round(mean, 3), 1 / max(round(1 / mean), 1)):
        if abs(nominal - mean) < 1e-3 * mean:
            return nominal
    return mean


def ticks_of(
    letters: NDArray[np.int64],
    times: NDArray[np.float64],
    period_s: float | None,
    latches: Sequence[Latch],
) -> Ticks:
    """Combines frames into the ticks of a clock; without a period, each frame is a
    tick.

    Raises:
        TooLarge: The trace has more ticks than the limit.
    """
    every = np.arange(times.size, dtype=np.int64)
    if period_s is None or regular_period(times) == period_s:
        return Ticks(letters, every, times)
    ends = tick_ends(times, period_s)
    numbers = np.floor((times[ends] - times[0]) / period_s + 1e-6).astype(np.int64)
    still_open: tuple[int, ...] = ()
    if ends[-1] != every[-1]:
        # Frames after the last complete tick form one more tick.
        seen = letters[ends[-1] + 1 :]
        still_open = _completions(seen, latches)
        ends = np.append(ends, every[-1])
        numbers = np.append(numbers, numbers[-1] + 1)
    total = int(numbers[-1]) + 1
    if total > MAX_TICKS:
        raise TooLarge(
            f"the trace lasts {total} ticks of {period_s:g} s; the limit is"
            f" {MAX_TICKS} ticks",
            mend="choose a longer period with --period",
        )
    held = latch(letters, ends, latches)
    if total == ends.size:
        return Ticks(held, ends, times[ends], still_open)
    filled = _filled(letters, times, period_s, latches, ends, numbers, held)
    return replace(filled, open=still_open)


def _completions(seen: NDArray[np.int64], latches: Sequence[Latch]) -> tuple[int, ...]:
    """Returns the letters that a tick could still get after the frames seen in it."""
    some, every = np.bitwise_or.reduce(seen), np.bitwise_and.reduce(seen)
    letters = [0]
    for bit, kind in enumerate(latches):
        settled = some >> bit & 1 if kind == "any" else ~every >> bit & 1
        certain = kind != "last" and bool(settled)
        values = (int(kind == "any"),) if certain else (0, 1)
        letters = [letter | value << bit for letter in letters for value in values]
    return tuple(letters)


def _filled(
    letters: NDArray[np.int64],
    times: NDArray[np.float64],
    period_s: float,
    latches: Sequence[Latch],
    ends: NDArray[np.int64],
    numbers: NDArray[np.int64],
    held: NDArray[np.int64],
) -> Ticks:
    """Returns the ticks, including those without a frame."""
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
    """Returns how a tick combines each proposition over its frames, so that no
    violation is missed.

    A proposition that can break the law, or begin or meet an obligation, is true if it
    was true at any frame. A proposition that must stay true is true if it was true at
    all frames. A proposition that is used both ways has its value at the last frame.
    """
    uses: dict[str, set[Latch]] = {repr(p): set() for p in propositions}
    _collect(formula, True, False, uses)
    return tuple(common_latch(uses[repr(p)]) for p in propositions)


def common_latch(uses: Collection[Latch]) -> Latch:
    """Returns the latch that all uses of a condition require; "last" if they differ."""
    return next(iter(uses)) if len(uses) == 1 else "last"


def _collect(
    node: Formula, positive: bool, waits: bool, uses: dict[str, set[Latch]]
) -> None:
    """Collects how each proposition in a formula is used.

    Args:
        node: The formula.
        positive: Whether the law requires the formula to be true.
        waits: Whether it suffices that the formula is true once within some time.
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
