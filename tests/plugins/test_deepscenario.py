"""DeepScenario's published files: runs of several files, and the nearest road users."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.contracts import World
from forewarn.plugins.deepscenario import OF_OBJECTS, DeepScenarioWorld
from forewarn.plugins.registry import make_world

Point = tuple[float, float, float, float]
"""The position to the right and ahead in the simulator, the angle, and the speed."""

HEAD = """<?xml version="1.0" encoding="utf-8"?><DeepScenario timestep="0.5">
<FileHeader author="us" description="DeepScenario Format" simulatorVersion="2021.01"/>
<Environment><HDMap city="SanFrancisco"/></Environment>
<Entities>"""
ENTITY = """<ScenarioObject model="{model}" name="{name}" uid="{name}-1">
<ObjectParameter ObjectColor="Default" ObjectType="{kind}"/></ScenarioObject>"""
POINT = """<WayPoint timeStamp="{at}"><DynamicParameters><Speed speed="{speed}"/>
<Velocity velocityX="{vx:.3f}" velocityY="0" velocityZ="{vz:.3f}"/></DynamicParameters>
<GeographicParameters><ObjectPosition positionX="{x}" positionY="10" positionZ="{z}"/>
<ObjectRotation rotationX="0" rotationY="{angle}" rotationZ="0"/>
<ObjectGPS altitude="10" latitude="37.79" longitude="-122.4"/></GeographicParameters>
</WayPoint>"""


def written(paths: Mapping[tuple[str, str, str], Iterable[Point]]) -> str:
    """A file with the paths of objects, by name, model and type."""
    entities = (ENTITY.format(name=n, model=m, kind=k) for n, m, k in paths)
    lines = [HEAD, *entities, '</Entities><StoryBoard><Story name="Default">']
    for (name, *_), points in paths.items():
        lines += f'<ObjectAction name="A"><objectRef objectRef="{name}"/>', *(
            POINT.format(
                at=at, x=x, z=z, angle=angle, speed=speed,
                vx=speed * math.sin(math.radians(angle)),
                vz=speed * math.cos(math.radians(angle)),
            )
            for at, (x, z, angle, speed) in enumerate(points, 1)
        ), "</ObjectAction>"  # fmt: skip
    return "\n".join([*lines, "</Story></StoryBoard></DeepScenario>"])


EGO = ("Ego0", "8c954dd5-e44d-4bea-ac1c-8d103a49e719", "Ego")
BUS, SEDAN = ("NPC0", "SchoolBus", "NPC"), ("NPC1", "Sedan", "NPC")
PERSON = ("Pedestrian0", "Bob", "Pedestrian")


def heading_east(far_m: float) -> str:
    """The ego drives east at 10 m/s; a bus stands ahead, and a car behind to the left
    drives as fast; a pedestrian walks away on the right.
    """
    steps = [5.0 * step for step in range(6)]
    return written(
        {
            EGO: [(far_m + m, 0.0, 90.0, 10.0) for m in steps],
            BUS: [(60.0, 0.0, 90.0, 0.0)] * 6,
            SEDAN: [(far_m - 10.0 + m, 10.0, 90.0, 10.0) for m in steps],
            PERSON: [(far_m, -20.0 - m / 10, 180.0, 1.0) for m in steps],
        }
    )


def world(folder: Path, **files: str) -> World:
    for name, text in files.items():
        (folder / f"{name}.deepscenario").write_text(text)
    return make_world("deepscenario", {"files": str(folder / "*")})


def test_the_nearest_three_are_named_with_bearing_and_closing_speed(
    tmp_path: Path,
) -> None:
    frame = world(tmp_path, only=heading_east(0.0)).reset(0)
    rows = [frame.values[name] for name in OF_OBJECTS]
    # From corner to corner; the ego is 4.7 m long and 2.1 m wide.
    gap_m = pytest.approx(math.hypot(10 - 2.35 - 2.3, 10 - 1.05 - 0.9), abs=0.001)
    assert rows[:5] == ["NPC1", "car", gap_m, 135.0, 0.0]
    bearing, closing = rows[8], rows[9]
    assert rows[5:8] == ["Pedestrian0", "pedestrian", pytest.approx(18.7, abs=0.01)]
    assert bearing == -90.0 and closing == pytest.approx(-3.6)
    # From the ego's centre to the bus's 60 m, less half of 4.7 m and of 12 m.
    assert rows[10:] == ["NPC0", "bus", pytest.approx(51.65), 0.0, 36.0]
    assert frame.values["lead_distance"] == pytest.approx(51.65)
    assert frame.values["speed"] == 36.0


def test_signals_of_absent_road_users_are_none(tmp_path: Path) -> None:
    frame = world(tmp_path, only=written({EGO: [(0, 0, 0, 5)] * 3})).reset(0)
    assert {frame.values[name] for name in OF_OBJECTS} == {None}
    assert frame.values["nearest_distance"] is None


def test_a_vehicle_flung_away_by_the_simulator_is_left_out(tmp_path: Path) -> None:
    flung = [(60.0, 0.0, 90.0, 0.0), (9000.0, 0.0, 90.0, 4863.4)]
    run = world(tmp_path, only=written({EGO: [(0, 0, 90, 10)] * 2, BUS: flung}))
    assert run.reset(0).values["object_1"] == "NPC0"
    assert run.step(None).values["object_1"] is None


def test_consecutive_files_are_a_run_until_the_collision(tmp_path: Path) -> None:
    runs = world(
        tmp_path,
        **{
            "7_scenario_10_npc_vehicle": heading_east(30.0),
            "7_scenario_9": heading_east(0.0),
            "7_scenario_11": heading_east(0.0),
            "7_scenario_13": heading_east(0.0),
            "12_scenario_0_obstacle": heading_east(0.0),
        },
    )
    assert isinstance(runs, DeepScenarioWorld) and runs.episodes == 3
    frames = [runs.reset(0)]
    while runs.ended() is None:
        frames.append(runs.step(None))
    # The bus's rear is at 54 m, and the ego's front there in the second file.
    assert len(frames) == 6 + 6 and runs.ended() == "the ego collided"
    assert [each.values["collision"] for each in frames] == [False] * 11 + [True]
    assert frames[-1].time_s == 5.5
    frame = runs.reset(1)
    while runs.ended() is None:
        assert not frame.values["collision"]
        frame = runs.step(None)
    assert runs.ended() == "the recording is over"
    frame = runs.reset(2)
    while runs.ended() is None:
        frame = runs.step(None)
    assert frame.time_s == 2.5 and frame.values["collision"], "an obstacle: at the end"
    with pytest.raises(InvalidInput, match="only 3 runs"):
        runs.reset(3)


TEXT = heading_east(0.0)
NUMBER = re.compile(r'(?<=")-?[\d.]+(?=")')
PLACES = [found.span() for found in NUMBER.finditer(TEXT)]
ODD = ["nan", "-1", "0", "", "word", "1e7", "1e300", "1", "3.5", "inf"]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(ODD)),
        min_size=1, max_size=4, unique_by=lambda change: change[0],
    )
)  # fmt: skip
def test_odd_numbers_are_played_or_rejected_in_one_line(
    tmp_path: Path, changes: list[tuple[tuple[int, int], str]]
) -> None:
    text = TEXT
    for (begin, end), odd in sorted(changes, reverse=True):
        text = text[:begin] + odd + text[end:]
    try:
        played = world(tmp_path, only=text)
        played.reset(0)
        while played.ended() is None:
            played.step(None)
    except InvalidInput as rejected:
        assert "\n" not in str(rejected)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT.replace("<DeepScenario", ENTITIES + "<DeepScenario"), "declaration"),
        ("<commonRoad/>", "root element is <commonRoad>"),
        (TEXT.replace("</Story>", ""), "not well-formed"),
        (TEXT.replace('"NPC"', '"Ego"'), "3 egos"),
        (TEXT.replace('objectRef="NPC1"', 'objectRef="NPC0"'), "two trajectories"),
        (TEXT.replace('timeStamp="2"', 'timeStamp="9"'), "not consecutive"),
        (TEXT.replace("<ObjectRotation", "<Rotation"), "has no ObjectRotation"),
        (TEXT.replace("<Entities>", "<Entities>" + "<a/>" * 200_000), "200000 el"),
        (TEXT.replace("<Entities>", "<Entities>" + "<a>" * 100), "levels of nesting"),
        ("<DeepScenario>" + "a" * 9_000_000, "larger than the limit"),
    ],
)  # fmt: skip
def test_invalid_scenarios_are_rejected_in_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "one.deepscenario"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(InvalidInput, match=why) as rejected:
        DeepScenarioWorld(files=str(path))
    assert "\n" not in str(rejected.value)


def test_files_with_another_time_step_are_rejected(tmp_path: Path) -> None:
    other = TEXT.replace('timestep="0.5"', 'timestep="0.1"')
    runs = world(tmp_path, **{"0_scenario_0": TEXT, "0_scenario_1": other})
    with pytest.raises(InvalidInput, match=r"0\.1 s, but that of the first file is"):
        runs.reset(0)
