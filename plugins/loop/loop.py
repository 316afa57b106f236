"""The guarded loop: what stands between whoever proposes and what is carried out.

    frame, proposal → guard → intervener → actuator → action

There is one, whoever calls it: the runner of scenarios, `forewarn apollo guard` and
`carla guard`, an agent's framework, a Gymnasium environment, a loop beyond a socket.
They differ in who calls, and in how the frame comes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from forewarn.abstractions.errors import said
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Action, Decision
from forewarn.monitors.guarding.guard import Clock, Guard, Observer
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.actions import Actions
from forewarn.plugins.contracts import Actuator, Unattended, World
from forewarn.plugins.loop.alerts import LOGGER, Alert
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.interventions import Intervener, Outcome
from forewarn.plugins.loop.lease import Lease, LeasedActuator, Watchdog
from forewarn.plugins.loop.reflection import Prompter
from forewarn.plugins.loop.tallies import TallyFile, Tallying
from forewarn.plugins.scenery import Scenic

Foresee = Callable[[Action], Frame]

LAPSED = "the lease ran out meanwhile"


class EpisodeClock:
    """Simulated time: it stands still while the guard judges a frame."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Witness(Protocol):
    """Hears what the loop decides, and what became of it."""

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Called after each review, before the next frame is read."""

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Called once it is settled what is carried out on the frame."""


@runtime_checkable
class Audience(Witness, Protocol):
    """A witness that hears of whole episodes, as who watches live does.

    It never raises, and never waits.
    """

    def began(self, name: str, guard: Guard, scenic: Scenic | None) -> None:
        """Called before the first frame of an episode is judged.

        Args:
            name: What the run is called.
            guard: Who judges it.
            scenic: Shows what there is to see, where anything does.
        """

    def ended(self, why: str) -> None:
        """Called when it is over."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What became of one frame.

    Args:
        decision: What was decided.
        outcome: What was done about it.
        executed: What is carried out; None: nothing.
    """

    decision: Decision
    outcome: Outcome
    executed: Action | None

    @property
    def passes(self) -> bool:
        """Whether nobody stepped in."""
        return RANK[self.outcome.kind] <= RANK["alert"] or not self.outcome.enforced


class GuardedLoop:
    """A guard with all that carries its decisions out. Use it with `with`.

    Nothing is decided before `begin`, which an episode starts with.

    Args:
        guard: Reviews the frames.
        clock: By which the lease and acknowledgements are timed: the world's own
            where it is simulated, and then the guard's too.
        alerts: Told of each intervention when it begins.
        approver: Who is asked; without one `ask` escalates.
        record: Where everything is written.
        observers: Hear of every review.
        witnesses: Hear of every decision, and what became of it.
        foresee: What an action would lead to, for a policy that asks.
        tally: Where the transitions go that were seen while nobody stepped in.
        name: What the run is called to those who watch it.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        clock: Clock = time.monotonic,
        alerts: Sequence[Alert] = (),
        approver: Approver | None = None,
        record: RunRecord | None = None,
        observers: Sequence[Observer] = (),
        witnesses: Sequence[Witness] = (),
        foresee: Foresee | None = None,
        tally: TallyFile | None = None,
        name: str = "",
    ) -> None:
        self.guard, self.record, self._name = guard, record, name
        self._clock, self._alerts, self._approver = clock, tuple(alerts), approver
        self._witnesses, self._foresee = tuple(witnesses), foresee
        self._audience = [each for each in witnesses if isinstance(each, Audience)]
        self._open = False
        self._scenic: Scenic | None = None
        self.lease = Lease(guard.policy.lease_s, clock)
        self._watching = ExitStack()
        self._before = list(guard.observers)
        # The record hears what it comes to in the end, whoever fails before it.
        guard.observers += [*observers, *([record] if record else [])]
        self._actuator: LeasedActuator | None = None
        self._tallying = None if tally is None else Tallying(guard.watch, tally)
        self.decisions: dict[str, int] = {}
        self.review_s = self.longest_review_s = 0.0

    def begin(
        self,
        actuator: Actuator,
        *,
        actions: Actions | None = None,
        halt: Callable[[], None] | None = None,
        seen: bool = True,
        repeat_s: float | None = None,
        scenic: Scenic | None = None,
    ) -> None:
        """Begins an episode.

        Args:
            actuator: Carries out what is decided in it.
            actions: What the world takes; what a person wants instead must be of it.
            halt: Makes the world safe, from a thread of the watchdog's, whenever
                nobody has judged a frame for the time of a lease. Where time is
                simulated it stands still meanwhile, and there is no watchdog.
            seen: Whether a first frame is there; otherwise the watchdog halts at once.
            repeat_s: How often it does so again.
            scenic: Shows what there is to see, to those who watch.
        """
        guard, policy = self.guard, self.guard.policy
        if self._tallying is not None:
            self._tallying.end()
        self._watching.close()
        guard.reset()
        # What earlier episodes showed is not in this one's record.
        guard.watch.forget_drift()
        self._actuator = LeasedActuator(actuator, self.lease)
        self._intervener = Intervener(
            self._actuator,
            policy,
            self._clock,
            prompter=Prompter.for_guard(guard),
            alerts=self._alerts,
            approver=self._approver,
            actions=actions,
        )
        self.lease.revoke()
        if seen:
            self.lease.renew()
        moves = not isinstance(self._clock, EpisodeClock)
        if halt is not None and moves and not policy.shadow:
            halts = self._halting(halt)
            self._watching.enter_context(Watchdog(self.lease, halts, repeat_s))
        self._ended("it began anew")
        self._scenic = scenic

    def _halting(self, halt: Callable[[], None]) -> Callable[[], None]:
        """The halt, as an intervention that it is."""

        def halts() -> None:
            self.guard.watch.interfered()
            halt()

        return halts if self._tallying is not None else halt

    def equip(self, world: World, actuator: Actuator | None = None) -> None:
        """Begins the episode that a world has begun, with what the world gives.

        Args:
            world: Its actuator, its actions, and its halt where it goes on by itself.
            actuator: Another one than its own.
        """
        halt = world.halt if isinstance(world, Unattended) else None
        self.begin(
            actuator or world.actuator(),
            actions=world.actions,
            halt=halt,
            scenic=world if isinstance(world, Scenic) else None,
        )

    # -- a frame's way ----------------------------------------------------------------

    def decide(self, frame: Frame, proposal: Action | None = None) -> Turn:
        """Judges a frame and the action proposed on it, and settles what is done."""
        return self.carry_out(self.review(frame, proposal), proposal, frame)

    def review(
        self,
        frame: Frame,
        proposal: Action | None = None,
        foreseen: Frame | None = None,
    ) -> Decision:
        """Judges a frame; of the last one of an episode nothing more is done.

        Args:
            frame: What is seen.
            proposal: What is to be done on it.
            foreseen: What that would lead to, where the caller knows.
        """
        try:
            return self._review(frame, proposal, foreseen)
        except BaseException:
            # Nobody can say how far it came: nothing passes until a new episode.
            self.guard.break_off()
            raise

    def _review(
        self, frame: Frame, proposal: Action | None, foreseen: Frame | None
    ) -> Decision:
        if isinstance(self._clock, EpisodeClock):
            self._clock.now_s = frame.time_s
        if self._audience and not self._open:
            self._open = True
            for each in self._audience:
                each.began(self._name, self.guard, self._scenic)
        self.lease.renew()
        began_s = time.perf_counter()
        decision = self.guard.review(
            frame, proposal, foreseen or self._foreseen(proposal)
        )
        took_s = time.perf_counter() - began_s
        self.review_s += took_s
        self.longest_review_s = max(self.longest_review_s, took_s)
        self.decisions[decision.kind] = self.decisions.get(decision.kind, 0) + 1
        for witness in self._witnesses:
            witness.decided(self.guard.watch, frame, decision)
        if self._tallying is not None:
            self._tallying.read()
        return decision

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Turn:
        """Settles what is done about a decision."""
        try:
            lapses = self._lapses
            executed, outcome = self._intervener.apply(decision, proposal, frame)
            turn = Turn(decision, outcome, executed)
            self._tell(frame, turn)
            if not turn.passes:
                self.guard.watch.interfered()
            return self._in_time(frame, turn, lapses)  # nothing comes after the lease
        except BaseException:
            self.guard.break_off()
            raise

    def _tell(self, frame: Frame, turn: Turn) -> None:
        outcome, executed = turn.outcome, turn.executed
        for witness in self._witnesses:
            witness.carried_out(frame, turn)
        passed = RANK[outcome.kind] <= RANK["alert"]
        telling = not passed or outcome.because or outcome.obeyed is not None
        if outcome.enforced and telling:
            done = as_json(executed)
            facts = {"sequence": frame.sequence, **outcome.as_dict(), "executed": done}
            self.note("carried_out", **facts)

    def _in_time(self, frame: Frame, turn: Turn, lapses: int) -> Turn:
        """The turn itself, unless the lease ran out before it was settled."""
        actuator, outcome, executed = self._actuator, turn.outcome, turn.executed
        # What a person says is newer than the lease; nothing else takes its time.
        if actuator is None or not outcome.enforced or outcome.kind == "ask":
            return turn
        if actuator.lapses == lapses:
            if self.lease.held:
                return turn
            executed = actuator.lapse(frame)
        self.guard.watch.interfered()
        outcome = replace(outcome, kind="stop", because=outcome.because or LAPSED)
        self.note("lapsed", sequence=frame.sequence, executed=as_json(executed))
        return Turn(turn.decision, outcome, executed)

    def asks(self, decision: Decision, proposal: Action | None) -> bool:
        """Whether a person would be asked before this is carried out."""
        return self._intervener.asks(decision, proposal)

    def keep(self, record: RunRecord) -> None:
        """From now on everything is written there."""
        self.record = record
        self.guard.observers.append(record)

    def note(self, event: str, **facts: Any) -> None:
        """Writes something else that happened."""
        if self.record is None:
            return
        try:
            self.record.event(event, **facts)
        except OSError as error:
            # It fails for good, and from now on no frame passes.
            logging.getLogger(LOGGER).warning("not recorded: %s", error)

    def _foreseen(self, proposal: Action | None) -> Frame | None:
        if self._foresee is None or proposal is None:
            return None
        try:
            return self._foresee(proposal)
        except Exception as error:
            # Without a frame the guard falls back.
            logging.getLogger(LOGGER).warning("nothing is foreseen: %s", said(error))
            return None

    # -- the end ----------------------------------------------------------------------

    def close(self, ended: str, **facts: Any) -> str | None:
        """Ends the watch and the record; gives the hash of its last line.

        Args:
            ended: Why it is over.
            facts: What else its last line says.
        """
        self._ended(ended)
        self._leave(whole="error" not in facts)
        if self.record is None:
            return None
        if self._lapses:
            facts["lapses"] = self._lapses
        return self.record.close(ended=ended, decisions=self.decisions, **facts)

    @property
    def _lapses(self) -> int:
        """How often the lease had run out in this episode when the actuator acted."""
        return 0 if self._actuator is None else self._actuator.lapses

    def _ended(self, why: str) -> None:
        if self._open:
            self._open = False
            for each in self._audience:
                each.ended(why)

    def _leave(self, whole: bool) -> None:
        self._ended("nobody guards it any more")
        if self._tallying is not None:
            self._tallying.end(whole)
            self._tallying.leave()
        self._watching.close()
        self.guard.observers[:] = self._before

    def __enter__(self) -> GuardedLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(whole=error is None)
        if self.record is not None:
            self.record.__exit__(kind, error, trace)


def as_json(action: Action | None) -> dict[str, Any] | None:
    """An action as traces and records hold it."""
    return None if action is None else {"name": action.name, **action.arguments}
