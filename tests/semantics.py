"""The semantics of laws and predicates by brute force, as an independent reference.

The code uses neither progression nor automata nor cells. A word is a list of letters;
bit i of a letter is proposition i. A prefix is bad if no infinite word that continues
it satisfies the law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from forewarn.abstractions.expression.scalar import compile_test, constant_in
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Constant,
    Expression,
    Implies,
    Name,
    Not,
    Or,
    signals_of,
)
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Historically,
    Interval,
    Next,
    Once,
    Since,
    Until,
)

Word = Sequence[int]
Bits = dict[str, int]


def window(interval: Interval) -> tuple[int, int | None]:
    return int(interval.low), None if interval.high is None else int(interval.high)


PASTS = (Once, Historically, Since)


def holds(formula: Formula, word: Word, at: int, bits: Bits) -> bool:
    """Whether the formula is true at a position; the word must be long enough."""

    def now(node: Expression, moment: int = at) -> bool:
        return holds(node, word, moment, bits)

    match formula:
        case Constant(value=value):
            return value
        case Name(name=name):
            return bool(word[at] >> bits[name] & 1)
        case Not(operand=operand):
            return not now(operand)
        case And(parts=parts):
            return all(now(part) for part in parts)
        case Or(parts=parts):
            return any(now(part) for part in parts)
        case Implies(left=left, right=right):
            return not now(left) or now(right)
        case Next(operand=operand):
            return now(operand, at + 1)
        case Always(operand=operand, interval=interval):
            low, high = window(interval)
            assert high is not None
            return all(now(operand, at + k) for k in range(low, high + 1))
        case Eventually(operand=operand, interval=interval):
            low, high = window(interval)
            assert high is not None
            return any(now(operand, at + k) for k in range(low, high + 1))
        case Until(left=left, right=right, interval=interval):
            low, high = window(interval)
            assert high is not None
            return any(
                now(right, at + k) and all(now(left, at + j) for j in range(k))
                for k in range(low, high + 1)
            )
    assert isinstance(formula, PASTS)
    low, high = window(formula.interval)
    moments = range(at - low, -1 if high is None else max(at - high, 0) - 1, -1)
    match formula:
        case Once(operand=operand):
            return any(now(operand, moment) for moment in moments)
        case Historically(operand=operand):
            return all(now(operand, moment) for moment in moments)
        case Since(left=left, right=right):
            return any(
                now(right, moment)
                and all(now(left, k) for k in range(moment + 1, at + 1))
                for moment in moments
            )
    raise AssertionError(formula)


def horizon(formula: Formula) -> int:
    """Returns how many later letters the value of a formula may depend on."""
    inner = max(map(horizon, formula.children), default=0)
    match formula:
        case Next():
            return inner + 1
        case Always(interval=interval) | Eventually(interval=interval):
            return inner + int(interval.high or 0)
        case Until(interval=interval):
            return inner + int(interval.high or 0)
    return inner


def memory(formula: Formula) -> int:
    """Returns how many earlier letters the value of a formula may depend on.

    This does not include unbounded past operators, whose values `_summary` contains.
    """
    inner = max(map(memory, formula.children), default=0)
    if isinstance(formula, PASTS):
        low, high = window(formula.interval)
        return inner + (low if high is None else high)
    return inner


def split(law: Formula) -> tuple[list[Formula], list[Formula]]:
    """Splits a law into formulas for the start and formulas for every position."""
    if isinstance(law, And):
        parts = [split(part) for part in law.parts]
        return [f for s, _ in parts for f in s], [f for _, a in parts for f in a]
    if isinstance(law, Always) and law.interval.high is None:
        return [], [law.operand]
    return [law], []


class Brute:
    """Decides whether a prefix is bad, for a law with a bounded future.

    Only an outermost `always` may be unbounded.

    Args:
        law: The law.
        letters: The letters that can occur.
        bits: The bit of each proposition.
        until: The number of positions at which the operand of `always` is required.
            Obligations that arise later do not count. If None, all positions count.
    """

    def __init__(
        self,
        law: Formula,
        letters: Sequence[int],
        bits: Bits,
        until: int | None = None,
    ) -> None:
        self.start, self.always = split(law)
        self.letters, self.bits, self.until = tuple(letters), bits, until
        self.span = max(map(horizon, [*self.start, *self.always]), default=0)
        self.back = max(map(memory, [*self.start, *self.always]), default=0)
        self._lasting = [
            replace(node, interval=Interval())
            for node in law.walk()
            if isinstance(node, PASTS) and node.interval.high is None
        ]
        self._endless: dict[tuple[object, ...], bool] = {}

    def is_bad(self, prefix: Word) -> bool:
        """Whether every infinite word that begins with the prefix breaks the law."""
        word: list[int] = []
        for letter in prefix:
            word.append(letter)
            if not self._fits(word):
                return True
        return not self._goes_on(word, set())

    def _fits(self, word: list[int]) -> bool:
        """Whether the formulas that the last letter decides are true."""
        settled = len(word) - 1 - self.span
        if settled < 0:
            return True
        if settled == 0 and not all(
            holds(node, word, 0, self.bits) for node in self.start
        ):
            return False
        if self.until is not None and settled >= self.until:
            return True
        return all(holds(node, word, settled, self.bits) for node in self.always)

    def _goes_on(self, word: list[int], path: set[tuple[object, ...]]) -> bool:
        """Whether an infinite word continues this one: a path returns to a summary."""
        key = self._summary(word)
        if key in path:
            return True
        if key not in self._endless:
            path.add(key)
            self._endless[key] = any(
                self._fits(longer) and self._goes_on(longer, path)
                for longer in ([*word, letter] for letter in self.letters)
            )
            path.discard(key)
        return self._endless[key]

    def _summary(self, word: list[int]) -> tuple[object, ...]:
        """Returns everything on which the future of a word can depend."""
        kept = self.span + self.back + 1
        last = range(max(len(word) - kept, 0), len(word))
        length = len(word) if self.until is not None else min(len(word), kept)
        return (
            min(length, (self.until or 0) + kept),
            *(word[i] for i in last),
            *(holds(node, word, i, self.bits) for node in self._lasting for i in last),
        )


def first_bad(brute: Brute, word: Word) -> int | None:
    """Returns the length of the shortest bad prefix that is not empty."""
    return next((n for n in range(1, len(word) + 1) if brute.is_bad(word[:n])), None)


# -- predicates on one frame ----------------------------------------------------------


def dense_frames(nodes: Sequence[Expression]) -> Iterator[dict[str, Any]]:
    """Yields frames with every combination of none and of values near thresholds."""
    names = dict.fromkeys(name for node in nodes for name in signals_of(node))
    choices: dict[str, list[Any]] = {}
    for name in names:
        if name in ("wet", "dark"):
            choices[name] = [None, False, True]
        elif name == "light":
            choices[name] = [None, "red", "green", "blue"]
        else:
            bounds = {
                constant_in(node.right, node.left)
                for tree in nodes
                for node in tree.walk()
                if isinstance(node, Compare) and node.left == Name(name)
            } - {None}
            values = {-1e6, 1e6, 0.0}
            for bound in bounds:
                assert bound is not None
                values |= {bound, bound - 0.5, bound + 0.5}
                values |= {math.nextafter(bound, way) for way in (-math.inf, math.inf)}
            choices[name] = [None, *sorted(values)]
    for point in itertools.product(*choices.values()):
        yield dict(zip(choices, point, strict=True))


def seen(nodes: Sequence[Expression], where: Sequence[Expression] = ()) -> set[int]:
    """Returns the states of all dense frames in which `where` is true."""
    tests, allowed = list(map(compile_test, nodes)), list(map(compile_test, where))
    return {
        sum(test(frame) << i for i, test in enumerate(tests))
        for frame in dense_frames([*nodes, *where])
        if all(test(frame) for test in allowed)
    }
