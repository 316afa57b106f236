"""Frames to states, fast: one look-up a signal instead of one test a predicate.

All predicates that compare one signal with constants are answered together: the
constants cut the signal's range into cells, and a bisection finds the cell, whose
bits were worked out beforehand.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import (
    Test,
    compile_test,
    constant_in,
    finite,
)
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Expression,
    Implies,
    Name,
    Not,
    ObjectPredicate,
    Or,
    Text,
)
from forewarn.abstractions.expression.vector import Columns, evaluate

Encode = Callable[[Mapping[str, Any]], int]

_CHUNK = 1 << 15
"""Frames encoded at a time, so that a chunk's columns stay in the cache."""


def _constants(node: Expression) -> Iterator[tuple[str, float]] | None:
    """The (signal, constant) pairs, if it only compares signals with constants."""
    pairs: list[tuple[str, float]] = []
    pending = [node]
    while pending:
        item = pending.pop()
        match item:
            case Not() | And() | Or() | Implies():
                pending.extend(item.children)
            case Compare(left=Name(name=name) as left, right=right) if not isinstance(
                right, Text
            ):
                bound = constant_in(right, left)
                if bound is None:
                    return None
                pairs.append((name, bound))
            case _:
                return None
    return iter(pairs)


class FrameEncoder:
    """Encodes one frame's values to the bits of the predicates that hold."""

    def __init__(self, predicates: Sequence[Expression]) -> None:
        bounds: dict[str, set[float]] = {}
        banded: dict[str, list[tuple[int, Test]]] = {}
        self._tests: list[tuple[int, Test]] = []
        truths: dict[str, int] = {}
        for i, node in enumerate(predicates):
            pairs = list(_constants(node) or ())
            names = {name for name, _ in pairs}
            test = compile_test(node)
            if len(names) == 1:
                name = names.pop()
                banded.setdefault(name, []).append((1 << i, test))
                bounds.setdefault(name, set()).update(bound for _, bound in pairs)
            elif isinstance(node, Name | ObjectPredicate):
                truths[repr(node)] = truths.get(repr(node), 0) | 1 << i
            else:
                self._tests.append((1 << i, test))
        self._truths = list(truths.items())
        self._cells = [
            self._cells_of(name, sorted(bounds[name]), tests)
            for name, tests in banded.items()
        ]

    @staticmethod
    def _cells_of(
        name: str, bounds: list[float], tests: list[tuple[int, Test]]
    ) -> tuple[str, list[float], list[int], int]:
        def mask(value: float | None) -> int:
            return sum(bit for bit, test in tests if test({name: value}))

        # A cell begins at each bound and right after it, so that < and <= differ.
        edges = sorted({e for b in bounds for e in (b, math.nextafter(b, math.inf))})
        below = math.nextafter(edges[0], -math.inf)
        return name, edges, [mask(below), *(mask(edge) for edge in edges)], mask(None)

    def encode(self, values: Mapping[str, Any]) -> int:
        """The state of one frame.

        Raises:
            SignalFault: When a signal is missing, of the wrong type or not finite.
        """
        bits = 0
        try:
            for name, edges, masks, none in self._cells:
                value = values[name]
                if value is None:
                    bits |= none
                else:
                    if value - value:
                        finite(value, name)
                    bits |= masks[bisect_right(edges, value)]
            for name, bit in self._truths:
                if values[name]:
                    bits |= bit
            for bit, test in self._tests:
                if test(values):
                    bits |= bit
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        except (TypeError, OverflowError) as error:
            raise SignalFault(f"a signal has the wrong type: {error}") from None
        return bits


def _never(values: Mapping[str, Any]) -> bool:
    return False


def compile_states(predicates: Sequence[Expression]) -> Encode:
    """The fastest way to encode a frame: two tests need no cells."""
    if len(predicates) > 2:
        return FrameEncoder(predicates).encode
    tests = [compile_test(node) for node in predicates]
    first, second = (*tests, _never, _never)[:2]

    def encode(values: Mapping[str, Any]) -> int:
        try:
            return first(values) | second(values) << 1
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        except (TypeError, OverflowError) as error:
            raise SignalFault(f"a signal has the wrong type: {error}") from None

    return encode


class ArrayEncoder:
    """Encodes columns to states, a chunk that fits the cache at a time."""

    def __init__(self, predicates: Sequence[Expression]) -> None:
        self._predicates = tuple(predicates)
        fits = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))
        self._dtype = next(kind for bits, kind in fits if len(predicates) <= bits)

    def encode(self, columns: Columns, length: int) -> NDArray[np.int64]:
        """The state of each of `length` frames."""
        states = np.empty(length, np.int64)
        weights = [self._dtype(1 << i) for i in range(len(self._predicates))]
        try:
            for start in range(0, length, _CHUNK):
                stop = min(start + _CHUNK, length)
                part = {name: column[start:stop] for name, column in columns.items()}
                bits: NDArray[Any] = np.zeros(stop - start, self._dtype)
                for node, weight in zip(self._predicates, weights, strict=True):
                    np.bitwise_or(bits, evaluate(node, part) * weight, out=bits)
                states[start:stop] = bits
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        return states
