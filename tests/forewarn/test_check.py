"""`forewarn check`: the promised shapes, the exit statuses, and what people read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main

CHAIN = """dtmc

module road
    s : [0..4] init 1;

    [] s=0 -> 1/2 : (s'=0) + 1/2 : (s'=1);
    [] s=1 -> 0.25 : (s'=0) + 0.5 : (s'=2) + 0.25 : (s'=4);
    [] s=2 -> 1/3 : (s'=1) + 2/3 : (s'=3);
endmodule

label "crash" = s=3;
"""
WALK = "calm near near crash\ncalm calm near calm\ncalm near calm calm\n"


def forewarn(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def asked(*arguments: object, status: int = 0) -> dict[str, Any]:
    done = forewarn(*arguments, "--json")
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(*arguments: object, status: int = 2) -> str:
    done = forewarn(*arguments)
    assert done.exit_code == status, done.output
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.fixture
def road(tmp_path: Path) -> Path:
    pytest.importorskip("stormpy")
    path = tmp_path / "road.prism"
    path.write_text(CHAIN)
    return path


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    states, out = tmp_path / "walk.txt", tmp_path / "walk.json"
    states.write_text(WALK)
    arguments = ["learn", str(states), "--format", "states", "--alpha", "1",
                 "--end", "absorb", "--out", str(out)]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    header = {"format": "forewarn.trace/1", "vocabulary": "driving", "period_s": 0.1,
              "provides": ["speed", "brake"]}  # fmt: skip
    values = [(0.0, 0.0), (0.0, 0.0), (20.0, 0.0), (20.0, 9.0), (20.0, 9.0), (0.0, 9.0)]
    frames = [
        {"sequence": i, "time_s": i / 10, "signals": {"speed": speed, "brake": brake}}
        for i, (speed, brake) in enumerate(values)
    ]
    trace, out = tmp_path / "t.jsonl", tmp_path / "speeds.json"
    trace.write_text("\n".join(map(json.dumps, [header, *frames])))
    law = "always(brake > 5 -> eventually[0, 0.2 s] speed < 0.5)"
    learned = CliRunner().invoke(
        main, ["learn", str(trace), "--law", law, "--out", str(out)]
    )
    assert learned.exit_code == 0, learned.output
    return out


# Properties


def test_one_property_is_answered_flat(road: Path) -> None:
    text = "P=? [ F<=20 (s=3|s=4) ]"
    found = asked(road, "--prop", text, "--from", "all")
    assert list(found) == ["engine", "property", "values", "warnings"]
    assert found["engine"] == "builtin"
    assert found["property"] == text
    assert list(found["values"]) == ["0", "1", "2", "3", "4"]
    assert found["values"]["3"] == 1.0
    assert found["warnings"] == [
        "2 states have no row and are treated as absorbing: 3, 4"
    ]


def test_several_properties_are_answered_in_order(road: Path) -> None:
    found = asked(road, "--prop", "P=? [ X s=2 ]", "--prop", 'P=? [ F "crash" ]')
    assert list(found) == ["results"]
    first, second = (result["values"]["1"] for result in found["results"])
    assert (first, second) == (0.5, pytest.approx(4 / 7))


@pytest.mark.needs("stormpy")
def test_exact_answers_stand_beside_the_values(road: Path) -> None:
    found = asked(road, "--prop", 'P=? [ F "crash" ]', "--from", "all", "--exact")
    assert found["exact"] == {"0": "4/7", "1": "4/7", "2": "6/7", "3": "1", "4": "0"}
    assert found["values"]["2"] == 6 / 7
    assert found["engine"] == "storm"


@pytest.mark.needs("stormpy")
@pytest.mark.parametrize("exact", [False, True])
def test_storm_answers_in_the_same_shape(road: Path, exact: bool) -> None:
    more = ["--exact"] if exact else []
    ours = asked(road, "--prop", 'P=? [ F "crash" ]', "--from", "all", *more)
    storms = asked(road, "--prop", 'P=? [ F "crash" ]', "--from", "all", *more,
                   "--engine", "storm")  # fmt: skip
    assert storms.pop("engine") == "storm"
    assert ours.pop("engine") == ("storm" if exact else "builtin")
    assert storms.pop("values") == pytest.approx(ours.pop("values"))
    assert storms == ours


def test_without_storm_its_package_is_named(
    road: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    said = refused(road, "--prop", "P=? [ F s=3 ]", "--engine", "storm", status=3)
    assert "pip install 'forewarn[storm]'" in said


def test_from_selects_the_initial_states(road: Path, walk: Path) -> None:
    prop = "P=? [ X true ]"
    assert list(asked(road, "--prop", prop)["values"]) == ["0", "1", "2", "3", "4"]
    assert list(asked(road, "--prop", prop, "--from", "init")["values"]) == ["1"]
    assert list(asked(road, "--prop", prop, "--from", "4")["values"]) == ["4"]
    assert list(asked(walk, "--prop", prop, "--from", "near")["values"]) == ["near"]
    assert "unknown state 'nera' (did you mean near?)" in refused(
        walk, "--prop", prop, "--from", "nera"
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--prop", "P=? [ F s=3 ]", "--from", "7"],
         "--from: unknown state '7' (choose from 0, 1, 2, 3, 4)"),
        (["--prop", "P=? [ X s ]"],
         'P=? [ X s ]: column 9: unknown name "s" (compare it, as in s=0)'),
        (["--law", "always (a"],
         "--law: column 10: expected ')', found the end (add ')')"),
        (["--law", "always a"],
         "--law: 'a' is not defined on the states of this model"),
        (["--law", "always (crash -> eventually[0, 1 s] crash)"],
         "--law: a time in s needs a clock"),
    ],
)  # fmt: skip
def test_errors_name_the_wrong_option(
    road: Path, arguments: list[str], line: str
) -> None:
    assert refused(road, *arguments).startswith(f"forewarn: {line}")


def test_a_model_without_counts_is_named(road: Path) -> None:
    said = refused(road, "--prop", "P=? [ F s=3 ]", "--intervals")
    assert said.startswith(f"forewarn: {road}: intervals need transition counts")


def test_states_named_by_digits_are_distinguished(tmp_path: Path) -> None:
    states, out = tmp_path / "s.txt", tmp_path / "s.json"
    states.write_text("01 10 1 01\n")
    arguments = ["learn", str(states), "--end", "ignore", "--out", str(out)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    for name in ("01", "1", "10"):
        values = asked(out, "--prop", f"P=? [ F<=0 s={name} ]")["values"]
        assert [state for state, value in values.items() if value] == [name]
    assert 'unknown state "00" (choose from 01, 1, 10)' in refused(
        out, "--prop", "s=00"
    )


def test_delta_of_nan_is_rejected(walk: Path) -> None:
    said = refused(walk, "--prop", "P=? [ F s=3 ]", "--intervals", "--delta", "nan")
    assert "'--delta': 'nan' is not a finite number" in said


def test_a_chain_without_a_beginning_is_answered_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "m.tra"
    path.write_text("2 2\n0 1 1\n1 1 1\n")
    prop = "P=? [ F s=1 ]"
    assert asked(path, "--prop", prop)["values"] == {"0": 1.0, "1": 1.0}
    assert "no initial state (use --from all)" in refused(
        path, "--prop", prop, "--from", "init"
    )


def test_definitions_are_labels(road: Path, walk: Path) -> None:
    found = asked(road, "--define", "bad=s=3|s=4", "--prop", 'P=? [ F "bad" ]')
    assert found["values"]["1"] == 1.0
    found = asked(walk, "--define", 'bad="crash"|"near"', "--prop", 'P=? [ X "bad" ]',
                  "--exact")  # fmt: skip
    assert found["exact"]["calm"] == "2/5"


def test_unmet_probability_bound_ends_with_status_1(road: Path) -> None:
    prop = 'P>=0.9 [ G !"crash" ]'
    found = asked(road, "--prop", prop, status=1)
    assert (found["values"]["1"], found["values"]["4"]) == (False, True)
    # Where nobody said whence, the initial state decides, whatever holds elsewhere.
    found = asked(road, "--prop", "P>=0.5 [ X s=2 ]")
    assert (found["values"]["1"], found["values"]["0"]) == (True, False)
    assert asked(road, "--prop", prop, "--from", "4")["values"] == {"4": True}
    assert forewarn(road, "--prop", prop).exit_code == 1
    # A probability of zero is no finding.
    asked(road, "--prop", 'P=? [ F "crash" ]', "--from", "4")


def test_a_bound_answers_yes_or_no(road: Path) -> None:
    found = asked(road, "--prop", 'P>0 [ F "crash" ]', "--from", "all", status=1)
    expected = {"0": True, "1": True, "2": True, "3": True, "4": False}
    assert found["values"] == expected


def test_predicates_are_names_on_a_learned_model(speeds: Path) -> None:
    found = asked(speeds, "--prop", 'P=? [ F "speed < 0.5" ]', "--from", "all")
    assert found["values"]["01"] == 1.0
    assert found["values"]["END"] == 0.0
    said = refused(speeds, "--prop", 'P=? [ F "speed < 7" ]')
    assert "column 9" in said
    assert "do not determine whether speed < 7 is true" in said


# Intervals


def test_intervals_contain_the_value(walk: Path) -> None:
    prop = 'P=? [ F<=3 "crash" ]'
    found = asked(walk, "--prop", prop, "--intervals", "--from", "all")
    assert list(found) == [
        "engine", "property", "low", "values", "high", "delta", "assumes",
    ]  # fmt: skip
    assert found["assumes"].startswith(
        "only the Markov property: a state may also have unobserved successors"
    )
    for state, value in found["values"].items():
        assert found["low"][state] <= value <= found["high"][state]
    narrower = asked(walk, "--prop", prop, "--intervals", "--delta", "0.5")
    assert narrower["high"]["calm"] < found["high"]["calm"]
    closed = asked(walk, "--prop", prop, "--intervals", "--closed-support")
    assert closed["high"]["calm"] < found["high"]["calm"]
    assert closed["assumes"].endswith("are possible (closed support)")
    said = CliRunner().invoke(main, ["check", str(walk), "--prop", prop, "--intervals"])
    assert (
        "With probability 0.95, [low, high] contains the true value in every"
        in said.output
    )


def test_estimate_moved_out_of_its_bounds_by_smoothing_is_reported(
    tmp_path: Path,
) -> None:
    states, out = tmp_path / "s.txt", tmp_path / "m.json"
    states.write_text("a " * 2000 + "b\n")
    learn = ["learn", str(states), "--format", "states", "--alpha", "500", "--end",
             "ignore", "--out", str(out)]  # fmt: skip
    assert CliRunner().invoke(main, learn).exit_code == 0
    found = asked(out, "--prop", 'P=? [ X "b" ]', "--intervals")
    assert any("lies outside the bounds in state a" in w for w in found["warnings"])


def test_bounds_need_counts(road: Path) -> None:
    said = refused(road, "--prop", "P=? [ F s=3 ]", "--intervals")
    assert "intervals need transition counts, and this model has none" in said


# Laws


def test_a_law_is_answered_for_every_monitor_state(road: Path) -> None:
    law = "always(a -> eventually[0,2 steps] b)"
    define = ["--define", "a=s=1", "--define", "b=s=0|s=3"]
    found = asked(road, "--law", law, *define, "--from", "all")
    assert list(found) == ["engine", "law", "values", "warnings"]
    assert list(found["values"]) == ["0", "1", "2", "3", "4"]
    assert set(found["values"]["1"]) == {"wait:2", "wait:1", "violated"}
    assert found["values"]["1"]["violated"] == 1.0
    assert found["values"]["2"] == pytest.approx(
        {"idle": 5 / 27, "wait:1": 1 / 3, "violated": 1}
    )


def test_a_law_within_steps(road: Path) -> None:
    law = ["--law", "always(a -> eventually[0,1 steps] b)", "--define", "a=s=1"]
    law += ["--define", "b=s=3"]
    assert asked(road, *law, "--within", "0")["values"]["1"]["wait:1"] == 0.0
    assert asked(road, *law, "--within", "1")["values"]["1"]["wait:1"] == 1.0


def test_laws_follow_properties(road: Path) -> None:
    found = asked(road, "--law", "always(not crash)", "--prop", 'P=? [ F "crash" ]')
    first, second = found["results"]
    assert first["property"] == 'P=? [ F "crash" ]'
    assert second["law"] == "always(not crash)"
    assert second["values"]["1"]["idle"] == pytest.approx(first["values"]["1"])


def test_a_law_over_signals_is_decided_by_the_model(speeds: Path) -> None:
    law = "always(brake > 5 -> eventually[0, 0.2 s] speed < 0.5)"
    found = asked(speeds, "--law", law, "--from", "all")
    assert found["values"]["10"]["wait:2"] < 1
    assert "do not determine whether" in refused(speeds, "--law", "38_1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to check: give --prop or --law"),
        (["--prop", "P=? [ F<= ]"], "P=? [ F<= ]: column 11: expected a whole number"),
        (["--prop", "P=? [ F bad ]"], 'column 9: unknown name "bad" (define it'),
        (
            ["--prop", "P=? [ F s=9 ]"],
            "column 9: no state has s=9 (s ranges from 0 to 4)",
        ),
        (["--prop", "P=? [ F t=1 ]"], "column 9: unknown variable 't'"),
        (["--prop", "true", "--define", "x"], "--define x: the definition has no name"),
        (["--prop", "true", "--define", "x=s="], "--define x=s=: column 3"),
        (["--prop", "true", "--within", "3"], "--within requires --law"),
        (["--law", "always(not crash)", "--exact"], "--exact requires --prop"),
        (["--prop", "true", "--closed-support"], "--closed-support requires"),
        (
            ["--prop", "true", "--intervals", "--exact"],
            "--intervals cannot be combined with --exact",
        ),
        (
            ["--law", "always(not crash)", "--intervals"],
            "--intervals requires --prop",
        ),
        (["--law", "always(not crsh)"], "'crsh' is not defined on the states of this"),
        (["--law", "always(not crash"], "column 17"),
        (["--law", "nolaw"], "the law book has no law 'nolaw'"),
        (["--law", "always(crash -> eventually[0, 1 s] crash)"], "needs a clock"),
        (["--law", "always(not crash)", "--within", "-1"], "-1"),
        (["--prop", "true", "--engine", "prism"], "builtin"),
        (["--prop", "true", "--delta", "2"], "--delta"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    road: Path, arguments: list[str], message: str
) -> None:
    assert message in refused(road, *arguments)


def test_a_bad_model_is_named(tmp_path: Path) -> None:
    assert "nowhere.json" in refused(tmp_path / "nowhere.json", "--prop", "true")
    path = tmp_path / "bad.prism"
    path.write_text(CHAIN.replace("2/3", "1/3"))
    said = refused(path, "--prop", "true")
    assert "bad.prism" in said
    assert "state '2' sums to 0.666666666667" in said


# For people


@pytest.mark.needs("stormpy")
def test_people_get_a_table_with_the_worst_first(road: Path) -> None:
    lines = forewarn(road, "--prop", 'P=? [ F "crash" ]', "--from", "all", "--exact")
    assert lines.stdout.splitlines() == [
        'P=? [ F "crash" ]',
        "state  probability  exact",
        "    3            1  1",
        "    2     0.857143  6/7",
        "    0     0.571429  4/7",
        "    1     0.571429  4/7",
        "    4            0  0",
        "Warning: 2 states have no row and are treated as absorbing: 3, 4.",
    ]
    safe = forewarn(road, "--prop", 'P=? [ G !"crash" ]', "--from", "all").stdout
    assert safe.splitlines()[2].split() == ["3", "0"]
    holds = forewarn(road, "--prop", 'P>0 [ F "crash" ]', "--from", "all").stdout
    assert holds.splitlines()[2].split() == ["4", "no"]


def test_of_many_states_the_worst_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "line.prism"
    moves = "\n".join(
        f"[] s={i} -> 1/2 : (s'={i + 1}) + 1/2 : (s'=0);" for i in range(29)
    )
    path.write_text(f"dtmc\nmodule line\n s : [0..29] init 0;\n{moves}\nendmodule\n")
    shown = forewarn(path, "--prop", "P=? [ F<=9 s=29 ]", "--from", "all").stdout
    lines = shown.splitlines()
    assert lines[2].split() == ["29", "1"]
    assert lines[22] == (
        "The highest 20 of 30 states; --json lists all, --from STATE shows one."
    )


def test_people_read_what_holds_in_a_state(speeds: Path) -> None:
    shown = forewarn(
        speeds, "--prop", 'P=? [ F "speed < 0.5" ]', "--from", "all"
    ).stdout
    assert "true predicates" in shown
    assert "brake > 5" in shown
    law = "always(brake > 5 -> eventually[0, 0.2 s] speed < 0.5)"
    shown = forewarn(speeds, "--law", law, "--within", "4", "--from", "all").stdout
    assert "violated within 4 steps" in shown
    assert "worst in" in shown
    assert "wait:2" in shown
