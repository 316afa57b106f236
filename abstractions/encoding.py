"""Converts frames to abstract states, one at a time or as whole columns."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import (
    Closure,
    Compiler,
    compile_quantity,
    compile_test,
    cut_by,
    finite,
)
from forewarn.abstractions.expression.tree import (
    Expression,
    LookBack,
    atoms,
    unit_of,
)
from forewarn.abstractions.expression.vector import (
    Columns,
    compile_columns,
    compile_numbers,
)
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.signals import PLAIN

Encode = Callable[[Mapping[str, Any]], int]

_CHUNK = 1 << 15
"""The number of frames encoded at a time, so that their columns fit the CPU cache."""

_MAX_REMEMBERED = 1 << 16


def compile_states(predicates: Sequence[Expression]) -> Encode:
    """Compiles predicates to a function that encodes one frame's values as a state.

    Bit i of the state is set if predicate i is true. Predicates often share
    comparisons, so each comparison is evaluated once. One binary search handles all
    comparisons of a signal, and the state for each combination of results is cached.

    The function raises `SignalFault` if a signal is missing, has the wrong type or is
    not finite.
    """
    questions = dict.fromkeys(q for node in predicates for q in atoms(node))
    bit_of = {question: 1 << i for i, question in enumerate(questions)}
    cuts: dict[str, list[tuple[float, int, int]]] = {}
    tests = []
    for question, bit in bit_of.items():
        cut = cut_by(question)
        if cut is None:
            tests.append((bit, compile_test(question)))
        else:
            below, above = (bit, 0) if cut.below else (0, bit)
            cuts.setdefault(cut.name, []).append((cut.bound, below, above))
    scales = [(name, *_scale(of_signal)) for name, of_signal in cuts.items()]
    states = _States(predicates, bit_of)

    def encode(values: Mapping[str, Any]) -> int:
        answers = 0
        try:
            for name, bounds, between in scales:
                value = values[name]
                if value is None:
                    continue
                if value - value:
                    finite(value, name)
                answers |= between[bisect_right(bounds, value)]
            for bit, test in tests:
                if test(values):
                    answers |= bit
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        except (TypeError, OverflowError) as error:
            raise _wrong_type([name for name, *_ in scales], values, error) from None
        return states[answers]

    return encode


def _wrong_type(
    numbers: Sequence[str], values: Mapping[str, Any], error: Exception
) -> SignalFault:
    """Returns the fault of a frame whose values cannot be compared.

    Args:
        numbers: The signals that must be numbers.
        values: The values of the frame.
        error: The error of the comparison.
    """
    if not isinstance(values, Mapping):
        found = type(values).__name__
        error = TypeError(f"expected a mapping of signals, but got {found}")
        numbers = ()
    for name in numbers:
        if not isinstance(values.get(name), int | float | None):
            error = TypeError(f"{name} is {values[name]!r:.40}, not a number")
    return SignalFault(f"a signal has the wrong type: {error}")


def _scale(cuts: Sequence[tuple[float, int, int]]) -> tuple[list[float], list[int]]:
    """Returns the sorted constants that a signal is compared with, and the result bits
    for each interval between them.

    Args:
        cuts: Each constant, with the result bits for values below it and for other
            values.
    """
    bounds = sorted({bound for bound, _, _ in cuts})
    between = []
    for lower in (-float("inf"), *bounds):
        answers = 0
        for bound, below, above in cuts:
            answers |= below if lower < bound else above
        between.append(answers)
    return bounds, between


class _States(dict[int, int]):
    """A cache of the state for each combination of comparison results."""

    def __init__(
        self, predicates: Sequence[Expression], bit_of: Mapping[Expression, int]
    ) -> None:
        self._bits: dict[Expression, int] = {}
        for i, node in enumerate(predicates):
            self._bits[node] = self._bits.get(node, 0) | 1 << i
        compiler = AnswerCompiler(bit_of)
        self._holds = [(compiler.test(node), b) for node, b in self._bits.items()]

    def __missing__(self, answers: int) -> int:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        state = 0
        for holds, bits in self._holds:
            if holds(answers):
                state |= bits
        self[answers] = state
        return state


class AnswerCompiler(Compiler):
    """Compiles expressions to closures that take the results of comparisons as bits.

    Args:
        bit_of: The bit of each comparison, or of any other part of an expression.
    """

    def __init__(self, bit_of: Mapping[Expression, int]) -> None:
        self._bit_of = bit_of

    def test(self, node: Expression) -> Closure:
        bit = self._bit_of.get(node)
        return super().test(node) if bit is None else lambda told: told & bit != 0


class ArrayEncoder:
    """Encodes columns as states, in chunks that fit the CPU cache."""

    def __init__(self, predicates: Sequence[Expression]) -> None:
        self._tests = [compile_columns(node) for node in predicates]
        fits = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))
        self._dtype = next(kind for bits, kind in fits if len(predicates) <= bits)

    def encode(self, columns: Columns, length: int) -> NDArray[np.int64]:
        """Returns the state of each of `length` frames."""
        states = np.empty(length, np.int64)
        weights = [self._dtype(1 << i) for i in range(len(self._tests))]
        try:
            for start in range(0, length, _CHUNK):
                stop = min(start + _CHUNK, length)
                part = {name: column[start:stop] for name, column in columns.items()}
                bits: NDArray[Any] = np.zeros(stop - start, self._dtype)
                for test, weight in zip(self._tests, weights, strict=True):
                    np.bitwise_or(bits, test(part) * weight, out=bits)
                states[start:stop] = bits
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        return states


Floats = NDArray[np.float64]

_SLACK_S = 1e-6
"""The tolerance for times, because sums of periods have rounding errors."""


@dataclass(frozen=True, slots=True)
class Score:
    """A named number that predicates compare with constants.

    Args:
        expression: A numeric expression without a unit.
    """

    name: str
    expression: Expression


def past_of(nodes: Sequence[Expression]) -> tuple[LookBack, ...]:
    """Returns all expressions over time in `nodes`, without duplicates, inner before
    outer.
    """
    found = {
        repr(node): node
        for whole in nodes
        for node in reversed(list(whole.walk()))
        if isinstance(node, LookBack)
    }
    return tuple(found.values())


_BEST: Mapping[str, Callable[..., float]] = {"least": min, "most": max, "count": sum}


def _operand_of(node: LookBack) -> Callable[[Mapping[str, Any]], float | None]:
    if node.function == "count":
        return compile_test(node.operand)
    return compile_quantity(node.operand, unit_of(node.operand) or PLAIN)


class _While:
    """The recent values of one expression over time, updated with each frame."""

    __slots__ = ("_ago", "_best", "_kept", "_operand", "_span_s", "key")

    def __init__(self, node: LookBack) -> None:
        self.key = repr(node)
        self._ago, self._span_s = node.function == "ago", node.span_s
        self._best = _BEST.get(node.function, max)
        self._operand = _operand_of(node)
        self._kept: deque[tuple[float, float | None]] = deque()

    def forget(self) -> None:
        self._kept.clear()

    def told(self, time_s: float, values: Mapping[str, Any], keep: bool) -> Any:
        """Returns the value of the expression at a frame.

        Args:
            values: The frame's signals and the values computed so far.
            keep: Whether to remember the frame; False for a predicted frame.
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
    """Encodes the frames of a run in order.

    Args:
        encode: The function that encodes values as a state.
        past: The expressions over time; nested ones precede those that contain them.
        scores: The scores, computed after the expressions over time.

    `values` contains the signals of the last frame and the values computed from them.
    """

    def __init__(
        self, encode: Encode, past: Sequence[LookBack], scores: Sequence[Score]
    ) -> None:
        self._encode = encode
        self._past = [_While(node) for node in past]
        self._scores = [(s.name, compile_quantity(s.expression, PLAIN)) for s in scores]
        self._plain = not past and not scores
        self.values: Mapping[str, Any] = {}

    def reset(self) -> None:
        """Begins a new run: forgets all frames so far."""
        for each in self._past:
            each.forget()

    def frame(self, frame: Frame) -> int:
        """Returns the state at the next frame, and remembers the frame."""
        self.values = frame.values if self._plain else self._told(frame, True)
        return self._encode(self.values)

    def peek(self, frame: Frame) -> int:
        """Returns the state at a possible next frame, without remembering the frame."""
        self.values = frame.values if self._plain else self._told(frame, False)
        return self._encode(self.values)

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
    """Computes expressions over time and scores for whole columns at once.

    Args:
        past: The expressions over time; nested ones precede those that contain them.
        scores: The scores, computed after the expressions over time.
    """

    def __init__(self, past: Sequence[LookBack], scores: Sequence[Score] = ()) -> None:
        self._past = [
            (
                node,
                compile_columns(node.operand)
                if node.function == "count"
                else compile_numbers(node.operand, unit_of(node.operand) or PLAIN),
            )
            for node in past
        ]
        self._scores = [(s.name, compile_numbers(s.expression, PLAIN)) for s in scores]

    def told(self, columns: Columns, times: Floats) -> dict[str, NDArray[Any]]:
        """Returns the columns, plus one for each expression over time and each
        score.
        """
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


def _past_column(node: LookBack, values: Floats, times: Floats) -> Floats:
    if node.function == "ago":
        at = np.searchsorted(times, times - node.span_s + _SLACK_S, side="right") - 1
        return values[np.maximum(at, 0)]
    begins = np.searchsorted(times, times - node.span_s - _SLACK_S)
    if node.function == "count":
        total = np.concatenate([[0.0], np.cumsum(values)])
        return np.asarray(total[1:] - total[begins])
    here = np.arange(len(values))
    better = np.fmin if node.function == "least" else np.fmax
    found = values.copy()
    for back in range(1, int((here - begins).max(initial=0)) + 1):
        earlier = np.maximum(here - back, 0)
        found = np.where(here - back >= begins, better(found, values[earlier]), found)
    return found
