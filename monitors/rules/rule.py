"""Rules and sets of rules, in YAML (`forewarn.rules/1`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.abstractions.files import atomic_text, parse_yaml, read_text
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.arguments import arguments_of
from forewarn.monitors.rules.predicates import MOMENTS, Domain, Moment, domain_of

FORMAT = "forewarn.rules/1"

Enforced = Literal["alert", "reflect", "substitute", "skip", "ask", "slow", "stop"]
Mode = Literal["enforce", "shadow", "off"]
Match = Literal["first", "all"]
Matching = Literal["plain", "exact"]

_NAME = re.compile(r"[\w.@:#-]{1,120}")


class InvalidRules(InvalidInput):
    """A rule file that violates its schema, or that contains an invalid rule."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The moment and the actions (verbs or tools) for which a rule is evaluated; no
    actions means any action.
    """

    moment: Moment = "before"
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The intervention when a rule fires, with the action for `substitute`, and the
    planner's settings for `slow` and `stop`.
    """

    kind: Enforced = "stop"
    action: Action | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule fires on its trigger if its condition is true and no exception is.

    Args:
        when: The condition as text; see `forewarn.monitors.rules.condition`.
        unless: Exceptions: conditions that keep the rule from firing.
        mode: A rule in `shadow` mode enforces nothing; `off` disables the rule.
        needs: Unknown predicates; the rule is off until they are defined.
        domain: The rule's domain, if it differs from that of the set.
    """

    name: str
    when: str = "true"
    unless: tuple[str, ...] = ()
    trigger: Trigger = Trigger()
    enforcement: Enforcement = Enforcement()
    mode: Mode = "enforce"
    doc: str = ""
    needs: tuple[str, ...] = ()
    domain: Domain | None = None

    @property
    def text(self) -> str:
        """The whole condition, including the exceptions."""
        return " and ".join(
            [_part(self.when), *(f"not ({each})" for each in self.unless)]
        )

    def runs_in(self, domain: Domain, usual: Domain) -> bool:
        """Whether the rule is evaluated in a domain; `usual` is its set's domain."""
        can_run = self.mode != "off" and not self.needs
        return can_run and (self.domain or usual) == domain


def _part(text: str) -> str:
    plain = re.fullmatch(r"[\w\s]*", text) and not re.search(r"\b(or|since)\b", text)
    return text if plain else f"({text})"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules over the predicates of one domain.

    Args:
        rules: The rules; their order matters if only the first match counts.
        match: Whether the first rule that fires decides, or the most severe one.
        version: The number of accepted changes.
        matching: `plain` compares action names by their letters and digits; `exact`
            compares them as AgentSpec does, case-sensitively and by the beginning of an
            action's text.
        arguments: Roles of tool arguments that cannot be inferred from their names:
            maps a role, such as `shell`, to names (`argument` or `tool.argument`).
        functions: The Python sources of predicates, by file name.
    """

    domain: Domain
    rules: tuple[Rule, ...] = ()
    name: str = "rules"
    match: Match = "all"
    version: int = 1
    matching: Matching = "plain"
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of the file, without default values."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "domain": self.domain,
            "name": self.name,
            "match": self.match,
            "matching": self.matching if self.matching == "exact" else None,
            "arguments": {role: list(names) for role, names in self.arguments.items()},
            "functions": dict(self.functions),
            "version": self.version,
        }
        kept = {key: value for key, value in content.items() if value not in (None, {})}
        return {**kept, "rules": [_written(rule) for rule in self.rules]}

    def text(self) -> str:
        """Returns the text of the file."""
        return yaml.safe_dump(
            self.as_dict(), sort_keys=False, allow_unicode=True, width=88
        )

    def with_rules(self, rules: Iterable[Rule]) -> RuleSet:
        """Returns the same set with other rules."""
        return replace(self, rules=tuple(rules))


# -- files ---------------------------------------------------------------------------


class _ActionFile(Strict):
    name: str
    arguments: dict[str, str | int | float | bool] = {}


class _EnforceFile(Strict):
    substitute: _ActionFile | None = None
    slow: dict[str, float] | None = None
    stop: dict[str, float] | None = None

    @field_validator("slow", mode="before")
    @classmethod
    def _is_mapping(cls, given: object) -> object:
        if isinstance(given, int | float):
            raise ValueError(
                f"expected a mapping, found {given} (write slow: {{cap_kmh: {given}}})"
            )
        return given

    @model_validator(mode="after")
    def _is_one(self) -> _EnforceFile:
        given = [self.substitute, self.slow, self.stop]
        if sum(each is not None for each in given) != 1:
            raise ValueError(
                "must have exactly one of substitute: {name: …}, slow: {…} and "
                "stop: {…}"
            )
        return self


_Words = str | list[str]


class _RuleFile(Strict):
    name: str
    doc: str = ""
    before: _Words | None = None
    after: _Words | None = None
    tick: Literal["any"] | None = None
    finish: Literal["any"] | None = None
    when: str = "true"
    unless: _Words = []
    enforce: Enforced | _EnforceFile = "stop"
    mode: Mode = "enforce"
    needs: list[str] = []
    domain: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_no_on(cls, given: Any) -> Any:
        if isinstance(given, dict) and "on" in given:
            raise ValueError(
                "unknown key 'on' (write the moment, as in before: "
                f"{given['on']!s:.40}; the moments are {', '.join(MOMENTS)})"
            )
        return given

    @model_validator(mode="after")
    def _has_one_trigger(self) -> _RuleFile:
        given = [moment for moment in MOMENTS if getattr(self, moment) is not None]
        if len(given) != 1:
            raise ValueError(
                "a rule needs exactly one of before, after, tick and finish; "
                "`before: any` matches every action"
            )
        if self.enforce == "substitute":
            raise ValueError("name the other action: enforce: {substitute: {name: …}}")
        return self


class _RulesFile(Strict):
    format: Literal["forewarn.rules/1"]
    domain: str
    name: str = "rules"
    match: Match = "all"
    version: int = Field(default=1, ge=1)
    matching: Matching = "plain"
    arguments: dict[str, list[str]] = {}
    functions: dict[str, str] = {}
    rules: list[_RuleFile]


def load_rules(path: Path) -> RuleSet:
    """Loads the rules of a file."""
    return rules_from(read_text(path), str(path))


def rules_from(text: str, source: str) -> RuleSet:
    """Parses the text of a rule file."""
    return rules_of(parse_yaml(text, source), source)


def rules_of(content: object, source: str) -> RuleSet:
    """Creates rules from the content of a file."""
    file = validated(_RulesFile, content, source, InvalidRules)
    with naming(source):
        rules = tuple(map(_rule, file.rules))
        for rule in rules:
            if sum(other.name == rule.name for other in rules) > 1:
                raise InvalidRules(f"two rules have the name {rule.name}")
        domain = domain_of(file.domain)
        with naming("", "arguments"):
            arguments_of(file.arguments)
    rest = file.model_dump(exclude={"format", "domain", "rules"})
    return RuleSet(domain, rules, **rest)


@cache
def expert_rules(domain: Domain) -> RuleSet:
    """Loads the hand-written rules that ship for a domain."""
    return load_rules(Path(__file__).parent / "expert" / f"{domain}.yaml")


def save_rules(path: Path, rules: RuleSet) -> None:
    """Writes rules to a file; equal rules give equal bytes."""
    with atomic_text(path) as out:
        out.write(rules.text())


def _rule(entry: _RuleFile) -> Rule:
    if not _NAME.fullmatch(entry.name):
        raise InvalidRules(
            f"{entry.name!r:.60} cannot be the name of a rule",
            mend="use letters, digits, _ and -",
        )
    return Rule(
        name=entry.name,
        when=" ".join(entry.when.split()),
        unless=tuple(" ".join(each.split()) for each in _words(entry.unless)),
        trigger=_trigger(entry),
        enforcement=_enforcement(entry.enforce),
        mode=entry.mode,
        doc=entry.doc,
        needs=tuple(entry.needs),
        domain=domain_of(entry.domain) if entry.domain else None,
    )


def _words(words: _Words) -> Sequence[str]:
    return [words] if isinstance(words, str) else words


def _trigger(entry: _RuleFile) -> Trigger:
    moment = next(each for each in MOMENTS if getattr(entry, each) is not None)
    actions = tuple(_words(getattr(entry, moment)))
    return Trigger(moment, () if actions == ("any",) else actions)


def _enforcement(entry: Enforced | _EnforceFile) -> Enforcement:
    if isinstance(entry, str):
        return Enforcement(entry)
    if entry.substitute is not None:
        other = entry.substitute
        return Enforcement("substitute", Action(other.name, other.arguments))
    if entry.stop is not None:
        return Enforcement("stop", parameters=entry.stop)
    return Enforcement("slow", parameters=entry.slow or {})


def unused(name: str, taken: Collection[str]) -> str:
    """Returns the name, with a number appended if it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _written(rule: Rule) -> dict[str, Any]:
    actions, done = list(rule.trigger.actions), rule.enforcement
    enforced: object = done.kind
    if done.action is not None:
        what = {"name": done.action.name, "arguments": dict(done.action.arguments)}
        enforced = {"substitute": what}
    elif done.parameters:
        enforced = {done.kind: dict(done.parameters)}
    entry = {
        "name": rule.name,
        "domain": rule.domain,
        "doc": rule.doc,
        rule.trigger.moment: actions[0] if len(actions) == 1 else actions or "any",
        "when": rule.when,
        "unless": list(rule.unless),
        "enforce": enforced,
        "mode": rule.mode if rule.mode != "enforce" else None,
        "needs": list(rule.needs),
    }
    return {key: value for key, value in entry.items() if value or key == "when"}
