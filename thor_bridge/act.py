"""The actions of a household robot, and an actuator for a guard's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import Actions, ActionSpec, Argument, number, word
from forewarn.plugins.contracts import Actuator, Example, Wrapping
from forewarn.plugins.household import IDLING, NEXT
from forewarn.thor_bridge.steps import BARE, VERBS


def _specs() -> Iterator[ActionSpec]:
    for verb in VERBS:
        given: dict[str, Argument] = {
            "object": word(required=verb != "put" and verb not in BARE),
            "number": number(1.0),
            NEXT: word(),
        }
        if verb == "put":
            given["receptacle"] = word()
        if verb == "fill_liquid":
            given["liquid"] = word()
        yield ActionSpec(verb, given)
    yield from IDLING


ACTIONS = Actions(*_specs())
"""The seventeen verbs, and four actions that do nothing."""


class RobotActuator(Wrapping):
    """An actuator that can let a proposal pass if the agent repeats it.

    Args:
        own: The world's actuator, which withholds proposals.
        withhold: `always` or `once`. With `once`, a proposal that the agent repeats
            after it was told to reconsider is carried out, as in ProbGuard, where a
            warning is only text.
    """

    def __init__(
        self, own: Actuator, *, withhold: Literal["always", "once"] = "always"
    ) -> None:
        super().__init__(own)
        self._once = withhold == "once"
        self._warned: Action | None = None

    @staticmethod
    def example() -> Example:
        return Example(world="household")

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        again = self._once and decision.kind == "reflect" and proposal == self._warned
        if again:
            decision = replace(decision, kind="proceed")
        passes = again or decision.kind in ("proceed", "alert")
        self._warned = None if passes else proposal
        return super().carry_out(decision, proposal, frame)
