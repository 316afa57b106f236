"""A guarded environment: each action is reviewed before the environment steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from forewarn.abstractions.errors import MissingDependency
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.contracts import Actuator
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.tallies import TallyFile

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.utils import RecordConstructorArgs

    from forewarn.plugins.gym.watched import Equipment, Watched
except ImportError as error:
    raise MissingDependency("a guarded Gymnasium environment", "gym") from error

Observation = TypeVar("Observation")
Act = TypeVar("Act")


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
        signals: The signals that an observation and its info hold; if it has a method
            `reset(env)` it hears of every episode that begins.
        actuator: Carries decisions out; see `EnvActuator`.
        period_s: How much time a step takes.
        approver: Who is asked; without one `ask` escalates.
        record: Where everything is written; closing the environment ends it.
        tally: Where the transitions go that were seen while nobody stepped in.
        listeners: Make what hears of it: alerts, telemetry, `watched_live`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Observation, Act],
        make_guard: Callable[[Clock], Guard],
        signals: Callable[[Observation, Mapping[str, Any]], Mapping[str, Any]],
        actuator: Actuator,
        period_s: float,
        approver: Approver | None = None,
        record: RunRecord | None = None,
        tally: TallyFile | None = None,
        listeners: Sequence[Callable[[], Listener]] = (),
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            make_guard=make_guard,
            signals=signals,
            actuator=actuator,
            period_s=period_s,
            approver=approver,
            record=record,
            tally=tally,
            listeners=listeners,
        )
        gymnasium.Wrapper.__init__(self, env)
        equipment = Equipment(
            make_guard, signals, actuator, period_s, approver, tally, listeners
        )
        self._watched = Watched(equipment, record)
        self.guard, self.loop = self._watched.guard, self._watched.loop

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._watched.forget()
        observation, info = self.env.reset(seed=seed, options=options)
        self._watched.begin(self.env.unwrapped, observation, info)
        return observation, info

    def step(self, action: Act) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        watched = self._watched
        if watched.frame is None:
            raise ResetNeeded("reset the environment before its first step")
        seen = self.env.step(watched.action(action))
        observation, reward, terminated, truncated, info = seen
        watched.seen(observation, info)
        info = {**info, "forewarn": watched.told}
        return observation, reward, terminated, truncated or watched.is_cut, info

    def close(self) -> None:
        self._watched.close()
        super().close()
