"""Guarded environments: single, vectorised and parallel.

Each action is reviewed before the environment steps. Time is simulated: a step takes
`period_s` seconds, and the clock is stopped during a review.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Field

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.chains.model import refuse_other
from forewarn.monitors.guarding.decision import Action, Turn
from forewarn.plugins.contracts import Actuator, Scenic
from forewarn.plugins.functions import takes
from forewarn.plugins.gym.sense import Senses, Shown
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import Closing, EpisodeClock, GuardedLoop
from forewarn.plugins.loop.records import is_folder

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.utils import RecordConstructorArgs
    from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
    from gymnasium.vector.utils import concatenate, create_empty_array, iterate

    from forewarn.plugins.gym.act import ACT, EnvActuator
except ImportError as error:
    raise MissingDependency("a guarded Gymnasium environment", "gym") from error

Observation = TypeVar("Observation")
Act = TypeVar("Act")


@checked
@dataclass(frozen=True, slots=True)
class Equipment:
    """The guard of an agent, with the signals and the actuator.

    Args:
        guarding: The configuration of the guard.
        signals: Returns the signals of an observation and its info. If the object has a
            method `reset(env)`, it is called when an episode begins.
        actuator: Carries out decisions.
        period_s: The duration of a step in seconds.
    """

    guarding: Guarding
    signals: Shown
    actuator: Actuator
    period_s: Annotated[float, Field(gt=0)]


class ReviewedAgent:
    """An agent whose actions are reviewed, in any kind of environment.

    Args:
        equipment: The guard of the agent, with the signals and the actuator.
        name: The name of the agent if there are several; their records share a folder.
    """

    @checked
    def __init__(self, equipment: Equipment, name: str = "") -> None:
        guarding = equipment.guarding
        for method, *names in (
            ("carry_out", "decision", "proposal", "frame"),
            ("fallback", "frame"),
            ("obeyed", "decision", "frame"),
        ):
            takes(getattr(equipment.actuator, method), "actuator", *names)
        if name and guarding.record is not None and not is_folder(guarding.record):
            raise InvalidInput(
                f"several agents cannot share the record {str(guarding.record)!r:.80}",
                mend="set the record to a folder",
            )
        for model in guarding.models:
            refuse_other(model, guarding.name, period_s=equipment.period_s)
        self._senses = Senses(equipment.signals)
        self._actuator, self._period_s = equipment.actuator, equipment.period_s
        source = Source(name or "environment", period_s=equipment.period_s)
        self.loop = guarding.open(source, clock=EpisodeClock())
        self.guard = self.loop.guard
        self.frame: Frame | None = None
        self._turn: Turn | None = None

    def forget(self) -> None:
        """Drops the frame and the decision of the previous episode."""
        self.frame, self._turn = None, None

    def begin(self, env: Any, observation: Any, info: Mapping[str, Any]) -> None:
        """Starts an episode with its first observation.

        If the signals of the observation cannot be read, no episode starts.
        """
        self.forget()
        self.loop.begin(self._actuator, scenic=env if isinstance(env, Scenic) else None)
        self._senses.reset(env)
        self.frame = Frame(0.0, 0, self._senses.values(observation, info))

    def action(self, proposed: Any) -> Any:
        """Reviews a proposed action, and returns the action to carry out."""
        if self.frame is None:
            raise InvalidInput("the episode has not begun", mend="call reset first")
        turn = self.loop.decide(self.frame, Action(ACT, {"action": proposed}))
        executed, self._turn = turn.executed, turn
        if executed is None or "action" not in executed.arguments:
            raise InvalidInput(
                f"the actuator returned no action for {turn.outcome.kind}"
            )
        return executed.arguments["action"]

    def held(self, proposed: Any) -> Any:
        """Returns the action that stops the agent, for steps without a review."""
        if self.guard.policy.shadow:
            return proposed
        action = self._actuator.fallback(self.frame)
        if action is None or "action" not in action.arguments:
            raise InvalidInput(
                "the fallback of the actuator is not an action of the environment"
            )
        return action.arguments["action"]

    def seen(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Stores the observation after an action as the current frame."""
        step = 1 + (0 if self.frame is None else self.frame.sequence)
        values = self._senses.values(observation, info)
        self.frame = Frame(step * self._period_s, step, values)

    @property
    def told(self) -> dict[str, Any]:
        """The last decision and its outcome as JSON values."""
        if self._turn is None:
            return {}
        decision, outcome = self._turn.decision, self._turn.outcome
        return {"decision": decision.as_dict(), "outcome": outcome.as_dict()}

    @property
    def is_cut(self) -> bool:
        """Whether the last decision was `cut`, which ends the episode."""
        outcome = None if self._turn is None else self._turn.outcome
        return outcome is not None and outcome.kind == "cut" and outcome.enforced

    def close(self) -> None:
        """Ends the run and its record."""
        self.loop.close("the environment was closed")


@checked
class GuardedEnv(
    Closing, gymnasium.Wrapper[Observation, Act, Observation, Act],
    RecordConstructorArgs,
):  # fmt: skip
    """A wrapper that steps with the proposed action or with the guard's replacement.

    The info of each step contains the decision and its outcome under the key
    `forewarn`. A `cut` truncates the episode.

    Args:
        env: The environment to guard.
        guarding: The configuration of the guard.
        signals: Returns the signals of an observation and its info. If the object has a
            method `reset(env)`, it is called when an episode begins.
        actuator: Carries out decisions; see `EnvActuator`.
        period_s: The duration of a step in seconds.
    """

    def __init__(
        self,
        env: gymnasium.Env[Observation, Act],
        guarding: Guarding,
        signals: Callable[[Observation, Mapping[str, Any]], Mapping[str, Any]],
        actuator: Actuator,
        period_s: float,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            guarding=guarding,
            signals=signals,
            actuator=actuator,
            period_s=period_s,
        )
        gymnasium.Wrapper.__init__(self, env)
        if isinstance(actuator, EnvActuator):
            actuator.check(env.action_space)
        self._watched = ReviewedAgent(Equipment(guarding, signals, actuator, period_s))
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

    def loops(self) -> list[GuardedLoop]:
        return [self.loop]

    def close(self) -> None:
        self._watched.forget()  # so that a step afterwards is rejected
        with ExitStack() as ending:
            ending.callback(gymnasium.Wrapper.close, self)
            ending.callback(self._watched.close)


@checked
class GuardedVectorEnv(Closing, VectorWrapper):
    """A vectorised environment in which each sub-environment has its own guard.

    The infos of a step contain the decision of each guard and its outcome under the key
    `forewarn`. When a sub-environment is reset, automatically or by a call, its guard
    starts a new episode. If it is reset only by a call, its actions are still reviewed
    between the end of its episode and the reset. A `cut` does not end the episode of a
    single sub-environment.

    Args:
        env: The environment to guard.
        equipment: The guard of each sub-environment, with the signals and the actuator.
    """

    def __init__(self, env: VectorEnv, equipment: Equipment) -> None:
        super().__init__(env)
        if "autoreset_mode" not in env.metadata:
            raise InvalidInput(
                "the environment does not declare how its sub-environments are reset",
                mend="add `autoreset_mode` to its metadata",
            )
        self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        parts = range(env.num_envs)
        self.watched = [ReviewedAgent(equipment, f"environment {i}") for i in parts]
        self._over = np.zeros(env.num_envs, dtype=bool)

    def reset(
        self,
        *,
        seed: Any = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        self._forget(chosen)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._begin(chosen, observations, infos)
        self._over = self._over & ~chosen
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        space, told = self.single_action_space, np.empty(self.num_envs, dtype=object)
        executed = []
        for i, proposed in enumerate(iterate(self.action_space, actions)):
            # If the next step resets the sub-environment, it ignores the action.
            one = self.watched[i]
            executed.append(
                one.held(proposed) if self._over[i] else one.action(proposed)
            )
        seen = self.env.step(_together(space, executed))
        observations, rewards, terminations, truncations, infos = seen
        anew, over = self._over, terminations | truncations
        if self._mode is AutoresetMode.SAME_STEP:
            anew = over
        for i, observation in enumerate(iterate(self.observation_space, observations)):
            told[i] = {} if self._over[i] else self.watched[i].told
            if not anew[i]:
                self.watched[i].seen(observation, _of(infos, i))
        self._begin(anew, observations, infos)
        later = self._mode is AutoresetMode.NEXT_STEP
        self._over = over if later else np.zeros_like(over)
        return observations, rewards, terminations, truncations, {
            **infos, "forewarn": told
        }  # fmt: skip

    def _forget(self, chosen: Any) -> None:
        for i in np.flatnonzero(chosen):
            self.watched[i].forget()

    def _begin(self, chosen: Any, observations: Any, infos: Mapping[str, Any]) -> None:
        self._forget(chosen)
        for i, observation in enumerate(iterate(self.observation_space, observations)):
            if chosen[i]:
                self.watched[i].begin(self.env.unwrapped, observation, _of(infos, i))

    def loops(self) -> list[GuardedLoop]:
        return [watched.loop for watched in self.watched]

    def close(self, **kwargs: Any) -> None:
        with ExitStack() as ending:
            ending.callback(lambda: VectorWrapper.close(self, **kwargs))
            for watched in self.watched:
                ending.callback(watched.close)


class GuardedParallelEnv(Closing):
    """A parallel PettingZoo environment in which each agent has its own guard.

    The info of each agent contains the decision of its guard and its outcome under the
    key `forewarn`. A `cut` truncates the agent, which then leaves `agents` and remains
    stopped. An agent without an observation in this episode also remains stopped. All
    other attributes are those of the environment.

    Args:
        env: The environment to guard.
        equipment: Returns the equipment of an agent, given its name; None if the agent
            is not guarded.
    """

    def __init__(self, env: Any, equipment: Callable[[str], Equipment | None]) -> None:
        if isinstance(env, gymnasium.Env):
            problem = f"{env!r:.60} is not a parallel environment of PettingZoo"
            raise InvalidInput(problem, source="env", mend="use GuardedEnv")
        self.env, self._equipment = env, takes(equipment, "equipment", "agent")
        self._known: dict[str, ReviewedAgent | None] = {}
        self._cut: set[str] = set()
        self._there: set[str] = set()

    @property
    def watched(self) -> dict[str, ReviewedAgent]:
        """The guarded agents that have appeared so far, by name."""
        return {name: one for name, one in self._known.items() if one is not None}

    def _guard_of(self, agent: str) -> ReviewedAgent | None:
        if agent not in self._known:
            equipped = self._equipment(agent)
            self._known[agent] = (
                None
                if equipped is None
                else ReviewedAgent(equipped, f"environment {agent}")
            )
        return self._known[agent]

    def _begin(self, agent: str, observation: Any, infos: Mapping[str, Any]) -> None:
        """Starts the episode of an agent at its first observation."""
        if (watched := self._guard_of(agent)) is not None:
            watched.begin(self.env, observation, infos.get(agent, {}))
        self._there.add(agent)

    def _executed(self, agent: str, action: Any) -> Any:
        """Returns the action to carry out for an agent."""
        watched = self._guard_of(agent)
        if watched is None:
            return action
        if agent in self._cut or agent not in self._there:
            return watched.held(action)
        return watched.action(action)

    @property
    def agents(self) -> list[str]:
        """The agents that still act in this episode."""
        return [agent for agent in self.env.agents if agent not in self._cut]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self._there.clear()
        observations, infos = self.env.reset(seed=seed, options=options)
        self._cut.clear()
        for agent, observation in observations.items():
            self._begin(agent, observation, infos)
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        acting = {**actions, **dict.fromkeys(self._cut.intersection(self.env.agents))}
        executed = {a: self._executed(a, action) for a, action in acting.items()}
        judged = self._there.intersection(actions) - self._cut
        seen = [*map(dict, self.env.step(executed))]
        for told, agent in itertools.product(seen, self._cut):
            told.pop(agent, None)
        observations, rewards, terminations, truncations, infos = seen
        for agent in observations.keys() - self._there:
            self._begin(agent, observations[agent], infos)
        for agent in judged.intersection(observations):
            if (watched := self._guard_of(agent)) is not None:
                watched.seen(observations[agent], infos.get(agent, {}))
                infos[agent] = {**infos.get(agent, {}), "forewarn": watched.told}
                truncations[agent] = truncations[agent] or watched.is_cut
                if watched.is_cut:
                    self._cut.add(agent)
        return observations, rewards, terminations, truncations, infos

    def loops(self) -> list[GuardedLoop]:
        return [watched.loop for watched in self.watched.values()]

    def close(self) -> None:
        with ExitStack() as ending:
            ending.callback(self.env.close)
            for watched in self.watched.values():
                ending.callback(watched.close)


def only(env: VectorEnv) -> _Only:
    """Returns the only sub-environment of a vectorised environment."""
    if env.num_envs != 1:
        raise InvalidInput(
            f"the environment has {env.num_envs} sub-environments, but a world must "
            "have exactly one",
            mend="create it with num_envs=1, or guard it with GuardedVectorEnv",
        )
    return _Only(env)


class _Only(gymnasium.Env[Any, Any]):
    """The only sub-environment of a vectorised environment, as a plain environment."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self.action_space = env.single_action_space
        self.observation_space = env.single_observation_space

    @property
    def unwrapped(self) -> Any:
        return self._env.unwrapped

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observations, infos = self._env.reset(seed=seed, options=options)
        return self._first(observations), _of(infos, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        space = self._env.single_action_space
        seen = self._env.step(_together(space, [action]))
        observations, rewards, terminated, truncated, infos = seen
        return (
            self._first(observations),
            float(rewards[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            _of(infos, 0),
        )

    def close(self) -> None:
        self._env.close()

    def _first(self, observations: Any) -> Any:
        return next(iter(iterate(self._env.observation_space, observations)))


def _of(infos: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Extracts the info of one sub-environment from the infos of all."""
    found = {}
    for name, value in infos.items():
        said = infos.get(f"_{name}")
        if name.startswith("_") or (said is not None and not said[index]):
            continue
        if isinstance(value, Mapping):
            found[name] = _of(value, index)
        elif isinstance(value, np.ndarray | Sequence) and not isinstance(value, str):
            found[name] = value[index]
    return found


def _together(space: Any, actions: Sequence[Any]) -> Any:
    """Combines the actions of all sub-environments into one action."""
    out: Any = create_empty_array(space, len(actions))
    return concatenate(space, actions, out)
