"""A guard for each agent, in parallel environments of PettingZoo."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.loop.guarding import Guarding
from tests.plugins.remote.serving import model

pytest.importorskip("gymnasium", reason="gymnasium is not installed")
pettingzoo = pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

import numpy as np  # noqa: E402
from gymnasium.spaces import Box  # noqa: E402

with warnings.catch_warnings():  # its own test warns of an environment of its own
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test

from forewarn.plugins.gym import (  # noqa: E402
    EnvActuator,
    Equipment,
    GuardedParallelEnv,
)

TOP_KMH = {"a": 40.0, "b": 120.0, "c": 120.0}
STEPS = 20


class Cars(pettingzoo.ParallelEnv):  # type: ignore[name-defined]
    """Cars that go as fast as they are told; each is there for so many steps."""

    metadata = {"name": "cars"}

    def __init__(self) -> None:
        self.possible_agents = list(TOP_KMH)
        self._seen = Box(0.0, 1000.0, (1,), np.float32)
        self._does = Box(-1.0, 1.0, (1,), np.float32)

    def observation_space(self, agent: str) -> Any:
        return self._seen

    def action_space(self, agent: str) -> Any:
        return self._does

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self._steps = [*self.possible_agents], 0
        self.speed = dict.fromkeys(self.agents, 0.0)
        return self._shown(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self._steps += 1
        for agent, action in actions.items():
            faster = self.speed[agent] + 10.0 * float(action[0])
            self.speed[agent] = max(0.0, min(TOP_KMH[agent], faster))
        shown = self._shown()
        over = {
            agent: self._steps >= (STEPS // 2 if agent == "b" else STEPS)
            for agent in self.agents
        }
        told = (shown, dict.fromkeys(over, 0.0), over, dict.fromkeys(over, False))
        infos: dict[str, Any] = {agent: {} for agent in over}
        self.agents = [agent for agent in self.agents if not over[agent]]
        return *told, infos

    def _shown(self) -> dict[str, Any]:
        return {a: np.array([self.speed[a]], np.float32) for a in self.agents}


def equipment(agent: str, kind: Any = "stop") -> Equipment | None:
    """All but c are guarded; the model's risk is high above 60 km/h."""
    if agent == "c":
        return None

    policy = Policy(rules={"*": (Step(kind, 0.5),)}, hold_s=0.0, horizon_s=3.0)

    def signals(observation: Any, info: Any) -> dict[str, Any]:
        return {"speed": float(observation[0]), "collision": False}

    actuator = EnvActuator(np.array([-1.0], np.float32), slow_enough)
    actuator.can = actuator.can | {kind}
    return Equipment(Guarding([model()], policy), signals, actuator, 0.1)


def slow_enough(decision: Decision, frame: Frame) -> bool:
    return bool(frame.values["speed"] <= 60.0)


def driven(env: Any) -> Iterator[tuple[Any, ...]]:
    """Everybody goes as fast as it can."""
    env.reset(seed=1)
    while env.agents:
        fastest = {agent: np.array([1.0], np.float32) for agent in env.agents}
        yield env.step(fastest)


def test_a_guarded_environment_is_one_of_pettingzoos() -> None:
    parallel_api_test(GuardedParallelEnv(Cars(), equipment), num_cycles=3 * STEPS)


@pytest.mark.filterwarnings("ignore:This environment does not have")
def test_pettingzoos_own_example_is_guarded_as_agents_come_and_go() -> None:
    example = "pettingzoo.test.example_envs.generated_agents_parallel_v0"
    env = importlib.import_module(example).parallel_env()

    def guarded(agent: str) -> Equipment:
        equipped = equipment("a")
        assert equipped is not None
        calm = {"speed": 10.0, "collision": False}
        return replace(equipped, signals=lambda observation, info: calm)

    parallel_api_test(GuardedParallelEnv(env, guarded), num_cycles=100)


def test_each_agent_is_held_back_by_its_own_guard() -> None:
    fastest = dict.fromkeys(TOP_KMH, 0.0)
    stopped: dict[str, int] = dict.fromkeys(TOP_KMH, 0)
    for observations, _, _, _, infos in driven(GuardedParallelEnv(Cars(), equipment)):
        for agent, observation in observations.items():
            fastest[agent] = max(fastest[agent], float(observation[0]))
            told = infos[agent].get("forewarn", {"decision": {"decision": None}})
            stopped[agent] += told["decision"]["decision"] == "stop"
    assert fastest == {"a": 40.0, "b": 70.0, "c": 120.0}
    assert stopped["a"] == stopped["c"] == 0 < stopped["b"]


def test_cut_agent_stands_while_others_continue() -> None:
    cars = Cars()
    env = GuardedParallelEnv(cars, lambda agent: equipment(agent, "cut"))
    truncated: list[list[str]] = []
    for _, _, _, truncations, _ in driven(env):
        truncated.append([agent for agent, over in truncations.items() if over])
        assert "b" not in env.agents or not any(truncated)
    assert sum(truncated, []) == ["b"]
    assert cars.speed["b"] < 60.0 and len(truncated) == STEPS
    parallel_api_test(env, num_cycles=3 * STEPS)


def test_unobserved_agent_is_kept_stopped() -> None:
    done: list[dict[str, float]] = []

    class Hidden(Cars):
        """Nobody sees b in the second episode."""

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.hides = hasattr(self, "agents")
            return super().reset(seed, options)

        def step(self, actions: dict[str, Any]) -> Any:
            done.append({agent: float(each[0]) for agent, each in actions.items()})
            return super().step(actions)

        def _shown(self) -> dict[str, Any]:
            shown = super()._shown()
            return {
                a: each for a, each in shown.items() if not (self.hides and a == "b")
            }

    env = GuardedParallelEnv(Hidden(), equipment)
    for hidden in (False, True):
        env.reset(seed=1)
        done.clear()
        fastest = {agent: np.array([1.0], np.float32) for agent in env.agents}
        for _ in range(3):
            env.step(fastest)
        assert [each["b"] for each in done] == [-1.0 if hidden else 1.0] * 3
        assert [each["a"] for each in done] == [1.0] * 3
