"""Compiles rules and evaluates them on each event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from forewarn.abstractions.errors import SignalFault, naming
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


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that fired on an event, with the true predicates of its condition."""

    rule: Rule
    event: Event
    held: tuple[str, ...]


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Normalizes an action's name: `turn on` becomes `turn_on`."""
    return "".join(filter(str.isalnum, name)).casefold()


class CompiledRule:
    """A rule compiled to closures, with its state in a run."""

    __slots__ = ("condition", "holds", "predicates", "rule", "_begins")

    def __init__(self, rule: Rule, library: Library, matching: Matching) -> None:
        self.rule = rule
        with naming("", f"rule {rule.name}"):
            formula = parse_condition(rule.text, library)
        self.condition = Condition(formula, library)
        remembers = self.condition.remembers
        self.holds: Test = self.condition if remembers else self.condition.test
        self.predicates = predicates_of(formula, library)
        actions = rule.trigger.actions
        exact = tuple(action.replace("_", " ") for action in actions)
        self._begins = exact if matching == "exact" else ()

    def asks_about(self, event: Event) -> bool:
        """Whether the trigger matches the action of an event at the rule's moment."""
        actions = self.rule.trigger.actions
        if not actions:
            return True
        if self._begins:
            named = event.action in actions or event.tool in actions
            return named or event.text.strip().startswith(self._begins)
        return plain_name(event.action) in map(plain_name, actions)


class Engine:
    """Evaluates a set of rules event by event.

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
        self._library = replace(asked, arguments=arguments_of(rules.arguments))
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        self.situation = Situation(self._library)
        for rule in self.rules:
            rule.condition.reset()

    def read(self, event: Event) -> list[Firing]:
        """Reads the next event and returns the rules that fire, in order.

        If only the first match counts, rules in shadow mode do not block enforced ones.

        Raises:
            SignalFault: A rule lacks a signal. All other rules have read the event.
        """
        situation = self.situation
        situation.enter(event)
        fired: list[Firing] = []
        decided = False
        fault: SignalFault | None = None
        for compiled in self.rules:
            if compiled.rule.trigger.moment != event.moment:
                continue
            # A rule that refers to the past must read every event of its moment.
            asked = compiled.asks_about(event)
            if not asked and not compiled.condition.remembers:
                continue
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
        """Whether a predicate is true, even if the rule did not need to evaluate it."""
        try:
            return self.situation.so(name)
        except SignalFault:
            return False


def run(engine: Engine, events: Iterable[Event]) -> list[Firing]:
    """Evaluates the rules on a whole run, and returns all firings."""
    engine.reset()
    return [firing for event in events for firing in engine.read(event)]


def severest(firings: Iterable[Firing]) -> Firing | None:
    """Returns the most severe firing; of equally severe ones, the first."""
    return max(firings, key=lambda f: RANK[f.rule.enforcement.kind], default=None)
