"""Dataclasses to JSON and back, by their own fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from forewarn.abstractions.errors import InvalidInput

_Value = TypeVar("_Value")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_json(value: object, *, sparse: bool = False) -> Any:
    """Return what JSON holds of a dataclass: its fields, tuples as lists.

    Args:
        value: A dataclass whose field types can be resolved at run time.
        sparse: Leave out fields that have their default value.
    """
    adapter = _adapter(type(value))
    return adapter.dump_python(value, mode="json", exclude_defaults=sparse)


def from_json(
    kind: type[_Value],
    content: object,
    source: str = "",
    error: type[InvalidInput] = InvalidInput,
) -> _Value:
    """Return the dataclass that `to_json` wrote.

    Args:
        kind: The dataclass.
        content: What the JSON holds.
        source: The file it came from, for the message.
        error: The kind of error to raise.

    Raises:
        InvalidInput: A field is missing or has the wrong type.
    """
    try:
        value: _Value = _adapter(kind).validate_python(content)
    except ValidationError as failure:
        first = failure.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = first["msg"][0].lower() + first["msg"][1:]
        raise error(problem, source=source, place=place) from failure
    return value
