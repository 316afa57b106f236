"""Cameras and lidars, which detect the ground and the bounding boxes of actors."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from forewarn.standins.carla import actors
from forewarn.standins.carla.actors import Refusal, Sensor
from forewarn.standins.carla.surroundings import (
    PALETTE,
    SKY,
    Floats,
    Hits,
    Surroundings,
)

_IMAGE = struct.Struct("<IIf")
_DEEPEST_M = 1000.0


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

    @property
    def corner(self) -> float:
        """The angle between the camera's axis and the corner of the image."""
        return math.atan(math.hypot(self.width, self.height) / (2.0 * self.focal))

    def head(self) -> bytes:
        return _IMAGE.pack(self.width, self.height, self.fov)


@lru_cache(maxsize=8)
def _rays(lens: Lens) -> Floats:
    """Returns the rays through the pixels, each of length 1 along the camera's axis."""
    rays = np.ones((lens.height, lens.width, 3), np.float32)
    rays[..., 1] = (np.arange(lens.width) + 0.5 - lens.width / 2.0) / lens.focal
    up = (lens.height / 2.0 - np.arange(lens.height) - 0.5) / lens.focal
    rays[..., 2] = up[:, None]
    return rays


def camera(draw: Draw) -> Sight:
    """Returns a function that computes camera frames in the format that `draw`
    produces.
    """

    def sight(sensor: Sensor, around: Surroundings, dt: float) -> bytes:
        lens = Lens.of(sensor)
        return lens.head() + draw(
            around.cast(sensor.at, _rays(lens), sensor.parent, lens.corner), around
        )

    return sight


# -- kinds ----------------------------------------------------------------------------


def rgb(hits: Hits, around: Surroundings) -> bytes:
    colours = np.full((len(PALETTE) + len(around.bodies), 4), 255, np.uint8)
    colours[:, 2::-1] = [*PALETTE, *(body.colour for body in around.bodies)]
    code = np.where(hits.body < 0, hits.label, hits.body + len(PALETTE))
    return bytes(colours.view("<u4").ravel().take(code).tobytes())


def depth(hits: Hits, around: Surroundings) -> bytes:
    far = np.minimum(hits.far.astype(np.float64) / _DEEPEST_M, 1.0)
    code = (far * (2**24 - 1)).astype(np.uint32)
    # The lowest eight bits go into the red channel, which is the third byte.
    swapped = (code & 255) << 16 | (code & 0xFF00) | code >> 16
    return (swapped | 255 << 24).astype("<u4").tobytes()


def semantic(hits: Hits, around: Surroundings) -> bytes:
    return (hits.label.astype("<u4") << 16 | 255 << 24).tobytes()


Draw = Callable[[Hits, Surroundings], bytes]
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
    numbers = np.array([*(body.number for body in around.bodies), 0], np.uint32)
    rows["number"], rows["label"] = numbers[hits.body], hits.label
    rows["cosine"] = hits.cosine
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
        hits.far[back], hits.label[back], hits.body[back], hits.cosine[back],
    )  # fmt: skip
    return rays[back], kept, [int(count) for count in counts], sensor.angle


def _cloud_header(angle: float, counts: list[int]) -> bytes:
    return struct.pack(f"<fI{len(counts)}I", angle, len(counts), *counts)
