"""Scenario files: what ships is sound, and what is wrong is said in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import ForewarnError
from forewarn.scenarios.draws import Draw, draw_all, filled
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import (
    NamedPlugin,
    load_scenario,
    parse_scenario,
    shipped_scenarios,
)

TINY = ("tiny-kitchen", "tiny-road")
ROAD = load_scenario("tiny-road").text

LAW = (
    "always (traffic_light == red and stop_line_distance <= 2 m"
    " -> eventually[0, 2 s] (speed < 0.5 km/h or traffic_light == green))"
)


@pytest.mark.parametrize("name", shipped_scenarios())
def test_what_ships_is_named_like_its_file(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.title and scenario.expected_base_rate
    assert parse_scenario(scenario.text, scenario.source, Path(scenario.source).parent)


@pytest.mark.parametrize("name", TINY)
def test_laws_are_broken_as_often_as_it_says(name: str) -> None:
    scenario = load_scenario(name)
    runner, runs = Runner(scenario), 250
    episodes = [runner.run(seed) for seed in range(runs)]
    assert set(scenario.expected_base_rate) == {law.name for law in scenario.laws}
    for law, (low, high) in scenario.expected_base_rate.items():
        broken = sum(episode.first(law) is not None for episode in episodes)
        assert low <= broken / runs <= high, law


def test_a_formula_can_be_named() -> None:
    law, other = load_scenario("tiny-road").laws
    assert (law.name, law.text) == ("stop_at_red", LAW)
    assert law.reference == f"stop_at_red := {LAW}"
    assert other.name == other.reference == "no_collision"


def test_laws_of_the_scenario_are_known_by_their_names() -> None:
    road = load_scenario("tiny-road")
    (law,) = road.under(["stop_at_red"]).laws
    assert law == road.laws[0]
    assert road.under(["stop_at_red", "no_collision"]).laws == road.laws
    with pytest.raises(ForewarnError, match="--law: the law book has no law 'stop'"):
        road.under(["stop"])


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("title:", "titel:", "x: titel: unknown key 'titel' (did you mean title?)"),
        ("name: tiny-road", "name: a/b", "x: name: string should match pattern"),
        ("max_time_s: 30", "max_time_s: 0", "x: end.max_time_s: the value should"),
        (
            "$speed",
            "$speeed",
            "x: tiny.speed_kmh: no distribution is given for $speeed (did",
        ),
        ("sd: 6", "sd: -6", "x: draws.speed.normal.sd: the value should be greater"),
        ("mean: 47", "mean: 7", "x: draws.speed.normal: the mean must lie between"),
        ("normal: {mean: 47, sd: 6, low: 36, high: 58}", "{}", "x: draws.speed: give"),
        (
            "- no_collision",
            "- no_colision",
            "x: laws: the law book has no law 'no_colision'",
        ),
        ("- no_collision", "- stop_at_red := always collision", "x: laws: the law 's"),
        ("(speed < 0.5 km/h or", "(speed < 0.5 m or", "x: laws, column "),
        ("  no_collision: [", "  no_colision: [", "x: expected_base_rate: the sce"),
        (
            "- braking",
            "- brakking",
            "x: abstraction: predicate 8, column 1: unknown signal",
        ),
        ("format: forewarn.scenario/1", "format: 1", "x: format: '1' is not"),
        ("laws:", "laws: []\nmore:", "x: more: unknown key 'more'"),
    ],
)
def test_error_is_reported_in_one_line(old: str, new: str, line: str) -> None:
    assert old in ROAD
    with pytest.raises(ForewarnError) as caught:
        parse_scenario(ROAD.replace(old, new), "x", Path())
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_no_scenario_has_a_near_miss() -> None:
    with pytest.raises(ForewarnError, match=r"no scenario 'tiny-raod' \(did you mean"):
        load_scenario("tiny-raod")


@pytest.mark.parametrize("key", ["abstraction", "rules", "predicates"])
@pytest.mark.parametrize("path", ["/etc/passwd", "../up.yaml", "a/../../up.yaml"])
def test_a_scenario_names_files_below_itself_only(
    key: str, path: str, tmp_path: Path
) -> None:
    before = ROAD[: ROAD.index("abstraction:")] if key == "abstraction" else ROAD
    text = f"{before}\n{key}: {path}\n"
    with pytest.raises(ForewarnError, match="is outside the folder"):
        parse_scenario(text, "x", tmp_path)


def test_an_abstraction_may_stand_in_a_file_beside_it(tmp_path: Path) -> None:
    begin = ROAD.index("abstraction:")
    lines = ROAD[begin:].splitlines()[1:]
    (tmp_path / "road.yaml").write_text("\n".join(line[2:] for line in lines))
    text = ROAD[:begin] + "abstraction: road.yaml\n"
    found = parse_scenario(text, "x", tmp_path)
    same = load_scenario("tiny-road")
    assert found.abstraction.fingerprint() == same.abstraction.fingerprint()
    assert found.digest == same.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title: ", "title: Another "),
        ("description: >-\n", "description: >-\n  More words.\n"),
        ("format:", "# A comment.\nformat:"),
    ],
)
def test_digest_ignores_what_cannot_change_a_run(old: str, new: str) -> None:
    assert old in ROAD
    again = parse_scenario(ROAD.replace(old, new, 1), "x", Path())
    assert again.digest == load_scenario("tiny-road").digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mean: 47", "mean: 48"),
        ("max_time_s: 30", "max_time_s: 31"),
        ("stop_line_distance <= 2 m", "stop_line_distance <= 3 m"),
        ("horizon_s: 3", "horizon_s: 4"),
        ("- braking", "- not braking"),
        ("world:", "actuator: {name: other}\nworld:"),
        ("  - no_collision\n", ""),
    ],
)
def test_digest_depends_on_everything_that_determines_a_run(old: str, new: str) -> None:
    assert old in ROAD
    text = ROAD.replace("  no_collision: [", "  # no_collision: [")
    again = parse_scenario(text.replace(old, new, 1), "x", Path())
    assert again.digest != load_scenario("tiny-road").digest


# -- what is drawn ---------------------------------------------------------------------

SEEDS = st.integers(0, 2**31)


def test_a_draw_does_not_depend_on_the_others() -> None:
    draws = {"speed": Draw(uniform=(0, 1)), "gap": Draw(uniform=(0, 1))}
    both = draw_all(draws, 7)
    assert draw_all({"gap": draws["gap"]}, 7) == {"gap": both["gap"]}
    assert both["speed"] != both["gap"]
    assert draw_all(draws, 8) != both
    assert draw_all(draws, 7) == both


@given(SEEDS)
def test_drawn_values_lie_in_their_ranges(seed: int) -> None:
    drawn = draw_all(
        {
            "uniform": Draw(uniform=(2, 3)),
            "integer": Draw(integer=(1, 3)),
            "normal": Draw.model_validate({"normal": {"mean": 0, "sd": 9, "low": -1}}),
            "choice": Draw(choice=["a", 2, None]),
            "never": Draw(choice=["a", "b"], weights=[1, 0]),
            "chance": Draw(chance=0.5),
        },
        seed,
    )
    assert 2 <= drawn["uniform"] <= 3  # type: ignore[operator]
    assert drawn["integer"] in (1, 2, 3) and type(drawn["integer"]) is int
    assert drawn["normal"] >= -1  # type: ignore[operator]
    assert drawn["choice"] in ("a", 2, None)
    assert drawn["never"] == "a"
    assert type(drawn["chance"]) is bool


def test_shares_come_out_as_given() -> None:
    draws = {
        "rain": Draw(chance=0.3),
        "colour": Draw(choice=["red", "green"], weights=[3, 1]),
    }
    found = [draw_all(draws, seed) for seed in range(2000)]
    assert 0.25 < sum(each["rain"] is True for each in found) / 2000 < 0.35
    assert 0.7 < sum(each["colour"] == "red" for each in found) / 2000 < 0.8


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"uniform": [1, 2], "chance": 0.5},
        {"uniform": [2, 1]},
        {"chance": 1.5},
        {"choice": []},
        {"choice": ["a"], "weights": [1, 2]},
        {"choice": ["a"], "weights": [0]},
        {"uniform": [1, 2], "weights": [1]},
        {"integer": [1.5, 2]},
    ],
)
def test_a_draw_that_makes_no_sense_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Draw.model_validate(content)


def test_names_are_filled_in_wherever_they_stand() -> None:
    settings = {"a": "$x", "b": [{"c": "$y"}, "plain"], "d": 1}
    drawn = {"x": 0.5, "y": None}
    assert filled(settings, drawn, "s", "p") == {
        "a": 0.5,
        "b": [{"c": None}, "plain"],
        "d": 1,
    }


def test_a_change_of_the_users_own_code_changes_the_digest(tmp_path: Path) -> None:
    code, path = tmp_path / "mine.py", tmp_path / "mine.yaml"
    code.write_text("GAIN = 1\n")
    path.write_text(ROAD)
    plain = load_scenario(str(path))
    settings = {"signals": {"speed": f"{code}:speed"}}
    mine = replace(plain, world=NamedPlugin(name="tiny", settings=settings))
    before = mine.unguarded_digest
    code.write_text("GAIN = 2\n")
    assert replace(plain, world=mine.world).unguarded_digest != before
