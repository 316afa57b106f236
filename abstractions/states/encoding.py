"""Frames to states: every predicate tested on one frame, or on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import Expression
from forewarn.abstractions.expression.vector import Columns, evaluate

Encode = Callable[[Mapping[str, Any]], int]

_CHUNK = 1 << 15
"""Frames encoded at a time, so that a chunk's columns stay in the cache."""


def compile_states(predicates: Sequence[Expression]) -> Encode:
    """Encodes one frame's values: bit i of its state says whether predicate i holds.

    What is compiled raises `SignalFault` where a signal is missing, of the wrong type
    or not finite.
    """
    tests = [(1 << i, compile_test(node)) for i, node in enumerate(predicates)]

    def encode(values: Mapping[str, Any]) -> int:
        bits = 0
        try:
            for bit, test in tests:
                if test(values):
                    bits |= bit
        except KeyError as error:
            raise SignalFault(f"{error.args[0]} is missing") from None
        except (TypeError, OverflowError) as error:
            raise SignalFault(f"a signal has the wrong type: {error}") from None
        return bits

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
