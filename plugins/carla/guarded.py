"""A guard on one vehicle of a CARLA world, with any driver.

    guarded = GuardedVehicle(world, ego, guard)
    while True:
        world.tick()
        ego.apply_control(guarded.filter(agent.run_step()))

`filter` senses, reviews and intervenes. It never ticks the world, and raises only if
misused; an internal failure stops the vehicle.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.guarding.decision import Action, Decision, Outcome, Turn
from forewarn.plugins.actions import Actions, ActionSpec, number, switch
from forewarn.plugins.carla.act import CarlaActuator, action_of, control_of
from forewarn.plugins.carla.sense import Bumps, CarlaScene, CarlaSenses, MapData
from forewarn.plugins.driving.act import Around
from forewarn.plugins.driving.scene import SceneShown
from forewarn.plugins.driving.sense import PROVIDES as ALL
from forewarn.plugins.driving.sense import Surroundings
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import Closing, GuardedLoop

_TOLD = frozenset(Surroundings.model_fields) - {"rain", "fog"}
PROVIDES = tuple(name for name in ALL if name not in _TOLD)
"""The signals that can be measured in a CARLA world."""

SOURCE = Source("carla", "driving", PROVIDES, embedded=False)
ACTIONS = Actions(
    ActionSpec(
        "control",
        {
            "throttle": number(0.0, 1.0),
            "steer": number(-1.0, 1.0),
            "brake": number(0.0, 1.0),
            "hand_brake": switch(),
            "reverse": switch(),
        },
    )
)
"""A driver's action, with the fields of a `carla.VehicleControl` as arguments."""

OWN_STEP_S = 0.05
_BLIND_STEP_S = 0.001  # small, so that time never passes that of the next snapshot


class Watching:
    """Turns the snapshots of one vehicle's world into frames.

    Use with `with`: leaving the block removes the collision sensor.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        route: The vehicle's route: `carla.Waypoint`s, or pairs that begin with one, as
            route planners return them. Without a route, the vehicle is expected to
            follow its turn signal, or else go straight on.
        sensor: Whether to attach a collision sensor. Without one, only collisions with
            vehicles and pedestrians are detected, from overlapping bodies.
    """

    def __init__(
        self, world: Any, ego: Any, route: Sequence[Any] = (), sensor: bool = True
    ) -> None:
        self.world, self.ego = world, ego
        self._data = MapData(world.get_map())
        self._route = tuple(_edges(self._data, route))
        self._bumps = Bumps(world, ego) if sensor else None
        self.shown = SceneShown(self._data.roads, lambda: self._scene)
        self._start()

    def _start(self) -> None:
        self._senses: CarlaSenses | None = None
        self._began_s = 0.0
        self._last: Frame | None = None
        self._last_number = -1

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the sensor; safe to call twice."""
        if self._bumps is not None:
            self._bumps.close()

    def frame(self, snapshot: Any = None, age_s: float = 0.0) -> Frame:
        """The frame of a snapshot; a repeated snapshot returns the same frame.

        Args:
            snapshot: A `carla.WorldSnapshot`; by default the newest.
            age_s: The time since the snapshot arrived.
        """
        snapshot = self.world.get_snapshot() if snapshot is None else snapshot
        stamp = snapshot.timestamp
        if self._last is not None and stamp.frame == self._last_number:
            return self._last
        if self._senses is None:
            step_s = stamp.delta_seconds or OWN_STEP_S
            self._senses = CarlaSenses(
                self.world, self.ego, self._data, step_s, self._route
            )
            self._began_s = stamp.elapsed_seconds
        time_s = round(stamp.elapsed_seconds - self._began_s, 6)
        bump = None if self._bumps is None else self._bumps.take()
        sensed = self._senses.values(snapshot, time_s, bump)
        values = {k: v for k, v in sensed.items() if k not in _TOLD}
        values["snapshot_age"] = round(age_s, 6)
        sequence = 0 if self._last is None else self._last.sequence + 1
        self._last, self._last_number = Frame(time_s, sequence, values), stamp.frame
        return self._last

    @property
    def _scene(self) -> CarlaScene | None:
        return None if self._senses is None else self._senses.scene

    def around(self) -> Around:
        """The surroundings that a stop needs in addition to the frame."""
        if self._senses is None or self._last is None:
            return Around(0.0)
        speed = (self._last.values.get("speed") or 0.0) / 3.6
        return Around(speed, self._senses.scene.behind(), self._senses.conflicts)


class WorldClock:
    """A world's own time, which advances with real time between snapshots.

    A frame's age counts from its arrival, so a simulation may run slowly, and pause
    between ticks.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._time_s = self._came_s = 0.0

    def __call__(self) -> float:
        return self._time_s + self._clock() - self._came_s

    def see(self, time_s: float, age_s: float) -> None:
        """Records how long ago the frame of that time arrived."""
        self._time_s, self._came_s = time_s, self._clock() - age_s


class GuardedVehicle(Closing):
    """A guard on one vehicle. Use with `with`, or call `close`.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        guarding: Makes the guard from its model, policy, listeners and record.
        route: As for `Watching`.
        actuator: Makes the actuator from a function that returns the vehicle's
            surroundings. By default the actuator uses the pedals.
        clock: The loop's clock.
        sensor: As for `Watching`.
        name: The run's name, for people.
    """

    def __init__(
        self,
        world: Any,
        ego: Any,
        guarding: Guarding,
        *,
        route: Sequence[Any] = (),
        actuator: Callable[..., CarlaActuator] = CarlaActuator,
        clock: Callable[[], float] = time.monotonic,
        sensor: bool = True,
        name: str = "carla",
    ) -> None:
        self._time = WorldClock(clock)
        self.loop = guarding.open(
            SOURCE, actions=ACTIONS, clock=clock, frame_clock=self._time, name=name
        )
        self.guard = self.loop.guard
        self.watching = Watching(world, ego, route, sensor)
        self.actuator = actuator(look=self.watching.around)
        self.begin()

    def loops(self) -> list[GuardedLoop]:
        return [self.loop]

    def begin(
        self, halt: Callable[[], None] | None = None, repeat_s: float | None = None
    ) -> None:
        """Begins an episode.

        Args:
            halt: Stops the vehicle; a watchdog calls it while no judgement is made.
            repeat_s: The interval at which the watchdog repeats the stop.
        """
        self._reviewed: Frame | None = None
        self._seen: Frame | None = None
        self._turn: Turn | None = None
        if not self.loop.fresh:
            self.loop.prepare(scenario={"name": "carla"})
        self.loop.begin(
            self.actuator,
            halt=halt,
            seen=False,
            repeat_s=repeat_s,
            scenic=self.watching.shown,
        )

    def close(self, ended: str = "the guard was taken away") -> None:
        """Removes the sensor; the vehicle keeps its last command."""
        self.watching.close()
        self.loop.close(ended)

    @property
    def last(self) -> Frame | None:
        """The last reviewed frame."""
        return self._reviewed

    @property
    def decision(self) -> Decision | None:
        """The guard's last decision."""
        return None if self._turn is None else self._turn.decision

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the last decision."""
        return None if self._turn is None else self._turn.outcome

    def filter(self, control: Any, frame: Frame | None = None) -> Any:
        """Returns the control to apply in place of the driver's.

        Args:
            control: The `carla.VehicleControl` that the driver proposes.
            frame: The frame to review; by default that of the newest snapshot.
        """
        proposal = action_of(control)
        executed = self.review(proposal, frame)
        if executed is proposal or (executed is None and self.guard.policy.shadow):
            return control
        return control_of(executed or self.actuator.fallback(self._reviewed))

    def review(
        self, proposal: Action | None, frame: Frame | None = None
    ) -> Action | None:
        """Like `filter`, for actions; None if the driver keeps control."""
        frame = self._frame() if frame is None else frame
        if frame is self._reviewed and self._turn is not None:
            # There is no new snapshot, so the last decision holds.
            decision = self._turn.decision
        else:
            if frame.values:
                age_s = frame.values.get("snapshot_age", 0.0)
                self._time.see(frame.time_s, float(age_s or 0.0))
            decision = self.loop.review(frame, proposal)
        self._turn = self.loop.carry_out(decision, proposal, frame)
        self._reviewed = frame
        return self._turn.executed

    def _frame(self) -> Frame:
        """The newest frame, or one without signals if the world cannot be sensed.

        A repeated snapshot that is too old to act on counts as not sensed.
        """
        try:
            frame = self.watching.frame()
        except RuntimeError:
            return self._blind()
        if frame is self._seen and not (
            self._reviewed is frame and self.loop.lease.held
        ):
            return self._blind()
        self._seen = frame
        return frame

    def _blind(self) -> Frame:
        last = self._reviewed
        if last is None:
            return Frame(math.nan, 0, {})
        return Frame(last.time_s + _BLIND_STEP_S, last.sequence + 1, {})


def _edges(data: MapData, route: Sequence[Any]) -> Iterator[str]:
    """The edges along the waypoints, in order and without repeats."""
    last = ""
    for step in route:
        waypoint = step[0] if isinstance(step, tuple | list) else step
        if waypoint.is_junction:
            continue
        at = waypoint.transform
        heading = -at.rotation.yaw
        edge = data.edge_at(at.location.x, -at.location.y, heading)
        if edge is not None and edge != last and not edge.startswith(":"):
            yield edge
            last = edge
