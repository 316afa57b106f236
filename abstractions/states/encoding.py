"""Frames to states, fast: one look-up a signal instead of one test a predicate.

All conditions that compare one signal with constants are answered together: the
constants cut a number's range into cells, and a bisection finds the cell, whose bits
were worked out beforehand, as were those of every word and truth value. A predicate is
one such condition, or several that must all hold; so a signal's bits are those of the
predicates that it does not rule out, and what no signal rules out holds.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import (
    Test,
    compile_test,
    constant_in,
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


def _constants(node: Expression) -> list[tuple[str, float | str]] | None:
    """Its signals and what each is compared with; None if it does anything else.

    A truth value that stands alone is compared with the empty word.
    """
    pairs: list[tuple[str, float | str]] = []
    pending = [node]
    while pending:
        item = pending.pop()
        match item:
            case Not() | And() | Or() | Implies():
                pending.extend(item.children)
            case Compare(left=Name(name=name), right=Text(value=text)):
                pairs.append((name, text))
            case Compare(left=Name(name=name) as left, right=right):
                bound = constant_in(right, left)
                if bound is None:
                    return None
                pairs.append((name, bound))
            case Name(name=name):
                pairs.append((name, ""))
            case ObjectPredicate():
                pairs.append((repr(item), ""))
            case _:
                return None
    return pairs


_Part = tuple[str, list[float | str], Test]
"""A signal, the constants that it is compared with, and the condition on it."""


def _parts(node: Expression) -> list[_Part] | None:
    """Conditions on one signal each that together are the predicate, if there are."""
    of_signal: dict[str, tuple[list[float | str], list[Expression]]] = {}
    for part in node.parts if isinstance(node, And) else (node,):
        pairs = _constants(part)
        names = {name for name, _ in pairs or ()}
        if pairs is None or len(names) != 1:
            return None
        constants, nodes = of_signal.setdefault(names.pop(), ([], []))
        constants += [constant for _, constant in pairs]
        nodes.append(part)
    return [
        (name, constants, compile_test(And(tuple(nodes)) if nodes[1:] else nodes[0]))
        for name, (constants, nodes) in of_signal.items()
    ]


_ODD = 0
"""The bits of a value that no table answers: none, not even the sound one."""


class _Kinds(dict[Any, int]):
    """The bits for each value of a signal that is a word or a truth value."""

    __slots__ = ("of_other_words",)
    of_other_words: int

    def __missing__(self, value: object) -> int:
        return self.of_other_words if isinstance(value, str) else _ODD


class FrameEncoder:
    """Encodes one frame's values to the bits of the predicates that hold.

    Whatever its tables do not answer, a value that is not finite or of the wrong type,
    is left to the predicates' own tests, which answer or say what is wrong.
    """

    def __init__(self, predicates: Sequence[Expression]) -> None:
        self._tests = [(1 << i, compile_test(n)) for i, n in enumerate(predicates)]
        cut: dict[str, set[float]] = {}
        named: dict[str, set[str]] = {}
        alone: dict[str, list[tuple[int, Test]]] = {}
        rest: list[tuple[int, Test]] = []
        for node, (bit, test) in zip(predicates, self._tests, strict=True):
            parts = _parts(node)
            if parts is None:
                rest.append((bit, test))
                continue
            for name, pairs, part in parts:
                alone.setdefault(name, []).append((bit, part))
                for constant in pairs:
                    if isinstance(constant, str):
                        named.setdefault(name, set()).add(constant)
                    else:
                        cut.setdefault(name, set()).add(constant)
        for name in cut.keys() & named.keys():
            mixed = sum({bit for bit, _ in alone.pop(name)})
            rest += [(bit, test) for bit, test in self._tests if bit & mixed]
        self._rest = list(dict.fromkeys(rest))
        # The bit above all others is kept by every value that a table answers.
        self._sound = 1 << len(self._tests)
        told = self._sound | sum(bit for bit, _ in self._tests)
        told &= ~sum(bit for bit, _ in self._rest)
        self._told = told
        self._cells = [
            _cells(name, sorted(bounds), alone[name], told)
            for name, bounds in cut.items()
            if name in alone
        ]
        self._kinds = [
            (name, _kinds(name, named.get(name, ()), tests, told))
            for name, tests in alone.items()
            if name not in cut
        ]

    def encode(self, values: Mapping[str, Any]) -> int:
        """The state of one frame.

        Raises:
            SignalFault: When a signal is missing, of the wrong type or not finite.
        """
        bits = self._told
        try:
            for name, edges, masks, of_none in self._cells:
                value = values[name]
                bits &= of_none if value is None else masks[bisect_right(edges, value)]
            for name, kinds in self._kinds:
                bits &= kinds[values[name]]
            for bit, test in self._rest:
                if test(values):
                    bits |= bit
        except (KeyError, TypeError, OverflowError):
            bits = _ODD
        if bits < self._sound:
            return _by_tests(self._tests, values)
        return bits ^ self._sound


def _by_tests(tests: Sequence[tuple[int, Test]], values: Mapping[str, Any]) -> int:
    """The state of a frame, predicate by predicate, or what is wrong with it."""
    try:
        return sum(bit for bit, test in tests if test(values))
    except KeyError as error:
        raise SignalFault(f"{error.args[0]} is missing") from None
    except (TypeError, OverflowError) as error:
        raise SignalFault(f"a signal has the wrong type: {error}") from None


def _left(
    name: str, value: object, tests: Sequence[tuple[int, Test]], told: int
) -> int:
    """The predicates that a signal's value does not rule out."""
    for bit, test in tests:
        if not test({name: value}):
            told &= ~bit
    return told


def _cells(
    name: str, bounds: Sequence[float], tests: Sequence[tuple[int, Test]], told: int
) -> tuple[str, list[float], list[int], int]:
    """A number's cells, with the bits in each, and the bits of none."""

    def mask(value: float | None) -> int:
        return _left(name, value, tests, told)

    # A cell begins at each bound and right after it, so that < and <= differ. Before
    # the first and after the last lie the infinities, and NaN is sorted there too.
    edges = sorted({e for b in bounds for e in (b, math.nextafter(b, math.inf))})
    edges = [-sys.float_info.max, *(e for e in edges if abs(e) < sys.float_info.max)]
    masks = [_ODD, *(mask(edge) for edge in edges), _ODD]
    return name, [*edges, math.inf], masks, mask(None)


def _kinds(
    name: str, words: Iterable[str], tests: Sequence[tuple[int, Test]], told: int
) -> _Kinds:
    """The bits of each word and truth value that the tests accept."""
    kinds = _Kinds()
    # One word stands for all that no predicate names.
    other = "".join([*words, "x"])
    for value in (True, False, None, *words, other):
        try:
            kinds[value] = _left(name, value, tests, told)
        except SignalFault:
            continue
    kinds.of_other_words = kinds.pop(other, _ODD)
    return kinds


def compile_states(predicates: Sequence[Expression]) -> Encode:
    """The fastest way to encode a frame."""
    cuts = [_cut(node) for node in predicates]
    if len(cuts) == 2 and cuts[0] and cuts[1]:
        return _two_cuts(cuts[0], cuts[1], predicates)
    return FrameEncoder(predicates).encode


_Cut = tuple[str, float, bool]
"""A signal, and the constant from which on a predicate holds, or no longer does."""


def _cut(node: Expression) -> _Cut | None:
    """The cut that a comparison with a constant makes; None for anything else."""
    if not isinstance(node, Compare) or node.operator in ("==", "!="):
        return None
    bound = constant_in(node.right, node.left)
    if bound is None or not isinstance(node.left, Name):
        return None
    # No number lies between a float and the next: two kinds of cut do for four.
    if node.operator in ("<=", ">"):
        bound = math.nextafter(bound, math.inf)
    return node.left.name, bound, node.operator in (">", ">=")


def _two_cuts(first: _Cut, second: _Cut, predicates: Sequence[Expression]) -> Encode:
    """A bounded response over two signals, the commonest law, in one call."""
    (one, one_from, one_above), (two, two_from, two_above) = first, second
    below = (0 if one_above else 1) | (0 if two_above else 2)
    states = ((below, below ^ 2), (below ^ 1, below ^ 3))
    tests = [(1 << i, compile_test(node)) for i, node in enumerate(predicates)]

    def encode(values: Mapping[str, Any]) -> int:
        try:
            a, b = values[one], values[two]
            # inf - inf is nan, and nan is truthy.
            if a - a or b - b:
                return _by_tests(tests, values)
            return states[a >= one_from][b >= two_from]
        except (KeyError, TypeError):
            return _by_tests(tests, values)

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
