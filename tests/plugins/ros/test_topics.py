"""Topics as signals: alike from what is live and from bags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.ros.topics import Topics, load_topics
from tests.plugins.ros.nodes import (
    AUTOWARE,
    EGO,
    LIGHTS,
    OBJECTS,
    lights,
    odometry,
    pose,
    thing,
    twist,
)

LEADS = thing(pose(40.0), twist(3.0))
WALKS = thing(pose(20.0, -2.0), twist(0.0, 1.2), label=7)


def told(*objects: Any, shows: Any = None) -> dict[str, Any]:
    topics = Topics(load_topics(AUTOWARE))
    assert topics.take(EGO, odometry(0.0, 10.0), 4.9) is None
    assert topics.take(OBJECTS, {"objects": list(objects)}, 5.0) is None
    assert topics.take("/rosout", {}, 5.0) is None
    assert topics.take(LIGHTS, shows or lights(), 5.0) is None
    due = topics.take(EGO, odometry(0.0, 10.0), 5.0)
    assert due is not None and due[0] == 0.0
    return due[1]


def test_autowares_topics_are_driving_signals() -> None:
    found = told(LEADS, WALKS, shows=lights(3, 1))
    assert set(found) == set(load_topics(AUTOWARE).provides)
    assert found["speed"] == 36.0
    assert found["lead_distance"] == pytest.approx(38.0 - 3.79)
    assert found["lead_speed"] == pytest.approx(10.8)
    assert found["deceleration_to_avoid_crash"] == pytest.approx(
        49.0 / (2.0 * 34.21), abs=1e-3
    )
    assert found["pedestrian_distance"] == pytest.approx(20.0 - 3.79)
    assert 1.0 < found["time_to_collision"] < 2.0  # with who walks
    assert found["traffic_light"] == "red"
    assert found["collision"] is False


def test_no_light_is_none_and_no_object_leaves_the_way_free() -> None:
    found = told()
    assert found["traffic_light"] is found["lead_distance"] is None
    assert found["time_to_collision"] is found["pedestrian_distance"] is None


def test_frames_come_at_the_mappings_pace() -> None:
    topics = Topics(load_topics(AUTOWARE))
    topics.take(OBJECTS, {"objects": []}, 0.0)
    topics.take(LIGHTS, lights(), 0.0)
    due = [topics.take(EGO, odometry(0.0, 5.0), 0.02 * step) for step in range(26)]
    times = [each[0] for each in due if each is not None]
    assert times == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_silent_topic_is_reported() -> None:
    topics = Topics(load_topics(AUTOWARE))
    for topic, said in ((OBJECTS, {"objects": []}), (LIGHTS, lights())):
        topics.take(topic, said, 0.0)
    with pytest.raises(
        InvalidInput, match="there has been no message on .*objects for 1.5 s"
    ):
        topics.take(EGO, odometry(0.0, 5.0), 1.5)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"objects": [{}]}, "no field 'kinematics'"),
        (
            {"objects": [thing(pose(0.0), {"linear": {"x": None, "y": 0}})]},
            "not a number",
        ),
        ({"objects": [LEADS] * 1001}, "has more than 1000"),
        ({}, "no field 'objects'"),
    ],
)
def test_messages_that_do_not_fit_are_named(said: Any, problem: str) -> None:
    topics = Topics(load_topics(AUTOWARE))
    topics.take(OBJECTS, said, 0.0)
    topics.take(LIGHTS, lights(), 0.0)
    with pytest.raises(InvalidInput, match=problem):
        topics.take(EGO, odometry(0.0, 5.0), 0.0)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ("columns: {/odom.x: sped}", "unknown signal 'sped'"),
        ("columns: {odom.x: speed}", "'odom' is not the name of a topic"),
        ("columns: {}", "the mapping assigns no field to a signal"),
        ("colums: {}", "colums"),
        ("objects: {list: /o.o, pose: p, velocity: v, size: s, label: l}", "together"),
    ],
)
def test_mappings_that_make_no_sense_are_rejected(
    changed: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"format: forewarn.topics/1\nperiod_s: 0.1\n{changed}\n")
    with pytest.raises(InvalidInput, match=problem):
        load_topics(path)


def drive(step: int) -> list[tuple[str, dict[str, Any]]]:
    """What is said at a step: it drives up to who stands before a red light."""
    ahead = [thing(pose(30.0), twist(0.0))]
    return [
        (OBJECTS, {"objects": ahead}),
        (LIGHTS, lights(1)),
        (EGO, odometry(0.1 * 8.0 * step, 8.0)),
    ]


@pytest.mark.needs("mcap")
def test_the_same_mapping_reads_bags(tmp_path: Path) -> None:
    from mcap.writer import Writer

    from forewarn.monitors.guarding.decision import Action
    from forewarn.plugins.registry import make_world

    topics = Topics(load_topics(AUTOWARE))
    live = []
    with (tmp_path / "drive.mcap").open("wb") as out:
        writer = Writer(out)
        writer.start()
        schema = writer.register_schema("any", "jsonschema", b"{}")
        channels = {
            topic: writer.register_channel(topic, "json", schema)
            for topic in (EGO, OBJECTS, LIGHTS)
        }
        for step in range(20):
            at_ns = 1_700_000_000_000_000_000 + step * 100_000_000
            for topic, said in drive(step):
                live.append(topics.take(topic, said, at_ns / 1e9))
                packed = json.dumps(said).encode()
                writer.add_message(channels[topic], at_ns, packed, at_ns)
        writer.finish()
    settings = {"files": str(tmp_path / "*.mcap"), "topics": str(AUTOWARE)}
    world: Any = make_world("log", settings)
    frames = [world.reset(0)]
    while world.ended() is None:
        frames.append(world.step(Action("recorded")))
    due = [each[1] for each in live if each is not None]
    assert len(due) == 20 and len(frames) >= 19
    for frame, values in zip(frames, due, strict=False):
        assert dict(frame.values) == values
