"""The gate: whether a frame may be judged at all.

It starts closed. It opens for a frame that is newer than the last, fresh, complete
and within its ranges, and for that frame only. Everything else is a fault, which the
guard answers with its fallback.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

_FIXED = frozenset({bool, str, type(None)})
"""The types of values that are no numbers."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the gate holds frames to.

    Args:
        max_age_s: The oldest that a frame or an input of it may be.
        frozen_after_s: Identical frames for so long are a fault; None: never.
    """

    max_age_s: float
    frozen_after_s: float | None = None


class Gate:
    """Admits frames one by one.

    Args:
        needs: The signals that every frame must carry.
        limits: How old and how still frames may be.
        vocabulary: Gives the ranges of the signals.
    """

    def __init__(
        self,
        needs: Sequence[str],
        limits: Limits,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._limits = limits
        self._vocabulary = vocabulary
        self._ages = tuple(name for name in needs if self._is_age(name))
        self._needs = tuple(
            (name, *self._range(name), self._fixed(name)) for name in needs
        )
        self.reset()

    def _is_age(self, name: str) -> bool:
        """Whether a signal is the age of an input, not of something in the world."""
        inputs = {} if self._vocabulary is None else self._vocabulary.inputs
        declared = {f"{name}_age" for names in inputs.values() for name in names}
        return name in declared if declared else name.endswith("_age")

    def _range(self, name: str) -> tuple[float, float]:
        """The range of a number; of anything else one that holds nothing."""
        declared = self._vocabulary and self._vocabulary.signals.get(name)
        if not declared or declared.type != "number":
            return math.nan, math.nan
        largest = sys.float_info.max
        low = -largest if declared.low is None else declared.low
        high = largest if declared.high is None else declared.high
        return low, high

    def _fixed(self, name: str) -> frozenset[object]:
        """The words, truth values and none that a signal may be."""
        declared = self._vocabulary and self._vocabulary.signals.get(name)
        words = declared.values if declared else ()
        known = (True, False, None, *words)
        return frozenset(value for value in known if not self._checked(name, value))

    def reset(self) -> None:
        """Closes the gate until the first frame of a new episode."""
        self._last: Frame | None = None
        self._lag_s = math.inf
        self._still_since_s = math.nan

    def admit(self, frame: Frame, now_s: float) -> str | None:
        """Takes in a frame; gives what is wrong with it, or None.

        Args:
            frame: The frame.
            now_s: The guard's own clock. Only its differences matter.
        """
        fault = self._order(frame) or self._freshness(frame, now_s)
        if fault is not None:
            return fault
        fault = self.content(frame) or self._stillness(frame)
        self._last = frame
        return fault

    def _order(self, frame: Frame) -> str | None:
        if not math.isfinite(frame.time_s):
            return f"the frame's time is {frame.time_s}"
        last = self._last
        if last is None:
            return None
        if frame.sequence == last.sequence:
            return f"frame {frame.sequence} came twice"
        if not frame.sequence > last.sequence:
            return f"frame {frame.sequence} came after frame {last.sequence}"
        if frame.time_s <= last.time_s:
            return f"time did not go on from {last.time_s:g} s to {frame.time_s:g} s"
        return None

    def _freshness(self, frame: Frame, now_s: float) -> str | None:
        lag_s = now_s - frame.time_s
        if not math.isfinite(lag_s):
            return f"the guard's clock says {now_s}"
        # The clocks' offset is not known; the least lag seen so far stands for it.
        if lag_s < self._lag_s:
            self._lag_s = lag_s
        late_s = lag_s - self._lag_s
        if late_s > self._limits.max_age_s:
            return f"the frame is {late_s:.3g} s old"
        return None

    def content(self, frame: Frame) -> str | None:
        """What is wrong with what a frame says, whenever it was; or None."""
        values = frame.values
        for name, low, high, fixed in self._needs:
            if name not in values:
                return f"{name} is missing"
            value = values[name]
            kind = type(value)
            # The short way; the long way also knows how to say it.
            if kind is float or kind is int:
                if low <= value <= high:
                    continue
            elif kind in _FIXED and value in fixed:
                continue
            fault = self._checked(name, value)
            if fault is not None:
                return fault
        for name in self._ages:
            if not self._young(values[name]):
                return f"{name.removesuffix('_age')} is {values[name]} s old"
        return None

    def _checked(self, name: str, value: object) -> str | None:
        if self._vocabulary is None:
            if isinstance(value, float) and not math.isfinite(value):
                return f"{name} is {value}, not a finite number"
            return None
        try:
            self._vocabulary.check_value(name, value)
        except SignalFault as fault:
            return str(fault)
        return None

    def _young(self, age_s: object) -> bool:
        return isinstance(age_s, int | float) and 0 <= age_s <= self._limits.max_age_s

    def _stillness(self, frame: Frame) -> str | None:
        allowed_s, last = self._limits.frozen_after_s, self._last
        if allowed_s is None:
            return None
        if last is None or frame.values != last.values:
            self._still_since_s = frame.time_s
            return None
        still_s = frame.time_s - self._still_since_s
        if still_s > allowed_s:
            return f"the same frame for {still_s:.3g} s: the source seems frozen"
        return None
