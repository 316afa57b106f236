"""The roles of tools' arguments, such as a command, SQL, a URL, a path or code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import read_yaml

Role = Literal["shell", "sql", "url", "path", "code", "object", "receptacle"]
ROLES: tuple[Role, ...] = get_args(Role)

_WORDS = read_yaml(Path(__file__).with_name("arguments.yaml"))
USUAL: Mapping[str, Role] = {
    name: role for role, names in _WORDS["roles"].items() for name in names.split()
}
"""The default role of arguments, by name."""

_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*|[A-Z]+(?![a-z])")
_RUNS_PYTHON = frozenset(_WORDS["runs_python"].split())
_RUNS_SHELL = frozenset(_WORDS["runs_shell"].split())
_SQL = re.compile(
    r"""(\s|\(|--[^\n]*\n|/\*[^*]*\*/)*
    (select\b|explain\s+(query\s+plan\s+|analyze\s+)?select\b
    |with\s+(recursive\s+)?["`\w]+\s*(\([^()]*\)\s*)?as\s*(materialized\s*)?\(
    |(insert|replace)\s+(or\s+\w+\s+)?into\b|delete\s+from\b|update\b
    |create\s+(temp\w*\s+)?(table|view)\s+\S+\s+as\b|(begin|pragma)\b[^;]*;)""",
    re.IGNORECASE | re.VERBOSE,
)


def looks_like_sql(text: str) -> bool:
    """Whether a text begins like an SQL statement."""
    return _SQL.match(text) is not None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The roles of tools' arguments that differ from the default ones, by `argument` or
    by `tool.argument`.
    """

    named: Mapping[str, Role] = field(default_factory=dict)

    def role(self, tool: str, argument: str) -> Role | None:
        """Returns the role of an argument; None if unknown."""
        for name in (f"{tool}.{argument}", argument):
            if name in self.named:
                return self.named[name]
        key = argument.casefold()
        if key != "query" and key in USUAL:
            return USUAL[key]
        words = {word.casefold() for word in _WORD.findall(tool)}
        if words & _RUNS_PYTHON:
            return "code"
        return USUAL.get(key) or ("shell" if words & _RUNS_SHELL else None)

    def texts(
        self, tool: str, given: Mapping[str, object]
    ) -> Iterator[tuple[Role | None, str]]:
        """Yields every text in the arguments, at any depth, with its role."""
        yield from self._texts(tool, "", given, None)

    def _texts(
        self, tool: str, name: str, value: object, above: Role | None
    ) -> Iterator[tuple[Role | None, str]]:
        # A role also applies to all nested values that have no role of their own.
        role = (self.role(tool, name) if name else None) or above
        if isinstance(value, str):
            yield role, value
        elif isinstance(value, Mapping):
            for key, part in value.items():
                yield from self._texts(tool, str(key), part, role)
        elif isinstance(value, list | tuple):
            if value and role == "shell" and all(isinstance(p, str) for p in value):
                yield role, " ".join(value)
                return
            for part in value:
                yield from self._texts(tool, name, part, role)

    def about(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the arguments, with the thing or receptacle also as `object`."""
        if "object" in given:
            return given
        roles: tuple[Role, ...] = ("object", "receptacle")
        for role in roles:
            for name, value in given.items():
                if self.role(tool, name) == role:
                    return {**given, "object": value}
        return given

    def has(self, tools: Mapping[str, Collection[str]], roles: Sequence[Role]) -> bool:
        """Whether an argument of any tool has one of these roles."""
        return any(
            self.role(tool, argument) in roles
            for tool, arguments in tools.items()
            for argument in arguments
        )


def arguments_of(content: Mapping[str, Sequence[str]]) -> Arguments:
    """Creates `Arguments` from a file's mapping of roles to argument names."""
    named: dict[str, Role] = {}
    for role, names in content.items():
        if role not in ROLES:
            mend = near_miss(role, ROLES) or f"choose one of {', '.join(ROLES)}"
            raise InvalidInput(f"{role!r:.40} is not a role of an argument", mend=mend)
        for name in names:
            if named.setdefault(name, role) != role:
                problem = f"{name!r:.60} is both {named[name]} and {role}"
                raise InvalidInput(problem, mend="give each argument one role")
    return Arguments(named)
