"""Rules at work: compiled once, asked about each event, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
from forewarn.monitors.rules.rule import Matching, Rule, RuleSet


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


Matcher = Callable[[Event], bool]


def _matcher(actions: Sequence[str], matching: Matching) -> Matcher:
    """Whether an event's action is one of those; none are all."""
    if not actions:
        return lambda event: True
    if matching == "plain":
        names = frozenset(map(plain_name, actions))
        return lambda event: plain_name(event.action) in names
    begins = tuple(action.replace("_", " ") for action in actions)

    def exactly(event: Event) -> bool:
        if event.action in actions or event.tool in actions:
            return True
        return event.text.strip().startswith(begins)

    return exactly


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """An action's name by its letters and digits: `turn on` is `turn_on`."""
    return "".join(filter(str.isalnum, name)).casefold()


class CompiledRule:
    """One rule as closures, with what it remembers of a run."""

    __slots__ = ("condition", "needs", "predicates", "rule", "_asked", "_moment")

    def __init__(self, rule: Rule, library: Library, matching: Matching) -> None:
        self.rule = rule
        try:
            formula = parse_condition(rule.text, library)
        except InvalidInput as error:
            raise error.within("", f"rule {rule.name}") from None
        self.condition = Condition(formula, library)
        self.predicates = predicates_of(formula, library)
        self.needs = needs_of(formula, library)
        self._moment = rule.trigger.moment
        self._asked = _matcher(rule.trigger.actions, matching)

    def fires(self, situation: Situation) -> bool:
        """Whether it fires at this event. It hears of every event of its moment."""
        event = situation.event
        if event.moment != self._moment:
            return False
        asked = self._asked(event)
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
        self.rules = tuple(
            CompiledRule(rule, library, rules.matching)
            for rule in rules.rules
            if rule.mode != "off"
            and not rule.needs
            and (rule.domain or rules.domain) == library.domain
        )
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
