"""Finds the calls and arguments that a sentence about an agent's tools refers to."""

from __future__ import annotations

import ast
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput, near_miss, suggest
from forewarn.abstractions.files import read_yaml
from forewarn.monitors.programs.asking import words_of
from forewarn.monitors.programs.expressions import INPUTS
from forewarn.monitors.programs.functions import CONTACTS, parts

SENTENCES = read_yaml(Path(__file__).with_name("sentences.yaml"))
"""The forms and words of requests that consist of sentences."""

_MORE, _LESS = ("more than", "over", "above"), ("less than", "under", "below")
_HOW = re.compile(
    rf"(?P<deed>.+?) (?P<how>to|from|into|in|on|at|{'|'.join(_MORE + _LESS)})"
    r" (?P<what>.+)"
)
_WHOM = re.compile(r"(?P<deed>.+) (?P<what>(?:a )?strangers?)")
_STRANGERS = ("stranger", "strangers", "a stranger")
_ARGUMENTS = {
    how: set(names.split())
    for prepositions, names in SENTENCES["arguments"].items()
    for how in prepositions.split(", ")
}
_SAME = [set(words.split()) for words in SENTENCES["same"]]
_ARTICLES = {"a", "an", "the", "any"}


class Tool(NamedTuple):
    """An agent's tool: its name, description and arguments."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


class NotATool(Exception):
    """A phrase matches no tool, or no argument of a tool."""


def tools_of(content: object, source: str) -> list[Tool]:
    """Parses a list of tools in the format of MCP servers and model providers."""
    listed = content.get("tools") if isinstance(content, Mapping) else content
    found = [_tool(each) for each in listed] if isinstance(listed, list) else []
    tools = [each for each in found if each is not None]
    if not tools or len(tools) < len(found):
        raise InvalidInput(
            "expected a list of tools, each with a name",
            source=source,
            mend='[{"name": …, "description": …, "inputSchema": {"properties": …}}]',
        )
    return tools


def _tool(entry: Any) -> Tool | None:
    given = entry.get("function", entry) if isinstance(entry, Mapping) else {}
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return None
    schema = given.get("inputSchema") or given.get("parameters") or {}
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    named = properties if isinstance(properties, Mapping) else ()
    return Tool(given["name"], str(given.get("description") or ""), tuple(named))


def tests_of(text: str, tools: Sequence[Tool]) -> list[str]:
    """Returns the tests for a phrase that names a call and arguments."""
    found = _HOW.fullmatch(text) or _WHOM.fullmatch(text)
    said = found.groupdict() if found else {"deed": text}
    deed, how = said["deed"], said.get("how", "to")
    what = said.get("what", "").strip("'\"")
    meant = [tool for tool in tools if _does(tool, deed)]
    if not meant:
        names = ", ".join(tool.name for tool in tools)
        raise NotATool(f"no tool matches {deed!r:.60}; the tools are {names:.200}")
    tests = [test for tool in meant if (test := _test(tool, how, what))]
    if not tests:
        has = ", ".join(meant[0].arguments) or "none"
        raise NotATool(
            f"{meant[0].name} has no argument for {f'{how} {what}'!r:.60}; it has {has}"
        )
    return [_either(tests)]


def _does(tool: Tool, deed: str) -> bool:
    """Whether a tool's name or description contains the words of an action."""
    first = words_of(tool.description.partition(".")[0]).split()
    name = parts(tool.name).split()
    verb, *things = (w for w in words_of(deed).split() if w not in _ARTICLES) or [""]
    forms = {verb}
    if verb.endswith("ing"):
        forms |= {verb[:-3], f"{verb[:-3]}e", verb[:-4]}
    about = {*name, *first, *(w for a in tool.arguments for w in parts(a).split())}
    return any(_alike(form) & {*name, *first[:1]} for form in forms) and all(
        _alike(thing) & about for thing in things
    )


def _alike(word: str) -> set[str]:
    return {word}.union(*(same for same in _SAME if word in same))


def _test(tool: Tool, how: str, what: str) -> str:
    """Returns the test for a call of a tool; empty if the tool has no argument to
    test.
    """
    called = f"Calls(action, {json.dumps(tool.name)})"
    if not what:
        return called
    wanted = _ARGUMENTS[how]
    named = [a for a in tool.arguments if wanted.intersection(parts(a).split())]
    tests = [_about(f"Argument(action, {json.dumps(a)})", how, what) for a in named]
    return f"{called} and {_either(tests)}" if tests else ""


def _either(tests: Sequence[str]) -> str:
    return tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"


def _about(argument: str, how: str, what: str) -> str:
    if how in _MORE + _LESS:
        if not re.fullmatch(r"\d{1,15}(\.\d+)?", what):
            raise NotATool(f"{what!r:.60} is not a plain number")
        return f"{argument} {'>' if how in _MORE else '<'} {what}"
    if what in _STRANGERS:
        return f"not Knows(user, {argument})"
    return f"Names({argument}, {json.dumps(what, ensure_ascii=False)})"


def check_program(
    program: str, name: str, tools: Mapping[str, Collection[str]]
) -> None:
    """Raises an error if a program names a tool or an argument that does not exist."""
    arguments = {each for given in tools.values() for each in given}
    for kind, called in _named(program):
        there = tools if kind == "Calls" else arguments
        if called not in there:
            what = "tool has" if kind == "Calls" else "tool has an argument with"
            raise InvalidInput(
                f"it refers to {called!r:.60}, but no {what} that name",
                source=f"the guard program {name}",
                mend=suggest(called, there),
            )


def check_facts(program: str, facts: Mapping[str, Any], source: str) -> None:
    """Raises an error if a program does not read a given fact, but lacks another; logs
    the facts that it lacks.
    """
    nodes = list(ast.walk(ast.parse(program)))
    for name, given in {"user": {}, "place": {}, **facts}.items():
        if name not in INPUTS:
            mend = near_miss(name, INPUTS) or f'write {{"user": {{"{name}": …}}}}'
            raise InvalidInput(f"unknown fact {name!r:.60}", source=source, mend=mend)
        uses = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
        keys = []
        for node in nodes:
            match node:
                case ast.Subscript(
                    value=ast.Name(id=owner), slice=ast.Constant(value=str(key))
                ) if owner == name:
                    keys.append(key)
                case ast.Call(
                    func=ast.Name(id="Knows"), args=[ast.Name(id=owner), *_]
                ) if owner == name:
                    keys.append(CONTACTS)
        # A function that receives all facts may read any of them.
        if len(keys) < uses or not keys:
            continue
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"{name}: expected a mapping, found {given!r:.60}",
                source=source,
                mend=f'write {{"{keys[0]}": {given!r:.60}}}',
            )
        lacking = [key for key in keys if key not in given]
        unread = [key for key in given if key not in keys]
        if lacking and unread:
            raise InvalidInput(
                f"the program does not read {unread[0]!r:.60} of the {name}",
                source=source,
                mend=near_miss(unread[0], lacking) or f"it reads {', '.join(keys)}",
            )
        for key in dict.fromkeys(lacking):
            logging.getLogger(__name__).warning(
                '%s: the program reads %s["%s"], which is not given (give --%s %s=…, '
                'or facts={"%s": {"%s": …}})',
                source, name, key, name, key, name, key,
            )  # fmt: skip
        _warn_of_misspelt(nodes, name, given, source)


def _warn_of_misspelt(
    nodes: Sequence[ast.AST], name: str, given: Mapping[str, Any], source: str
) -> None:
    """Logs the values of a fact that are almost those that the program tests."""
    for key, value in given.items():
        read = f"{name}[{key!r}]"
        tested = [
            each.value
            for node in nodes
            if isinstance(node, ast.Call | ast.Compare)
            and any(ast.unparse(part) == read for part in ast.iter_child_nodes(node))
            for each in ast.walk(node)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        known = isinstance(value, str) and value.casefold() in map(str.casefold, tested)
        if not known and (mend := near_miss(str(value), tested)):
            logging.getLogger(__name__).warning(
                "%s: the program does not mention %s's %s %r (%s)",
                source, name, key, value, mend,
            )  # fmt: skip


def _named(program: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(
                func=ast.Name(id="Calls" | "Argument" as kind),
                args=[_, ast.Constant(value=str(called))],
            ):
                yield kind, called
