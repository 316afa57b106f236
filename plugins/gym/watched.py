"""One agent under guard, whoever's loop it is: the guarded loop, turned inside out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Turn
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.contracts import Actuator
from forewarn.plugins.gym.sense import Senses, Shown
from forewarn.plugins.gym.spaces import ACT
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.loop import EpisodeClock, GuardedLoop
from forewarn.plugins.loop.tallies import TallyFile
from forewarn.plugins.scenery import Scenic


@dataclass(frozen=True, slots=True)
class Equipment:
    """What an agent is guarded with.

    Args:
        make_guard: Makes the guard, given the clock that it is to use.
        signals: The signals that an observation and its info hold.
        actuator: Carries decisions out.
        period_s: How much time a step takes.
        approver: Who is asked; without one `ask` escalates.
        tally: Where the transitions go that were seen while nobody stepped in.
        listeners: Make what hears of the agent: alerts, telemetry, `watched_live`.
    """

    make_guard: Callable[[Clock], Guard]
    signals: Shown
    actuator: Actuator
    period_s: float
    approver: Approver | None = None
    tally: TallyFile | None = None
    listeners: Sequence[Callable[[], Listener]] = ()


class Watched:
    """An agent whose every action is reviewed. Time is the environment's.

    Args:
        equipment: What it is guarded with.
        record: Where everything is written.
    """

    def __init__(self, equipment: Equipment, record: RunRecord | None = None) -> None:
        self._senses = Senses(equipment.signals)
        self._actuator, self._period_s = equipment.actuator, equipment.period_s
        clock = EpisodeClock()
        self.guard = equipment.make_guard(clock)
        self.loop = GuardedLoop(
            self.guard, clock=clock, approver=equipment.approver, record=record,
            tally=equipment.tally, name="environment",
            listeners=[make() for make in equipment.listeners],
        )  # fmt: skip
        self.frame: Frame | None = None
        self._turn: Turn | None = None

    def forget(self) -> None:
        """Ends the episode that was; nothing is judged by its frames any more."""
        self.frame, self._turn = None, None

    def begin(self, env: Any, observation: Any, info: Mapping[str, Any]) -> None:
        """An episode begins with this; until all of it is read, none has begun."""
        self.forget()
        self.loop.begin(self._actuator, scenic=env if isinstance(env, Scenic) else None)
        self._senses.reset(env)
        self.frame = Frame(0.0, 0, self._senses.values(observation, info))

    def action(self, proposed: Any) -> Any:
        """What is to be carried out, where this is proposed."""
        if self.frame is None:
            raise InvalidInput("the episode has not begun", mend="reset first")
        turn = self.loop.decide(self.frame, Action(ACT, {"action": proposed}))
        executed, self._turn = turn.executed, turn
        if executed is None or "action" not in executed.arguments:
            raise InvalidInput(f"the actuator gave no action for {turn.outcome.kind}")
        return executed.arguments["action"]

    def held(self, proposed: Any) -> Any:
        """The action that stops it, where nothing can be judged."""
        if self.guard.policy.shadow:
            return proposed
        action = self._actuator.fallback(self.frame)
        if action is None or "action" not in action.arguments:
            raise InvalidInput("the actuator gives no action that stops")
        return action.arguments["action"]

    def seen(self, observation: Any, info: Mapping[str, Any]) -> None:
        """What came of it."""
        step = 1 + (0 if self.frame is None else self.frame.sequence)
        values = self._senses.values(observation, info)
        self.frame = Frame(step * self._period_s, step, values)

    @property
    def told(self) -> dict[str, Any]:
        """The last decision, and what became of it."""
        if self._turn is None:
            return {}
        decision, outcome = self._turn.decision, self._turn.outcome
        return {"decision": decision.as_dict(), "outcome": outcome.as_dict()}

    @property
    def is_cut(self) -> bool:
        """Whether the last decision ends the episode."""
        outcome = None if self._turn is None else self._turn.outcome
        return outcome is not None and outcome.kind == "cut" and outcome.enforced

    def close(self) -> None:
        """Ends its record."""
        self.loop.close("the environment was closed")
