"""Frames to states: every predicate tested on one frame, or on whole columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import compile_test, cut_by, finite
from forewarn.abstractions.expression.tree import (
    And,
    Expression,
    Implies,
    Not,
    Or,
    atoms,
)
from forewarn.abstractions.expression.vector import Columns, compile_columns

Encode = Callable[[Mapping[str, Any]], int]

_CHUNK = 1 << 15
"""Frames encoded at a time, so that a chunk's columns stay in the cache."""

_MAX_REMEMBERED = 1 << 16


def compile_states(predicates: Sequence[Expression]) -> Encode:
    """Encodes one frame's values: bit i of its state says whether predicate i holds.

    Predicates share much of what they ask, those of a tree above all: each question is
    asked once, those that cut the same signal together, and what a set of answers says
    of the predicates is remembered.

    What is compiled raises `SignalFault` where a signal is missing, of the wrong type
    or not finite.
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
            raise SignalFault(f"a signal has the wrong type: {error}") from None
        return states[answers]

    return encode


def _scale(cuts: Sequence[tuple[float, int, int]]) -> tuple[list[float], list[int]]:
    """The cuts of a signal, and what is answered before, between and after them.

    Args:
        cuts: Each cut, with what is answered below it and what from it on.
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
    """The state that follows from a set of answers, once they have come."""

    def __init__(
        self, predicates: Sequence[Expression], bit_of: Mapping[Expression, int]
    ) -> None:
        self._bits: dict[Expression, int] = {}
        for i, node in enumerate(predicates):
            self._bits[node] = self._bits.get(node, 0) | 1 << i
        self._holds = [(_given(node, bit_of), b) for node, b in self._bits.items()]

    def __missing__(self, answers: int) -> int:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        state = 0
        for holds, bits in self._holds:
            if holds(answers):
                state |= bits
        self[answers] = state
        return state


def _given(node: Expression, bit_of: Mapping[Expression, int]) -> Callable[[int], bool]:
    """Whether an expression holds, given the answers to its questions."""
    match node:
        case Not(operand=operand):
            inner = _given(operand, bit_of)
            return lambda answers: not inner(answers)
        case And(parts=parts):
            every = [_given(part, bit_of) for part in parts]
            return lambda answers: all(test(answers) for test in every)
        case Or(parts=parts):
            either = [_given(part, bit_of) for part in parts]
            return lambda answers: any(test(answers) for test in either)
        case Implies(left=left, right=right):
            return _given(Or((Not(left), right)), bit_of)
    bit = bit_of[node]
    return lambda answers: answers & bit != 0


class ArrayEncoder:
    """Encodes columns to states, a chunk that fits the cache at a time."""

    def __init__(self, predicates: Sequence[Expression]) -> None:
        self._tests = [compile_columns(node) for node in predicates]
        fits = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))
        self._dtype = next(kind for bits, kind in fits if len(predicates) <= bits)

    def encode(self, columns: Columns, length: int) -> NDArray[np.int64]:
        """The state of each of `length` frames."""
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
