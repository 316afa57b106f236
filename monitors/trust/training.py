"""Training: counts trace files in a tally, and collects the facts that a model
stores.
"""

from __future__ import annotations

import hashlib
import io
import sys
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike, NDArray

from forewarn.abstractions.abstraction import Abstraction, Latch, Predicate
from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, TooLarge, naming
from forewarn.abstractions.expression.tree import (
    And,
    Constant,
    Expression,
    Implies,
    Not,
    Or,
)
from forewarn.abstractions.files import GZIPPED, format_of, other_kind, read_text
from forewarn.abstractions.limits import available_memory
from forewarn.abstractions.lines import first_line
from forewarn.abstractions.readers.stored import Batch, Stored, batches
from forewarn.abstractions.trace import TraceHeader
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.chains.chain import MAX_NAME
from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.clocking import common_latch, law_latches
from forewarn.monitors.laws.formula import Temporal
from forewarn.monitors.laws.progression import normalise
from forewarn.monitors.risk.evidence import (
    compile_for,
    count_violations,
    letters_by_predicates,
)
from forewarn.monitors.trust.encoding import Counted, count
from forewarn.monitors.trust.visiting import count_first_visits


def law_abstraction(
    laws: Iterable[Expression],
    vocabulary: Vocabulary | None = None,
    period_s: float | None = None,
) -> Abstraction:
    """Creates the abstraction whose predicates are the atoms of laws (Algorithm 1 of
    the ProbGuard paper).

    With a period, atoms are latched as the laws require, so that nothing that could
    break a law is missed between two ticks. A condition on several atoms at one moment
    then becomes an additional predicate, because latched atoms may be true together
    although they were not in any single frame.
    """
    uses: dict[str, set[Latch]] = {}
    atoms: dict[str, Expression] = {}
    joint: dict[str, Expression] = {}
    for law in laws:
        atoms |= {repr(atom): atom for atom, _ in _atoms(law)}
        if period_s is None:
            continue
        propositions = normalise(law, period_s).propositions
        latches = law_latches(law, propositions)
        for proposition, use in zip(propositions, latches, strict=True):
            if repr(proposition) not in atoms:
                joint[repr(proposition)] = proposition
                uses.setdefault(repr(proposition), set()).add(use)
            for atom, positive in _atoms(proposition):
                kept = use if positive else _DUAL[use]
                uses.setdefault(repr(atom), set()).add(kept)
    if not atoms:
        raise InvalidInput("the laws contain no conditions, so there are no predicates")
    return Abstraction(
        [
            Predicate(node, common_latch(uses.get(text, ())))
            for text, node in (atoms | joint).items()
        ],
        name="from laws",
        vocabulary=vocabulary,
        period_s=period_s,
    )


_DUAL: dict[Latch, Latch] = {"any": "all", "all": "any", "last": "last"}


def _atoms(
    node: Expression, positive: bool = True
) -> Iterator[tuple[Expression, bool]]:
    """Yields the atoms of a formula, and whether each is under an even number of
    negations.
    """
    match node:
        case Constant():
            return
        case Not(operand):
            yield from _atoms(operand, not positive)
        case Implies(left, right):
            yield from _atoms(left, not positive)
            yield from _atoms(right, positive)
        case And() | Or() | Temporal():
            for child in node.children:
                yield from _atoms(child, positive)
        case _:
            yield node, positive


HELD_BYTES = 1 << 26
"""The maximum size in memory, in bytes; larger data is stored in a temporary file."""


class Spool:
    """Sequences of numbers that are appended, and later read in the same order.

    Args:
        kind: The type of the numbers.
    """

    def __init__(self, kind: DTypeLike) -> None:
        self._kind = np.dtype(kind)
        self._file = SpooledTemporaryFile(max_size=HELD_BYTES)
        finalize(self, self._file.close)
        self._lengths = array("q")
        self.size = 0

    def __len__(self) -> int:
        """Returns the number of sequences."""
        return len(self._lengths)

    def add(self, numbers: NDArray[np.integer], lengths: Iterable[int]) -> None:
        """Appends sequences, given concatenated."""
        self._file.seek(0, 2)
        self._file.write(numbers.astype(self._kind).tobytes())
        self._lengths.extend(lengths)
        self.size += len(numbers)

    def runs(self, every: int = 1) -> Iterator[NDArray[np.integer]]:
        """Yields all sequences, or every n-th."""
        at = 0
        for number, length in enumerate(self._lengths):
            size = length * self._kind.itemsize
            if number % every == 0:
                self._file.seek(at)
                yield np.frombuffer(self._file.read(size), self._kind)
            at += size


@dataclass(slots=True)
class Training:
    """A tally that grows file by file, and the facts to store about the files.

    Args:
        tally: The counts, including those of an earlier model that is updated.
        facts: The facts stored in the earlier model.
        seen: The sequence of state numbers of each run.
        late: For each file, the mean time between frames in seconds, if it is much
            longer than the assumed duration of a step.
        gaps: The number of gaps in time, by file; no transition is counted across a
            gap.
        parts: The facts about each part of a dataset, and its digest so far.
        numbers: The number assigned to each state that was seen.
        unbroken: The number of states in each run before its first gap.
    """

    tally: Tally = field(default_factory=Tally)
    facts: dict[str, Any] = field(default_factory=dict)
    seen: Spool = field(default_factory=lambda: Spool(np.int32))
    periods: set[float | None] = field(default_factory=set)
    late: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[Path, str, bool], tuple[dict[str, Any], Any]] = field(
        default_factory=dict
    )
    numbers: dict[str, int] = field(default_factory=dict)
    unbroken: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def of(cls, model: Model) -> Training:
        """Returns the training state of a model, to which more traces can be added."""
        kept = {k: model.training[k] for k in ("files", "violations")
                if k in model.training}  # fmt: skip
        training = cls(Tally.of(model), deepcopy(kept))
        training.periods.add(model.period_s)
        return training

    def add_states(self, path: Path, abstraction: Abstraction | None = None) -> None:
        """Counts a file of state sequences."""
        sequences = read_sequences(path)
        if abstraction is not None:
            for name in {name for row in sequences for name in row}:
                try:
                    abstraction.bits(name)
                except InvalidInput as error:
                    raise InvalidTrace(
                        error.problem,
                        source=str(path),
                        mend="give a trace; or, for sequences of states, write a 0 or "
                        "1 for each predicate",
                    ) from None
        for row in sequences:
            self.tally.add_sequence(row)
            self.unbroken.append(len(row))
            self.seen.add(np.array([self._number(name) for name in row]), [len(row)])
        self._remember(Stored(path), len(sequences), sum(map(len, sequences)))

    def add_traces(self, runs: Iterable[Stored], abstraction: Abstraction) -> None:
        """Counts traces of frames."""
        for _ in self.counting(runs, abstraction):
            pass

    def counting(
        self,
        runs: Iterable[Stored],
        abstraction: Abstraction,
        vocabulary: Vocabulary | None = None,
        period_s: float | None = None,
    ) -> Iterator[Stored]:
        """Counts traces of frames, and yields each one after it has been counted.

        Args:
            runs: Traces in any format that can be read.
            abstraction: The abstraction that turns frames into states.
            vocabulary: The vocabulary to use instead of the one that a trace names.
            period_s: The time between the rows of a table without times, in seconds.
        """
        used = vocabulary or abstraction.vocabulary
        signals = dict.fromkeys(abstraction.signals)
        for batch in batches(runs, signals, used, period_s):
            self.add(batch, abstraction)
            yield from batch.runs

    def add(self, batch: Batch, abstraction: Abstraction) -> None:
        """Counts runs that were read from a file, as `counting` does."""
        self.take(count(batch, abstraction))

    def take(self, counted: Counted) -> None:
        """Adds encoded runs."""
        names = counted.names
        states = np.array([self._number(name) for name in names])[counted.numbers]
        self.tally.add_codes(
            counted.numbers, names.__getitem__, counted.starts, counted.gaps
        )
        lengths = counted.lengths
        self.seen.add(states, lengths)
        self.periods.update(counted.periods)
        self.late.update(counted.late)
        apart = np.searchsorted(counted.starts, counted.gaps, side="right") - 1
        until = lengths.copy()
        np.minimum.at(until, apart, counted.gaps - counted.starts[apart])
        self.unbroken.extend(until.tolist())
        for number in apart.tolist():
            name = counted.runs[number].name
            self.gaps[name] = self.gaps.get(name, 0) + 1
        each = zip(counted.runs, counted.headers, lengths.tolist(), strict=True)
        for run, header, frames in each:
            self._remember(run, 1, frames, header)

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def sequences(self, every: int = 1) -> list[list[str]]:
        """Returns the sequences of state names of all runs, or of every n-th run."""
        names = list(self.numbers)
        return [[names[i] for i in run.tolist()] for run in self.seen.runs(every)]

    def _remember(
        self, run: Stored, traces: int, frames: int, header: TraceHeader | None = None
    ) -> None:
        if run.run and header is not None:
            self._remember_part(run, frames, header)
            return
        entry = {
            "name": run.name,
            "sha256": run.digest,
            "traces": traces,
            "frames": frames,
        }
        if header is not None:
            entry["guarded"] = header.guarded
            if header.scenario:
                entry["scenario"] = header.scenario
            if header.seed is not None:
                entry["seed"] = header.seed
        self.facts.setdefault("files", []).append(entry)

    def _remember_part(self, run: Stored, frames: int, header: TraceHeader) -> None:
        """Adds one entry for all similar runs of a dataset's part, because there may be
        many.
        """
        files = self.facts.setdefault("files", [])
        key = run.path, header.scenario, header.guarded
        if key not in self.parts:
            new = {
                "name": run.path.name,
                "sha256": "",
                "traces": 0,
                "frames": 0,
                "guarded": header.guarded,
                "scenario": header.scenario,
                "seeds": [],
            }
            files.append(new)
            self.parts[key] = new, hashlib.sha256()
        entry, digest = self.parts[key]
        digest.update(run.digest.encode())
        entry["sha256"] = digest.hexdigest()
        entry["traces"] += 1
        entry["frames"] += frames
        if header.seed is not None:
            entry["seeds"].append(header.seed)

    def violations(
        self, model: Model, abstraction: Abstraction, laws: Iterable[Expression]
    ) -> dict[str, dict[str, int]]:
        """Returns the number of violations of each law in each state, including those
        of earlier training.
        """
        own = np.array([*map(model.chain.number.__getitem__, self.numbers)], np.int64)
        found: dict[str, dict[str, int]] = deepcopy(self.facts.get("violations", {}))
        for law in laws:
            automaton = compile_for(law, abstraction, model.period_s)
            letters = letters_by_predicates(model.chain, automaton, abstraction)
            sequences = (own[run].tolist() for run in self.seen.runs())
            seen = count_violations(automaton, letters, sequences)
            broken = found.setdefault(repr(law), {})
            for state in np.flatnonzero(seen).tolist():
                name = model.chain.states[state]
                broken[name] = broken.get(name, 0) + int(seen[state])
        return found

    def first_visits(
        self,
        model: Model,
        abstraction: Abstraction,
        laws: Iterable[Expression],
        horizon_s: float,
    ) -> dict[str, dict[str, Any]]:
        """Counts the outcomes of first visits in unguarded runs, keyed by the texts of
        laws.

        The result is empty for an updated model, because its earlier runs are not
        available.
        """
        files = self.facts.get("files", ())
        runs = len(self.seen)
        acted = any(entry.get("guarded") for entry in files)
        if model.period_s is None or acted or runs < self.tally.traces:
            return {}
        own = np.array([*map(model.chain.number.__getitem__, self.numbers)], np.int64)
        found: dict[str, dict[str, Any]] = {}
        for law in laws:
            automaton = compile_for(law, abstraction, model.period_s)
            letters = letters_by_predicates(model.chain, automaton, abstraction)
            each = zip(self.seen.runs(), self.unbroken, strict=True)
            whole = (
                (own[run[:until]], until == len(run) and model.end == "absorb")
                for run, until in each
            )
            counted = count_first_visits(
                automaton, letters, whole, horizon_s, model.period_s
            )
            found[repr(law)] = counted.as_dict()
        return found

    @property
    def period_s(self) -> float | None:
        """The time between two states in seconds, if it is the same in all traces."""
        return next(iter(self.periods)) if len(self.periods) == 1 else None

    def refuse_mixture(self) -> None:
        """Raises an error if guarded and unguarded runs are mixed.

        A guard changes what happens next, so guarded and unguarded traces follow
        different chains.
        """
        files = self.facts.get("files", ())
        marks = {f.get("guarded", False): f["name"] for f in files}
        if len(marks) > 1:
            raise InvalidTrace(
                f"{marks[True]} comes from a guarded run, but {marks[False]} does not",
                mend="learn from one kind only, or add --mix-guarded",
            )

    def repeated(self) -> list[str]:
        """Returns the files whose content was counted more than once."""
        seen: set[str] = set()
        found: list[str] = []
        for entry in self.facts.get("files", ()):
            if entry["sha256"] in seen:
                found.append(entry["name"])
            seen.add(entry["sha256"])
        return found

    def summary(self) -> dict[str, Any]:
        """Returns the facts that are stored in the model."""
        counted = sum(sum(row.values()) for row in self.tally.seen.values())
        return self.facts | {
            "traces": self.tally.traces,
            "frames": self.tally.frames,
            "transitions": counted,
        }


def digest_of_runs(digests: Iterable[str]) -> str:
    """Returns a common digest of several runs, which depends on their order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def holds_traces(path: Path) -> bool:
    """Whether a file contains traces of frames rather than sequences of state names."""
    if path.suffix == SUFFIX:
        return True
    head = first_line(path)
    return head.lstrip().startswith("{") or ".csv" in path.suffixes


_NAME_BYTES = 200
"""The memory needed to count one state of a sequence, in bytes."""


_UNPACKED_BYTES, _UNPACKED_RATIO = 16 << 20, 20


def _most_text(path: Path) -> int:
    """Returns the size limit for a file's text: proportional to the file's size if
    gzipped; otherwise, there is no limit.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(2) == GZIPPED:
            return _UNPACKED_BYTES + _UNPACKED_RATIO * path.stat().st_size
    return sys.maxsize


def read_sequences(path: Path) -> list[list[str]]:
    """Reads a file with one sequence of state names per line, separated by spaces.

    Empty lines and comments are skipped; a comment begins with # and a space.
    """
    memory = available_memory()
    text = read_text(path, min(memory // 16, _most_text(path)))
    with naming(path):
        return _sequences(text, memory)


def _sequences(text: str, memory: int) -> list[list[str]]:
    if "\0" in text:
        raise InvalidTrace("this is not a text file")
    if text and (kind := other_kind(text[:200], "a file of state sequences")):
        is_trace = format_of(text[:200]) == "forewarn.trace"
        mend = "leave out --format states" if is_trace else ""
        raise InvalidTrace(kind, mend=mend)
    sequences: list[list[str]] = []
    names = 0
    for number, line in enumerate(io.StringIO(text), 1):
        row = line.split()
        if not row or row[0] == "#":
            continue
        if row[0][0] == "#":
            raise InvalidTrace(
                f"a line cannot begin with {row[0]!r:.60}",
                place=f"line {number}",
                mend=(
                    "put a space after the # of a comment; the name of a state cannot "
                    "begin with #"
                ),
            )
        names += len(row)
        if names * _NAME_BYTES > memory:
            raise TooLarge(
                f"more than {memory // _NAME_BYTES:,} states, too many for the "
                "available memory",
                mend="learn from a part of the file, and add the rest with --update",
            )
        if max(map(len, row)) > MAX_NAME:
            raise InvalidTrace(
                f"a name is longer than {MAX_NAME} characters",
                place=f"line {number}",
            )
        sequences.append(row)
    if not sequences:
        raise InvalidTrace("the file contains no sequence of states")
    if all(len(row) == 1 and "," in row[0] for row in sequences):
        raise InvalidTrace(
            "every line is a single name",
            mend="separate the states with spaces, not commas",
        )
    return sequences
