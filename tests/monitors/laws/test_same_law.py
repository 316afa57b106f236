"""Laws that mean the same have the same verdicts, dates of violation and risks."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression.tree import (
    And,
    Constant,
    Expression,
    Implies,
    Name,
    Not,
    Or,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Interval,
    Next,
    Once,
    Until,
    is_temporal,
    parse_formula,
)
from forewarn.monitors.laws.monitor import Monitor
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_sets
from forewarn.monitors.risk.tables import guard_risk
from tests.dense import from_dense

NAMES = ("a", "b", "c")
EVER = Interval()
STATES = tuple(
    "".join(n for i, n in enumerate(NAMES) if x >> i & 1) or "-" for x in range(8)
)
HOLDS = {name: [x for x in range(8) if x >> i & 1] for i, name in enumerate(NAMES)}
HORIZON = 3

EXAMPLES = [
    ("always (a -> always not b)", "always (once a -> not b)"),
    ("always always a", "always a"),
    ("a and next always a", "always a"),
    ("not (true until b)", "always not b"),
    ("always (a -> next b)", "always (once[1, 1 steps] a -> b)"),
    ("always (a -> eventually[0, 3 steps] b)",
     "always (once[3, 3 steps] a -> once[0, 3 steps] b)"),
    ("always (a -> not (c until b))", "always (a and b -> false) and"
     " always (a and c -> next not (c until b))"),
    ("always (a or next b) and always (a or next b)", "always (not a -> next b)"),
    ("always ((a -> eventually[0, 2 steps] b) and always not c)",
     "always not c and always (a -> b or next (b or next b))"),
]  # fmt: skip


class Writer:
    """Random laws, and the same laws written in other ways."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pair(self) -> tuple[Formula, Formula]:
        law = self._law()
        other = law
        for _ in range(self.random.randint(1, 4)):
            other = self._rewritten(other)
        return law, other

    def _law(self) -> Formula:
        parts: list[Formula] = [Always(self._body())]
        if self.random.random() < 0.3:
            parts.append(Always(self._body()))
        if self.random.random() < 0.15:
            parts.append(self._body())
        return And(tuple(parts)) if len(parts) > 1 else parts[0]

    def _body(self) -> Formula:
        now, then = self._now(), self._now()
        within = Interval(0, self.random.randint(1, 2))
        return self.random.choice(
            [
                then,
                Implies(now, Always(then)),
                Implies(now, Next(then)),
                Implies(now, Eventually(then, within)),
                Implies(now, Always(then, within)),
                Implies(Once(now), then),
                Implies(Once(now, within), Or((then, Next(now)))),
                Implies(now, And((Next(then), Eventually(self._now(), within)))),
            ]
        )

    def _now(self) -> Expression:
        one, other = (Name(name) for name in self.random.sample(NAMES, 2))
        return self.random.choice(
            [one, Not(one), And((one, other)), Or((one, Not(other)))]
        )

    def _rewritten(self, node: Formula) -> Formula:
        """The formula with one part of it written in another way."""
        ways = self._ways(node)
        inside = self._inside(node)
        if ways and (not inside or self.random.random() < 0.4):
            return self.random.choice(ways)()
        return self.random.choice(inside)() if inside else node

    def _inside(self, node: Formula) -> list[Callable[[], Formula]]:
        again = self._rewritten
        match node:
            case Always(x, i):
                return [lambda: Always(again(x), i)]
            case Eventually(x, i):
                return [lambda: Eventually(again(x), i)]
            case Once(x, i):
                return [lambda: Once(again(x), i)]
            case Next(x):
                return [lambda: Next(again(x))]
            case Not(x):
                return [lambda: Not(again(x))]
            case Implies(x, y):
                return [lambda: Implies(again(x), y), lambda: Implies(x, again(y))]
            case And(parts) | Or(parts):
                at = self.random.randrange(len(parts))
                return [
                    lambda: type(node)(
                        (*parts[:at], again(parts[at]), *parts[at + 1 :])
                    )
                ]
        return []

    def _ways(self, node: Formula) -> list[Callable[[], Formula]]:
        other = Name(self.random.choice(NAMES))
        ways: list[Callable[[], Formula]] = [
            lambda: Not(Not(node)),
            lambda: And((node, node)),
            lambda: Or((node, node)),
            lambda: And((node, Constant(True))),
        ]
        if not is_temporal(node):
            ways.append(lambda: And((node, Or((node, other)))))
            ways.append(lambda: Or((And((node, other)), And((node, Not(other))))))
        match node:
            case Always(x, i) if i == EVER:
                ways += [
                    lambda: Always(node),
                    lambda: And((x, Next(node))),
                    lambda: Not(Until(Constant(True), Not(x))),
                    lambda: Not(Eventually(Not(x))),
                ]
                match x:
                    case And(parts):
                        ways.append(lambda: And(tuple(Always(p) for p in parts)))
                    case Implies(p, Always(q, j)) if j == EVER and not is_temporal(p):
                        ways.append(lambda: Always(Implies(Once(p), q)))
                    case Implies(Once(p, j), q) if j == EVER:
                        ways.append(lambda: Always(Implies(p, Always(q))))
                    case Implies(p, Next(q)) if not is_temporal(And((p, q))):
                        step = Interval(1, 1)
                        ways.append(lambda: Always(Implies(Once(p, step), q)))
            case Always(x, i):
                ways.append(lambda: Not(Eventually(Not(x), i)))
            case Eventually(x, i) if i.high:
                later = Next(Eventually(x, Interval(0, i.high - 1)))
                ways.append(lambda: Or((x, later)))
                ways.append(lambda: Until(Constant(True), x, i))
            case Implies(x, y):
                ways.append(lambda: Or((Not(x), y)))
                ways.append(lambda: Implies(Not(y), Not(x)))
                ways.append(lambda: Not(And((x, Not(y)))))
            case And(parts):
                ways.append(lambda: Not(Or(tuple(Not(p) for p in parts))))
                ways.append(lambda: And(parts[::-1]))
                match parts[0]:
                    case Or(inner):
                        rest = parts[1:]
                        ways.append(lambda: Or(tuple(And((p, *rest)) for p in inner)))
            case Or(parts):
                ways.append(lambda: Not(And(tuple(Not(p) for p in parts))))
                ways.append(lambda: Or(parts[::-1]))
            case Next(And(parts)):
                ways.append(lambda: And(tuple(Next(p) for p in parts)))
        return ways


def chain(source: np.random.Generator) -> Chain:
    """A random chain over all frames that a, b and c can make."""
    rows = source.dirichlet(np.full(9, 0.4), 8)
    end = np.eye(9)[8]
    return from_dense([*STATES, "END"], np.vstack([rows, end]), end=8)


def told(automaton: Automaton, chain: Chain, words: list[list[int]]) -> list[object]:
    """All that a guard says along some words."""
    truth = truth_in_sets(HOLDS, chain.n)
    letters = letters_of_states(chain, automaton, truth)
    risks = guard_risk(chain, letters, automaton, HORIZON)
    found: list[object] = []
    for word in words:
        monitor = Monitor(automaton)
        for frame in word:
            letter = automaton.letters[letters[frame]]
            verdict = monitor.advance(letter)
            risk = round(float(risks[monitor.state, frame]), 9)
            found.append((verdict.status, verdict.left, risk))
        found.append(monitor.violations)
    return found


def check(one: Formula, other: Formula, seed: int) -> bool:
    """Whether two laws could be compiled and agree in everything."""
    try:
        automata = [compile_law(law, max_states=2000) for law in (one, other)]
    except InvalidInput:
        return False
    source = np.random.default_rng(seed)
    words = source.integers(0, 8, (6, 12)).tolist()
    held = chain(source)
    first, second = (told(automaton, held, words) for automaton in automata)
    assert first == second, f"{one!r} and {other!r}"
    return True


@pytest.mark.parametrize(("one", "other"), EXAMPLES)
def test_a_law_has_one_meaning_however_it_is_written(one: str, other: str) -> None:
    for seed in range(3):
        assert check(parse_formula(one), parse_formula(other), seed)


def compared(pairs: int, seed: int) -> int:
    """How many random pairs were compared; all of them agree."""
    writer, done = Writer(seed), 0
    for number in range(pairs):
        done += check(*writer.pair(), number)
    return done


def test_random_pairs_of_the_same_law_agree() -> None:
    assert compared(100, 1) >= 90


@pytest.mark.soak
def test_two_thousand_pairs_of_the_same_law_agree() -> None:
    assert compared(2200, 2) >= 2000
