"""The simulated world: its actors, and the steps of a tick."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from forewarn.standins.carla import actors, blueprints, lights
from forewarn.standins.carla.actors import (
    Actor,
    Pose,
    Refusal,
    Sensor,
    TrafficLight,
    Vehicle,
    Walker,
    along,
    compose,
    turned,
)
from forewarn.standins.carla.guests import Guest
from forewarn.standins.carla.lights import StopLines, hang, put_up
from forewarn.standins.carla.motion import (
    hold_back,
    move,
    touching,
    walk,
)
from forewarn.standins.carla.roads import Roads
from forewarn.standins.carla.sensors import Sensors
from forewarn.standins.carla.traffic import Mover, Traffic
from forewarn.standins.carla.wire import Streams

MOST_ACTORS = 5000
CLEAR_NOON = (
    5.0, 0.0, 0.0, 10.0, -1.0, 45.0, 2.0, 0.75, 0.1, 0.0, 1.0, 0.03, 0.0331, 0.0,
)  # fmt: skip
HERO = "hero"
"""The `role_name` of the car that a scenario provides for a client."""

_CLIENTS_FIRST = 100
_NUMBERS = 1000
_WANTED = 1 << 30
_SINKS_M = 1.0  # spawn points lie a little above the road


class World:
    """One episode: its actors, traffic, lights and sensors.

    Args:
        episode: The episode's number, by which clients recognise a new world.
        roads: The map.
        make_traffic: Creates the traffic other than clients' actors, given the step
            length in seconds.
        streams: The streams of snapshots and sensor data.
        seed: The seed of all random choices.
        step_s: The default duration of a tick in seconds.
        settings: The episode settings, in CARLA's order.
        frame: The number of the first frame. Clients ignore frame 0.
        first: The id of the first actor. Ids are never reused, even by other worlds,
            because clients cache data by id.

    `moved` and `noted` are called at every tick with the duration of the tick in
    seconds. A replay uses `moved` to move actors; a recording uses `noted` to write
    their states.
    """

    def __init__(
        self,
        episode: int,
        roads: Roads,
        make_traffic: Callable[[float], Traffic],
        streams: Streams,
        seed: int,
        step_s: float,
        settings: list[Any],
        frame: int = 1,
        first: int = 1,
    ) -> None:
        self.episode, self.roads, self.seed = episode, roads, seed
        self.streams = streams
        self.settings = settings
        self.frame, self.time_s, self._step_s = frame, 0.0, step_s
        self.actors: dict[int, Actor] = {}
        self.guests: dict[int, Guest] = {}
        self.movers: dict[str, int] = {}
        self._began_s = time.monotonic()
        self._next = first
        self.sensors = Sensors(self)
        self.spectator = self.add(
            Actor(0, "spectator", (0.0, 0.0, 50.0, -90.0, 0.0, 0.0), ours=True)
        )
        self.lights = [hang(signal) for signal in roads.signals]
        for fixed in (*self.lights, *map(put_up, roads.signs)):
            self.add(fixed)
        by_signal = {light.signal: light for light in self.lights}
        self.groups = lights.groups(by_signal, roads.signals, roads.net)
        self._stop_lines = StopLines(roads, self.lights)
        self._next = max(self._next, first - first % _NUMBERS + _CLIENTS_FIRST)
        self.moved: Callable[[float], None] | None = None
        self.noted: Callable[[float], None] | None = None
        self._make_traffic = make_traffic
        self._begin(self.delta_s)
        self.weather = self.traffic.weather() or list(CLEAR_NOON)

    def _begin(self, step_s: float) -> None:
        """Creates the traffic in its initial state."""
        self.traffic = self._make_traffic(step_s)
        self._pristine = True
        self.hero: Vehicle | None = None
        for group in self.groups:
            group.own = self.traffic.lights(group.name) is None
            group.freeze(False)
            group.reset()
        mover = self.traffic.hero()
        if mover is not None:
            self.hero = self._put_hero(mover)
        self._meet_traffic()
        self._step_lights(0.0)

    def rewind(self) -> None:
        """Restarts the episode if no client has changed anything."""
        if not self._pristine or not self.time_s:
            return
        self.empty_roads()
        for number in list(self.guests):
            self._forget(number)
        self.time_s = 0.0
        # Actor ids must not depend on how long the server ticked before.
        self._next = self.unused
        self._begin(self.delta_s)

    @property
    def unused(self) -> int:
        """The start of the next block of 1000 unused ids."""
        return self._next + _NUMBERS - self._next % _NUMBERS

    def empty_roads(self) -> None:
        """Permanently removes the simulated traffic; the server then runs the programs
        of the traffic lights.
        """
        self.traffic.close()
        self.traffic, self._pristine = Traffic(), False
        for number in self.movers.values():
            self._forget(number)
        self.movers.clear()
        for group in self.groups:
            group.own = True

    def _forget(self, number: int) -> None:
        self.actors.pop(number, None)
        self.guests.pop(number, None)

    # -- actors -----------------------------------------------------------------------

    def add(self, actor: Actor, wanted: int = 0) -> Actor:
        """Adds an actor to the world, with the requested id if that id is free."""
        if len(self.actors) >= MOST_ACTORS:
            raise Refusal(f"the world already has the maximum of {MOST_ACTORS} actors")
        free = 0 < wanted < _WANTED and wanted not in self.actors
        actor.number = wanted if free else self._next
        self._next = max(self._next, actor.number + 1)
        self.actors[actor.number] = actor
        if isinstance(actor, Vehicle | Walker) and not actor.ours:
            actor.name = actor.name or f"guest{actor.number}"
            self.guests[actor.number] = actor
        return actor

    def spawn(self, actor: Actor, wanted: int = 0) -> Actor:
        """Adds a client's actor to the world."""
        self._pristine = False
        return self.add(actor, wanted)

    def actor(self, number: object) -> Actor:
        found = self.actors.get(number) if isinstance(number, int) else None
        if found is None:
            raise Refusal(f"there is no actor {number!r:.40}")
        return found

    def destroy(self, number: int) -> bool:
        actor = self.actors.get(number)
        if actor is None or actor is self.spectator or actor in self.lights:
            return False
        guest = self.guests.get(number)
        self._forget(number)
        self._pristine = False
        if isinstance(actor, Sensor):
            self.sensors.remove(actor)
        if guest is not None:
            self.traffic.remove(guest.name)
        if actor.ours:
            for name in [n for n, own in self.movers.items() if own == number]:
                del self.movers[name]
                self.traffic.remove(name)
        return True

    def place(self, actor: Actor, at: Pose) -> None:
        """Moves an actor to a pose that a client has set."""
        x, y, z, pitch, yaw, roll = at
        if isinstance(actor, Vehicle | Walker):
            z = 0.0 if actor.physical and abs(z) < _SINKS_M else z
        if isinstance(actor, Vehicle):
            actor.looked_at = actor.mapped_at = None
            if actor.speed:
                actor.velocity = along(actor, actor.speed)
        if actor.parent:
            actor.mount = at
            self._mount(actor)
        else:
            actor.at = x, y, z, pitch, turned(yaw), roll

    def make_room(self, actor: Actor) -> None:
        """Clears the position for a client's actor.

        Simulated road users at that position are removed.

        Raises:
            Refusal: Another client's actor occupies the position.
        """
        if not any(actor.half):
            return
        ((_, met),) = touching([actor], self.actors.values())
        there = [self.actors[number] for number in sorted(met)]
        if not all(o.ours and isinstance(o, Vehicle | Walker) for o in there):
            raise Refusal("Spawn failed because of collision at spawn position")
        for other in there:
            self.destroy(other.number)

    # -- time -------------------------------------------------------------------------

    @property
    def synchronous(self) -> bool:
        return bool(self.settings[0])

    @property
    def delta_s(self) -> float:
        """The duration of a tick in seconds."""
        fixed = self.settings[2]
        return float(fixed[1]) if len(fixed) == 2 and fixed[1] else self._step_s

    def tick(self, hurried: bool = False) -> int:
        """Advances the world by one tick and sends its state; returns the frame number.

        Args:
            hurried: Whether cameras may skip this frame, to keep pace with real time.
        """
        dt = self.delta_s
        self.frame += 1
        self.time_s += dt
        for guest in self.guests.values():
            if isinstance(guest, Vehicle):
                if guest.physical:
                    move(guest, dt)
            else:
                walk(guest, dt)
        self.traffic.step(dt, tuple(self.guests.values()))
        self._meet_traffic()
        self._step_lights(dt)
        if self.moved is not None:
            self.moved(dt)
        self._look_for_lines()
        for actor in self.sensors.mounted():
            self._mount(actor)
        self._meet()
        if self.noted is not None:
            self.noted(dt)
        self.streams.send(actors.WORLD_STREAM, self.snapshot())
        self.sensors.see(dt, hurried)
        return self.frame

    def snapshot(self, change: int = 0) -> bytes:
        """Returns a frame of the world's stream with the current state."""
        wall_s = time.monotonic() - self._began_s
        head = actors.snapshot_header(
            self.episode, self.frame, self.time_s, wall_s, self.delta_s, change
        )
        return head + b"".join([actor.state() for actor in self.actors.values()])

    # -- the steps of a tick ----------------------------------------------------------

    def _meet_traffic(self) -> None:
        """Adds, moves and removes actors to match the simulated traffic."""
        gone = dict(self.movers)
        for mover in self.traffic.movers():
            number = gone.pop(mover.name, None)
            actor = None if number is None else self.actors.get(number)
            if actor is None:
                actor = self._welcome(mover)
                self.movers[mover.name] = actor.number
            self._follow(actor, mover)
        for name, number in gone.items():
            del self.movers[name]
            self._forget(number)

    def _welcome(self, mover: Mover) -> Actor:
        actor = blueprints.actor_of(
            mover.kind, mover.at, {"role_name": "traffic"}, mover.half
        )
        actor.ours = True
        return self.add(actor)

    def _follow(self, actor: Actor, mover: Mover) -> None:
        dt = self.delta_s
        was, turn = actor.velocity, turned(mover.at[4] - actor.at[4])
        actor.at = mover.at
        v = actor.velocity = along(actor, mover.speed)
        actor.acceleration = (v[0] - was[0]) / dt, (v[1] - was[1]) / dt, 0.0
        actor.spin = (0.0, 0.0, turn / dt)
        if isinstance(actor, Vehicle):
            actor.speed, actor.lamps = mover.speed, mover.lamps
        elif isinstance(actor, Walker):
            actor.pace = mover.speed

    def _step_lights(self, dt: float) -> None:
        for group in self.groups:
            if group.own:
                group.step(dt)
                if group.changed and group.name:
                    self.traffic.show(group.name, group.letters())
                group.changed = False
            else:
                group.follow(self.traffic.lights(group.name) or "", dt)

    def take_lights(self, group: lights.Group) -> None:
        """Takes control of a group of lights from SUMO, because a client changes
        them.
        """
        self._pristine = False
        if not group.own:
            group.take_over(*self.traffic.phase(group.name))

    def group_of(self, light: TrafficLight) -> lights.Group:
        return next(g for g in self.groups if light in g.lights.values())

    def _look_for_lines(self) -> None:
        """Updates the traffic light and speed limit of each vehicle."""
        for guest in self.guests.values():
            if isinstance(guest, Vehicle):
                self._stop_lines.look(guest)

    def _mount(self, actor: Actor) -> None:
        """Moves an attached actor with its parent."""
        parent = self.actors.get(actor.parent)
        if parent is None or actor.mount is None:
            return
        actor.at = compose(parent.at, actor.mount)
        actor.velocity = parent.velocity

    def _meet(self) -> None:
        """Records which actors are touching, and reports new contacts to collision
        sensors.
        """
        movable = [g for g in self.guests.values() if g.solid]
        if not movable:
            return
        for guest, others in touching(movable, self.actors.values()):
            if isinstance(guest, Vehicle):
                fresh = others - guest.bumped
                guest.bumped = others
                for number in sorted(fresh):
                    self.sensors.collided(guest, self.actors[number])
                for number in others if guest.physical else ():
                    hold_back(guest, self.actors[number])

    # -- the beginning ----------------------------------------------------------------

    def _put_hero(self, mover: Mover) -> Vehicle:
        """Adds the car that a scenario provides for a client to drive."""
        car = blueprints.actor_of(mover.kind, mover.at, {"role_name": HERO}, mover.half)
        assert isinstance(car, Vehicle)  # noqa: S101
        car.speed, car.name = mover.speed, mover.name
        car.velocity = along(car, car.speed)
        self.add(car)
        return car
