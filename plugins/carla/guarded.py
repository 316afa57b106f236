"""Guards one vehicle in a CARLA world with any driver.

    guarded = GuardedVehicle(world, ego, guard)
    while True:
        world.tick()
        ego.apply_control(guarded.filter(agent.run_step()))

`filter` reads the world, reviews the control and intervenes if necessary. It never
ticks the world. It raises an exception only if it is used incorrectly; an internal
failure stops the vehicle.
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
from forewarn.plugins.driving.act import CarSurroundings
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
"""The action of a driver; its arguments are the fields of a `carla.VehicleControl`."""

OWN_STEP_S = 0.05
_BLIND_STEP_S = 0.001  # small, so that the time stays before that of the next snapshot


class Watching:
    """Converts snapshots to frames for one vehicle.

    This is a context manager: on exit, the collision sensor is removed.

    Args:
        world: A `carla.World`.
        ego: The actor of the vehicle.
        route: The route as a sequence of `carla.Waypoint`s, or of pairs that start with
            a waypoint, as route planners return them. Without a route, the vehicle is
            expected to follow its turn signal or to go straight on.
        sensor: Whether to attach a collision sensor. Without a sensor, only collisions
            with vehicles and pedestrians are detected, by overlapping bodies.
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
        """Removes the sensor; may be called twice."""
        if self._bumps is not None:
            self._bumps.close()

    def frame(self, snapshot: Any = None, age_s: float = 0.0) -> Frame:
        """Returns the frame of a snapshot; the same snapshot always gives the same
        frame.

        Args:
            snapshot: A `carla.WorldSnapshot`; by default the newest one.
            age_s: The time in seconds since the snapshot arrived.
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
        sensed = self._senses.read(snapshot, time_s, bump)
        values = {k: v for k, v in sensed.items() if k not in _TOLD}
        values["snapshot_age"] = round(age_s, 6)
        sequence = 0 if self._last is None else self._last.sequence + 1
        self._last, self._last_number = Frame(time_s, sequence, values), stamp.frame
        return self._last

    @property
    def _scene(self) -> CarlaScene | None:
        return None if self._senses is None else self._senses.scene

    def around(self) -> CarSurroundings:
        """Returns the surroundings that are needed to stop the vehicle safely."""
        if self._senses is None or self._last is None:
            return CarSurroundings(0.0)
        speed = (self._last.values.get("speed") or 0.0) / 3.6
        return self._senses.around(speed)


class WorldClock:
    """A clock of simulated time, which advances with real time between snapshots.

    The age of a frame is measured from its arrival, so a simulation may run slowly or
    pause between ticks.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._time_s = self._came_s = 0.0

    def __call__(self) -> float:
        return self._time_s + self._clock() - self._came_s

    def see(self, time_s: float, age_s: float) -> None:
        """Sets the clock from the time of a frame and the time since it arrived."""
        self._time_s, self._came_s = time_s, self._clock() - age_s


class GuardedVehicle(Closing):
    """Guards one vehicle.

    Use it as a context manager, or call `close` at the end.

    Args:
        world: A `carla.World`.
        ego: The actor of the vehicle.
        guarding: The configuration of the guard: model, policy, listeners and record.
        route: The route, as in `Watching`.
        actuator: Creates the actuator, given a function that returns the surroundings
            of the vehicle. The default actuator uses the pedals.
        clock: The clock of the guarded loop.
        sensor: Whether to attach a collision sensor, as in `Watching`.
        name: The display name of the run.
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
            halt: Stops the vehicle. A watchdog calls this function repeatedly until a
                frame is reviewed.
            repeat_s: The interval in seconds at which the watchdog repeats the stop.
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

    def close(self, ended: str = "the guard was removed") -> None:
        """Removes the sensor, and ends the run; the vehicle keeps its last control."""
        self.watching.close()
        self.loop.close(ended)

    @property
    def last(self) -> Frame | None:
        """The last frame that was reviewed."""
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
        """Like `filter`, but for actions; None if the driver keeps control."""
        frame = self._frame() if frame is None else frame
        if frame is self._reviewed and self._turn is not None:
            # There is no new snapshot, so the last decision remains in force.
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
        """Returns the newest frame, or one without signals if the world cannot be read.

        An old snapshot that is received again also results in a frame without signals.
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
    """Yields the edges along the waypoints, without consecutive duplicates."""
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
