"""Carries out decisions, and checks that the world obeys them.

Each loop has an `Intervener` between the guard and the actuator. A decision escalates
in the order that the policy defines if the actuator cannot carry it out or the world
does not obey it in time. Any failure in this module leads to the actuator's fallback.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from traceback import walk_tb

from forewarn.abstractions.errors import said
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import (
    RANK,
    SHOWN,
    Action,
    Decision,
    Kind,
    Outcome,
)
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.actions import Actions, InvalidAction
from forewarn.plugins.contracts import Actuator
from forewarn.plugins.loop.alerts import tell
from forewarn.plugins.loop.approval import Approver, Desk
from forewarn.plugins.loop.reflection import Prompter

NOBODY = "there is nobody to ask"
ASK_S = 30.0


class Intervener:
    """Carries out decisions, frame by frame.

    With `reflect`, the action is withheld and the agent is told why. While the decision
    remains `reflect`, a different action passes unless its predicted risk is known and
    not below the current risk. After `max_reflections` reflections on the same law,
    decisions for that law escalate for the rest of the episode.

    Args:
        actuator: Carries out decisions.
        policy: Defines the order of escalation and the time within which the world must
            obey.
        clock: The clock for this time limit.
        prompter: Writes the reflect prompts; by default, prompts do not name the rule.
        listeners: Notified once per intervention, when it begins.
        approver: Asks a person when the decision is `ask`; without an approver, `ask`
            escalates.
        ask_s: The time limit for the person's answer in seconds.
        actions: The actions that the world accepts; None if unknown.
        forbids: Returns why a law forbids an action; empty if no law does.
    """

    def __init__(
        self,
        actuator: Actuator,
        policy: Policy,
        clock: Callable[[], float] = time.monotonic,
        *,
        prompter: Prompter | None = None,
        listeners: Sequence[Listener] = (),
        approver: Approver | None = None,
        ask_s: float = ASK_S,
        actions: Actions | None = None,
        forbids: Callable[[Action | None], str] = lambda _: "",
    ) -> None:
        self.actuator, self.policy = actuator, policy
        self._actions, self._forbids = actions, forbids
        self._clock = clock
        self._prompter = prompter or Prompter({}, (), policy.horizon_s)
        self._listeners = tuple(listeners)
        self._desk = None if approver is None else Desk(approver, ask_s)
        self.reset()

    def reset(self) -> None:
        """Starts a new episode."""
        self._pending: Decision | None = None
        self._shown_s = 0.0
        self._floor: Kind = "proceed"
        self._withheld: dict[str, list[Action]] = {}
        self._reflections: dict[str, int] = {}
        self._told: tuple[Kind, str] | None = None
        self._failure = ""

    def apply(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> tuple[Action | None, Outcome]:
        """Returns the action to carry out, and the outcome; never raises."""
        try:
            return self._apply(decision, proposal, frame)
        except Exception as error:
            why = said(error)
            if why != self._failure:
                self._failure = why
                *_, (at, line) = walk_tb(error.__traceback__)
                told = "%s failed, so the fallback applies: %s (%s, line %d)"
                name = at.f_code.co_filename
                tell(logging.ERROR, told, decision.kind, why, name, line)
            return self._fall_back(decision, why, frame)

    def asks(self, decision: Decision, proposal: Action | None) -> bool:
        """Whether this decision would ask a person; does not change the state."""
        kind = max(decision.kind, self._floor, key=RANK.__getitem__)
        if self.policy.shadow or RANK[kind] <= RANK["alert"]:
            return False
        if kind == "reflect" and self._thought_again(decision, proposal):
            return False
        return self._possible(kind, decision)[0] == "ask"

    def _apply(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> tuple[Action | None, Outcome]:
        if self.policy.shadow:
            return proposal, Outcome(decision.kind, decision.kind, enforced=False)
        now_s = self._clock()
        obeyed, because = self._judge_obedience(frame, now_s)
        if RANK[decision.kind] <= RANK["alert"] and self._floor != "cut":
            return self._release(decision, proposal, frame, obeyed)
        kind = decision.kind
        if RANK[self._floor] > RANK[kind]:
            kind = self._floor
            because = because or "a milder intervention was not obeyed"
        passes = kind == "reflect" and self._thought_again(decision, proposal)
        kind, why = (kind, "") if passes else self._possible(kind, decision)
        because = because or why
        carried = replace(decision, kind=kind)
        cap_kmh = carried.cap_kmh
        if kind == "slow" and (cap_kmh is None or not math.isfinite(cap_kmh)):
            carried = replace(carried, cap_kmh=self.policy.slow_cap_kmh)
        notes = self._alert(carried)
        outcome = Outcome(kind, decision.kind, because, True, obeyed, None, notes)
        if passes:
            self._pending = None
            notes = (*notes, "the agent chose another action")
            return proposal, replace(outcome, notes=notes)
        if kind == "ask":
            return self._ask(carried, proposal, frame, outcome)
        if kind == "reflect":
            outcome = replace(outcome, prompt=self._reflect(carried, proposal))
        self._expect(carried, now_s)
        return self.actuator.carry_out(carried, proposal, frame), outcome

    # -- obedience ------------------------------------------------------------------

    def _judge_obedience(self, frame: Frame, now_s: float) -> tuple[bool | None, str]:
        """Whether the last intervention was obeyed, and the reason if it was not."""
        pending = self._pending
        if pending is None:
            return None, ""
        # Only True counts: NaN, for example, is truthy but no evidence of obedience.
        if self.actuator.obeyed(pending, frame) is True:
            self._shown_s = now_s
            return True, ""
        # A clock that jumped backwards or returns NaN must not extend the time limit.
        if 0 <= now_s - self._shown_s <= self.policy.ack_s:
            return None, ""
        harder = self.policy.after(pending.kind)
        self._floor = max(self._floor, harder, key=RANK.__getitem__)
        self._shown_s = now_s
        return False, f"{pending.kind} was not obeyed within {self.policy.ack_s:g} s"

    def _expect(self, carried: Decision, now_s: float) -> None:
        """Sets the decision that the world has to obey."""
        if carried.kind not in SHOWN:
            self._pending = None
            return
        if self._pending is None or self._pending.kind != carried.kind:
            self._shown_s = now_s
        if carried.kind == "cut":
            self._floor = "cut"  # `cut` is permanent
        self._pending = carried

    def _release(
        self,
        decision: Decision,
        proposal: Action | None,
        frame: Frame,
        obeyed: bool | None,
    ) -> tuple[Action | None, Outcome]:
        self._pending = None
        self._floor = "proceed"
        self._withheld.clear()
        notes: tuple[str, ...] = ()
        if decision.kind == "alert":
            notes = self._alert(decision)
        else:
            self._told = None
        action = self.actuator.carry_out(decision, proposal, frame)
        return action, Outcome(decision.kind, decision.kind, obeyed=obeyed, notes=notes)

    # -- escalation -----------------------------------------------------------------

    def _possible(self, kind: Kind, decision: Decision) -> tuple[Kind, str]:
        """Escalates from `kind` to an intervention that can be carried out."""
        why = ""
        while lack := self._lack(kind, decision):
            why = why or lack
            kind, milder = self.policy.after(kind), kind
            if kind == milder:
                return "stop", why
        return kind, why

    def _lack(self, kind: Kind, decision: Decision) -> str:
        """Returns the reason why an intervention cannot be carried out; empty if it
        can.
        """
        if kind == "ask":
            return "" if self._desk is not None else NOBODY
        if kind not in self.actuator.can:
            return f"the actuator cannot {kind}"
        if kind == "substitute":
            if self._actions is None:
                return "the available actions are unknown"
            return self._misfit(decision.action) or self._forbids(decision.action)
        if kind == "reflect":
            given = self._reflections.get(decision.law, 0)
            if given >= self.policy.max_reflections:
                return f"{given} reflections did not help"
        return ""

    # -- reflect and ask ------------------------------------------------------------

    def _thought_again(self, decision: Decision, proposal: Action | None) -> bool:
        """Whether an agent that was prompted about this law now proposes something
        else.

        If the effect of the alternative is predicted, it must lower the risk.
        """
        withheld = self._withheld.get(decision.law)
        if withheld is None or not _eases(decision):
            return False
        return proposal is None or _plain(proposal) not in map(_plain, withheld)

    def _reflect(self, decision: Decision, proposal: Action | None) -> str:
        given = self._reflections.get(decision.law, 0) + 1
        attempts = self.policy.max_reflections
        words = self._prompter.prompt(decision, proposal, given, attempts).text
        # The agent has now been prompted, so another action may pass.
        self._reflections[decision.law] = given
        withheld = self._withheld.setdefault(decision.law, [])
        if proposal is not None and _plain(proposal) not in map(_plain, withheld):
            withheld.append(proposal)
        return words

    def _ask(
        self,
        decision: Decision,
        proposal: Action | None,
        frame: Frame,
        outcome: Outcome,
    ) -> tuple[Action | None, Outcome]:
        self._pending = None
        answer = None if self._desk is None else self._desk.ask(decision, proposal)
        if answer is None:
            return self._fall_back(decision, "nobody answered in time", frame, outcome)
        notes = (*outcome.notes, f"a person said: {answer.verdict}")
        outcome = replace(outcome, notes=notes)
        if answer.verdict == "approve":
            return proposal, outcome
        if answer.verdict == "reject":
            because = "a person rejected the action"
        elif not (because := self._misfit(answer.action)):
            return answer.action, outcome
        return self._fall_back(decision, because, frame, outcome)

    def _misfit(self, action: Action | None) -> str:
        """Returns the reason why an action cannot replace the proposal; empty if it
        can.
        """
        if action is None:
            return "there is no action to substitute"
        if self._actions is None:
            return ""
        try:
            self._actions.check(action)
        except InvalidAction as error:
            return error.problem
        return ""

    # -- alerts and the fallback ----------------------------------------------------

    def _alert(self, decision: Decision) -> tuple[str, ...]:
        """Notifies all listeners of a new intervention; returns a note per failure."""
        about = decision.kind, decision.law
        if about == self._told:
            return ()
        self._told = about
        failed: list[str] = []
        for listener in self._listeners:
            try:
                listener.alerted(decision)
            except Exception as error:
                failed.append(f"an alert failed: {said(error)}")
        return tuple(failed)

    def _fall_back(
        self,
        decision: Decision,
        because: str,
        frame: Frame,
        outcome: Outcome | None = None,
    ) -> tuple[Action | None, Outcome]:
        kind = self.policy.fallback
        carried = replace(decision, kind=kind)
        outcome = replace(
            outcome or Outcome(kind, decision.kind), kind=kind, because=because
        )
        self._expect(carried, self._now_s())
        try:
            if kind == "cut" and "cut" in self.actuator.can:
                return self.actuator.carry_out(carried, None, frame), outcome
        except Exception as error:
            outcome = replace(outcome, because=f"{because}; {said(error)}")
        outcome = replace(outcome, kind="stop")
        try:
            return self.actuator.fallback(frame), outcome
        except Exception as error:
            tell(logging.CRITICAL, "the fallback failed: %s", said(error))
            why = f"{outcome.because}; the fallback failed: {said(error)}"
            return None, replace(outcome, because=why)

    def _now_s(self) -> float:
        """Returns the time in seconds.

        It is NaN if the clock fails, so that every time limit counts as exceeded.
        """
        try:
            return self._clock()
        except Exception:
            return math.nan


def _eases(decision: Decision) -> bool:
    """Whether the proposal lowers the risk; true if its effect is not predicted."""
    now, then = decision.now, decision.risk
    if now is None or then is None:
        return now is None
    return then.point < now.point and then.high <= now.high


def _plain(action: Action) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Normalises an action: ignores case, outer spaces and the order of arguments."""
    arguments = ((k, str(v).casefold().strip()) for k, v in action.arguments.items())
    return action.name.casefold().strip(), tuple(sorted(arguments))
