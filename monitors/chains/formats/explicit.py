"""Explicit model files: transitions in `.tra`, labels in `.lab`, states in `.sta`.

The readers accept PRISM's headers (two numbers) and Storm's (the word `dtmc`, and
`#DECLARATION` in the labels).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.files import read_text
from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import (
    VALUE,
    ForeignChain,
    numbered_lines,
    probability,
    value_of,
)

_PRISM_HEAD = re.compile(r"\s*\d+\s+\d+\s*", re.ASCII)
_INTEGER = re.compile(r"\d{1,18}", re.ASCII)
_LABEL_NUMBER = re.compile(r'(\d{1,9})="([^"]*)"', re.ASCII)


def recognises(head: str) -> bool:
    first, _, rest = head.lstrip().partition("\n")
    if first.strip() == "dtmc":
        return re.match(r"\s*\d+\s+\d+\s+\S+\s*(\n|$)", rest, re.ASCII) is not None
    return _PRISM_HEAD.fullmatch(first) is not None


@dataclass(frozen=True, slots=True)
class _Lines:
    """The non-empty lines of a file, with their positions."""

    text: str
    source: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for number, line in numbered_lines(self.text):
            if line:
                yield f"line {number}", line

    def error(self, problem: str, place: str) -> InvalidModel:
        return InvalidModel(problem, source=self.source, place=place)

    def number(self, text: str, place: str, limit: int | None = None) -> int:
        if not _INTEGER.fullmatch(text):
            raise self.error(f"expected a whole number, found {text:.40}", place)
        if limit is not None and int(text) >= limit:
            raise self.error(f"unknown state {text}: there are {limit} states", place)
        return int(text)


def read_explicit(text: str, path: Path) -> Chain:
    """Reads the chain from a transition file and from any label and state files next to
    it.
    """
    rows, n = _transitions(_Lines(text, str(path)))
    values: dict[str, list[int | bool]] = {}
    labels: dict[str, set[int]] = {}
    beside = path.with_suffix(".sta")
    if beside.is_file():
        values = _states(_Lines(read_text(beside), str(beside)), n)
    beside = path.with_suffix(".lab")
    if beside.is_file():
        labels = _labels(_Lines(read_text(beside), str(beside)), n)
    return ForeignChain(n, rows, labels, values).chain(str(path))


def _transitions(lines: _Lines) -> tuple[dict[int, dict[int, Fraction]], int]:
    rest = iter(lines)
    place, head = next(rest)
    n = limit = declared = None
    if head != "dtmc":
        first, _, second = head.partition(" ")
        n = limit = lines.number(first, place)
        declared = lines.number(second.strip(), place)
        check_size(n, declared, lines.source)
    rows: dict[int, dict[int, Fraction]] = {}
    found = largest = 0
    for place, line in rest:
        fields = line.split()
        # PRISM may write an action as a fourth field.
        if not 3 <= len(fields) <= 4:
            raise lines.error(f"expected FROM TO PROBABILITY, found {line:.40}", place)
        state = lines.number(fields[0], place, limit)
        target = lines.number(fields[1], place, limit)
        row = rows.setdefault(state, {})
        if target in row:
            raise lines.error(
                f"the transition from {state} to {target} appears twice", place
            )
        row[target] = probability(fields[2], lines.source, place)
        found += 1
        if max(state, target) > largest:
            largest = max(state, target)
            check_size(largest + 1, found, lines.source)
    check_size(largest + 1, found, lines.source)
    if declared is not None and found != declared:
        raise InvalidModel(
            f"{declared} transitions are declared, but {found} are listed",
            source=lines.source,
            mend="the file may be truncated",
        )
    if n is None:
        n = largest + 1
    if not n:
        raise InvalidModel("the file contains no states", source=lines.source)
    return rows, n


def _states(lines: _Lines, n: int) -> dict[str, list[int | bool]]:
    rest = iter(lines)
    place, head = next(rest, ("line 1", ""))
    if not (head.startswith("(") and head.endswith(")")):
        raise lines.error(f"expected (variable,…), found {head:.40}", place)
    names = [name.strip() for name in head[1:-1].split(",")]
    rows: dict[int, list[int | bool]] = {}
    for place, line in rest:
        number, _, tuple_text = line.partition(":")
        state = lines.number(number, place, n)
        values = tuple_text.strip("() ").split(",")
        if len(values) != len(names) or not all(map(VALUE.fullmatch, values)):
            raise lines.error(f"expected {len(names)} values, found {line:.40}", place)
        if state in rows:
            raise lines.error(f"state {state} appears twice", place)
        rows[state] = [value_of(value) for value in values]
    if missing := set(range(n)) - rows.keys():
        raise lines.error(f"state {min(missing)} of {n} is missing", "end")
    return {name: [rows[i][at] for i in range(n)] for at, name in enumerate(names)}


def _labels(lines: _Lines, n: int) -> dict[str, set[int]]:
    rest = iter(lines)
    place, head = next(rest, ("line 1", ""))
    storm = head == "#DECLARATION"
    known: dict[str, str] = {}
    if storm:
        for _, line in rest:
            if line == "#END":
                break
            known |= {name: name for name in line.split()}
        else:
            raise lines.error("the declaration has no #END", place)
    else:
        known = dict(_LABEL_NUMBER.findall(head))
        if not known:
            raise lines.error(f'expected 0="init" …, found {head:.40}', place)
    labels: dict[str, set[int]] = {name: set() for name in known.values()}
    for place, line in rest:
        fields = line.split() if storm else line.replace(":", " ", 1).split()
        state = lines.number(fields[0], place, n)
        for field in fields[1:]:
            if field not in known:
                raise lines.error(f"unknown label {field:.40}", place)
            labels[known[field]].add(state)
    return labels
