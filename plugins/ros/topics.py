"""Converts messages on ROS 2 topics to signals, for bags and live systems.

The path of a message field is `/topic.field.field`, in which `*` matches each item of a
list. The signals about the ego and the objects around it are computed as in
`plugins/driving/bodies.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, InvalidTrace, SignalFault
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.readers.foreign import field_of
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.plugins.columns import Column, with_columns
from forewarn.plugins.driving.bodies import PROVIDES, BodySenses
from forewarn.plugins.driving.scene import Mover

SILENT_S = 1.0
"""The maximum time in seconds without messages on a topic."""
MOST_OBJECTS = 1_000
_EARLY_S = 1e-3
Positive = Annotated[float, Field(gt=0, le=100, strict=False)]


class TopicColumn(Column):
    """The signal in a message field, and its encoding.

    Args:
        first: For a field with several values, the possible values in order of
            precedence. The signal has the first of these that occurs, or is none if
            none of them occurs.
    """

    first: list[str] = []


class Ego(Strict):
    """The size of the ego, and the fields with its pose and velocity.

    Args:
        pose: The path of the field with the pose.
        velocity: The path of the field with the velocity in the ego's frame of
            reference.
        front_m: The distance from the position to the front bumper in m.
        length_m: The length of the ego in m.
        width_m: The width of the ego in m.
    """

    pose: str
    velocity: str
    front_m: Annotated[float, Field(ge=0, le=100, strict=False)]
    length_m: Positive
    width_m: Positive


class Objects(Strict):
    """The fields with the objects around the ego.

    All paths except `list` are relative to an item of the list.

    Args:
        list: The path of the field with the list of objects.
        pose: The path of the pose of the object's centre, in the same frame of
            reference as the ego's pose.
        velocity: The path of the velocity in the object's frame of reference.
        size: The path of the size, whose x is the length and whose y is the width.
        label: The path of the object's class, which is a number.
        on_foot: The classes of pedestrians.
        ignored: The classes of objects that are not road users.
    """

    list: str
    pose: str
    velocity: str
    size: str
    label: str
    on_foot: tuple[int, ...] = ()
    ignored: tuple[int, ...] = ()


class _File(Strict):
    format: Literal["forewarn.topics/1"]
    vocabulary: str = "driving"
    period_s: Annotated[float, Field(gt=0.001, le=60)]
    columns: dict[str, str | TopicColumn] = {}
    ego: Ego | None = None
    objects: Objects | None = None


@dataclass(frozen=True, slots=True)
class TopicMap:
    """The content of a mapping file.

    Args:
        vocabulary: The vocabulary, in which the paths of fields are aliases of signals.
        period_s: The time between frames in seconds.
        columns: The signal in each field, and its encoding.
        ego: The size and the fields of the ego, if objects are read.
        objects: The fields with the objects around the ego, if they are read.
    """

    vocabulary: Vocabulary
    period_s: float
    columns: Mapping[str, TopicColumn]
    ego: Ego | None = None
    objects: Objects | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose messages are required."""
        fields = list(self.columns)
        if self.ego is not None and self.objects is not None:
            fields += [self.ego.pose, self.ego.velocity, self.objects.list]
        return frozenset(field.split(".")[0] for field in fields)

    @property
    def provides(self) -> tuple[str, ...]:
        """The signals in the frames."""
        named = [column.signal for column in self.columns.values()]
        return tuple(dict.fromkeys([*named, *(PROVIDES if self.objects else ())]))


def load_topics(path: Path) -> TopicMap:
    """Reads a mapping file."""
    file = validated(_File, read_yaml(path), str(path))
    columns = {
        name: TopicColumn(signal=each) if isinstance(each, str) else each
        for name, each in file.columns.items()
    }
    if (file.ego is None) != (file.objects is None):
        raise InvalidInput(
            "`ego` and `objects` must be given together", source=str(path)
        )
    if not columns and file.objects is None:
        raise InvalidInput("the mapping assigns no field to a signal", source=str(path))
    try:
        vocabulary = with_columns(load_vocabulary(file.vocabulary), columns)
    except InvalidInput as error:
        raise InvalidInput(error.problem, source=str(path), mend=error.mend) from error
    if file.objects is not None and vocabulary.name != "driving":
        raise InvalidInput(
            "`objects` requires the vocabulary `driving`", source=str(path)
        )
    made = TopicMap(vocabulary, file.period_s, columns, file.ego, file.objects)
    wrong = next((each for each in made.topics if not each.startswith("/")), None)
    if wrong is not None:
        raise InvalidInput(
            f"{wrong!r:.60} is not the name of a topic", source=str(path),
            mend="write the path of a field as /topic.field.field",
        )  # fmt: skip
    return made


class WentBack(InvalidTrace):
    """The times of all topics jumped backwards: a bag or a simulation was restarted."""


class Topics:
    """Converts the messages of a run to frames.

    Args:
        told: The mapping from topics to signals.
    """

    def __init__(self, told: TopicMap) -> None:
        self._map = told
        self._senses = BodySenses(told.period_s)
        self._last: dict[str, tuple[float, Any]] = {}
        self._paced_by = None if told.ego is None else told.ego.pose.split(".")[0]
        self._began_s: float | None = None
        self._due_s = 0.0

    def take(
        self, topic: str, message: Any, time_s: float
    ) -> tuple[float, dict[str, Any]] | None:
        """Reads a message; returns the time and the signals of a frame if one is due.

        The first frame is due when there is a message on every topic; its time is 0 s.
        If the mapping has an ego, frames are due only at messages on the topic of the
        ego's pose, and contain the latest values of the other topics.

        Raises:
            InvalidInput: A topic had no message for too long, or the values of a
                message do not match the mapping.
            WentBack: The times of all topics jumped backwards.
        """
        needed = self._map.topics
        if topic not in needed:
            return None
        self._last[topic] = time_s, message
        if needed - self._last.keys() or self._paced_by not in (None, topic):
            return None
        late_s = _EARLY_S
        if self._began_s is not None:
            late_s += time_s - self._due_s
        if -SILENT_S <= late_s < 0.0:
            return None
        self._check_times(time_s)
        if late_s < 0.0:
            raise WentBack("the times of the topics jumped backwards")
        if self._began_s is None:
            self._began_s = self._due_s = time_s
        period_s = self._map.period_s
        self._due_s += period_s * (1.0 + late_s // period_s)
        return round(time_s - self._began_s, 6), self._values(time_s)

    def _check_times(self, time_s: float) -> None:
        """Raises an error if a topic has been silent, or its time is far ahead."""
        for topic in sorted(self._map.topics):
            silent_s = time_s - self._last[topic][0]
            if silent_s > SILENT_S:
                raise InvalidTrace(
                    f"there has been no message on {topic} for {silent_s:.3g} s"
                )
            if silent_s < -SILENT_S:
                raise InvalidTrace(
                    f"the time of {topic} is {-silent_s:.3g} s ahead of other topics"
                )

    def _values(self, time_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._map.ego is not None and self._map.objects is not None:
            found |= self._around(time_s, self._map.ego, self._map.objects)
        for name, column in self._map.columns.items():
            found[column.signal] = self._column(name, column)
        return found

    def _column(self, name: str, column: TopicColumn) -> Any:
        signal = self._map.vocabulary.signals[column.signal]
        alias = self._map.vocabulary.aliases[name]
        try:
            found = (alias.convert(_plain(each)) for each in self._each(name))
            told = [signal.check(each) for each in found]
            if column.first:
                return next((each for each in column.first if each in told), None)
            return told[0] if told else signal.check(None)
        except SignalFault as error:
            raise InvalidTrace(f"{error} (in {name:.200})") from error

    def _each(self, name: str) -> Iterator[Any]:
        """Yields the values of a field; several values if the path contains `*`."""
        topic, *parts = name.split(".")
        yield from _spread([self._last[topic][1]], parts, name)

    def _one(self, name: str) -> Any:
        topic, *parts = name.split(".")
        return field_of(self._last[topic][1], parts, name, "")

    def _around(self, time_s: float, own: Ego, told: Objects) -> dict[str, Any]:
        ego = _mover("ego", self._one(own.pose), self._one(own.velocity), own.front_m)
        ego.length, ego.width = own.length_m, own.width_m
        objects = _listed(self._one(told.list), told.list)
        vehicles: list[Mover] = []
        people: list[Mover] = []
        for number, each in enumerate(objects):
            pose, velocity, size, label = (
                field_of(each, field.split("."), field, told.list)
                for field in (told.pose, told.velocity, told.size, told.label)
            )
            label = int(_number(label))
            if label in told.ignored:
                continue
            length, width = (
                _number(field_of(size, [side], told.size, "")) for side in ("x", "y")
            )
            on_foot = label in told.on_foot
            ahead_m = 0.0 if on_foot else length / 2.0
            mover = _mover(str(number), pose, velocity, ahead_m, on_foot=on_foot)
            mover.length, mover.width = max(length, 0.1), max(width, 0.1)
            (people if on_foot else vehicles).append(mover)
        return self._senses.values(time_s, ego, vehicles, people)


def _spread(items: Sequence[Any], parts: Sequence[str], name: str) -> Iterator[Any]:
    if "*" not in parts:
        for item in items:
            yield field_of(item, parts, name, "")
        return
    at = list(parts).index("*")
    for item in items:
        listed = _listed(field_of(item, parts[:at], name, ""), name)
        yield from _spread(listed, parts[at + 1 :], name)


def _listed(value: Any, name: str) -> Any:
    """Checks that a value is a list of limited length, and returns it."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
        raise InvalidTrace(f"the field {name:.200} is not a list")
    if len(value) > MOST_OBJECTS:
        raise InvalidTrace(f"the field {name:.200} has more than {MOST_OBJECTS} items")
    return value


def _mover(
    name: str, pose: Any, velocity: Any, ahead_m: float, *, on_foot: bool = False
) -> Mover:
    """Returns a road user whose front is at the given distance ahead of its pose."""
    x, y = (_number(field_of(pose, ["position", axis], name, "")) for axis in "xy")
    qx, qy, qz, qw = (
        _number(field_of(pose, ["orientation", axis], name, "")) for axis in "xyzw"
    )
    heading = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
    vx, vy = (_number(field_of(velocity, [axis], name, "")) for axis in "xy")
    speed = math.hypot(vx, vy)
    if on_foot and speed > 0.0:
        heading += math.atan2(
            vy, vx
        )  # the heading of a pedestrian is the direction of motion
    x += ahead_m * math.cos(heading)
    y += ahead_m * math.sin(heading)
    return Mover(name, x, y, heading, speed, 0.0, 0.0, on_foot=on_foot)


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidTrace(f"{value!r:.60} is not a number")
    return number


def _plain(value: Any) -> Any:
    """Converts a NumPy number from a bag to a Python number."""
    return value.item() if hasattr(value, "item") else value
