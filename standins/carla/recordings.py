"""The recordings of a server: their folder, the active recording and the active replay.

Clients refer to a log by its file name or by the full path that the recorder returned;
paths outside the folder are rejected. A file that is not a log is never overwritten.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from forewarn import ForewarnError
from forewarn.standins.carla import blueprints, lights, logs
from forewarn.standins.carla.actors import (
    STANDARD_CONTROL,
    Actor,
    Pose,
    Refusal,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    Walker,
    number,
    turned,
)
from forewarn.standins.carla.logs import Added, Frame, Log

if TYPE_CHECKING:
    from forewarn.standins.carla.world import World


MOST_BYTES: Final = 2 << 30
"""Maximum total size of the folder in bytes; beyond it, no recording can be started."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,119}")


class Recordings:
    """The recordings of one server.

    Args:
        folder: The folder for recordings. If None, a temporary folder is used, which is
            deleted when the server stops.
        say: Called with each message about a problem.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        self._say = say
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._given = None if folder is None else folder.absolute()
        self._recorder: Recorder | None = None
        self._replay: Replay | None = None

    @property
    def folder(self) -> Path:
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="forewarn-carla-")
        return Path(self._own.name)

    def path(self, name: str) -> Path:
        """Returns the path of a log.

        Raises:
            Refusal: The name is invalid, or the path is outside the folder.
        """
        folder = self.folder
        bare = str(name).removeprefix(f"{folder}{os.sep}")
        if not _NAME.fullmatch(bare):
            raise Refusal(
                f"{name!r:.80} is not a valid name for a recording: recordings are "
                f"stored in {folder}, and their names consist of letters, "
                "digits, underscores, dots, dashes and spaces"
            )
        return folder / bare

    def open(self, name: str) -> Log:
        """Opens a log for reading.

        Raises:
            FileNotFoundError: There is no log with this name.
            Refusal: The log cannot be read.
        """
        if self._recorder is not None:
            self._recorder.flush()
        return Log(self.path(name))

    # -- recording --------------------------------------------------------------------

    def record(self, world: World, name: str) -> Path:
        """Starts a recording. Any active recording or replay is ended first."""
        path = self.path(name)
        self.leave(world)
        used = sum(file.stat().st_size for file in self.folder.iterdir())
        if used > MOST_BYTES:
            raise Refusal(
                f"{self.folder} contains {used >> 20} MiB of recordings, which is more "
                f"than the limit of {MOST_BYTES >> 20} MiB"
            )
        odd = path.exists() and not path.is_file()
        if odd or (path.exists() and path.stat().st_size and not logs.is_log(path)):
            raise Refusal(
                f"{path} exists and is not a recording, so it is not overwritten"
            )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_BINARY", 0)
        try:
            file = os.fdopen(os.open(path, flags, 0o644), "wb")
        except OSError as error:
            raise Refusal(f"{path} cannot be written: {error.strerror}") from None

        def full() -> None:
            self._say(
                f"the recording {path.name} was stopped, because it has reached "
                f"{logs.LARGEST >> 20} MiB"
            )
            self.stop(world)

        self._recorder = Recorder(world, file, full)
        world.noted = self._recorder.take
        return path

    def stop(self, world: World) -> None:
        """Ends the active recording, if any."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            world.noted = None
            recorder.close()

    # -- replaying --------------------------------------------------------------------

    def play(self, world: World, log: Log, begin_s: float, end_s: float) -> None:
        """Starts to replay a log. The log is closed when the replay ends."""
        self.leave(world)
        self._replay = Replay(world, log, begin_s, end_s, self._say)
        world.moved = self._replay.step

    def end_replay(self, world: World, keep: bool) -> None:
        """Ends the active replay, if any."""
        replay, self._replay = self._replay, None
        if replay is not None:
            world.moved = None
            replay.stop(keep)

    # -- the end ----------------------------------------------------------------------

    def leave(self, world: World) -> None:
        """Ends a world's recording and replay."""
        self.stop(world)
        self.end_replay(world, keep=True)

    def close(self, world: World) -> None:
        """Ends the recording and the replay, and deletes the temporary folder, if
        any.
        """
        self.leave(world)
        if self._own is not None:
            self._own.cleanup()


_KINDS: tuple[tuple[type[Actor], int], ...] = (
    (Vehicle, logs.VEHICLE), (Walker, logs.WALKER), (TrafficLight, logs.TRAFFIC_LIGHT),
    (TrafficSign, logs.TRAFFIC_SIGN), (Sensor, logs.SENSOR),
)  # fmt: skip


class Recorder:
    """An active recording.

    Args:
        world: The world to record.
        file: An empty file that is open for writing; it is closed at the end.
        full: Called when the log has reached its size limit.
    """

    def __init__(self, world: World, file: BinaryIO, full: Callable[[], None]) -> None:
        self._world, self._file, self._full = world, file, full
        self._known: set[int] = set()
        self._frames, self._elapsed_s = 0, 0.0
        self._last = bytearray()
        self._bytes = 0
        self._write(logs.head(f"Carla/Maps/{world.roads.name}", int(time.time())))

    def take(self, dt: float) -> None:
        """Writes a frame with the state of the world after a tick."""
        if self._frames:
            self._elapsed_s += dt
            # A frame's duration is known only when the next frame begins.
            logs.lasts(self._last, dt)
            self._write(self._last)
        self._frames += 1
        frame = logs.frame_start(self._frames, self._elapsed_s)
        for part in self._events():
            frame += part
        for part in self._state():
            frame += part
        frame += logs.frame_end()
        self._last = frame
        if self._bytes + len(frame) > logs.LARGEST - (1 << 20):
            self._full()

    def flush(self) -> None:
        """Flushes the complete frames."""
        self._file.flush()

    def close(self) -> None:
        """Completes and closes the log; may be called more than once."""
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
        self._known = set(actors)

    def _state(self) -> Iterator[bytes]:
        actors = list(self._world.actors.values())
        cars = [actor for actor in actors if isinstance(actor, Vehicle)]
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
        yield logs.packet(logs.LAMPS, ((car.number, car.lamps) for car in cars))


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


_SAME_PLACE_M = 1.0
_UNPLAYED = ("spectator", "sensor.", "controller.")


class Replay:
    """An active replay.

    Args:
        world: The world in which the log is replayed.
        log: The log; it is closed at the end.
        say: Called with a message about each part of the log that could not be
            replayed.
    """

    def __init__(
        self,
        world: World,
        log: Log,
        begin_s: float,
        end_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._world, self._log, self._say = world, log, say
        self._frames = iter(log)
        self._numbers: dict[int, int] = {}
        self._made: list[int] = []
        self._now = self._next = Frame(0, 0.0, 0.0)
        self._here: dict[int, Pose] = {}
        self._there: dict[int, Pose] = {}
        self._time_s, self._end_s = begin_s, end_s
        self.runs = True
        world.empty_roads()
        for group in world.groups:
            group.frozen = True
        with_first = next(self._frames, None)
        if with_first is not None:
            self._next = with_first
        self._guarded(self._show)

    def step(self, dt: float) -> None:
        """Advances by a tick."""
        if not self.runs:
            return
        self._time_s = min(self._end_s, self._time_s + dt)
        self._guarded(self._show)
        if self._time_s >= self._end_s:
            self.stop(keep=True)

    def stop(self, keep: bool) -> None:
        """Ends the replay. If `keep` is true, the replayed actors stay in the world."""
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
        for which in () if keep else self._made:
            self._world.destroy(which)

    def _guarded(self, show: Callable[[], None]) -> None:
        """Calls `show`, and ends the replay if the log contains an error. Some errors
        are found only during the replay.
        """
        try:
            show()
        except ForewarnError as problem:
            self._say(f"the replay of {self._log.path.name} was stopped: {problem}")
            self.stop(keep=True)

    # -- frames -----------------------------------------------------------------------

    def _show(self) -> None:
        """Moves all actors to their recorded positions at the current time."""
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
        for which, steer, throttle, brake, hand, gear in frame.records(logs.PEDALS):
            car = self._actor(which)
            if isinstance(car, Vehicle):
                pedals = [number(value) for value in (throttle, steer, brake)]
                shown = max(-10, min(20, gear))
                car.control = [*pedals, hand, gear < 0, False, shown]
        for which, lamps in frame.records(logs.LAMPS):
            car = self._actor(which)
            if isinstance(car, Vehicle):
                car.lamps = lamps

    # -- added and removed actors
    # -----------------------------------------------------------

    def _events(self, frame: Frame) -> None:
        for added in frame.added():
            try:
                self._come(added)
            except ForewarnError as problem:
                self._say(f"{added.name:.80} cannot be replayed: {problem}")
        for (which,) in frame.records(logs.REMOVED):
            gone = self._numbers.pop(which, None)
            if gone is not None and gone in self._made:
                self._world.destroy(gone)

    def _come(self, added: Added) -> None:
        actor: Actor | None
        if added.name.startswith(_UNPLAYED):
            return
        if added.name.startswith("traffic."):
            actor = self._light_at(added.at)
        else:
            actor = self._world.actors.get(added.number)
            if actor is None or actor.kind != added.name:
                actor = self._make(added)
        if actor is None:
            return
        self._numbers[added.number] = actor.number
        if isinstance(actor, Vehicle | Walker):
            actor.physical = False

    def _light_at(self, at: Pose) -> TrafficLight | None:
        """Returns the first unassigned light at a recorded position; several lights may
        share a pole.
        """
        taken = set(self._numbers.values())
        for light in self._world.lights:
            if light.number in taken:
                continue
            gaps = (abs(a - b) for a, b in zip(light.at[:3], at[:3], strict=True))
            if max(gaps) < _SAME_PLACE_M:
                return light
        return None

    def _make(self, added: Added) -> Actor:
        given = {name: value[:200] for _, name, value in added.attributes}
        actor = blueprints.actor_of(added.name, added.at, given)
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
