"""CommonRoad's scenes as a world: seen by one of those who are in them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.cli import main
from forewarn.plugins.commonroad.bridge import CROSSING, CommonRoadWorld

FILES = str(CROSSING)


def seen(ego: Any, seed: int = 0) -> tuple[list[Frame], str | None]:
    world = CommonRoadWorld(files=FILES, ego=ego)
    frames = [world.reset(seed)]
    while world.ended() is None:
        frames.append(world.step(None))
    return frames, world.ended()


def at(frames: list[Frame], time_s: float) -> dict[str, Any]:
    return dict(frames[round(time_s / 0.1)].values)


def test_a_recorded_car_comes_to_the_light_behind_another() -> None:
    frames, why = seen(1001)
    assert (len(frames), why) == (101, "the recording is over")
    first = at(frames, 0)
    assert first["speed"] == pytest.approx(43.2)
    assert first["lead_distance"] == pytest.approx(17.5)  # 22 m less a length
    assert first["lead_speed"] == pytest.approx(36.0)
    assert first["stop_line_distance"] == pytest.approx(59.75)
    assert first["crosswalk_distance"] == pytest.approx(76.0)
    assert (first["lane_count"], first["speed_limit"]) == (2, 50.0)
    lights = [at(frames, time_s)["traffic_light"] for time_s in (2.9, 3.0, 5.0, 9.9)]
    assert lights == ["green", "yellow", "red", "red"]
    assert at(frames, 4.0)["traffic_light_age"] == pytest.approx(1.0)
    brakes = at(frames, 4.0)
    assert brakes["braking"] and brakes["acceleration"] == pytest.approx(-3.6, abs=0.1)
    assert brakes["required_deceleration"] > 4.0
    assert not any(frame.values["collision"] for frame in frames)


def test_cross_traffic_gives_way_by_the_sign() -> None:
    frames, _ = seen(1003)
    waits = at(frames, 4.0)
    assert waits["traffic_light"] is None and not waits["in_junction"]
    assert waits["priority_gap"] < 1.0, "those on the main road go first"
    assert at(frames, 7.5)["in_junction"]


def test_the_ego_of_a_planning_problem_keeps_its_speed_and_lane() -> None:
    frames, _ = seen(2001)
    assert [frame.values for frame in frames] == [f.values for f in seen(None)[0]]
    assert {round(frame.values["speed"], 3) for frame in frames} == {28.8}
    assert at(frames, 0)["direction"] == "left", "from its lane one turns left"
    assert at(frames, 0)["stop_line_distance"] == pytest.approx(27.75)
    assert at(frames, 4.0)["in_junction"]
    assert at(frames, 3.2)["traffic_light"] == "yellow"


def test_each_vehicle_in_turn_may_be_the_ego() -> None:
    for seed, number in enumerate((1001, 1002, 1003)):
        assert seen("each", seed)[0] == seen(number)[0]
    with pytest.raises(InvalidInput, match="only 3 vehicles move in the file"):
        seen("each", 3)
    assert CommonRoadWorld(files=FILES, ego="each").episodes == 3
    assert CommonRoadWorld(files=FILES).episodes == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"files": FILES, "ego": 1004}, "no moving vehicle with the id 1004"),
        ({"files": FILES, "ego": 1005}, "no moving vehicle with the id 1005"),
        ({"files": "nothing/*.xml"}, "no file matches"),
    ],
)
def test_obstacle_that_does_not_drive_is_rejected_as_ego(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        CommonRoadWorld(**settings).reset(0)
    with pytest.raises(InvalidInput, match="lower than the number of files"):
        CommonRoadWorld(files=FILES).reset(1)


def test_bodies_that_meet_collide(tmp_path: Path) -> None:
    """The same scene, the ego driving on as it began."""
    text = gzip.decompress(CROSSING.read_bytes()).decode()
    begins = text.index('<dynamicObstacle id="1001">')
    ends = text.index("</dynamicObstacle>", begins)
    course = text[begins:ends]
    for step in range(1, 101):
        mark = f"<exact>{step}</exact>"
        place = course.index("<x>", course.index(mark, course.index("<trajectory>")))
        stop = course.index("</x>", place)
        course = f"{course[:place]}<x>{-72 + 1.2 * step:.3f}{course[stop:]}"
    path = tmp_path / "crash.xml"
    path.write_text(text[:begins] + course + text[ends:])
    arguments = ["monitor", str(path), "--law", "no_collision", "--json"]
    done = CliRunner().invoke(main, [*arguments, "--ego", "1001"])
    assert done.exit_code == 1, done.output
    (told,) = json.loads(done.stdout)["results"]
    assert 4.0 < told["first_violation_s"] < 6.0
    done = CliRunner().invoke(main, [*arguments, "--ego", "7"])
    assert done.exit_code == 2 and "no moving vehicle with the id 7" in done.stderr


def test_the_scenery_has_lanes_lights_and_road_users() -> None:
    world = CommonRoadWorld(files=FILES, ego=1001)
    world.reset(0)
    kinds = [shape.kind for shape in world.ground()]
    assert [kinds.count(kind) for kind in ("lane", "junction", "crosswalk")] == [
        6,
        4,
        1,
    ]
    things = {thing.name: thing for thing in world.things()}
    assert things["1001"].kind == "ego" and things["1004"].kind == "pedestrian"
    assert {thing.state for thing in things.values() if thing.kind == "light"} == {
        "green"
    }


PAGE = Path(__file__).parents[3] / "docs" / "own-world.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not here: no checkout")
def test_the_examples_on_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## CommonRoad")[1]
    section, beside = section.split("### Criticality")
    scenario, commands = re.findall(r"```(?:yaml)?\n(.*?)```", section, re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenes").mkdir()
    copyfile(CROSSING, tmp_path / "scenes" / "crossing.xml.gz")
    Path("crossing.yaml").write_text(scenario)
    told: dict[str, Any] = {}
    for line in commands.splitlines():
        _, *words = line.split()
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.output
        told[words[0]] = json.loads(done.stdout)
    assert told["monitor"]["laws"][0]["runs"] == 3
    (line,) = re.findall(r"^forewarn (.*)$", beside, re.M)
    done = CliRunner().invoke(main, line.split())
    judged = json.loads(done.stdout)["results"]
    assert [each["law"][:10] for each in judged] == ["near_miss_"] * 3
    assert all(bool(each["instances"]) == bool(each["violations"]) for each in judged)
