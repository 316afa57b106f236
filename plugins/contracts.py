"""The contracts of worlds, pilots and actuators with the loop that runs them.

No base class is needed: anything with these methods is one; `SteppedWorld` only helps.
The suites in `forewarn.plugins.testing` check the promises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.frame import Source as Source
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.actions import Actions


@runtime_checkable
class World(Protocol):
    """One episode somewhere, in a simulator or on a robot.

    It equips its own loop: it says which actions it takes, and gives the actuator that
    turns a guard's decisions into them.
    """

    source: Source

    @property
    def actions(self) -> Actions:
        """The actions that it takes; `step` refuses every other."""

    def actuator(self) -> Actuator:
        """The actuator for the latest episode."""

    def reset(self, seed: int) -> Frame:
        """Begins an episode; the same seed gives the same episode."""

    def step(self, action: Action | None) -> Frame:
        """Carries out an action (None: none) for one period and shows what came."""

    def ended(self) -> str | None:
        """Why the episode is over, as a sentence; None while it goes on."""

    def close(self) -> None:
        """Gives back everything it holds; safe to call twice."""


class SteppedWorld(ABC):
    """Episodes of numbered steps, none before the beginning and none after the end.

    A world of this kind says how an episode begins, what an action does, and what is
    then seen; in the last two it sets `over`, the sentence that says why it ended.
    """

    source: Source
    actions: Actions
    longest_steps: int | None = None
    """When time is up, if that is for the world to say."""
    over: str | None = "the episode has not begun"
    steps: int = 0
    """How many were done in this episode."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Begins an episode; the same seed gives the same episode."""

    @abstractmethod
    def move(self, action: Action | None) -> None:
        """Carries out an action that the world takes (None: none) for one period."""

    @abstractmethod
    def values(self) -> Mapping[str, Value]:
        """The signals as they now are."""

    @property
    def time_s(self) -> float:
        """The time since the episode began."""
        # A count times a period drifts less than a sum, and reads as it is written.
        return round(self.steps * self.source.period_s, 9)

    def reset(self, seed: int) -> Frame:
        self.steps = 0
        self.begin(seed)
        self.over = None
        return self._frame()

    def step(self, action: Action | None) -> Frame:
        if self.over is not None:
            raise InvalidInput(f"the world cannot step: {self.over}")
        self.actions.check(action)
        self.move(action)
        self.steps += 1
        return self._frame()

    def ended(self) -> str | None:
        return self.over

    def close(self) -> None:
        self.over = "the world is closed"

    def _frame(self) -> Frame:
        frame = Frame(self.time_s, self.steps, self.values())
        if self.over is None and self.steps == self.longest_steps:
            self.over = "time was up"
        return frame


@runtime_checkable
class WithFacts(Protocol):
    """A world that reports more about an episode than its frames show."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Of the episode so far, by name: `others_collided`, how many pairs of other
        road users collided."""


@runtime_checkable
class Foresight(Protocol):
    """A world that can also say what an action would lead to.

    A policy whose `when` is `before` or `both` needs it.
    """

    def foresee(self, action: Action) -> Frame:
        """The frame that would come next; nothing is carried out, and no random outcome
        is revealed."""


@runtime_checkable
class Unattended(Protocol):
    """A world whose clock advances by itself."""

    def halt(self) -> None:
        """Makes it safe while no guard judges it; the next step undoes this.

        A watchdog calls it from a thread of its own, again and again.
        """


@runtime_checkable
class Pilot(Protocol):
    """What drives a world: a driver model, a planner, an LLM agent."""

    def reset(self, seed: int) -> None:
        """Begins an episode; everything random in it follows from the seed."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """What it would do next; after `reflect`, with the guard's words."""


@runtime_checkable
class Metered(Protocol):
    """A pilot that reports an episode's cost: calls of a model, tokens."""

    @property
    def usage(self) -> Mapping[str, float]:
        """Of the episode that is under way or was the last, by name."""


@runtime_checkable
class WithActuator(Protocol):
    """A pilot that needs another actuator than its world's own.

    An agent names the one that asks it to `reflect`, where a car of that world could
    but slow down or stop.
    """

    @property
    def actuator(self) -> str:
        """The name by which the actuator is registered; made of the world's own."""


@runtime_checkable
class Actuator(Protocol):
    """Turns decisions into what the world carries out.

    `can` lists the decisions that it can carry out; any other escalates to the next
    more severe one that it can. Every actuator can `stop`. It sees the frame of a
    decision, and further facts that its world knows.
    """

    @property
    def can(self) -> frozenset[Kind]:
        """The decisions that it carries out."""

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        """The action to send to the world under this decision."""

    def fallback(self, frame: Frame | None = None) -> Action | None:
        """The safe action when no valid decision is there: stop, usually.

        Args:
            frame: The scene; None if there are no viewers left.
        """

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        """Whether the world shows that it was obeyed; None: too early to tell."""


@runtime_checkable
class TaskBook(Protocol):
    """Tasks by name, for a family of scenarios that differ in the task alone."""

    def names(self) -> Sequence[str]:
        """The tasks that a campaign over all of them runs."""

    def entry(self, name: str) -> Mapping[str, Any]:
        """What a scenario file means by `$law`, `$goal` and the like for a task.

        Raises:
            InvalidInput: There is no such task.
        """


Settings = Mapping[str, Any]
"""What a scenario file gives to a world, a pilot or an actuator, by name."""


@dataclass(frozen=True, slots=True)
class Example:
    """How a plug is made for testing its contract, with nothing running outside.

    A plug without one is made with its defaults, in the world of its own name.

    Args:
        settings: The plug's.
        world: The world that a pilot or an actuator is tried in, by name.
        pilot: Who acts in a world, by name.
        substitute: An action of the world that does no harm.
        steps: How long an episode is observed.
        make: Makes the plug where settings cannot: on a stand-in of its server.
        deterministic: Whether a pilot's proposals follow from the seed.
        replies: The replies of a large language model to it, in order. If it needs one,
            it is served meanwhile, at `model` and `base_url`.
    """

    settings: Settings = field(default_factory=dict)
    world: str = ""
    pilot: str = ""
    substitute: Action | None = None
    steps: int = 30
    make: Callable[[], Any] | None = None
    deterministic: bool = True
    replies: tuple[str, ...] = ()


@runtime_checkable
class WithExample(Protocol):
    """A plug's class that says how it is made for its contract."""

    def example(self) -> Example:
        """A static method."""


Point = tuple[float, float]

ShapeKind = Literal["lane", "junction", "sidewalk", "crosswalk", "line", "floor"]
ThingKind = Literal["ego", "vehicle", "pedestrian", "light", "furniture", "object"]

HIT = "hit"
"""The state of whoever the ego collided with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A static part of the scenery.

    Args:
        kind: What it is.
        points: Along it, or around it.
        width_m: How wide it is along its points; 0: they go around it.
    """

    kind: ShapeKind
    points: tuple[Point, ...]
    width_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in the scene at one moment.

    Args:
        name: Its own; no other thing of the episode has it.
        kind: What it is; there is at most one ego, which the picture follows.
        x: Of its middle.
        y: Of its middle.
        heading_deg: Where it looks.
        length_m: Along its heading.
        width_m: Across.
        state: Its visible state: a light's colour, "open", "on", "hit".
        top_m: Its height: higher things are drawn over lower ones.
        label: Its name for people; empty if it is obvious.
    """

    name: str
    kind: ThingKind
    x: float
    y: float
    heading_deg: float
    length_m: float
    width_m: float
    state: str = ""
    top_m: float = 0.0
    label: str = ""


@runtime_checkable
class Scenic(Protocol):
    """A world that can be drawn."""

    def ground(self) -> Sequence[Shape]:
        """What does not move in this episode."""

    def things(self) -> Sequence[Thing]:
        """Everything that stands or moves there at this moment."""


@runtime_checkable
class Rendered(Protocol):
    """A world that can render pictures of itself, as Gymnasium's environments do."""

    @property
    def renders(self) -> bool:
        """Whether it does."""

    def picture(self) -> Any:
        """What there is to see now: rows of red, green and blue bytes."""


class Baseline(Protocol):
    """Another method of predicting that a law is at risk, to compare the guard with.

    The registered factory makes one for a law and a source, and raises `InvalidInput`
    where it cannot judge that law. It sees the same frames as a guard, in the same
    order.
    """

    @property
    def thresholds(self) -> Sequence[float]:
        """The scores at which it would alarm; more than one for a trade-off."""

    def reset(self) -> None:
        """Begins an episode."""

    def score(self, frame: Frame) -> float:
        """How alarming the episode is up to this frame; more is worse."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """What a baseline may learn from: the runs that the guard's model was learned from.

    Args:
        traces: Where they are on file.
        period_s: The time between two of their frames.
        abstraction: The predicates of the guard's model.
        horizon_s: H of the guard's risk.
    """

    traces: tuple[Stored, ...]
    period_s: float
    abstraction: Abstraction
    horizon_s: float


@runtime_checkable
class LearningBaseline(Protocol):
    """The registered factory of a trained baseline; usually its class.

    It learns once per law, before anything is measured, and is then made from the law,
    the source and what it learned.
    """

    def learn(self, law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """What it learned, as JSON can hold it; `InvalidInput` if it cannot."""

    def __call__(
        self, law: Law, source: Source, learned: Mapping[str, Any]
    ) -> Baseline:
        """The baseline that knows it."""
