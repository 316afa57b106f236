"""The guard's part in one episode: reviewing, intervening, recording, timing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.guard import Clock, Guard, Observer
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.contracts import Actuator, Foresight, Source, World
from forewarn.plugins.loop.alerts import LOGGER, Alert
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.interventions import Intervener
from forewarn.plugins.loop.lease import Lease, LeasedActuator
from forewarn.plugins.loop.reflection import Prompter
from forewarn.scenarios.running.tracker import Tracker, as_json
from forewarn.scenarios.running.truth import Broken


@dataclass(frozen=True, slots=True)
class Guarding:
    """What a guard is made of, apart from the source that it watches.

    Args:
        make: The guard for a source, on a clock.
        policy: What it does at which risk.
        model: What the record's header says of its model.
        alerts: Told of each intervention when it begins.
        approver: Who is asked; without one `ask` escalates.
    """

    make: Callable[[Source, Clock], Guard]
    policy: Policy
    model: Mapping[str, Any] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    approver: Approver | None = None


class RiskLog(Protocol):
    """Takes down the risks of every law, frame by frame."""

    def reviewed(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Called after each review."""


class EpisodeClock:
    """Simulated time: it stands still while the guard judges a frame."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def foresight_of(world: World, policy: Policy) -> Foresight | None:
    """Who says what actions lead to; None where the policy does not ask.

    Raises:
        InvalidInput: The policy asks, and the world cannot say.
    """
    if policy.when == "after":
        return None
    if not isinstance(world, Foresight):
        raise InvalidInput(
            f"the world {world.source.name} cannot foresee what an action leads to, and"
            f" the policy's `when` is {policy.when!r}",
            mend="judge what is observed: `when: after`",
        )
    return world


class Oversight:
    """One guarded episode, in shadow mode or not.

    Args:
        guard: Begins a new episode.
        guarding: Its policy, and who is alerted.
        clock: The episode's clock, moved on with each frame; None in a live world,
            whose guard reads a clock of its own.
        actuator: Carries out what is decided.
        foresight: Says what actions lead to, where the policy asks that.
        record: Where everything is written.
        observers: Hear of every review.
        risks: Takes down the risks.
    """

    def __init__(
        self,
        guard: Guard,
        guarding: Guarding,
        clock: EpisodeClock | None,
        actuator: Actuator,
        foresight: Foresight | None = None,
        record: RunRecord | None = None,
        observers: Sequence[Observer] = (),
        risks: RiskLog | None = None,
    ) -> None:
        now = time.monotonic if clock is None else clock
        policy = guarding.policy
        self._guard, self._clock = guard, clock
        self._record, self._risks = record, risks
        self._foresight = foresight
        guard.observers[:] = [*([record] if record else []), *observers]
        guard.reset()
        if guard.watch.drift is not None:
            # What earlier episodes showed is not in this one's record.
            guard.watch.drift.forget()
        self._lease = Lease(policy.lease_s, now)
        self._actuator = LeasedActuator(actuator, self._lease)
        self._intervener = Intervener(
            self._actuator,
            policy,
            now,
            prompter=Prompter.for_guard(guard),
            alerts=guarding.alerts,
            approver=guarding.approver,
        )
        self.tracker = Tracker(guard.watch)
        self.review_s = self.longest_review_s = 0.0

    def __enter__(self) -> Oversight:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._record is not None:
            self._record.__exit__(kind, error, trace)

    def decide(
        self, frame: Frame, proposal: Action | None
    ) -> tuple[Action | None, str | None]:
        """What is carried out, and what the pilot is told when it next proposes."""
        decision = self._review(frame, proposal, self._foresee(proposal))
        executed, outcome = self._intervener.apply(decision, proposal, frame)
        self.tracker.carried_out(frame.time_s, decision, outcome)
        passed = outcome.kind in ("proceed", "alert")
        telling = not passed or outcome.because or outcome.obeyed is not None
        if self._record is not None and outcome.enforced and telling:
            self._record.event(
                "carried_out",
                sequence=frame.sequence,
                **outcome.as_dict(),
                executed=as_json(executed),
            )
        return executed, outcome.prompt

    def look(self, frame: Frame) -> None:
        """Reviews the last frame, on which nothing more is done."""
        self._review(frame, None, None)

    def _foresee(self, proposal: Action | None) -> Frame | None:
        if self._foresight is None or proposal is None:
            return None
        try:
            return self._foresight.foresee(proposal)
        except Exception as error:
            # Without a frame the guard falls back.
            logging.getLogger(LOGGER).warning("nothing is foreseen: %s", error)
            return None

    def _review(
        self, frame: Frame, proposal: Action | None, foreseen: Frame | None
    ) -> Decision:
        if self._clock is not None:
            self._clock.now_s = frame.time_s
        self._lease.renew()
        began_s = time.perf_counter()
        decision = self._guard.review(frame, proposal, foreseen)
        took_s = time.perf_counter() - began_s
        self.review_s += took_s
        self.longest_review_s = max(self.longest_review_s, took_s)
        self.tracker.decided(frame.time_s, decision)
        if self._risks is not None:
            self._risks.reviewed(self._guard.watch, frame, decision)
        return decision

    def broken(self, found: Broken) -> None:
        """Takes in a law that was broken."""
        if self._record is not None:
            self._record.event("violated", **found.as_dict())

    def close(
        self, ended: str, error: str | None, scene: str | None = None
    ) -> str | None:
        """Ends the record, which vouches for the scenes; gives its last line's hash."""
        if self._record is None:
            return None
        facts: dict[str, Any] = {"ended": ended, "decisions": self.tracker.decisions}
        if error is not None:
            facts["error"] = error
        if scene is not None:
            facts["scene"] = scene
        if self._actuator.lapses:
            facts["lapses"] = self._actuator.lapses
        return self._record.close(**facts)
