"""The objects that rays can hit: flat ground with labels from the map, and actors'
boxes.

Buildings, trees and shadows are not simulated. The scene suffices to test that images
and points arrive, and that objects ahead of a sensor appear ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from forewarn.standins.carla.actors import (
    BOARD,
    LAMP,
    ROAD,
    Actor,
    Pose,
    TrafficLight,
    TrafficSign,
    Vehicle,
)
from forewarn.standins.carla.motion import solid

if TYPE_CHECKING:
    from forewarn.standins.carla.roads import Roads


Floats = NDArray[np.floating[Any]]
Bytes = NDArray[np.uint8]

TERRAIN, SKY, SIDEWALK, MARKING = 10, 11, 2, 24
PALETTE: Final[Bytes] = np.zeros((256, 3), np.uint8)
"""The RGB colour of each label."""
for _label, _colour in {
    ROAD: (92, 92, 96), SIDEWALK: (150, 146, 140), TERRAIN: (86, 120, 70),
    SKY: (150, 190, 230), MARKING: (235, 235, 235),
}.items():  # fmt: skip
    PALETTE[_label] = _colour

_GRAIN_M = 0.25
FURTHEST_M = 1000.0
SEEN_M = 200.0
_MOST_PIXELS = 40_000_000
_SIGNAL_COLOURS = ((220, 30, 30), (230, 200, 30), (30, 200, 60), (40, 40, 40))
_LAMP_HALF = (0.2, 0.2, 0.5)
_SIGN_COLOUR, _SIGN_HALF = (200, 40, 40), (0.4, 0.05, 0.4)
_BESIDE_M = 2.0
_STROKES = 48


@dataclass(frozen=True, slots=True)
class Body:
    """A box that rays can hit."""

    number: int
    label: int
    colour: tuple[int, int, int]
    middle: tuple[float, float, float]
    yaw: float
    half: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Hits:
    """The first hit of each ray, and its distance as a multiple of the ray vector.

    `cosine` is the cosine of the angle of incidence on the ground.
    """

    far: Floats
    label: Bytes
    number: NDArray[np.uint32]
    cosine: Floats


class Ground:
    """The labels of the ground, computed once per map."""

    def __init__(self, roads: Roads) -> None:
        rows: list[tuple[float, float, float, float, bool]] = []
        for point in roads.map.generate_waypoints(_GRAIN_M * 0.8):
            place, turn = point.transform.location, point.transform.rotation
            rows.append(
                (place.x, place.y, math.radians(turn.yaw), point.lane_width,
                 point.is_junction)
            )  # fmt: skip
        table = np.array(rows or [(0.0, 0.0, 0.0, 1.0, True)])
        low = table[:, :2].min(axis=0) - 20.0
        size = (table[:, :2].max(axis=0) + 20.0 - low) / _GRAIN_M
        grain = _GRAIN_M * max(1.0, math.sqrt(size[0] * size[1] / _MOST_PIXELS))
        self._low, self._grain = low, grain
        wide, high = (int(n) for n in size * _GRAIN_M / grain + 1)
        self._labels = np.full((high, wide), TERRAIN, np.uint8)
        self._paint(table, SIDEWALK, _BESIDE_M)
        self._paint(table, ROAD, 0.0)
        self._mark(table[table[:, 4] == 0.0])

    def _paint(self, table: Any, label: int, beside_m: float) -> None:
        width = table[:, 3] + 2.0 * beside_m
        for share in np.linspace(-0.5, 0.5, _STROKES):
            self._dot(table, share * width, label)

    def _mark(self, table: Any) -> None:
        for side in (-0.5, 0.5):
            self._dot(table, side * table[:, 3], MARKING)

    def _dot(self, table: Any, aside: Any, label: int) -> None:
        x = table[:, 0] - np.sin(table[:, 2]) * aside
        y = table[:, 1] + np.cos(table[:, 2]) * aside
        column = ((x - self._low[0]) / self._grain).astype(np.int64)
        row = ((y - self._low[1]) / self._grain).astype(np.int64)
        fits = (column >= 0) & (row >= 0)
        fits &= (column < self._labels.shape[1]) & (row < self._labels.shape[0])
        self._labels[row[fits], column[fits]] = label

    def labels(self, x: Floats, y: Floats) -> Bytes:
        """Returns the labels of the ground at the given points."""
        high, wide = self._labels.shape
        share = np.float32(1.0 / self._grain)
        column = ((x - np.float32(self._low[0])) * share).astype(np.int32)
        row = ((y - np.float32(self._low[1])) * share).astype(np.int32)
        # The border of the grid is terrain, so points outside it can be clipped to the
        # border.
        np.clip(column, 0, wide - 1, out=column)
        np.clip(row, 0, high - 1, out=row)
        row *= wide
        row += column
        found: Bytes = self._labels.ravel().take(row)
        return found


class Surroundings:
    """The ground and the boxes of all actors at one point in time."""

    def __init__(self, ground: Ground, actors: Iterable[Actor]) -> None:
        self.ground = ground
        self._bodies = [body for actor in actors for body in _bodies(actor)]

    def near(self, x: float, y: float, carrier: int) -> Iterator[tuple[Body, float]]:
        """Yields the boxes within sight of a point, with their distances in metres."""
        for body in self._bodies:
            apart = math.dist(body.middle[:2], (x, y))
            if apart <= SEEN_M and body.number != carrier:
                yield body, apart

    def cast(self, origin: Pose, rays: Floats, carrier: int) -> Hits:
        """Returns the first hit of each ray from a point.

        Args:
            origin: The pose from which the rays start; their directions are relative to
                it.
            rays: The directions of the rays, which may have any length; x, y and z are
                along the last axis.
            carrier: The id of the actor that carries the sensor; rays pass through this
                actor.
        """
        x, y, z, pitch, yaw, roll = origin
        shape = rays.shape[:-1]
        turn = rotation(pitch, yaw, roll)
        turned = rays.reshape(-1, 3) @ turn.T
        dx, dy, dz = turned[:, 0], turned[:, 1], turned[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(dz < -1e-6, -z / dz, np.float32(np.inf)).astype(np.float32)
        far = np.where(far >= 0.0, far, np.float32(np.inf))
        near = far < FURTHEST_M
        label = np.full(len(far), SKY, np.uint8)
        label[near] = self.ground.labels(
            x + far[near] * dx[near], y + far[near] * dy[near]
        )
        far = np.where(near, far, np.float32(FURTHEST_M))
        number = np.zeros(len(far), np.uint32)
        cosine = np.abs(dz)
        lengths = np.sqrt(np.einsum("ij,ij->i", turned, turned))
        for body, apart in self.near(x, y, carrier):
            chosen = _toward(body, (x, y, z), turned, lengths, apart)
            if not len(chosen):
                continue
            hit, way = _meets(body, (x, y, z), turned[chosen])
            closer = hit & (way < far[chosen])
            which = chosen[closer]
            far[which] = way[closer]
            label[which] = body.label
            number[which] = body.number
        return Hits(
            far.reshape(shape), label.reshape(shape), number.reshape(shape),
            cosine.reshape(shape),
        )  # fmt: skip


def rotation(pitch: float, yaw: float, roll: float) -> Floats:
    """Returns the matrix that converts vectors from a rotated frame to the world frame.

    Angles are in degrees and follow CARLA's convention.
    """
    cp, cy, cr = (math.cos(math.radians(a)) for a in (pitch, yaw, roll))
    sp, sy, sr = (math.sin(math.radians(a)) for a in (pitch, yaw, roll))
    return np.array(
        [
            [cp * cy, cy * sp * sr - sy * cr, -cy * sp * cr - sy * sr],
            [cp * sy, sy * sp * sr + cy * cr, -sy * sp * cr + cy * sr],
            [sp, -cp * sr, cp * cr],
        ],
        np.float32,
    )


def _bodies(actor: Actor) -> Iterable[Body]:
    x, y, z, _, yaw, _ = actor.at
    if isinstance(actor, TrafficLight):
        shown = _SIGNAL_COLOURS[min(actor.colour, 3)]
        yield Body(actor.number, LAMP, shown, (x, y, z), yaw, _LAMP_HALF)
    elif isinstance(actor, TrafficSign):
        yield Body(actor.number, BOARD, _SIGN_COLOUR, (x, y, z), yaw, _SIGN_HALF)
    elif solid(actor):
        label = actor.tags[0] if actor.tags else 20
        middle = x, y, z + actor.half[2]
        yield Body(actor.number, label, _colour_of(actor), middle, yaw, actor.half)


def _colour_of(actor: Actor) -> tuple[int, int, int]:
    if isinstance(actor, Vehicle):
        parts = actor.attribute("color", "140,140,150").split(",")
        if len(parts) == 3 and all(part.strip().isdecimal() for part in parts):
            r, g, b = (min(255, int(part)) for part in parts)
            return r, g, b
        return 140, 140, 150
    return (190, 120, 90) if actor.kind.startswith("walker") else (200, 120, 40)


def _toward(
    body: Body,
    origin: tuple[float, float, float],
    rays: Floats,
    lengths: Floats,
    apart: float,
) -> NDArray[np.int64]:
    """Returns the indices of the rays that pass close enough to a body's centre to hit
    the body.
    """
    reach = math.hypot(*body.half)
    if apart <= 2.0 * reach:
        return np.arange(len(rays))
    way = np.array(body.middle, np.float32) - np.array(origin, np.float32)
    length = float(np.linalg.norm(way))
    bound = math.cos(math.asin(min(1.0, reach / length))) * 0.999
    return np.flatnonzero(rays @ (way / length) > bound * lengths)


def _meets(
    body: Body, origin: tuple[float, float, float], rays: Floats
) -> tuple[NDArray[np.bool_], Floats]:
    """Returns whether each ray hits a box, and the distance as a multiple of the ray
    vector.
    """
    turn = rotation(0.0, body.yaw, 0.0)
    start = (np.array(origin, np.float32) - np.array(body.middle, np.float32)) @ turn
    inside = rays @ turn
    half = np.array(body.half, np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-half - start) / inside, (half - start) / inside
    entries = np.minimum(one, other)
    near, far = entries.max(axis=1), np.maximum(one, other).min(axis=1)
    return (near <= far) & (far > 0.0) & (near > 0.0), near
