"""Frames with what is worked out of them: a while that has passed, and scores.

`ago`, `least` and `most` speak of a while that ends now, and a score is a number that
an abstraction gives a name. Both are handed to the predicates as signals are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import compile_quantity
from forewarn.abstractions.expression.tree import Expression, Past
from forewarn.abstractions.expression.typing import unit_of
from forewarn.abstractions.expression.vector import Columns, compile_numbers
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.states.encoding import Encode
from forewarn.abstractions.vocabularies.units import PLAIN

Floats = NDArray[np.float64]

_SLACK_S = 1e-6
"""Times are sums of periods, and sums are rounded."""


@dataclass(frozen=True, slots=True)
class Score:
    """A number with a name, for predicates to cut.

    Args:
        name: The name.
        expression: A number without unit.
    """

    name: str
    expression: Expression


def past_of(nodes: Sequence[Expression]) -> tuple[Past, ...]:
    """All that is said of a while, the inner before the outer, each once."""
    found = {
        repr(node): node
        for whole in nodes
        for node in reversed(list(whole.walk()))
        if isinstance(node, Past)
    }
    return tuple(found.values())


class _While:
    """One thing that is remembered, frame after frame."""

    __slots__ = ("_ago", "_best", "_kept", "_operand", "_span_s", "key")

    def __init__(self, node: Past) -> None:
        self.key = repr(node)
        self._ago, self._span_s = node.function == "ago", node.span_s
        self._best: Callable[..., float] = min if node.function == "least" else max
        self._operand = compile_quantity(node.operand, unit_of(node.operand) or PLAIN)
        self._kept: deque[tuple[float, float | None]] = deque()

    def forget(self) -> None:
        self._kept.clear()

    def told(self, time_s: float, values: Mapping[str, Any], keep: bool) -> Any:
        """What is to be said at a frame.

        Args:
            time_s: When it is.
            values: Its signals.
            keep: Whether the frame has happened, or is only looked at.
        """
        now = self._operand(values)
        kept = self._kept
        if not keep:
            kept = deque([*kept, (time_s, now)])
        else:
            kept.append((time_s, now))
        if self._ago:
            while len(kept) > 1 and kept[1][0] <= time_s - self._span_s + _SLACK_S:
                kept.popleft()
            return kept[0][1]
        while kept[0][0] < time_s - self._span_s - _SLACK_S:
            kept.popleft()
        known = [value for _, value in kept if value is not None]
        return self._best(known) if known else None


class Reader:
    """Encodes the frames of one episode, one after the other.

    Args:
        encode: What turns values into a state.
        past: What is remembered, the inner before the outer.
        scores: What is then added up.
    """

    def __init__(
        self, encode: Encode, past: Sequence[Past], scores: Sequence[Score]
    ) -> None:
        self._encode = encode
        self._past = [_While(node) for node in past]
        self._scores = [(s.name, compile_quantity(s.expression, PLAIN)) for s in scores]
        self._plain = not past and not scores

    def reset(self) -> None:
        """Begins a new episode."""
        for each in self._past:
            each.forget()

    def frame(self, frame: Frame) -> int:
        """What holds at a frame."""
        values = frame.values
        return self._encode(values if self._plain else self._told(frame, True))

    def peek(self, frame: Frame) -> int:
        """What would hold at a frame that may come; nothing is remembered of it."""
        values = frame.values
        return self._encode(values if self._plain else self._told(frame, False))

    def _told(self, frame: Frame, keep: bool) -> dict[str, Any]:
        told = dict(frame.values)
        try:
            for each in self._past:
                told[each.key] = each.told(frame.time_s, told, keep)
            for name, score in self._scores:
                told[name] = score(told)
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        except (TypeError, OverflowError) as error:
            raise SignalFault(f"a signal has the wrong type: {error}") from None
        return told


class ColumnReader:
    """Works out of whole columns what a `Reader` works out frame by frame.

    Args:
        past: What is remembered, the inner before the outer.
        scores: What is then added up.
    """

    def __init__(self, past: Sequence[Past], scores: Sequence[Score] = ()) -> None:
        self._past = [
            (node, compile_numbers(node.operand, unit_of(node.operand) or PLAIN))
            for node in past
        ]
        self._scores = [(s.name, compile_numbers(s.expression, PLAIN)) for s in scores]

    def told(self, columns: Columns, times: Floats) -> dict[str, NDArray[Any]]:
        """The columns with what is worked out of them."""
        told = dict(columns)
        try:
            for node, operand in self._past:
                values = np.broadcast_to(operand(told), times.shape)
                told[repr(node)] = _past_column(node, np.asarray(values, float), times)
            for name, score in self._scores:
                told[name] = np.array(np.broadcast_to(score(told), times.shape))
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        return told


def _past_column(node: Past, values: Floats, times: Floats) -> Floats:
    if node.function == "ago":
        at = np.searchsorted(times, times - node.span_s + _SLACK_S, side="right") - 1
        return values[np.maximum(at, 0)]
    begins = np.searchsorted(times, times - node.span_s - _SLACK_S)
    here = np.arange(len(values))
    better = np.fmin if node.function == "least" else np.fmax
    found = values.copy()
    for back in range(1, int((here - begins).max(initial=0)) + 1):
        earlier = np.maximum(here - back, 0)
        found = np.where(here - back >= begins, better(found, values[earlier]), found)
    return found
