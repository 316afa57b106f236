"""Test suites for the registered plugins of all packages.

This line in a test file makes pytest find the suites:

    globals().update(suites())

A plugin is created from the `example` of its class or, without an example, with its
default settings.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from unittest.mock import patch

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.readers.stored import Stored
from forewarn.abstractions.trace import TraceHeader, trace_writer
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.trust.training import law_abstraction
from forewarn.plugins.contracts import (
    Actuator,
    Baseline,
    Example,
    LearningBaseline,
    Lessons,
    Pilot,
    WithExample,
    World,
)
from forewarn.plugins.registry import (
    Plugin,
    Role,
    load,
    make_actuator,
    make_pilot,
    make_world,
    plugins,
)
from forewarn.plugins.testing.actuators import (
    ActuatorContract,
    BaselineContract,
    PilotContract,
)
from forewarn.plugins.testing.loops import LoopContract
from forewarn.plugins.testing.worlds import WorldContract

LAWS = (
    "no_collision",
    "always (traffic_light == yellow -> eventually[0, 1 s] speed < 1 km/h)",
)
"""The laws with which baselines are tested; the first law that applies is used."""

_SERVED = ExitStack()
atexit.register(_SERVED.close)

_TRAINED_ON = "tiny"
_LESSONS = 20


def suites(package: str | None = None) -> dict[str, type]:
    """Returns the test suites for all plugins, by class name.

    Args:
        package: The package whose plugins are tested; by default, all packages.
    """
    made: dict[str, type] = {}
    makers: dict[Role, Callable[[str], list[type]]] = {
        "world": _world_suites,
        "pilot": lambda name: [_PilotSuite],
        "actuator": lambda name: [_AgentActuatorSuite],
        "baseline": lambda name: [_BaselineSuite],
    }
    for role, suites_of in makers.items():
        for plugin in plugins(role):
            if package in (None, plugin.package):
                for suite in suites_of(plugin.name):
                    name = f"Test_{role}_{plugin.name}{suite.__name__}".replace(
                        "-", "_"
                    )
                    made[name] = type(name, (suite,), _facts(plugin, suite))
    if package is not None and not made:
        raise InvalidInput(
            f"no installed package {package!r} has plugins",
            mend="install it first, as in pip install -e ., or check its name",
        )
    return made


def _facts(plugin: Plugin, suite: type) -> dict[str, Any]:
    facts: dict[str, Any] = {"role": plugin.role, "name": plugin.name}
    try:
        example = example_of(plugin.role, plugin.name)
    except MissingDependency:
        return facts
    facts["deterministic"] = example.deterministic
    if not issubclass(suite, ActuatorContract):
        # In the other suites, `steps` is the number of steps in a test run.
        facts["steps"] = example.steps
    return facts


def example_of(role: Role, name: str) -> Example:
    """Returns the example from which a plugin is created for its tests."""
    made = load(role, name)
    return made.example() if isinstance(made, WithExample) else Example()


def example_world(name: str) -> World:
    """Creates a world from its example."""
    example = example_of("world", name)
    made: World = example.make() if example.make else make_world(name, example.settings)
    return made


def example_pilot(name: str) -> Pilot:
    """Creates a pilot from its example."""
    example = example_of("pilot", name)
    if example.replies:
        settings = {
            **example.settings,
            "model": MODEL,
            "base_url": _scripted(example.replies),
        }
        with patch.dict(os.environ, OPENAI_API_KEY=KEY):
            return make_pilot(name, settings)
    made: Pilot = example.make() if example.make else make_pilot(name, example.settings)
    return made


@cache
def _scripted(replies: tuple[str, ...]) -> str:
    """Starts a model server with these replies, and returns its URL.

    The server runs until this process ends.
    """
    return _SERVED.enter_context(serving(in_turn(replies))).url


class _Registered:
    """A test suite for a plugin, which is skipped if a package is missing."""

    role: Role
    name: str

    def setup_method(self) -> None:
        try:
            load(self.role, self.name)
            load("world", self.world)
            if self.example.replies:
                example_pilot(self.name)
        except MissingDependency as missing:
            raise unittest.SkipTest(str(missing)) from missing

    @property
    def example(self) -> Example:
        return example_of(self.role, self.name)

    @property
    def world(self) -> str:
        """The name of the world in which the plugin is tested."""
        return self.example.world or self.name

    def make_world(self) -> World:
        return example_world(self.world)


class _InItsWorld(_Registered):
    """A test suite that runs in a registered world, driven by its example pilot."""

    def make_pilot(self) -> Pilot:
        pilot = self.example.pilot or example_of("world", self.world).pilot
        return example_pilot(pilot or self.world)

    def substitute(self) -> Action | None:
        return example_of("world", self.world).substitute


class _World(_InItsWorld, WorldContract):
    def actions(self) -> Iterator[Action | None]:
        luck, specs = random.Random(12), [*self.make_world().actions]
        while True:
            yield luck.choice(specs).some(luck)
            yield None


class _Actuator(_InItsWorld, ActuatorContract):
    steps = 3


class _Loop(_InItsWorld, LoopContract):
    pass


def _world_suites(name: str) -> list[type]:
    try:
        fixed = example_world_is_fixed(name)
    except MissingDependency:
        fixed = False
    # In a world that replays recordings, actions have no effect.
    return [_World] if fixed else [_World, _Actuator, _Loop]


@cache
def example_world_is_fixed(name: str) -> bool:
    """Whether a world replays recordings."""
    world = example_world(name)
    world.close()
    return world.source.fixed


class _PilotSuite(_Registered, PilotContract):
    def make_pilot(self) -> Pilot:
        return example_pilot(self.name)


class _AgentActuatorSuite(_InItsWorld, ActuatorContract):
    steps = 3

    def make_actuator(self, world: World) -> Actuator:
        return make_actuator(self.name, world.actuator(), self.example.settings)


class _BaselineSuite(_Registered, BaselineContract):
    @property
    def world(self) -> str:
        return self.example.world or _TRAINED_ON

    def make_pilot(self) -> Pilot:
        return example_pilot(self.world)

    def make_baseline(self) -> Baseline:
        factory = load("baseline", self.name)
        problem = InvalidInput("there is no law")
        source = self.make_world().source
        for text in LAWS:
            try:
                if isinstance(factory, LearningBaseline):
                    learned = _learned(self.name, text, self.world)
                    return factory(_law(text), source, learned)
                made: Baseline = factory(_law(text), source)
                return made
            except InvalidInput as error:
                problem = error
        raise problem


def _law(text: str) -> Law:
    (found,) = find_laws(text, vocabulary=load_vocabulary("driving"))
    return found


@cache
def _learned(baseline: str, text: str, world: str) -> Any:
    factory: Any = load("baseline", baseline)
    law, source = _law(text), example_world(world).source
    abstraction = law_abstraction([law.formula], load_vocabulary(source.vocabulary))
    with tempfile.TemporaryDirectory() as folder:
        runs = tuple(map(Stored, _runs(Path(folder), world)))
        return factory.learn(law, Lessons(runs, source.period_s, abstraction, 3.0))


def _runs(folder: Path, name: str) -> Iterator[Path]:
    """Records traces of unguarded runs in a world."""
    world, pilot = make_world(name), example_pilot(name)
    source = world.source
    for seed in range(_LESSONS):
        path = folder / f"{seed}.jsonl"
        header = TraceHeader(
            source.vocabulary, source.provides, source.period_s, seed=seed
        )
        with trace_writer(path, header) as writer:
            frame = world.reset(seed)
            pilot.reset(seed)
            writer.write(frame)
            while world.ended() is None:
                frame = world.step(pilot.propose(frame))
                writer.write(frame)
        yield path
    world.close()


MODEL = "openai:scripted"
KEY = token_urlsafe()
"""The API key that the model server requires, in the variable OPENAI_API_KEY."""

Says = Callable[[list[str]], str | None]
"""Returns the reply to the texts of a conversation; None means a late reply.
"""

_LONGEST = 1_000_000  # maximum size of a request in bytes
_LATE_S = 20.0


def in_turn(replies: Sequence[str]) -> Says:
    """Replies in order, according to the length of the conversation."""
    return lambda texts: replies[len(texts) // 2 % len(replies)]


class Model:
    """A scripted language model, and the requests that it has received.

    Args:
        says: Chooses the reply to a conversation.
    """

    def __init__(self, says: Says) -> None:
        self.says = says
        self.url = ""
        self.asked: list[list[str]] = []
        self.over = threading.Event()

    def reply(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        texts = [message["content"] for message in asked["messages"]]
        self.asked.append(texts)
        said = self.says(texts)
        if said is None:
            self.over.wait(_LATE_S)
            return None
        message = {"role": "assistant", "content": said}
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }  # fmt: skip


@contextmanager
def serving(says: Says, key: str = KEY) -> Iterator[Model]:
    """Runs a server for a scripted language model until the end of the block."""
    model = Model(says)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            if self.headers["Authorization"] != f"Bearer {key}" or length > _LONGEST:
                self.send_error(403)
                return
            answer = model.reply(json.loads(self.rfile.read(length)))
            if answer is None:
                return
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield model
        model.over.set()
        server.shutdown()
        thread.join()
