"""A finite Markov chain: named states and rows of successor probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.errors import InvalidModel, TooLarge, suggest

MAX_STATES = 100_000
MAX_TRANSITIONS = 5_000_000
MAX_NAME = 1_000
"""The longest name of a state, in characters."""

ROW_SUM_TOLERANCE = 1e-9

END = "END"
"""The name of the absorbing state that a learned chain enters when a trace ends."""


def check_size(states: int, transitions: int = 0, source: str = "") -> None:
    """Rejects a chain that is too large before any memory is allocated."""
    for what, size, limit in (
        ("states", states, MAX_STATES),
        ("transitions", transitions, MAX_TRANSITIONS),
    ):
        if size > limit:
            raise TooLarge(
                f"{size:,} {what} exceed the limit of {limit:,}", source=source
            )


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A chain in compressed sparse row (CSR) form, built by `from_rows`; rows that are
    not stochastic are rejected.

    Args:
        states: The names of the states, without duplicates.
        indptr: Row i is the slice `indptr[i]:indptr[i + 1]` of `indices` and `data`.
        indices: The successor states, in ascending order within each row.
        data: The probabilities of the successors, all above zero.
        exact: The same probabilities as fractions, if the source was rational.
        initial: The number of the initial state, if the chain has one.
        labels: Named sets of states.
        variables: For a chain from a modelling language, each variable's value in
            every state (Booleans as 0 and 1).
        end: The number of the absorbing END state of a learned chain.
        deadlocks: States that had no row in the source and were made absorbing.
    """

    states: tuple[str, ...]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    exact: tuple[Fraction, ...] | None = None
    initial: int | None = None
    labels: Mapping[str, frozenset[int]] = field(default_factory=dict)
    variables: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    end: int | None = None
    deadlocks: tuple[int, ...] = ()
    number: dict[str, int] = field(init=False, repr=False)
    """The index of each state, by name."""

    def __post_init__(self) -> None:
        check_size(len(self.states), len(self.data))
        number = {name: i for i, name in enumerate(self.states)}
        object.__setattr__(self, "number", number)
        if not self.states:
            raise InvalidModel("a chain needs at least one state")
        if max(map(len, self.states)) > MAX_NAME:
            raise InvalidModel(f"a state's name is longer than {MAX_NAME} characters")
        if len(number) < len(self.states):
            raise InvalidModel(f"the state {repeated(self.states)!r} appears twice")
        self._check_rows()
        for variable, values in self.variables.items():
            if len(values) != self.n:
                raise InvalidModel(
                    f"the variable {variable!r} has no value in some states"
                )

    def _check_rows(self) -> None:
        outside = (self.indices < 0) | (self.indices >= self.n)
        if (wrong := np.flatnonzero(outside)).size:
            name = self.states[self._row_of(wrong[0])]
            raise InvalidModel(
                f"the row of state {name!r} refers to state number "
                f"{self.indices[wrong[0]]}, but there are {self.n} states"
            )
        usable = np.isfinite(self.data) & (self.data > 0)
        if (wrong := np.flatnonzero(~usable)).size:
            at = wrong[0]
            source, target = self._row_of(at), self.indices[at]
            raise InvalidModel(
                f"the probability from state {self.states[source]!r} to "
                f"{self.states[target]!r} is {self.data[at]:g}, "
                "but must be above 0 and at most 1"
            )
        sums = np.add.reduceat(self.data, self.indptr[:-1])
        off = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
        if (wrong := np.flatnonzero(off)).size:
            raise row_sum_error(self.states[wrong[0]], float(sums[wrong[0]]))

    def _row_of(self, at: int) -> int:
        return int(np.searchsorted(self.indptr, at, side="right")) - 1

    @property
    def n(self) -> int:
        return len(self.states)

    @property
    def transitions(self) -> int:
        """The number of transitions with a probability above zero."""
        return len(self.data)

    def index(self, name: str) -> int:
        """Returns the number of the state with this name."""
        try:
            return self.number[name]
        except KeyError:
            raise InvalidModel(
                f"unknown state {name!r}", mend=suggest(name, self.states)
            ) from None

    def row(self, state: int) -> dict[int, float]:
        """Returns the successors of a state and their probabilities."""
        at = slice(self.indptr[state], self.indptr[state + 1])
        return dict(zip(self.indices[at].tolist(), self.data[at].tolist(), strict=True))

    def exact_row(self, state: int) -> dict[int, Fraction]:
        """Returns the successors and their probabilities as fractions; doubles keep
        their exact binary value.
        """
        at = slice(self.indptr[state], self.indptr[state + 1])
        values = self.exact[at] if self.exact else map(Fraction, self.data[at].tolist())
        return dict(zip(self.indices[at].tolist(), values, strict=True))

    def written_row(self, state: int) -> list[tuple[int, str]]:
        """Returns the successors, with their probabilities as text that parses to the
        same values.
        """
        at = slice(self.indptr[state], self.indptr[state + 1])
        values = self.exact[at] if self.exact else self.data[at].tolist()
        texts = map(str if self.exact else repr, values)
        return list(zip(self.indices[at].tolist(), texts, strict=True))

    def sources(self) -> NDArray[np.int64]:
        """Returns the source state of every entry of `indices` and `data`."""
        return np.repeat(np.arange(self.n), np.diff(self.indptr))

    def dense(self) -> NDArray[np.float64]:
        matrix = np.zeros((self.n, self.n))
        matrix[self.sources(), self.indices] = self.data
        return matrix

    def warnings(self) -> tuple[str, ...]:
        """Returns warnings about repairs that were made to the source."""
        if not self.deadlocks:
            return ()
        names = ", ".join(self.states[i] for i in self.deadlocks[:5])
        more = f" and {len(self.deadlocks) - 5} more" if len(self.deadlocks) > 5 else ""
        count = len(self.deadlocks)
        what = "states have no row and are" if count > 1 else "state has no row and is"
        return (f"{count} {what} treated as absorbing: {names}{more}",)

    @classmethod
    def from_rows(
        cls,
        states: Sequence[str],
        rows: Mapping[int, Mapping[int, float | Fraction]],
        **facts: Any,
    ) -> Chain:
        """Creates a chain from rows that are keyed by state number.

        Zero entries are dropped; a state without a row becomes absorbing and is
        listed among the deadlocks. Fractions are kept exactly if all are fractions
        and every row sums to one exactly.
        """
        one = Fraction(1)
        indptr, indices, values = [0], list[int](), list[float | Fraction]()
        deadlocks, rational = list[int](), True
        for state in range(len(states)):
            row = rows.get(state) or {}
            if not row:
                deadlocks.append(state)
                row = {state: one}
            kept = [(j, p) for j, p in sorted(row.items()) if p != 0]
            if rational:
                rational = all(isinstance(p, int | Fraction) for _, p in kept)
                rational = rational and sum((p for _, p in kept), Fraction()) == 1
            if not kept:
                raise row_sum_error(states[state], 0.0)
            indices.extend(j for j, _ in kept)
            values.extend(p for _, p in kept)
            indptr.append(len(indices))
        for unknown in rows.keys() - range(len(states)):
            raise InvalidModel(
                f"there is a row for state number {unknown}, but there are "
                f"{len(states)} states"
            )
        return cls(
            states=tuple(states),
            indptr=np.array(indptr, dtype=np.int64),
            indices=np.array(indices, dtype=np.int64),
            data=np.array([float(p) for p in values]),
            exact=tuple(Fraction(p) for p in values) if rational else None,
            deadlocks=facts.pop("deadlocks", tuple(deadlocks)),
            **facts,
        )


def repeated(names: Sequence[str]) -> str:
    """Returns the first name that duplicates an earlier one."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no name appears twice")


def row_sum_error(state: str, total: float | Fraction) -> InvalidModel:
    """Returns the error for a row whose probabilities do not sum to 1."""
    text = str(total) if isinstance(total, Fraction) else f"{total:.12g}"
    if len(text) > 40:
        text = f"{float(total):.12g}" if total < 10 else "more than 10"
    return InvalidModel(
        f"the row of state {state!r} sums to {text}, not to 1",
        mend="add the missing successor, or write the probabilities without rounding",
    )


_EMPTIEST = 16
"""Transitions are counted in an array if there are at most this many possible
transitions for each observed transition.
"""

_SMALL_CODES = 1 << 20

Ints = NDArray[np.int64]


def count_pairs(
    states: NDArray[np.integer], starts: ArrayLike = ()
) -> tuple[Ints, Ints, Ints]:
    """Counts the transitions between arbitrary state codes: sources, targets and
    counts.

    Args:
        states: The codes, with all sequences concatenated.
        starts: The index at which each sequence starts; transitions from one sequence
            to the next are not counted.
    """
    codes, numbers = compressed(states)
    n, begins = len(codes), np.asarray(starts, dtype=np.int64)
    inside = np.ones(max(len(numbers) - 1, 0), dtype=bool)
    inside[begins[begins > 0] - 1] = False
    keys = (numbers[:-1].astype(np.int64) * n + numbers[1:])[inside]
    if n * n <= _EMPTIEST * len(keys):
        counts = np.bincount(keys)
        found = np.flatnonzero(counts)
        seen = counts[found]
    else:
        found, seen = np.unique(keys, return_counts=True)
    return codes[found // n], codes[found % n], seen


def compressed(states: NDArray[np.integer]) -> tuple[Ints, NDArray[np.integer]]:
    """Returns the distinct codes in ascending order, and the array as indices into
    them.
    """
    if len(states) and 0 <= states.min() and states.max() < _SMALL_CODES:
        seen = np.bincount(states)
        codes = np.flatnonzero(seen)
        table = np.zeros(len(seen), dtype=np.int32)
        table[codes] = np.arange(len(codes))
        return codes.astype(np.int64), table[states]
    codes, numbers = np.unique(states, return_inverse=True)
    return codes.astype(np.int64), numbers
