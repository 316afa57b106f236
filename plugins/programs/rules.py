"""Rules in a guard with users' predicates in Python.

The functions of a user's file run in a separate process. As in AgentSpec, they take
`(user_input, tool_input, intermediate_steps)` or `(action_input, ctx)`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, SignalFault, naming
from forewarn.abstractions.files import read_yaml
from forewarn.monitors.programs.values import ProgramFault
from forewarn.monitors.rules.judging import PREDICATES, RuleJudge
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Event, Holds, Library, Predicate
from forewarn.monitors.rules.rule import RuleSet, load_rules, rules_of
from forewarn.plugins.programs.apart import Cell, cell_of


def add_functions(
    known: Library, sources: Mapping[str, str], replaces: bool = False
) -> Library:
    """Returns the library with the predicates of Python sources, given by file name.

    With `replaces`, as in AgentSpec's own matching, a function replaces the built-in
    predicate of the same name.
    """
    if not sources:
        return known
    cell = cell_of(sources)
    found = {
        name: Predicate(name, of.about, _asking(cell, name, len(of.parameters)))
        for name, of in cell.functions.items()
        if of.plain and len(of.parameters) in (2, 3)
    }
    both = [known.predicates, found] if replaces else [found, known.predicates]
    return replace(known, predicates={**both[0], **both[1]})


def _asking(cell: Cell, name: str, parameters: int) -> Holds:
    as_theirs = _as_agent if parameters == 3 else _as_emulator

    def holds(event: Event, state: Any, history: Sequence[Event]) -> bool:
        try:
            return bool(cell.call(name, *as_theirs(event, history)))
        except ProgramFault as fault:
            raise SignalFault(str(fault)) from fault

    return holds


def rule_judge(path: Path | str, predicates: Sequence[Path | str] = ()) -> RuleJudge:
    """Returns the judge for a rule file and the predicate files that it uses."""
    named = [read_yaml(Path(each)) for each in predicates]
    with naming(path):
        content = load_rules(Path(path)).as_dict() | {PREDICATES: named}
        judge = judge_of(content, list(map(str, predicates)))
    for odd in judge.odd_words():
        logging.getLogger(__name__).warning("%s: %s", path, odd)
    return judge


def judge_of(content: Mapping[str, Any], files: Sequence[str] = ()) -> RuleJudge:
    """Creates the judge that is stored in a record, or read from named files."""
    given = dict(content)
    predicates = given.pop(PREDICATES, [])
    if not isinstance(predicates, list):
        raise InvalidInput("the predicates must be a list", source="the rules")
    rules = rules_of(given, "the rules")
    return RuleJudge(rules, predicates, known_to(rules, library(rules.domain)), files)


def known_to(rules: RuleSet, known: Library) -> Library:
    """Returns the library with the Python predicates that are stored in rules."""
    return add_functions(known, rules.functions, rules.matching == "exact")


def _as_agent(event: Event, history: Sequence[Event]) -> tuple[Any, ...]:
    """Returns the user input, the tool input and the steps so far, as in AgentSpec."""
    steps = [
        ((each.tool or each.action, each.text), _observation(each))
        for each in history
        if each.moment == "after"
    ]
    return "", _text(event), steps


def _as_emulator(event: Event, history: Sequence[Event]) -> tuple[Any, ...]:
    return dict(event.arguments), {"history": [_text(each) for each in history]}


def _text(event: Event) -> str:
    if event.text:
        return event.text
    values = (str(value) for value in event.arguments.values())
    return " ".join([event.action.replace("_", " "), *values])


def _observation(event: Event) -> Any:
    if "code" in event.arguments:
        return event.output
    return {
        "action": _text(event),
        "success": event.succeeded is not False,
        "message": event.output,
        "errorMessage": "",
    }
