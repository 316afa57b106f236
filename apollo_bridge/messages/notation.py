"""A short notation for protobuf messages, turned into file descriptors.

    file modules/common_msgs/basic_msgs/geometry.proto apollo.common
    message PointENU
      1 x double = nan
      2 y double = nan
    message Polygon
      1 point repeated PointENU
    enum Colour RED=1 GREEN=2

A field is a number, a name, perhaps `repeated` or `required`, a type, perhaps a default
behind `=`, perhaps `in` and the name of its oneof. What is nested has its parent's name
before it: `Chassis.GearPosition`. A type is looked up in its message, its package and
above, as protobuf does. Imports follow from the types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8,
    "string": 9, "bytes": 12, "uint32": 13,
}  # fmt: skip
_MESSAGE, _ENUM = 11, 14


def file_descriptors(texts: tuple[str, ...]) -> list[Any]:
    """The file descriptors that the texts hold, those first that others import."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    files: dict[str, Any] = {}
    homes: dict[str, tuple[str, int]] = {}
    fields: list[tuple[Any, str, Any, str]] = []
    for number, words in _lines(texts):
        try:
            if words[0] == "file":
                _, path, package = words
                file = files[path] = FileDescriptorProto(
                    name=path, package=package, syntax="proto2"
                )
                made: dict[str, Any] = {}
            elif words[0] == "message":
                outer, _, inner = words[1].rpartition(".")
                kind = made[outer].nested_type if outer else file.message_type
                message = made[words[1]] = kind.add(name=inner)
                scope = f".{file.package}.{words[1]}"
                homes[scope] = file.name, _MESSAGE
            elif words[0] == "enum":
                outer, _, inner = words[1].rpartition(".")
                holder = made[outer] if outer else file
                values = holder.enum_type.add(name=inner).value
                for word in words[2:]:
                    name, _, value = word.partition("=")
                    values.add(name=name, number=int(value))
                homes[f".{file.package}.{words[1]}"] = file.name, _ENUM
            else:
                field, kind_name = _field(words, message)
                fields.append((file, scope, field, kind_name))
        except (KeyError, ValueError, IndexError, UnboundLocalError) as error:
            raise ValueError(f"line {number}: {' '.join(words)}") from error
    for file, scope, field, kind_name in fields:
        _resolve(file, scope, field, kind_name, homes)
    return list(_in_order(files))


def _lines(texts: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    for text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            if words := line.split():
                yield number, words


def _field(words: list[str], message: Any) -> tuple[Any, str]:
    number, name, *rest = words
    label = _LABELS[rest.pop(0)] if rest[0] in _LABELS else _LABELS["optional"]
    kind, *rest = rest
    field = message.field.add(name=name, number=int(number), label=label)
    while rest:
        word, value, *rest = rest
        if word == "=":
            field.default_value = value
        elif word == "in":
            known = [oneof.name for oneof in message.oneof_decl]
            if value not in known:
                message.oneof_decl.add(name=value)
                known.append(value)
            field.oneof_index = known.index(value)
        else:
            raise ValueError(word)
    return field, kind


def _resolve(
    file: Any, scope: str, field: Any, kind: str, homes: dict[str, tuple[str, int]]
) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    while f"{scope}.{kind}" not in homes:
        if not scope:
            raise ValueError(f"{file.name}: {field.name} has the unknown type {kind}")
        scope = scope.rpartition(".")[0]
    field.type_name = f"{scope}.{kind}"
    home, field.type = homes[field.type_name]
    if home != file.name and home not in file.dependency:
        file.dependency.append(home)


def _in_order(files: dict[str, Any]) -> Iterator[Any]:
    done: set[str] = set()

    def visit(name: str) -> Iterator[Any]:
        if name in done:
            return
        done.add(name)
        for other in files[name].dependency:
            yield from visit(other)
        yield files[name]

    for name in files:
        yield from visit(name)
