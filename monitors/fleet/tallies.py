"""Tallies (`forewarn.tally/1`): the transition counts of a guard.

A tally takes a few kilobytes and contains no frames. A tally identifies the abstraction
and the laws of the guard's model by digests, and contains the period. The id of a tally
is unique, so that the tally is never added twice. A guard with several models writes
one file with several tallies (`forewarn.tallies/1`).

An intervention ends the counting of a run. If other runs are let pass at the same
moment, what follows in them stands for the runs that were stopped: `weighted` gives it
their weight.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.files import atomic_text, read_json
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.formats.own import MAX_COUNT
from forewarn.monitors.chains.learning import MAX_PAIRS, Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.branched import EDGES

FORMAT = "forewarn.tally/1"
SEVERAL = "forewarn.tallies/1"

MOST_LAWS, MOST_CHARACTERS = 1_000, 10_000
"""The maximum number of laws in a tally, and the maximum length of a name."""

_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
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
        """The subject of tallies that are counted with this model."""
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


_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]

Stopped = tuple[int, int]
"""The number of stopped runs, and how many of them broke a law afterwards."""


def _part_of_all(stopped: Stopped) -> Stopped:
    if stopped[1] > stopped[0]:
        raise ValueError(
            "the number of stopped runs that broke a law exceeds the number of stopped "
            "runs"
        )
    return stopped


def outcomes_of(several: Iterable[Mapping[str, Stopped]]) -> dict[str, Stopped]:
    """The sum of outcomes after stops, by risk band."""
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
        stopped_by: The number of runs that an intervention ended early, by law ("" for
            a fault of the guard's inputs).
        after_stops: For the lower end of each risk band, the number of runs that were
            stopped, and how many of them broke a law afterwards. The key is empty if
            the risk was unknown.
        let_pass: The number of runs in which an intervention was decided but not
            enforced, by law.
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
        """The sum of counts."""
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
        """The counts without the ends that contradict the starts and steps."""
        tally, passed = bounded(self.tally), bounded(self.passed)
        ends = {s: min(n, tally.ends.get(s, 0)) for s, n in passed.ends.items()}
        passed.ends = {state: n for state, n in ends.items() if n}
        return replace(self, tally=tally, passed=passed)


def runs_of(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of numbers of runs, by law."""
    found = Counter[str]()
    for each in several:
        found.update(each)
    return dict(sorted(found.items()))


_Runs = Annotated[
    dict[
        Annotated[str, Field(max_length=MOST_CHARACTERS)],
        Annotated[int, Field(gt=0, le=MAX_COUNT)],
    ],
    Field(max_length=MOST_LAWS),
]
"""Numbers of runs by law."""


class _Table(Strict):
    # For each state, pairs of a successor's number and a count.
    steps: list[list[int]]
    starts: list[int]
    ends: list[int]


class _Passed(_Table):
    # The number of runs in which an intervention was not enforced, by law.
    runs: _Runs


class _File(_Table):
    format: Literal["forewarn.tally/1"]
    id: str = Field(pattern="^[0-9a-z-]{8,64}$")
    abstraction: _Digest
    period_s: float = Field(gt=0)
    laws: _Digest
    beyond: int = Field(default=0, ge=0, le=MAX_COUNT)
    states: list[Annotated[str, Field(pattern="^[01]{1,62}$")]]
    # The number of runs that an intervention ended early, by law.
    stopped_by: _Runs = Field(default_factory=dict)
    # The number of runs stopped in each risk band, and how many of them broke a law.
    after_stops: dict[
        Annotated[str, Field(max_length=MOST_CHARACTERS)],
        Annotated[
            tuple[_Count, _Count], Field(strict=False), AfterValidator(_part_of_all)
        ],
    ] = Field(default_factory=dict, max_length=len(EDGES))
    # What followed decisions to intervene that were not enforced.
    passed: _Passed | None = None


class _Several(Strict):
    format: Literal["forewarn.tallies/1"]
    tallies: list[dict[str, Any]] = Field(min_length=1, max_length=100)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Transition counts between numbered states.

    Args:
        steps: One row for each transition: the indices of both states, and the count.
        starts: One row for each state in which a run began: its index, and the count.
        ends: One row for each state in which a run ended: its index, and the count.
    """

    steps: Ints
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, tally: Tally, states: Sequence[str]) -> Table:
        """Numbers the states of a tally by their place in `states`."""
        number = {name: i for i, name in enumerate(states)}

        def pairs(counts: Mapping[str, int]) -> list[tuple[int, int]]:
            return sorted((number[name], times) for name, times in counts.items())

        steps = [
            (i, *pair)
            for i, name in enumerate(states)
            for pair in pairs(tally.seen.get(name, {}))
        ]
        starts, ends = pairs(tally.starts), pairs(tally.ends)
        return cls(_table(steps, 3), _table(starts, 2), _table(ends, 2))

    def tally(self, states: Sequence[str]) -> Tally:
        """The counts by state name, as a mutable tally."""
        tally = Tally(seen={name: {} for name in states})
        for before, after, times in self.steps.tolist():
            tally.seen[states[before]][states[after]] = times
        for into, counts in ((tally.starts, self.starts), (tally.ends, self.ends)):
            into.update((states[i], times) for i, times in counts.tolist())
        tally.traces = sum(tally.starts.values())
        tally.frames = tally.traces + self.transitions
        return tally

    @property
    def transitions(self) -> int:
        """The number of counted transitions."""
        return int(self.steps[:, 2].sum())

    def as_dict(self, states: int) -> dict[str, Any]:
        """The counts as JSON, with one row of steps for each state."""
        cuts = np.searchsorted(self.steps[:, 0], np.arange(1, states))
        rows = np.split(self.steps[:, 1:], cuts) if states else []
        return {
            "steps": [row.ravel().tolist() for row in rows],
            "starts": self.starts.ravel().tolist(),
            "ends": self.ends.ravel().tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class FleetTally:
    """The tally of one contributor.

    Args:
        id: The unique id of the tally.
        subject: The abstraction, period and laws of the guard's model.
        states: The names of the states, in ascending order.
        counts: The transition counts.
        beyond: As in `Counted`, and so are the following.
        stopped_by: The number of runs that an intervention ended early, by law.
        after_stops: The outcomes of stopped runs, by risk band.
        let_pass: The number of runs in which an intervention was not enforced, by law.
        passed: The part of `counts` that follows these decisions.
    """

    id: str
    subject: Subject
    states: tuple[str, ...]
    counts: Table
    beyond: int
    stopped_by: Mapping[str, int]
    after_stops: Mapping[str, Stopped]
    let_pass: Mapping[str, int]
    passed: Table

    @classmethod
    def of(cls, own_id: str, subject: Subject, counted: Counted) -> FleetTally:
        """Creates a tally from the counts so far."""
        states = tuple(sorted(counted.tally.seen))
        return cls(
            own_id,
            subject,
            states,
            Table.of(counted.tally, states),
            counted.beyond,
            runs_of([counted.stopped_by]),
            outcomes_of([counted.after_stops]),
            runs_of([counted.let_pass]),
            Table.of(counted.passed, states),
        )

    @property
    def transitions(self) -> int:
        """The number of counted transitions."""
        return self.counts.transitions

    @property
    def traces(self) -> int:
        """The number of runs."""
        return int(self.counts.starts[:, 1].sum())

    @property
    def unweighted(self) -> dict[str, int]:
        """The number of stopped runs for which no passed run stands, by law."""
        return {k: n for k, n in self.stopped_by.items() if k not in self.let_pass}

    def tally(self) -> Tally:
        """The counts by state name, as a mutable tally."""
        return self.counts.tally(self.states)

    def counted(self) -> Counted:
        """The counts of the tally's file."""
        return Counted(
            self.tally(), self.beyond, self.stopped_by, self.after_stops,
            self.let_pass, self.passed.tally(self.states),
        )  # fmt: skip

    def weighted(self) -> FleetTally:
        """The tally in which passed runs also stand for the stopped ones.

        What follows an intervention that was not enforced has the weight of all runs
        with such an intervention, so that the frequencies in each row are those of
        whole runs. Rows that mix both weights are reduced to the number of equally
        weighted observations that is as informative, and rounded without bias.
        """
        passes = sum(self.let_pass.values())
        stops = sum(self.stopped_by.get(law, 0) for law in self.let_pass)
        if not stops:
            return self
        weight, end = 1.0 + stops / passes, len(self.states)
        cells, after = _cells(self.counts, end), _cells(self.passed, end)
        row, key = cells[:, 0], cells[:, 0] * (end + 1) + cells[:, 1]
        late = np.zeros(len(cells))
        late[np.searchsorted(key, after[:, 0] * (end + 1) + after[:, 1])] = after[:, 2]
        early = cells[:, 2] - late

        def of_row(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(row, values, end).astype(np.float64)[row]

        total = of_row(early) + weight * of_row(late)
        informative = total**2 / (of_row(early) + weight**2 * of_row(late))
        times = (early + weight * late) * informative / total
        # Systematic sampling: each count is rounded to a neighbour, on average exactly.
        sums, first = np.cumsum(times), np.searchsorted(row, row)
        whole = np.floor(sums - (sums - times)[first] + self._shifts()[row])
        rounded = np.diff(whole, prepend=0.0)
        rounded = np.where(first == np.arange(len(row)), whole, rounded)
        mixed = (of_row(early) > 0) & (of_row(late) > 0)
        cells[mixed, 2] = rounded[mixed].astype(np.int64)
        cells = cells[cells[:, 2] > 0]
        ends = cells[:, 1] == end
        table = Table(cells[~ends], self.counts.starts, cells[ends][:, [0, 2]])
        return replace(self, counts=table)

    def _shifts(self) -> NDArray[np.float64]:
        """A random number from 0 to 1 for each state, fixed by the tally's id."""
        seed = hashlib.sha256(self.id.encode()).digest()
        return np.random.default_rng(list(seed)).random(len(self.states))

    def as_dict(self) -> dict[str, Any]:
        """The content of the tally's file; equal tallies give equal bytes."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "id": self.id,
            "abstraction": self.subject.abstraction,
            "period_s": self.subject.period_s,
            "laws": self.subject.laws,
            "beyond": self.beyond,
            "states": list(self.states),
            **self.counts.as_dict(len(self.states)),
        }
        if self.stopped_by:
            content["stopped_by"] = self.stopped_by
        if self.after_stops:
            content["after_stops"] = {k: [*v] for k, v in self.after_stops.items()}
        if self.let_pass:
            passed = self.passed.as_dict(len(self.states))
            content["passed"] = {"runs": self.let_pass, **passed}
        return content


def _cells(table: Table, end: int) -> Ints:
    """The steps and ends of a table, in the order of states; `end` numbers the end."""
    state, times = table.ends.T
    ends = np.column_stack((state, np.full(len(state), end), times))
    cells = np.concatenate((table.steps, ends))
    return cells[np.lexsort((cells[:, 1], cells[:, 0]))]


def summed(tallies: Iterable[FleetTally]) -> FleetTally:
    """The sum of tallies with the same subject; the id is derived from the tallies'
    ids.

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
    total = Counted.total([each.counted() for each in ordered])
    return FleetTally.of(own_id, ordered[0].subject, total)


def summed_by_subject(tallies: Iterable[FleetTally]) -> list[FleetTally]:
    """Sums the tallies of each subject, in order of first appearance."""
    of: dict[Subject, list[FleetTally]] = {}
    for each in tallies:
        of.setdefault(each.subject, []).append(each)
    return [summed(several) for several in of.values()]


def read_tallies(path: Path) -> list[FleetTally]:
    """Reads the tallies in a file, one for each model of the guard."""
    content, source = read_json(path), str(path)
    if not isinstance(content, dict) or content.get("format") != SEVERAL:
        return [parse_tally(content, source)]
    file = validated(_Several, content, source, InvalidTally)
    found = [parse_tally(each, source) for each in file.tallies]
    if len({each.subject for each in found}) < len(found):
        raise InvalidTally(
            "two tallies in the file are for the same model", source=source
        )
    return found


def write_tallies(path: Path, tallies: Sequence[FleetTally]) -> None:
    """Writes the tallies of a guard to a file, atomically."""
    contents = [each.as_dict() for each in tallies]
    content = contents[0]
    if len(contents) > 1:
        content = {"format": SEVERAL, "tallies": contents}
    with atomic_text(path) as out:
        json.dump(content, out, separators=(",", ":"), allow_nan=False)
        out.write("\n")


def parse_tally(content: object, source: str = "") -> FleetTally:
    """Parses a tally from a JSON object."""
    file = validated(_File, content, source, InvalidTally)
    states = tuple(file.states)
    if len(set(states)) < len(states) or len(set(map(len, states))) > 1:
        raise InvalidTally(
            "a state appears twice, or the states do not belong to the same "
            "abstraction",
            source=source,
            place="states",
        )
    counts = _parsed(file, states, source)
    passed, let_pass = Table.of(Tally(), ()), {}
    if file.passed is not None:
        let_pass = file.passed.runs
        passed = _parsed(file.passed, states, source, "passed, ")
        whole = _keyed(counts, len(states))
        part = _keyed(passed, len(states))
        if not let_pass or any(whole.get(k, 0) < n for k, n in part.items()):
            raise InvalidTally(
                "the tally counts more transitions after interventions that were not "
                "enforced than transitions in all",
                source=source,
                place="passed",
            )
    subject = Subject(file.abstraction, file.period_s, file.laws)
    return FleetTally(
        file.id,
        subject,
        states,
        counts,
        file.beyond,
        file.stopped_by,
        file.after_stops,
        let_pass,
        passed,
    )


def _parsed(
    file: _Table, states: tuple[str, ...], source: str, place: str = ""
) -> Table:
    """Checks the counts of a file."""
    if len(file.steps) != len(states):
        raise InvalidTally(
            "expected one row for each state", source=source, place=f"{place}steps"
        )
    lengths = np.fromiter(map(len, file.steps), np.int64, len(states))
    if lengths.sum() > 2 * MAX_PAIRS:
        raise InvalidTally(
            f"the tally has more than {MAX_PAIRS} different transitions",
            source=source,
            place=f"{place}steps",
        )
    even = not (lengths % 2).any()
    flat = list(chain.from_iterable(file.steps)) if even else [0]
    pairs = _pairs(flat, len(states), source, f"{place}steps")
    before = np.repeat(np.arange(len(states)), lengths // 2)
    starts, ends = (
        _pairs(flat, len(states), source, f"{place}{part}")
        for flat, part in ((file.starts, "starts"), (file.ends, "ends"))
    )
    ordered = (
        (np.diff(before * len(states) + pairs[:, 0]) > 0).all()
        and (np.diff(starts[:, 0]) > 0).all()
        and (np.diff(ends[:, 0]) > 0).all()
    )
    if not ordered:
        raise InvalidTally(
            "the tally's states are not in ascending order", source=source
        )
    table = Table(np.column_stack((before, pairs)), starts, ends)
    tally = table.tally(states)
    if tally.ends != bounded(tally).ends:
        raise InvalidTally(
            "more runs end in a state than can have reached it",
            source=source,
            place=f"{place}ends",
        )
    return table


def _keyed(table: Table, end: int) -> dict[tuple[int, int], int]:
    return {(i, j): times for i, j, times in _cells(table, end).tolist()}


def bounded(tally: Tally) -> Tally:
    """The tally without the ends that contradict its starts and steps.

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


def _pairs(flat: list[int], states: int, source: str, place: str) -> Ints:
    """Parses pairs of a state's index and a count."""
    try:
        pairs = _table(flat, 2)
    except (OverflowError, ValueError):
        pass
    else:
        of, times = pairs.T
        inside = (of >= 0).all() and (of < states).all()
        if inside and (times > 0).all() and (times <= MAX_COUNT).all():
            return pairs
    raise InvalidTally(
        "expected pairs of a state number and a count", source=source, place=place
    )


def _table(values: Sequence[Any], columns: int) -> Ints:
    return np.array(values, dtype=np.int64).reshape(-1, columns)


def dealt(
    models: Sequence[Model], files: Iterable[Path], source: str
) -> list[list[tuple[str, FleetTally]]]:
    """Reads tally files; returns, for each model, its tallies and the names of their
    files.
    """
    subjects = [Subject.of(model, source) for model in models]
    found: list[list[tuple[str, FleetTally]]] = [[] for _ in models]
    for path in files:
        for tally in read_tallies(path):
            if tally.subject not in subjects:
                subjects[0].refuse_other(tally.subject, str(path))
            found[subjects.index(tally.subject)].append((str(path), tally))
    return found
