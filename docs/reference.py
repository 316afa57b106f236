"""Generates the first page and the reference of the website, as a hook of mkdocs.yml.

The reference of commands is generated from click, the reference of files from the
schemas that read them, and the reference of Python from the packages' public names.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from forewarn.abstractions.serial import Strict
from forewarn.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
FRONTS = (
    "forewarn",
    "forewarn.plugins",
    "forewarn.plugins.carla",
    "forewarn.thor_bridge",
)
FORMATS = (
    ("abstractions.readers.json_lines", "the first line of a trace"),
    ("abstractions.abstraction", "predicates, and constraints on their values"),
    ("abstractions.vocabularies.vocabulary", "the signals of a domain"),
    ("monitors.laws.lawbook", "laws by name"),
    ("monitors.chains.formats.own", "a learned model"),
    ("monitors.guarding.policy", "interventions, and the risk at which each begins"),
    ("monitors.rules.rule", "rules that are evaluated in addition to the risk"),
    ("scenarios.schema", "a scenario"),
)
"""The modules with the schemas of users' files, and what each file contains."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to the website."""
    for name, made in (
        ("index.md", first_page()),
        ("reference/commands.md", "\n".join(commands())),
        ("reference/files.md", "\n".join(formats())),
        ("reference/python.md", "\n".join(names())),
    ):
        files.append(File.generated(config, name, content=made))
    return files


def first_page() -> str:
    """Returns the README, with links that are valid on the website."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    # A link to a file that is not a page of the website becomes plain text.
    return re.sub(r"\[([^\]]*)\]\([A-Z][A-Z.a-z]*\)", r"\1", text)


def commands() -> Iterator[str]:
    """Yields every command with its help."""
    yield "# Commands"
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None  # noqa: S101
        yield from _helped(command, f"forewarn {name}", 2)


def _helped(command: click.Command, path: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=path, max_content_width=88)
    yield f"\n{'#' * level} {path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None  # noqa: S101
            yield from _helped(inner, f"{path} {name}", level + 1)


def formats() -> Iterator[str]:
    """Yields every file format with its keys."""
    yield "# Files\n\nEvery file is YAML or JSON, and states its format in the key"
    yield "`format`. Unknown keys are rejected; the error message suggests the most"
    yield "similar key."
    for module, what in FORMATS:
        for schema in _schemas(f"forewarn.{module}"):
            (title,) = typing.get_args(schema.model_fields["format"].annotation)
            yield f"\n## {title}\n\n{what[0].upper()}{what[1:]}.\n"
            yield from _keys(schema, set())


def _schemas(module: str) -> Iterator[type[Strict]]:
    for each in vars(import_module(module)).values():
        if isinstance(each, type) and issubclass(each, Strict):
            field = each.model_fields.get("format")
            if field is not None and typing.get_args(field.annotation):
                yield each


def _keys(schema: type[Strict], told: set[type[Strict]]) -> Iterator[str]:
    told.add(schema)
    yield "| key | value | |\n|---|---|---|"
    parts: list[type[Strict]] = []
    for name, field in schema.model_fields.items():
        needed = "required" if field.is_required() else ""
        yield f"| `{field.alias or name}` | {_told(field.annotation)} | {needed} |"
        parts += [part for part in _parts(field.annotation) if part not in told]
    for part in dict.fromkeys(parts):
        yield f"\n**{part.__name__.strip('_')}**\n"
        yield from _keys(part, told)


def _told(annotation: Any) -> str:
    """Describes the type of a key's value."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _told(inside[0])
    if origin is typing.Literal:
        return " or ".join(map(str, inside))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_told, inside)))
    if origin in (list, tuple):
        return f"list of {_told(inside[0])}"
    if origin is dict:
        return f"{_told(inside[1])}, by name"
    name = getattr(annotation, "__name__", str(annotation)).strip("_")
    return _WORDS.get(name, name)


_WORDS = {
    "str": "text",
    "float": "number",
    "int": "whole number",
    "bool": "true or false",
    "NoneType": "null",
    "Any": "anything",
}


def _parts(annotation: Any) -> Iterator[type[Strict]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _parts(part)


def names() -> Iterator[str]:
    """Yields the docstring of every public name."""
    yield "# Python"
    for front in FRONTS:
        yield f"\n## {front}\n"
        package = import_module(front)
        for name in sorted(package.__all__):
            found = getattr(package, name)
            home = getattr(found, "__module__", None)
            if home is not None and not name.startswith("_"):
                yield f"\n::: {home}.{name}\n    options: {{heading_level: 3}}"
