"""The decision of a guard: to proceed or to intervene, for which law, and why."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.branched import Band

Kind = Literal[
    "proceed",  # the action passes as it was proposed
    "alert",  # the action passes, and people are alerted
    "reflect",  # the action is withheld, and the agent is told why
    "substitute",  # another action is carried out instead
    "skip",  # the action is dropped
    "ask",  # a person decides
    "slow",  # the action passes with a speed limit
    "stop",  # the vehicle or robot comes to rest
    "cut",  # the driving process is ended
]

SEVERITY: tuple[Kind, ...] = get_args(Kind)
"""All kinds of decision, the mildest first."""

RANK: Mapping[Kind, int] = {kind: rank for rank, kind in enumerate(SEVERITY)}


class Words(NamedTuple):
    """The wording of a kind of intervention in reports.

    Args:
        done: The present tense, as in "the guard warns".
        would: The infinitive, as in "the guard would warn" in shadow mode.
        became: The past tense in the passive voice, as in "it was slowed down".
    """

    done: str
    would: str
    became: str


KIND_WORDS: Mapping[Kind, Words] = {
    "alert": Words("warns", "warn", "people were alerted"),
    "reflect": Words(
        "asks it to reconsider", "ask it to reconsider", "it was asked to reconsider"
    ),
    "substitute": Words(
        "substitutes another action",
        "substitute another action",
        "its action was replaced with another one",
    ),
    "skip": Words("skips the action", "skip the action", "the action was skipped"),
    "ask": Words("asks a person", "ask a person", "a person was asked"),
    "slow": Words("slows it down", "slow it down", "it was slowed down"),
    "stop": Words("stops it", "stop it", "the guard stopped it"),
    "cut": Words("cuts its power", "cut its power", "its power was cut"),
}
"""The wording of all kinds but `proceed`."""

THRESHOLDS: Mapping[Kind, float] = {
    "alert": 0.3, "reflect": 0.5, "ask": 0.5, "slow": 0.5, "stop": 0.8,
}  # fmt: skip
"""The default thresholds of the kinds that `--intervene` offers, the mildest first."""

SHOWN: frozenset[Kind] = frozenset(KIND_WORDS) - {"alert", "ask"}
"""The interventions whose effect the world must show once they are carried out."""


class Risk(NamedTuple):
    """A probability with its bounds; without counts, the bounds equal the estimate.

    Args:
        low: The lower confidence bound.
        point: The estimate.
        high: The upper confidence bound.
        likely: The likely interval, if the model has one; it is not a confidence bound.
    """

    low: float
    point: float
    high: float
    likely: tuple[float, float] | None = None

    @property
    def finite(self) -> bool:
        """Whether the risk is known."""
        return all(map(math.isfinite, (self.low, self.point, self.high)))

    def as_dict(self) -> dict[str, Any]:
        """Returns the risk as JSON."""
        content: dict[str, Any] = {
            "low": self.low, "point": self.point, "high": self.high
        }  # fmt: skip
        if self.likely is not None:
            content["likely"] = list(self.likely)
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Risk:
        """Restores a risk from the result of `as_dict`."""
        low, point, high = (float(content[key]) for key in ("low", "point", "high"))
        ends = content.get("likely")
        likely = None if ends is None else (float(ends[0]), float(ends[1]))
        return cls(low, point, high, likely)


@dataclass(frozen=True, slots=True)
class Action:
    """An action that a pilot proposes or a world carries out.

    Args:
        name: A verb, a tool's name, or `control` for a driver's commands.
        arguments: Numbers and names; never free text that an agent might obey.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


CUT = "$cut"
"""The key that replaces arguments that are too large for a record."""
MOST_CHARACTERS, MOST_ITEMS, DEEPEST = 1 << 20, 50_000, 64


def oversized(arguments: Mapping[str, Any]) -> bool:
    """Whether an action's arguments are too large, or nested too deep, to be recorded.

    Such an action is not judged, because it cannot be recorded.
    """
    if CUT in arguments:
        return True
    characters = items = 0
    pending: list[tuple[Any, int]] = [(arguments, 0)]
    while pending:
        value, depth = pending.pop()
        items += 1
        if isinstance(value, str | bytes):
            characters += len(value)
        elif isinstance(value, int):
            characters += value.bit_length() // 4
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth == DEEPEST or items + len(value) > MOST_ITEMS:
                return True
            inner: list[Any] = list(value)
            if isinstance(value, Mapping):
                inner += value.values()
            pending += [(each, depth + 1) for each in inner]
        if characters > MOST_CHARACTERS or items > MOST_ITEMS:
            return True
    return False


def cut_short(proposal: Action | None) -> Action | None:
    """Returns the proposal, without its arguments if they are oversized."""
    if proposal is None or not oversized(proposal.arguments):
        return proposal
    return Action(proposal.name, {CUT: True})


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a review.

    Args:
        kind: The decided intervention, or `proceed`.
        sequence: The sequence number of the reviewed frame.
        time_s: The frame's time, in seconds.
        law: The law that is most at risk, or "" for a fault of the guard's inputs.
        risk: The risk of that law; None if it is unknown.
        reason: The reason, in one sentence.
        evidence: The names of the predicates that are true.
        left_s: Seconds until a pending obligation can go unmet; None if none is
            pending.
        cap_kmh: For `slow`: the maximum speed, in km/h.
        action: For `substitute`: the action to carry out instead.
        violated: The laws broken at this frame.
        notes: Further remarks, such as a widened state or a revoked certificate.
        now: The risk of the law before the action, if the decision is about the state
            that the proposed action would lead to; None if the decision is about the
            frame.
        risks: The risk of every law, by name, in the state that the decision is about;
            laws whose risk is unknown are left out. The field `risks` is not part of
            the JSON.
        if_acted: The effect of slowing and stopping in runs that reached this risk, if
            the policy contains such counts. The counts do not affect decisions.
    """

    kind: Kind
    sequence: int
    time_s: float
    law: str = ""
    risk: Risk | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    left_s: float | None = None
    cap_kmh: float | None = None
    action: Action | None = None
    violated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    now: Risk | None = None
    risks: Mapping[str, Risk] = field(default_factory=dict, hash=False)
    if_acted: Band | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the decision as JSON, without empty fields."""
        content: dict[str, Any] = {
            "decision": self.kind,
            "sequence": self.sequence,
            "time_s": self.time_s,
            "law": self.law,
            "risk": None if self.risk is None else self.risk.as_dict(),
            "reason": self.reason,
            "left_s": self.left_s,
            "cap_kmh": self.cap_kmh,
        }
        if self.action is not None:
            content["action"] = asdict(self.action)
        if self.now is not None:
            content["now"] = self.now.as_dict()
        if self.if_acted is not None:
            content["if_acted"] = self.if_acted.as_dict()
        for name in ("evidence", "violated", "notes"):
            if value := getattr(self, name):
                content[name] = list(value)
        return content


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a decision.

    Args:
        kind: The intervention that was finally carried out.
        decided: The guard's decision.
        because: Why the outcome differs from the decision; empty if it does not.
        enforced: False in shadow mode, where the proposal is carried out.
        obeyed: Whether the frame shows that the previous intervention was obeyed; None
            if there was none, or if it is too early to judge.
        prompt: For `reflect`: the message to the agent before its next proposal.
        notes: Other events, such as a changed choice of the agent or a failed alert.
    """

    kind: Kind
    decided: Kind
    because: str = ""
    enforced: bool = True
    obeyed: bool | None = None
    prompt: str | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the outcome as JSON, without empty fields."""
        content: dict[str, Any] = {"kind": self.kind, "decided": self.decided}
        if not self.enforced:
            content["enforced"] = False
        for name in ("because", "obeyed", "prompt", "notes"):
            value = getattr(self, name)
            if value not in ("", None, ()):
                content[name] = list(value) if name == "notes" else value
        return content


@dataclass(frozen=True, slots=True)
class Turn:
    """The decision on one frame, with its outcome and the executed action.

    Args:
        decision: The guard's decision.
        outcome: The outcome of the decision.
        executed: The action that is carried out; None if there is none.
    """

    decision: Decision
    outcome: Outcome
    executed: Action | None

    @property
    def passes(self) -> bool:
        """Whether the action was carried out without an intervention."""
        return RANK[self.outcome.kind] <= RANK["alert"] or not self.outcome.enforced


@dataclass(frozen=True, slots=True)
class Judgement:
    """The intervention that a judge demands.

    Args:
        kind: The intervention; `proceed` for a mere remark.
        rule: The name of the judge's rule.
        reason: The reason, in one sentence.
        because: The findings behind the reason, as text.
        cap_kmh: For `slow`: the maximum speed, in km/h.
        action: For `substitute`: the action to carry out instead.
    """

    kind: Kind
    rule: str
    reason: str = ""
    because: tuple[str, ...] = ()
    cap_kmh: float | None = None
    action: Action | None = None


class Judge(ABC):
    """A set of rules or a guard program that judges the frames of each run.

    Attributes:
        rules: The judge's rules by name, with their texts; prompts may quote only these
            texts.
    """

    rules: Mapping[str, str]

    @property
    def substitutes(self) -> Mapping[str, Action]:
        """The actions that the judge substitutes for others, by the names of its
        rules.
        """
        return {}

    def unmatched(self, actions: Collection[str]) -> Mapping[str, Sequence[str]]:
        """Returns the rules that none of these actions can match, with the actions that
        they name.
        """
        return {}

    def check_tools(self, tools: Mapping[str, Collection[str]]) -> None:  # noqa: B027
        """Checks the judge's rules against all tools and their arguments.

        Raises:
            InvalidInput: A rule refers to a tool or argument that does not exist.
        """

    @abstractmethod
    def as_dict(self) -> Mapping[str, Any]:
        """Returns the judge's content for a record, from which the judge can be
        recreated.
        """

    def reset(self) -> None:  # noqa: B027
        """Begins a run."""

    @abstractmethod
    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        """Returns the intervention that the judge demands on this frame; None if it
        demands none.
        """
