"""Plays a recorder log into a world, as CARLA's replayer does.

Who was recorded is put from place to place: nothing drives, so their velocities are 0,
as they are in CARLA. Traffic of the world's own is off the roads meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.abstractions.errors import ForewarnError
from forewarn.plugins.carla.standin import blueprints
from forewarn.plugins.carla.standin.actors import (
    STANDARD_CONTROL,
    Actor,
    TrafficLight,
    Vehicle,
    Walker,
)
from forewarn.plugins.carla.standin.encoding import Pose, compose, number, turned
from forewarn.plugins.carla.standin.ground import lights
from forewarn.plugins.carla.standin.movement.physics import physics_of
from forewarn.plugins.carla.standin.recording import logs
from forewarn.plugins.carla.standin.recording.logs import Added, Frame, Log

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.world import World

_SAME_PLACE_M = 1.0
_LARGEST_M = 50.0
_HERO = "hero"


@dataclass(frozen=True, slots=True)
class Part:
    """What of a log is played, and how.

    Args:
        factor: How much faster than it was.
        follow: The number in the log of whom the spectator follows; 0 for nobody.
        offset: Where the spectator is, seen from there.
    """

    begin_s: float
    end_s: float
    factor: float = 1.0
    ignore_hero: bool = False
    ignore_spectator: bool = True
    follow: int = 0
    offset: Pose = (0.0,) * 6


class Replay:
    """A log that plays.

    Args:
        world: Where it plays.
        log: What; it is closed in the end.
        say: Hears of what could not be played.
    """

    def __init__(
        self, world: World, log: Log, part: Part, say: Callable[[str], None]
    ) -> None:
        self._world, self._log, self._part, self._say = world, log, part, say
        self._frames = iter(log)
        self._numbers: dict[int, int] = {}
        self._made: list[int] = []
        self._now = self._next = Frame(0, 0.0, 0.0)
        self._here: dict[int, Pose] = {}
        self._there: dict[int, Pose] = {}
        self._time_s = part.begin_s
        self.runs = True
        world.empty_roads()
        for group in world.groups:
            group.frozen = True
        with_first = next(self._frames, None)
        if with_first is not None:
            self._next = with_first
        self._guarded(self._show)

    def step(self, dt: float) -> None:
        """Goes on by a tick."""
        if not self.runs:
            return
        end_s = self._part.end_s
        self._time_s = min(end_s, self._time_s + dt * self._part.factor)
        self._guarded(self._show)
        if self._time_s >= end_s:
            self.stop(keep=True)

    def stop(self, keep: bool) -> None:
        """Ends it; whom it brought stays standing there, or goes."""
        if not self.runs:
            return
        self.runs = False
        self._log.close()
        for group in self._world.groups:
            group.freeze(False)
        for which in self._numbers.values():
            actor = self._world.actors.get(which)
            if isinstance(actor, Vehicle | Walker):
                actor.physical = True
                if isinstance(actor, Vehicle):
                    actor.control = list(STANDARD_CONTROL)
                else:
                    actor.pace = 0.0
                self._world.mark(actor)
        for which in () if keep else self._made:
            self._world.destroy(which)

    def _guarded(self, show: Callable[[], None]) -> None:
        """A log may hold what only shows when it is played."""
        try:
            show()
        except ForewarnError as problem:
            self._say(f"the replay of {self._log.path.name} ends: {problem}")
            self.stop(keep=True)

    # -- frames -----------------------------------------------------------------------

    def _show(self) -> None:
        """Puts everybody where they were at this time."""
        before = self._now
        while self._next is not self._now and self._next.elapsed_s <= self._time_s:
            self._now = self._next
            self._events(self._now)
            self._next = next(self._frames, self._now)
        if self._now is not before:
            self._here, self._there = _places(self._now), _places(self._next)
        spell = self._next.elapsed_s - self._now.elapsed_s
        share = (self._time_s - self._now.elapsed_s) / spell if spell > 0.0 else 0.0
        share = min(1.0, max(0.0, share))
        for which, at in self._here.items():
            actor = self._actor(which)
            if actor is not None:
                self._put(actor, _between(at, self._there.get(which, at), share))
        self._states(self._now)
        followed = self._actor(self._part.follow)
        if followed is not None:
            at = compose(followed.at, self._part.offset)
            self._world.place(self._world.spectator, at)

    def _put(self, actor: Actor, at: Pose) -> None:
        if isinstance(actor, Vehicle):
            actor.speed = 0.0
        actor.velocity = actor.spin = actor.acceleration = (0.0, 0.0, 0.0)
        self._world.place(actor, at)

    def _actor(self, which: int) -> Actor | None:
        return self._world.actors.get(self._numbers.get(which, -1))

    def _states(self, frame: Frame) -> None:
        for which, frozen, since_s, colour in frame.records(logs.LIGHTS):
            light = self._actor(which)
            if isinstance(light, TrafficLight):
                lights.show(light, min(colour, 4))
                light.since_s, light.frozen = number(since_s), frozen
                self._world.mark(light)
        for which, steer, throttle, brake, hand, gear in frame.records(logs.PEDALS):
            car = self._actor(which)
            if isinstance(car, Vehicle):
                pedals = [number(value) for value in (throttle, steer, brake)]
                shown = max(-10, min(20, gear))
                car.control = [*pedals, hand, gear < 0, False, shown]
        for which, pace in frame.records(logs.WALKS):
            walker = self._actor(which)
            if isinstance(walker, Walker):
                walker.pace = number(pace)
        for which, lamps in frame.records(logs.LAMPS):
            car = self._actor(which)
            if isinstance(car, Vehicle):
                car.lamps = lamps

    # -- who comes and goes -----------------------------------------------------------

    def _events(self, frame: Frame) -> None:
        boxes = {which: box for which, *box in frame.records(logs.BOXES)}
        for added in frame.added():
            try:
                self._come(added, boxes.get(added.number))
            except ForewarnError as problem:
                self._say(f"not replayed: {added.name:.80}: {problem}")
        for (which,) in frame.records(logs.REMOVED):
            gone = self._numbers.pop(which, None)
            if gone is not None and gone in self._made:
                self._world.destroy(gone)

    def _come(self, added: Added, box: list[float] | None) -> None:
        role = dict((name, value) for _, name, value in added.attributes)
        hero = added.kind == logs.VEHICLE and role.get("role_name") == _HERO
        if hero and self._part.ignore_hero:
            return
        actor: Actor | None
        if added.name == "spectator":
            actor = None if self._part.ignore_spectator else self._world.spectator
        elif added.name.startswith("traffic."):
            actor = self._light_at(added.at)
        elif added.name.startswith(("sensor.", "controller.")):
            return
        else:
            actor = self._world.actors.get(added.number)
            if actor is None or actor.kind != added.name:
                actor = self._make(added, box)
        if actor is None:
            return
        self._numbers[added.number] = actor.number
        if isinstance(actor, Vehicle | Walker):
            actor.physical = False

    def _light_at(self, at: Pose) -> TrafficLight | None:
        """The light that hangs where one hung; several may share a pole."""
        taken = set(self._numbers.values())
        for light in self._world.lights:
            if light.number in taken:
                continue
            gaps = (abs(a - b) for a, b in zip(light.at[:3], at[:3], strict=True))
            if max(gaps) < _SAME_PLACE_M:
                return light
        return None

    def _make(self, added: Added, box: list[float] | None) -> Actor:
        blueprint = blueprints.find(added.name)
        half, centre = blueprint.half, (0.0, 0.0, blueprint.half[2])
        if box is not None:
            x, y, z, *extent = (number(value) / 100.0 for value in box)
            if all(0.0 < value < _LARGEST_M for value in extent):
                half, centre = (extent[0], extent[1], extent[2]), (x, y, z)
        make: type[Actor] = Vehicle if blueprint.wheels else Actor
        if added.name.startswith("walker."):
            make = Walker
        given = {name: value[:200] for _, name, value in added.attributes}
        actor = make(
            0, added.name, added.at, blueprint.given(given), half, centre,
            bytes([blueprint.tag]) if blueprint.tag else b"",
            blueprint=blueprint.number,
        )  # fmt: skip
        if isinstance(actor, Vehicle):
            actor.physics = physics_of(blueprint)
            actor.wheelbase = 1.2 * half[0]
        self._world.spawn(actor, added.number)
        self._made.append(actor.number)
        return actor


def _places(frame: Frame) -> dict[int, Pose]:
    return {which: logs.pose(place) for which, *place in frame.records(logs.POSITIONS)}


def _between(here: Pose, there: Pose, share: float) -> Pose:
    if not share:
        return here
    x, y, z = (a + share * (b - a) for a, b in zip(here[:3], there[:3], strict=True))
    pitch, yaw, roll = (
        a + share * turned(b - a) for a, b in zip(here[3:], there[3:], strict=True)
    )
    return x, y, z, pitch, yaw, roll
