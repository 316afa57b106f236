"""Cameras and lidars, which detect the ground and the bounding boxes of actors."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forewarn.standins.carla import actors
from forewarn.standins.carla.actors import Pose, Refusal, Sensor
from forewarn.standins.carla.surroundings import (
    FURTHEST_M,
    PALETTE,
    SKY,
    Body,
    Floats,
    Hits,
    Surroundings,
    rotation,
)

_IMAGE = struct.Struct("<IIf")
_DEEPEST_M = 1000.0
_NEAR_M = 0.05
_LABELS: Final = len(PALETTE)
_FACES: Final = 6
_SHADES = np.repeat([0.8, 1.0, 1.15], 2)


@dataclass(frozen=True, slots=True)
class Lens:
    """A camera's image size and field of view."""

    width: int
    height: int
    fov: float

    @classmethod
    def of(cls, sensor: Sensor) -> Lens:
        width = int(sensor.attribute("image_size_x", "800"))
        height = int(sensor.attribute("image_size_y", "600"))
        return cls(width, height, float(sensor.attribute("fov", "90")))

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    @property
    def focal(self) -> float:
        """The focal length in pixels."""
        half = math.radians(min(170.0, max(1.0, self.fov))) / 2.0
        return self.width / (2.0 * math.tan(half))

    def head(self) -> bytes:
        return _IMAGE.pack(self.width, self.height, self.fov)


@dataclass(frozen=True, slots=True)
class Level:
    """The part of a camera's rays that does not depend on the camera's yaw and
    horizontal position.

    Args:
        ways: The ray vectors at yaw 0, scaled so that their component along the
            camera's axis is 1.
        far: The distance to the ground along each ray, as a multiple of the ray vector.
        first: The index of the first ray that hits the ground; all later rays are
            assumed to hit the ground.
        there: The points where the rays from `first` on hit the ground, relative to the
            camera.
    """

    ways: tuple[Floats, Floats, Floats]
    far: Floats
    first: int
    there: tuple[Floats, Floats]


@lru_cache(maxsize=8)
def _level(lens: Lens, pitch: float, roll: float, z: float) -> Level:
    right = (np.arange(lens.width) + 0.5 - lens.width / 2.0) / lens.focal
    up = (lens.height / 2.0 - np.arange(lens.height) - 0.5) / lens.focal
    rays = np.ones((lens.height, lens.width, 3), np.float32)
    rays[..., 1], rays[..., 2] = right[None, :], up[:, None]
    ways = rays @ rotation(pitch, 0.0, roll).T
    x, y, down = (np.ascontiguousarray(ways[..., i]) for i in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(down < -1e-6, -z / down, np.inf).astype(np.float32)
    far[~((far >= 0.0) & (far < FURTHEST_M))] = FURTHEST_M
    met = np.flatnonzero(far.ravel() < FURTHEST_M)
    first = int(met[0]) if len(met) else far.size
    there = (
        far.ravel()[first:] * x.ravel()[first:],
        far.ravel()[first:] * y.ravel()[first:],
    )
    return Level((x, y, down), far, first, there)


@dataclass(frozen=True, slots=True)
class Picture:
    """The content and the distance of each pixel of an image.

    Args:
        lens: The camera's lens.
        level: The camera's rays.
        far: The distance of each pixel's content, as a multiple of the ray vector.
        code: A code for the content of each pixel. Codes below 256 are labels of the
            ground or the sky. The codes from 256 on stand for the faces of bodies, six
            for each body.
        bodies: The bodies in the order of their codes.
    """

    lens: Lens
    level: Level
    far: Floats
    code: NDArray[np.uint16]
    bodies: list[Body]

    def table(self, of: Callable[[Body], int]) -> NDArray[np.uint32]:
        """Returns a value for each code: the label itself, or the body's value from
        `of`.
        """
        values = [of(body) for body in self.bodies]
        rows = np.repeat(np.array(values, np.uint32), _FACES)
        return np.concatenate([np.arange(_LABELS, dtype=np.uint32), rows])


def look(sensor: Sensor, around: Surroundings) -> Picture:
    """Computes what a camera currently sees."""
    lens = Lens.of(sensor)
    x, y, z, pitch, yaw, roll = sensor.at
    level = _level(lens, pitch, roll, z)
    turn = math.radians(yaw)
    cosine, sine = np.float32(math.cos(turn)), np.float32(math.sin(turn))
    ahead, aside = level.there
    flat = np.full(lens.height * lens.width, SKY, np.uint16)
    ground = around.ground.labels(
        np.float32(x) + cosine * ahead - sine * aside,
        np.float32(y) + sine * ahead + cosine * aside,
    )
    flat[level.first :] = ground
    if roll or pitch:
        # A tilted camera can have rays after `first` that do not hit the ground.
        flat[level.far.ravel() >= FURTHEST_M] = SKY
    code = flat.reshape(lens.height, lens.width)
    picture = Picture(lens, level, level.far.copy(), code, [])
    for body, _ in around.near(x, y, sensor.parent):
        _draw(picture, sensor.at, body)
    return picture


def _draw(picture: Picture, at: Pose, body: Body) -> None:
    """Draws a box over everything behind it."""
    window = _window(picture.lens, at, body)
    if window is None:
        return
    turn = math.radians(at[4] - body.yaw)
    cosine, sine = np.float32(math.cos(turn)), np.float32(math.sin(turn))
    ahead, aside, up = (way[window] for way in picture.level.ways)
    ways = (ahead * cosine - aside * sine, ahead * sine + aside * cosine, up)
    start = np.subtract(at[:3], body.middle) @ rotation(0.0, body.yaw, 0.0)
    entries, ends = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for place, way, half in zip(start.tolist(), ways, body.half, strict=True):
            inverse = np.float32(1.0) / way
            one, other = (-half - place) * inverse, (half - place) * inverse
            entries.append(np.minimum(one, other))
            ends.append(np.maximum(one, other))
    near = np.maximum(np.maximum(entries[0], entries[1]), entries[2])
    end = np.minimum(np.minimum(ends[0], ends[1]), ends[2])
    far, code = picture.far[window], picture.code[window]
    hit = (near <= end) & (near > _NEAR_M) & (near < far)
    if not hit.any():
        return
    reached = near[hit]
    far[hit] = reached
    axis = np.where(entries[0][hit] == reached, 0, 2)
    axis[entries[1][hit] == reached] = 1
    forth = np.choose(axis, [way[hit] < 0.0 for way in ways])
    code[hit] = _LABELS + _FACES * len(picture.bodies) + 2 * axis + forth
    picture.bodies.append(body)


_CORNERS: Final = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
_EDGES: Final = np.array(
    [
        (i, j)
        for i, j in itertools.combinations(range(8), 2)
        if np.count_nonzero(_CORNERS[i] != _CORNERS[j]) == 1
    ]
).T


def _window(lens: Lens, at: Pose, body: Body) -> tuple[slice, slice] | None:
    """Returns the rows and columns of pixels that a box can occupy, or None if the box
    is out of view.
    """
    corners = _CORNERS * body.half @ rotation(0.0, body.yaw, 0.0).T
    seen = (corners + np.subtract(body.middle, at[:3])) @ rotation(*at[3:])
    hidden = seen[:, 0] <= _NEAR_M
    if hidden.all():
        return None
    if hidden.any():
        # Edges of a box that extend behind the camera are clipped.
        one, other = seen[_EDGES]
        cut = hidden[_EDGES[0]] != hidden[_EDGES[1]]
        one, other = one[cut], other[cut]
        share = (_NEAR_M - one[:, :1]) / (other[:, :1] - one[:, :1])
        seen = np.concatenate([seen[~hidden], one + share * (other - one)])
    ahead, right, up = seen.T
    columns = lens.width / 2.0 + lens.focal * right / ahead
    rows = lens.height / 2.0 - lens.focal * up / ahead
    left, end = max(0, int(columns.min())), min(lens.width, int(columns.max()) + 1)
    over, under = max(0, int(rows.min())), min(lens.height, int(rows.max()) + 1)
    if left >= end or over >= under:
        return None
    return slice(over, under), slice(left, end)


def camera(draw: Draw) -> Sight:
    """Returns a function that computes camera frames in the format that `draw`
    produces.
    """

    def sight(sensor: Sensor, around: Surroundings, dt: float) -> bytes:
        picture = look(sensor, around)
        return picture.lens.head() + draw(picture)

    return sight


# -- kinds ----------------------------------------------------------------------------


def rgb(picture: Picture) -> bytes:
    return _colours(picture)[picture.code].tobytes()


def depth(picture: Picture) -> bytes:
    far = np.minimum(picture.far.astype(np.float64) / _DEEPEST_M, 1.0)
    code = (far * (2**24 - 1)).astype(np.uint32)
    # The lowest eight bits go into the red channel, which is the third byte.
    swapped = (code & 255) << 16 | (code & 0xFF00) | code >> 16
    return (swapped | 255 << 24).astype("<u4").tobytes()


def semantic(picture: Picture) -> bytes:
    table = picture.table(lambda body: body.label) << 16 | 255 << 24
    return bytes(table.astype("<u4")[picture.code].tobytes())


def _colours(picture: Picture) -> NDArray[np.uint32]:
    """Returns the colour of each code as an opaque BGRA value."""
    rows = np.zeros((_LABELS + _FACES * len(picture.bodies), 4), np.uint8)
    rows[:_LABELS, :3], rows[:, 3] = PALETTE[:, ::-1], 255
    for index, body in enumerate(picture.bodies):
        start = _LABELS + _FACES * index
        tint = np.clip(np.outer(_SHADES, body.colour[::-1]), 0, 255)
        rows[start : start + _FACES, :3] = tint.astype(np.uint8)
    colours: NDArray[np.uint32] = rows.view("<u4").ravel()
    return colours


Draw = Callable[[Picture], bytes]
CAMERAS: Mapping[str, tuple[int, Draw]] = {
    "sensor.camera.rgb": (actors.RGB, rgb),
    "sensor.camera.depth": (actors.DEPTH, depth),
    "sensor.camera.semantic_segmentation": (actors.SEMANTIC, semantic),
}


MOST_PIXELS = 1920 * 1200
MOST_POINTS = 200_000

_MOST_CHANNELS = 256


def check(sensor: Sensor) -> None:
    """Raises `Refusal` if a sensor has more rays than the server supports."""
    if sensor.kind.startswith("sensor.camera."):
        width, height = Lens.of(sensor).size
        if not 0 < width * height <= MOST_PIXELS:
            raise Refusal(f"an image of {width} x {height} pixels is not supported")
    if sensor.kind.startswith("sensor.lidar."):
        channels = int(sensor.attribute("channels", "32"))
        if not 0 < channels <= _MOST_CHANNELS:
            raise Refusal(
                f"a lidar with {channels} channels is not supported (use 1 to 256)"
            )


def lidar(sensor: Sensor, around: Surroundings, dt: float) -> bytes:
    rays, hits, counts, angle = _sweep(sensor, around, dt)
    far = hits.far[:, None]
    loss = float(sensor.attribute("atmosphere_attenuation_rate", "0.004"))
    bright = np.exp(-loss * far)
    body = np.hstack([rays * far, bright]).astype("<f4").tobytes()
    return _cloud_header(angle, counts) + body


def semantic_lidar(sensor: Sensor, around: Surroundings, dt: float) -> bytes:
    rays, hits, counts, angle = _sweep(sensor, around, dt)
    row = np.dtype(
        [("at", "<f4", 3), ("cosine", "<f4"), ("number", "<u4"), ("label", "<u4")]
    )
    rows = np.zeros(len(rays), row)
    rows["at"] = rays * hits.far[:, None]
    rows["cosine"], rows["number"], rows["label"] = hits.cosine, hits.number, hits.label
    return _cloud_header(angle, counts) + rows.tobytes()


Sight = Callable[[Sensor, Surroundings, float], bytes]
SIGHTS: Mapping[str, tuple[int, Sight]] = {
    **{name: (kind, camera(draw)) for name, (kind, draw) in CAMERAS.items()},
    "sensor.lidar.ray_cast": (actors.LIDAR, lidar),
    "sensor.lidar.ray_cast_semantic": (actors.SEMANTIC_LIDAR, semantic_lidar),
}


def _directions(azimuth: Floats, altitude: Floats) -> Floats:
    flat = np.cos(altitude)
    rays = [flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(altitude)]
    return np.stack(rays, axis=-1).astype(np.float32)


def _sweep(
    sensor: Sensor, around: Surroundings, dt: float
) -> tuple[Floats, Hits, list[int], float]:
    """Rotates a lidar by one step.

    Returns the rays that hit something, their hits, the number of hits in each channel,
    and the new angle.
    """
    channels = int(sensor.attribute("channels", "32"))
    reach = float(sensor.attribute("range", "10"))
    rate = float(sensor.attribute("points_per_second", "56000"))
    turns = float(sensor.attribute("rotation_frequency", "10"))
    fov = math.radians(float(sensor.attribute("horizontal_fov", "360")))
    per_channel = int(max(1, min(MOST_POINTS, rate * dt) // channels))
    swept = fov * turns * dt
    angle = sensor.angle
    azimuth = (angle + swept * np.arange(per_channel) / per_channel) % fov - fov / 2.0
    sensor.angle = (angle + swept) % fov
    upper = math.radians(float(sensor.attribute("upper_fov", "10")))
    lower = math.radians(float(sensor.attribute("lower_fov", "-30")))
    altitude = np.linspace(upper, lower, channels)
    rays = _directions(np.tile(azimuth, channels), np.repeat(altitude, per_channel))
    hits = around.cast(sensor.at, rays, sensor.parent)
    back = (hits.far <= reach) & (hits.label != SKY)
    counts = back.reshape(channels, per_channel).sum(axis=1)
    kept = Hits(
        hits.far[back], hits.label[back], hits.number[back], hits.cosine[back],
    )  # fmt: skip
    return rays[back], kept, [int(count) for count in counts], sensor.angle


def _cloud_header(angle: float, counts: list[int]) -> bytes:
    return struct.pack(f"<fI{len(counts)}I", angle, len(counts), *counts)
