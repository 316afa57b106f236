"""Drift: whether runs still behave as in training, and whether guarantees still hold.

The examined quantities are those that users care about: violations, false alarms,
missed violations, the agreement of predicted risks with outcomes, and the highest
risks. Each run is one observation, regardless of its length. The level is divided among
the examined quantities, so that the total probability of reporting drift in an
unchanged world is at most `LEVEL`, regardless of the number of runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.evidence import (
    LEVEL,
    Ordinary,
    Outcome,
    Ranks,
    Rate,
    Reference,
    outcome_of,
)
from forewarn.monitors.evaluation.figures import Promise
from forewarn.monitors.evaluation.warned import Broken, alarms
from forewarn.monitors.guarding.decision import RANK, Decision
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.watch import Watch

Outcomes = Mapping[str, Outcome]
"""The outcome of a run for each law, by the law's name."""

ENOUGH = 1.0 / LEVEL
"""The amount of evidence at which drift is reported; it follows from the level."""

WHAT_TO_DO = (
    "update it with `forewarn learn --update`, or with `forewarn merge-tallies` and the"
    " fleet's tallies; until then, judge by `upper`, or hand over"
)
"""What to do about drift; docs/recordings.md has the details."""

NO_LONGER = "the model no longer fits"
"""The beginning of a report of drift."""

Reads = Callable[[Outcome], Any]
"""Extracts the examined quantity from a run; None if the run does not count."""

_WATCHED: Mapping[str, tuple[float, Reads]] = {
    "violations": (0.75, lambda run: run.violating),
    "false alarms": (0.1, lambda run: None if run.violating else run.alarmed),
    "missed violations": (0.05, lambda run: not run.alarmed if run.violating else None),
    "calibration": (0.05, lambda run: run.excess),
    "highest risk": (0.05, lambda run: run.highest),
}
"""The quantities examined in runs that a guard only watches, with the fraction of the
level for each.
"""

_ACTED: Mapping[str, tuple[float, Reads]] = {
    "violations": (0.75, lambda run: run.violating),
    "alarms": (0.2, lambda run: run.alarmed),
    "violations without alarm": (0.05, lambda run: run.violating and not run.alarmed),
}
"""The quantities examined in guarded runs, in which false alarms cannot be recognised.
"""


@dataclass(slots=True)
class Examined:
    """A quantity that is examined for drift, such as the violations of a law.

    Args:
        law: The law's name.
        what: The name of the examined quantity.
        share: The fraction of the level that is assigned to the quantity.
        reference: The rate or the runs to compare with, as text.
        by: The evidence of drift in the quantity.
        reads: Extracts the quantity from a run.
        runs: The number of runs that counted.
        happened: The number of those runs in which the event happened, if the quantity
            is an event.
    """

    law: str
    what: str
    share: float
    reference: str
    by: Rate | Ranks
    reads: Reads
    runs: int = 0
    happened: int = 0

    def observe(self, run: Outcome) -> None:
        """Adds one more run."""
        value = self.reads(run)
        if value is not None:
            self.by.observe(value)
            self.runs += 1
            self.happened += value is True

    @property
    def came(self) -> str:
        """The outcomes of the runs and the reference figures, as text."""
        came = f"{self.what} of {self.law}"
        if isinstance(self.by, Rate):
            came += f" in {self.happened} of {self.runs} runs"
        return f"{came} ({self.reference})"

    def as_dict(self) -> dict[str, Any]:
        """Returns the quantity and its evidence as JSON, for reports."""
        return {
            "law": self.law,
            "what": self.what,
            "runs": self.runs,
            "happened": self.happened if isinstance(self.by, Rate) else None,
            "reference": self.reference,
            "evidence": self.share * self.by.evidence,
        }


class Drift:
    """Tests for drift, one run after the other.

    Args:
        policy: The guard's policy, with its figures from training.
        laws: The names of the laws that are watched.
    """

    def __init__(self, policy: Policy, laws: Sequence[str]) -> None:
        self.acts = not policy.shadow and any(
            RANK[step.kind] > RANK["alert"]
            for law in laws
            for step in policy.steps_for(law)
        )
        self.examined: list[Examined] = []
        self.not_examined: list[str] = []
        questions = _ACTED if self.acts else _WATCHED
        for law in laws:
            for what, (share, reads) in questions.items():
                by = _compared(policy, law, what, self.acts)
                if by is None:
                    self.not_examined.append(f"{what} of {law}")
                    continue
                self.examined.append(Examined(law, what, share, *by, reads))
        whole = sum(each.share for each in self.examined)
        for each in self.examined:
            each.share /= whole
            if isinstance(each.by, Rate):
                each.by = Rate(each.by.reference, LEVEL * each.share)
        self.runs = 0
        self.evidence = 1.0
        self.found_at: int | None = None
        self.note = ""

    def observe(self, outcomes: Outcomes) -> None:
        """Adds one more run."""
        self.runs += 1
        for each in self.examined:
            if each.law in outcomes:
                each.observe(outcomes[each.law])
        if self.examined:
            self.evidence = sum(each.share * each.by.evidence for each in self.examined)
        if self.found_at is None and self.evidence >= ENOUGH:
            self.found_at = self.runs
            self.note = f"{NO_LONGER}: {self._why()}; {WHAT_TO_DO}"

    def _why(self) -> str:
        """Describes the quantity with the strongest evidence of drift."""
        most = max(self.examined, key=lambda each: each.share * each.by.evidence)
        return most.came

    def sentences(self) -> Iterator[str]:
        """Yields the evidence of drift in a sentence, if anything is examined."""
        if self.note:
            yield f"After {self.found_at} runs {self.note}."
        elif self.examined:
            yield (
                f"No drift in {self.runs} runs: the evidence is {self.evidence:.2g},"
                f" and drift is reported at {ENOUGH:g}."
            )

    def as_dict(self) -> dict[str, Any]:
        """Returns all evidence as JSON, for reports."""
        return {
            "runs": self.runs,
            "found_at": self.found_at,
            "evidence": self.evidence,
            "enough": ENOUGH,
            "level": LEVEL,
            "note": self.note,
            "examined": [each.as_dict() for each in self.examined],
            "not_examined": self.not_examined,
        }


def _compared(
    policy: Policy, law: str, what: str, acts: bool
) -> tuple[str, Rate | Ranks] | None:
    """Returns the reference for a quantity as text, and the evidence against it; None
    if unknown.

    If the guard intervenes and its policy is certified, the violations are compared
    with the certified rate of violating runs.
    """
    ordinary, promise = policy.ordinary.get(law), policy.promises.get(law)
    if what in ("calibration", "highest risk"):
        if ordinary is None:
            return None
        scores = ordinary.excess if what == "calibration" else ordinary.highest
        return f"training: {sum(scores.counts)} runs", Ranks(scores)
    reference = None if promise is None else _reference(promise, what)
    if what == "violations" and ordinary is not None:
        reference = _better_known(reference, ordinary)
    kept = policy.kept if acts else None
    if what == "violations" and kept is not None and kept.violating < 1.0:
        reference = Reference(kept.violating)
    return None if reference is None else (reference.words, Rate(reference))


def _reference(promise: Promise, what: str) -> Reference | None:
    """Returns the allowed rate of an event; None if there is no limit."""
    runs = promise.clean + promise.violating
    match what:
        case "violations":
            return Reference(happened=promise.violating, runs=runs)
        case "alarms":
            detected = promise.violating - promise.undetected
            return Reference(happened=promise.alarmed + detected, runs=runs)
        case "violations without alarm":
            return Reference(happened=promise.undetected, runs=runs)
    most = promise.false_alarms if what == "false alarms" else promise.missed
    return Reference(most) if most is not None and 0.0 < most < 1.0 else None


def _better_known(reference: Reference | None, ordinary: Ordinary) -> Reference | None:
    """Returns the guarantee's or the ordinary runs' rate, whichever has more runs."""
    if ordinary.violating is None:
        return reference
    if reference is not None and reference.runs >= ordinary.runs:
        return reference
    return Reference(happened=ordinary.violating, runs=ordinary.runs)


class Stated(Listener):
    """Records the estimated risks during one run, to compare them with the outcome.

    Args:
        policy: The guard's policy.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._times: list[float] = []
        self._risks: dict[str, list[float]] = {}
        self._forced: set[int] = set()

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Records one frame."""
        stopped = watch.unknown and self._policy.unknown_state == "stop"
        if decision.risk is None or stopped:
            self._forced.add(len(self._times))
        self._times.append(frame.time_s)
        for law in watch.laws:
            risk = math.nan if decision.risk is None else law.judged
            self._risks.setdefault(law.name, []).append(risk)

    def outcomes(self, broken: Sequence[Broken]) -> dict[str, Outcome]:
        """Returns the outcome of the run for each law.

        Args:
            broken: The violations, in order of time.
        """
        first = {each.law: each for each in reversed(broken)}
        found = {}
        for law, risks in self._risks.items():
            steps = self._policy.steps_for(law) or (Step("alert", math.inf),)
            raised = alarms(
                risks, steps[0].threshold, frozenset(self._forced), steps[0].inclusive
            )
            found[law] = outcome_of(
                self._times, risks, raised, first.get(law), self._policy.horizon_s
            )
        return found
