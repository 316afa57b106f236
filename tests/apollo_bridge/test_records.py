"""Records: what others wrote reads back to the right signals; broken ones are told."""

from __future__ import annotations

import json
import math
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("cyber_record", reason="cyber_record is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

from forewarn.abstractions.errors import InvalidInput, InvalidTrace
from forewarn.abstractions.readers import read_trace
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.channels import INPUTS, messages
from forewarn.apollo_bridge.recordings import (
    CutRecord,
    RecordedDrive,
    read_record,
    record_channels,
    write_record,
)
from forewarn.apollo_bridge.scene import Body
from forewarn.cli import main
from tests.apollo_bridge.doubles import message
from tests.apollo_bridge.played import inside, road_map

EPOCH_S = 1_700_000_000.0
BODY = Body.of(4.8, 1.8)


def theirs(module: str, name: str) -> Any:
    """A generated class of somebody else's."""
    loaded = pytest.importorskip(f"wheelos_msgs.{module}_pb2")
    return getattr(loaded, name)


def approach(path: Path, count: int = 50, step_s: float = 0.02) -> None:
    """A drive up to the crossing's red light, in others' classes, others' order."""
    classes = {
        "localization": theirs(
            "localization_msgs.localization", "LocalizationEstimate"
        ),
        "chassis": theirs("chassis_msgs.chassis", "Chassis"),
        "obstacles": theirs(
            "perception_msgs.perception_obstacle", "PerceptionObstacles"
        ),
        "lights": theirs(
            "perception_msgs.traffic_light_detection", "TrafficLightDetection"
        ),
        "planning": theirs("planning_msgs.planning", "ADCTrajectory"),
    }

    def said() -> Any:
        for i in range(count):
            time_s = EPOCH_S + i * step_s
            made = {name: kind() for name, kind in classes.items()}
            for each in made.values():
                each.header.timestamp_sec = time_s
            pose = made["localization"].pose
            pose.position.x = 16.0 + 30.0 - 10.0 * i * step_s + BODY.front_m
            pose.position.y, pose.heading = 4.875, math.pi
            chassis = made["chassis"]
            chassis.speed_mps, chassis.driving_mode, chassis.gear_location = 10, 1, 1
            chassis.throttle_percentage = chassis.brake_percentage = 0
            chassis.engine_started = True
            made["lights"].traffic_light.add(id="centre_5", color=1)
            for name in ("east_in_1", ":centre_5_0", "west_out_1"):
                made["planning"].lane_id.add(id=name)
            car = made["obstacles"].perception_obstacle.add(id=7, type=5, theta=math.pi)
            car.position.x, car.position.y = 20.0, 4.875
            car.velocity.x = car.velocity.y = 0.0
            car.length, car.width = 4.0, 1.8
            for name, each in made.items():
                yield INPUTS[name].name, each, round(time_s * 1e9)

    write_record(path, said())


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "approach.record"
    approach(path)
    return path


def drive(path: Path, **settings: Any) -> RecordedDrive:
    settings = {"road_map": road_map("crossing"), "body": BODY, **settings}
    return RecordedDrive(path, messages(), **settings)


def test_records_written_by_other_tools_give_the_right_signals(record: Path) -> None:
    frames = list(drive(record).frames())
    assert [f.time_s for f in frames] == pytest.approx([0.1 * i for i in range(10)])
    for i, frame in enumerate(frames):
        values = frame.values
        assert (values["speed"], values["gear"]) == (36.0, "drive")
        assert values["stop_line_distance"] == pytest.approx(30.0 - i, abs=1e-3)
        assert values["traffic_light"] == "red"
        assert values["lead_distance"] == pytest.approx(28.0 - 4.0 - i + 2.0 - 0.0, 0.2)
        assert values["chassis_age"] == 0.0
        assert "prediction_age" not in values


def test_frames_have_the_requested_period(record: Path) -> None:
    fine = list(drive(record, period_s=0.02).frames())
    assert len(fine) == 50
    assert [f.sequence for f in fine] == list(range(50))
    coarse = list(drive(record, period_s=0.5).frames())
    assert [f.time_s for f in coarse] == pytest.approx([0.0, 0.5])


def test_channels_are_recognized_by_message_type(record: Path) -> None:
    found = record_channels(record)
    assert found["/apollo/canbus/chassis"] == "apollo.canbus.Chassis"
    assert len(found) == 5
    told = drive(record).provides
    assert "lights_age" in told and "prediction_age" not in told


def test_only_the_requested_channels_are_read(record: Path) -> None:
    wanted = {INPUTS["chassis"].name}
    assert {each.channel for each in read_record(record, wanted)} == wanted
    assert len(list(read_record(record))) == 250


def test_cyber_record_reads_what_we_write(tmp_path: Path) -> None:
    from cyber_record.record import Record

    path = tmp_path / "ours.record"
    said = [
        (channels.CHASSIS.name, message(channels.CHASSIS, 1.0 + i, speed_mps=i), i + 1)
        for i in range(3)
    ]
    assert write_record(path, said) == 3
    with Record(str(path)) as read:
        speeds = [m.speed_mps for _, m, _ in read.read_messages()]
    assert speeds == [0.0, 1.0, 2.0]


def test_a_recorded_scenario_has_the_frames_of_the_live_one(tmp_path: Path) -> None:
    path, seen = tmp_path / "s2.record", []
    world = inside("s2", 301)

    def said() -> Any:
        frame = world.reset(301)
        played = world._stand_in
        while True:
            seen.append(frame)
            for channel, each in played.drive.says(played.now_s, played.planner):
                yield channel.name, each, round(played.now_s * 1e9)
            if world.ended() or frame.time_s > 20:
                return
            frame = world.step(None)

    write_record(path, said())
    body = Body.of(*world._stand_in.drive.size)
    told = {"rain": 0.0, "visibility": 10_000.0}
    frames = list(drive(path, body=body, told=told).frames())
    world.close()
    assert len(frames) == len(seen) == 202
    for one, other in zip(frames, seen, strict=True):
        assert one.time_s == pytest.approx(other.time_s)
        different = [
            name
            for name, value in one.values.items()
            if name in other.values and value != other.values[name]
        ]
        assert different == [], one.time_s


class TestBroken:
    def test_no_record(self, tmp_path: Path) -> None:
        for content in (b"", b"x" * 40, b"\x01" + bytes(40)):
            (tmp_path / "a.record").write_bytes(content)
            with pytest.raises(InvalidInput):
                drive(tmp_path / "a.record")
        with pytest.raises(InvalidTrace, match=r"b\.record: no such file"):
            drive(tmp_path / "b.record")

    def test_cut_anywhere_it_is_read_as_far_as_it_goes(
        self, record: Path, tmp_path: Path
    ) -> None:
        whole, path = record.read_bytes(), tmp_path / "cut.record"
        lengths = set()
        for end in range(2064, len(whole) - 1, len(whole) // 40):
            path.write_bytes(whole[:end])
            count = 0
            with pytest.raises(CutRecord, match=r"cut\.record.*the file is truncated"):
                for _ in read_record(path):
                    count += 1
            lengths.add(count)
        assert max(lengths) == 250

    def test_fuzzed_it_is_refused_or_read(self, record: Path, tmp_path: Path) -> None:
        dice, path = random.Random(6), tmp_path / "fuzzed.record"
        whole = record.read_bytes()
        refused = 0
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(dice.randrange(1, 8)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            path.write_bytes(
                data[: dice.choice((len(data), dice.randrange(len(data))))]
            )
            try:
                for frame in drive(path).frames():
                    json.dumps(dict(frame.values), allow_nan=False)
            except InvalidInput:
                refused += 1
        assert 0 < refused < 150

    def test_a_channel_of_another_type(self, tmp_path: Path) -> None:
        path = tmp_path / "odd.record"
        chassis = message(channels.CHASSIS, 1.0)
        write_record(path, [(channels.LOCALIZATION.name, chassis, 1),
                            (channels.CHASSIS.name, chassis, 2)])  # fmt: skip
        with pytest.raises(InvalidInput, match="have the type apollo.canbus.Chassis"):
            drive(path)

    def test_without_localization_there_are_no_frames(self, tmp_path: Path) -> None:
        path = tmp_path / "few.record"
        write_record(path, [(channels.CHASSIS.name, message(channels.CHASSIS, 1.0), 1)])
        with pytest.raises(
            InvalidInput, match="does not contain the channel /apollo/localization/pose"
        ):
            drive(path)

    def test_a_clock_that_goes_back(self, tmp_path: Path) -> None:
        path = tmp_path / "back.record"
        said = [
            (channel.name, message(channel, time_s), i)
            for i, time_s in enumerate((10.0, 11.0, 5.0))
            for channel in (channels.CHASSIS, channels.LOCALIZATION)
        ]
        write_record(path, said)
        with pytest.raises(InvalidTrace, match="clock jumps back"):
            list(drive(path).frames())

    def test_what_cannot_be_is_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "nowhere.record"
        said = [
            (channel.name, message(channel, 10.0 + i), i)
            for i in range(3)
            for channel in (channels.CHASSIS, channels.LOCALIZATION)
        ]
        for _, chassis, _ in said[::2]:
            chassis.speed_mps = 1.0
        write_record(path, said)
        found = drive(path)
        frames = list(found.frames())
        assert found.faults == len(frames) == 3
        assert frames[0].values["speed"] == 3.6
        assert "stop_line_distance" not in frames[0].values
        assert "localization has no position" in found.fault
        assert len(list(found.frames())) == found.faults, "counted anew, not on"


def test_memory_does_not_grow_with_the_length_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "long.record"
    large = message(channels.CHASSIS, 1.0)
    large.header.module_name = "x" * 20_000

    def said() -> Any:
        for i in range(1000):
            for channel in (channels.CHASSIS, channels.LOCALIZATION):
                made = (
                    large if channel is channels.CHASSIS else message(channel, i + 1.0)
                )
                yield channel.name, made, (i + 1) * 10**9

    write_record(path, said())
    assert path.stat().st_size > 20e6
    tracemalloc.start()
    count = sum(1 for _ in drive(path).frames())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1000 and peak < 2e6


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from forewarn.apollo_bridge.lockstep import draw_map

    folder = tmp_path_factory.mktemp("maps")
    (folder / "base_map.bin").write_bytes(draw_map("crossing").SerializeToString())
    return folder


class TestCommand:
    def run(self, *args: object, status: int = 0) -> Any:
        done = CliRunner().invoke(main, ["apollo", "signals", *map(str, args)])
        assert done.exit_code == status, done.output + str(done.stderr)
        return done

    def test_a_line_for_each_frame(self, record: Path, maps: Path) -> None:
        done = self.run(record, "--map", maps, "--json", "--period", 0.1)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(lines) == 10 and set(lines[0]) == {"time_s", "signals"}
        assert lines[3]["time_s"] == pytest.approx(0.3)
        assert lines[3]["signals"]["speed"] == 36.0

    def test_a_trace_to_learn_from(
        self, record: Path, maps: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "trace.jsonl.gz"
        done = self.run(record, "--map", maps, "--body", "3.757,1.043,1.8",
                        "--out", out)  # fmt: skip
        assert "10 frames in 0.9 s" in done.stdout
        trace = read_trace(out)
        assert len(trace) == 10 and "traffic_light" in trace.header.provides
        assert trace.columns(["stop_line_distance"])["stop_line_distance"][0] == 30.0

    def test_defective_record_is_reported_in_one_line(
        self, record: Path, maps: Path, tmp_path: Path
    ) -> None:
        done = self.run(tmp_path / "gone.record", "--map", maps, status=2)
        assert "gone.record: no such file" in done.stderr
        (tmp_path / "cut.record").write_bytes(record.read_bytes()[:-100])
        done = self.run(tmp_path / "cut.record", "--map", maps, "--json", status=2)
        assert "the file is truncated" in done.stderr and done.stdout.count("\n") == 10
        done = self.run(record, "--period", 0, status=2)
        assert "--period" in done.stderr
        assert "give --map" in self.run(record, status=2).stderr
