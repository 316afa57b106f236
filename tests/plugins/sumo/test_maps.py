"""The maps that ship: each can be driven, and crosses what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.support import MAPS, shipped_maps
from forewarn.plugins.sumo.traffic import Ego, Flow
from tests.plugins.sumo.draw import STOP, draw, names, put_up, signs

# The way, its direction at the junction, whether one must give way or may be stopped,
# how many movements cross it or join it, and how many crosswalks it passes.
WAYS = {
    "crossing": [
        (["west_in", "east_out"], 2, "forward", True, 7, 2),
        (["west_in", "north_out"], 2, "left", True, 7, 2),
        (["west_in", "south_out"], 1, "right", True, 1, 2),
    ],
    "tee": [
        (["west_in", "east_out"], 1, "forward", False, 3, 1),
        (["south_in", "west_out"], 1, "left", True, 3, 1),
        (["south_in", "east_out"], 1, "right", True, 1, 2),
    ],
    "roundabout": [(["west_in", "ring_ws", "south_out"], 0, "right", True, 1, 0)],
    "merge": [
        (["ramp_in", "main_out"], 0, "forward", True, 1, 0),
        (["main_in", "main_out"], 1, "forward", False, 0, 0),
    ],
    "boulevard": [(["west_in", "east_out"], 2, "forward", True, 4, 1)],
    "highway": [(["road"], 1, "forward", False, 0, 0)],
}


def test_every_map_has_a_source_a_net_and_a_twin() -> None:
    assert names() == sorted(shipped_maps()) == sorted(WAYS)
    for name, path in shipped_maps().items():
        twin = (MAPS / f"{name}.xodr").read_text(encoding="utf-8")
        assert "<OpenDRIVE>" in twin and "<road " in twin
        assert path.stat().st_size < 40_000, "text that ships stays small"


@pytest.mark.needs("libsumo")
@pytest.mark.parametrize(
    ("name", "route", "lane", "direction", "has_line", "foes", "crosswalks"),
    [(name, *way) for name, ways in WAYS.items() for way in ways],
)
def test_a_way_meets_what_crosses_it(
    name: str,
    route: list[str],
    lane: int,
    direction: str,
    has_line: bool,
    foes: int,
    crosswalks: int,
) -> None:
    world = SumoWorld(map=name, ego=Ego(route=route, lane=lane, speed_kmh=30))
    frame = world.reset(1)
    world.step(None)
    way = world._senses.scene.roads.way(f"{route[0]}_{lane}", tuple(route))
    passages = [passage for passage in way.passages if passage.is_junction]
    if foes or crosswalks:
        first = passages[0]
        assert first.has_line is has_line
        assert len(first.foes) == foes, [foe.target for foe in first.foes]
        assert len(first.footways) == crosswalks
        for foe in first.foes:
            assert 0 <= foe.ego_m <= first.end_m - first.line_m + 0.5
    else:
        assert passages == []
    while world.ended() is None and frame.sequence < 4000:
        fast = frame.values["speed"] > 30
        frame = world.step(Action("control", {"acceleration": -0.5 if fast else 0.5}))
        if frame.values["in_junction"]:
            assert frame.values["direction"] == direction or name == "roundabout"
    assert world.ended() == "the ego arrived"
    world.close()


@pytest.mark.needs("libsumo")
def test_those_on_the_ring_go_first() -> None:
    ego = Ego(
        route=["west_in", "ring_ws", "south_out"], lane=0, position_m=100, departs_s=30
    )
    ring = ["north_in", "ring_nw", "ring_ws", "ring_se", "east_out"]
    world = SumoWorld(
        map="roundabout", ego=ego, flows=[Flow(routes=[ring], per_hour=900)]
    )
    frame = world.reset(2)
    gave_way = []
    while world.ended() is None:
        frame = world.step(Action("control", {"acceleration": 0.0}))
        gave_way.append(frame.values["priority_vehicle"])
    assert any(gave_way)
    world.close()


@pytest.mark.needs("sumolib")
@pytest.mark.parametrize("name", sorted(WAYS))
def test_a_twin_has_the_signs_of_its_net(name: str) -> None:
    twin = (MAPS / f"{name}.xodr").read_text(encoding="utf-8")
    found = signs(MAPS / f"{name}.net.xml")
    assert found == dict(re.findall(r'<signal id="(\w+)"[^>]* type="(20[56])"', twin))
    bare = re.sub(r"<signals>.*?</signals>", "<signals/>", twin, flags=re.DOTALL)
    if found:
        assert put_up(found, MAPS / f"{name}.net.xml", bare) == twin


@pytest.mark.needs("sumolib")
def test_stop_links_have_stop_signs(tmp_path: Path) -> None:
    text = (MAPS / "tee.net.xml").read_text(encoding="utf-8")
    net = tmp_path / "tee.net.xml"
    link = r'(<connection from="south_in" [^>]*via="[^>]*)state="m"'
    net.write_text(re.sub(link, r'\1state="s"', text), encoding="utf-8")
    assert signs(net) == {"south_in": STOP}


@pytest.mark.slow
@pytest.mark.needs("sumo")
def test_the_sources_give_these_very_maps(tmp_path: Path) -> None:
    for name in names():
        for made in draw(name, tmp_path):
            assert made.read_bytes() == (MAPS / made.name).read_bytes(), made.name
