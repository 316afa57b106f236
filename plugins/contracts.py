"""The interfaces of worlds, pilots, actuators and baselines.

No base class is required: any class with these methods can be used. `SteppedWorld` is
an optional base class. The test suites in `forewarn.plugins.testing` check the
interfaces.
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
    """An environment in which episodes run: a simulator, a robot or a recording.

    A world declares the actions that it accepts, and provides an actuator that converts
    a guard's decisions to these actions.
    """

    source: Source

    @property
    def actions(self) -> Actions:
        """The actions that the world accepts; `step` rejects all others."""

    def actuator(self) -> Actuator:
        """Returns the actuator for the current episode."""

    def reset(self, seed: int) -> Frame:
        """Starts an episode; the same seed results in the same episode."""

    def step(self, action: Action | None) -> Frame:
        """Carries out an action, or none, for one period; returns the next frame."""

    def ended(self) -> str | None:
        """Returns why the episode ended, as a clause; None while it is running."""

    def close(self) -> None:
        """Releases all resources; may be called twice."""


class SteppedWorld(ABC):
    """A base class for worlds that advance in steps of equal duration.

    A subclass implements `begin`, `move` and `values`. In `move` and `values`, it can
    set `over` to the reason why the episode ended. Steps outside an episode raise an
    error.
    """

    source: Source
    actions: Actions
    longest_steps: int | None = None
    """The maximum number of steps, if the world sets one."""
    over: str | None = "the episode has not begun"
    steps: int = 0
    """The number of steps so far in the current episode."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Starts an episode; the same seed results in the same episode."""

    @abstractmethod
    def move(self, action: Action | None) -> None:
        """Carries out a valid action, or none, for one period."""

    @abstractmethod
    def values(self) -> Mapping[str, Value]:
        """Returns the current signals."""

    @property
    def time_s(self) -> float:
        """The time in seconds since the episode began."""
        # A product accumulates no rounding errors, unlike a sum.
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
    """A world that reports facts about an episode that are not in its frames."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts about the episode so far, by name.

        For example, `others_collided` is the number of pairs of other road users that
        have collided.
        """


@runtime_checkable
class Foresight(Protocol):
    """A world that can predict the effect of an action.

    A policy whose `when` is `before` or `both` requires such a world.
    """

    def foresee(self, action: Action) -> Frame:
        """Predicts the next frame for an action without carrying out the action.

        The prediction must not depend on random outcomes that are not known yet.
        """


@runtime_checkable
class Unattended(Protocol):
    """A world that runs in real time, and that a watchdog can halt."""

    def halt(self) -> None:
        """Puts the world in a safe state until the next step.

        A watchdog calls this method repeatedly from its own thread.
        """


@runtime_checkable
class Pilot(Protocol):
    """A controller that proposes actions: a driver model, a planner or an LLM agent."""

    def reset(self, seed: int) -> None:
        """Starts an episode; all random choices depend only on the seed."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Proposes the next action.

        The argument `reflection` is the guard's message if the guard asks the pilot to
        reconsider.
        """


@runtime_checkable
class Metered(Protocol):
    """A pilot that reports costs, such as model calls and tokens."""

    @property
    def usage(self) -> Mapping[str, float]:
        """The costs of the current or the last episode, by name."""


@runtime_checkable
class Told(Protocol):
    """A pilot that is told why the guard withheld its action."""

    def withheld(self, reason: str) -> None:
        """Receives the guard's reason, before the next frame."""


@runtime_checkable
class WithActuator(Protocol):
    """A pilot that needs an actuator other than that of the world.

    For example, an agent needs an actuator for `reflect` decisions, but the actuator of
    the world can only slow down or stop a car.
    """

    @property
    def actuator(self) -> str:
        """The registered name of the actuator, which wraps that of the world."""


@runtime_checkable
class Actuator(Protocol):
    """Converts decisions to actions of the world.

    A decision that the actuator cannot carry out escalates to the next more severe
    decision in `can`. Every actuator can `stop`. An actuator receives the frame of the
    decision, and may use other facts about its world.
    """

    @property
    def can(self) -> frozenset[Kind]:
        """The kinds of decision that the actuator can carry out."""

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        """Returns the action to carry out under a decision."""

    def fallback(self, frame: Frame | None = None) -> Action | None:
        """Returns the safe action to carry out without a valid decision; usually a
        stop.

        Args:
            frame: The newest frame, if any.
        """

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        """Returns whether a frame shows that a decision was obeyed.

        The result is None if it is too early to tell.
        """


class Replacing:
    """A base class for actuators that replace an action which must not pass.

    The decision's substitute or, without one, the fallback replaces the action. By
    default, the fallback does nothing.
    """

    can: frozenset[Kind] = frozenset({"stop"})

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        if decision.kind == "substitute":
            return decision.action
        return self.fallback(frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return None

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return None


class Wrapping:
    """A base class for actuators that wrap another actuator.

    Args:
        own: The wrapped actuator.
    """

    def __init__(self, own: Actuator) -> None:
        self._own = own

    @property
    def can(self) -> frozenset[Kind]:
        return self._own.can

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        return self._own.carry_out(decision, proposal, frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return self._own.fallback(frame)

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self._own.obeyed(decision, frame)


@runtime_checkable
class TaskBook(Protocol):
    """A collection of named tasks for scenarios that differ only in the task."""

    def names(self) -> Sequence[str]:
        """Returns the names of the tasks that a campaign over all tasks runs."""

    def entry(self, name: str) -> Mapping[str, Any]:
        """Returns the values of a scenario's variables, such as `$law` and `$goal`, for
        a task.

        Raises:
            InvalidInput: There is no task of this name.
        """


Settings = Mapping[str, Any]
"""The settings of a world, pilot or actuator in a scenario file, by name."""


@dataclass(frozen=True, slots=True)
class Example:
    """Describes how to create a plugin to test its interface without external programs.

    Without an example, a plugin is created with its default settings, and a pilot is
    tested in the world of the same name.

    Args:
        settings: The settings of the plugin.
        world: The name of the world in which a pilot or an actuator is tested.
        pilot: The name of the pilot that acts in a world.
        substitute: A harmless action of the world, with which to test `substitute`.
        steps: The number of steps of an episode.
        make: Creates the plugin if it needs more than settings, for example a stand-in
            server.
        deterministic: Whether a pilot's proposals depend only on the seed and the
            frames.
        replies: The replies of a large language model, in order. A test server returns
            them, and the settings `model` and `base_url` refer to this server.
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
    """A plugin class that provides an example for the tests of its interface."""

    def example(self) -> Example:
        """Returns the example; this is a static method."""


Point = tuple[float, float]

ShapeKind = Literal["lane", "junction", "sidewalk", "crosswalk", "line", "floor"]
ThingKind = Literal["ego", "vehicle", "pedestrian", "light", "furniture", "object"]

HIT = "hit"
"""The state of a road user or object that the ego has hit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A static part of the scenery in a live view.

    Args:
        kind: The kind of scenery, such as a lane or a crosswalk.
        points: The points of the centre line or of the outline.
        width_m: The width of the line in m; 0 if the points are an outline.
    """

    kind: ShapeKind
    points: tuple[Point, ...]
    width_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in a live view at one time.

    Args:
        name: The name, which is unique within the episode.
        kind: The kind of object. The view follows the `ego`, of which there is at most
            one.
        x: The x coordinate of the centre in m.
        y: The y coordinate of the centre in m.
        heading_deg: The heading in degrees.
        length_m: The extent along the heading in m.
        width_m: The extent across the heading in m.
        state: The visible state: the colour of a traffic light, "open", "on" or "hit".
        top_m: The height of the top in m; higher objects are drawn over lower ones.
        label: The name to display, if any.
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
    """A world whose scene can be drawn in live views."""

    def ground(self) -> Sequence[Shape]:
        """Returns the static scenery of the episode."""

    def things(self) -> Sequence[Thing]:
        """Returns all objects at this time."""


@runtime_checkable
class Rendered(Protocol):
    """A world that can render images, as Gymnasium's environments do."""

    @property
    def renders(self) -> bool:
        """Whether the world renders images."""

    def picture(self) -> Any:
        """Returns the current image as an array of rows of RGB bytes."""


class Baseline(Protocol):
    """A method of predicting violations of a law, with which the guard is compared.

    The registered factory creates a baseline for a law and a source. It raises
    `InvalidInput` if the baseline does not apply to the law. A baseline receives the
    same frames as a guard, in the same order.
    """

    @property
    def thresholds(self) -> Sequence[float]:
        """The alarm thresholds of the score; several thresholds show the trade-off."""

    def reset(self) -> None:
        """Starts an episode."""

    def score(self, frame: Frame) -> float:
        """Returns a score of how dangerous the episode is so far; higher is worse."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """The data from which a baseline is trained: the training runs of the guard's
    model.

    Args:
        traces: The files that contain the traces of the runs.
        period_s: The time between the frames of a trace in seconds.
        abstraction: The predicates of the guard's model.
        horizon_s: The prediction horizon of the risk in seconds.
    """

    traces: tuple[Stored, ...]
    period_s: float
    abstraction: Abstraction
    horizon_s: float


@runtime_checkable
class LearningBaseline(Protocol):
    """The registered factory of a trained baseline; usually the class of the baseline.

    `learn` is called once per law, before any measurement. The factory then receives
    the result of `learn`.
    """

    def learn(self, law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """Trains the baseline, and returns the result as JSON values.

        If training is impossible, it raises `InvalidInput`.
        """

    def __call__(
        self, law: Law, source: Source, learned: Mapping[str, Any]
    ) -> Baseline:
        """Creates the baseline from the result of `learn`."""
