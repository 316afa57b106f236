"""The contracts of worlds, pilots and actuators with the loop that runs them.

No base class is required: any class with these methods qualifies. `SteppedWorld` is an
optional helper. The suites in `forewarn.plugins.testing` check the contracts.
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
    """Episodes in a simulator or on a robot.

    A world declares which actions it takes, and provides the actuator that turns a
    guard's decisions into them.
    """

    source: Source

    @property
    def actions(self) -> Actions:
        """The actions that the world takes; `step` rejects all others."""

    def actuator(self) -> Actuator:
        """The actuator for the latest episode."""

    def reset(self, seed: int) -> Frame:
        """Begins an episode; the same seed gives the same episode."""

    def step(self, action: Action | None) -> Frame:
        """Carries out an action (or none) for one period and returns the next frame."""

    def ended(self) -> str | None:
        """Why the episode is over, as a clause; None while it is running."""

    def close(self) -> None:
        """Releases all resources; safe to call twice."""


class SteppedWorld(ABC):
    """A helper for worlds with numbered steps; it rejects steps outside an episode.

    A subclass defines how an episode begins, what an action does, and the signals that
    follow. In the last two it may set `over` to the reason why the episode ended.
    """

    source: Source
    actions: Actions
    longest_steps: int | None = None
    """The maximum number of steps, if the world sets one."""
    over: str | None = "the episode has not begun"
    steps: int = 0
    """The number of steps so far in this episode."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Begins an episode; the same seed gives the same episode."""

    @abstractmethod
    def move(self, action: Action | None) -> None:
        """Carries out a valid action (or none) for one period."""

    @abstractmethod
    def values(self) -> Mapping[str, Value]:
        """The present signals."""

    @property
    def time_s(self) -> float:
        """The time since the episode began."""
        # Multiplying drifts less than adding up, and prints without rounding errors.
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
        """Facts of the episode so far, by name, such as `others_collided`: the number
        of pairs of other road users that have collided.
        """


@runtime_checkable
class Foresight(Protocol):
    """A world that can predict the effect of an action.

    Required by a policy whose `when` is `before` or `both`.
    """

    def foresee(self, action: Action) -> Frame:
        """The frame that would follow; nothing is carried out, and no random outcome is
        revealed.
        """


@runtime_checkable
class Unattended(Protocol):
    """A world whose clock advances in real time."""

    def halt(self) -> None:
        """Puts the world in a safe state while no guard judges it; the next step undoes
        this.

        A watchdog calls this repeatedly from its own thread.
        """


@runtime_checkable
class Pilot(Protocol):
    """What drives a world: a driver model, a planner, an LLM agent."""

    def reset(self, seed: int) -> None:
        """Begins an episode; all random choices follow from the seed."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """The action that the pilot would take next; `reflection` is the guard's
        message.
        """


@runtime_checkable
class Metered(Protocol):
    """A pilot that reports the cost of an episode: model calls, tokens."""

    @property
    def usage(self) -> Mapping[str, float]:
        """The costs of the current or last episode, by name."""


@runtime_checkable
class WithActuator(Protocol):
    """A pilot that needs an actuator other than its world's.

    For example, an agent needs an actuator that asks it to `reflect`, where the world's
    own can only slow down or stop a car.
    """

    @property
    def actuator(self) -> str:
        """The registered name of the actuator, which wraps the world's own."""


@runtime_checkable
class Actuator(Protocol):
    """Turns decisions into actions of the world.

    `can` lists the decisions that the actuator can carry out; any other escalates to
    the next more severe one in the list. Every actuator can `stop`. An actuator sees
    the frame of a decision, and may use other facts of its world.
    """

    @property
    def can(self) -> frozenset[Kind]:
        """The kinds of decision that the actuator can carry out."""

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        """The action to send to the world under this decision."""

    def fallback(self, frame: Frame | None = None) -> Action | None:
        """The safe action when there is no valid decision; usually a stop.

        Args:
            frame: The newest frame; None if there is none.
        """

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        """Whether the frame shows that the decision was obeyed; None if it is too
        early.
        """


@runtime_checkable
class TaskBook(Protocol):
    """Tasks by name, for a family of scenarios that differ only in the task."""

    def names(self) -> Sequence[str]:
        """The tasks that a campaign over all tasks runs."""

    def entry(self, name: str) -> Mapping[str, Any]:
        """The values of `$law`, `$goal` and similar variables of a scenario file for a
        task.

        Raises:
            InvalidInput: There is no such task.
        """


Settings = Mapping[str, Any]
"""The settings of a world, pilot or actuator in a scenario file, by name."""


@dataclass(frozen=True, slots=True)
class Example:
    """How to make a plug for testing its contract without external programs.

    A plug without an example is made with its default settings, in the world of the
    same name.

    Args:
        settings: The plug's settings.
        world: The name of the world in which a pilot or an actuator is tested.
        pilot: The name of the pilot that acts in a world.
        substitute: A harmless action of the world.
        steps: The number of steps of an episode.
        make: Makes the plug if settings are not enough, for example on a stand-in
            server.
        deterministic: Whether a pilot's proposals follow from the seed.
        replies: The replies of a large language model, in order. If there are any, a
            test server returns them; the settings `model` and `base_url` point to that
            server.
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
    """A plug class that provides an example for testing its contract."""

    def example(self) -> Example:
        """Returns the example; a static method."""


Point = tuple[float, float]

ShapeKind = Literal["lane", "junction", "sidewalk", "crosswalk", "line", "floor"]
ThingKind = Literal["ego", "vehicle", "pedestrian", "light", "furniture", "object"]

HIT = "hit"
"""The state of a road user or object that the ego hit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A static part of the scenery.

    Args:
        kind: The kind of scenery: a lane or a crosswalk, for example.
        points: The centre line or the outline.
        width_m: The width of the line; 0 if the points are an outline.
    """

    kind: ShapeKind
    points: tuple[Point, ...]
    width_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in the scene at one moment.

    Args:
        name: The name, unique within the episode.
        kind: The kind of object. At most one is an `ego`; the picture follows it.
        x: The x coordinate of the centre.
        y: The y coordinate of the centre.
        heading_deg: The heading in degrees.
        length_m: The extent along the heading.
        width_m: The extent across the heading.
        state: The visible state: a light's colour, "open", "on", "hit".
        top_m: The height; higher objects are drawn over lower ones.
        label: The name to display; empty if none is needed.
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
        """The static scenery of this episode."""

    def things(self) -> Sequence[Thing]:
        """All objects at this moment."""


@runtime_checkable
class Rendered(Protocol):
    """A world that can render pictures of itself, as Gymnasium's environments do."""

    @property
    def renders(self) -> bool:
        """Whether the world renders pictures."""

    def picture(self) -> Any:
        """The current picture: rows of red, green and blue bytes."""


class Baseline(Protocol):
    """Another method of predicting violations of a law, to compare the guard with.

    The registered factory makes a baseline for a law and a source, and raises
    `InvalidInput` if the baseline cannot judge that law. A baseline sees the same
    frames as a guard, in the same order.
    """

    @property
    def thresholds(self) -> Sequence[float]:
        """The alarm thresholds of the score; several of them show the trade-off."""

    def reset(self) -> None:
        """Begins an episode."""

    def score(self, frame: Frame) -> float:
        """How dangerous the episode is up to this frame; higher is worse."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """What a baseline may learn from: the training runs of the guard's model.

    Args:
        traces: The files with the traces of the runs.
        period_s: The time between two frames of a trace.
        abstraction: The predicates of the guard's model.
        horizon_s: The horizon of the guard's risk.
    """

    traces: tuple[Stored, ...]
    period_s: float
    abstraction: Abstraction
    horizon_s: float


@runtime_checkable
class LearningBaseline(Protocol):
    """The registered factory of a trained baseline; usually its class.

    `learn` is called once per law, before any measurement. The baseline is then made
    from the law, the source and the result of `learn`.
    """

    def learn(self, law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """What was learned, as JSON values; raises `InvalidInput` if learning is
        impossible.
        """

    def __call__(
        self, law: Law, source: Source, learned: Mapping[str, Any]
    ) -> Baseline:
        """Makes the baseline from what was learned."""
