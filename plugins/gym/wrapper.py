"""A guarded environment: each action is reviewed before the environment steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.contracts import Actuator
from forewarn.plugins.loop.alerts import Alert
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.loop import EpisodeClock, GuardedLoop

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.utils import RecordConstructorArgs
except ImportError as error:
    raise MissingDependency("a guarded Gymnasium environment", "gym") from error

Observation = TypeVar("Observation")
Act = TypeVar("Act")

ACT = "act"
"""The name of the actions that wrap an environment's own, as `action`."""


class EnvActuator:
    """Puts an action of the environment in the place of one that may not pass.

    Args:
        stop: The action that stops, whatever is going on.
        shown: Whether a frame shows that `stop` or `slow` is obeyed; None: too early.
        slow: Gives the action that keeps a speed cap in km/h, from the one proposed.
    """

    def __init__(
        self,
        stop: Any,
        shown: Callable[[Decision, Frame], bool | None],
        slow: Callable[[Any, float], Any] | None = None,
    ) -> None:
        self._stop, self._shown, self._slow = stop, shown, slow
        able: set[Kind] = (
            {"alert", "stop"} if slow is None else {"alert", "slow", "stop"}
        )
        self.can: frozenset[Kind] = frozenset(able)

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        slows = decision.kind == "slow" and decision.cap_kmh is not None
        if slows and self._slow is not None and proposal is not None:
            slower = self._slow(proposal.arguments["action"], decision.cap_kmh or 0.0)
            return Action(ACT, {"action": slower})
        return self.fallback()

    def fallback(self, frame: Frame | None = None) -> Action:
        return Action(ACT, {"action": self._stop})

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self._shown(decision, frame) if frame.values else None


class GuardedEnv(
    gymnasium.Wrapper[Observation, Act, Observation, Act], RecordConstructorArgs
):
    """Steps with the action proposed, or with what the guard makes of it.

    The info of each step has, under `forewarn`, the decision and what became of it.
    A `cut` ends the episode as truncated. Time is the environment's: a step takes
    `period_s`, and it stands still while the guard judges.

    Args:
        env: The environment.
        make_guard: Makes the guard, given the clock that it is to use.
        signals: The signals that an observation and its info hold.
        actuator: Carries decisions out; see `EnvActuator`.
        period_s: How much time a step takes.
        alerts: Told of each intervention when it begins.
        approver: Who is asked; without one `ask` escalates.
        record: Where everything is written; closing the environment ends it.
    """

    def __init__(
        self,
        env: gymnasium.Env[Observation, Act],
        make_guard: Callable[[Clock], Guard],
        signals: Callable[[Observation, Mapping[str, Any]], Mapping[str, Any]],
        actuator: Actuator,
        period_s: float,
        alerts: Sequence[Alert] = (),
        approver: Approver | None = None,
        record: RunRecord | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            make_guard=make_guard,
            signals=signals,
            actuator=actuator,
            period_s=period_s,
            alerts=alerts,
            approver=approver,
            record=record,
        )
        gymnasium.Wrapper.__init__(self, env)
        self._signals, self._period_s = signals, period_s
        self._frame: Frame | None = None
        clock = EpisodeClock()
        self.guard = make_guard(clock)
        self.loop = GuardedLoop(
            self.guard, clock=clock, alerts=alerts, approver=approver, record=record
        )
        self._actuator = actuator

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.loop.begin(self._actuator)
        self._frame = Frame(0.0, 0, self._signals(observation, info))
        return observation, info

    def step(self, action: Act) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        frame = self._frame
        if frame is None:
            raise ResetNeeded("reset the environment before its first step")
        proposal = Action(ACT, {"action": action})
        turn = self.loop.decide(frame, proposal)
        executed, outcome = turn.executed, turn.outcome
        if executed is None or "action" not in executed.arguments:
            raise InvalidInput(f"the actuator gave no action for {outcome.kind}")
        observation, reward, terminated, truncated, info = self.env.step(
            executed.arguments["action"]
        )
        step = frame.sequence + 1
        self._frame = Frame(
            step * self._period_s, step, self._signals(observation, info)
        )
        told = {"decision": turn.decision.as_dict(), "outcome": outcome.as_dict()}
        cut = outcome.kind == "cut" and outcome.enforced
        info = {**info, "forewarn": told}
        return observation, reward, terminated, truncated or cut, info

    def close(self) -> None:
        self.loop.close("the environment was closed")
        super().close()
