"""A world that replays CommonRoad scenes from the perspective of one vehicle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Literal

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Value
from forewarn.abstractions.trace import Trace, TraceHeader
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.plugins.commonroad.reading import Obstacle, RecordedScene, read_scene
from forewarn.plugins.commonroad.sense import CommonRoadNet, CommonRoadScene, coasting
from forewarn.plugins.contracts import Example, Shape, Source, Thing
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.driving.scene import SceneShown
from forewarn.plugins.driving.sense import CRITICALITY, Senses, Surroundings
from forewarn.plugins.driving.sense import PROVIDES as SENSED
from forewarn.plugins.logs import RecordedWorld

CROSSING = Path(__file__).with_name("crossing.xml.gz")
"""The shipped example scene, which was written by commonroad-io."""

_UNTOLD = frozenset(
    ("gear", "engine_on", "manual_control", "turn_signal", "arrow_light",
     "arrow_light_blinking", "honking_allowed", "horn_on", "high_beam_on",
     "low_beam_on", "fog_light_on", "warning_flash_on", "street_light_on", "rain",
     "snow", "fog", "visibility", "time_of_day", "special_location",
     "special_location_distance", "destination_reached", "snapshot_age")
)  # fmt: skip
PROVIDES = tuple(n for n in (*SENSED, *CRITICALITY) if n not in _UNTOLD)
"""The signals that can be computed from the lanes, lights and road users of a scene."""

_EXAMPLES = 20
_VEHICLE_KINDS = frozenset(
    ("car", "truck", "bus", "motorcycle", "bicycle", "priorityVehicle", "taxi")
)


class CommonRoadWorld(RecordedWorld):
    """A world that replays recorded scenes.

    Each file is an episode. Seed n selects the n-th file in alphabetical order.

    Args:
        files: The path of a file, which may be compressed with gzip; `*` can match
            several files.
        ego: The id of a moving vehicle, or of a planning problem whose ego is simulated
            at constant speed in its lane; by default, the first planning problem. With
            `each`, every moving vehicle is the ego of an episode: increasing the seed
            by the number of files selects the next vehicle of the same file.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example that replays the same scene in every episode."""
        return Example(make=_example, pilot="log", steps=12)

    def __init__(self, *, files: str, ego: int | Literal["each"] | None = None) -> None:
        super().__init__(files)
        self._who = ego
        period_s = _known(self._paths[0])[0].period_s
        self.source = Source("commonroad", "driving", PROVIDES, period_s, fixed=True)
        self._shown: SceneShown | None = None
        self._seen: dict[str, Value] = {}

    @property
    def episodes(self) -> int:
        """The number of episodes.

        With `each`, it is the number of files times the fewest vehicles in any file.
        """
        egos = 1
        if self._who == "each":
            egos = min(len(_driving(_known(path)[0])) for path in self._paths)
        return egos * len(self._paths)

    def begin(self, seed: int) -> None:
        more, number = divmod(seed, len(self._paths))
        told, roads, places = _known(self._paths[number])
        if told.period_s != self.source.period_s:
            raise InvalidInput(
                f"the time step of the file is {told.period_s:g} s, but that of the "
                f"first file is {self.source.period_s:g} s",
                source=told.source,
                mend="use a separate scenario for files with a different time step",
            )
        ego = _chosen(told, roads, places, self._who, more)
        self._scene = scene = CommonRoadScene(told, roads, places, ego)
        self._senses = Senses(scene, Surroundings(), told.period_s, criticality=True)
        self._shown = SceneShown(roads, lambda: scene)
        self._first, self._last = ego.states[0].step, ego.states[-1].step
        if not scene.look(self._first):
            raise InvalidInput(
                f"the ego {ego.number} is not on a lane at its first step",
                source=told.source,
            )

    def values(self) -> Mapping[str, Value]:
        step = self._first + self.steps
        if not self._scene.look(step):
            self.over = "the ego left the road"
            return self._seen
        hit = self._scene.struck(self._scene.ego.speed)
        values = self._senses.values(self.time_s, hit is not None, horn=False)
        self._seen = {name: values[name] for name in PROVIDES}
        if step >= self._last:
            self.over = "the recording is over"
        return self._seen

    def ground(self) -> Sequence[Shape]:
        return [] if self._shown is None else self._shown.ground()

    def things(self) -> Sequence[Thing]:
        return [] if self._shown is None else self._shown.things()


def scene_trace(path: Path, ego: int | None = None) -> Trace:
    """Returns the trace of one vehicle, with the signals of `CommonRoadWorld`."""
    world = CommonRoadWorld(files=escape(str(path)), ego=ego)
    frames = [world.reset(0)]
    while world.ended() is None:
        frames.append(world.step(None))
    source = world.source
    header = TraceHeader(
        source.vocabulary, source.provides, source.period_s, source=path.name
    )
    vocabulary = load_vocabulary(source.vocabulary)
    return Trace(header, tuple(frames), vocabulary=vocabulary)


def _example() -> CommonRoadWorld:
    content = CROSSING.read_bytes()
    files = {f"{number:02}.xml.gz": content for number in range(_EXAMPLES)}
    return CommonRoadWorld.of(files, ego=1001)


@lru_cache(maxsize=32)
def _known(path: Path) -> tuple[RecordedScene, Roads, Places]:
    told = read_scene(path)
    roads = Roads(CommonRoadNet(told))
    return told, roads, Places(roads)


def _driving(told: RecordedScene) -> list[Obstacle]:
    """Returns the moving vehicles in a file."""
    return [
        each
        for each in told.obstacles.values()
        if each.kind in _VEHICLE_KINDS and not each.stands
    ]


def _chosen(
    told: RecordedScene,
    roads: Roads,
    places: Places,
    who: int | str | None,
    place: int,
) -> Obstacle:
    """Selects the vehicle from whose perspective the scene is replayed.

    Args:
        told: The content of the file.
        roads: The road network of the file.
        places: Finds the lanes at a position.
        who: The setting `ego` of the world.
        place: The index of the vehicle if `who` is `each`.
    """
    driving = _driving(told)
    if who == "each":
        if place >= len(driving):
            raise InvalidInput(
                f"the seed is too high: only {len(driving)} vehicles move in the file",
                source=told.source,
                mend="use a lower seed",
            )
        return driving[place]
    if place:
        raise InvalidInput(
            "the seed must be lower than the number of files",
            source=told.source,
            mend="use a lower seed, or set `ego: each`",
        )
    if who is None:
        who = next(iter(told.problems), None)
    if isinstance(who, int) and who in told.problems:
        return coasting(told, roads, places, who)
    found = next((each for each in driving if each.number == who), None)
    if found is None:
        names = ", ".join(str(each.number) for each in driving[:8])
        raise InvalidInput(
            f"the file has no moving vehicle with the id {who}",
            source=told.source,
            mend=f"the ids are {names}" if names else "no vehicle moves",
        )
    return found
