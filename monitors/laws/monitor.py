"""Monitors: run a law's automaton on frames as they arrive, or on whole traces.

After a violation, the verdict on a trace is final. The monitor restarts at the next
frame, so that later violations are counted, too. In a guard, the restarted monitor
keeps the law's memory of the past.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.encoding import Reader, compile_states, past_of
from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.laws.clocking import law_latches
from forewarn.monitors.laws.lawbook import Law

Status = Literal["ok", "pending", "violated"]

MAX_REMEMBERED = 100_000
"""The maximum number of frames stored to find when a pending obligation arose."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A monitor's verdict after a frame.

    Args:
        status: `ok`, `pending`, or `violated` at the frame that breaks the law.
        state: The name of the automaton's state.
        left: The minimum number of steps until a pending obligation can be broken.
    """

    status: Status
    state: str
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an obligation that arose at `since`; it became certain at
    `step`.
    """

    step: int
    since: int


def verdicts_of(automaton: Automaton) -> list[Verdict]:
    """Returns the verdict in each state of an automaton."""
    verdicts: list[Verdict] = []
    for q, name in enumerate(automaton.names):
        if q == automaton.violated:
            verdicts.append(Verdict("violated", name))
        elif automaton.pending[q]:
            verdicts.append(Verdict("pending", name, int(automaton.due[q])))
        else:
            verdicts.append(Verdict("ok", name))
    return verdicts


@checked
class Monitor:
    """Monitors one law on a stream of frames.

    Args:
        automaton: The compiled law.
    """

    __slots__ = (
        "automaton",
        "violations",
        "_letter",
        "_pending",
        "_state",
        "_states",
        "_steps",
    )

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self._letter = compile_states(automaton.propositions)
        self._states = _States(automaton)
        self.reset()

    def reset(self) -> None:
        """Resets the monitor to the initial state."""
        self.violations: list[Violation] = []
        self._steps = 0
        self._rearm()

    def _rearm(self) -> None:
        self._state = self._states.by_number[self.automaton.initial]
        self._pending: deque[tuple[int, int]] = deque(maxlen=MAX_REMEMBERED)

    @property
    def state(self) -> int:
        """The automaton's state after the last frame; after a violation, the initial
        state.
        """
        return self._state.number

    def step(self, values: Mapping[str, Any]) -> Verdict:
        """Reads one frame; raises `SignalFault` if a signal is missing or unusable."""
        return self.advance(self._letter(values))

    def advance(self, letter: int) -> Verdict:
        """Reads one letter, which has a bit for each proposition."""
        self._state, verdict, owing, seen = self._state[letter]
        self._steps += 1
        if owing:
            self._pending.append(seen)
            if verdict.status == "violated":
                self._record()
        elif self._pending:
            self._pending.clear()
        return verdict

    def skip(self, frames: int) -> None:
        """Counts frames that leave the law in a state without pending obligations."""
        self._steps += frames

    def _record(self) -> None:
        seen = list(self._pending)
        step = self._steps - 1
        since = step - (len(seen) - 1 - self._states.began(seen))
        self.violations.append(Violation(step, since))
        self._rearm()


class _State(dict[int, "_After"]):
    """A state of an automaton; its successors are added as letters occur."""

    __slots__ = ("number", "_states")

    def __init__(self, number: int, states: _States) -> None:
        self.number, self._states = number, states

    def __missing__(self, letter: int) -> _After:
        after = self[letter] = self._states.after(self.number, letter)
        return after


_After = tuple[_State, Verdict, bool, tuple[int, int]]
"""The next state, its verdict, whether the verdict is not `ok`, and the state's number
with the letter's column.
"""


class _States:
    """The states of an automaton, linked to their successors."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._verdicts = verdicts_of(automaton)
        self._columns = {letter: i for i, letter in enumerate(automaton.letters)}
        self.by_number = [_State(number, self) for number in range(automaton.n)]

    def after(self, number: int, letter: int) -> _After:
        """Returns the transition from a state by a letter."""
        column = self._columns.get(letter)
        if column is None:
            raise _impossible(self._automaton)
        after = int(self._automaton.step[number, column])
        verdict = self._verdicts[after]
        return self.by_number[after], verdict, verdict.status != "ok", (after, column)

    @cached_property
    def _relieved(self) -> list[int]:
        found: list[int] = self._automaton.relieved.tolist()
        return found

    @cached_property
    def _step(self) -> list[list[int]]:
        found: list[list[int]] = self._automaton.step.tolist()
        return found

    def began(self, seen: Sequence[tuple[int, int]]) -> int:
        """Returns the frame at which a broken obligation arose: the first frame after
        which dropping all pending obligations would prevent the violation.

        Args:
            seen: For each frame, the state after it and the column of its letter; the
                violation is last.
        """
        relieved, step, violated = self._relieved, self._step, self._automaton.violated

        def helps(frame: int) -> bool:
            state = relieved[seen[frame][0]]
            for _, column in seen[frame + 1 :]:
                state = step[state][column]
            return state != violated

        # Pending obligations only accumulate, so relief helps after all later frames,
        # too. Usually no other obligation is pending at the first frame.
        if helps(0):
            return 0
        return bisect_left(range(len(seen) - 1), True, key=helps)


def _impossible(automaton: Automaton) -> SignalFault:
    return SignalFault(
        f"{automaton.formula!r}: signals have values outside the ranges that their"
        " vocabulary declares"
    )


# -- whole traces ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of running a law on a whole trace.

    Args:
        violations: All violations, with a restart after each.
        status: The verdict on the trace; the first violation is final.
        left: The minimum number of steps until the obligation can be broken, if the
            trace ends pending.
    """

    violations: tuple[Violation, ...]
    status: Status
    left: int | None = None


def scan(automaton: Automaton, letters: NDArray[Any]) -> Scan:
    """Runs a law on the letters of a trace.

    Frames that leave the law in its initial state are skipped all at once.
    """
    known = np.array(automaton.letters)
    columns = np.minimum(np.searchsorted(known, letters), len(known) - 1)
    if (known[columns] != letters).any():
        raise _impossible(automaton)
    monitor = Monitor(automaton)
    verdict = Verdict("ok", automaton.names[0])
    initial = automaton.initial
    waits = automaton.pending[initial] | (automaton.step[initial] != initial)
    given, at = letters.tolist(), 0
    for start in np.flatnonzero(waits[columns]).tolist():
        if start < at:
            continue
        monitor.skip(start - at)
        for at in range(start + 1, len(given) + 1):
            verdict = monitor.advance(given[at - 1])
            if monitor.state == initial:
                break
    if monitor.violations:
        return Scan(tuple(monitor.violations), "violated")
    return Scan((), verdict.status, verdict.left)


def prefix_statuses(automaton: Automaton, letters: Sequence[int]) -> list[Status]:
    """Returns the verdict on every prefix: `violated` from the first violation on."""
    monitor = Monitor(automaton)
    statuses: list[Status] = []
    for letter in letters:
        status = monitor.advance(letter).status
        statuses.append(status)
        if status == "violated":
            return statuses + ["violated"] * (len(letters) - len(statuses))
    return statuses


MAX_MISSED = 1000
"""The maximum number of ticks without a frame for which the law's clock advances."""


class FollowedLaw:
    """Monitors one law on the frames of successive runs.

    Args:
        law: A law without parts.
        frame_period_s: The time between two frames, in seconds.
    """

    def __init__(self, law: Law, frame_period_s: float) -> None:
        self.name = law.name
        self.automaton = law.compile(frame_period_s)
        self._period_s = law.period(frame_period_s) or frame_period_s
        propositions = self.automaton.propositions
        self._reader = Reader(compile_states(propositions), past_of(propositions), ())
        latches = law_latches(law.formula, propositions)
        self._latcher = Latcher(self._period_s, latches)
        self.monitor = Monitor(self.automaton)
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        self._latcher.reset()
        self._reader.reset()
        self.monitor.reset()
        self.times_s: list[float] = []
        self._letter = 0

    def frame(self, frame: Frame) -> list[Verdict]:
        """Reads a frame; returns the verdicts on the ticks that it completes.

        Usually a frame completes one tick; it completes none if the law's clock is
        slower than the frames, and several if frames were missing.
        """
        letter = self._latcher.frame(frame.time_s, self._reader.frame(frame))
        if letter is None:
            return []
        missed = self._latcher.missed
        if missed > MAX_MISSED:
            raise SignalFault(f"no frame arrived for {missed * self._period_s:.3g} s")
        verdicts = [self.wait() for _ in range(missed)]
        return [*verdicts, self._read(letter, frame.time_s)]

    def wait(self) -> Verdict:
        """Advances by one tick with the last known state."""
        return self._read(self._letter, self.times_s[-1] + self._period_s)

    def finish(self) -> tuple[float, float] | None:
        """Returns the times of the first violation and of its trigger; None if the run
        is clean.

        An obligation that is pending at the end is decided by repeating the last frame.
        """
        violations = self.monitor.violations
        for _ in range(self.automaton.n if self.times_s else 0):
            if violations or not self.automaton.pending[self.monitor.state]:
                break
            self.wait()
        if not violations:
            return None
        first = violations[0]
        return self.times_s[first.step], self.times_s[first.since]

    def _read(self, letter: int, time_s: float) -> Verdict:
        self._letter = letter
        self.times_s.append(time_s)
        return self.monitor.advance(letter)
