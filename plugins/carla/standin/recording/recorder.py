"""Writes a world into a recorder log, tick by tick, as CARLA's recorder does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from forewarn.plugins.carla.standin.actors import (
    Actor,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    Walker,
)
from forewarn.plugins.carla.standin.recording import logs

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.world import World

_KINDS: tuple[tuple[type[Actor], int], ...] = (
    (Vehicle, logs.VEHICLE), (Walker, logs.WALKER), (TrafficLight, logs.TRAFFIC_LIGHT),
    (TrafficSign, logs.TRAFFIC_SIGN), (Sensor, logs.SENSOR),
)  # fmt: skip


class Recorder:
    """A recording that runs.

    Args:
        world: What is recorded.
        file: Open for writing, and empty; it is closed in the end.
        more: Whether velocities, bodies, clocks and lights' times are wanted too.
        full: Told once the log is as long as it may be; nothing is written any more.
    """

    def __init__(
        self, world: World, file: BinaryIO, more: bool, full: Callable[[], None]
    ) -> None:
        self._world, self._file = world, file
        self._more, self._full = more, full
        self._known: set[int] = set()
        self._frames, self._elapsed_s, self._collisions = 0, 0.0, 0
        self._began_s = time.monotonic()
        self._last = bytearray()
        self._bytes = 0
        self._write(logs.head(f"Carla/Maps/{world.roads.name}", int(time.time())))

    def take(self, dt: float) -> None:
        """Writes a frame: the world as it is after a tick."""
        if self._frames:
            self._elapsed_s += dt
            # How long a frame lasted is known when the next one comes.
            logs.lasts(self._last, dt)
            self._write(self._last)
        self._frames += 1
        frame = logs.frame_start(self._frames, self._elapsed_s)
        frame += logs.time_packet(logs.VISUAL_TIME, self._world.time_s)
        for part in self._events():
            frame += part
        for part in self._state():
            frame += part
        frame += logs.frame_end()
        self._last = frame
        if self._bytes + len(frame) > logs.LARGEST - (1 << 20):
            self._full()

    def flush(self) -> None:
        """Has what was written be read by others, in whole frames."""
        self._file.flush()

    def close(self) -> None:
        """Ends the log; safe to call twice."""
        if not self._file.closed:
            self._write(self._last)
            self._file.close()

    def _write(self, data: bytes | bytearray) -> None:
        self._bytes += len(data)
        self._file.write(data)

    def _events(self) -> Iterator[bytes]:
        actors = self._world.actors
        fresh = [actor for n, actor in actors.items() if n not in self._known]
        gone = sorted(self._known - actors.keys())
        yield logs.added_packet(_added(actor) for actor in fresh)
        yield logs.packet(logs.REMOVED, ((n,) for n in gone))
        yield logs.packet(
            logs.PARENTS, ((a.number, a.parent) for a in fresh if a.parent)
        )
        yield logs.packet(logs.COLLISIONS, self._contacts())
        if self._more:
            yield logs.packet(
                logs.BOXES,
                (
                    (a.number, *(100.0 * v for v in (*a.centre, *a.half)))
                    for a in fresh
                    if not isinstance(a, TrafficLight | TrafficSign)
                ),
            )
            yield logs.packet(
                logs.LIGHT_TIMES,
                (
                    (a.number, a.green_s, a.yellow_s, a.red_s)
                    for a in fresh
                    if isinstance(a, TrafficLight)
                ),
            )
        self._known = set(actors)

    def _contacts(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        actors = self._world.actors
        for guest in self._world.guests.values():
            for other in sorted(getattr(guest, "bumped", ())):
                if other in actors:
                    yield (
                        self._collisions, guest.number, other, _is_hero(guest),
                        _is_hero(actors[other]),
                    )  # fmt: skip
                    self._collisions += 1

    def _state(self) -> Iterator[bytes]:
        actors = list(self._world.actors.values())
        cars = [actor for actor in actors if isinstance(actor, Vehicle)]
        walkers = [actor for actor in actors if isinstance(actor, Walker)]
        fixed = TrafficLight | TrafficSign | Sensor
        yield logs.packet(
            logs.POSITIONS,
            ((a.number, *logs.place(a.at)) for a in actors if not isinstance(a, fixed)),
        )
        yield logs.packet(
            logs.LIGHTS,
            (
                (a.number, a.frozen, a.since_s, a.colour)
                for a in actors
                if isinstance(a, TrafficLight)
            ),
        )
        yield logs.packet(logs.PEDALS, (_pedals(car) for car in cars))
        yield logs.packet(logs.WALKS, ((w.number, w.pace) for w in walkers))
        yield logs.packet(logs.LAMPS, ((car.number, car.lamps) for car in cars))
        if self._more:
            yield logs.packet(
                logs.KINEMATICS,
                ((a.number, *a.velocity, *a.spin) for a in (*cars, *walkers)),
            )
            clock_s = time.monotonic() - self._began_s
            yield logs.time_packet(logs.PLATFORM_TIME, clock_s)


def _added(actor: Actor) -> logs.Added:
    kind = next((k for make, k in _KINDS if isinstance(actor, make)), logs.OTHER)
    attributes = tuple((t, str(n), str(v)) for n, t, v in actor.attributes)
    return logs.Added(
        actor.number, kind, actor.at, actor.blueprint, actor.kind, attributes
    )


def _pedals(car: Vehicle) -> tuple[Any, ...]:
    throttle, steer, brake, hand_brake, reverse, _, gear = car.control
    shown = gear or (-1 if reverse else 1)
    return car.number, steer, throttle, brake, hand_brake, shown


def _is_hero(actor: Actor) -> bool:
    return actor.attribute("role_name") == "hero"
