"""Clocks, actuators and people that do as a test wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import SEVERITY, Action, Decision, Kind
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.plugins.contracts import Pilot, Shape, Thing, World
from forewarn.plugins.loop.alerts import LOGGER
from forewarn.plugins.loop.approval import Answer
from forewarn.plugins.tiny import TinyPilot, TinyWorld


@dataclass
class Clock:
    """Simulated time, moved by hand."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class Onlooker(Listener):
    """A listener that keeps what it is told and shown."""

    def __init__(self) -> None:
        self.name = ""
        self.ground: list[Shape] = []
        self.seen: list[list[Thing]] = []
        self.decisions: list[str] = []
        self.over: list[str] = []

    def began(self, run: Run) -> None:
        self.name, self._scenic = run.name, run.scenic
        self.ground = [] if run.scenic is None else list(run.scenic.ground())

    def decided(self, watch: Any, frame: Frame, decision: Decision) -> None:
        self.decisions.append(decision.kind)
        self.seen.append([] if self._scenic is None else list(self._scenic.things()))

    def ended(self, facts: Mapping[str, Any]) -> None:
        self.over.append(facts["ended"])


class Told(Listener):
    """Calls a function with the decision of each intervention that begins."""

    def __init__(self, call: Callable[[Decision], object]) -> None:
        self._call = call

    def alerted(self, decision: Decision) -> None:
        self._call(decision)


class TinyCase:
    """For `ActuatorContract`: a free road, so that nobody brakes but the guard."""

    def make_world(self) -> World:
        return TinyWorld(lead=False, yellow_at_s=30.0)

    def make_pilot(self) -> Pilot:
        return TinyPilot()


@dataclass
class Servant:
    """An actuator that can do what it is told it can, and obeys as it is told.

    `carry_out` returns an action that names what was done.
    """

    can: frozenset[Kind] = frozenset(SEVERITY)
    obeys: bool | None = True
    done: list[Kind] = field(default_factory=list)

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        self.done.append(decision.kind)
        if decision.kind in ("proceed", "alert"):
            return proposal
        if decision.kind == "substitute":
            return decision.action
        arguments = {} if decision.cap_kmh is None else {"cap_kmh": decision.cap_kmh}
        return Action(decision.kind, arguments)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return Action("fallback")

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self.obeys


@dataclass
class Person:
    """Answers at once."""

    answer: Answer
    asked: list[Action | None] = field(default_factory=list)

    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        self.asked.append(proposal)
        return self.answer


class _Unwritable(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the disk is full")


@contextmanager
def unwritable_log() -> Iterator[None]:
    """Gives the log a handler that fails."""
    log, handler = logging.getLogger(LOGGER), _Unwritable()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
