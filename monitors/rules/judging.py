"""Evaluates rules in a guard, on every frame with its proposed action."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Judge, Judgement
from forewarn.monitors.rules.arguments import arguments_of
from forewarn.monitors.rules.condition import parse_condition
from forewarn.monitors.rules.engine import Engine, Firing, plain_name, severest
from forewarn.monitors.rules.libraries import add_written, library
from forewarn.monitors.rules.linting import odd_words
from forewarn.monitors.rules.predicates import Event, Library
from forewarn.monitors.rules.rule import Enforcement, InvalidRules, RuleSet

PREDICATES = "predicates"
"""The key in a record for the user's own predicates."""

KMH = 3.6
_SPEEDS = ("Max_planning_speed", "Default_cruise_speed", "Expected_speed")
"""Planner settings that limit the speed, in m/s."""

_ENDINGS = frozenset(("finish", "stop", "done"))


class RuleJudge(Judge):
    """A set of rules in a guard, with the contents of their predicate files.

    Args:
        rules: The rules.
        predicates: The contents of the predicate files.
        known: The predicates that the rules may use in addition to these files.
        files: The names of the predicate files, for error messages.
    """

    def __init__(
        self,
        rules: RuleSet,
        predicates: Sequence[Mapping[str, Any]] = (),
        known: Library | None = None,
        files: Sequence[str] = (),
    ) -> None:
        self._set, self._predicates = rules, tuple(predicates)
        known = known or library(rules.domain)
        for number, content in enumerate(self._predicates):
            if not isinstance(content, Mapping):
                raise InvalidInput(
                    "the predicates are not a mapping", source="the rules"
                )
            source = files[number] if files else "the predicates"
            known = add_written(known, dict(content), source)
        for rule in rules.rules:
            asked_for = rule.mode == "enforce" and not rule.needs
            if asked_for and rule.domain not in (None, rules.domain):
                raise InvalidRules(
                    f"the rule {rule.name} is for {rule.domain}, but only rules "
                    f"for {rules.domain} are checked",
                    mend="move the rule to its own file, or turn it off",
                )
        self._known = known
        self._engine = Engine(rules, known)
        self._arguments = arguments_of(rules.arguments)
        self._first = rules.match == "first"
        asked = [compiled.rule for compiled in self._engine.rules]
        self._ticks = any(rule.trigger.moment == "tick" for rule in asked)
        self.rules: Mapping[str, str] = {rule.name: rule.text for rule in asked}
        self._pending: Action | None = None

    def odd_words(self) -> Iterator[str]:
        """Yields a message for each text in a rule that is almost a known word."""
        for name, text in self.rules.items():
            for odd in odd_words(parse_condition(text, self._known), self._known):
                yield f"rule {name}: {odd}"

    @property
    def substitutes(self) -> Mapping[str, Action]:
        """The actions that the rules substitute for others."""
        enforced = ((r.rule.name, r.rule.enforcement) for r in self._engine.rules)
        return {name: e.action for name, e in enforced if e.action is not None}

    def unmatched(self, actions: Collection[str]) -> Mapping[str, Sequence[str]]:
        """Returns the actions of the enforced rules that apply to none of `actions`."""
        there = set(map(plain_name, actions))
        rules = (each.rule for each in self._engine.rules)
        return {
            rule.name: named
            for rule in rules
            if rule.mode == "enforce"
            and (named := rule.trigger.actions)
            and there.isdisjoint(map(plain_name, named))
        }

    def check_tools(self, tools: Mapping[str, Collection[str]]) -> None:
        """Raises an error if enforced rules need a command, but no tool takes one."""
        if self._set.domain != "code" or self._arguments.has(tools, ("shell", "code")):
            return
        for each in self._engine.rules:
            if each.rule.mode == "enforce" and each.predicates:
                raise InvalidInput(
                    f"the rule {each.rule.name} checks shell commands or code, "
                    "but no tool has an argument that is known to contain them",
                    mend="name the argument in the rule file: arguments: {shell: "
                    "[argument]}",
                )

    def as_dict(self) -> Mapping[str, Any]:
        return {**self._set.as_dict(), PREDICATES: list(self._predicates)}

    def reset(self) -> None:
        """Begins a run with an empty history."""
        self._engine.reset()
        self._pending = None

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        """Returns the rules' intervention; rules in shadow mode are only reported."""
        events = [*outcome(frame, self._pending), *self._now(frame, proposal)]
        self._pending = proposal
        fired: list[Firing] = []
        fault: SignalFault | None = None
        for event in events:  # no early exit: all rules must read every event
            try:
                fired += self._engine.read(event)
            except SignalFault as error:
                fault = fault or error
        if fault is not None:
            raise fault
        enforced = [firing for firing in fired if firing.rule.mode == "enforce"]
        if enforced:
            decided = enforced[0] if self._first else severest(enforced)
            return None if decided is None else _judgement(decided)
        shadowed = severest(fired)
        if shadowed is None:
            return None
        kind = shadowed.rule.enforcement.kind
        reason = f"the rule {shadowed.rule.name}, in shadow mode, would {kind}"
        return Judgement("proceed", shadowed.rule.name, reason, shadowed.held)

    def _now(self, frame: Frame, proposal: Action | None) -> Iterator[Event]:
        """Yields the events of a frame: a tick, an action, or the end of the run.

        An action named `finish`, `stop` or `done` may also be an ordinary tool, so it
        yields both an action and the end of the run.
        """
        values, time_s = frame.values, frame.time_s
        if proposal is None or self._ticks:
            yield Event("tick", values=values, time_s=time_s)
        if proposal is not None:
            name, arguments = proposal.name, proposal.arguments
            if self._set.domain == "household":
                arguments = self._arguments.about(name, arguments)
            yield Event("before", name, arguments, values, time_s=time_s)
            if name in _ENDINGS:
                yield Event("finish", values=values, time_s=time_s)


def outcome(frame: Frame, action: Action | None) -> Iterator[Event]:
    """Yields the outcome of the last proposed action, if the frame shows it."""
    values = frame.values
    if action is None or values.get("last_action", action.name) != action.name:
        return  # the action was not carried out
    succeeded = values.get("last_action_succeeded")
    yield Event(
        "after",
        action.name,
        action.arguments,
        succeeded=succeeded if isinstance(succeeded, bool) else None,
        time_s=frame.time_s,
    )


def _judgement(firing: Firing) -> Judgement:
    rule, done = firing.rule, firing.rule.enforcement
    held = ", ".join(firing.held) or rule.text
    settings = (f"{name} = {value:g}" for name, value in done.parameters.items())
    return Judgement(
        done.kind,
        rule.name,
        f"the rule {rule.name} fires: {held}",
        (*firing.held, *settings),
        _cap_kmh(done),
        done.action,
    )


def _cap_kmh(done: Enforcement) -> float | None:
    """Returns the maximum speed that a rule's planner settings allow."""
    if "cap_kmh" in done.parameters:
        return done.parameters["cap_kmh"]
    speeds = [
        value * KMH
        for name, value in done.parameters.items()
        if name.rpartition(":")[2] in _SPEEDS
    ]
    return min(speeds, default=None)
