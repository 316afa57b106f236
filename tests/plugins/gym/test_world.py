"""Environments as worlds: signals, actions, resets, time limits, vectorised ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn import load_abstraction, read_trace
from forewarn.abstractions.errors import InvalidInput
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import numpy as np  # noqa: E402

from forewarn.plugins.functions import found  # noqa: E402
from forewarn.plugins.gym import EnvPilot, EnvWorld  # noqa: E402
from forewarn.plugins.gym.act import plain, sample  # noqa: E402
from forewarn.plugins.gym.bridge import Car, faster, slower  # noqa: E402
from forewarn.plugins.gym.sense import Senses  # noqa: E402


def car(**settings: Any) -> EnvWorld:
    given: dict[str, Any] = {
        "env": Car,
        "vocabulary": "driving",
        "signals": {"speed": {"at": "observation[0]", "unit": "m/s"}},
        "period_s": 0.1,
        "stop": [-1.0],
        "shows": "speed < 1 km/h",
    }
    return EnvWorld(**{**given, **settings})


def test_a_policy_drives_it_and_the_guard_s_actions_stop_it() -> None:
    world, pilot = car(slow=slower), EnvPilot(policy=faster)
    frame = world.reset(3)
    pilot.reset(3)
    began = frame.values["speed"]
    for _ in range(5):
        frame = world.step(pilot.propose(frame))
    assert frame.values["speed"] == pytest.approx(began + 5 * 0.2 * 0.8 * 3.6)
    assert frame.time_s == 0.5 and frame.sequence == 5
    assert json.dumps(pilot.propose(frame).arguments)
    for _ in range(30):
        frame = world.step(world.actuator().fallback())
    assert frame.values["speed"] == 0.0


def test_signals_by_a_class_hear_of_resets_and_numbers_become_plain() -> None:
    heard: list[Any] = []

    class Remembers:
        provides = ("speed", "collision", "lead_distance", "lane_count")

        def reset(self, env: Any) -> None:
            heard.append(env)
            self.count = 0

        def __call__(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
            self.count += 1
            return {
                "speed": np.float32(2.5),
                "collision": np.bool_(False),
                "lead_distance": None,
                "lane_count": self.count,
            }

    world = car(signals=Remembers)
    world.reset(1)
    world.step(None)
    frame = world.reset(2)
    assert [type(env) for env in heard] == [Car, Car]
    told = dict(frame.values)
    assert told == {
        "speed": 2.5, "collision": False, "lead_distance": None, "lane_count": 1.0
    }  # fmt: skip
    assert {type(v) for v in told.values()} == {float, bool, type(None)}


def test_a_signal_function_provides_the_keys_of_its_first_result() -> None:
    world = car(signals=lambda observation, info: {"speed": observation[0] * 3.6})
    assert world.source.provides == ("speed",)


def test_a_map_reads_places_units_codes_and_what_is_not_there() -> None:
    from forewarn import load_vocabulary

    senses = Senses(
        {
            "speed": {"at": "info.ego.speed", "unit": "m/s"},  # type: ignore[dict-item]
            "collision": "observation[1]",
            "traffic_light": {"at": "info.light", "codes": {0: "red"}},  # type: ignore[dict-item]
            "lead_distance": {"at": "observation[-1]", "none_codes": [-1]},  # type: ignore[dict-item]
            "brake": "info.brake",
        },
        load_vocabulary("driving"),
    )
    observation = np.array([0.0, 1.0, -1.0])
    info = {"ego": {"speed": np.float64(10.0)}, "light": 0}
    assert senses.values(observation, info) == {
        "speed": 36.0, "collision": True, "traffic_light": "red", "lead_distance": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"sped": "observation[0]"}, "speed"),
        ({"speed": "observation.__class__()"}, "is not a valid path"),
        ({"speed": {"at": "observation[0]", "unit": "m"}}, "'m' is not a unit of "),
        ({"speed": {"in": "observation[0]"}}, "in"),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(entry: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=".") as told:
        car(signals=entry)
    assert says in str(told.value)


def test_time_limits_and_ends_are_told_apart() -> None:
    settings = {
        "env": "CartPole-v1",
        "signals": {"speed": "observation[0]"},
        "stop": 0,
        "options": {"max_episode_steps": 3},
    }
    world = car(**settings)
    world.reset(1)
    for action in (0, 1, 0):
        world.step(Action("act", {"action": action}))
    assert world.ended() == "the environment's time limit was reached"
    world = car(**{**settings, "options": {}})
    world.reset(1)
    while world.ended() is None:
        world.step(Action("act", {"action": 0}))
    assert world.ended() == "the environment ended the episode"


def test_a_vectorised_environment_of_one_is_that_one() -> None:
    def made(num_envs: int = 1) -> Any:
        return gymnasium.make_vec(
            "CartPole-v1", num_envs=num_envs, vectorization_mode="sync"
        )

    settings = {"signals": {"speed": "observation[2]"}, "stop": 0}
    one, single = car(env=made, **settings), car(env="CartPole-v1", **settings)
    frames = [
        [world.reset(7), *(world.step(Action("act", {"action": 1})) for _ in range(5))]
        for world in (one, single)
    ]
    assert frames[0] == frames[1]
    with pytest.raises(InvalidInput, match="3 sub-environments"):
        car(env=made, options={"num_envs": 3}, **settings)


def test_invalid_environment_is_rejected() -> None:
    with pytest.raises(
        InvalidInput, match="cannot create the environment 'CartPoll-v1'"
    ):
        car(env="CartPoll-v1")
    found("forewarn.plugins.gym.bridge:faster")  # from the file that catches errors
    with pytest.raises(
        InvalidInput, match="cannot create the environment 'nowhere:A-v0': ModuleNot"
    ):
        car(env="nowhere:A-v0")
    with pytest.raises(
        InvalidInput, match="cannot create the environment 'CartPole-v1': .*'colour'"
    ):
        car(env="CartPole-v1", options={"colour": "red"})
    with pytest.raises(InvalidInput, match="cannot load the function"):
        car(env="nowhere.at_all:make")
    with pytest.raises(
        InvalidInput,
        match=("a policy for a Gymnasium environment works only in the world `gym`"),
    ):
        from forewarn.plugins.tiny import TinyWorld

        EnvPilot(policy=faster).propose(TinyWorld().reset(1))


def test_the_environment_s_own_autopilot_drives_and_is_slowed() -> None:
    world = car(autopilot=lambda env: np.array([1.0], np.float32), slow=slower)
    pilot = EnvPilot(policy="autopilot")
    frame = world.reset(1)
    before = frame.values["speed"]
    frame = world.step(pilot.propose(frame))
    assert frame.values["speed"] > before
    with pytest.raises(InvalidInput, match="the world has no autopilot"):
        other = car()
        other.reset(1)
        other.step(pilot.propose(frame))


BROKEN = """
def signals(observation, info):
    return {"speed": info["speed"]}

def policy(observation):
    return observation["speed"]
"""
SCENARIO = """
format: forewarn.scenario/1
name: mine
title: Mine
world:
  name: gym
  settings:
    env: forewarn.plugins.gym.bridge:Car
    vocabulary: driving
    signals: {signals}
    period_s: 0.1
    stop: [-1.0]
    shows: "true"
pilot: {{name: gym, settings: {{policy: "$here/mine.py:policy"}}}}
laws: ["always speed < 90 km/h"]
end: {{max_time_s: 3}}
abstraction:
  format: forewarn.abstraction/1
  name: mine
  vocabulary: driving
  predicates: [speed < 90 km/h]
"""


@pytest.mark.parametrize(
    ("signals", "line", "what"),
    [
        ('"$here/mine.py:signals"', 3, "KeyError: 'speed'"),
        ('{speed: "observation[0]"}', 6, "IndexError: only integers"),
    ],
)
def test_errors_in_a_users_file_name_its_line(
    signals: str, line: int, what: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    (tmp_path / "mine.yaml").write_text(SCENARIO.format(signals=signals))
    command = ["collect", tmp_path / "mine.yaml", "--episodes", "1", "--out", tmp_path]
    done = CliRunner().invoke(main, [str(each) for each in command])
    assert done.exit_code == 2 and "defect" not in done.stderr
    assert f"mine.py, line {line}: {what}" in done.stderr


WRONG = """
from forewarn.plugins.gym.bridge import Car

class E(Car):
    def reset(self, **given):
        return super().reset(**given)[0], {"speed": 1.0}

    def step(self, action):
        return *super().step(action)[:4], {"speed": 1.0}

class P:
    def __call__(self, observation): return [0.0]

class NeedsPath:
    def __init__(self, path): ...
    def __call__(self, observation): return [0.0]

class NoCall: ...

class BadReset:
    def reset(self): ...
    def __call__(self, observation): return [0.0]

class Big:
    def __call__(self, observation): return [7.0]

def nothing(): ...
def a_list(observation, info): return [1.0]
def a_text(observation, info): return {"speed": "fast"}
"""


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("mine.py:P", "mine.py:NeedsPath",
         "policy: NeedsPath cannot be called with the given arguments: missing a "
         "required argument: 'path'"),
        ("mine.py:P", "mine.py:NoCall",
         "policy: NoCall cannot be called like a function"),
        ("mine.py:P", "mine.py:BadReset",
         "policy: BadReset.reset cannot be called with the given arguments:"),
        ("mine.py:P", "mine.py:Big",
         "act: action is [7.0], not in the action space Box"),
        ("mine.py:P", "mein.py:P",
         "which should define P (did you mean mine.py?)"),
        ("mine.py:E", "mine.py:nothing",
         "returns None, which is not a gymnasium.Env"),
        ("info.speed", "info.sped",
         "signals: speed: info has no 'sped' (did you mean speed?)"),
        ("mine.py:P", "mine.py:NeedsPath", "must be the keys of `options`"),
        ("{speed: info.speed}", '"$here/mine.py:nothing"',
         "signals: nothing cannot be called with the given arguments"),
        ("{speed: info.speed}", '"$here/mine.py:a_list"',
         "signals: expected a mapping, found [1.0] (return a dict"),
        ("{speed: info.speed}", '"$here/mine.py:a_text"',
         "speed must be a number, not 'fast'"),
        ("mine.py:P", "lacking.py:P",
         "No module named 'not_there' (install the package that contains it)"),
        ("info.speed", "observation.speed",
         "observation has no 'speed' (the array has 1 elements"),
        ("info.speed", '"observation[3]"',
         "observation has no 3 (the array has 1 elements, numbered from 0)"),
    ],
)  # fmt: skip
def test_mistakes_in_a_user_s_own_environment_are_named(
    was: str, becomes: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(WRONG)
    (tmp_path / "lacking.py").write_text("import not_there\n")
    text = SCENARIO.format(signals="{speed: info.speed}")
    text = text.replace("forewarn.plugins.gym.bridge:Car", "$here/mine.py:E")
    text = text.replace("mine.py:policy", "mine.py:P")
    (tmp_path / "mine.yaml").write_text(text.replace(was, becomes))
    command = ["collect", tmp_path / "mine.yaml", "--episodes", "1", "--out", tmp_path]
    done = CliRunner().invoke(main, [str(each) for each in command])
    assert done.exit_code == 2 and says in done.stderr


def test_a_stop_function_that_returns_no_action_is_named() -> None:
    world = car(stop=lambda env: None)
    world.reset(0)
    with pytest.raises(InvalidInput, match="stop: <lambda> returned None, which is"):
        world.step(None)


def test_a_stop_that_is_no_action_is_refused_before_it_is_needed() -> None:
    with pytest.raises(
        InvalidInput, match=r"stop: \[5.0\] is not in the action space Box"
    ):
        car(stop=[5.0])


@pytest.mark.parametrize(
    ("space", "fits", "not_fits"),
    [
        (gymnasium.spaces.Discrete(3, start=1), 3, [0, 1.0, True, "1", None, [1]]),
        (gymnasium.spaces.Box(-1, 1, (2,)), [0.5, -1], [[0.5], [2, 0], "x", 0.5]),
        (gymnasium.spaces.MultiDiscrete([2, 3]), [1, 2], [[2, 0], [1], "x"]),
        (gymnasium.spaces.MultiBinary(2), [0, 1], [[2, 0], [1], 1]),
    ],
)
def test_only_elements_of_the_space_are_actions(
    space: Any, fits: Any, not_fits: list[Any]
) -> None:
    argument = sample(space)
    assert argument.lack(fits) == "" and plain(argument.element(fits)) == fits
    assert all(argument.lack(value) for value in not_fits)


def test_whatever_reads_a_file_takes_its_name(tmp_path: Path) -> None:
    # load_model and load_policy are tried on all that ships.
    path = tmp_path / "run.jsonl"
    path.write_text('{"format": "forewarn.trace/1", "provides": ["a"]}\n')
    assert read_trace(str(path)).header.provides == ("a",)
    path = tmp_path / "mine.yaml"
    path.write_text("format: forewarn.abstraction/1\nname: mine\npredicates: [a > 1]\n")
    assert load_abstraction(str(path)).name == "mine"


@pytest.mark.needs("pygame")
def test_a_registered_environment_renders_pictures() -> None:
    world = car(env="CartPole-v1", stop=0, signals={"speed": {"at": "observation[1]"}})
    world.reset(1)
    assert world.renders and world.picture().shape == (400, 600, 3)
    plain = car(
        env="CartPole-v1", stop=0, signals={"speed": {"at": "observation[1]"}},
        options={"render_mode": None},
    )  # fmt: skip
    assert not plain.renders and not car().renders


NO_INFO = """
import gymnasium
import numpy


class E(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return numpy.zeros(1), {}

    def step(self, action):
        return numpy.zeros(1), 0.0, False, False, {"speed": 3.0}


def policy(observation):
    return [0.5]
"""


def test_signal_that_is_missing_from_an_empty_info_is_named_with_the_cause(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(NO_INFO)
    text = SCENARIO.format(signals="{speed: info.speed}")
    text = text.replace("forewarn.plugins.gym.bridge:Car", "$here/mine.py:E")
    (tmp_path / "mine.yaml").write_text(text)
    command = ["collect", tmp_path / "mine.yaml", "--episodes", "1", "--out", tmp_path]
    done = CliRunner().invoke(main, [str(each) for each in command])
    assert done.exit_code == 2
    assert (
        "signals: speed: speed is missing, because the info is empty after reset "
        "(return it in the info of reset too, or read it from observation)"
    ) in done.stderr
