"""A guarantee about guarded runs: few of them break a law, and few are slowed down.

The guarantee is certified for one policy, chosen beforehand, on runs that were used for
nothing else. Each of the two rates is tested at the full confidence level. No
correction for two tests is needed, because the guarantee is stated only if both
succeed: a false guarantee requires that a wrong rate passes its test.
"""

from __future__ import annotations

from pydantic import Field

from forewarn.abstractions.serial import Strict
from forewarn.monitors.evaluation.figures import at_most, suffices


class Guarantee(Strict):
    """The rates that an acting policy guarantees for future runs, and the runs that
    support them.

    Args:
        violating: Maximum fraction of guarded runs that break a law.
        slowed: Maximum fraction of runs that are clean, but slowed by more than 10 %.
        confidence: The confidence level of the guarantee.
        runs: The number of held-out runs.
        broke: The number of held-out runs that broke a law.
        prolonged: The number of clean held-out runs that were slowed by more than 10 %.
        seeds: The first and the last seed of the held-out runs.
        scenario: The scenario's name.
        pilot: The pilot's name.
        drawn: The digest of the scenario and its pilot, which determine how runs are
            drawn.
        model: The digest of the parts of the model that affect decisions.
        policy: The digest of the parts of the policy that affect decisions.
    """

    violating: float = Field(gt=0, le=1)
    slowed: float = Field(gt=0, le=1)
    confidence: float = Field(gt=0, lt=1)
    runs: int = Field(gt=0)
    broke: int = Field(ge=0)
    prolonged: int = Field(ge=0)
    seeds: tuple[int, int]
    scenario: str
    pilot: str
    drawn: str
    model: str
    policy: str

    @property
    def certified(self) -> bool:
        """Whether the runs support the requested guarantee."""
        return not self.lacking()

    def lacking(self) -> list[str]:
        """Returns the reasons why there is no guarantee, with the number of runs that
        would suffice; empty if there is a guarantee.
        """
        found = []
        for part, allowed, what in (
            (self.broke, self.violating, "broke a law"),
            (self.prolonged, self.slowed, "were slowed by more than 10 %"),
        ):
            if bound(part, self.runs, allowed, self.confidence) <= allowed:
                continue
            enough = suffices(part, self.runs, allowed, 1 - self.confidence)
            more = (
                "no number of runs suffices at this rate"
                if enough is None
                else f"{enough} runs would suffice at this rate"
            )
            found.append(
                f"{part} of {self.runs} runs {what}, too many to certify at most"
                f" {_percent(allowed)}: {more}"
            )
        return found

    def holds(self, drawn: str, model: str, policy: str) -> bool:
        """Whether the guarantee applies to these runs, this model and this policy."""
        return (self.drawn, self.model, self.policy) == (drawn, model, policy)

    def sentence(self) -> str:
        """Returns the guarantee as text."""
        slowed, counted = "", f"{self.broke} of {self.runs} held-out runs did"
        if self.slowed < 1:
            slowed = (
                f" and at most {_percent(self.slowed)} are slowed by more than 10 %"
            )
            counted = (
                f"{self.broke} and {self.prolonged} of {self.runs} held-out runs did"
            )
        return (
            f"With {_percent(self.confidence)} confidence, at most"
            f" {_percent(self.violating)} of runs break a law{slowed}, if runs are"
            f" drawn in the same way, with this pilot, model and policy ({counted})."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def bound(part: int, whole: int, allowed: float, confidence: float) -> float:
    """Returns the upper confidence bound on a rate; 1 if any rate is allowed."""
    return allowed if allowed >= 1 else at_most(part, whole, 1 - confidence)
