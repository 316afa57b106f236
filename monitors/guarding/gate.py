"""The gate: decides whether a frame is valid, and whether it is recent enough to be
judged.

The gate starts closed. It opens only for a single frame that is newer than the last,
complete and within the ranges of its signals. Every other frame counts as a fault, and
the fallback runs. A valid frame that is late does not pass either, but is still read,
so that its content is not lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Limits:
    """The gate's requirements on frames.

    Args:
        max_age_s: The maximum age of a frame or of its inputs, in seconds.
        frozen_after_s: How long frames may stay identical before they count as a fault,
            in seconds; None for no limit.
        leap_s: How much further the frames' time may advance between two frames than
            the guard's clock, in seconds.
    """

    max_age_s: float
    frozen_after_s: float | None = None
    leap_s: float = 1.0


class Gate:
    """Checks frames one by one.

    Args:
        needs: The signals that every frame must contain.
        limits: The maximum age of frames, and how long they may stay identical.
        vocabulary: The vocabulary with the ranges of the signals.
    """

    def __init__(
        self,
        needs: Sequence[str],
        limits: Limits,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._limits = limits
        self._needs = [
            (name, _finite(name) if vocabulary is None else vocabulary.checker(name))
            for name in needs
        ]
        self._ages = [name for name in needs if _is_age(name, vocabulary)]
        self.reset()

    def reset(self) -> None:
        """Closes the gate until the first frame of a new run."""
        self._last: Frame | None = None
        self._now_s = -math.inf
        self._lag_s = self._least_lag_s = math.inf
        self._still_since_s = math.nan

    def admit(self, frame: Frame, now_s: float) -> str | None:
        """Returns why a frame cannot be read; None if it can.

        Args:
            frame: The frame.
            now_s: The guard's own clock. Only its differences matter.
        """
        fault = self._clock(now_s) or self._order(frame) or self._leap(frame, now_s)
        if fault is not None:
            return fault
        if self._limits.frozen_after_s is not None and (
            self._last is None or frame.values != self._last.values
        ):
            self._still_since_s = frame.time_s
        self._last = frame
        return self.content(frame)

    def stale(self, frame: Frame) -> str | None:
        """Returns why a frame that was just admitted is outdated; None if it is not."""
        # The offset between the clocks is unknown; the smallest lag so far serves as an
        # estimate.
        late_s = self._lag_s - self._least_lag_s
        if late_s > self._limits.max_age_s:
            return f"the frame is {late_s:.3g} s old"
        still_s, allowed_s = frame.time_s - self._still_since_s, math.inf
        if self._limits.frozen_after_s is not None:
            allowed_s = self._limits.frozen_after_s
        if still_s > allowed_s:
            return f"no signal has changed for {still_s:.3g} s: the source seems frozen"
        return None

    def _clock(self, now_s: float) -> str | None:
        if not math.isfinite(now_s):
            return f"the guard's clock returned {now_s}"
        before_s, self._now_s = self._now_s, now_s
        if now_s < before_s:
            return f"the guard's clock went back from {before_s:g} s to {now_s:g} s"
        return None

    def _order(self, frame: Frame) -> str | None:
        if not _is_number(frame.time_s) or not math.isfinite(frame.time_s):
            return f"the frame's time is {frame.time_s!r:.40}"
        if not isinstance(frame.sequence, int) or isinstance(frame.sequence, bool):
            return f"the frame's sequence number is {frame.sequence!r:.40}"
        if not isinstance(frame.values, Mapping):
            return "the frame has no signals"
        last = self._last
        if last is None:
            return None
        if frame.sequence == last.sequence:
            return f"frame {frame.sequence} came twice"
        if frame.sequence < last.sequence:
            return f"frame {frame.sequence} came after frame {last.sequence}"
        if frame.time_s <= last.time_s:
            before_s, time_s = last.time_s, frame.time_s
            return f"the time must increase, but goes from {before_s:g} to {time_s:g} s"
        return None

    def _leap(self, frame: Frame, now_s: float) -> str | None:
        lag_s = now_s - frame.time_s
        ahead_s = self._least_lag_s - lag_s
        self._lag_s = lag_s
        self._least_lag_s = min(lag_s, self._least_lag_s)
        if self._last is None or ahead_s <= self._limits.leap_s:
            return None
        # Either all earlier frames were too old, or a clock jumped: start again here.
        self._last = frame
        return (
            f"the frame's time is {ahead_s:.3g} s ahead of the guard's clock (time_s "
            "is in seconds; for recorded frames, give the guard clock=EpisodeClock())"
        )

    def content(self, frame: Frame) -> str | None:
        """Returns what is wrong with a frame, apart from its time; None if it is
        valid.
        """
        values = frame.values
        try:
            for name, check in self._needs:
                if name not in values:
                    return f"{name} is missing"
                check(values[name])
        except SignalFault as fault:
            return str(fault)
        for name in self._ages:
            if not self._young(values[name]):
                return f"{name.removesuffix('_age')} is {values[name]} s old"
        return None

    def _young(self, age_s: object) -> bool:
        return _is_number(age_s) and 0 <= age_s <= self._limits.max_age_s


def _is_age(name: str, vocabulary: Vocabulary | None) -> bool:
    """Whether a signal is the age of an input."""
    inputs = {} if vocabulary is None else vocabulary.inputs
    declared = {f"{name}_age" for names in inputs.values() for name in names}
    return name in declared if declared else name.endswith("_age")


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, float):
        return True
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(name: str) -> Callable[[object], object]:
    """Returns the check for a signal that is not in any vocabulary."""

    def check(value: object) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise SignalFault(f"{name} is {value}, not a finite number")

    return check
