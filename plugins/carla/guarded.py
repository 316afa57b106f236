"""A guard on one vehicle of a CARLA world, with any driver.

    guarded = GuardedVehicle(world, ego, guard)
    while True:
        world.tick()
        ego.apply_control(guarded.filter(agent.run_step()))

`filter` senses, reviews and intervenes. It never ticks the world, and it never raises
for anything but a misuse: an internal failure stops the vehicle.
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
"""The signals that a CARLA world shows by itself."""

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
"""What a driver may tell a vehicle, in the words of a `carla.VehicleControl`."""

OWN_STEP_S = 0.05
_BLIND_STEP_S = 0.001  # time goes on, but never past that of the next snapshot


class Watching:
    """Turns the snapshots of one vehicle's world into frames.

    Use it with `with`: leaving takes its collision sensor away.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        route: Where it will go: `carla.Waypoint`s, or pairs that begin with one, as
            route planners give them; without them straight on, or as it signals.
        sensor: Whether to attach a collision sensor. Without one only vehicles and
            people are noticed, by where their bodies are.
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
        """Takes the sensor away; safe to call twice."""
        if self._bumps is not None:
            self._bumps.close()

    def frame(self, snapshot: Any = None, age_s: float = 0.0) -> Frame:
        """What the vehicle perceives; the same frame again for the same snapshot.

        Args:
            snapshot: A `carla.WorldSnapshot`; by default the newest.
            age_s: How long ago it came.
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
        """What a stop needs to know about that moment beside the frame."""
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
        """Notes how long ago the frame of that time came."""
        self._time_s, self._came_s = time_s, self._clock() - age_s


class GuardedVehicle(Closing):
    """A guard on one vehicle. Use it with `with`, or `close` it.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        guarding: What the guard is made of: model, policy, listeners, record.
        route: As for `Watching`.
        actuator: Makes what slows and stops, given what is around the vehicle; by
            default the pedals do.
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
        """Begins an episode: nothing was seen yet.

        Args:
            halt: Stops the vehicle for a watchdog, whenever nothing is judged.
            repeat_s: How often the watchdog repeats it.
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
        """The frame that was reviewed last."""
        return self._reviewed

    @property
    def decision(self) -> Decision | None:
        """What the guard last decided."""
        return None if self._turn is None else self._turn.decision

    @property
    def outcome(self) -> Outcome | None:
        """What became of it."""
        return None if self._turn is None else self._turn.outcome

    def filter(self, control: Any, frame: Frame | None = None) -> Any:
        """The control to apply in place of the one that a driver proposes.

        Args:
            control: A `carla.VehicleControl`.
            frame: What was perceived; by default the newest snapshot is sensed.
        """
        proposal = action_of(control)
        executed = self.review(proposal, frame)
        if executed is proposal or (executed is None and self.guard.policy.shadow):
            return control
        return control_of(executed or self.actuator.fallback(self._reviewed))

    def review(
        self, proposal: Action | None, frame: Frame | None = None
    ) -> Action | None:
        """As `filter`, in actions; None if the vehicle's driver continues alone."""
        frame = self._frame() if frame is None else frame
        if frame is self._reviewed and self._turn is not None:
            # Nothing new is to be seen: what was decided holds.
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
        """The newest frame; one that holds nothing where the world cannot be seen.

        Nor can it if its newest snapshot was seen before and is too old to act on.
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
    """The edges along which waypoints lead, each once in its turn."""
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
