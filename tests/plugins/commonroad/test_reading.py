"""CommonRoad's files, read as its own library reads them, or refused in a line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.commonroad import reading
from forewarn.plugins.commonroad.bridge import CROSSING
from forewarn.plugins.commonroad.reading import RecordedScene, read_scene
from forewarn.plugins.driving.roads import LinkDirection, length_of
from forewarn.plugins.driving.scene import TurnSignal

THEIRS = json.loads(Path(__file__).with_name("crossing.json").read_text())
TEXT = gzip.decompress(CROSSING.read_bytes()).decode()
SHOWS = {"redYellow": "red", "inactive": "off"}

BOMB = """<?xml version="1.0"?>
<!DOCTYPE commonRoad [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
<commonRoad timeStepSize="0.1">&b;&b;&b;</commonRoad>"""

OLD = """<commonRoad commonRoadVersion="2018b" timeStepSize="0.5" benchmarkID="x">
<lanelet id="1"><leftBound><point><x>0</x><y>2</y></point>
<point><x>90</x><y>2</y></point></leftBound>
<rightBound><point><x>0</x><y>-2</y></point><point><x>90</x><y>-2</y></point>
</rightBound><speedLimit>10</speedLimit></lanelet>
<obstacle id="2"><role>dynamic</role><type>car</type>
<shape><polygon><point><x>-2</x><y>-1</y></point><point><x>2</x><y>-1</y></point>
<point><x>2</x><y>1</y></point></polygon></shape>
<initialState><position><point><x>5</x><y>0</y></point></position>
<orientation><intervalStart>-0.2</intervalStart><intervalEnd>0.2</intervalEnd>
</orientation><time><exact>0</exact></time><velocity><exact>4</exact></velocity>
</initialState><trajectory><state><position><rectangle><length>1</length>
<width>1</width><orientation>0</orientation><center><x>8</x><y>0</y></center>
</rectangle></position><orientation><exact>0</exact></orientation>
<time><exact>1</exact></time></state></trajectory></obstacle></commonRoad>"""


def read(text: str, folder: Path) -> RecordedScene:
    path = folder / "scene.xml"
    path.write_text(text)
    return read_scene(path)


def test_roads_are_as_commonroad_io_reads_them() -> None:
    ours = read_scene(CROSSING)
    assert {str(number) for number in ours.lanelets} == set(THEIRS["lanelets"])
    for number, lanelet in ours.lanelets.items():
        theirs = THEIRS["lanelets"][str(number)]
        assert length_of(lanelet.middle) == pytest.approx(theirs["length"], abs=0.01)
        assert sorted(lanelet.after) == theirs["after"]
        assert lanelet.right == theirs["right"]
        assert sorted(lanelet.kinds) == theirs["kinds"]
    assert ours.turns == {
        201: (501, LinkDirection.FORWARD),
        202: (501, LinkDirection.RIGHT),
        203: (501, LinkDirection.LEFT),
        204: (501, LinkDirection.FORWARD),
    }
    assert (ours.limits_kmh, ours.yields) == ({401: pytest.approx(50.04)}, {402})


def test_lights_show_what_commonroad_io_says() -> None:
    light = read_scene(CROSSING).lights[301]
    shown = [light.at(5 * number)[0].value for number in range(50)]
    assert shown == [SHOWS.get(each, each) for each in THEIRS["lights"]["301"]]
    assert [light.at(step)[1] for step in (0, 29, 30, 95, 100)] == [0, 29, 0, 5, 0]


def test_everybody_is_where_commonroad_io_has_them() -> None:
    ours = read_scene(CROSSING)
    assert len(THEIRS["obstacles"]) == 4
    for number, theirs in THEIRS["obstacles"].items():
        states = {each.step: each for each in ours.obstacles[int(number)].states}
        for step, x, y, heading, speed in theirs:
            found = states[step]
            assert (found.x, found.y) == pytest.approx((x, y), abs=0.002)
            assert (found.heading, found.speed) == pytest.approx(
                (heading, speed), abs=0.002
            )
    parked, walker = ours.obstacles[1005], ours.obstacles[1004]
    assert parked.stands and len(parked.states) == 1
    assert walker.on_foot and walker.length == walker.width == pytest.approx(0.6)
    begins, steps = ours.problems[2001]
    assert (begins.x, begins.speed, steps) == (-40.0, 8.0, 100)


def test_the_elder_form_is_read_with_what_is_not_exact(tmp_path: Path) -> None:
    told = read(OLD, tmp_path)
    assert told.lanelets[1].limit_kmh == pytest.approx(36.0)
    car = told.obstacles[2]
    assert (car.length, car.width) == (4.0, 2.0)
    first, second = car.states
    assert (first.heading, first.speed) == (0.0, 4.0)
    assert (second.x, second.speed) == (8.0, 6.0), "speed follows from places"


@pytest.mark.parametrize(
    ("lit", "signal"),
    [
        ((), TurnSignal.OFF), (("indicatorLeft",), TurnSignal.LEFT),
        (("indicatorRight",), TurnSignal.RIGHT),
        (("hazardWarningLights",), TurnSignal.HAZARD),
        (("indicatorLeft", "indicatorRight"), TurnSignal.HAZARD),
    ],
)  # fmt: skip
def test_turn_signals_are_read(
    lit: tuple[str, ...], signal: TurnSignal, tmp_path: Path
) -> None:
    lamps = "".join(f"<{name}>true</{name}>" for name in lit)
    told = f"<initialSignalState><time><exact>0</exact></time>{lamps}"
    text = OLD.replace("<trajectory>", f"{told}</initialSignalState><trajectory>")
    (shown,) = read(text, tmp_path).obstacles[2].shown
    assert shown.signal is signal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "document type declaration"),
        ("<commonRoad", "not well-formed"),
        ("", "not well-formed"),
        ("<sumo/>", "not a CommonRoad file: the root element is <sumo>"),
        ("<commonRoad/>", "its timeStepSize: None is not a number"),
        ("<commonRoad timeStepSize='0.1'/>", "no lanelets"),
        ("<commonRoad timeStepSize='-1'/>", "timeStepSize must be from .* but is -1 s"),
        ("<a>" * 50 + "</a>" * 50, "elements, or more than 40 levels"),
        (OLD.replace("<x>8</x>", "<x>nan</x>"), "obstacle 2: 'nan' is not a number"),
        (OLD.replace("<x>8</x>", "<x>1e999</x>"), "'1e999' is not a number"),
        (OLD.replace("<x>8</x>", ""), "obstacle 2: None is not a number"),
        (
            OLD.replace("<x>90</x>", "<x>fast</x>", 1),
            "of lanelet 1: 'fast' is not a number",
        ),
        (OLD.replace("<x>90</x>", "<x>0</x>"), "lanelet 1 is 0 m long"),
        (OLD.replace("<x>90</x>", "<x>90000</x>"), "lanelet 1 is 90000 m long"),
        (
            OLD.replace("<x>8</x>", "<x>800</x>"),
            "obstacle 2 has a speed of 1590 m/s at step 1",
        ),
        (OLD.replace('id="2"', 'id="two"'), "id of a obstacle: 'two' is not a number"),
        (
            OLD.replace("<exact>1</exact>", "<exact>0</exact>"),
            "of obstacle 2, step 0 follows",
        ),
        (
            OLD.replace("<exact>1</exact>", "<exact>3</exact>"),
            "of obstacle 2, step 3 follows",
        ),
        (OLD.replace("state>", "occupancy>"), "moves, but has no trajectory"),
        (OLD.replace("polygon>", "cloud>"), "no rectangle, circle or polygon"),
        (
            OLD.replace("</lanelet>", '<successor ref="7"/></lanelet>'),
            "successor 7 of lanelet 1",
        ),
    ],
)
def test_hostile_and_invalid_scenes_are_rejected_in_one_line(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        read(text, tmp_path)
    assert "\n" not in str(refused.value) and "scene.xml" in str(refused.value)


def test_oversized_and_missing_scenes_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="o such file"):
        read_scene(tmp_path / "none.xml")
    for most, words in (
        ("_MOST_LANELETS", "1 lanelets, but the limit is 0"),
        ("_LONGEST_IN_ALL_M", "90 m of lanelets, but the limit is 0"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(reading, most, 0)
            with pytest.raises(InvalidInput, match=words):
                read(OLD, tmp_path)
    monkeypatch.setattr(reading._Scene, "most_elements", 30)
    with pytest.raises(InvalidInput, match="more than 30 elements"):
        read(OLD, tmp_path)
    packed = tmp_path / "packed.xml.gz"
    packed.write_bytes(gzip.compress(b" " * 10_000))
    monkeypatch.setattr(reading._Scene, "most_bytes", 5_000)
    with pytest.raises(InvalidInput, match="larger than the limit of 5000"):
        read_scene(packed)
