"""The guarded loop between the pilot's proposal and the action that is carried out.

    frame, proposal → guard → intervener → actuator → action

There is one for all callers: the runner of scenarios, `forewarn apollo guard` and
`carla guard`, an agent's framework, a Gymnasium environment, a loop beyond a socket.
They differ in who calls, and in how the frame comes.
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
from forewarn.plugins.loop.alerts import LOGGER
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
    """Simulated time: it stands still while the guard judges a frame."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class GuardedLoop:
    """A guard with everything that carries its decisions out, run after run.

    `Guarding.open` makes it. Use it with `with`. Nothing is decided before `begin`,
    which every run starts with.

    Args:
        guard: Reviews the frames.
        source: Where they come from.
        clock: Times the lease and acknowledgements: the source's own where it is
            simulated, and then the guard's too.
        listeners: Hear of every run.
        approver: Who is asked; without one `ask` escalates.
        foresee: Gives the frame that an action would lead to.
        actions: The actions that are taken there; a person's alternative must be one of
            them.
        tally: Counts the transitions seen while no intervention is in force.
        records: Opens the record of each run.
        record: A record that is open already, of the first run.
        name: The loop's name, for people.
        warrant: Counts each run for or against the guard's certificate.
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
        record: RunRecord | None = None,
        name: str = "",
        warrant: Warrant | None = None,
    ) -> None:
        self._warrant = warrant
        self.guard, self.record, self.name = guard, record, name
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
        """Whether a run is prepared that no frame was judged of yet."""
        self.decisions: dict[str, int] = {}
        self.review_s = self.longest_review_s = 0.0

    # -- the beginning ----------------------------------------------------------------

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
        """Opens a run: its record exists even if the run never begins.

        Args:
            name: The run's name, for people; by default the loop's.
            scenario: What is run, by its name.
            seed: The run's seed.
            record: The file of the run's own record.
            tally: Counts the transitions of this run alone.
            listeners: Hear of this run alone.
        """
        self._end({"ended": "it began anew"})
        self.guard.break_off(NOT_BEGUN)  # also where what follows fails
        self._actuator = None
        counted = tally or self._tally
        counting = [] if counted is None else [Tallying(self.guard.watch, counted)]
        self._heard = (*self._standing, *listeners, *counting)
        self._counting = bool(counting)
        if self._warrant is not None:
            self.guard.revoke(self._warrant.revoked())
            witness = Witness(self._warrant, self.guard.policy)
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
            self._close_record("it began anew")
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
        """Begins the run that was prepared, or a new one where frames were judged.

        Args:
            actuator: Carries out decisions; None: frames are only reviewed.
            halt: Makes the world safe, from the watchdog's thread, whenever no frame
                was judged for the duration of a lease. Simulated time stands still
                meanwhile, so there is no watchdog.
            seen: Whether there is a first frame; otherwise the watchdog halts at once.
            repeat_s: How often it repeats that.
            scenic: Shows the scene to live views.
        """
        if not self.fresh:
            self.prepare()
        guard, policy = self.guard, self.guard.policy
        self._watching.close()
        # The record hears what it comes to in the end, whichever listener fails.
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
        """The halt as an intervention."""

        def halts() -> None:
            self.guard.watch.interfered()
            halt()

        return halts if self._counting else halt

    def equip(self, world: World, actuator: Actuator | None = None) -> None:
        """Begins an episode with the world's parts.

        Args:
            world: Its actuator, and its halt if its clock advances by itself.
            actuator: Another one than its own.
        """
        self._actions = world.actions
        if self._foresee is not None and isinstance(world, Foresight):
            self._foresee = world.foresee  # each run may have a world of its own
        self.begin(
            actuator or world.actuator(),
            halt=world.halt if isinstance(world, Unattended) else None,
            scenic=world if isinstance(world, Scenic) else None,
        )

    # -- a frame's way ----------------------------------------------------------------

    def decide(self, frame: Frame, proposal: Action | None = None) -> Turn:
        """Judges a frame and the proposed action, and chooses the action to carry
        out."""
        return self.carry_out(self.review(frame, proposal), proposal, frame)

    def review(
        self,
        frame: Frame,
        proposal: Action | None = None,
        foreseen: Frame | None = None,
    ) -> Decision:
        """Judges a frame; on the last one of an episode nothing more is done.

        Args:
            frame: What is seen.
            proposal: The action to carry out.
            foreseen: The state that it would lead to, if the caller knows.
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
        """Chooses the action for a decision."""
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
        for listener in self._heard:
            listener.carried_out(frame, turn)
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

    def note(self, event: str, **facts: Any) -> None:
        """Writes another event, while the record is open."""
        if self.record is None or self.record.closed:
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

    def _forbids(self, action: Action | None) -> str:
        """Why no action like it takes a proposal's place; empty if it may."""
        if self.guard.policy.when == "after":
            return ""
        return self.guard.forbids(self._foreseen(action))

    # -- the end ----------------------------------------------------------------------

    def close(
        self, ended: str, report: Mapping[str, Any] | None = None, **facts: Any
    ) -> str | None:
        """Ends the run and its record; gives the hash of the record's last line.

        Args:
            ended: Why it is over.
            report: More facts about the run for listeners.
            facts: Further fields of the record's last line.
        """
        if "error" in facts and self.fresh:
            self._announce()  # a run that failed before its first frame is one too
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
        """Whether no run is under way."""
        return not self._under_way

    @property
    def _lapses(self) -> int:
        """How often the lease had run out in this run when the actuator acted."""
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
        self.close("the guard was left")

    def left_by(self, error: BaseException | None) -> None:
        """Ends the run if an exception left the `with` block that it is in."""
        if os.getpid() != self._process:
            return  # a fork ends nothing of its parent's
        if isinstance(error, KeyboardInterrupt | SystemExit):
            self.close("interrupted")
        elif error is not None:
            self.close("an exception ended the run", error=said(error))


class Closing(ABC):
    """Closes when its `with` block is left, and ends the records of its loops."""

    @abstractmethod
    def loops(self) -> Iterable[GuardedLoop]:
        """The loops that it guards."""

    @abstractmethod
    def close(self) -> None:
        """Ends their records; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> Literal[False]:
        with ExitStack() as ending:  # one that fails keeps no other open
            ending.callback(self.close)
            for loop in self.loops():
                ending.callback(loop.left_by, raised[1])
        return False


def as_json(action: Action | None) -> dict[str, Any] | None:
    """An action as traces and records hold it."""
    return None if action is None else {"name": action.name, **action.arguments}
