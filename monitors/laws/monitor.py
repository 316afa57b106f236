"""Monitors: run a law's automaton on frames as they arrive, or on whole traces.

After a violation, the verdict on a trace is final. The monitor restarts at the next
frame, so that later violations are counted, too. In a guard, the restarted monitor
keeps the law's memory of the past.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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

MAX_TABLE = 4096
"""The maximum number of combinations of propositions in a lookup table by letter."""


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
    """Runs a law on the letters of a trace; the scan is vectorised for bounded-response
    laws.
    """
    steps = automaton.response_steps()
    if steps is None or 1 << len(automaton.propositions) > MAX_TABLE:
        return _scan_table(automaton, letters)
    if not _lookup(automaton, np.ones(len(automaton.letters), bool))[letters].all():
        raise _impossible(automaton)
    return _scan_response(automaton, letters, steps)


def _lookup(automaton: Automaton, per_column: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Maps one Boolean per column of the automaton to one per letter."""
    table = np.zeros(1 << len(automaton.propositions), bool)
    table[list(automaton.letters)] = per_column
    return table


def _scan_table(automaton: Automaton, letters: NDArray[Any]) -> Scan:
    monitor = Monitor(automaton)
    verdict = Verdict("ok", automaton.names[0])
    advance = monitor.advance
    for letter in letters.tolist():
        verdict = advance(letter)
    if monitor.violations:
        return Scan(tuple(monitor.violations), "violated")
    return Scan((), verdict.status, verdict.left)


def _scan_response(automaton: Automaton, letters: NDArray[Any], steps: int) -> Scan:
    """Finds the triggers of a bounded response, or of an invariant, that were not met
    within `steps` frames.
    """
    n = len(letters)
    arises = _lookup(automaton, automaton.step[0] != 0)[letters]
    if steps == 0:
        broken = np.flatnonzero(arises)
        found = tuple(Violation(i, i) for i in broken.tolist())
        return Scan(found, "violated" if found else "ok")
    met = _lookup(automaton, automaton.step[1] == 0)[letters]
    answers = np.cumsum(met, dtype=np.int32)
    # A trigger is not a response, so equal counts mean no response within `steps`
    # frames.
    unmet = arises[:-steps] & (answers[steps:] == answers[:-steps])
    starts = np.flatnonzero(unmet).tolist() if n > steps else []
    violations: list[Violation] = []
    at = 0
    while at < len(starts):
        since = starts[at]
        violations.append(Violation(since + steps, since))
        at = bisect_right(starts, since + steps, at)
    if violations:
        return Scan(tuple(violations), "violated")
    # Earlier obligations were met, and a response meets all obligations before it.
    recent = max(0, n - steps)
    met_at = np.flatnonzero(met[recent:])
    open_from = recent + int(met_at[-1]) + 1 if met_at.size else recent
    owed = np.flatnonzero(arises[open_from:])
    if not owed.size:
        return Scan((), "ok")
    return Scan((), "pending", steps - (n - 1 - open_from - int(owed[0])))


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
