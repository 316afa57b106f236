"""Converts rules and labelled traces to bit sets, and learned clauses to rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from forewarn.abstractions.expression.tree import And, Constant, Expression, Name, Not
from forewarn.monitors.rules.condition import UnknownSignal, parse_condition
from forewarn.monitors.rules.engine import CompiledRule
from forewarn.monitors.rules.evolving.bits import (
    NEW,
    Clause,
    Entries,
    Literal,
    Matrix,
    Occasion,
    matrix,
)
from forewarn.monitors.rules.labelled import LabelledTrace
from forewarn.monitors.rules.predicates import MOMENTS, Library, Situation
from forewarn.monitors.rules.rule import (
    Enforced,
    Enforcement,
    Matching,
    Rule,
    RuleSet,
    Trigger,
    unused,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Labelled traces as bit sets, with the rules to evolve.

    Args:
        rules: The initial rules; those that are off stay unchanged.
        traces: The traces, including those without a label.
        start: The active rules as clauses; `asked` has their numbers.
        unknown: The signals that rules or predicates need but some trace lacks.
    """

    rules: RuleSet
    traces: tuple[LabelledTrace, ...]
    library: Library
    matrix: Matrix = field(repr=False)
    start: tuple[Clause, ...]
    asked: tuple[int, ...]
    unknown: tuple[str, ...]
    _triggers: tuple[Trigger, ...]

    def of(self, entries: Entries) -> list[Rule]:
        """Returns the rules for these clauses; unchanged ones keep their exact text."""
        names = {rule.name for rule in self.rules.rules}
        found: list[Rule] = []
        for entry in entries:
            if entry.origin == NEW:
                found.append(self._added(entry.clause, names))
            else:
                rule = self.rules.rules[self.asked[entry.origin]]
                same = entry.clause == self.start[entry.origin]
                found.append(rule if same else self._changed(rule, entry.clause))
        return found

    def written(self, entries: Entries) -> RuleSet:
        """Returns the rule set with its active rules replaced by these clauses."""
        mine = list(zip(entries, self.of(entries), strict=True))
        kept = {self.asked[e.origin]: rule for e, rule in mine if e.origin != NEW}
        off = {
            number: rule
            for number, rule in enumerate(self.rules.rules)
            if number not in self.asked
        }
        old = [rule for _, rule in sorted((kept | off).items())]
        added = [rule for entry, rule in mine if entry.origin == NEW]
        return self.rules.with_rules((*old, *added))

    def _changed(self, rule: Rule, clause: Clause) -> Rule:
        when, unless = self._texts(clause)
        return replace(rule, when=when, unless=unless)

    def _added(self, clause: Clause, names: set[str]) -> Rule:
        when, unless = self._texts(clause)
        name = unused(_name(when, unless), names)
        names.add(name)
        kinds = [rule.enforcement.kind for rule in self.rules.rules]
        usual = Enforcement(max(_USUAL, key=kinds.count))
        trigger = self._triggers[clause.kind]
        return Rule(name, when, unless, trigger, usual, doc="Learned from labels.")

    def _texts(self, clause: Clause) -> tuple[str, tuple[str, ...]]:
        """Writes a clause as a condition and its exceptions."""
        named = [(self.matrix.predicates[i], wanted) for i, wanted in clause.literals]
        wanted = [name for name, wanted in named if wanted]
        whole = [_closed(each) for each in wanted] if len(wanted) > 1 else wanted
        unless = tuple(name for name, wanted in named if not wanted)
        return " and ".join(whole) or "true", unless


def _closed(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _name(when: str, unless: Sequence[str]) -> str:
    words = ("when", *re.findall(r"\w+", when))
    for each in unless:
        words = (*words, "not", *re.findall(r"\w+", each))
    return "-".join(word for word in words if word != "and")[:100]


_USUAL: tuple[Enforced, ...] = ("stop", "skip", "reflect", "ask", "slow", "alert")


def corpus(rules: RuleSet, traces: Iterable[LabelledTrace], library: Library) -> Corpus:
    """Converts labelled traces to bit sets over the predicates of these rules."""
    several = tuple(traces)
    asked = tuple(
        number
        for number, rule in enumerate(rules.rules)
        if rule.runs_in(library.domain, rules.domain)
    )
    moments = {event.moment for trace in several for event in trace.events}
    triggers = [Trigger(m) for m in MOMENTS if m in moments and m != "after"]
    fresh = len(triggers)
    # Parts of conditions that are not predicates are kept unchanged.
    atoms: list[Rule] = []
    start: list[Clause] = []
    for number in asked:
        rule = rules.rules[number]
        if rule.trigger not in triggers:
            triggers.append(rule.trigger)
        literals: set[Literal] = set()
        for text, wanted in _parts(parse_condition(rule.text, library)):
            if text in library.names:
                index = library.names.index(text)
            else:
                atom = Rule("part", text, trigger=Trigger(rule.trigger.moment))
                if atom not in atoms:
                    atoms.append(atom)
                index = len(library.names) + atoms.index(atom)
            literals.add(Literal(index, wanted))
        kind = triggers.index(rule.trigger)
        start.append(Clause(kind, tuple(sorted(literals))))
    read = _Reader(library, rules.matching, triggers, atoms)
    bits = matrix(
        (*library.names, *(atom.when for atom in atoms)),
        [_said(trigger) for trigger in triggers],
        [list(read(trace)) for trace in several],
        [None if trace.label is None else trace.label == "unsafe" for trace in several],
        [trace.task or f"\0{trace.id}" for trace in several],
        fresh,
    )
    unknown = tuple(sorted(read.unknown))
    return Corpus(
        rules, several, library, bits, tuple(start), asked, unknown, tuple(triggers)
    )


def _parts(formula: Expression) -> Iterator[tuple[str, bool]]:
    """Yields the conjuncts of a condition, each with whether it must be true."""
    match formula:
        case And(parts=parts):
            for part in parts:
                yield from _parts(part)
        case Constant(value=True):
            return
        case Not(operand=Not(operand=inner)):
            yield from _parts(inner)
        case Not(operand=inner):
            yield repr(inner), False
        case Name(name=name):
            yield name, True
        case _:
            yield repr(formula), True


def _said(trigger: Trigger) -> str:
    return f"{trigger.moment} {' or '.join(trigger.actions)}".strip()


class _Reader:
    """Converts a trace's events to bit sets; collects missing signals in `unknown`."""

    def __init__(
        self,
        library: Library,
        matching: Matching,
        triggers: Sequence[Trigger],
        atoms: Sequence[Rule],
    ) -> None:
        self.unknown: set[str] = set()
        self._library = library
        kinds = [Rule("kind", trigger=trigger) for trigger in triggers]
        self._kinds = [CompiledRule(kind, library, matching) for kind in kinds]
        self._atoms = [CompiledRule(atom, library, matching) for atom in atoms]

    def __call__(self, trace: LabelledTrace) -> Iterator[Occasion]:
        situation = Situation(self._library)
        names = self._library.names
        for atom in self._atoms:
            atom.condition.reset()
        for event in trace.events:
            situation.enter(event)
            kinds = sum(
                (kind.rule.trigger.moment == event.moment and kind.asks_about(event))
                << i
                for i, kind in enumerate(self._kinds)
            )
            # Conditions about the past read every event of their moment, of any kind.
            # At other moments their meaning would differ, so they count as unknown.
            parts = [
                self._known(atom.holds, situation)
                if atom.rule.trigger.moment == event.moment
                else None
                for atom in self._atoms
            ]
            if kinds:
                ask = situation.so
                found = [self._known(ask, name) for name in names] + parts
                yield Occasion(kinds, _bits(found, True), _bits(found, None))

    def _known(self, ask: Callable[[T], bool], about: T) -> bool | None:
        """Evaluates a predicate; None if a signal that it needs is missing."""
        try:
            return ask(about)
        except UnknownSignal as error:
            self.unknown.add(error.signal)
            return None


def _bits(found: Sequence[bool | None], wanted: bool | None) -> int:
    return sum(1 << i for i, each in enumerate(found) if each is wanted)
