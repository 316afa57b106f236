"""Routes on a network of the user's own, and the example that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libsumo", reason="libsumo is not installed")

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.sumo.routes import Routes
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Traffic
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import load_scenario

TOWN = Path(__file__).parents[3] / "examples" / "town"
if not TOWN.is_dir():
    pytest.skip("the examples are not here: not a checkout", allow_module_level=True)


@pytest.fixture(scope="module")
def routes() -> Routes:
    return Routes(TOWN / "town.net.xml")


def test_the_example_runs() -> None:
    episode = Runner(load_scenario(str(TOWN / "town.yaml"))).run(0)
    assert episode.error is None and episode.frames > 50


def test_edges_between_lanes_and_speeds_are_completed(routes: Routes) -> None:
    ego = routes.ego(Ego(route=["side", "far"]))
    assert ego.route == ["side", "east", "far"] and ego.lane == 0
    assert ego.speed_kmh < 30.0 < Ego().speed_kmh
    flow = Flow(routes=[["west", "far"]], per_hour=100.0)
    found = routes.traffic(Traffic([flow], [Car(route=["west", "east"])]))
    assert found.flows[0].routes == [["west", "east", "far"]]
    assert found.cars[0].lane == 0


@pytest.mark.parametrize(
    ("ego", "says"),
    [
        ({"route": ["side", "fra"]}, "no edge 'fra' (did you mean far?)"),
        ({"route": ["far", "side"]}, "there is no connection from far to side"),
        (
            {"route": ["side"], "lane": 1},
            "has no lane 1 (the edge has only lane 0)",
        ),
        ({"route": ["side"], "position_m": 900.0}, "the edge is 150 m long"),
    ],
)
def test_edges_that_the_map_lacks_are_named(
    routes: Routes, ego: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=".") as told:
        routes.ego(Ego(**ego))
    assert says in str(told.value)
