"""Figures of docs/apollo.md: the bridge at 100 frames/s with 50 obstacles each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from run import Row

import forewarn.scenarios
from forewarn.abstractions.frame import Frame
from forewarn.apollo_bridge.channels import INPUTS, messages
from forewarn.apollo_bridge.frames import Publish, Reassembly, encode
from forewarn.apollo_bridge.lockstep import draw_map
from forewarn.apollo_bridge.maps import read_map
from forewarn.apollo_bridge.recordings import RecordedDrive, write_record
from forewarn.apollo_bridge.scene import Body
from forewarn.apollo_bridge.sense import ApolloSenses, provided
from forewarn.monitors.chains.model import load_model
from forewarn.plugins.driving.sense import Surroundings
from forewarn.plugins.loop.guarding import Guarding

OBSTACLES = 50
PERIOD_S = 0.01
BEGAN_S = 1_700_000_000.0
LINE_M = 200.0
"""The ego's initial distance in metres from the stop line; the drive is repeated."""

_KNOWN = messages()
_MODEL = Path(forewarn.scenarios.__file__).parent / "trained" / "s2.model.json.gz"


def obstacles(time_s: float) -> Any:
    """Returns cars on all roads of the crossing, and a few pedestrians on the
    crosswalks.
    """
    made = _KNOWN[INPUTS["obstacles"].type]()
    for i in range(OBSTACLES):
        each = made.perception_obstacle.add(id=i + 1, timestamp=time_s)
        along = 20.0 + (i * 17 + 8.0 * (time_s - BEGAN_S)) % 180.0
        x, y, theta, speed = [
            (-along, 4.875, np.pi, 8.0), (along, -4.875, 0.0, 8.0),
            (4.875, -along, np.pi / 2, 8.0), (-4.875, along, -np.pi / 2, 8.0),
            (14.0, -6.0 + (along % 12.0), np.pi / 2, 1.4),
        ][i % 5]  # fmt: skip
        walks = i % 5 == 4
        each.type = 3 if walks else 5
        each.position.x, each.position.y, each.theta = x, y, theta
        each.velocity.x, each.velocity.y = speed * np.cos(theta), speed * np.sin(theta)
        each.length, each.width = (0.4, 0.5) if walks else (4.6, 1.8)
        for _ in range(4):
            each.polygon_point.add(x=x, y=y, z=0.0)
    return made


def said(number: int) -> dict[str, Any]:
    """Returns the messages of one frame."""
    time_s = BEGAN_S + number * PERIOD_S
    made = {name: _KNOWN[channel.type]() for name, channel in INPUTS.items()}
    made["obstacles"] = obstacles(time_s)
    for each in made["obstacles"].perception_obstacle:
        foretold = made["prediction"].prediction_obstacle.add()
        foretold.perception_obstacle.CopyFrom(each)
        points = foretold.trajectory.add(probability=1.0).trajectory_point
        for i in range(40):
            path = points.add(relative_time=0.2 * i).path_point
            path.x = each.position.x + 1.6 * i * np.cos(each.theta)
            path.y = each.position.y + 1.6 * i * np.sin(each.theta)
    pose = made["localization"].pose
    pose.position.x = 16.0 + LINE_M - (number % 1400) * 0.1
    pose.position.y, pose.heading = 4.875, np.pi
    pose.linear_acceleration.x = pose.linear_acceleration.y = 0.0
    chassis = made["chassis"]
    chassis.speed_mps, chassis.driving_mode, chassis.gear_location = 10.0, 1, 1
    chassis.throttle_percentage = chassis.brake_percentage = 0.0
    for i in range(16):
        made["lights"].traffic_light.add(id=f"centre_{i}", color=1 + i % 3)
    for name in ("east_in_1", ":centre_5_0", "west_out_1"):
        made["planning"].lane_id.add(id=name)
    for i in range(80):
        made["planning"].trajectory_point.add(v=10.0, relative_time=0.1 * i)
    for message in made.values():
        message.header.timestamp_sec = time_s
    return made


def rows(quick: bool) -> Iterator[Row]:
    """Measures the time to the signals and the time to the decision, over at least 90 s
    of frames.
    """
    signals, whole = measured(1000 if quick else 9000)
    what = f"Apollo: {len(INPUTS)} channels, {OBSTACLES} obstacles"
    yield Row(f"{what}: messages to signals", float(np.median(signals)), 1e-3)
    slow = float(np.quantile(whole, 0.99))
    yield Row(f"{what}: bytes to decision, 99th percentile", slow, 3e-3)
    speed = replayed(500 if quick else 3000)
    yield Row(
        "Apollo: seconds of such a record that are read in 1 s", speed, 20.0, rate=True
    )


def replayed(count: int) -> float:
    """Returns how many seconds of a record with this many frames are read per
    second.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drive.record"
        write_record(
            path,
            (
                (INPUTS[name].name, message, round((BEGAN_S + i * PERIOD_S) * 1e9))
                for i in range(count)
                for name, message in said(i).items()
            ),
        )
        road_map, body = read_map(draw_map("crossing")), Body.of(4.8, 1.8)
        drive = RecordedDrive(path, _KNOWN, road_map, body=body)
        began = time.perf_counter()
        frames = sum("stop_line_distance" in f.values for f in drive.frames())
        took = time.perf_counter() - began
    assert frames == count / 10
    return count * PERIOD_S / took


def measured(count: int) -> tuple[list[float], list[float]]:
    """Returns the times in seconds from messages to signals, and from bytes to
    decisions.
    """
    told = Surroundings().model_dump()
    road_map = read_map(draw_map("crossing"))
    provides = provided(INPUTS, told)
    now_s = 0.0
    guard = Guarding([load_model(_MODEL)]).guard(provides, lambda: now_s)
    senses = ApolloSenses(road_map, Body.of(4.8, 1.8), told, PERIOD_S)
    names = {channel.name: name for name, channel in INPUTS.items()}
    types = {channel.name: _KNOWN[channel.type] for channel in INPUTS.values()}
    parts, signals, whole = Reassembly(), [], []
    for number in range(count):
        data = b"".join(
            encode(Publish(INPUTS[name].name, message.SerializeToString()))
            for name, message in said(number).items()
        )
        now_s = number * PERIOD_S
        began = time.perf_counter()
        came = {
            names[f.channel]: types[f.channel].FromString(f.message)
            for f in parts.feed(data)
            if isinstance(f, Publish)
        }
        parsed = time.perf_counter()
        values = senses.values(BEGAN_S + now_s, came)
        sensed = time.perf_counter()
        values |= {f"{name}_age": 0.0 for name in INPUTS}
        decision = guard.review(Frame(now_s, number, values))
        done = time.perf_counter()
        assert decision.risk is not None, decision.reason
        signals.append(sensed - parsed)
        whole.append(done - began)
    return signals, whole
