"""The guard: reviews each frame and the proposed action, and returns a decision.

An action passes only if the frame is fresh and complete, the state is known or widened
to known states, and the risk is finite and below every threshold. Any internal failure
leads to the policy's fallback, never to an exception in the calling loop.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import ForewarnError, InvalidModel, said
from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.branched import band_of
from forewarn.monitors.guarding.calling import Calling, Held
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import (
    CUT,
    RANK,
    Action,
    Decision,
    Judge,
    Judgement,
    Kind,
    Risk,
    cut_short,
)
from forewarn.monitors.guarding.gate import Gate, Limits
from forewarn.monitors.guarding.listening import (
    Interference,
    Listener,
    interferes,
)
from forewarn.monitors.guarding.policy import STAGES, Policy, Stage
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.monitors.risk.calibration import Calibration

Clock = Callable[[], float]

_HELD = RANK["slow"]
"""Interventions of a judge with at least this severity are held, like those for a risk.
"""
_LOG = logging.getLogger("forewarn")
_NO_FRAME = Frame(math.nan, -1)
"""The frame that is judged in place of an object that is not a frame."""

CANNOT_JUDGE = "the guard cannot judge this frame: "
FAILED = CANNOT_JUDGE + "the guard itself failed: "
LEFT = CANNOT_JUDGE + "the guard's `with` block was left"
BROKEN_OFF = CANNOT_JUDGE + "an earlier review was broken off"
UNFORESEEN = "there is no prediction of the action's result"
UNFIT = "the predicted result of the action: "
OVERSIZED = "the action's arguments are too large to be recorded"
REVOKED = "the certificate is revoked: "
UNTOLD = CANNOT_JUDGE + "a listener failed: "
"""The beginning of the reason for a fallback after a listener failed."""


@checked
class Guard:
    """Reviews the frames of one run after another.

    The guard is a context manager: after the `with` block, no action passes.

    Args:
        watch: The model with its laws and risks; see `load_watch`.
        policy: The interventions and their thresholds.
        provides: The signals that the source provides in every frame; None for the
            signals that the model needs.
        clock: A function that returns a time in seconds that never decreases; simulated
            time in embedded worlds.
        listeners: Called with every review, in order. If a listener fails, later ones
            receive the fallback; the record comes last.
        judges: Rules and guard programs that judge in addition to the risk, or alone if
            there is no law.
    """

    def __init__(
        self,
        watch: Watch,
        policy: Policy,
        *,
        provides: Sequence[str] | None = None,
        clock: Clock = time.monotonic,
        listeners: Sequence[Listener] = (),
        judges: Sequence[Judge] = (),
    ) -> None:
        self.judges = tuple(judges)
        self.watch = watch
        self.policy = policy
        self._clock = clock
        ages = [n for n in provides or () if n.endswith("_age")]
        if provides is not None and (lack := set(watch.signals) - set(provides)):
            known = watch.vocabulary
            of = "" if known is None else f" of the vocabulary {known.name}"
            raise InvalidModel(
                f"the source does not provide {', '.join(sorted(lack))}{of}",
                mend=(
                    "use a model whose predicates use only signals that the source "
                    "provides"
                ),
            )
        leap_s = policy.max_age_s + watch.period_s
        limits = Limits(policy.max_age_s, policy.frozen_after_s, leap_s)
        needs = dict.fromkeys([*watch.signals, *ages])
        self._gate = Gate(list(needs), limits, watch.vocabulary)
        for law in watch.laws:
            curve = policy.calibration.get(law.name, Calibration())
            law.correct(curve, policy.judge_by)
        self.without_rule = policy.without_rule([law.name for law in watch.laws])
        self._allowed_s = policy.deadline_s
        self._holding = (
            f"{{}} is held until the risk has stayed low for {policy.hold_s:g} s"
        )
        alone = self.judges and not watch.laws and not watch.not_applicable
        self._lawless = "" if alone else "no law is applicable"
        self._calling = Calling(
            policy,
            [policy.steps_for(law.name) for law in watch.laws],
            "proceed" if alone else policy.fallback,
        )
        self._readings: list[float] = []
        self._drift = Interference(watch, policy)
        self.revoke("")
        self.counts: dict[str, int] = {}
        self.reset(listeners)

    @checked
    def reset(self, listeners: Sequence[Listener] | None = None) -> None:
        """Begins a new run: the state is unknown, and nothing passes yet.

        Args:
            listeners: The new listeners; None to keep the previous ones.
        """
        if listeners is not None:
            self._listeners = (self._drift, *listeners)
        self._gate.reset()
        self.watch.reset()
        for judge in self.judges:
            judge.reset()
        self._ended = ""
        self._held: Decision | None = None
        self._decided_s = math.nan
        self._calling.reset()

    @checked
    def revoke(self, why: str) -> None:
        """Revokes the guard's certificate for this reason; an empty reason reinstates
        it.

        The policy determines the consequence. Every decision then contains the reason.
        """
        self.revoked = why
        # Every decision states which checks are switched off.
        shadow = ("shadow: nothing is enforced",) if self.policy.shadow else ()
        revoked = (REVOKED + why,) if why else ()
        self._standing: tuple[str, ...] = (*shadow, *revoked)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.break_off(LEFT)

    # -- reviewing ------------------------------------------------------------------

    def review(
        self,
        frame: Frame,
        proposal: Action | None = None,
        foreseen: Frame | None = None,
    ) -> Decision:
        """Judges one frame and the action proposed on it. Raises no exception.

        Args:
            frame: The present frame. Any other object counts as a lost frame.
            proposal: The proposed action. With any other object, the frame counts as
                lost.
            foreseen: The predicted next frame, for a policy that judges actions before
                they are carried out; without a predicted frame, a proposal does not
                pass.
        """
        ended, self._ended = self._ended, BROKEN_OFF  # unless this review completes
        readings: list[float] = []
        self._readings = readings
        asked, proposal = proposal, None  # not used before its size is checked
        wrong = ""
        if type(frame) is not Frame:
            found = type(frame).__name__
            wrong = f"review expects Frame(time_s, sequence, signals), but got {found}"
        elif asked is not None and not isinstance(asked, Action):
            wrong = f"the proposal must be an Action, but is {type(asked).__name__}"
        if wrong:
            _LOG.warning("%s", wrong)
            frame, asked = _NO_FRAME, None
        try:
            proposal = cut_short(asked)
            if ended:
                decision = self._fallback(frame, ended)
            else:
                decision = self._judge(frame, proposal, foreseen)
                if wrong:
                    decision = replace(decision, reason=CANNOT_JUDGE + wrong)
        except ForewarnError as error:
            why = CANNOT_JUDGE + said(error)
            decision = self._fallback(frame, why, self.watch.violated)
        except Exception as error:
            # After a defect, or if memory ran out, the review's progress is unknown.
            ended = BROKEN_OFF
            decision = self._fallback(frame, FAILED + said(error))
        if self.judges:
            try:
                decision = self._judged(decision, frame, proposal)
            except Exception as error:
                ended = BROKEN_OFF
                decision = self._fallback(frame, FAILED + said(error))
        for listener in self._listeners:
            try:
                listener.reviewed(frame, proposal, decision, tuple(readings), foreseen)
            except Exception as error:
                with suppress(Exception):
                    listener.failed(error)
                why = UNTOLD + said(error)
                decision = self._fallback(frame, why, decision.violated)
        self.counts[decision.kind] = self.counts.get(decision.kind, 0) + 1
        self._ended = ended and BROKEN_OFF
        return decision

    def break_off(self, reason: str = BROKEN_OFF) -> None:
        """Marks the last review as broken off; nothing passes until `reset`.

        After an interrupt in the middle of a review, the review's progress is unknown.
        """
        self._ended = reason

    def filter(self, control: Any, frame: Frame, stop: Any = None) -> Any:
        """Returns the control if the guard lets it pass, otherwise `stop`.

        A filter can only pass or stop, so every intervention more severe than an alert
        stops.
        """
        return stop if interferes(self.review(frame), self.policy) else control

    def summary(self) -> dict[str, Any]:
        """Returns a summary of the reviews so far."""
        return {
            "decisions": dict(self.counts),
            "laws": [law.name for law in self.watch.laws],
            "without_rule": list(self.without_rule),
            "unknown_states": self.watch.unknown_seen,
            "shadow": self.policy.shadow,
        }

    def _read_clock(self) -> float:
        now_s = self._clock()
        self._readings.append(now_s)
        return now_s

    def _late(self, readings: Sequence[float], stages: Sequence[Stage]) -> str | None:
        """Returns the stage that took too long, or whose clock readings are
        inconsistent.
        """
        for stage, (began_s, now_s) in zip(
            stages, itertools.pairwise(readings), strict=True
        ):
            if not 0 <= now_s - began_s <= self._allowed_s[stage]:
                return f"{stage} took longer than {self._allowed_s[stage]:g} s"
        return None

    def _judge(
        self, frame: Frame, proposal: Action | None, foreseen: Frame | None
    ) -> Decision:
        # From here on, the frame counts as lost unless all laws read it; the next call
        # of `expect` detects this. Time limits are checked when all stages are over.
        self.watch.expect()
        fault = self._gate.admit(frame, self._read_clock())
        if proposal is not None and CUT in proposal.arguments:
            fault = fault or OVERSIZED
        if fault is not None:
            return self._fallback(frame, CANNOT_JUDGE + fault)
        self._read_clock()
        bits = self.watch.abstracted(frame)
        self._read_clock()
        ticked = self.watch.advance(bits)
        self._read_clock()
        before = proposal is not None and self.policy.when != "after"
        decision = self._decide_now(frame, ticked, before)
        if before:
            ahead = self._decide_ahead(frame, foreseen)
            if RANK[ahead.kind] >= RANK[decision.kind]:
                decision = replace(ahead, violated=decision.violated)
        self._read_clock()
        fault = (
            self._gate.stale(frame)
            or self._late(self._readings, STAGES)
            or self._outdated(frame)
        )
        if fault is not None:
            why = CANNOT_JUDGE + fault
            return self._fallback(frame, why, self.watch.violated)
        if self.revoked and self.policy.revoked == "fallback":
            return self._fallback(frame, REVOKED + self.revoked, self.watch.violated)
        return decision

    def _judged(
        self, decision: Decision, frame: Frame, proposal: Action | None
    ) -> Decision:
        """Returns the decision after rules and programs have judged. Every judge sees
        every frame.
        """
        began_s = self._read_clock()
        for judge in self.judges:
            try:
                decision = self._joined(decision, judge.judge(frame, proposal), frame)
            except Exception as error:
                decision = self._fallback(frame, CANNOT_JUDGE + said(error))
        fault = self._late([began_s, self._read_clock()], STAGES[-1:])
        if fault is not None:
            return self._fallback(frame, CANNOT_JUDGE + fault)
        return decision

    def _joined(
        self, decision: Decision, found: Judgement | None, frame: Frame
    ) -> Decision:
        """Returns the more severe of the present decision and a judge's judgement."""
        if found is None:
            return decision
        if found.kind == "proceed":
            return replace(decision, notes=(*decision.notes, found.reason))
        if RANK[found.kind] < RANK[decision.kind]:
            return decision
        caps = [c for c in (found.cap_kmh, decision.cap_kmh) if c is not None]
        joined = Decision(
            found.kind,
            frame.sequence,
            frame.time_s,
            found.rule,
            None,
            found.reason,
            found.because,
            cap_kmh=min(filter(math.isfinite, caps), default=None),
            action=found.action,
            violated=decision.violated,
            notes=decision.notes,
            risks=decision.risks,
        )
        if RANK[found.kind] >= _HELD:
            self._held = joined
            self._calling.hold(joined.kind, joined.cap_kmh)
        return joined

    def _outdated(self, frame: Frame) -> str | None:
        """Returns why the decision of the last tick is outdated; None if it is not."""
        since_s = frame.time_s - self._decided_s
        if since_s <= self.policy.max_age_s:
            return None
        return (
            f"the model's last state is {since_s:.3g} s old: its states are"
            f" {self.watch.period_s:g} s apart"
        )

    def _decide_now(self, frame: Frame, ticked: bool, before: bool) -> Decision:
        """Returns the intervention for the present state, unless the policy judges only
        the action.
        """
        if not ticked and self._held is not None and not self.watch.lost:
            # Between two ticks, the monitors have no new information.
            return replace(
                self._held, sequence=frame.sequence, time_s=frame.time_s, violated=()
            )
        only_ahead = before and self.policy.when == "before"
        self._held = self._decide(frame, ahead=only_ahead)
        self._decided_s = frame.time_s
        return self._held

    def _decide(self, frame: Frame, ahead: bool) -> Decision:
        """Returns the intervention that the laws demand (unless only actions are
        judged), or the one that is held.
        """
        watch, calling = self.watch, self._calling
        law, kind = calling.worst(watch, ahead)
        held = calling.kept(watch, frame.time_s, kind, ahead)
        reason = ""
        if held is not None:
            kind = held.kind
            reason = self._holding.format(kind)
        elif law is None:
            reason = self._lawless
        elif kind != "proceed":
            reason = law.sentence(self.policy.horizon_s)
        return self._decision(frame, kind, reason, watch, law, held)

    def _decide_ahead(self, frame: Frame, foreseen: Frame | None) -> Decision:
        """Returns the intervention that the laws demand in the state after the proposed
        action.

        The intervention is not held, because the next proposal may lead elsewhere.
        """
        if foreseen is None or (fault := self._gate.content(foreseen)):
            why = UNFORESEEN if foreseen is None else f"{UNFIT}{fault}"
            return self._fallback(frame, CANNOT_JUDGE + why)
        return self._ahead(frame, foreseen, "the proposed action")

    def forbids(self, foreseen: Frame | None) -> str:
        """Returns why an action that leads to this state is not allowed as a
        substitute; empty if it is allowed.
        """
        if foreseen is None or (fault := self._gate.content(foreseen)):
            return UNFORESEEN if foreseen is None else f"{UNFIT}{fault}"
        ahead = self._ahead(foreseen, foreseen, "the substitute")
        passes = not (ahead.violated or interferes(ahead, self.policy))
        return "" if passes else ahead.reason

    def _ahead(self, frame: Frame, foreseen: Frame, action: str) -> Decision:
        ahead = self.watch.foresee(foreseen)
        law, kind = self._calling.worst(ahead)
        if law is None:
            return self._decision(frame, kind, self._lawless, ahead)
        reason = ""
        if law.broken:
            reason = f"{action} would break {law.name}"
        elif kind != "proceed":
            said = law.sentence(self.policy.horizon_s)
            reason = f"after {action}, {said}"
        now = self.watch.laws[ahead.laws.index(law)].risk
        return self._decision(frame, kind, reason, ahead, law, now=now)

    # -- decisions ------------------------------------------------------------------

    def _decision(
        self,
        frame: Frame,
        kind: Kind,
        reason: str,
        watch: Watch,
        law: LawWatch | None = None,
        held: Held | None = None,
        now: Risk | None = None,
    ) -> Decision:
        notes = (*self._standing, *watch.notes())
        if watch.unknown and self.policy.unknown_state == "continue-with-warning":
            notes = (*notes, "continuing in a state never seen in training")
        if law is None:
            return Decision(
                kind, frame.sequence, frame.time_s, reason=reason, notes=notes
            )
        only_alert = self.revoked and self.policy.revoked == "alert"
        if only_alert and RANK[kind] > RANK["alert"]:
            kind, held = "alert", None
        cap_kmh = self.policy.slow_cap_kmh if kind == "slow" else None
        return Decision(
            kind,
            frame.sequence,
            frame.time_s,
            law.name,
            law.risk if math.isfinite(law.point) else None,
            reason,
            () if kind == "proceed" else watch.evidence(law),
            law.left_s,
            cap_kmh if held is None else held.cap_kmh,
            None,
            watch.violated,
            notes,
            now,
            watch.risks,
            # The runs from which these counts come had no intervention before they
            # branched.
            band_of(self.policy.if_acted.get(law.name, ()), law.point)
            if kind != "proceed" and held is None and now is None
            else None,
        )

    def _fallback(
        self, frame: Frame, reason: str, violated: tuple[str, ...] = ()
    ) -> Decision:
        decision = Decision(
            self.policy.fallback,
            frame.sequence,
            frame.time_s,
            reason=reason,
            violated=violated,
            notes=self._standing,
        )
        # The fallback is held like any intervention, because a single valid frame does
        # not prove that the fault is over.
        self._held = decision
        self._calling.hold(decision.kind, None)
        return decision


__all__ = ["Clock", "Guard", "load_watch"]
