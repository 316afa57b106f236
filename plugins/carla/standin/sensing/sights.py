"""Lidars and radars, and all that looks: what they see, in CARLA's formats."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

import numpy as np

from forewarn.plugins.carla.standin import encoding
from forewarn.plugins.carla.standin.actors import Actor, Sensor
from forewarn.plugins.carla.standin.encoding import Refusal
from forewarn.plugins.carla.standin.sensing.cameras import CAMERAS, Lens, camera
from forewarn.plugins.carla.standin.sensing.surroundings import (
    SKY,
    Floats,
    Hits,
    Surroundings,
    rotation,
)

MOST_PIXELS = 1920 * 1200
MOST_POINTS = 200_000

_MOST_CHANNELS = 256


def check(sensor: Sensor) -> None:
    """Refuses a sensor that would see more than this server computes."""
    if sensor.kind.startswith("sensor.camera."):
        width, height = Lens.of(sensor).size
        if not 0 < width * height <= MOST_PIXELS:
            raise Refusal(f"an image of {width} x {height} is too large for here")
    if sensor.kind.startswith("sensor.lidar."):
        channels = int(sensor.attribute("channels", "32"))
        if not 0 < channels <= _MOST_CHANNELS:
            raise Refusal(f"a lidar of {channels} channels is not known here")


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
    theirs = [carriers.get(number, _STILL) for number in hits.number[seen].tolist()]
    world = rays[seen] @ rotation(*sensor.at[3:]).T
    moves = np.array(theirs, np.float64).reshape(-1, 3) - own
    speed = np.einsum("ij,ij->i", moves, world)
    rows = [speed, azimuth[seen], altitude[seen], hits.far[seen]]
    return np.stack(rows, axis=-1).astype("<f4").tobytes()


Carriers = Mapping[int, encoding.Vector]
"""How fast each actor moves."""

Sight = Callable[[Sensor, Surroundings, float, Carriers], bytes]
SIGHTS: Mapping[str, tuple[int, Sight]] = {
    **{name: (kind, camera(draw)) for name, (kind, draw) in CAMERAS.items()},
    "sensor.lidar.ray_cast": (encoding.LIDAR, lidar),
    "sensor.lidar.ray_cast_semantic": (encoding.SEMANTIC_LIDAR, semantic_lidar),
    "sensor.other.radar": (encoding.RADAR, radar),
}
_STILL: encoding.Vector = (0.0, 0.0, 0.0)


def _directions(azimuth: Floats, altitude: Floats) -> Floats:
    flat = np.cos(altitude)
    rays = [flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(altitude)]
    return np.stack(rays, axis=-1).astype(np.float32)


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
        hits.far[back], hits.label[back], hits.number[back], hits.cosine[back],
    )  # fmt: skip
    return rays[back], kept, [int(count) for count in counts], sensor.angle


def _cloud_header(angle: float, counts: list[int]) -> bytes:
    return struct.pack(f"<fI{len(counts)}I", angle, len(counts), *counts)


def velocities(actors: Mapping[int, Actor]) -> Carriers:
    return {number: actor.velocity for number, actor in actors.items()}
