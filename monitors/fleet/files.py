"""Reads and writes the files of tallies (`forewarn.tally/1`), which are untrusted
input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from forewarn.abstractions.errors import naming
from forewarn.abstractions.files import atomic_text, parse_json, read_text
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.formats.own import MAX_COUNT
from forewarn.monitors.chains.learning import MAX_PAIRS, Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.branched import EDGES
from forewarn.monitors.fleet.tallies import (
    Counted,
    FleetTally,
    Ints,
    InvalidTally,
    Stopped,
    Subject,
    bounded,
    tally_of,
)

SEVERAL = "forewarn.tallies/1"

MOST_LAWS, MOST_CHARACTERS = 1_000, 10_000
"""The maximum number of laws in a tally, and the maximum length of a law's name."""

_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


def _part_of_all(stopped: Stopped) -> Stopped:
    if stopped[1] > stopped[0]:
        raise ValueError(
            "the number of stopped runs that broke a law exceeds the number of stopped "
            "runs"
        )
    return stopped


_Runs = Annotated[
    dict[
        Annotated[str, Field(max_length=MOST_CHARACTERS)],
        Annotated[int, Field(gt=0, le=MAX_COUNT)],
    ],
    Field(max_length=MOST_LAWS),
]
"""The number of runs for each law."""


class _Table(Strict):
    # For each state, pairs of a successor's number and a count.
    steps: list[list[int]]
    starts: list[int]
    ends: list[int]


class _Passed(_Table):
    # For each law, the number of runs in which an intervention was not enforced.
    runs: _Runs


class _File(_Table):
    format: Literal["forewarn.tally/1"]
    id: str = Field(pattern="^[0-9a-z-]{8,64}$")
    abstraction: _Digest
    period_s: float = Field(gt=0)
    laws: _Digest
    beyond: int = Field(default=0, ge=0, le=MAX_COUNT)
    states: list[Annotated[str, Field(pattern="^[01]{1,62}$")]]
    # For each law, the number of runs that an intervention ended early.
    stopped_by: _Runs = Field(default_factory=dict)
    # The number of runs stopped in each risk band, and how many of them broke a law.
    after_stops: dict[
        Annotated[str, Field(max_length=MOST_CHARACTERS)],
        Annotated[tuple[_Count, _Count], AfterValidator(_part_of_all)],
    ] = Field(default_factory=dict, max_length=len(EDGES))
    # The counts after interventions that were decided but not enforced.
    passed: _Passed | None = None


class _Several(Strict):
    format: Literal["forewarn.tallies/1"]
    tallies: list[dict[str, Any]] = Field(min_length=1, max_length=100)


def read_tallies(path: Path) -> list[FleetTally]:
    """Reads the tallies in a file, one for each model of the guard."""
    text, source = read_text(path), str(path)
    if not text.lstrip().startswith("{"):
        raise InvalidTally(
            "this is not a tally",
            source=source,
            mend="give files that --tally wrote; move other files out of the folder",
        )
    content = parse_json(text, source)
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
    with naming(source):
        return _tally(file)


def _tally(file: _File) -> FleetTally:
    states = tuple(file.states)
    if len(set(states)) < len(states) or len(set(map(len, states))) > 1:
        raise InvalidTally(
            "a state appears twice, or the states do not belong to the same "
            "abstraction",
            place="states",
        )
    counts = _parsed(file, states)
    passed, let_pass = Tally(), {}
    if file.passed is not None:
        let_pass = file.passed.runs
        with naming("", "passed"):
            passed = _parsed(file.passed, states)
        whole, part = _keyed(counts), _keyed(passed)
        if not let_pass or any(whole.get(k, 0) < n for k, n in part.items()):
            raise InvalidTally(
                "the tally counts more transitions after interventions that were not "
                "enforced than transitions in total",
                place="passed",
            )
    subject = Subject(file.abstraction, file.period_s, file.laws)
    counted = Counted(
        counts, file.beyond, file.stopped_by, file.after_stops, let_pass, passed
    )
    return FleetTally.of(file.id, subject, counted)


def _parsed(file: _Table, states: tuple[str, ...]) -> Tally:
    """Checks the counts of a file."""
    if len(file.steps) != len(states):
        raise InvalidTally("expected one row for each state", place="steps")
    lengths = np.fromiter(map(len, file.steps), np.int64, len(states))
    if lengths.sum() > 2 * MAX_PAIRS:
        raise InvalidTally(
            f"the tally has more than {MAX_PAIRS} different transitions",
            place="steps",
        )
    even = not (lengths % 2).any()
    flat = list(chain.from_iterable(file.steps)) if even else [0]
    pairs = _pairs(flat, len(states), "steps")
    before = np.repeat(np.arange(len(states)), lengths // 2)
    starts, ends = (
        _pairs(flat, len(states), part)
        for flat, part in ((file.starts, "starts"), (file.ends, "ends"))
    )
    ordered = (
        (np.diff(before * len(states) + pairs[:, 0]) > 0).all()
        and (np.diff(starts[:, 0]) > 0).all()
        and (np.diff(ends[:, 0]) > 0).all()
    )
    if not ordered:
        raise InvalidTally("the tally's states are not in ascending order")
    last = np.insert(ends, 1, len(states), axis=1)
    tally = tally_of(np.concatenate((np.column_stack((before, pairs)), last)), states)
    tally.starts = {states[i]: times for i, times in starts.tolist()}
    tally.traces = sum(tally.starts.values())
    tally.frames += tally.traces
    if tally.ends != bounded(tally).ends:
        raise InvalidTally(
            "more runs end in a state than can have reached it",
            place="ends",
        )
    return tally


def _keyed(tally: Tally) -> dict[tuple[str, str], int]:
    steps = {(b, a): n for b, row in tally.seen.items() for a, n in row.items()}
    return steps | {(name, ""): times for name, times in tally.ends.items()}


def _pairs(flat: list[int], states: int, place: str) -> Ints:
    """Parses pairs of a state's index and a count."""
    try:
        pairs = np.array(flat, np.int64).reshape(-1, 2)
    except (OverflowError, ValueError):
        pass
    else:
        of, times = pairs.T
        inside = (of >= 0).all() and (of < states).all()
        if inside and (times > 0).all() and (times <= MAX_COUNT).all():
            return pairs
    raise InvalidTally("expected pairs of a state number and a count", place=place)


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
