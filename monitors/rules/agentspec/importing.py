"""AgentSpec's rules as ours: names resolved, enforcement carried over.

A name is ours, or stands in the table of names, or comes from the user's own module;
a rule with any other is off, and says what it needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_text, read_yaml
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.agentspec.reading import (
    Trouble,
    WrittenRule,
    read_agentspec,
)
from forewarn.monitors.rules.condition import parse_condition
from forewarn.monitors.rules.labelled import Domain
from forewarn.monitors.rules.predicates import Library
from forewarn.monitors.rules.rule import Enforcement, Match, Rule, RuleSet, Trigger

SUFFIXES = (".ar", ".rule", ".spec", ".agentspec")

_PLANNED = re.compile(r"^[\w.]+(?::[\w.]+)+\s*=\s*(?P<value>[-+\d.eE]+)\s*$")
_CALLED = re.compile(r"^(?P<name>[A-Za-z_]\w*)\s*\((?P<inside>.*)\)$", re.DOTALL)
_NUMBER = re.compile(r"^[-+]?\d+(\.\d+)?$")
_WORD = re.compile(r"^[A-Za-z_]\w*$")
_VERBS = frozenset(
    "break clean close cook dirty drop emptyliquid fillliquid find open pick pour put"
    " slice throw turnoff turnon".split()
)
_MOMENTS = {
    "state_change": Trigger("tick"),
    "before_action": Trigger("before"),
    "after_action": Trigger("after"),
    "finish": Trigger("finish"),
    "any": Trigger("before"),
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of importing files.

    Args:
        rules: The rules, those that cannot run among them.
        files: How many files were read.
        runnable: How many rules can run.
        needs: Rules with a predicate that nobody knows.
        unread: What of the files could not be read: file, line and problem.
    """

    rules: RuleSet
    files: int
    runnable: int
    needs: tuple[tuple[str, str], ...]
    unread: tuple[tuple[str, int, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """What `forewarn rules import --json` prints."""
        return {
            "files": self.files,
            "rules": len(self.rules.rules),
            "runnable": self.runnable,
            "needs": [{"rule": rule, "predicate": p} for rule, p in self.needs],
            "unread": [
                {"file": file, "line": line, "problem": problem}
                for file, line, problem in self.unread
            ],
        }


def rule_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and the rule files anywhere below folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
            found += sorted(below)
        else:
            found.append(path)
    if not found:
        raise InvalidInput(
            "no rule file there", mend=f"rule files end in {', '.join(SUFFIXES)}"
        )
    return found


def import_rules(
    files: Sequence[Path],
    libraries: Mapping[Domain, Library],
    domain: Domain | None = None,
    exact: bool = False,
) -> Imported:
    """Reads rule files.

    Args:
        files: Their paths; an empty file counts for nothing.
        libraries: The predicates of each domain, a user's own among them.
        domain: Of all rules; None: what each rule's trigger tells.
        exact: Keep to AgentSpec's own matching: see `forewarn.rules/1`.
    """
    rules: list[Rule] = []
    unread: list[tuple[str, int, str]] = []
    count = 0
    for path in files:
        text = read_text(path)
        if not text.strip():
            continue
        count += 1
        written, troubles = read_agentspec(text)
        unread += [(str(path), trouble.line, trouble.problem) for trouble in troubles]
        for each in written:
            own = domain or _domain(each)
            rule = _rule(each, own, libraries[own], exact)
            rules.append(replace(rule, name=_free(rule.name, rules)))
    domains = [rule.domain for rule in rules]
    main = domain if domain else max(list(libraries), key=domains.count)
    kept = tuple(
        replace(r, domain=None if r.domain == main else r.domain) for r in rules
    )
    match: Match = "first" if exact else "all"
    found = RuleSet(
        main, kept, "imported", match, matching="exact" if exact else "plain"
    )
    needs = tuple((rule.name, need) for rule in kept for need in rule.needs)
    runnable = sum(not rule.needs for rule in kept)
    return Imported(found, count, runnable, needs, tuple(unread))


def _free(name: str, rules: Sequence[Rule]) -> str:
    """The name, numbered if another rule has it."""
    taken = {rule.name for rule in rules}
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _domain(rule: WrittenRule) -> Domain:
    for word in rule.triggers:
        if word == "state_change":
            return "driving"
        if re.sub(r"[\s_]", "", word.casefold()) in _VERBS:
            return "household"
    return "code"


def _rule(rule: WrittenRule, domain: Domain, library: Library, exact: bool) -> Rule:
    conditions: list[str] = []
    needs: list[str] = []
    for check in rule.checks:
        condition, need = _condition(check, library, exact)
        if need:
            needs.append(need)
        elif condition != "true":
            conditions.append(condition)
    enforcement, mode = _enforcement(rule.enforcements)
    return Rule(
        name=rule.name,
        when=" and ".join(conditions) or "true",
        trigger=_trigger(rule.triggers, exact),
        enforcement=enforcement,
        mode="shadow" if mode == "none" else "enforce",
        doc=f"From AgentSpec: {_summary(rule)}",
        needs=(*needs, *(f"prepare {each}" for each in rule.prepared)),
        domain=domain,
    )


def _summary(rule: WrittenRule) -> str:
    checks = " & ".join(rule.checks) or "true"
    return " ".join(f"{' | '.join(rule.triggers)}: {checks}".split())[:200]


def _trigger(words: Sequence[str], exact: bool) -> Trigger:
    special = [_MOMENTS[word] for word in words if word in _MOMENTS]
    if special:
        return special[0]
    actions = [word.removeprefix("any.") for word in words]
    return Trigger("before", tuple(words if exact else map(_underscored, actions)))


def _underscored(word: str) -> str:
    return "_".join(word.split())


def _condition(check: str, library: Library, exact: bool) -> tuple[str, str]:
    """The condition, and the predicate that it lacks if it lacks one."""
    text = check.strip().rstrip(";").strip()
    negated = False
    while text.startswith(("!", "not ")):
        text = text.removeprefix("!").removeprefix("not ").strip()
        negated = True if exact else not negated
    found = _atom(text, library)
    if found is None:
        return "", _WORD.match(text) and text or text[:80]
    return (f"not ({found})" if negated else found), ""


def _atom(text: str, library: Library) -> str | None:
    if text.casefold() in ("true", "false"):
        return text.casefold()
    if text in library.predicates:
        return text
    table = _names().get(library.domain, {})
    if text in table:
        return _checked(str(table[text]), library)
    called = _CALLED.match(text)
    if called is None or not _NUMBER.match(called["inside"].strip()):
        return None
    name, number = called["name"], float(called["inside"])
    meant = table.get(name)
    if isinstance(meant, dict):
        meant = meant.get(int(number)) if number == int(number) else None
    if meant is None:
        return None
    return _checked(str(meant).replace("{x}", f"{number:g}"), library)


def _checked(condition: str, library: Library) -> str | None:
    """The condition, if the library has all that it asks for."""
    try:
        parse_condition(condition, library)
    except InvalidInput:
        return None
    return condition


@cache
def _names() -> Mapping[str, Mapping[str, Any]]:
    content: Mapping[str, Mapping[str, Any]] = read_yaml(
        Path(__file__).with_name("names.yaml")
    )
    return content


def _enforcement(lines: Sequence[str]) -> tuple[Enforcement, str]:
    """What AgentSpec would do: the last word counts, and settings go together."""
    found = Enforcement("alert")
    word = "none"
    parameters: dict[str, float] = {}
    for line in lines:
        planned = _PLANNED.match(line)
        if planned:
            name = line.partition("=")[0].strip()
            parameters[name] = float(planned["value"])
            continue
        called = _CALLED.match(line)
        word = called["name"] if called else line.split()[0]
        if word == "invoke_action" and called:
            found = Enforcement("substitute", _invoked(called["inside"]))
        elif word in _WORDS:
            found = Enforcement(_WORDS[word])  # type: ignore[arg-type]
        else:
            found = Enforcement("ask")  # an unknown word stops nothing by itself
    if parameters:
        stops = any(name.endswith(":emergency_stop") for name in parameters)
        kind = "stop" if stops else "slow"
        return Enforcement(kind, parameters=parameters), "planned"  # type: ignore[arg-type]
    return found, word


_WORDS = {
    "user_inspection": "ask",
    "llm_self_examine": "reflect",
    "llm_self_reflect": "reflect",
    "stop": "stop",
    "skip": "skip",
    "none": "alert",
}


def _invoked(inside: str) -> Action:
    """`name, {"key": value}` as an action; what is no constant stays text."""
    name, _, rest = inside.partition(",")
    try:
        tree = ast.parse(rest.strip() or "{}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Action(name.strip().strip("\"'"), {"text": rest.strip()})
    arguments: dict[str, Any] = {}
    if isinstance(tree, ast.Dict):
        for key, value in zip(tree.keys, tree.values, strict=True):
            if isinstance(key, ast.Constant):
                arguments[str(key.value)] = (
                    value.value
                    if isinstance(value, ast.Constant)
                    and isinstance(value.value, str | int | float | bool)
                    else ast.unparse(value)
                )
    return Action(name.strip().strip("\"'"), arguments)


__all__ = ["Imported", "Trouble", "import_rules", "rule_files"]
