"""A Gymnasium environment as a world, and a policy as its pilot."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from forewarn.abstractions.errors import (
    InvalidInput,
    MissingDependency,
    naming,
    said,
)
from forewarn.abstractions.expression.parser import parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import Actions, ActionSpec
from forewarn.plugins.contracts import Example, Source, SteppedWorld
from forewarn.plugins.functions import found, said_where, takes

try:
    import gymnasium
    import numpy as np
    from gymnasium.envs.registration import load_env_creator
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

    from forewarn.plugins.gym.act import (
        ACT,
        AUTOPILOT,
        EnvActuator,
        Shows,
        plain,
        sample,
    )
    from forewarn.plugins.gym.guarded import only
    from forewarn.plugins.gym.sense import Reading, Senses
except ImportError as error:
    raise MissingDependency("a Gymnasium environment", "gym") from error

Period = Annotated[float, Field(gt=0, le=60)]
Called = str | Callable[..., Any]

_PLACE = re.compile(r"[\w./\\-]+:\w+")
_CAP_SHOWS_KMH = 1.0
_EXAMPLE = "forewarn.plugins.gym.bridge"


class Seen(dict[str, Value]):
    """The signals of a frame together with the observation, which a policy needs."""

    observation: Any = None
    is_first_without_info = False

    def __missing__(self, name: str) -> Value:
        if self.is_first_without_info:
            raise InvalidInput(
                f"{name} is missing, because the info is empty after reset",
                source=f"signals: {name}",
                mend="return it in the info of reset too, or read it from observation",
            )
        raise KeyError(name)


class EnvWorld(SteppedWorld):
    """A Gymnasium environment as a world; each episode is a run.

    Functions and classes can be passed as objects, or as `$here/file.py:name` or
    `package.module:name`. The parameter `env` of a function is the unwrapped
    environment.

    Args:
        env: The registered id of the environment, or a function that creates it.
        vocabulary: The name of a built-in vocabulary, or the path of a YAML file.
        signals: A function that returns the signals, given the observation and the
            info, or a mapping from signals to paths, such as `speed: info.speed`.
        period_s: The duration of a step in seconds.
        stop: The action that stops the agent, or a function of `env` that returns it.
            This action is also used if no action is proposed.
        shows: A condition that shows that a stop is obeyed: an expression over signals,
            or a function of the decision and the frame.
        slow: A function that returns an action which keeps a speed cap, given `env`,
            the proposed action (None if it is the autopilot's) and the cap in km/h.
        autopilot: A function of `env` that returns the action with which the
            environment drives itself.
        options: The arguments of the environment. A registered environment is created
            with `render_mode: rgb_array` if it supports this mode, so that reports can
            show images.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example with a simple car."""
        settings = {
            "env": f"{_EXAMPLE}:Car",
            "vocabulary": "driving",
            "signals": {"speed": {"at": "observation[0]", "unit": "m/s"}},
            "period_s": 0.1,
            "stop": [-1.0],
            "shows": "speed < 1 km/h",
            "slow": f"{_EXAMPLE}:slower",
        }
        return Example(settings)

    def __init__(
        self,
        *,
        env: Called,
        vocabulary: str,
        signals: Called | dict[str, str | Reading],
        period_s: Period,
        stop: Any,
        shows: Called,
        slow: Called | None = None,
        autopilot: Called | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        speaks = load_vocabulary(vocabulary)
        self._read = signals if isinstance(signals, Mapping) else _called(signals)
        with naming("signals"):
            self._senses = Senses(self._read, speaks)
        self._stop, self._slow = _called(stop), _called(slow)
        self._autopilot = _called(autopilot)
        for name, given, *names in (
            ("stop", self._stop if callable(self._stop) else None, "env"),
            ("slow", self._slow, "env", "action", "cap_kmh"),
            ("autopilot", self._autopilot, "env"),
        ):
            if given is not None:
                takes(given, name, *names)
        with naming("shows"):
            self._shows = _shown_by(shows, speaks)
        self._env = _made(env, options or {})
        self._space = sample(self._env.action_space)
        if not callable(self._stop) and (lack := self._space.lack(self._stopping())):
            mend = "write an action of this space, or a function as FILE.py:NAME"
            raise InvalidInput(f"stop: {self._stop!r:.60} is {lack}", mend=mend)
        specs = [ActionSpec(ACT, {"action": self._space})]
        if self._autopilot is not None:
            specs.append(ActionSpec(AUTOPILOT))
        self.actions = Actions(*specs)
        provides = self._senses.provides
        if provides is None:
            self.begin(0)
            values = self.values()
            provides = tuple(values)
            with naming(f"signals: {signals}"):
                for name, value in values.items():
                    if not speaks.knows(name):
                        raise InvalidInput(speaks.unknown(name))
                    if isinstance(value, float) and not math.isfinite(value):
                        raise InvalidInput(
                            f"{name} is {value} when an episode begins",
                            mend="leave a signal out while its value is unknown, or "
                            "return None if there is nothing to measure",
                        )
        self.source = Source(f"gym {_name(env)}", vocabulary, provides, period_s)

    def begin(self, seed: int) -> None:
        self._last = self._env.reset(seed=seed)
        self._senses.reset(self._env.unwrapped)
        self._check = not self._last[1]
        self._senses.check(*self._last)

    def move(self, action: Action | None) -> None:
        seen = self._env.step(self._meant(action))
        observation, _, terminated, truncated, info = seen
        self._last = observation, info
        if self._check:
            self._senses.check(observation, info)
            self._check = False
        if terminated:
            self.over = "the environment ended the episode"
        elif truncated:
            self.over = "the environment's time limit was reached"

    def values(self) -> Seen:
        observation, info = self._last
        values = Seen(self._senses.values(observation, info))
        values.observation, values.is_first_without_info = observation, self._check
        return values

    @property
    def renders(self) -> bool:
        return getattr(self._env, "render_mode", None) == "rgb_array"

    def picture(self) -> Any:
        return self._env.render()

    def actuator(self) -> EnvActuator:
        slow = None if self._slow is None else self._slower
        return EnvActuator(self._stopping, self._shows, slow)

    def close(self) -> None:
        super().close()
        self._env.close()

    def step(self, action: Action | None) -> Frame:
        wants = action is not None and action.name == AUTOPILOT
        if wants and self._autopilot is None:
            raise InvalidInput(
                "the world has no autopilot for `policy: autopilot`",
                mend="add autopilot: $here/FILE.py:NAME to the settings of the world",
            )
        return super().step(action)

    def _meant(self, action: Action | None) -> Any:
        """Converts an action of the world to one of the environment."""
        if action is None:
            return self._space.element(self._stopping())
        if action.name == AUTOPILOT:
            return self._space.element(self._driving())
        return self._space.element(action.arguments["action"])

    def _stopping(self) -> Any:
        if not callable(self._stop):
            return plain(self._stop)
        action = plain(self._stop(self._env.unwrapped))
        if lack := self._space.lack(action):
            name = getattr(self._stop, "__name__", "the function")
            problem = f"{name} returned {action!r:.60}, which is {lack}"
            raise InvalidInput(problem, source="stop")
        return action

    def _driving(self) -> Any:
        assert self._autopilot is not None  # noqa: S101 - else it is no action
        return plain(self._autopilot(self._env.unwrapped))

    def _slower(self, proposed: Any, cap_kmh: float) -> Any:
        assert self._slow is not None  # noqa: S101 - else nobody asks
        return plain(self._slow(self._env.unwrapped, proposed, cap_kmh))


class EnvPilot:
    """A pilot that follows the user's policy, or lets the environment drive itself.

    Args:
        policy: `autopilot`, a function that maps an observation to an action, or a
            class whose instances are such functions. A method `reset(seed)` is called
            at the start of each episode.
        options: The arguments of the class, if `policy` is a class.
    """

    @staticmethod
    def example() -> Example:
        return Example({"policy": f"{_EXAMPLE}:faster"}, world="gym")

    def __init__(
        self, *, policy: Called, options: dict[str, Any] | None = None
    ) -> None:
        made = None if policy == AUTOPILOT else _called(policy)
        if isinstance(made, type):
            options = options or {}
            made = takes(made, "policy", options=options)(**options)
        if made is not None:
            takes(made, "policy", "observation")
        if (begin := getattr(made, "reset", None)) is not None:
            takes(begin, "policy", "seed")
        self._policy = made

    def reset(self, seed: int) -> None:
        begin = getattr(self._policy, "reset", None)
        if begin is not None:
            begin(seed)

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        if self._policy is None:
            return Action(AUTOPILOT)
        if not isinstance(frame.values, Seen):
            raise InvalidInput(
                "a policy for a Gymnasium environment works only in the world `gym`",
                mend="set the scenario's world to `gym`",
            )
        return Action(ACT, {"action": plain(self._policy(frame.values.observation))})


def _name(env: Called) -> str:
    """Returns the name of an environment, without its module or file."""
    if not isinstance(env, str):
        return getattr(env, "__name__", "environment")
    return env.rpartition(":")[2] if _PLACE.fullmatch(env) else env


def _called(value: Any) -> Any:
    """Returns the function to which a text refers; returns other values unchanged."""
    named = isinstance(value, str) and _PLACE.fullmatch(value)
    return found(value) if named else value


def _shown_by(shows: Called, vocabulary: Vocabulary) -> Shows:
    """Returns a function that tells whether a frame shows that a stop is obeyed."""
    named = _called(shows)
    if callable(named):
        shown: Shows = named
        return shown
    holds = compile_test(parse_expression(named, vocabulary))

    def holds_or_slow(decision: Decision, frame: Frame) -> bool | None:
        speed, cap_kmh = frame.values.get("speed"), decision.cap_kmh
        if decision.kind == "slow" and cap_kmh is not None and speed is not None:
            return bool(holds(frame.values)) or speed <= cap_kmh + _CAP_SHOWS_KMH
        return bool(holds(frame.values))

    return holds_or_slow


def _made(env: Called, options: Mapping[str, Any]) -> Any:
    """Creates the environment; a vectorised one must have a single sub-environment."""
    try:
        if isinstance(env, str) and not _PLACE.fullmatch(env):
            rendering = _rendering(env) if "render_mode" not in options else {}
            if rendering:
                # Without a display, SDL would print an error to the terminal.
                os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
            options = {**rendering, **options}
            made = gymnasium.make(env, disable_env_checker=True, **options)
        else:
            made = _called(env)(**options)
    except InvalidInput:
        raise
    except Exception as error:  # the user's code may raise any exception
        why = said_where(error) or said(error)
        raise InvalidInput(
            f"cannot create the environment {env!r:.80}: {why}"
        ) from error
    if not isinstance(made, gymnasium.Env | VectorEnv):
        raise InvalidInput(
            f"env: {env!r:.80} returns {made!r:.60}, which is not a gymnasium.Env",
            mend="return the environment itself",
        )
    return only(made) if isinstance(made, VectorEnv) else made


def _rendering(env: str) -> dict[str, str]:
    """Returns the option that makes a registered environment render images, if
    possible.
    """
    try:
        entry = gymnasium.spec(env).entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except Exception:  # `gymnasium.make` reports the problem
        return {}
    modes = getattr(creator, "metadata", {}).get("render_modes", ())
    return {"render_mode": "rgb_array"} if "rgb_array" in modes else {}


# -- example ------------------------------------------------------------------------

_PERIOD_S, _FASTEST, _STRENGTH = 0.1, 40.0, 8.0
Shown = NDArray[np.float32]


class Car(gymnasium.Env[Shown, Shown]):
    """A small environment with a car, with which the world and the pilot are tested."""

    observation_space = gymnasium.spaces.Box(0.0, _FASTEST, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Shown, dict[str, Any]]:
        super().reset(seed=seed)
        self._speed = np.float32(self.np_random.uniform(5.0, 10.0))
        return self._seen(), {}

    def step(self, action: Shown) -> tuple[Shown, float, bool, bool, dict[str, Any]]:
        speed = self._speed + action[0] * _STRENGTH * _PERIOD_S
        self._speed = np.clip(speed, 0.0, _FASTEST)
        return self._seen(), float(self._speed), False, False, {}

    def _seen(self) -> Shown:
        return np.array([self._speed], np.float32)


def faster(observation: Shown) -> Shown:
    """An example of a policy, which always accelerates."""
    return np.array([0.2], np.float32)


def slower(env: Car, action: list[float] | None, cap_kmh: float) -> list[float]:
    """An example of a function that returns an action which keeps a speed cap."""
    room = cap_kmh / 3.6 - float(env._speed)
    most = max(-1.0, min(1.0, room / _STRENGTH / _PERIOD_S))
    return [most if action is None else min(action[0], most)]
