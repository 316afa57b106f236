"""Finds rules that cannot do what their author meant, before they run.

Conditions are compared as if their predicates were independent. This finds rules that
never fire, rules that always fire, and rules that another rule shadows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from forewarn.abstractions.encoding import AnswerCompiler
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.expression.tree import (
    Compare,
    Constant,
    Expression,
    Text,
    atoms,
)
from forewarn.monitors.guarding.decision import RANK
from forewarn.monitors.rules.condition import parse_condition
from forewarn.monitors.rules.engine import plain_name
from forewarn.monitors.rules.household import plain as plain_type
from forewarn.monitors.rules.predicates import Domain, Library
from forewarn.monitors.rules.rule import Enforcement, Rule, RuleSet

Problem = Literal["broken", "needs", "never", "always", "shadowed", "repeated"]

_ALMOST = 0.88
"""How similar a word must be to a known one to count as misspelt; Ladder and Ladle are
different words.
"""

MAX_ATOMS = 14
"""Conditions that together have more predicates than this are not compared."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with a rule, and the other rule that is involved if there is one."""

    rule: str
    problem: Problem
    message: str
    other: str = ""

    def as_dict(self) -> dict[str, Any]:
        content = {
            "rule": self.rule, "problem": self.problem, "message": self.message,
        }  # fmt: skip
        return content | ({"other": self.other} if self.other else {})


def lint(rules: RuleSet, libraries: dict[Domain, Library]) -> list[Finding]:
    """Returns the problems found, in the order of the rules."""
    found: list[Finding] = []
    sound: list[tuple[Rule, Expression]] = []
    for rule in rules.rules:
        if rule.needs:
            lacks = ", ".join(rule.needs)
            off = f"the rule is off, because these predicates are undefined: {lacks}"
            found += [Finding(rule.name, "needs", off)]
            continue
        library = libraries[rule.domain or rules.domain]
        try:
            condition = parse_condition(rule.text, library)
        except InvalidInput as error:
            found.append(Finding(rule.name, "broken", str(error)))
            continue
        if rules.matching == "plain":
            found += _unheard(rule, library)
        found += _misspelt(rule)
        found += [
            Finding(rule.name, "never", each) for each in odd_words(condition, library)
        ]
        found += _alone(rule, condition)
        if rule.mode != "off":
            found += _beside(rule, condition, sound, rules)
            sound.append((rule, condition))
    return found


def _unheard(rule: Rule, library: Library) -> Iterator[Finding]:
    """Yields a finding for each unknown action that a rule names."""
    known = {plain_name(action): action for action in library.actions}
    for action in rule.trigger.actions if known else ():
        if plain_name(action) not in known:
            hint = near_miss(plain_name(action), known)
            message = f"no action has the name {action}" + (
                f" ({hint})" if hint else ""
            )
            yield Finding(rule.name, "never", message)


def _misspelt(rule: Rule) -> Iterator[Finding]:
    """Yields a finding for each setting whose name resembles `cap_kmh`."""
    for name in rule.enforcement.parameters:
        if name != "cap_kmh" and (hint := near_miss(name, ["cap_kmh"])):
            problem = f"there is no setting {name!r:.60} ({hint})"
            yield Finding(rule.name, "broken", problem)


def odd_words(condition: Expression, library: Library) -> Iterator[str]:
    """Yields a message for each text that a condition compares with a field and that
    is almost a known word.
    """
    words = {plain_type(each): each for each in library.words}
    for node in condition.walk():
        if not isinstance(node, Compare) or not isinstance(node.right, Text):
            continue
        text = node.right.value
        plain = plain_type(text)
        close = get_close_matches(plain, words, n=1, cutoff=_ALMOST)
        if close and close[0] != plain:
            yield f"nothing is called {text!r:.60} (did you mean {words[close[0]]}?)"


def _alone(rule: Rule, condition: Expression) -> Iterator[Finding]:
    truths = _truths([condition])
    if truths is None:
        return
    if not any(row[0] for row in truths):
        yield Finding(
            rule.name, "never", "its condition contradicts itself, so it never fires"
        )
    elif all(row[0] for row in truths) and not rule.trigger.actions:
        yield Finding(
            rule.name, "always", f"it fires at every `{rule.trigger.moment}: any` event"
        )


def _beside(
    rule: Rule,
    condition: Expression,
    earlier: Sequence[tuple[Rule, Expression]],
    rules: RuleSet,
) -> Iterator[Finding]:
    """Yields a finding if an earlier rule makes this one redundant."""
    for other, wider in earlier:
        covers = other.mode == "enforce" and _covers(other, rule, rules)
        truths = _truths([condition, wider]) if covers else None
        if truths is None or not any(mine for mine, _ in truths):
            continue
        if not all(its for mine, its in truths if mine):
            continue
        same = all(mine == its for mine, its in truths)
        if same and other.enforcement == rule.enforcement:
            yield Finding(
                rule.name, "repeated", f"it is the same as {other.name}", other.name
            )
            return
        if rules.match == "first" or _outdoes(other.enforcement, rule.enforcement):
            message = f"whenever it fires, {other.name} has already decided"
            yield Finding(rule.name, "shadowed", message, other.name)
            return


def _outdoes(one: Enforcement, other: Enforcement) -> bool:
    return RANK[one.kind] >= RANK[other.kind] and not other.parameters


def _covers(wider: Rule, rule: Rule, rules: RuleSet) -> bool:
    """Whether one rule is evaluated whenever the other is."""
    if (wider.domain, wider.trigger.moment) != (rule.domain, rule.trigger.moment):
        return False
    plain = plain_name if rules.matching == "plain" else str
    all_of_it = {plain(action) for action in wider.trigger.actions}
    mine = {plain(action) for action in rule.trigger.actions}
    return not all_of_it or (bool(mine) and mine <= all_of_it)


def _truths(conditions: Sequence[Expression]) -> list[tuple[bool, ...]] | None:
    """Returns the conditions' truth values for every valuation of their predicates;
    None if there are too many.
    """
    asked = dict.fromkeys(atom for each in conditions for atom in atoms(each))
    free = [atom for atom in asked if not isinstance(atom, Constant)]
    if len(free) > MAX_ATOMS:
        return None
    compiler = AnswerCompiler({atom: 1 << i for i, atom in enumerate(free)})
    tests = [compiler.test(each) for each in conditions]
    return [tuple(test(row) for test in tests) for row in range(1 << len(free))]
