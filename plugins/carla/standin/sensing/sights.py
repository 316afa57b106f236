"""Cameras, lidars and radars: what they see, in CARLA's formats."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from forewarn.plugins.carla.standin import encoding
from forewarn.plugins.carla.standin.actors import Actor, Sensor
from forewarn.plugins.carla.standin.encoding import Refusal
from forewarn.plugins.carla.standin.sensing.surroundings import (
    SKY,
    Bytes,
    Floats,
    Hits,
    Indices,
    Surroundings,
    rotation,
)

MOST_PIXELS = 1920 * 1200
MOST_POINTS = 200_000

_IMAGE = struct.Struct("<IIf")
_DEEPEST_M = 1000.0
_MOST_CHANNELS = 256


def check(sensor: Sensor) -> None:
    """Refuses a sensor that would see more than this server computes."""
    if sensor.kind.startswith("sensor.camera."):
        width, height, _ = _image_size(sensor)
        if not 0 < width * height <= MOST_PIXELS:
            raise Refusal(f"an image of {width} x {height} is too large for here")
    if sensor.kind.startswith("sensor.lidar."):
        channels = int(sensor.attribute("channels", "32"))
        if not 0 < channels <= _MOST_CHANNELS:
            raise Refusal(f"a lidar of {channels} channels is not known here")


def rgb(sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers) -> bytes:
    return _picture(sensor, _look(sensor, around).colour[..., ::-1])


def semantic(
    sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers
) -> bytes:
    label = _look(sensor, around).label
    return _picture(sensor, np.stack([label * 0, label * 0, label], axis=-1))


def depth(sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers) -> bytes:
    far = np.minimum(_look(sensor, around).far / _DEEPEST_M, 1.0)
    code = (far.astype(np.float64) * (2**24 - 1)).astype(np.uint32)
    parts = [(code >> shift) & 255 for shift in (16, 8, 0)]
    return _picture(sensor, np.stack(parts, axis=-1).astype(np.uint8))


def lidar(sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers) -> bytes:
    rays, hits, counts, angle = _sweep(sensor, around, dt)
    far = hits.far[:, None]
    loss = float(sensor.attribute("atmosphere_attenuation_rate", "0.004"))
    bright = np.exp(-loss * far)
    body = np.hstack([rays * far, bright]).astype("<f4").tobytes()
    return _cloud_header(angle, counts) + body


def semantic_lidar(
    sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers
) -> bytes:
    rays, hits, counts, angle = _sweep(sensor, around, dt)
    row = np.dtype(
        [("at", "<f4", 3), ("cosine", "<f4"), ("number", "<u4"), ("label", "<u4")]
    )
    rows = np.zeros(len(rays), row)
    rows["at"] = rays * hits.far[:, None]
    rows["cosine"], rows["number"], rows["label"] = hits.cosine, hits.number, hits.label
    return _cloud_header(angle, counts) + rows.tobytes()


def radar(sensor: Sensor, around: Surroundings, dt: float, carriers: Carriers) -> bytes:
    """Rays spread evenly over the field of view."""
    reach = float(sensor.attribute("range", "100"))
    wide = math.radians(float(sensor.attribute("horizontal_fov", "30")))
    high = math.radians(float(sensor.attribute("vertical_fov", "30")))
    count = int(
        min(MOST_POINTS, dt * float(sensor.attribute("points_per_second", "0")))
    )
    steps = np.arange(count)
    # Two irrational steps fill the field without drawing from chance.
    azimuth = wide * ((steps * 0.7548776662 + 0.5) % 1.0 - 0.5)
    altitude = high * ((steps * 0.5698402910 + 0.5) % 1.0 - 0.5)
    rays = _directions(azimuth, altitude)
    hits = around.cast(sensor.at, rays, sensor.parent)
    seen = (hits.far <= reach) & (hits.label != SKY)
    own = np.array(carriers.get(sensor.parent, _STILL), np.float64)
    rows = []
    for n in np.flatnonzero(seen):
        theirs = np.array(carriers.get(int(hits.number[n]), _STILL), np.float64)
        world = _in_world(sensor, rays[n])
        speed = float(np.dot(theirs - own, world))
        rows.append((speed, azimuth[n], altitude[n], hits.far[n]))
    return np.array(rows, "<f4").reshape(-1, 4).tobytes()


Carriers = Mapping[int, encoding.Vector]
"""How fast each actor moves."""

Sight = Callable[[Sensor, Surroundings, float, Carriers], bytes]
SIGHTS: Mapping[str, tuple[int, Sight]] = {
    "sensor.camera.rgb": (encoding.RGB, rgb),
    "sensor.camera.depth": (encoding.DEPTH, depth),
    "sensor.camera.semantic_segmentation": (encoding.SEMANTIC, semantic),
    "sensor.lidar.ray_cast": (encoding.LIDAR, lidar),
    "sensor.lidar.ray_cast_semantic": (encoding.SEMANTIC_LIDAR, semantic_lidar),
    "sensor.other.radar": (encoding.RADAR, radar),
}
_STILL: encoding.Vector = (0.0, 0.0, 0.0)


def _image_size(sensor: Sensor) -> tuple[int, int, float]:
    width = int(sensor.attribute("image_size_x", "800"))
    height = int(sensor.attribute("image_size_y", "600"))
    return width, height, float(sensor.attribute("fov", "90"))


@lru_cache(maxsize=8)
def _pixels(width: int, height: int, fov: float) -> Floats:
    """The rays of an image's pixels, each with one unit ahead."""
    focal = width / (2.0 * math.tan(math.radians(min(170.0, max(1.0, fov))) / 2.0))
    right = (np.arange(width) + 0.5 - width / 2.0) / focal
    up = (height / 2.0 - np.arange(height) - 0.5) / focal
    rays = np.ones((height, width, 3), np.float32)
    rays[..., 1], rays[..., 2] = right[None, :], up[:, None]
    return rays


def _look(sensor: Sensor, around: Surroundings) -> Hits:
    width, height, fov = _image_size(sensor)
    rays = _pixels(width, height, fov)
    focal = 1.0 / float(rays[0, 1, 1] - rays[0, 0, 1]) if width > 1 else 1.0
    every = np.arange(width * height)

    def window(middle: Floats, radius: float) -> Indices:
        """The pixels of the square that a ball fits in."""
        ahead, right, up = middle
        if ahead < -radius:
            return every[:0]
        if ahead <= 1.5 * radius:
            return every
        reach = focal * radius / (ahead - radius)
        column, row = width / 2.0 + focal * right / ahead, height / 2.0
        row -= focal * up / ahead
        left, over = max(0, int(column - reach)), max(0, int(row - reach))
        columns = np.arange(left, min(width, int(column + reach) + 2))
        rows = np.arange(over, min(height, int(row + reach) + 2))
        return (rows[:, None] * width + columns).ravel()

    return around.cast(sensor.at, rays, sensor.parent, window)


def _picture(sensor: Sensor, blue_green_red: Bytes) -> bytes:
    width, height, fov = _image_size(sensor)
    image = np.full((height, width, 4), 255, np.uint8)
    image[..., :3] = blue_green_red
    return _IMAGE.pack(width, height, fov) + image.tobytes()


def _directions(azimuth: Floats, altitude: Floats) -> Floats:
    flat = np.cos(altitude)
    rays = [flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(altitude)]
    return np.stack(rays, axis=-1).astype(np.float32)


def _in_world(sensor: Sensor, ray: Floats) -> Floats:
    turned: Floats = rotation(*sensor.at[3:]) @ ray
    return turned


def _sweep(
    sensor: Sensor, around: Surroundings, dt: float
) -> tuple[Floats, Hits, list[int], float]:
    """One step of a lidar that turns: channel by channel, what came back."""
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
        hits.far[back], hits.label[back], hits.colour[back], hits.number[back],
        hits.cosine[back],
    )  # fmt: skip
    return rays[back], kept, [int(count) for count in counts], sensor.angle


def _cloud_header(angle: float, counts: list[int]) -> bytes:
    return struct.pack(f"<fI{len(counts)}I", angle, len(counts), *counts)


def velocities(actors: Mapping[int, Actor]) -> Carriers:
    return {number: actor.velocity for number, actor in actors.items()}
