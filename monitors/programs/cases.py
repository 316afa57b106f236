"""Cases: what an agent was about to do, for whom, and what a guard must say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.abstractions.schema import Strict, validated
from forewarn.monitors.programs.expressions import INPUTS
from forewarn.monitors.programs.values import Value

CaseKind = Literal["access", "rules"]


@dataclass(frozen=True, slots=True)
class Case:
    """One action to judge, with what is known to be right, if it is.

    Args:
        name: What it is called.
        inputs: What a program is handed.
        group: Whom or what it is about: a role, a rule.
        label: 0 to let it pass, 1 not to; None: nobody has said.
        details: What is denied of it, where it is labelled 1.
        answered: Whether the agent's final answer is right; None: nobody has said.
    """

    name: str
    inputs: Mapping[str, Value]
    group: str = ""
    label: int | None = None
    details: Value = None
    answered: bool | None = None


class _AccessLine(Strict):
    id: str
    identity: str
    required: dict[str, list[str]]
    question: str = ""
    log: str = ""
    label: Literal[0, 1] | None = None
    inaccessible_db: dict[str, list[str]] = {}
    answer_right: bool | None = None


class _ActionLine(Strict):
    id: str | int | None = None
    user: dict[str, Any] | None = None
    action: dict[str, Any] | None = None
    frame: dict[str, Any] | None = None
    request: str | None = None
    log: str | None = None
    needed: dict[str, list[str]] | None = None
    place: dict[str, Any] | None = None
    holds: dict[str, bool] | None = None
    label: Literal[0, 1] | None = None
    violated: list[str] = []
    group: str = ""
    answer_right: bool | None = None


@dataclass(frozen=True, slots=True)
class _Reader:
    source: str
    names: set[str] = field(default_factory=set)

    def case(self, kind: CaseKind, text: str, number: int) -> Case:
        place = f"line {number}"
        content = parse_json(text, self.source, place)
        where = f"{self.source}: {place}"
        if kind == "access":
            case = _access(validated(_AccessLine, content, where))
        else:
            case = _acting(validated(_ActionLine, content, where), number)
        if case.name in self.names:
            raise InvalidInput(f"two cases are called {case.name!r}", source=where)
        self.names.add(case.name)
        return case


def read_cases(path: Path, kind: CaseKind) -> Iterator[Case]:
    """The cases of a JSON Lines file, one by one.

    Raises:
        InvalidInput: A line breaks the schema; names it.
    """
    reader = _Reader(str(path))
    for number, text in enumerate(read_lines(path), 1):
        if text.strip():
            yield reader.case(kind, text, number)


def parse_case(text: str, source: str) -> Case:
    """One action by itself, as a line of `check` has it."""
    content = parse_json(text, source)
    return _acting(validated(_ActionLine, content, source), 1)


def _access(line: _AccessLine) -> Case:
    return Case(
        line.id,
        {
            "user": {"role": line.identity},
            "request": line.question,
            "log": line.log,
            "needed": line.required,
        },
        line.identity,
        line.label,
        line.inaccessible_db,
        line.answer_right,
    )


def _acting(line: _ActionLine, number: int) -> Case:
    found = {name: getattr(line, name) for name in INPUTS}
    inputs = {name: value for name, value in found.items() if value is not None}
    name = str(number if line.id is None else line.id)
    return Case(name, inputs, line.group, line.label, line.violated, line.answer_right)
