"""The guarded loop, from the pilot's proposal to the action carried out.

    frame, proposal → guard → intervener → actuator → action

All callers share this loop: the scenario runner, `forewarn apollo guard`, `forewarn
carla guard`, agent frameworks, Gymnasium environments, and remote loops.
"""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from forewarn.abstractions.errors import said
from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Turn
from forewarn.monitors.guarding.guard import CANNOT_JUDGE, Clock, Guard
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.actions import Actions
from forewarn.plugins.contracts import Actuator, Foresight, Scenic, Unattended, World
from forewarn.plugins.loop.alerts import tell
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.interventions import Intervener
from forewarn.plugins.loop.lease import Lease, LeasedActuator, Watchdog
from forewarn.plugins.loop.records import ANEW, Records
from forewarn.plugins.loop.reflection import Prompter
from forewarn.plugins.loop.tallies import TallyFile, Tallying
from forewarn.plugins.loop.warrant import Warrant, Witness

Foresee = Callable[[Action], Frame]

LAPSED = "the lease ran out meanwhile"
NOT_BEGUN = CANNOT_JUDGE + "its run did not begin"
FORKED = CANNOT_JUDGE + "it was made in another process, before a fork"


class EpisodeClock:
    """A clock of simulated time, which does not advance while the guard reviews a
    frame.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class GuardedLoop:
    """Guards successive runs, and carries out the guard's decisions.

    `Guarding.open` creates a loop, which is a context manager. Every run starts with
    `begin`; before that, no frame can be reviewed.

    Args:
        guard: The guard, which reviews the frames.
        source: The source of the frames.
        clock: The clock for the lease and acknowledgements. An `EpisodeClock` is set to
            the time of each frame.
        listeners: The listeners to notify of every run.
        approver: Asks a person when the decision is `ask`; without an approver, `ask`
            escalates.
        foresee: Predicts the frame that an action would lead to.
        actions: The actions that the world accepts. An action that a person chooses
            instead must be one of them.
        tally: The file in which transitions are counted while no intervention is
            active.
        records: Opens the record of each run.
        name: The loop's display name.
        warrant: The guard's certificate, for which each run counts as evidence.
    """

    def __init__(
        self,
        guard: Guard,
        source: Source | None = None,
        *,
        clock: Clock = time.monotonic,
        listeners: Sequence[Listener] = (),
        approver: Approver | None = None,
        foresee: Foresee | None = None,
        actions: Actions | None = None,
        tally: TallyFile | None = None,
        records: Records | None = None,
        name: str = "",
        warrant: Warrant | None = None,
    ) -> None:
        self._warrant = warrant
        self.guard, self.name = guard, name
        self.record: RunRecord | None = None
        self.source = source or Source(name)
        self._clock, self._approver, self._actions = clock, approver, actions
        self._process = os.getpid()
        self._foresee, self._tally, self._records = foresee, tally, records
        self._standing = tuple(listeners)
        self.lease = Lease(guard.policy.lease_s, clock)
        self._watching = ExitStack()
        self._actuator: LeasedActuator | None = None
        self._heard: tuple[Listener, ...] = ()
        self._run: Run | None = None
        self._under_way = self._counting = False
        self.fresh = False
        """Whether no frame of the current run has been reviewed yet."""
        self.decisions: dict[str, int] = {}
        self.review_s = self.longest_review_s = 0.0

    # -- starting a run ---------------------------------------------------------------

    def prepare(
        self,
        *,
        name: str = "",
        scenario: Mapping[str, Any] | None = None,
        seed: int | None = None,
        record: Path | None = None,
        tally: TallyFile | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Opens a run with its record, which exists even if the run never begins.

        Args:
            name: The run's display name; by default that of the loop.
            scenario: The scenario, in the form stored in the record's header.
            seed: The run's seed.
            record: The file for a separate record of this run.
            tally: The file in which only the transitions of this run are counted.
            listeners: Further listeners, which are notified of this run only.
        """
        self._end({"ended": "another run began"})
        self.guard.break_off(NOT_BEGUN)  # even if one of the next steps fails
        self._actuator = None
        counted = tally or self._tally
        counting = [] if counted is None else [Tallying(self.guard.watch, counted)]
        self._heard = (*self._standing, *listeners, *counting)
        self._counting = bool(counting)
        if self._warrant is not None:
            self.guard.revoke(self._warrant.revoked())
            drawn = str((scenario or {}).get("sha256", ""))
            witness = Witness(self._warrant, self.guard.policy, drawn)
            self._heard = (*self._heard, witness)
        if self._records is not None:
            self._open_record(self._records, scenario, seed, record)
        called = str((scenario or {}).get("name", ""))
        watch, policy = self.guard.watch, self.guard.policy
        self._run = Run(
            name or self.name, self.source, watch, policy, None, called, seed
        )
        self.fresh = True

    def _open_record(
        self,
        records: Records,
        scenario: Mapping[str, Any] | None,
        seed: int | None,
        path: Path | None,
    ) -> None:
        if self.record is not None and not self.record.closed:
            if records.one_file and path is None:
                revoked = self.guard.revoked
                self.note(ANEW, **({"revoked": revoked} if revoked else {}))
                return
            self._close_record("another run began")
        self.decisions, self.review_s, self.longest_review_s = {}, 0.0, 0.0
        self.record = records.open(self.guard, scenario, seed, path)

    def begin(
        self,
        actuator: Actuator | None,
        *,
        halt: Callable[[], None] | None = None,
        seen: bool = True,
        repeat_s: float | None = None,
        scenic: Scenic | None = None,
    ) -> None:
        """Begins the prepared run, or a new run if the prepared one has already begun.

        Args:
            actuator: Carries out decisions. If None, frames are only reviewed.
            halt: Puts the world in a safe state. The watchdog's thread calls it if no
                frame was reviewed for the duration of a lease. In simulated time there
                is no watchdog, because time does not advance during a review.
            seen: Whether a first frame has arrived. If not, the watchdog halts the
                world immediately.
            repeat_s: The interval in seconds at which the watchdog repeats the halt.
            scenic: Provides the scene for live views.
        """
        if not self.fresh:
            self.prepare()
        guard, policy = self.guard, self.guard.policy
        self._watching.close()
        # The record is the last listener, so it receives the final outcome even if
        # another fails.
        last = [] if self.record is None else [self.record]
        guard.reset([*self._heard, *last])
        if actuator is not None:
            self._actuator = LeasedActuator(actuator, self.lease)
            self._intervener = Intervener(
                self._actuator,
                policy,
                self._clock,
                prompter=Prompter.for_guard(guard),
                listeners=self._heard,
                approver=self._approver,
                actions=self._actions,
                forbids=self._forbids,
            )
        self.lease.revoke()
        if seen:
            self.lease.renew()
        moves = not isinstance(self._clock, EpisodeClock)
        if halt is not None and moves and not policy.shadow:
            halts = self._halting(halt)
            self._watching.enter_context(Watchdog(self.lease, halts, repeat_s))
        if self._run is not None:
            self._run = replace(self._run, scenic=scenic)

    def _halting(self, halt: Callable[[], None]) -> Callable[[], None]:
        """Wraps `halt` so that it counts as an intervention in tallies."""

        def halts() -> None:
            self.guard.watch.interfered()
            halt()

        return halts if self._counting else halt

    def equip(self, world: World, actuator: Actuator | None = None) -> None:
        """Begins an episode with the actuator and the other parts of a world.

        Args:
            world: Provides the actuator and, in real time, the function that halts the
                world.
            actuator: Replaces the actuator of the world.
        """
        self._actions = world.actions
        if self._foresee is not None and isinstance(world, Foresight):
            self._foresee = world.foresee  # worlds may differ between runs
        self.begin(
            actuator or world.actuator(),
            halt=world.halt if isinstance(world, Unattended) else None,
            scenic=world if isinstance(world, Scenic) else None,
        )

    # -- handling a frame -------------------------------------------------------------

    def decide(self, frame: Frame, proposal: Action | None = None) -> Turn:
        """Reviews a frame and a proposal, and returns the action to carry out."""
        return self.carry_out(self.review(frame, proposal), proposal, frame)

    def review(
        self,
        frame: Frame,
        proposal: Action | None = None,
        foreseen: Frame | None = None,
    ) -> Decision:
        """Reviews a frame without carrying out the decision.

        For the last frame of an episode, this is sufficient.

        Args:
            frame: The current frame.
            proposal: The proposed action.
            foreseen: The frame that the proposal would lead to, if the caller can
                predict it.
        """
        try:
            return self._review(frame, proposal, foreseen)
        except BaseException:
            # The state is now unknown, so no action passes until the next episode.
            self.guard.break_off()
            raise

    def _review(
        self, frame: Frame, proposal: Action | None, foreseen: Frame | None
    ) -> Decision:
        if isinstance(self._clock, EpisodeClock):
            self._clock.now_s = frame.time_s
        if os.getpid() != self._process:
            self.guard.break_off(FORKED)
        if not self._under_way:
            self._announce()
        self.lease.renew()
        began_s = time.perf_counter()
        decision = self.guard.review(
            frame, proposal, foreseen or self._foreseen(proposal)
        )
        took_s = time.perf_counter() - began_s
        self.review_s += took_s
        self.longest_review_s = max(self.longest_review_s, took_s)
        self.decisions[decision.kind] = self.decisions.get(decision.kind, 0) + 1
        for listener in self._heard:
            listener.decided(self.guard.watch, frame, decision)
        return decision

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Turn:
        """Returns the action to carry out for a decision."""
        try:
            lapses = self._lapses
            executed, outcome = self._intervener.apply(decision, proposal, frame)
            turn = Turn(decision, outcome, executed)
            self._tell(frame, turn)
            if not turn.passes:
                self.guard.watch.interfered()
            return self._in_time(frame, turn, lapses)  # the lease is checked last
        except BaseException:
            self.guard.break_off()
            raise

    def _tell(self, frame: Frame, turn: Turn) -> None:
        outcome, executed = turn.outcome, turn.executed
        for listener in self._heard:
            listener.carried_out(frame, turn)
        passed = RANK[outcome.kind] <= RANK["alert"]
        telling = not passed or outcome.because or outcome.obeyed is not None
        if outcome.enforced and telling:
            done = as_json(executed)
            facts = {"sequence": frame.sequence, **outcome.as_dict(), "executed": done}
            self.note("carried_out", **facts)

    def _in_time(self, frame: Frame, turn: Turn, lapses: int) -> Turn:
        """Returns the turn or, if the lease has expired, a turn with the fallback."""
        actuator, outcome, executed = self._actuator, turn.outcome, turn.executed
        # Waiting for a person's answer may take longer than the lease; nothing else
        # may.
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
        """Whether this decision would ask a person."""
        return self._intervener.asks(decision, proposal)

    def note(self, event: str, **facts: Any) -> None:
        """Writes an event to the record if a record is open."""
        if self.record is None or self.record.closed:
            return
        try:
            self.record.event(event, **facts)
        except OSError as error:
            # The record has failed permanently, so the guard lets no further frame
            # pass.
            tell(logging.WARNING, "not recorded: %s", error)

    def _foreseen(self, proposal: Action | None) -> Frame | None:
        if self._foresee is None or proposal is None:
            return None
        try:
            return self._foresee(proposal)
        except Exception as error:
            # Without a predicted frame, the guard uses its fallback.
            tell(
                logging.WARNING,
                "the result of an action could not be predicted: %s",
                said(error),
            )
            return None

    def _forbids(self, action: Action | None) -> str:
        """Returns the reason why laws forbid an action; empty if they permit it."""
        if self.guard.policy.when == "after":
            return ""
        return self.guard.forbids(self._foreseen(action))

    # -- ending a run -----------------------------------------------------------------

    def close(
        self, ended: str, report: Mapping[str, Any] | None = None, **facts: Any
    ) -> str | None:
        """Ends the run and its record; returns the hash of the record's last line.

        Args:
            ended: The reason why the run ended.
            report: Further facts about the run, for listeners.
            facts: Further fields of the record's last line.
        """
        if "error" in facts and self.fresh:
            self._announce()  # even if the run failed before its first frame
        self._end({"ended": ended, **facts, **(report or {})})
        self._watching.close()
        return self._close_record(ended, **facts)

    def _close_record(self, ended: str, **facts: Any) -> str | None:
        if self.record is None:
            return None
        if self._lapses:
            facts["lapses"] = self._lapses
        if self.guard.revoked:
            facts["revoked"] = self.guard.revoked
        return self.record.close(ended=ended, decisions=self.decisions, **facts)

    @property
    def is_over(self) -> bool:
        """Whether no run is in progress."""
        return not self._under_way

    @property
    def _lapses(self) -> int:
        """The number of actions in this run for which the lease had expired."""
        return 0 if self._actuator is None else self._actuator.lapses

    def _announce(self) -> None:
        self._under_way, self.fresh = True, False
        if self._run is not None:
            for listener in self._heard:
                listener.began(self._run)

    def _end(self, facts: Mapping[str, Any]) -> None:
        self.fresh = False
        if self._under_way:
            self._under_way = False
            for listener in self._heard:
                listener.ended(facts)
            if self._warrant is not None:
                self.guard.revoke(self._warrant.revoked())

    def __enter__(self) -> GuardedLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.left_by(error)
        self.close("the guard was closed")

    def left_by(self, error: BaseException | None) -> None:
        """Ends the run if its `with` block raised an exception."""
        if os.getpid() != self._process:
            return  # a forked process must not end its parent's run
        if isinstance(error, KeyboardInterrupt | SystemExit):
            self.close("interrupted")
        elif error is not None:
            self.close("an exception ended the run", error=said(error))


class Closing(ABC):
    """A context manager that ends the records of its guarded loops on exit."""

    @abstractmethod
    def loops(self) -> Iterable[GuardedLoop]:
        """Returns the guarded loops."""

    @abstractmethod
    def close(self) -> None:
        """Ends the records; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> Literal[False]:
        with ExitStack() as ending:  # ends the other loops even if one fails
            ending.callback(self.close)
            for loop in self.loops():
                ending.callback(loop.left_by, raised[1])
        return False


def as_json(action: Action | None) -> dict[str, Any] | None:
    """Returns an action in the JSON form of traces and records."""
    return None if action is None else {"name": action.name, **action.arguments}
