"""`forewarn laws`: the list, one law, its automaton and its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["laws", *arguments])


def _json(*arguments: str) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_book_is_listed_in_plain_words() -> None:
    result = _run()
    assert result.exit_code == 0
    assert "51_5            Article 51 (5)  At red, stop at the line" in result.stdout
    assert len(_json()["laws"]) == 26
    assert _json("near_miss_ttc")["statute"] == ""  # no law of any country's


def test_a_law_shows_article_formula_signals_and_automaton() -> None:
    shown = _json("rule38_1")
    assert shown["name"] == "38_1" and shown["article"] == "Article 38 (1)"
    assert "People's Republic of China" in shown["statute"]
    assert shown["edition"] == "probguard"
    assert shown["signals"] == [
        "traffic_light", "priority_vehicle", "priority_pedestrian", "speed",
    ]  # fmt: skip
    automaton = shown["automaton"]
    assert automaton["states"][:2] == ["idle", "wait:1"]
    assert len(automaton["states"]) == 102 and automaton["period_s"] == 0.1
    steps = {(t["from"], t["when"], t["to"]) for t in automaton["transitions"]}
    assert ("wait:1", "not b", "violated") in steps
    assert automaton["propositions"]["b"] == "speed > 0.5 km/h"


def test_the_text_for_people_names_the_same_things() -> None:
    text = _run("38_2").stdout
    for part in (
        "38_2: At yellow, stop",
        "Article 38 (2), Regulation on the Implementation",
        "edition: ProbGuard",
        "signals: traffic_light, lane_count, speed",
        "38_2_go_on: always (yellow and lane_count == 0",
        "102 states at 0.1 s",
        "wait:100 … wait:1 -> violated when not b at the last step",
    ):
        assert part in text


def test_edition_and_period_change_the_automaton() -> None:
    shown = _json("38_1", "--edition", "lawbreaker", "--period", "0.5")
    assert shown["edition"] == "lawbreaker"
    assert shown["automaton"]["states"][-2:] == ["wait:4", "violated"]


def test_a_law_with_its_own_clock_keeps_it() -> None:
    shown = _json("51_6")
    assert shown["clock_s"] == shown["automaton"]["period_s"] == 0.5
    assert "shortest period of its monitor: 0.5 s" in _run("51_6").stdout


def test_an_article_shows_all_its_laws() -> None:
    assert [law["name"] for law in _json("46")["laws"]] == ["46_2", "46_3"]


def test_a_formula_is_shown_like_a_law() -> None:
    shown = _json("always (a -> eventually[0, 3 steps] b)")
    assert shown["automaton"]["states"] == [
        "idle", "wait:1", "wait:2", "wait:3", "violated",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("always sped <= 60", "'sped' is not a known signal; did you mean speed?"),
        ("always (speed > 3 -> eventually[0, 3 steps] b)", ""),
        ("always not is_open(Door)", ""),
        ("51_5", ""),
    ],
)
def test_misspelt_signal_gets_a_suggestion(law: str, said: str) -> None:
    done = _run(law)
    assert done.exit_code == 0 and said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)


def test_a_users_own_book_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "{format: forewarn.laws/1, laws: {quiet: {title: Be quiet,"
        " formula: always not noise}}}"
    )
    assert _json("--book", str(path))["laws"][0]["name"] == "quiet"
    assert "Be quiet" in _run("quiet", "--book", str(path)).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rule51_55"], "did you mean 51_5"),
        (["always (a ->"], "column"),
        (["38_1", "--period", "0"], "--period"),
        (["38_1", "--edition", "mine"], "--edition"),
        (["--book", "/absent.yaml"], "/absent.yaml"),
        (["always (a -> eventually b)"], "can never be broken in a finite run"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    arguments: list[str], said: str
) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert said in result.stderr and result.stderr.count("\n") == 1
