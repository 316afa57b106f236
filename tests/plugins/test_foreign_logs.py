"""Other people's logs as a world: each written by its real writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, InvalidTrace
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import World
from forewarn.plugins.registry import make_world

STEPS = 30
SPEEDS = [12.0 - step / 10 for step in range(STEPS)]
GAPS = [None if step < 5 else 40.0 - step for step in range(STEPS)]
MESSAGES = {
    "/odom.twist.twist.linear.x": {"signal": "speed", "unit": "m/s"},
    "/radar.range": {"signal": "lead_distance", "none_codes": [-1]},
}


def parquet(folder: Path) -> dict[str, Any]:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    rows = {"stamp": [0.1 * i for i in range(STEPS)], "v": SPEEDS, "gap": GAPS}
    write_table(pa.table(rows), folder / "drive.parquet")
    columns = {"v": {"signal": "speed", "unit": "m/s"}, "gap": "lead_distance"}
    return {
        "files": str(folder / "*.parquet"), "columns": columns, "time": "stamp",
        "blanks": "none", "period_s": 0.1,
    }  # fmt: skip


def mcap(folder: Path) -> dict[str, Any]:
    writing = pytest.importorskip("mcap.writer")
    with (folder / "drive.mcap").open("wb") as out:
        writer = writing.Writer(out)
        writer.start()
        schema = writer.register_schema("any", "jsonschema", b"{}")
        channels = [writer.register_channel(topic, "json", schema)
                    for topic in ("/odom", "/radar")]  # fmt: skip
        for step, (speed, gap) in enumerate(zip(SPEEDS, GAPS, strict=True)):
            said = (
                {"range": -1 if gap is None else gap},
                {"twist": {"twist": {"linear": {"x": speed}}}},
            )
            for late, channel, content in zip(
                (0, 1), channels[::-1], said, strict=True
            ):
                at = 1_700_000_000_000_000_000 + step * 100_000_000 + late
                writer.add_message(channel, at, json.dumps(content).encode(), at)
        writer.finish()
    return {
        "files": str(folder / "*.mcap"), "columns": MESSAGES, "period_s": 0.1,
    }  # fmt: skip


def bag(folder: Path) -> dict[str, Any]:
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = ("geometry_msgs/msg/TwistStamped", "sensor_msgs/msg/Range")
    stamped, ranged = (store.types[kind] for kind in kinds)
    vector, twist = (
        store.types[f"geometry_msgs/msg/{name}"] for name in ("Vector3", "Twist")
    )
    head = store.types["std_msgs/msg/Header"](
        store.types["builtin_interfaces/msg/Time"](0, 0), "car"
    )
    with rosbag2.Writer(folder / "drive", version=9) as writer:
        links = [
            writer.add_connection(topic, kind, typestore=store)
            for topic, kind in zip(("/odom", "/radar"), kinds, strict=True)
        ]
        for step, (speed, gap) in enumerate(zip(SPEEDS, GAPS, strict=True)):
            still = vector(0.0, 0.0, 0.0)
            messages = (
                stamped(head, twist(vector(speed, 0.0, 0.0), still)),
                ranged(head, 1, 0.1, 0.0, 99.0, -1.0 if gap is None else gap),
            )
            at = 1_700_000_000_000_000_000 + step * 100_000_000
            for link, kind, message in zip(links, kinds, messages, strict=True):
                writer.write(link, at, store.serialize_cdr(message, kind))
    columns = {"/odom.twist.linear.x": MESSAGES["/odom.twist.twist.linear.x"],
               "/radar.range": MESSAGES["/radar.range"]}  # fmt: skip
    return {"files": str(folder / "drive"), "columns": columns, "period_s": 0.1}


WRITERS = (parquet, mcap, bag)


@pytest.mark.parametrize("write", WRITERS)
def test_written_logs_are_replayed(write: Any, tmp_path: Path) -> None:
    world: World = make_world("log", write(tmp_path))
    assert {"speed", "lead_distance", "headway"} <= set(world.source.provides)
    frames = [world.reset(0)]
    while world.ended() is None:
        frames.append(world.step(Action("recorded")))
    assert len(frames) >= STEPS - 1
    for frame, speed, gap in zip(frames, SPEEDS, GAPS, strict=False):
        assert frame.values["speed"] == pytest.approx(speed * 3.6)
        assert frame.values["lead_distance"] == (
            None if gap is None else pytest.approx(gap)
        )
        if gap is not None:
            headway = frame.values["headway"]
            assert headway == pytest.approx(gap / speed, abs=2e-3)


def test_a_field_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = mcap(tmp_path)
    settings["columns"] = {"/radar.rnge": "lead_distance"}
    with pytest.raises(InvalidTrace, match="no field 'rnge'.*range"):
        make_world("log", settings)


@pytest.mark.parametrize("ending", ["parquet", "mcap"])
def test_invalid_logs_are_rejected(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"x.{ending}").write_bytes(b"this is none")
    with pytest.raises(InvalidInput, match="not a valid (Parquet|MCAP) file"):
        make_world(
            "log",
            {"files": str(tmp_path / f"x.{ending}"), "columns": MESSAGES},
        )
