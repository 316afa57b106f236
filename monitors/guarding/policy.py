"""Policies in YAML: which intervention a guard begins at which risk."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import yaml
from annotated_types import Ge, Gt, Lt
from pydantic import Field, create_model

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, naming, suggest
from forewarn.abstractions.files import atomic_text, read_yaml
from forewarn.abstractions.serial import Strict, to_json, validated
from forewarn.monitors.evaluation.branched import EDGES, Band
from forewarn.monitors.evaluation.evidence import Ordinary
from forewarn.monitors.evaluation.figures import Promise
from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.guarding.decision import RANK, SEVERITY, Kind
from forewarn.monitors.laws.lawbook import Law, broken_by_standing
from forewarn.monitors.risk.calibration import Calibration, JudgeBy

FORMAT = "forewarn.policy/1"
ANY_LAW = "*"

Stage = Literal["gate", "abstraction", "monitors", "policy"]
STAGES: tuple[Stage, ...] = ("gate", "abstraction", "monitors", "policy")

When = Literal["before", "after", "both"]
UnknownState = Literal["widen", "stop", "continue-with-warning"]
AfterViolation = Literal["stop", "re-arm"]
Revoked = Literal["alert", "continue", "fallback"]


STAGE_DEADLINE_S = 0.02
"""The default time limit of a stage in seconds; a stage normally takes microseconds."""


_RULE = "add a threshold, as in thresholds: {alert: 0.3}"


class InvalidPolicy(InvalidInput):
    """A policy file that breaks its schema or contradicts itself."""


@checked
@dataclass(frozen=True, slots=True)
class Step:
    """One intervention and the risk at which it begins.

    Args:
        kind: The intervention.
        threshold: The risk at which the intervention begins. If the policy gives the
            theta of the ProbGuard paper, the threshold is one minus theta, and only a
            risk above it counts.
        inclusive: Whether a risk equal to the threshold counts; False for a threshold
            that was computed from theta.
    """

    kind: Kind
    threshold: float
    inclusive: bool = True

    def applies(self, risk: float, margin: float = 0.0) -> bool:
        """Whether the risk reaches the threshold. NaN always counts as reached."""
        # No risk is below a low threshold by the whole margin, so half of the threshold
        # suffices.
        bound = self.threshold - min(margin, self.threshold / 2.0)
        calm = risk < bound if self.inclusive else risk <= bound
        return not (math.isfinite(risk) and calm)

    @property
    def least(self) -> float:
        """The lowest risk at which the intervention begins."""
        return self.threshold if self.inclusive else math.nextafter(self.threshold, 1)

    def check(self, place: str) -> None:
        """Rejects a step that is not an intervention, and a threshold that no risk can
        reach or that is not a probability.
        """
        if self.kind not in SEVERITY[1:]:
            mend = f"write one of {', '.join(SEVERITY[1:])}"
            problem = f"{self.kind!r:.60} is not an intervention"
            raise InvalidPolicy(problem, place=place, mend=mend)
        reached = self.threshold <= 1 if self.inclusive else self.threshold < 1
        if not (self.threshold >= 0 and reached):
            above = "at least" if self.inclusive else "above"
            raise InvalidPolicy(
                f"{self.kind} would never begin, because no risk can be {above} "
                f"{self.threshold:g}",
                place=place,
                mend="give a threshold from 0 to 1, or a p_safe_below above 0",
            )


@checked
@dataclass(frozen=True, slots=True)
class Policy:
    """Determines which intervention a guard begins at which risk. The fields are named
    like the keys in the file.

    Args:
        name: The policy's name, for messages.
        rules: The steps of each law, the mildest first; `*` applies to all other laws.
        horizon_s: The horizon H of the risk, in seconds.
        calibration: The calibration curve of a law's risk at that horizon: pairs of
            predicted and observed rates. The risks of other laws are not calibrated.
        promises: The guarantee of a law's mildest threshold for future runs.
        ordinary: The outcomes of ordinary runs under a law, against which drift is
            measured.
        kept: The guarantee for guarded runs, if it was certified.
        if_acted: The effect of slowing and stopping, by law and risk band; each
            decision to intervene contains it.
        tuned_for: The digest of the model for which the policy was tuned; empty if
            unknown.
        when: The state that is judged: `after` for the observed state, as in the
            ProbGuard paper; `before` for the state that the proposed action would lead
            to; or `both`.
        judge_by: The value that is compared with thresholds: the estimated risk, the
            upper end of its likely interval, or its upper bound.
        delta: The error probability of the bounds.
        hysteresis: How far the risk must fall below a threshold to count as low; half
            of the threshold suffices if that is less.
        hold_s: How long the risk must stay low before an intervention is released, in
            seconds.
        unknown_state: How a state never seen in training is treated.
        after_violation: What a guard does after a violation: `stop`, or `re-arm` to
            watch for the next one.
        revoked: What a guard does once its certificate is revoked: `alert`, `continue`
            or `fallback`.
        escalation: The kinds to which an intervention that is not obeyed escalates, the
            mildest first.
        max_reflections: How often an agent may reconsider one action.
        fallback: What the guard does when it cannot decide.
        max_age_s: The maximum age of an input, in seconds.
        frozen_after_s: Identical frames for this many seconds are a fault; None for no
            limit.
        deadline_s: The time limit of each stage of a review, in seconds.
        ack_s: The time limit for an intervention to show its effect, in seconds.
        lease_s: How long an actuator acts on one decision without renewal, in seconds.
        slow_cap_kmh: The maximum speed for `slow`, in km/h.
        shadow: Whether everything is decided and recorded, but nothing is enforced.
    """

    name: str = "default"
    rules: Mapping[str, tuple[Step, ...]] = field(
        default_factory=lambda: {
            ANY_LAW: (Step("alert", 0.3), Step("slow", 0.5), Step("stop", 0.8))
        }
    )
    horizon_s: Annotated[float, Gt(0)] = 3.0
    calibration: Mapping[str, Calibration] = field(default_factory=dict)
    promises: Mapping[str, Promise] = field(default_factory=dict)
    ordinary: Mapping[str, Ordinary] = field(default_factory=dict)
    kept: Guarantee | None = None
    if_acted: Mapping[str, tuple[Band, ...]] = field(default_factory=dict)
    tuned_for: str = ""
    when: When = "after"
    judge_by: JudgeBy = "point"
    delta: Annotated[float, Gt(0), Lt(1)] = 0.05
    hysteresis: Annotated[float, Ge(0), Lt(1)] = 0.05
    hold_s: Annotated[float, Ge(0)] = 10.0
    unknown_state: UnknownState = "widen"
    after_violation: AfterViolation = "re-arm"
    revoked: Revoked = "alert"
    escalation: tuple[Kind, ...] = ("reflect", "slow", "stop", "cut")
    max_reflections: Annotated[int, Ge(0)] = 3
    fallback: Kind = "stop"
    max_age_s: Annotated[float, Gt(0)] = 0.5
    frozen_after_s: Annotated[float, Gt(0)] | None = None
    deadline_s: Mapping[Stage, float] = field(
        default_factory=lambda: dict.fromkeys(STAGES, STAGE_DEADLINE_S)
    )
    ack_s: Annotated[float, Gt(0)] = 2.0
    lease_s: Annotated[float, Gt(0)] = 0.5
    slow_cap_kmh: Annotated[float, Ge(0)] = 15.0
    shadow: bool = False

    def __post_init__(self) -> None:
        """Rejects rules that could never act or that a file cannot express."""
        if not self.rules:
            raise InvalidPolicy("the policy has no rule", place="rules", mend=_RULE)
        for law, steps in self.rules.items():
            place = f"rules, law {law}"
            if not steps and self.after_violation != "stop":
                problem = "the rule has no threshold and would never act"
                raise InvalidPolicy(problem, place=place, mend=_RULE)
            for step in steps:
                if not isinstance(step, Step):
                    problem = f"{step!r:.60} is not a step"
                    mend = "write a tuple of steps, such as (Step('stop', 0.5),)"
                    raise InvalidPolicy(problem, place=place, mend=mend)
                step.check(place)
            ordered = sorted(steps, key=lambda step: step.least)
            kinds = [step.kind for step in ordered]
            _check_rising(kinds, "has a higher threshold than", place)

    @property
    def laws(self) -> tuple[str, ...]:
        """The laws that the policy names; empty if it has a rule for every law."""
        return () if ANY_LAW in self.rules else tuple(self.rules)

    def steps_for(self, law: str) -> tuple[Step, ...]:
        """Returns the steps of a law, the mildest first."""
        return self.rules.get(law, self.rules.get(ANY_LAW, ()))

    def only_alerts(self, laws: Sequence[str]) -> tuple[str, ...]:
        """Returns the laws among `laws` for which the policy only alerts."""
        kinds = {law: {step.kind for step in self.steps_for(law)} for law in laws}
        return tuple(law for law, does in kinds.items() if does == {"alert"})

    def without_rule(self, laws: Sequence[str]) -> tuple[str, ...]:
        """Returns the laws among `laws` for which the policy has no rule.

        Raises:
            InvalidPolicy: The policy has no rule for any of them, so the guard would do
                nothing.
        """
        found = [law for law in laws if not {law, ANY_LAW} & self.rules.keys()]
        if laws and len(found) == len(laws):
            ruled = ", ".join(self.rules)
            watched = ", ".join(laws)
            raise InvalidPolicy(
                f"the policy {self.name} has rules only for {ruled}, but the "
                f"watched laws are {watched}",
                mend=f"add a rule for one of them, or for any law ({ANY_LAW!r})",
            )
        return tuple(found)

    def after(self, kind: Kind) -> Kind:
        """Returns the intervention that follows if an intervention of this kind is not
        obeyed.
        """
        severer = (k for k in self.escalation if RANK[k] > RANK[kind])
        return next(severer, "cut")

    @property
    def digest(self) -> str:
        """A digest of the parts of the policy that determine a guard's decisions."""
        # As read from a file, where 2 and 2.0 are the same.
        content = Policy.from_dict(self.as_dict(), self.name).as_dict()
        told = "name promises ordinary kept if_acted tuned_for shadow"
        for name in told.split():
            content.pop(name, None)
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of the policy's file."""
        content: dict[str, Any] = {"format": FORMAT}
        content |= {item.name: getattr(self, item.name) for item in fields(self)}
        content["calibration"] = {
            law: [list(point) for point in curve.points]
            for law, curve in self.calibration.items()
        }
        content["promises"] = {law: to_json(p) for law, p in self.promises.items()}
        content["ordinary"] = {
            law: each.model_dump(mode="json", exclude_none=True)
            for law, each in self.ordinary.items()
        }
        content["if_acted"] = {
            law: [to_json(band) for band in bands]
            for law, bands in self.if_acted.items()
        }
        content["kept"] = self.kept and to_json(self.kept)
        content["escalation"] = list(self.escalation)
        content["deadline_s"] = dict(self.deadline_s)
        content["rules"] = [
            {"law": law} | _written(steps) for law, steps in self.rules.items()
        ]
        if self.revoked == "alert":
            del content["revoked"]
        for name in ("ordinary", "kept", "if_acted", "tuned_for"):
            if not content[name]:
                del content[name]
        return content

    @classmethod
    @checked
    def from_dict(cls, content: object, source: str) -> Policy:
        """Creates a policy from the content of a file."""
        file = validated(_PolicyFile, content, source, InvalidPolicy)
        values = {k: getattr(file, k) for k in file.model_fields_set - {"format"}}
        with naming(source):
            if "rules" in values:
                values["rules"] = _rules(values["rules"])
            if "calibration" in values:
                values["calibration"] = _curves(values["calibration"])
            if "deadline_s" in values:
                values["deadline_s"] = _deadlines(values["deadline_s"])
            kinds = values.get("escalation", ())
            _check_rising(kinds, "is listed after", "escalation")
            return cls(**values)


class _Rule(Strict):
    law: str
    thresholds: dict[str, float] | None = None
    p_safe_below: dict[str, float] | None = None


_Bands = Annotated[tuple[Band, ...], Field(max_length=len(EDGES) - 1)]

_KEYS: dict[str, Any] = get_type_hints(Policy, include_extras=True) | {
    "rules": Annotated[list[_Rule], Field(min_length=1)],
    "calibration": dict[str, list[tuple[float, float]]],
    "if_acted": dict[str, _Bands],
    "fallback": Literal["stop", "cut"],
    "deadline_s": float | dict[Stage, float],
    "horizon_s": Annotated[float, Field(gt=0, le=3600)],
    "max_reflections": Annotated[int, Field(ge=0, le=100)],
}
"""The keys of a file with their types; the listed ones differ from the policy's."""

_FIELDS: dict[str, Any] = {"format": Literal["forewarn.policy/1"]}
_FIELDS |= {key: (kind, None) for key, kind in _KEYS.items()}
_PolicyFile = create_model("_PolicyFile", __base__=Strict, **_FIELDS)


def _rules(rules: Sequence[_Rule]) -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {}
    for rule in rules:
        place = f"rules, law {rule.law}"
        if rule.law in found:
            raise InvalidPolicy(
                "the policy has two rules for this law",
                place=place,
                mend="put all thresholds of a law into one rule",
            )
        if (rule.thresholds is None) == (rule.p_safe_below is None):
            raise InvalidPolicy(
                "give either 'thresholds' (on risk) or 'p_safe_below' (theta of the "
                "ProbGuard paper)",
                place=place,
            )
        paper = rule.p_safe_below is not None
        entries = rule.p_safe_below if paper else rule.thresholds
        steps: list[Step] = []
        for kind, value in (entries or {}).items():
            if kind not in RANK or kind == "proceed":
                raise InvalidPolicy(
                    f"{kind!r} is not an intervention",
                    place=place,
                    mend=suggest(kind, SEVERITY[1:]),
                )
            if not 0 <= value <= 1:
                raise InvalidPolicy(
                    f"the threshold of {kind} is {value}, which is not a probability",
                    place=place,
                    mend="give a risk from 0 to 1, such as 0.8 for 80 %",
                )
            known: Kind = SEVERITY[SEVERITY.index(kind)]
            steps.append(Step(known, 1 - value if paper else value, not paper))
        found[rule.law] = tuple(sorted(steps, key=lambda step: step.threshold))
    return found


def _curves(
    given: Mapping[str, Sequence[tuple[float, float]]],
) -> dict[str, Calibration]:
    curves: dict[str, Calibration] = {}
    for law, points in given.items():
        with naming("", f"calibration, law {law}"):
            curves[law] = Calibration(tuple(points))
    return curves


def _deadlines(given: float | Mapping[Stage, float]) -> dict[Stage, float]:
    """Returns a time limit for each stage; a single number applies to all stages."""
    limits = given if isinstance(given, Mapping) else dict.fromkeys(STAGES, given)
    if not all(limit > 0 for limit in limits.values()):
        raise InvalidPolicy("a deadline must be above zero", place="deadline_s")
    return {stage: limits.get(stage, STAGE_DEADLINE_S) for stage in STAGES}


def _check_rising(kinds: Sequence[Kind], told: str, place: str) -> None:
    for milder, severer in pairwise(kinds):
        if RANK[milder] >= RANK[severer]:
            raise InvalidPolicy(
                f"{severer} {told} {milder}, but is not more severe",
                place=place,
                mend=f"the order is {', '.join(SEVERITY)}",
            )


def _written(steps: Sequence[Step]) -> dict[str, Any]:
    paper = {step.kind: 1 - step.threshold for step in steps if not step.inclusive}
    if steps and [1 - below for below in paper.values()] == [
        s.threshold for s in steps
    ]:
        return {"p_safe_below": paper}
    # If 1 - theta is not exact, the next larger number becomes an inclusive threshold.
    return {"thresholds": {step.kind: step.least for step in steps}}


def write_policy(path: Path, policy: Policy) -> None:
    """Writes a policy as its YAML file."""
    with atomic_text(path) as out:
        yaml.safe_dump(
            policy.as_dict(), out, sort_keys=False, allow_unicode=True,
            default_flow_style=None,
        )  # fmt: skip


@checked
def load_policy(path: Path | str) -> Policy:
    """Reads a policy from its YAML file."""
    path = Path(path)
    return Policy.from_dict(read_yaml(path), str(path))


_CLOCK_S = 0.5  # affects how long the check takes, but not its result


def acting(policy: Policy, kind: Kind, laws: Iterable[Law]) -> Policy:
    """Returns the policy with this intervention at the lowest threshold of each law.

    For a law that requires the car to move, the policy only alerts. Slowing or stopping
    would cause the violation, and forcing a stationary car to move is not a safe
    fallback.
    """
    moving = asks_to_move(laws) if RANK[kind] >= RANK["slow"] else frozenset[str]()
    rules = {
        law: tuple(
            # Only the lowest step: the others would be of the same kind.
            replace(step, kind="alert" if law in moving else kind)
            for step in steps[:1]
        )
        for law, steps in policy.rules.items()
    }
    return replace(policy, rules=rules)


def asks_to_move(laws: Iterable[Law]) -> frozenset[str]:
    """Returns the names of the laws that a car would break by standing still."""
    return frozenset(law.name for law in laws if broken_by_standing(law, _CLOCK_S))
