"""The Gymnasium wrapper: an agent that speeds is slowed down or stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.actions import Actions, ActionSpec, number
from forewarn.plugins.contracts import Actuator, Pilot, World
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.testing import ActuatorContract
from forewarn.plugins.tiny import TinyPilot, TinyWorld
from tests.plugins.doubles import Onlooker, Servant
from tests.plugins.remote.serving import model

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import numpy as np  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402

from forewarn.plugins.gym.act import ACT, EnvActuator  # noqa: E402
from forewarn.plugins.gym.guarded import (  # noqa: E402
    Equipment,
    GuardedEnv,
    GuardedVectorEnv,
)

FASTEST = np.array([1.0], np.float32)
BRAKE = np.array([-1.0], np.float32)
RULES = {"*": (Step("stop", 0.5),)}
POLICY = Policy(rules=RULES, hold_s=0.0)


class TinyEnv(gymnasium.Env):  # type: ignore[name-defined]
    """The tiny road as an environment: acceleration in, speed and distances out."""

    observation_space = gymnasium.spaces.Box(0.0, 1000.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.world = TinyWorld(lead=False, yellow_at_s=60.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        chance = self.np_random.integers(1 << 30)
        return self._seen(self.world.reset(int(chance)))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        acceleration = {"acceleration": 6.0 * float(action[0])}
        frame = self.world.step(Action("control", acceleration))
        observation, info = self._seen(frame)
        return observation, 0.0, self.world.ended() is not None, False, info

    def _seen(self, frame: Frame) -> tuple[Any, dict[str, Any]]:
        speed, line = frame.values["speed"], frame.values["stop_line_distance"]
        return np.array([speed, line or 0.0], np.float32), dict(frame.values)


def signals(observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
    return {"speed": float(observation[0]), "collision": info["collision"]}


def shown(decision: Decision, frame: Frame) -> bool | None:
    return bool(frame.values["speed"] < 60.0)


def guarding(policy: Policy = POLICY, **more: Any) -> Guarding:
    return Guarding([model()], replace(policy, horizon_s=3.0), **more)


def guarded(actuator: Actuator | None = None, policy: Policy = POLICY) -> Any:
    return GuardedEnv(
        TinyEnv(),
        guarding(policy),
        signals,
        actuator or EnvActuator(BRAKE, shown),
        0.1,
    )


def speeds(env: Any, steps: int = 60) -> tuple[list[float], list[dict[str, Any]]]:
    observation, _ = env.reset(seed=1)
    fast, told = [float(observation[0])], []
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(FASTEST)
        fast.append(float(observation[0]))
        told.append(info.get("forewarn", {"decision": {}}))
        # What it has found out about its model outlives an episode.
        told[-1]["decision"].pop("notes", None)
        if terminated or truncated:
            break
    env.close()
    return fast, told


def test_an_agent_that_speeds_is_held_back() -> None:
    free, _ = speeds(TinyEnv())
    kept, told = speeds(guarded())
    assert max(free) > 80.0 and max(kept) < 65.0
    stopped = next(t for t in told if t["decision"]["decision"] == "stop")
    assert stopped["decision"]["law"] == "always not collision"
    assert stopped["outcome"] == {"kind": "stop", "decided": "stop"}


def test_the_live_view_shows_the_scenery_of_the_environment() -> None:
    class Shown(TinyEnv):
        def ground(self) -> Any:
            return self.world.ground()

        def things(self) -> Any:
            return self.world.things()

    onlooker = Onlooker()
    env: Any = GuardedEnv(
        Shown(),
        guarding(listeners=[lambda: onlooker]),
        signals,
        EnvActuator(BRAKE, shown),
        0.1,
    )  # fmt: skip
    speeds(env, steps=5)
    assert onlooker.decisions == ["proceed"] * 5
    assert {shape.kind for shape in onlooker.ground} >= {"lane"}
    assert [thing.kind for thing in onlooker.seen[-1]][:1] == ["ego"]
    assert onlooker.over == ["the environment was closed"]


def test_a_truth_value_of_numpy_shows_obedience() -> None:
    shows: Any = lambda decision, frame: np.bool_(True)  # noqa: E731
    actuator = EnvActuator(BRAKE, shows)
    assert actuator.obeyed(Decision("stop", 0, 0.0), Frame(0.0, 0, {"v": 1})) is True


def test_in_shadow_mode_it_only_tells() -> None:
    free, _ = speeds(TinyEnv())
    kept, told = speeds(guarded(policy=replace(POLICY, shadow=True)))
    assert kept == free
    assert any(t["decision"]["decision"] == "stop" for t in told)


def test_slow_is_carried_out_if_the_actuator_can() -> None:
    def slower(action: Any, cap_kmh: float) -> Any:
        return np.minimum(action, -0.2)

    slow = replace(POLICY, rules={"*": (Step("slow", 0.5),)})
    actuator = EnvActuator(BRAKE, shown, slower)
    fast, told = speeds(guarded(actuator, slow))
    assert max(fast) < 70.0
    assert {t["outcome"]["kind"] for t in told} == {"proceed", "slow"}


def test_a_cut_ends_the_episode() -> None:
    class Cutting(EnvActuator):
        def __init__(self) -> None:
            super().__init__(BRAKE, shown)
            self.can = self.can | {"cut"}

    cut: dict[str, tuple[Step, ...]] = {"*": (Step("cut", 0.5),)}
    env = guarded(Cutting(), replace(POLICY, rules=cut))
    env.reset(seed=1)
    for _ in range(100):
        _, _, terminated, truncated, info = env.step(FASTEST)
        if truncated:
            break
    assert truncated and not terminated
    assert info["forewarn"]["outcome"]["kind"] == "cut"
    env.close()


def test_each_episode_begins_anew_and_the_same_seed_is_the_same() -> None:
    env = guarded()
    assert [speeds(env), speeds(env)] == [speeds(guarded())] * 2


def test_a_missing_signal_stops() -> None:
    env: Any = GuardedEnv(
        TinyEnv(), guarding(), lambda o, i: {}, EnvActuator(BRAKE, shown), 0.1
    )
    fast, told = speeds(env, 100)
    assert fast[-1] == 0.0
    assert all(t["decision"]["decision"] == "stop" for t in told)


def test_without_a_reset_it_does_not_step() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        guarded().step(FASTEST)


def test_a_reset_that_fails_leaves_no_frame_to_be_judged() -> None:
    failing: list[bool] = []

    def some(observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        if failing:
            raise KeyError("a sensor is missing")
        return signals(observation, info)

    env: Any = GuardedEnv(TinyEnv(), guarding(), some, EnvActuator(BRAKE, shown), 0.1)
    env.reset(seed=1)
    env.step(FASTEST)
    failing.append(True)
    with pytest.raises(KeyError):
        env.reset(seed=2)
    failing.clear()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(FASTEST)
    env.reset(seed=2)
    env.step(FASTEST)
    env.close()


def test_a_failing_environment_lets_no_action_pass() -> None:
    """An observation of no number, a step or an actuator that raises, a close."""
    done: list[float] = []

    class Failing(TinyEnv):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            done.append(float(action[0]))
            if len(done) == 3:
                raise RuntimeError("physics blew up")
            seen, _, over, cut, info = super().step(action)
            speed = {1: np.nan, 2: -5.0}.get(len(done), seen[0])
            return np.array([speed, 0.0]), 0.0, over, cut, info

    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    env: Any = GuardedEnv(
        Failing(), guarding(), signals, EnvActuator(BRAKE, shown), 0.1
    )
    env.reset(seed=1)
    env.step(FASTEST)
    for _ in range(3):
        with contextlib.suppress(RuntimeError, gymnasium.error.ResetNeeded):
            env.step(FASTEST)
    env.close()
    with contextlib.suppress(InvalidInput, gymnasium.error.ResetNeeded):
        env.step(FASTEST)
    assert done[0] == 1.0 and set(done[1:]) == {-1.0}

    for actuator in (EnvActuator(fails, shown), EnvActuator(BRAKE, fails)):
        car = Risky()
        env = GuardedEnv(car, guarding(), equipment().signals, actuator, 0.1)
        env.reset(seed=1)
        with contextlib.suppress(ZeroDivisionError):
            for _ in range(3):
                env.step(FASTEST)
        assert 1.0 not in car.done


class Risky(gymnasium.Env):  # type: ignore[name-defined]
    """A car at a risky speed from its first step: its brake is all that may pass."""

    observation_space = gymnasium.spaces.Box(0.0, 1000.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.done: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return np.array([90.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.done.append(float(action[0]))
        self.steps += 1
        return np.array([90.0], np.float32), 0.0, self.steps >= 3, False, {}


class Several(VectorEnv):
    """Cars as one environment, which may begin anew other than it declares."""

    num_envs = 2
    single_observation_space = Risky.observation_space
    single_action_space = Risky.action_space
    observation_space = gymnasium.spaces.Box(0.0, 1000.0, (2, 1), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2, 1), np.float32)

    def __init__(self, declared: Any, same_step: bool) -> None:
        self.metadata = {} if declared is None else {"autoreset_mode": declared}
        self.cars, self._same = [Risky(), Risky()], same_step

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.stack([car.reset()[0] for car in self.cars]), {}

    def step(self, actions: Any) -> Any:
        seen = [car.step(each) for car, each in zip(self.cars, actions, strict=True)]
        over = np.array([each[2] for each in seen])
        for car, is_over in zip(self.cars, over, strict=True):
            if is_over and self._same:
                car.reset()
        observations = np.stack([each[0] for each in seen])
        return observations, np.zeros(2), over, np.zeros(2, dtype=bool), {}


def equipment() -> Equipment:
    def speed(observation: Any, info: Any) -> dict[str, Any]:
        return {"speed": float(observation[0]), "collision": False}

    return Equipment(guarding(), speed, EnvActuator(BRAKE, lambda *_: True), 0.1)


@pytest.mark.parametrize("same_step", [True, False])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_no_part_of_several_acts_unjudged(mode: AutoresetMode, same_step: bool) -> None:
    """Neither one that is over, nor one that begins anew otherwise than declared."""
    cars = Several(mode, same_step)
    env = GuardedVectorEnv(cars, equipment())
    env.reset()
    for _ in range(9):
        env.step(np.ones((2, 1), np.float32))
    assert [set(car.done) for car in cars.cars] == [{-1.0}, {-1.0}]


def test_several_must_declare_how_they_begin_anew() -> None:
    with pytest.raises(InvalidInput, match="autoreset_mode"):
        GuardedVectorEnv(Several(None, True), equipment())


def test_a_reset_that_fails_leaves_no_part_to_be_judged() -> None:
    env: Any = GuardedVectorEnv(Several(AutoresetMode.DISABLED, False), equipment())
    env.reset()
    env.watched[0]._senses._shown = None
    with pytest.raises(TypeError):
        env.reset()
    with pytest.raises(InvalidInput, match="reset first"):
        env.step(np.ones((2, 1), np.float32))


def test_an_actuator_that_gives_no_action_is_an_error() -> None:
    env = guarded(Servant())
    env.reset(seed=1)
    with pytest.raises(Exception, match="the actuator returned no action for stop"):
        for _ in range(100):
            env.step(FASTEST)
    env.close()


def test_a_guarded_environment_passes_gymnasiums_checker() -> None:
    from gymnasium.utils.env_checker import check_env

    with pytest.warns(UserWarning, match="different from the unwrapped"):
        check_env(guarded(), skip_render_check=True)


def test_a_guarded_environment_keeps_its_arguments() -> None:
    env = guarded()
    assert set(env._saved_kwargs) == {
        "guarding", "signals", "actuator", "period_s",
    }  # fmt: skip
    again: Any = GuardedEnv(TinyEnv(), **env._saved_kwargs)
    assert speeds(again) == speeds(env)


class _Acting(TinyWorld):
    """The tiny road, taking what an environment's actuator sends."""

    actions = Actions(
        ActionSpec(ACT, {"action": number()}),
        ActionSpec("control", {"acceleration": number()}),
    )

    def step(self, action: Action | None) -> Frame:
        if action is not None and action.name == ACT:
            acceleration = {"acceleration": float(action.arguments["action"])}
            action = Action("control", acceleration)
        return super().step(action)


class _Agent(TinyPilot):
    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        proposal = super().propose(frame, reflection)
        return Action(ACT, {"action": proposal.arguments["acceleration"]})


class TestEnvActuator(ActuatorContract):
    def make_world(self) -> World:
        return _Acting(lead=False, yellow_at_s=60.0)

    def make_pilot(self) -> Pilot:
        return _Agent()

    def make_actuator(self, world: World) -> Actuator:
        def slows(decision: Decision, frame: Frame) -> bool | None:
            return bool(frame.values["acceleration"] < -1.0)

        return EnvActuator(-6.0, slows, lambda action, cap_kmh: min(action, -3.0))


def test_an_actuator_can_slow_only_with_a_function() -> None:
    milder: set[Kind] = {"alert", "stop"}
    assert EnvActuator(BRAKE, shown).can == milder
    assert EnvActuator(BRAKE, shown, min).can == milder | {"slow"}
