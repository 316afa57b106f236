"""Rules at work: compiled once, asked about each event, and what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import RANK
from forewarn.monitors.rules.condition import (
    Condition,
    needs_of,
    parse_condition,
    predicates_of,
)
from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.predicates import Library, Situation
from forewarn.monitors.rules.rule import Rule, RuleSet


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that fired.

    Args:
        rule: It.
        event: On what.
        held: The predicates of its condition that held.
    """

    rule: Rule
    event: Event
    held: tuple[str, ...]


class CompiledRule:
    """One rule as closures, with what it remembers of a run."""

    __slots__ = ("condition", "needs", "predicates", "rule", "_actions", "_moment")

    def __init__(self, rule: Rule, library: Library) -> None:
        self.rule = rule
        try:
            formula = parse_condition(rule.text, library)
        except InvalidInput as error:
            raise error.within("", f"rule {rule.name}") from None
        self.condition = Condition(formula, library)
        self.predicates = predicates_of(formula, library)
        self.needs = needs_of(formula, library)
        self._moment = rule.trigger.moment
        self._actions = frozenset(rule.trigger.actions)

    def fires(self, situation: Situation) -> bool:
        """Whether it fires at this event. It hears of every event of its moment."""
        event = situation.event
        if event.moment != self._moment:
            return False
        asked = not self._actions or event.action in self._actions
        if not asked and not self.condition.remembers:
            return False
        return self.condition(situation) and asked


class Engine:
    """A set of rules, event by event.

    Args:
        rules: The set; rules that are off are left out.
        library: The predicates that they speak of.
    """

    def __init__(self, rules: RuleSet, library: Library) -> None:
        asked = [rule for rule in rules.rules if rule.mode != "off" and not rule.needs]
        self.rules = tuple(CompiledRule(rule, library) for rule in asked)
        self._first = rules.match == "first"
        self._library = library
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        self.situation = Situation(self._library)
        for rule in self.rules:
            rule.condition.reset()

    def read(self, event: Event) -> list[Firing]:
        """Takes in the next event and says which rules fire at it, in their order.

        Where only the first match counts, rules in shadow do not stand in the way of
        those that are enforced.
        """
        situation = self.situation
        situation.enter(event)
        fired: list[Firing] = []
        decided = False
        for compiled in self.rules:
            if not compiled.fires(situation):
                continue
            if decided and self._first:
                continue
            decided |= compiled.rule.mode == "enforce"
            held = tuple(n for n in compiled.predicates if situation.so(n))
            fired.append(Firing(compiled.rule, event, held))
        return fired


def run(engine: Engine, events: Iterable[Event]) -> list[Firing]:
    """All firings of a run, from its beginning."""
    engine.reset()
    return [firing for event in events for firing in engine.read(event)]


def severest(firings: Iterable[Firing]) -> Firing | None:
    """Of what fired the firing that asks for most, the first of equals."""
    return max(firings, key=lambda f: RANK[f.rule.enforcement.kind], default=None)
