"""A guard request as people write it: headings, tables, a rule on each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.text import clean

LONGEST_REQUEST = 200_000

_RULE_LINE = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<text>.+)")
_BAR = re.compile(r"\s*\|")
_RULER = re.compile(r"[\s|:-]+")


class InvalidRequest(InvalidInput):
    """A guard request that cannot be read, or not be compiled without a model."""


class Rule(NamedTuple):
    """One rule in words."""

    line: int
    text: str


class Table(NamedTuple):
    """One table: its head and its rows, each with its line."""

    line: int
    head: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A guard request.

    Args:
        title: Its first heading.
        text: All of it.
        rules: What stands in lists, a rule an entry.
        tables: Its tables.
    """

    title: str
    text: str
    rules: tuple[Rule, ...] = ()
    tables: tuple[Table, ...] = ()


def read_request(text: str, source: str) -> Request:
    """The request that a Markdown text holds.

    A text without any list or table is a list of rules by itself, a rule a line.

    Raises:
        InvalidRequest: It is empty or too long.
    """
    if len(text) > LONGEST_REQUEST:
        raise InvalidRequest(
            f"longer than the limit of {LONGEST_REQUEST} characters", source=source
        )
    text = clean(text.replace("\r\n", "\n"))
    lines = text.split("\n")
    title = next((n.lstrip("# ").strip() for n in lines if n.startswith("#")), "")
    tables = tuple(_tables(lines))
    rules = tuple(_listed(lines))
    if not rules and not tables:
        rules = tuple(
            Rule(number, line.strip())
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith("#")
        )
    if not rules and not tables:
        raise InvalidRequest("it asks for nothing", source=source)
    return Request(title, text, rules, tables)


def _listed(lines: list[str]) -> Iterator[Rule]:
    """The entries of lists; a line indented below one goes on with it."""
    entry: Rule | None = None
    for number, line in enumerate(lines, 1):
        if found := _RULE_LINE.fullmatch(line):
            if entry is not None:
                yield entry
            entry = Rule(number, found["text"].strip())
        elif entry is not None and line[:1] in (" ", "\t") and line.strip():
            entry = Rule(entry.line, f"{entry.text} {line.strip()}")
        elif entry is not None:
            yield entry
            entry = None
    if entry is not None:
        yield entry


def _tables(lines: list[str]) -> Iterator[Table]:
    start = 0
    while start < len(lines):
        if not _BAR.match(lines[start]):
            start += 1
            continue
        end = start
        while end < len(lines) and _BAR.match(lines[end]):
            end += 1
        cells = [
            (number + 1, _cells(lines[number]))
            for number in range(start, end)
            if not _RULER.fullmatch(lines[number])
        ]
        if cells:
            (line, head), *rows = cells
            yield Table(line, head, tuple(rows))
        start = end


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip("`") for cell in line.strip().strip("|").split("|"))
