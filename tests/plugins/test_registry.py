"""The registry: names, settings, and plugins that do not load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.plugins import registry
from forewarn.plugins.contracts import Actuator, Pilot, World
from forewarn.plugins.registry import (
    BrokenPlugin,
    load,
    make_pilot,
    make_world,
    plugins,
)
from forewarn.scenarios.running.campaign import recordings
from forewarn.scenarios.schema import parse_scenario, shipped_scenarios

CODE = """
from forewarn.plugins.tiny import TinyWorld

class Lacking:
    source = TinyWorld.source
    def reset(self, seed): ...

def flexible(**settings):
    world = TinyWorld()
    world.settings = settings
    return world
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs a package of someone else's, or of ours, with worlds in its metadata."""

    def add(package: str, worlds: dict[str, str], code: str = CODE) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in worlds.items()]
        points = "\n".join(["[forewarn.worlds]", *lines])
        (info / "entry_points.txt").write_text(points)
        (tmp_path / f"{package}_code.py").write_text(code)
        registry._found.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield add
    registry._found.cache_clear()


def test_the_tiny_plugs_are_there_by_name() -> None:
    for name in ("tiny", "tiny-household"):
        assert isinstance(make_world(name), World)
        assert isinstance(make_pilot(name), Pilot)
        assert isinstance(make_world(name).actuator(), Actuator)


def test_listing_imports_no_plug() -> None:
    code = (
        "import sys; from forewarn.plugins.registry import plugins; print("
        "[p.name for p in plugins('world')], 'forewarn.plugins.tiny' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "'tiny'" in done.stdout and done.stdout.strip().endswith("False")


def test_a_world_that_counts_its_episodes_is_no_recording(install: Any) -> None:
    code = """
from forewarn.plugins.tiny import TinyWorld

class Counting(TinyWorld):
    episodes = 0
"""
    install("counting", {"counting": "counting_code:Counting"}, code)
    path = shipped_scenarios()["tiny-road"]
    text = path.read_text().replace(
        "world:\n  name: tiny\n", "world:\n  name: counting\n"
    )
    assert recordings(parse_scenario(text, str(path), path.parent)) is None


def test_a_plug_says_where_it_comes_from() -> None:
    tiny = {plugin.name: plugin for plugin in plugins("world")}["tiny"]
    assert (tiny.package, tiny.role) == ("forewarn", "world")
    assert tiny.target == "forewarn.plugins.tiny:TinyWorld"


def test_an_unknown_name_names_the_near_miss() -> None:
    with pytest.raises(InvalidInput, match=r"no world 'tyny' \(did you mean tiny\?\)"):
        load("world", "tyny")
    with pytest.raises(InvalidInput, match="known names are: .*tiny, tiny-household"):
        load("world", "qqqqqqqq")


def test_settings_reach_the_plug() -> None:
    frame = make_world("tiny", {"speed_kmh": 45, "lead": False}).reset(1)
    assert (frame.values["speed"], frame.values["lead_distance"]) == (45.0, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sped_kmh": 45},
            r"s.yaml: world: sped_kmh: unknown key .*did you mean speed_kmh",
        ),
        (
            {"speed_kmh": "fast"},
            "s.yaml: world: speed_kmh: expected a number, found 'fast'",
        ),
        ({"speed_kmh": 0.0}, "s.yaml: world: speed_kmh: the value should be greater"),
        ({"speed_kmh": float("nan")}, "s.yaml: world: speed_kmh: "),
        ({"lead": 1}, "s.yaml: world: lead: expected true or false"),
        ({1: 2}, "s.yaml: world: the names of settings must be strings"),
    ],
)
def test_settings_are_checked_by_the_signature(
    settings: dict[Any, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_world("tiny", settings, "s.yaml")


def test_a_plug_that_takes_any_settings_gets_them(install: Any) -> None:
    install("others", {"flexible": "others_code:flexible"})
    world: Any = make_world("flexible", {"anything": [1]})
    assert world.settings == {"anything": [1]}


def test_a_plug_that_does_not_load_is_an_error(install: Any) -> None:
    install("broken", {"sad": "broken_code:World"}, "raise OSError('no licence')")
    with pytest.raises(BrokenPlugin, match="sad of the package broken .* no licence"):
        load("world", "sad")
    assert "sad" in [plugin.name for plugin in plugins("world")]


def test_a_plug_that_lacks_its_extra_says_how_to_get_it(install: Any) -> None:
    install("forewarn", {"far": "forewarn_code:W [carla]"}, "import no_such_simulator")
    with pytest.raises(MissingDependency, match=r"pip install 'forewarn\[carla\]'"):
        load("world", "far")


def test_a_missing_package_names_the_extra_of_the_plugin(install: Any) -> None:
    lacking = "from forewarn.abstractions.errors import MissingDependency\n"
    lacking += "raise MissingDependency('an environment', 'gym')"
    install("forewarn", {"roads": "forewarn_code:W [highway]"}, lacking)
    with pytest.raises(MissingDependency, match=r"roads .*'forewarn\[highway\]'"):
        load("world", "roads")


def test_a_name_that_two_packages_offer_is_refused(install: Any) -> None:
    install("one", {"twice": "one_code:flexible"})
    install("two", {"twice": "two_code:flexible"})
    with pytest.raises(InvalidInput, match="one and two both provide|two and one both"):
        load("world", "twice")


def test_a_world_without_an_abstract_method_is_rejected(install: Any) -> None:
    code = "from forewarn.plugins.contracts import SteppedWorld\n"
    install("mine", {"mine": "mine_code:SteppedWorld"}, code)
    with pytest.raises(BrokenPlugin, match="mine is not a valid world, .* lacks begin"):
        make_world("mine")


def test_a_world_without_required_methods_is_rejected(install: Any) -> None:
    install("lacking", {"half": "lacking_code:Lacking"})
    with pytest.raises(
        BrokenPlugin,
        match="half is not a valid world, because it lacks actions, actuator, ",
    ):
        make_world("half")
