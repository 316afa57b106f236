"""Several agents at once: a guard for each, in a vectorised or a PettingZoo one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.gym.watched import Equipment, Watched

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
    from gymnasium.vector.utils import concatenate, create_empty_array, iterate
except ImportError as error:
    raise MissingDependency("many guarded environments", "gym") from error

Recorded = Callable[[Any], RunRecord | None]
"""Gives the record of an agent's guard, by its number or name."""


def _unrecorded(agent: Any) -> None:
    return None


class GuardedVectorEnv(VectorWrapper):
    """A vectorised environment whose every part has a guard of its own.

    The infos of a step have, under `forewarn`, what each guard decided and did. A part
    that begins anew, in whichever way the environment declares, is a new episode of its
    guard. Where it must be reset, a part that is over is judged until it is. No guard
    can `cut` one of the parts.

    Args:
        env: The environment.
        equipment: What each part is guarded with.
        record: Gives the record of each, by its number.
    """

    def __init__(
        self, env: VectorEnv, equipment: Equipment, record: Recorded = _unrecorded
    ) -> None:
        super().__init__(env)
        if "autoreset_mode" not in env.metadata:
            raise InvalidInput(
                "the environment does not declare how its parts begin anew",
                mend="give its metadata an `autoreset_mode`",
            )
        self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        self.watched = [Watched(equipment, record(i)) for i in range(env.num_envs)]
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
            # Where the next step begins anew, the environment ignores the action.
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

    def close(self, **kwargs: Any) -> None:
        for watched in self.watched:
            watched.close()
        super().close(**kwargs)


class GuardedParallelEnv:
    """A parallel environment of PettingZoo in which each agent has its own guard.

    The info of each agent has, under `forewarn`, what its guard decided and did. A
    `cut` truncates the agent it is about: from then on it is among the `agents` no
    more, and is held stopped. So is an agent that was not observed in this episode. All
    else is the environment's.

    Args:
        env: The environment.
        equipment: What an agent is guarded with, by its name; None: it is not.
        record: Gives the record of each, by its name.
    """

    def __init__(
        self,
        env: Any,
        equipment: Callable[[str], Equipment | None],
        record: Recorded = _unrecorded,
    ) -> None:
        self.env = env
        self._equipment, self._record = equipment, record
        self._known: dict[str, Watched | None] = {}
        self._cut: set[str] = set()
        self._there: set[str] = set()

    @property
    def watched(self) -> dict[str, Watched]:
        """Those that have a guard, of all that were ever seen."""
        return {name: one for name, one in self._known.items() if one is not None}

    def _guard_of(self, agent: str) -> Watched | None:
        if agent not in self._known:
            equipped = self._equipment(agent)
            made = None if equipped is None else Watched(equipped, self._record(agent))
            self._known[agent] = made
        return self._known[agent]

    def _begin(self, agent: str, observation: Any, infos: Mapping[str, Any]) -> None:
        """An agent is observed for the first time in this episode."""
        if (watched := self._guard_of(agent)) is not None:
            watched.begin(self.env, observation, infos.get(agent, {}))
        self._there.add(agent)

    def _executed(self, agent: str, action: Any) -> Any:
        """The action of an agent, as its guard has it."""
        watched = self._guard_of(agent)
        if watched is None:
            return action
        if agent in self._cut or agent not in self._there:
            return watched.held(action)
        return watched.action(action)

    @property
    def agents(self) -> list[str]:
        """Those that still act."""
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

    def close(self) -> None:
        for watched in self.watched.values():
            watched.close()
        self.env.close()


def only(env: VectorEnv) -> _Only:
    """The one environment that a vectorised one is of."""
    if env.num_envs != 1:
        raise InvalidInput(
            f"the environment is {env.num_envs} at once, and a world is one episode",
            mend="make it with num_envs=1, or guard all of it by GuardedVectorEnv",
        )
    return _Only(env)


class _Only(gymnasium.Env[Any, Any]):
    """A vectorised environment of one, as that one."""

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
    """One part's info of those of all; what it did not say is left out."""
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
    """Actions of each as one of all."""
    out: Any = create_empty_array(space, len(actions))
    return concatenate(space, actions, out)
