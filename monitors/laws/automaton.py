"""Compiles a law to the tables of a deterministic automaton."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidExpression, TooLarge
from forewarn.abstractions.expression.domain import (
    combinations,
    components,
    leaves,
    read_by,
)
from forewarn.abstractions.expression.tree import Expression
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.laws.formula import (
    Formula,
    Timed,
)
from forewarn.monitors.laws.minimal import (
    certain_to_reach,
    merge_equivalent,
    steps_to,
)
from forewarn.monitors.laws.pending import UNMET, completion, relieved_states
from forewarn.monitors.laws.progression import (
    BROKEN,
    Normal,
    Owed,
    Progression,
    both,
    normalise,
)

MAX_STATES = 20_000
MAX_LETTERS = 4096
MAX_PROPOSITIONS = 62
"""The maximum number of propositions, because letters are signed 64-bit integers."""
_COARSER = (2, 5, 10, 20, 50, 100)
"""The multiples of the period that are tried to suggest a coarser clock in an error."""

_State = tuple[Owed, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Automaton:
    """The automaton of a law, as tables.

    A letter encodes which propositions are true in a frame. A state describes the law
    after a letter has been read; the first letter is read in the state `initial`.

    Args:
        formula: The law.
        propositions: The propositions; bit i of a letter tells whether proposition i is
            true.
        letters: The letters that can occur, which are the columns of `step` and
            `complete`.
        step: The next state, by state and letter. `violated` is absorbing.
        names: The names of the states: `idle`, `wait:3`, `violated`.
        initial: The state before the first frame, 0.
        violated: The state in which the law is broken, or -1 if no trace can break it.
        left: The minimum number of steps from each state to a violation; -1 if none can
            follow.
        due: The minimum number of steps until a pending obligation can be broken; 0 if
            none is pending.
        pending: Whether an obligation is pending in each state.
        relieved: For each state, the same state without its pending obligations.
        complete: A table like `step` that tracks only the obligations that are already
            pending. In row 0 none is pending; in row 1 the obligation was not met.
        owed: For each state, the row of `complete` from which to track its pending
            obligations.
        period_s: The period of the clock for times in seconds.
    """

    formula: Formula
    propositions: tuple[Expression, ...]
    letters: tuple[int, ...]
    step: NDArray[np.int32]
    names: tuple[str, ...]
    initial: int
    violated: int
    left: NDArray[np.int32]
    due: NDArray[np.int32]
    pending: NDArray[np.bool_]
    relieved: NDArray[np.int32]
    complete: NDArray[np.int32]
    owed: NDArray[np.int32]
    period_s: float | None

    @property
    def n(self) -> int:
        """The number of states."""
        return len(self.names)

    def column(self, letter: int) -> int:
        """Returns the column of a letter; raises an error if the letter was excluded as
        impossible.
        """
        column = bisect_left(self.letters, letter)
        if self.letters[column : column + 1] != (letter,):
            shown = " and ".join(
                repr(p) if letter >> i & 1 else f"not ({p!r})"
                for i, p in enumerate(self.propositions)
            )
            raise InvalidExpression(
                f"{shown} is true, but the law was compiled on the assumption that it "
                "is impossible"
            )
        return column


@checked
def compile_law(
    formula: Formula,
    period_s: float | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    letters: Iterable[int] | None = None,
    max_states: int = MAX_STATES,
) -> Automaton:
    """Compiles a law to an automaton.

    Args:
        formula: The law's formula.
        period_s: The period of the monitor's clock, needed if times are in seconds.
        vocabulary: The vocabulary, whose ranges and types exclude impossible letters.
        letters: The letters that can occur, if known more precisely.
        max_states: The maximum number of states.

    Raises:
        TooLarge: The automaton is too large; the message names a clock that would fit,
            if any.
    """
    if letters is not None:
        letters = sorted(set(letters))
    normal = normalise(formula, period_s)
    if len(normal.propositions) > MAX_PROPOSITIONS:
        raise TooLarge(
            f"the law has {len(normal.propositions)} propositions; the limit is"
            f" {MAX_PROPOSITIONS}",
            mend="split the law",
        )
    if letters is None:
        letters = possible_letters(normal.propositions, vocabulary)
    found = _explored(formula, normal, letters, max_states)
    if found is None:
        raise TooLarge(
            f"{formula!r} needs more than {max_states} states"
            + (f" if checked every {period_s:g} s" if period_s else ""),
            mend=_coarser_clock(formula, period_s, letters, max_states),
        )
    return found.automaton(formula)


def _coarser_clock(
    formula: Formula,
    period_s: float | None,
    letters: list[int],
    max_states: int,
) -> str:
    if period_s is None:
        return "write the law's times in fewer, longer steps"
    fits = ""
    # The coarsest clock comes first, because automata grow as the clock gets finer.
    for factor in reversed(_COARSER):
        period = float(Fraction(repr(float(period_s))) * factor)
        normal = normalise(formula, period)
        found = _explored(formula, normal, letters, max_states)
        if found is None:
            break
        fits = (
            f"check it every {period:g} s (with --period or the abstraction's period_s;"
            f" this needs {found.automaton(formula).n} states), or write shorter times"
        )
    return fits or "write shorter times, or split the law"


def _explored(
    formula: Formula, normal: Normal, letters: list[int], max_states: int
) -> _Explorer | None:
    """Explores all states; returns None if there are too many.

    If a time alone exceeds the limit, nothing is explored.
    """
    for node in formula.walk():
        steps = isinstance(node, Timed) and node.interval.steps(normal.period_s)[1]
        if steps and steps > max_states:
            return None
    return _Explorer(normal, letters, max_states).explore()


def possible_letters(
    propositions: Sequence[Expression], vocabulary: Vocabulary | None = None
) -> list[int]:
    """Returns the letters that can occur, given the constants that signals are compared
    with.
    """
    known = leaves(propositions, vocabulary)
    letters = [0]
    for members in components([read_by(node) for node in propositions]):
        try:
            found = combinations([propositions[i] for i in members], known)
        except TooLarge:
            if 2 ** len(members) > MAX_LETTERS:
                raise
            found = set(range(2 ** len(members)))
        if (size := len(letters) * len(found)) > MAX_LETTERS:
            raise TooLarge(
                f"the law's {len(propositions)} propositions give an alphabet of at "
                f"least {size} letters; the limit is {MAX_LETTERS}",
                mend="split the law",
            )
        parts = [
            sum(1 << i for k, i in enumerate(members) if mask >> k & 1)
            for mask in found
        ]
        letters = [letter | part for letter in letters for part in parts]
    return sorted(letters)


class _Explorer:
    """Finds every state of a law's automaton, breadth first."""

    def __init__(self, normal: Normal, letters: list[int], max_states: int) -> None:
        self.normal, self.letters, self.max_states = normal, letters, max_states
        self.progression = Progression(normal)
        self.states: list[_State] = []
        self.step: list[list[int]] = []

    def explore(self) -> _Explorer | None:
        """Explores all states and returns self; None if there are too many states."""
        start = self.progression.start(self.normal.initially)
        first = (start, (0,) * len(self.normal.memories))
        numbers = {first: 0}
        self.states.append(first)
        for state in self.states:
            row: list[int] = []
            for letter in self.letters:
                after = self._after(state, letter, self.normal.invariants)
                number = numbers.setdefault(after, len(numbers))
                if number == len(self.states):
                    self.states.append(after)
                row.append(number)
            self.step.append(row)
            if len(self.states) > self.max_states:
                return None
        return self

    def _after(self, state: _State, letter: int, invariants: Sequence[int]) -> _State:
        owed, memory = state
        if owed is BROKEN:
            return state
        updated: list[int] = []
        for i, past in enumerate(self.normal.memories):
            held = past.update(memory[i], letter)
            updated.append(held)
            letter |= past.holds(held) << self.normal.memory_bit + i
        owed = self.progression.after(owed, letter)
        for node in invariants:
            owed = both(owed, self.progression.arising(node, letter))
        if owed is BROKEN:
            return BROKEN, (0,) * len(memory)
        return owed, tuple(updated)

    def automaton(self, formula: Formula) -> Automaton:
        """Returns the minimal automaton of the explored states."""
        step = np.array(self.step, np.int32)
        broken = np.array([owed is BROKEN for owed, _ in self.states])
        broken = certain_to_reach(step, broken)
        # Before the first frame, nothing is broken, even if the law is a contradiction.
        broken[0] = False
        classes = merge_equivalent(step, broken)
        _, chosen = np.unique(classes, return_index=True)
        broken = broken[chosen]
        merged = classes[step[chosen]].astype(np.int32)
        violated = int(np.flatnonzero(broken)[0]) if broken.any() else -1
        guess = classes[self._without_deadlines()][chosen].astype(np.int32)
        relieved = relieved_states(merged, int(classes[0]), violated, guess)
        complete, owed = completion(merged, violated, relieved)
        left = steps_to(merged, broken)
        due = steps_to(complete, np.arange(len(complete)) == UNMET)[owed]
        due = np.maximum(due, 0)

        later = np.arange(len(chosen)) != classes[0]
        order = np.lexsort((chosen, left, due, broken, later))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        due, owed, broken = due[order], owed[order], broken[order]
        return Automaton(
            formula,
            tuple(self.normal.propositions),
            tuple(self.letters),
            place[merged[order]],
            _names(due, broken),
            0,
            int(np.flatnonzero(broken)[0]) if broken.any() else -1,
            left[order],
            due,
            due > 0,
            place[relieved[order]],
            complete,
            owed,
            self.normal.period_s,
        )

    def _without_deadlines(self) -> list[int]:
        """Returns for each state the state with only its permanent obligations, if it
        was explored.
        """
        numbers = {state: number for number, state in enumerate(self.states)}
        return [
            numbers.get((_lasting(owed), memory), number)
            for number, (owed, memory) in enumerate(self.states)
        ]


def _lasting(owed: Owed) -> Owed:
    return frozenset(
        clause
        for clause in owed
        if not clause or all(math.isinf(high) for _, _, high, _ in clause)
    )


def _names(due: NDArray[np.int32], broken: NDArray[np.bool_]) -> tuple[str, ...]:
    taken: dict[str, itertools.count[int]] = {}
    names: list[str] = []
    for steps, bad in zip(due.tolist(), broken.tolist(), strict=True):
        base = "violated" if bad else f"wait:{steps}" if steps else "idle"
        again = next(taken.setdefault(base, itertools.count(1)))
        names.append(base if again == 1 else f"{base}.{again}")
    return tuple(names)
