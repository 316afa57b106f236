"""Tallies: the transition counts of a guard.

A tally takes a few kilobytes and contains no frames. It identifies the abstraction and
the laws of the guard's model by digests, and also contains the period. Its id is
unique, so that the tally is never added twice. A guard with several models writes one
file with several tallies (`forewarn.tallies/1`).

An intervention ends the counting of a run. If the guard lets other runs continue at
such moments, these runs also represent the stopped runs, and `weighted` increases the
weight of their counts accordingly.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.chains.model import Model

FORMAT = "forewarn.tally/1"


Ints = NDArray[np.int64]


class InvalidTally(InvalidInput):
    """A tally is malformed, or does not match the model."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Identifies what a tally counts; tallies with different subjects cannot be merged.

    Args:
        abstraction: The fingerprint of the abstraction.
        period_s: The time between two states, in s.
        laws: The digest of the texts of the laws.
    """

    abstraction: str
    period_s: float
    laws: str

    @classmethod
    def of(cls, model: Model, source: str = "the model") -> Subject:
        """Returns the subject of tallies that are counted with this model."""
        if model.abstraction is None or model.counts is None:
            raise InvalidModel(
                "tallies cannot be added to this model: it has no transition "
                "counts over an abstraction",
                source=source,
                mend="learn the model from traces with --abstraction or --scenario",
            )
        abstraction = Abstraction.from_dict(dict(model.abstraction), source)
        period_s = model.period_s or abstraction.period_s
        if period_s is None:
            raise InvalidModel(
                "the model does not specify the time between two states", source=source
            )
        laws = hashlib.sha256(json.dumps(sorted(model.laws)).encode()).hexdigest()
        return cls(abstraction.fingerprint(), period_s, laws)

    def refuse_other(self, other: Subject, source: str) -> None:
        """Raises `InvalidTally` if `other`, from the file `source`, is a different
        subject.
        """
        names = {"abstraction": "abstraction", "period_s": "period", "laws": "laws"}
        differs = [
            said
            for name, said in names.items()
            if getattr(self, name) != getattr(other, name)
        ]
        if differs:
            raise InvalidTally(
                "the tally was counted with a different model (these differ: "
                f"{', '.join(differs)})",
                source=source,
                mend="merge the tally into the model that its guard used",
            )


Stopped = tuple[int, int]
"""The number of stopped runs, and how many of them broke a law afterwards."""


def outcomes_of(several: Iterable[Mapping[str, Stopped]]) -> dict[str, Stopped]:
    """Adds outcomes after stops, separately for each risk band."""
    found: dict[str, Stopped] = {}
    for each in several:
        for band, (runs, broke) in each.items():
            before = found.get(band, (0, 0))
            found[band] = before[0] + runs, before[1] + broke
    return dict(sorted(found.items()))


@dataclass(slots=True)
class Counted:
    """The counts of one or more runs for one model.

    Args:
        tally: The transition counts.
        beyond: The number of transitions that were not counted because there were too
            many distinct ones.
        stopped_by: For each law, the number of runs that an intervention ended early
            ("" for a fault of the guard's inputs).
        after_stops: For the lower end of each risk band, the number of runs that were
            stopped, and how many of them broke a law afterwards. The key is empty if
            the risk was unknown.
        let_pass: For each law, the number of runs in which an intervention was decided
            but not enforced.
        passed: The part of `tally` that follows these decisions.
    """

    tally: Tally = field(default_factory=Tally)
    beyond: int = 0
    stopped_by: Mapping[str, int] = field(default_factory=dict)
    after_stops: Mapping[str, Stopped] = field(default_factory=dict)
    let_pass: Mapping[str, int] = field(default_factory=dict)
    passed: Tally = field(default_factory=Tally)

    @classmethod
    def total(cls, several: Sequence[Counted]) -> Counted:
        """Returns the sum of counts."""
        found = cls(
            beyond=sum(each.beyond for each in several),
            stopped_by=runs_of(each.stopped_by for each in several),
            after_stops=outcomes_of(each.after_stops for each in several),
            let_pass=runs_of(each.let_pass for each in several),
        )
        for each in several:
            found.tally.add(each.tally)
            found.passed.add(each.passed)
        return found

    def bounded(self) -> Counted:
        """Returns the counts without the ends that contradict the starts and steps."""
        tally, passed = bounded(self.tally), bounded(self.passed)
        ends = {s: min(n, tally.ends.get(s, 0)) for s, n in passed.ends.items()}
        passed.ends = {state: n for state, n in ends.items() if n}
        return replace(self, tally=tally, passed=passed)


def runs_of(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Adds numbers of runs, separately for each law."""
    found = Counter[str]()
    for each in several:
        found.update(each)
    return dict(sorted(found.items()))


@dataclass(slots=True, kw_only=True, eq=False)
class FleetTally(Counted):
    """The tally of one contributor.

    Args:
        id: The unique id of the tally.
        subject: The abstraction, period and laws of the guard's model.
    """

    id: str
    subject: Subject

    @classmethod
    def of(cls, own_id: str, subject: Subject, counted: Counted) -> FleetTally:
        """Creates a tally from the counts so far."""
        return cls(
            counted.tally, counted.beyond, counted.stopped_by, counted.after_stops,
            counted.let_pass, counted.passed, id=own_id, subject=subject,
        )  # fmt: skip

    @property
    def states(self) -> list[str]:
        """The names of the states, in ascending order."""
        return sorted(self.tally.seen)

    @property
    def transitions(self) -> int:
        """The number of counted transitions."""
        return sum(sum(row.values()) for row in self.tally.seen.values())

    @property
    def traces(self) -> int:
        """The number of runs."""
        return sum(self.tally.starts.values())

    @property
    def unweighted(self) -> dict[str, int]:
        """The number of stopped runs for each law whose interventions were always
        enforced.
        """
        return {k: n for k, n in self.stopped_by.items() if k not in self.let_pass}

    def weighted(self) -> FleetTally:
        """Returns the tally; its runs that could continue also represent stopped ones.

        Transitions after an intervention that was not enforced are weighted to
        represent all runs with an intervention, so that frequencies are the same as if
        no run had been stopped. In rows that mix both weights, counts are scaled to the
        equivalent number of equally weighted observations, and rounded without bias.
        """
        passes = sum(self.let_pass.values())
        stops = sum(self.stopped_by.get(law, 0) for law in self.let_pass)
        if not stops:
            return self
        states = self.states
        weight, end = 1.0 + stops / passes, len(states)
        cells, after = cells_of(self.tally, states), cells_of(self.passed, states)
        row, key = cells[:, 0], cells[:, 0] * (end + 1) + cells[:, 1]
        late = np.zeros(len(cells))
        late[np.searchsorted(key, after[:, 0] * (end + 1) + after[:, 1])] = after[:, 2]
        early = cells[:, 2] - late

        def of_row(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(row, values, end).astype(np.float64)[row]

        total = of_row(early) + weight * of_row(late)
        informative = total**2 / (of_row(early) + weight**2 * of_row(late))
        times = (early + weight * late) * informative / total
        # Systematic sampling: each count is rounded up or down, and is exact on
        # average.
        sums, first = np.cumsum(times), np.searchsorted(row, row)
        whole = np.floor(sums - (sums - times)[first] + self._shifts(end)[row])
        rounded = np.diff(whole, prepend=0.0)
        rounded = np.where(first == np.arange(len(row)), whole, rounded)
        mixed = (of_row(early) > 0) & (of_row(late) > 0)
        cells[mixed, 2] = rounded[mixed].astype(np.int64)
        tally = tally_of(cells[cells[:, 2] > 0], states)
        return replace(self, tally=replace(tally, starts=self.tally.starts))

    def _shifts(self, states: int) -> NDArray[np.float64]:
        """Returns a random number from 0 to 1 for each state, determined by the tally's
        id.
        """
        seed = hashlib.sha256(self.id.encode()).digest()
        return np.random.default_rng(list(seed)).random(states)

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of the tally's file; equal tallies give equal bytes."""
        states = self.states
        content: dict[str, Any] = {
            "format": FORMAT,
            "id": self.id,
            "abstraction": self.subject.abstraction,
            "period_s": self.subject.period_s,
            "laws": self.subject.laws,
            "beyond": self.beyond,
            "states": states,
            **_as_dict(self.tally, states),
        }
        if self.stopped_by:
            content["stopped_by"] = runs_of([self.stopped_by])
        if self.after_stops:
            outcomes = outcomes_of([self.after_stops])
            content["after_stops"] = {band: [*each] for band, each in outcomes.items()}
        if self.let_pass:
            passed = _as_dict(self.passed, states)
            content["passed"] = {"runs": runs_of([self.let_pass]), **passed}
        return content


def _as_dict(tally: Tally, states: Sequence[str]) -> dict[str, Any]:
    """Returns counts as JSON, with one row of steps for each state."""
    number = {name: i for i, name in enumerate(states)}

    def flat(counts: Mapping[str, int]) -> list[int]:
        return [
            each for name in sorted(counts) for each in (number[name], counts[name])
        ]

    return {
        "steps": [flat(tally.seen.get(name, {})) for name in states],
        "starts": flat(tally.starts),
        "ends": flat(tally.ends),
    }


def cells_of(tally: Tally, states: Sequence[str]) -> Ints:
    """Returns a row for each transition and each end, ordered by state.

    A row has the indices of both states, and the count. An end is a transition to the
    index after the last state.
    """
    number = {name: i for i, name in enumerate(states)}
    cells = [
        (number[before], number[after], times)
        for before, row in tally.seen.items()
        for after, times in row.items()
    ]
    cells += [(number[name], len(states), times) for name, times in tally.ends.items()]
    return np.array(sorted(cells), np.int64).reshape(-1, 3)


def tally_of(cells: Ints, states: Sequence[str]) -> Tally:
    """Returns the counts of such rows, without the starts of runs."""
    tally = Tally(seen={name: {} for name in states})
    for before, after, times in cells.tolist():
        if after == len(states):
            tally.ends[states[before]] = times
        else:
            tally.seen[states[before]][states[after]] = times
            tally.frames += times
    return tally


def summed(tallies: Iterable[FleetTally]) -> FleetTally:
    """Returns the sum of tallies with the same subject; the id is derived from the
    tallies' ids.

    Raises:
        ValueError: There are no tallies.
    """
    ordered = sorted(tallies, key=lambda each: each.id)
    if not ordered:
        raise ValueError("there are no tallies to sum")
    for each in ordered:
        ordered[0].subject.refuse_other(each.subject, each.id)
    ids = "\n".join(each.id for each in ordered)
    own_id = hashlib.sha256(ids.encode()).hexdigest()[:20]
    total = Counted.total(ordered)
    return FleetTally.of(own_id, ordered[0].subject, total)


def summed_by_subject(tallies: Iterable[FleetTally]) -> list[FleetTally]:
    """Sums the tallies of each subject, in order of first appearance."""
    of: dict[Subject, list[FleetTally]] = {}
    for each in tallies:
        of.setdefault(each.subject, []).append(each)
    return [summed(several) for several in of.values()]


def bounded(tally: Tally) -> Tally:
    """Returns the tally without the ends that contradict its starts and steps.

    A run that ends in a state must have begun in that state or moved to it. If a guard
    lost frames, it may not have counted that move.
    """
    left = Counter(tally.starts)
    for before, row in tally.seen.items():
        for after, times in row.items():
            left[after] += times
            left[before] -= times
    ends = {state: min(times, left[state]) for state, times in tally.ends.items()}
    return replace(tally, ends={state: n for state, n in ends.items() if n > 0})
