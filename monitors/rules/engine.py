"""Compiled rules, evaluated on each event, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.monitors.guarding.decision import RANK
from forewarn.monitors.rules.arguments import arguments_of
from forewarn.monitors.rules.condition import (
    Condition,
    UnknownSignal,
    parse_condition,
    predicates_of,
)
from forewarn.monitors.rules.predicates import Event, Library, Situation, Test
from forewarn.monitors.rules.rule import Matching, Rule, RuleSet

MAX_KEPT = 1024
"""The number of kinds of event for which the rules that read them are cached."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that fired on an event, and the predicates of its condition that held."""

    rule: Rule
    event: Event
    held: tuple[str, ...]


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """An action's name by its letters and digits: `turn on` is `turn_on`."""
    return "".join(filter(str.isalnum, name)).casefold()


class CompiledRule:
    """One rule as closures, with its memory of a run."""

    __slots__ = ("condition", "holds", "predicates", "rule", "_begins")

    def __init__(self, rule: Rule, library: Library, matching: Matching) -> None:
        self.rule = rule
        try:
            formula = parse_condition(rule.text, library)
        except InvalidInput as error:
            raise error.within("", f"rule {rule.name}") from None
        self.condition = Condition(formula, library)
        remembers = self.condition.remembers
        self.holds: Test = self.condition if remembers else self.condition.test
        self.predicates = predicates_of(formula, library)
        actions = rule.trigger.actions
        exact = tuple(action.replace("_", " ") for action in actions)
        self._begins = exact if matching == "exact" else ()

    def asks_about(self, event: Event) -> bool:
        """Whether the rule's trigger matches an event of its moment."""
        actions = self.rule.trigger.actions
        if not actions:
            return True
        if self._begins:
            named = event.action in actions or event.tool in actions
            return named or event.text.strip().startswith(self._begins)
        return plain_name(event.action) in map(plain_name, actions)


class Engine:
    """A set of rules, event by event.

    Args:
        rules: The set of rules; rules that are off are left out.
        unknown: If given, a rule does not fire at an event that lacks a signal it
            needs, and the signal is added to this set. Otherwise a missing signal is a
            fault.
    """

    def __init__(
        self, rules: RuleSet, library: Library, unknown: set[str] | None = None
    ) -> None:
        self.unknown = unknown
        self.rules = tuple(
            CompiledRule(rule, library, rules.matching)
            for rule in rules.rules
            if rule.runs_in(library.domain, rules.domain)
        )
        self._first = rules.match == "first"
        asked = library.only(n for rule in self.rules for n in rule.predicates)
        self._library = asked.mapped(arguments_of(rules.arguments))
        # By moment and action, where the text of an action plays no part.
        self._heard: dict[tuple[str, str], list[tuple[CompiledRule, bool]]] = {}
        self._by_name = rules.matching == "plain"
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        self.situation = Situation(self._library)
        for rule in self.rules:
            rule.condition.reset()

    def read(self, event: Event) -> list[Firing]:
        """Reads the next event, and returns the rules that fire, in order.

        If only the first match counts, rules in shadow do not block enforced ones.

        Raises:
            SignalFault: A rule lacks a signal. All other rules have read the event.
        """
        situation = self.situation
        situation.enter(event)
        fired: list[Firing] = []
        decided = False
        fault: SignalFault | None = None
        for compiled, asked in self._hearing(event):
            try:
                held = compiled.holds(situation)
            except SignalFault as error:
                if self.unknown is None or not isinstance(error, UnknownSignal):
                    fault = fault or error
                else:
                    self.unknown.add(error.signal)
                continue
            if fault is not None or not (held and asked) or (decided and self._first):
                continue
            decided |= compiled.rule.mode == "enforce"
            named = tuple(n for n in compiled.predicates if self._so(n))
            fired.append(Firing(compiled.rule, event, named))
        if fault is not None:
            raise fault
        return fired

    def _so(self, name: str) -> bool:
        """Whether a predicate held; a rule may not have evaluated all of its
        predicates.
        """
        try:
            return self.situation.so(name)
        except SignalFault:
            return False

    def _hearing(self, event: Event) -> list[tuple[CompiledRule, bool]]:
        """The rules that read an event, and whether each is evaluated on it.

        What remembers hears of every event, asked about it or not.
        """
        key = event.moment, event.action
        found = self._heard.get(key) if self._by_name else None
        if found is None:
            there = (r for r in self.rules if r.rule.trigger.moment == event.moment)
            asked = [(rule, rule.asks_about(event)) for rule in there]
            found = [(r, asks) for r, asks in asked if asks or r.condition.remembers]
            if self._by_name and len(self._heard) < MAX_KEPT:
                self._heard[key] = found
        return found


def run(engine: Engine, events: Iterable[Event]) -> list[Firing]:
    """All firings of a run, from its beginning."""
    engine.reset()
    return [firing for event in events for firing in engine.read(event)]


def severest(firings: Iterable[Firing]) -> Firing | None:
    """The most severe firing; the first of several equally severe ones."""
    return max(firings, key=lambda f: RANK[f.rule.enforcement.kind], default=None)
