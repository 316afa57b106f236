"""A user's own SUMO files: a configuration, or a net with routes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn import read_traces
from forewarn.abstractions.errors import InvalidInput
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.registry import make_world
from forewarn.plugins.sumo.support import MAPS

pytestmark = pytest.mark.needs("libsumo")

ROUTES = """
<routes>
  <vType id="mine" length="4" minGap="2.5"/>
  <route id="across" edges="south_in west_out"/>
  <vehicle id="other" type="mine" route="across" depart="0" departPos="90"/>
  <vehicle id="hero" type="mine" route="across" depart="3" departPos="40"
   departSpeed="8"/>
</routes>
"""
CONFIG = """
<configuration>
  <input><net-file value="town.net.xml"/><route-files value="mine.rou.xml"/></input>
</configuration>
"""


EGO = {"vehicle": "hero"}


@pytest.fixture
def town(tmp_path: Path) -> Path:
    shutil.copyfile(MAPS / "tee.net.xml", tmp_path / "town.net.xml")
    (tmp_path / "mine.rou.xml").write_text(ROUTES)
    (tmp_path / "town.sumocfg").write_text(CONFIG)
    return tmp_path


def test_a_vehicle_of_ones_own_configuration_becomes_the_ego(town: Path) -> None:
    world = make_world(
        "sumo", {"map": str(town / "town.sumocfg"), "ego": {"vehicle": "hero"}}
    )
    frame = world.reset(1)
    assert frame.values["speed"] == pytest.approx(8 * 3.6, abs=2)
    assert frame.values["direction"] == "left"
    assert frame.values["lead_distance"] is not None
    while world.ended() is None and frame.sequence < 600:
        frame = world.step(Action("control", {"acceleration": 0.0}))
    assert world.ended() is not None
    world.close()


def test_ones_own_net_with_ones_own_routes_and_ours(town: Path) -> None:
    world: Any = make_world(
        "sumo",
        {
            "map": str(town / "town.net.xml"),
            "route_files": str(town / "mine.rou.xml"),
            "ego": {"route": ["west_in", "east_out"], "position_m": 100.0},
            "flows": [{"routes": [["east_in", "west_out"]], "per_hour": 600.0}],
        },
    )
    frame = world.reset(1)
    names = {thing.name for thing in world.things()}
    assert {"ego", "other", "hero"} <= names
    assert frame.values["stop_line_distance"] is None, "the main road goes first"
    assert frame.values["junction_distance"] is not None
    world.close()


def test_ego_that_never_departs_is_reported(town: Path) -> None:
    world = make_world(
        "sumo", {"map": str(town / "town.sumocfg"), "ego": {"vehicle": "nobody"}}
    )
    with pytest.raises(InvalidInput, match="define no vehicle 'nobody'"):
        world.reset(1)


WRITERS = (
    ("<output>{}</output>", '<fcd-output value="{}"/>'),
    ("<output>{}</output>", '<save-state.files value="{}"/>'),
    ("<report>{}</report>", '<message-log value="{}"/>'),
    ("<traci_server>{}</traci_server>", '<remote-port value="4000"/>'),
    ("<python>{}</python>", '<python-script value="{}"/>'),
)


@pytest.mark.parametrize(("section", "option"), WRITERS)
def test_a_configuration_writes_no_file(section: str, option: str, town: Path) -> None:
    kept = town / "kept"
    kept.write_text("mine")
    said = section.format(option.format(kept))
    config = CONFIG.replace("</configuration>", f"{said}</configuration>")
    (town / "town.sumocfg").write_text(config)
    with pytest.raises(InvalidInput, match="could make SUMO write files"):
        make_world("sumo", {"map": str(town / "town.sumocfg"), "ego": EGO})
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("where", ["net", "additional", "included"])
def test_nor_does_what_it_reads(where: str, town: Path) -> None:
    detector = '<e1Detector id="a" lane="x_0" pos="1" period="1" file="../out.xml"/>'
    map_ = town / "town.net.xml"
    if where == "net":
        text = map_.read_text().replace("</net>", f"{detector}</net>")
        map_.write_text(text)
    else:
        (town / "more.xml").write_text(f"<additional>{detector}</additional>")
        named = "more.xml"
        if where == "included":
            (town / "all.xml").write_text('<a><include href="more.xml"/></a>')
            named = "all.xml"
        more = f'<additional-files value="{named}"/></input>'
        (town / "town.sumocfg").write_text(CONFIG.replace("</input>", more))
        map_ = town / "town.sumocfg"
    with pytest.raises(InvalidInput, match="<e1Detector> could make SUMO write files"):
        make_world("sumo", {"map": str(map_), "ego": EGO})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"map": "no/such.net.xml"}, r"my\.yaml: world: there is no file .*\$here/"),
        ({"map": "{town}/twon.net.xml"}, r"did you mean town\.net\.xml\?"),
        ({"map": "{town}/broken.sumocfg"}, r"broken\.sumocfg: there is no file .*nett"),
        ({"map": "{town}/town.net.xml", "route_files": "mine.rou.xm"}, "route_files: "),
    ],
)
def test_missing_file_is_reported(
    settings: dict[str, str], says: str, town: Path
) -> None:
    (town / "broken.sumocfg").write_text(CONFIG.replace("town.net", "nett"))
    given: dict[str, Any] = {k: v.format(town=town) for k, v in settings.items()}
    with pytest.raises(InvalidInput, match=says):
        make_world("sumo", given | {"ego": {"vehicle": "hero"}}, "my.yaml")


SCENARIO = """
format: forewarn.scenario/1
name: town
title: A town of one's own
world:
  name: sumo
  settings:
    map: $here/town.sumocfg
    ego: {vehicle: hero}
pilot:
  name: sumo-driver
  settings: {profile: mixed}
laws: [no_collision, "57"]
abstraction:
  format: forewarn.abstraction/1
  name: town
  vocabulary: driving
  period_s: 0.1
  predicates:
    - collision
    - bands(speed, 10 km/h)
    - direction == left
    - direction == right
    - turn_signal == left
    - turn_signal == right
end: {max_time_s: 30}
"""


def test_a_scenario_on_ones_own_configuration_without_code(town: Path) -> None:
    scenario, traces = town / "town.yaml", town / "traces"
    scenario.write_text(SCENARIO)
    for command in (
        ["collect", scenario, "--episodes", "3", "--out", traces],
        ["learn", traces, "--scenario", scenario, "--out", town / "town.json"],
        ["run", scenario, "--model", town / "town.json", "--seed", "9"],
    ):
        done = CliRunner().invoke(main, [str(part) for part in command])
        assert done.exit_code == 0 or command[0] == "run", done.output
        assert done.exit_code in (0, 1), done.output
    assert len(list(read_traces(traces))) == 3
