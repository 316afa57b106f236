"""What V2X sensors say to each other: awareness messages, and what clients send.

A message is the C structure that CARLA 0.9.16 puts on the wire, in the units of ETSI's
cooperative awareness messages (EN 302 637-2). It is heard where the power that is left
of it after a log-distance path loss is enough; walls and fading there are none.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from forewarn.plugins.carla.standin.actors import Actor, Sensor, Vehicle
from forewarn.plugins.carla.standin.encoding import Pose, Refusal
from forewarn.plugins.carla.standin.ground.roads import Roads

AWARE, CUSTOM = "sensor.other.v2x", "sensor.other.v2x_custom"
LONGEST: Final = 100
"""Bytes of a client's message."""

_POWER = struct.Struct("<f4x")
_HEADER = struct.Struct("<3q")
_BASIC = struct.Struct("<qq" + "2q3q2q")
_OFTEN = struct.Struct(
    "<q" + "2q2qq2qq2q2qq2q" + "1x1x1x5xq1x7x2q1x7x2q1x7x2q1x7xq1x7x32x"
)
_REST = struct.Struct("<32xq48x")
_CUSTOM = struct.Struct("<3q100s4x")
_VERSION, _AWARE_ID, _CUSTOM_ID = 2, 2, 0
_VEHICLE = 1
_UNKNOWN_CONFIDENCE, _UNKNOWN_TURN = 7, 8
_STATIONS = {"bicycle": 2, "motorcycle": 4, "car": 5, "van": 6, "truck": 7, "bus": 6}
_MOVED_M, _TURNED, _FASTER = 4.0, 4.0, 0.5
_LIGHT_HZ = 299_792_458.0


@dataclass(frozen=True, slots=True)
class Said:
    """When an awareness message was sent last, from where and how fast."""

    time_s: float
    at: Pose
    speed: float


class Radio:
    """The messages under way in one world."""

    def __init__(self) -> None:
        self._heard: dict[int, list[bytes]] = {}
        self._waiting: list[tuple[Sensor, bytes]] = []

    def send(self, sensor: Actor, text: str) -> None:
        """A client sends a message; the others hear it at the next tick."""
        data = text.encode()
        if not isinstance(sensor, Sensor) or sensor.kind != CUSTOM:
            raise Refusal(f"only {CUSTOM} sends messages")
        if len(data) > LONGEST:
            raise Refusal(f"a message has at most {LONGEST} bytes, not {len(data)}")
        body = _CUSTOM.pack(_VERSION, _CUSTOM_ID, sensor.parent, data)
        self._waiting.append((sensor, body))

    def exchange(
        self,
        sensors: Iterable[Sensor],
        actors: Mapping[int, Actor],
        roads: Roads,
        time_s: float,
    ) -> None:
        """Delivers what is said now; what nobody read of before is gone."""
        self._heard.clear()
        every = [sensor for sensor in sensors if sensor.kind in (AWARE, CUSTOM)]
        if not every:
            return
        for sensor in every:
            carrier = actors.get(sensor.parent)
            if sensor.kind == AWARE and isinstance(carrier, Vehicle):
                if _due(sensor, carrier, time_s):
                    sensor.seen = Said(time_s, carrier.at, carrier.speed)
                    self._tell(sensor, _awareness(carrier, roads, time_s), every)
        for sensor, body in self._waiting:
            self._tell(sensor, body, every)
        self._waiting.clear()

    def heard(self, sensor: Sensor) -> bytes | None:
        """What reached a sensor at this tick."""
        return b"".join(self._heard.pop(sensor.number, ())) or None

    def _tell(self, sender: Sensor, body: bytes, every: Iterable[Sensor]) -> None:
        channel = sender.attribute("channel_id", "")
        for other in every:
            same = other.kind == sender.kind
            same = same and other.attribute("channel_id", "") == channel
            if not same or other is sender or other.parent == sender.parent != 0:
                continue
            power = _power(sender, math.dist(sender.at[:3], other.at[:3]))
            if power >= float(other.attribute("receiver_sensitivity", "-99")):
                told = _POWER.pack(power) + body
                self._heard.setdefault(other.number, []).append(told)


def _due(sensor: Sensor, carrier: Vehicle, time_s: float) -> bool:
    """By ETSI's rules: when enough has changed, and after a time at any rate."""
    last = sensor.seen
    if last is None:
        return True
    waited = time_s - last.time_s + 1e-9
    if waited < float(sensor.attribute("gen_cam_min", "0.1")):
        return False
    if sensor.attribute("fixed_rate", "false").lower() == "true":
        return True
    turned = abs((carrier.at[4] - last.at[4] + 180.0) % 360.0 - 180.0)
    return (
        waited >= float(sensor.attribute("gen_cam_max", "1.0"))
        or math.dist(carrier.at[:2], last.at[:2]) > _MOVED_M
        or turned > _TURNED
        or abs(carrier.speed - last.speed) > _FASTER
    )


def _power(sender: Sensor, away_m: float) -> float:
    """What is left of a message's power, dBm."""
    sent = float(sender.attribute("transmit_power", "21.5"))
    sent += float(sender.attribute("combined_antenna_gain", "10.0"))
    reference = float(sender.attribute("d_ref", "1.0"))
    exponent = float(sender.attribute("path_loss_exponent", "2.7"))
    wave = 4.0e9 * math.pi * float(sender.attribute("frequency_ghz", "5.9")) / _LIGHT_HZ
    away = max(away_m, reference)
    if away > float(sender.attribute("filter_distance", "500.0")):
        return -math.inf
    lost = 20.0 * math.log10(reference * wave)
    return sent - lost - 10.0 * exponent * math.log10(away / reference)


def _awareness(carrier: Vehicle, roads: Roads, time_s: float) -> bytes:
    latitude, longitude, altitude = roads.geolocation(*carrier.at[:3])
    yaw = math.radians(carrier.at[4])
    ax, ay, _ = carrier.acceleration
    ahead = ax * math.cos(yaw) + ay * math.sin(yaw)
    station = _STATIONS.get(carrier.attribute("base_type", "car"), 0)
    # From north, clockwise; CARLA's x points east and its yaw turns clockwise.
    heading = round((carrier.at[4] + 90.0) % 360.0 * 10.0) % 3600
    long, wide, _ = carrier.half
    header = _HEADER.pack(_VERSION, _AWARE_ID, carrier.number)
    basic = _BASIC.pack(
        round(time_s * 1000.0) % 65536, station, round(latitude * 1e7),
        round(longitude * 1e7), 0, 0, 0, round(altitude * 100.0), 0,
    )  # fmt: skip
    often = _OFTEN.pack(
        _VEHICLE, heading, _UNKNOWN_CONFIDENCE, round(abs(carrier.speed) * 100.0),
        _UNKNOWN_CONFIDENCE, 0 if carrier.speed >= 0.0 else 1, round(long * 20.0), 0,
        round(wide * 20.0), round(ahead * 10.0), _UNKNOWN_CONFIDENCE, 0,
        _UNKNOWN_CONFIDENCE, 0, round(-carrier.spin[2] * 100.0), _UNKNOWN_TURN,
        0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    return header + basic + often + _REST.pack(0)
