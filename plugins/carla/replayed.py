"""Reads snapshots from CARLA's own recordings, which the server replays.

This client ticks the server during the replay. A replay teleports the actors, and CARLA
reports their speeds as 0, so speeds are computed from positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.carla.wire import kept_settings

_SAYS = re.compile(
    r"Version: \d+\nMap: (?P<map>[^\n]+)\n.*"
    r"\nFrames: (?P<frames>\d+)\nDuration: (?P<s>[\d.e+-]+) seconds\n*\Z",
    re.DOTALL,
)
_STEPS_S = (0.005, 0.1)  # CARLA's physics allows no longer steps
_JUMP = 100.0  # m/s: a faster motion is a jump


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording, as the server describes it."""

    name: str
    map: str
    frames: int
    duration_s: float

    @property
    def step_s(self) -> float:
        """The tick length in seconds: that of the recording, within CARLA's limits."""
        low, high = _STEPS_S
        mean = self.duration_s / max(1, self.frames - 1)
        return min(high, max(low, round(mean, 4)))


def find_recording(client: Any, name: str) -> Recording:
    """Looks up a recording by name.

    Raises:
        InvalidInput: The server has no recording of that name, or cannot play it.
    """
    try:
        told = str(client.show_recorder_file_info(name, False))
    except RuntimeError as error:
        if "time-out" in str(error):
            raise
        raise InvalidInput(
            f"the server cannot read the recording: {error}", source=name
        ) from None
    found = _SAYS.match(told)
    if found is None:
        why = " ".join(told.split()) or "no reason given"
        raise InvalidInput(
            f"the server has no such recording: {why}", source=name,
            mend="use the name that was passed to start_recorder",
        )  # fmt: skip
    duration_s = float(found["s"])
    if not 0.0 < duration_s < math.inf:
        raise InvalidInput("the recording has fewer than two frames", source=name)
    bare = found["map"].strip().rpartition("/")[2]
    return Recording(name, bare, int(found["frames"]), duration_s)


def replayed(
    client: Any, recording: Recording, over: Callable[[], bool]
) -> Generator[tuple[Any, Any]]:
    """Plays a recording from its start, tick by tick.

    At the end, the settings of the world are restored and the actors of the recording
    are removed.

    Args:
        client: A `carla.Client`.
        recording: The recording to play.
        over: Returns whether to stop early.

    Yields:
        The `carla.World`, and a snapshot with the interface of a `carla.WorldSnapshot`.
    """
    world = client.get_world()
    if world.get_map().name.rpartition("/")[2] != recording.map:
        world = client.load_world(recording.map)
    with kept_settings(world) as settings:
        settings.synchronous_mode = True
        settings.fixed_delta_seconds = recording.step_s
        world.apply_settings(settings)
        # Remove actors left by an earlier replay.
        client.set_replayer_time_factor(1.0)
        client.set_replayer_ignore_hero(False)
        said = client.replay_file(recording.name, 0.0, 0.0, 0)
        try:
            if "Replaying from" not in said:
                why = " ".join(said.split())
                raise InvalidInput(
                    f"the server cannot play the recording: {why}",
                    source=recording.name,
                )
            before: Any = None
            # At the very end, CARLA removes all actors, so stop before that.
            for _ in range(int(recording.duration_s / recording.step_s - 0.5)):
                if over():
                    break
                world.tick()
                snapshot = world.get_snapshot()
                if before is not None:
                    yield world, Moved(before, snapshot)
                before = snapshot
        finally:
            client.stop_replayer(False)


class Moved:
    """A snapshot whose speeds are computed from the previous snapshot."""

    def __init__(self, before: Any, now: Any) -> None:
        self.timestamp = now.timestamp
        self._now = now
        self._lasted_s = now.timestamp.elapsed_seconds - (
            before.timestamp.elapsed_seconds
        )
        self._before = {state.id: state.get_transform() for state in before}

    def __iter__(self) -> Iterator[MovedActor]:
        for state in self._now:
            yield MovedActor(state, self._before.get(state.id), self._lasted_s)


class MovedActor:
    """An actor in a `Moved` snapshot."""

    def __init__(self, state: Any, was: Any, lasted_s: float) -> None:
        self.id = state.id
        self._state, self._was, self._lasted_s = state, was, lasted_s

    def get_transform(self) -> Any:
        return self._state.get_transform()

    def get_velocity(self) -> Any:
        vector = carla_module().Vector3D
        if self._was is None or self._lasted_s <= 0.0:
            return vector()
        way = self._state.get_transform().location - self._was.location
        speed = vector(way.x, way.y, way.z) / self._lasted_s
        return speed if speed.length() < _JUMP else vector()
