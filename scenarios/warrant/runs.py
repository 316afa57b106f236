"""Reads the runs for a warrant, with their groups and labels, and splits them into
parts.

The runs of a group, such as one driver, are all in the same part: a guard must not be
evaluated on a driver that it was learned from.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.lines import lines
from forewarn.abstractions.readers.calls import CallRun
from forewarn.abstractions.readers.stored import FACTS, Stored, batches
from forewarn.abstractions.trace import Kept
from forewarn.monitors.laws.clocking import regular_period

Shown = Callable[[Iterable[Any], str, int], Iterable[Any]]
Label = Literal["safe", "unsafe"]

NAMES = ("run", "file", "seed")
"""The columns that can identify a run in this file."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A table of facts about runs.

    Args:
        columns: The names of the columns.
        by_name: The row of each run, by file name or by number.
        source: The table's file.
    """

    columns: tuple[str, ...] = ()
    by_name: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    source: str = ""

    @classmethod
    def read(cls, path: Path) -> Facts:
        """Reads a CSV file with one row per run."""
        reader = csv.reader(text + "\n" for _, text in lines(path))
        try:
            columns = tuple(cell.strip() for cell in next(reader, []))
            key = next((name for name in NAMES if name in columns), None)
            if key is None:
                raise InvalidInput(
                    "no column identifies the runs (the columns are "
                    f"{', '.join(columns):.200})",
                    source=str(path),
                    mend="separate the columns by commas"
                    if ";" in "".join(columns)
                    else f"add a column {' or '.join(NAMES)}",
                )
            rows = [dict(zip(columns, row, strict=False)) for row in reader if row]
        except csv.Error as error:
            raise InvalidInput(f"not CSV: {error}", source=str(path)) from None
        return cls(columns, {row[key].strip(): row for row in rows}, str(path))

    @classmethod
    def beside(cls, paths: Iterable[Path]) -> Facts:
        """Reads the table next to the logs; empty if there is none."""
        for path in paths:
            for folder in (path, path.parent, path.parent.parent):
                if (found := folder / FACTS).is_file():
                    return cls.read(found)
        return cls()

    def by_order(self, files: Sequence[str]) -> Facts:
        """Renumbers the rows from 0 for the recordings of a scenario.

        The numbers in the table may have gaps; only their order matters.

        Args:
            files: The file name of each recording, if they are known.
        """
        if NAMES[-1] not in self.columns or not all(map(str.isdecimal, self.by_name)):
            if not any(map(self.of, files)):
                return self
            rows = {str(n): self.of(name) for n, name in enumerate(files)}
            return Facts(self.columns, rows, self.source)
        ordered = sorted(self.by_name, key=int)
        rows = {str(n): self.by_name[key] for n, key in enumerate(ordered)}
        return Facts(self.columns, rows, self.source)

    def of(self, name: str, number: int | None = None) -> Mapping[str, str]:
        """Returns the facts about a run, by name or number; empty if there are none."""
        stem = name.split(".")[0]
        for key in (name, stem, str(number)):
            if key in self.by_name:
                return self.by_name[key]
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class LoggedRun:
    """A run from the logs.

    Args:
        stored: Where the run is stored.
        run: The signals of the run; the seed in its header is the run's index.
        group: The run's group; by default, each run is a group of its own.
        label: The label `safe` or `unsafe`; None if people did not label the run.
    """

    stored: Stored
    run: Kept
    group: str
    label: Label | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self.stored.name


@dataclass(frozen=True, slots=True)
class PastCalls:
    """A run of calls with its group and its label.

    Args:
        run: The calls of the run.
        group: The run's group.
        label: The label `safe` or `unsafe`; None if people did not label the run.
    """

    run: CallRun
    group: str
    label: Label | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name


def grouped(facts: Mapping[str, str], group: str | None, name: str, source: str) -> str:
    """Returns the group of a run.

    Raises:
        InvalidInput: The facts do not give the group.
    """
    if group is None:
        return name
    if group not in facts or not facts[group].strip():
        mend = f"add --facts with a CSV file that has the columns run and {group}"
        if source.endswith(".csv"):
            mend = f"add a row for this run, with the column {group}"
        raise InvalidInput(
            f"the facts do not give the {group} of the run {name:.80}",
            source=source,
            mend=near_miss(group, facts) or mend,
        )
    return facts[group].strip()


def labelled(text: str, source: str) -> Label | None:
    """Parses a label; None if it is empty."""
    match text.strip().lower():
        case "":
            return None
        case "safe":
            return "safe"
        case "unsafe":
            return "unsafe"
    raise InvalidInput(
        f"the label {text!r:.40} is neither safe nor unsafe", source=source
    )


def read_past(
    stored: Sequence[Stored],
    names: Iterable[str] | None,
    facts: Facts,
    group: str | None,
    period_s: float | None = None,
    progress: Shown = lambda items, *_: items,
) -> list[LoggedRun]:
    """Reads runs of frames, with their groups and labels.

    Args:
        stored: Where the runs are stored.
        names: The signals to keep; None for all.
        facts: Further facts about the runs.
        group: The column of the facts with the group; None if runs are not grouped.
        period_s: The time between frames in seconds, for runs that do not state it.
        progress: Shows progress.
    """
    if group is not None and not facts.columns:
        raise InvalidInput(
            "there is no table of facts about the runs",
            source=f"--group {group}",
            mend=f"write {FACTS} next to the logs, with the columns file and {group}, "
            "or give a table with --facts",
        )
    wanted = None if names is None else list(names)
    read = (
        pair
        for batch in batches(stored, wanted, None, period_s)
        for pair in zip(batch.runs, batch.apart(), strict=True)
    )
    found: list[LoggedRun] = []
    for number, (origin, run) in enumerate(progress(read, "runs read", len(stored))):
        header = run.header
        if header.guarded:
            raise InvalidInput(
                "a guard intervened in this run, so its outcome without "
                "the guard is unknown",
                source=str(origin.path),
                mend="use runs without a guard, or in shadow mode",
            )
        known = header.seed if header.seed is not None else number
        said = facts.of(origin.name, known)
        every_s = header.period_s or period_s or regular_period(run.times())
        if every_s is None:
            raise InvalidInput(
                "the run's frames are not evenly spaced in time",
                source=str(origin.path),
                mend="give the time between two frames with --period",
            )
        if not len(run):
            raise InvalidInput("there are no frames", source=str(origin.path))
        header = replace(header, seed=number, period_s=every_s)
        kept = Kept(header, run.times_s, run.signals, run.vocabulary)
        own = grouped(said, group, origin.name, facts.source or str(origin.path))
        label = labelled(said.get("label", ""), facts.source)
        found.append(LoggedRun(origin, kept, own, label))
    return found


def once(digests: Sequence[str]) -> tuple[list[int], list[int]]:
    """Returns the indices of runs with a new digest, and of exact duplicates."""
    seen, new, again = set[str](), list[int](), list[int]()
    for number, digest in enumerate(digests):
        (again if digest in seen else new).append(number)
        seen.add(digest)
    return new, again


def deal(groups: Sequence[str], shares: Sequence[float], seed: int) -> list[list[int]]:
    """Splits runs into parts at random, one whole group at a time; returns the indices
    in each part.

    Args:
        groups: The group of each run.
        shares: The fraction of all runs for each part except the last.
        seed: The seed of the random order.
    """
    members: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    order = sorted(members)
    random.Random(seed).shuffle(order)  # noqa: S311
    parts: list[list[int]] = [[] for _ in range(len(shares) + 1)]
    at = 0
    for number, group in enumerate(order):
        left = len(order) - number
        full = at < len(shares) and len(parts[at]) >= shares[at] * len(groups)
        # Every part gets a group if there are enough groups.
        starving = at < len(shares) and bool(parts[at]) and left <= len(shares) - at
        if full or starving:
            at += 1
        parts[at] += members[group]
    return [sorted(part) for part in parts]
