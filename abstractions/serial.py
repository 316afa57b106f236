"""Validates the content of files, and converts dataclasses to JSON and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails

from forewarn.abstractions.errors import InvalidInput, near_miss, suggest

MAX_ERRORS = 1_000
"""The maximum number of errors to describe, because a description takes a thousand
times as much memory as the wrong item.
"""


def _adapt(schema: Any) -> None:
    """Makes the validation of lists and mappings stop at the first wrong item, and
    accepts lists as tuples.
    """
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "dict", "set"):
            schema["fail_fast"] = True
        if schema.get("type") == "tuple":
            schema["strict"] = False
        for part in schema.values():
            _adapt(part)
    elif isinstance(schema, list):
        for part in schema:
            _adapt(part)


class Strict(BaseModel):
    """The base class of file schemas: rejects unknown keys and does not convert
    types, except lists to tuples.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        _adapt(schema)
        return schema


_Model = TypeVar("_Model", bound=BaseModel)


def validated(
    model: type[_Model],
    data: object,
    source: str,
    error: type[InvalidInput] = InvalidInput,
) -> _Model:
    """Validates data against a schema; raises an error for the first problem.

    Args:
        data: The content of the file.
        source: The name of the file, for error messages.
        error: The class of error to raise.
    """
    as_json = not source or ".json" in source
    if not isinstance(data, dict):
        kind = "nothing" if data is None else f"a {type(data).__name__}"
        kind = "text" if isinstance(data, str) else kind
        wanted = next(iter(model.model_fields))
        literal = _literal_at(model, ("format",))
        raise error(
            f"expected a mapping, found {kind}",
            source=source,
            mend=f'begin with {{"{wanted}": …'
            if as_json
            else f"give a file that begins with `{wanted}: {literal or '…'}`",
        )
    _check_format(model, data, source, error)
    try:
        return model.model_validate(data)
    except ValidationError as failure:
        if failure.error_count() > MAX_ERRORS:
            problem = f"the file has {failure.error_count()} errors"
            raise error(problem, source=source) from None
        first = failure.errors()[0]
        # Report a misspelled key first, because it also causes a "missing" error.
        for candidate in failure.errors():
            if candidate["type"] == "extra_forbidden":
                first = candidate
                break
        if isinstance(first["input"], dict | list) and first["type"] in _SCALARS:
            first = _closest(first, failure)
        place = ".".join(_keys_in(first, data))
        beside = [e for e in failure.errors() if e["loc"][:-1] == first["loc"][:-1]]
        kinds = {each["type"] for each in beside}
        if first["type"] == "string_type" and "callable_type" in kinds:
            problem = f"expected a name or a function, found {first['input']!r:.60}"
            mend = "write package.module:name, or $here/file.py:name"
            raise error(problem, source=source, place=place, mend=mend) from failure
        if isinstance(first["input"], dict) and {"string_type", "list_type"} <= kinds:
            problem = "expected text or a list, found a mapping"
            mend = "write the text without a colon, or put it in quotes"
            raise error(problem, source=source, place=place, mend=mend) from failure
        problem, mend = _explain(first, model, place.rpartition(".")[2])
        if as_json:
            mend = _in_json(mend, first["input"])
        if also := list(_missing_beside(first, failure)):
            mend += f"; also missing: {', '.join(also)}"
        raise error(problem, source=source, place=place, mend=mend) from failure


_BARE_KEY = re.compile(r"\b([A-Za-z_]\w*): ")


def _in_json(mend: str, given: object) -> str:
    """Rewrites a hint on YAML for a JSON file or message."""
    if isinstance(given, dict) and mend.startswith("begin each entry with a dash"):
        return f"write {json.dumps([*given][:3])}" if given else "write []"
    if mend.startswith("write ["):
        return f"write [{json.dumps(given)}]"
    if mend.startswith("write "):
        return _BARE_KEY.sub(r'"\1": ', mend).replace("`", "")
    return mend


def _missing_beside(first: ErrorDetails, failure: ValidationError) -> Iterator[str]:
    """Yields the other keys that are missing in the same place, if a key is missing."""
    for each in failure.errors() if first["type"] == "missing" else ():
        beside = each["loc"] != first["loc"] and each["loc"][:-1] == first["loc"][:-1]
        if each["type"] == "missing" and beside:
            yield str(each["loc"][-1])


def _closest(first: ErrorDetails, failure: ValidationError) -> ErrorDetails:
    """Returns the error to report for a value that fits none of several types.

    An error inside a mapping or list is preferred to a wrong plain type.
    """
    place = first["loc"][:-1]
    beside = [e for e in failure.errors() if e["loc"][: len(place)] == place]
    return max(beside, key=lambda e: (e["type"] not in _SCALARS, len(e["loc"])))


def _keys_in(details: ErrorDetails, data: object) -> Iterator[str]:
    """Yields the keys of an error's path, without the type names that pydantic adds."""
    *above, last = details["loc"] or ("",)
    for part in above:
        if isinstance(data, Mapping):
            known = {str(key): value for key, value in data.items()}
            if str(part) not in known:
                continue
            data = known[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        yield str(part)
    inside = isinstance(data, Mapping) and str(last) in map(str, data)
    if inside or isinstance(last, int) or details["type"] == "missing":
        yield str(last)


_TAKEN_BY = {
    "abstraction": "--abstraction",
    "guard-program": "--guard-program",
    "laws": "--book",
    "model": "--model",
    "policy": "--policy",
    "predicates": "--predicates",
    "rules": "--rules",
    "scenario": "`forewarn run`",
    "tally": "`forewarn merge-tallies`",
    "topics": "--topics",
    "vocabulary": "--vocabulary",
}
"""The option or command that takes a file of each format."""


def _check_format(
    model: type[BaseModel],
    data: Mapping[str, Any],
    source: str,
    error: type[InvalidInput],
) -> None:
    """Rejects a file of a different format, before its keys are checked."""
    given, wanted = data.get("format"), _literal_at(model, ("format",))
    if not wanted or not isinstance(given, str) or "/" not in given:
        return
    kind, other = wanted.partition("/")[0], given.partition("/")[0]
    if other != kind and other.startswith("forewarn."):
        mend = "give a different file"
        if option := _TAKEN_BY.get(other.removeprefix("forewarn.")):
            mend += f"; {option} takes this one"
        raise error(
            f"the file has the format {given!r:.60}, but {wanted!r} is needed",
            source=source,
            place="format",
            mend=mend,
        )


def _explain(
    details: ErrorDetails, model: type[BaseModel], key: str
) -> tuple[str, str]:
    """Returns the problem and its fix; `key` is the last key in the error's place."""
    kind = details["type"]
    if kind == "extra_forbidden":
        known = _keys_at(model, details["loc"][:-1])
        mend = suggest(key, known) or "remove it: no key is allowed here"
        return f"unknown key {key!r}", mend
    if kind == "missing":
        literal = _literal_at(model, details["loc"])
        return "this key is missing", f"write `{key}: {literal or '…'}`"
    if kind == "literal_error":
        given = str(details["input"])
        expected = details["ctx"]["expected"]
        mend = near_miss(given, re.findall(r"'([^']*)'", expected))
        return f"{given!r:.60} is not {expected}", mend or f"write {expected}"
    if kind in ("value_error", "assertion_error"):
        return str(details["ctx"]["error"]), ""
    if kind == "model_type" and (keys := _keys_at(model, details["loc"])):
        written = ", ".join(f"{key}: …" for key in keys[:3])
        return _said(details), f"write {key}: {{{written}}}"
    given = details["input"]
    if kind == "list_type" and isinstance(given, dict) and given:
        # A mapping by name, or a single entry without its dash.
        for first in _keys_at(model, details["loc"])[:1]:
            name, value = next(iter(given.items()))
            if first in given or not isinstance(value, str):
                example = f"- {first}: {given.get(first, name)!s:.60}"
                mend = f"begin each entry with a dash, as in `{example}`"
                return _said(details), mend
    return _said(details), _written(kind, details, key)


_QUANTITY = re.compile(r"(-?\d+\.?\d*)\s*(\S*)")
"""A number that may be followed by a unit."""

_SCALARS = (
    "string_type", "bool_type", "int_type", "float_type", "literal_error",
    "callable_type",
)  # fmt: skip

_KINDS = {
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
"""The expected value in plain words, for each type error of pydantic."""


def _said(details: ErrorDetails) -> str:
    """Returns the message of an error, with the value that was found."""
    given = details["input"]
    if isinstance(given, dict):
        found = "a mapping"
    elif isinstance(given, list | tuple):
        found = "a list"
    else:
        found = "nothing" if given is None else f"{given!r:.60}"
    if expected := _KINDS.get(details["type"]):
        return f"expected {expected}, found {found}"
    if details["type"] == "too_short" and not given:
        return "expected at least one entry, found none"
    message = details["msg"]
    message = message[0].lower() + message[1:]
    if message.startswith("input should"):
        return f"the value {message.removeprefix('input ')}, but is {found}"
    return message


def _written(kind: str, details: ErrorDetails, key: str) -> str:
    """Returns a hint on how to write the expected value; empty if there is none."""
    given = details["input"]
    if kind in ("list_type", "tuple_type") and isinstance(given, str | int | float):
        listed = isinstance(given, str) and "," in given and not set(given) & {*'()"'}
        return f"write [{given:.60}]" if listed else f"write [{given!r:.60}]"
    if kind == "string_type" and isinstance(given, bool):
        return f'put the word in quotes, as in "{"on" if given else "no"}"'
    if kind == "bool_type" and isinstance(given, str):
        return "write true or false without quotes"
    if kind == "string_type" and isinstance(given, int | float):
        return f'write "{given}"'
    number = isinstance(given, str) and _QUANTITY.fullmatch(given)
    if kind in ("float_type", "int_type") and number:
        value, unit = number.groups()
        if unit == "ms" and key.endswith("_s"):
            return f"write {float(value) / 1000:g}: the unit is s"
        if not unit or key.endswith(f"_{unit}"):
            return f"write {value} without quotes or unit"
        return "write only the number, in the documented unit"
    if kind in ("list_type", "tuple_type") and isinstance(given, dict):
        first = next(iter(given.values()), None)
        example = f", as in `- {first:.60}`" if isinstance(first, str) else ""
        return f"begin each entry with a dash{example}"
    if kind == "string_type" and isinstance(given, dict):
        return "put the whole text in quotes, because it contains a colon"
    if kind == "string_type" and isinstance(given, list) and given:
        only = "one value" if len(given) > 1 else repr(given[0])
        return f"write {only:.60} without brackets"
    if kind == "dict_type" and key:
        return f"write {key}: {{key: value}}"
    return ""


def _literal_at(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Returns the first allowed value of a literal field at `path`; empty for other
    fields.
    """
    field = model.model_fields.get(str(path[-1])) if len(path) == 1 else None
    if field is None or get_origin(field.annotation) is not Literal:
        return ""
    return str(get_args(field.annotation)[0])


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Returns the keys that the schema allows at `path`."""
    here: Any = model
    for part in path:
        if _is_model(here):
            field = here.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            # `part` is a key of dict[str, Model] or an index of list[Model].
            here = _last_argument(here)
    while here is not None and not _is_model(here):
        here = _last_argument(here)
    return list(here.model_fields) if here else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _last_argument(annotation: Any) -> Any:
    arguments = [a for a in get_args(annotation) if a is not type(None)]
    return arguments[-1] if arguments else None


_Value = TypeVar("_Value")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_json(value: object) -> dict[str, Any]:
    """Returns the fields of a dataclass as JSON, with tuples as lists.

    The types of the fields must be resolvable at run time.
    """
    found: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json")
    return found


def from_json(kind: type[_Value], content: object, source: str = "") -> _Value:
    """Returns the dataclass that `to_json` converted to JSON.

    Args:
        kind: The class to return.
        content: The parsed JSON.
        source: The name of the file, for error messages.

    Raises:
        InvalidInput: A field is missing or has the wrong type.
    """
    try:
        value: _Value = _adapter(kind).validate_python(content)
    except ValidationError as failure:
        first = failure.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(_said(first), source=source, place=place) from failure
    return value
