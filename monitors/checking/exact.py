"""The exact engine: rational arithmetic from beginning to end, as `14/349`.

Everything is done on integers over a common denominator: fractions that are reduced
at every step would spend nearly all of their time on greatest common divisors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.engines import Until
from forewarn.monitors.checking.graphs import Mask

Fractions = NDArray[Any]

MAX_UNKNOWNS = 2_000
"""The most states whose probabilities are solved for together."""

MAX_WORK = 4e11
"""Transitions times squared bits of the answer: about a minute of bounded steps."""


class Exact:
    """Answers in fractions; refuses chains whose probabilities are rounded.

    Raises:
        InvalidModel: When a row of decimals does not sum to one exactly.
    """

    name = "builtin"
    exact = True

    def __init__(self, chain: Chain) -> None:
        self._n = chain.n
        self._rows = rational_rows(chain)

    def next(self, target: Mask) -> Fractions:
        wanted = set(np.flatnonzero(target).tolist())
        return fraction_array(
            sum((p for j, p in row.items() if j in wanted), Fraction())
            for row in self._rows
        )

    def until(self, question: Until) -> Fractions:
        hold, goal = question.hold, question.goal
        if question.high is None:
            values = self._ever(question.never, question.surely)
        else:
            steps = question.high - question.low
            start = [Fraction(int(g)) for g in goal]
            values = self._back(start, hold & ~goal, goal, steps)
        return fraction_array(
            self._back(values, hold, np.zeros_like(hold), question.low)
        )

    def _back(
        self, values: list[Fraction], moving: Mask, kept: Mask, steps: int
    ) -> list[Fraction]:
        """So many steps backwards, as the built-in engine does them."""
        if steps == 0:
            return values
        states = np.flatnonzero(moving).tolist()
        scale = math.lcm(
            *(p.denominator for i in states for p in self._rows[i].values())
        )
        rows = {
            i: [(j, p.numerator * (scale // p.denominator)) for j, p in row.items()]
            for i, row in ((i, self._rows[i]) for i in states)
        }
        _refuse_work(rows, scale, steps)
        below = math.lcm(*(value.denominator for value in values))
        tops = [value.numerator * (below // value.denominator) for value in values]
        still = np.flatnonzero(kept).tolist()
        for _ in range(steps):
            further = [0] * self._n
            for i in still:
                further[i] = tops[i] * scale
            for i, row in rows.items():
                further[i] = sum(weight * tops[j] for j, weight in row)
            if all(new == old * scale for new, old in zip(further, tops, strict=True)):
                break
            tops, below = further, below * scale
        return [Fraction(top, below) for top in tops]

    def _ever(self, never: Mask, surely: Mask) -> list[Fraction]:
        values = [Fraction(int(s)) for s in surely]
        unknown = set(np.flatnonzero(~(never | surely)).tolist())
        if len(unknown) > MAX_UNKNOWNS:
            raise TooLarge(
                f"{len(unknown)} unknown probabilities are more than the"
                f" {MAX_UNKNOWNS} that are solved exactly",
                mend="ask without --exact",
            )
        certain = set(np.flatnonzero(surely).tolist())
        system = _System({i: self._rows[i] for i in unknown}, certain)
        for state, value in system.solve().items():
            values[state] = value
        return values


class _System:
    """Equations d x_i = sum a_ij x_j + b with integer coefficients, none negative.

    `d` stands for what leaves state i. Eliminating a state that few others refer to
    keeps the equations sparse; dividing each by its content keeps its numbers small.
    """

    def __init__(self, rows: dict[int, dict[int, Fraction]], certain: set[int]) -> None:
        self._terms: dict[int, dict[int, int]] = {}
        self._leaving: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._users: dict[int, set[int]] = {i: set() for i in rows}
        for i, row in rows.items():
            scale = math.lcm(*(p.denominator for p in row.values()))
            weights = {j: int(p * scale) for j, p in row.items() if j != i}
            self._leaving[i] = sum(weights.values())
            self._known[i] = sum(w for j, w in weights.items() if j in certain)
            self._terms[i] = {j: w for j, w in weights.items() if j in rows}
            for j in self._terms[i]:
                self._users[j].add(i)

    def solve(self) -> dict[int, Fraction]:
        order, waiting = list[int](), set(self._terms)
        while waiting:
            pivot = min(waiting, key=self._fill)
            waiting.remove(pivot)
            order.append(pivot)
            for user in self._users.pop(pivot):
                self._substitute(user, pivot)
            for j in self._terms[pivot]:
                self._users[j].discard(pivot)
        return self._climb(reversed(order))

    def _fill(self, state: int) -> tuple[int, int]:
        return len(self._users[state]) * len(self._terms[state]), state

    def _substitute(self, user: int, pivot: int) -> None:
        """Puts the pivot's equation into one that refers to it."""
        terms, leaving = self._terms[user], self._leaving[pivot]
        factor = terms.pop(pivot)
        common = math.gcd(factor, leaving)
        factor, leaving = factor // common, leaving // common
        for j in terms:
            terms[j] *= leaving
        own = self._leaving[user] * leaving
        for j, weight in self._terms[pivot].items():
            if j == user:
                own -= factor * weight
            else:
                terms[j] = terms.get(j, 0) + factor * weight
                self._users[j].add(user)
        known = self._known[user] * leaving + factor * self._known[pivot]
        content = math.gcd(own, known, *terms.values())
        self._terms[user] = {j: w // content for j, w in terms.items()}
        self._leaving[user], self._known[user] = own // content, known // content

    def _climb(self, order: Iterable[int]) -> dict[int, Fraction]:
        """Solves from the last eliminated state back, over one common denominator."""
        tops, below = dict[int, int](), 1
        for state in order:
            terms = self._terms[state].items()
            top = sum(w * tops[j] for j, w in terms) + self._known[state] * below
            bottom = self._leaving[state] * below
            common = math.gcd(top, bottom)
            top, bottom = top // common, bottom // common
            wider = math.lcm(below, bottom)
            if wider != below:
                tops = {j: t * (wider // below) for j, t in tops.items()}
                below = wider
            tops[state] = top * (below // bottom)
        return {state: Fraction(top, below) for state, top in tops.items()}


def rational_rows(chain: Chain) -> list[dict[int, Fraction]]:
    """The rows as fractions; doubles are read as the decimals that they print as."""
    values = chain.exact or tuple(Fraction(repr(p)) for p in chain.data.tolist())
    rows = list[dict[int, Fraction]]()
    targets, ends = chain.indices.tolist(), chain.indptr.tolist()
    for i in range(chain.n):
        at = slice(ends[i], ends[i + 1])
        row = dict(zip(targets[at], values[at], strict=True))
        if sum(row.values()) != 1:
            raise InvalidModel(
                f"the probabilities are rounded: the row of state {chain.states[i]!r}"
                f" sums to {float(sum(row.values()))!r}, and not to 1 exactly",
                mend="give them as fractions such as 1/3",
            )
        rows.append(row)
    return rows


def _refuse_work(
    rows: dict[int, list[tuple[int, int]]], scale: int, steps: int
) -> None:
    bits = steps * scale.bit_length()
    work = sum(map(len, rows.values())) * float(bits) ** 2
    if work > MAX_WORK:
        raise TooLarge(
            f"{steps} exact steps would make fractions of {bits} bits",
            mend="ask without --exact, or for fewer steps",
        )


def fraction_array(values: Iterable[Fraction]) -> Fractions:
    """An array of objects, which calculates element by element."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def fraction_text(value: Fraction) -> str:
    """The fraction as text, also beyond 4300 digits, where Python's own ends."""
    top, bottom = (format(Decimal(n), "f") for n in value.as_integer_ratio())
    return top if bottom == "1" else f"{top}/{bottom}"
