"""Computes risks for random chains and laws independently, in exact fractions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_sets
from forewarn.monitors.risk.tables import (
    RiskTable,
    solve_risk,
    violation_ever,
    violation_within,
)
from tests.oracles.meaning import (
    EVER,
    PROPOSITIONS,
    Law,
    Laws,
    horizon,
    obligations,
    text,
)

Rows = dict[int, dict[int, Fraction]]
Pair = tuple[int, int, int]
"""The monitor state, the chain state, and the letter that was read last."""

TOLERANCE = 1e-12


@dataclass(frozen=True)
class Case:
    """A chain in fractions, with the letter of each state except END."""

    rows: Rows
    letters: tuple[int, ...]
    end: int | None

    @property
    def states(self) -> int:
        return len(self.letters)

    def chain(self) -> Chain:
        names = [f"s{i}" for i in range(self.states)]
        names += [] if self.end is None else ["END"]
        labels = {
            name: frozenset(
                s for s, letter in enumerate(self.letters) if letter >> bit & 1
            )
            for bit, name in enumerate(PROPOSITIONS)
        }
        return Chain.from_rows(names, dict(self.rows), end=self.end, labels=labels)

    def read(self, state: int, before: int) -> int:
        """Returns the letter that is read in a state; END repeats the previous one."""
        return before if state == self.end else self.letters[state]


def random_case(rng: random.Random) -> Case:
    n = rng.randint(2, 4)
    end = n if rng.random() < 0.6 else None
    rows: Rows = {}
    for state in range(n):
        successors = rng.sample(range(n), rng.randint(1, min(n, 3)))
        if end is not None and rng.random() < 0.6:
            successors.append(end)
        weights = [rng.randint(1, 6) for _ in successors]
        rows[state] = {
            j: Fraction(w, sum(weights))
            for j, w in zip(successors, weights, strict=True)
        }
    if end is not None:
        rows[end] = {end: Fraction(1)}
    return Case(rows, tuple(rng.randrange(4) for _ in range(n)), end)


def bounded(law: Law) -> bool:
    """Whether every obligation is decided within the law's horizon."""
    if law[0] in ("G", "F", "U") and law[2] == EVER:
        return False
    return all(bounded(part) for part in law[1:] if isinstance(part, tuple))


def guard_risk(
    case: Case, automaton: Automaton, column: dict[int, int], at: Pair, steps: int
) -> Fraction:
    """Returns the guard's risk, computed path by path.

    It is the probability that the law is violated within the steps, or afterwards by an
    obligation that is pending then.
    """
    step, relieved = automaton.step.tolist(), automaton.relieved.tolist()
    violated = automaton.violated

    def unmet(monitor: int, beside: int, state: int, before: int) -> Fraction:
        if monitor == beside:
            return Fraction(0)
        found = Fraction(0)
        for j, p in case.rows[state].items():
            letter = case.read(j, before)
            read = column[letter]
            after, other = step[monitor][read], step[beside][read]
            if after == violated and step[relieved[monitor]][read] != violated:
                found += p
            elif violated not in (after, other):
                found += p * unmet(after, other, j, letter)
        return found

    def risk(pair: Pair, left: int) -> Fraction:
        monitor, state, before = pair
        if monitor == violated:
            return Fraction(1)
        if not left:
            return unmet(monitor, relieved[monitor], state, before)
        found = Fraction(0)
        for j, p in case.rows[state].items():
            letter = case.read(j, before)
            after = (step[monitor][column[letter]], j, letter)
            found += p * risk(after, left - 1)
        return found

    return risk(at, steps)


def product(
    case: Case, automaton: Automaton, column: dict[int, int]
) -> dict[Pair, dict[Pair, Fraction]]:
    """Returns the successors of each pair, with their probabilities."""
    step = automaton.step
    pairs: dict[Pair, dict[Pair, Fraction]] = {}
    todo = [
        (int(step[q, column[letter]]), s, letter)
        for s, letter in enumerate(case.letters)
        for q in range(automaton.n)
    ]
    while todo:
        pair = todo.pop()
        if pair in pairs:
            continue
        monitor, state, before = pair
        pairs[pair] = {}
        for j, p in case.rows[state].items():
            letter = case.read(j, before)
            after = (int(step[monitor, column[letter]]), j, letter)
            pairs[pair][after] = p
            todo.append(after)
    return pairs


def reached(
    pairs: dict[Pair, dict[Pair, Fraction]], goal: int, steps: int | None
) -> dict[Pair, Fraction]:
    """Returns the probability of reaching a monitor state, within steps or ever."""
    values = {pair: Fraction(pair[0] == goal) for pair in pairs}
    if steps is not None:
        for _ in range(steps):
            values = {
                pair: Fraction(1)
                if pair[0] == goal
                else sum((p * values[j] for j, p in row.items()), Fraction(0))
                for pair, row in pairs.items()
            }
        return values
    possible = {pair for pair in pairs if pair[0] == goal}
    while grown := {
        pair
        for pair, row in pairs.items()
        if pair not in possible and possible & row.keys()
    }:
        possible |= grown
    unknown = [pair for pair in pairs if pair in possible and pair[0] != goal]
    place = {pair: i for i, pair in enumerate(unknown)}
    table: list[dict[int, Fraction]] = []
    for i, pair in enumerate(unknown):
        equation = {i: Fraction(1)}
        for j, p in pairs[pair].items():
            if j in place:
                equation[place[j]] = equation.get(place[j], Fraction(0)) - p
            elif j[0] == goal:
                known = equation.get(len(unknown), Fraction(0))
                equation[len(unknown)] = known + p
        table.append(equation)
    for k in range(len(unknown)):
        at = next(i for i in range(k, len(table)) if table[i].get(k))
        table[k], table[at] = table[at], table[k]
        pivot = table[k][k]
        table[k] = {j: x / pivot for j, x in table[k].items()}
        for i, other in enumerate(table):
            if i != k and (share := other.get(k)):
                for at, x in table[k].items():
                    other[at] = other.get(at, Fraction(0)) - share * x
    solved = {
        pair: table[i].get(len(unknown), Fraction(0)) for pair, i in place.items()
    }
    return values | solved


def disagreements(seed: int, pairs: int) -> Iterator[str]:
    """Compares the risks of a number of pairs; yields the differences found."""
    source = Laws(seed)
    rng, laws, done = source.rng, iter(source), 0
    while done < pairs:
        case = random_case(rng)
        law, automaton = next(laws)
        parts = obligations(law)
        if automaton.violated < 0 or not all(bounded(part) for _, part in parts):
            continue
        if not any(always for always, _ in parts) or horizon(law) > 5:
            continue
        steps = rng.randint(1, 2)
        chain = case.chain()
        truths = truth_in_sets(chain.labels, chain.n)
        letters = letters_of_states(chain, automaton, truths)
        column = dict(zip(case.letters, letters.tolist(), strict=False))
        risks = solve_risk(chain, letters, automaton, steps)
        for problem in itertools.chain(
            _foreseen(case, automaton, column, risks, rng),
            _products(case, automaton, column, risks),
        ):
            yield f"{text(law)} on {case}: {problem}"
        done += automaton.n * case.states


def _foreseen(
    case: Case,
    automaton: Automaton,
    column: dict[int, int],
    risks: RiskTable,
    rng: random.Random,
) -> Iterator[str]:
    """Compares the guard's risk after random prefixes; yields the differences."""
    for _ in range(3):
        prefix = [rng.randrange(case.states)]
        for _ in range(rng.randint(0, 2)):
            inner = [j for j in case.rows[prefix[-1]] if j != case.end]
            if inner:
                prefix.append(rng.choice(inner))
        monitor = automaton.initial
        for state in prefix:
            monitor = int(automaton.step[monitor, column[case.letters[state]]])
        if monitor == automaton.violated:
            continue
        at = (monitor, prefix[-1], case.letters[prefix[-1]])
        expected = guard_risk(case, automaton, column, at, risks.horizon_steps)
        found = risks.lookup(monitor, prefix[-1])
        if abs(found - expected) > TOLERANCE:
            yield f"after {prefix} the guard's risk is {found}, not {expected}"


def _products(
    case: Case, automaton: Automaton, column: dict[int, int], risks: RiskTable
) -> Iterator[str]:
    """Compares the literal and the unbounded risk of all pairs; yields differences."""
    pairs = product(case, automaton, column)
    within = reached(pairs, automaton.violated, risks.horizon_steps)
    ever = reached(pairs, automaton.violated, None)
    chain, letters = case.chain(), risks.letters
    literal = violation_within(chain, letters, automaton, risks.horizon_steps)
    unbounded = violation_ever(chain, letters, automaton)
    for pair in pairs:
        at = pair[:2]
        if pair[1] == case.end:
            continue
        for name, found, expected in (
            ("literal", literal[at], within[pair]),
            ("unbounded", unbounded[at], ever[pair]),
        ):
            if abs(found - expected) > TOLERANCE:
                yield f"in {at} the {name} risk is {found}, not {expected}"
