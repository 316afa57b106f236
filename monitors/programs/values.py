"""The values of guard programs, which are JSON values: sizes and comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from forewarn.abstractions.errors import ForewarnError

Value: TypeAlias = Any
"""None, a bool, a number, a string, a list, or a mapping with strings as keys.
"""

DEEPEST = 20
"""The maximum nesting depth of values."""

LONGEST_TEXT = 200_000
"""The maximum length of a text that a program can receive, in characters."""

CHARACTERS_A_STEP = 64

ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

_SMALL = frozenset((int, float, bool, type(None)))


class ProgramFault(ForewarnError):
    """A program fails, so the action is denied."""


def weigh(value: Value, limit: int) -> int:
    """Returns the number of steps for inspecting a whole value.

    Raises a fault if the value is larger than `limit`, nested too deep, or of an
    unsupported type.
    """
    if type(value) in _SMALL:
        return 1
    weight = 0
    pending: list[tuple[Value, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        weight += 1
        if isinstance(item, str):
            if len(item) > LONGEST_TEXT:
                raise ProgramFault(f"a string is longer than {LONGEST_TEXT} characters")
            weight += len(item) // CHARACTERS_A_STEP
        elif type(item) in _SMALL:
            pass
        elif isinstance(item, dict | Mapping):
            weight += len(item)
            if weight <= limit:
                pending += [(part, depth + 1) for part in item.values()]
                for key in item:
                    if not isinstance(key, str):
                        raise ProgramFault("a mapping has a key that is not text")
                    weight += len(key) // CHARACTERS_A_STEP
        elif isinstance(item, list | tuple):
            weight += len(item)
            if weight <= limit:
                pending += [(part, depth + 1) for part in item]
        elif item is not None and not isinstance(item, bool | int | float):
            raise ProgramFault(
                f"a program cannot use a value of type {type(item).__name__}"
            )
        if weight > limit:
            raise ProgramFault(
                "a value is too large for the steps that the program has left"
            )
        if depth > DEEPEST:
            raise ProgramFault(f"values are nested more than {DEEPEST} levels deep")
    return weight


def kind(value: Value) -> str:
    """Describes the kind of a value."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a mapping" if isinstance(value, Mapping) else "a list"


@lru_cache(maxsize=16384)
def plain(name: str) -> str:
    """Normalizes a name for comparisons, which ignore case, and treat spaces, hyphens
    and underscores as equal.
    """
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def names_of(value: Value, what: str) -> Sequence[str]:
    """Returns a list of names; accepts a single name; anything else is a fault."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(n, str) for n in value):
        return value
    raise ProgramFault(f"{what} is {kind(value)}, not a list of names")


def mapping_of(value: Value, what: str) -> Mapping[str, Any]:
    """Returns a mapping; anything else is a fault."""
    if isinstance(value, Mapping):
        return value
    raise ProgramFault(f"{what} is {kind(value)}, not a mapping")


def text_of(value: Value, what: str) -> str:
    """Returns a text; anything else is a fault."""
    if isinstance(value, str):
        return value
    raise ProgramFault(f"{what} is {kind(value)}, not text")
