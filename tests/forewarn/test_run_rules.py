"""Rules that a scenario names: in force beside a model, alone, and in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.scenarios.schema import InvalidScenario, load_scenario, shipped_scenarios

FORK = "fork-in-microwave"
CARELESS = 104
"""A seed with which the robot heats the fork, if nobody keeps it from that."""

RULES = """
format: forewarn.rules/1
domain: household
rules:
- {name: no-metal, before: put, when: sparks, enforce: skip}
"""
PREDICATES = """
format: forewarn.predicates/1
domain: household
predicates:
  sparks: {doc: Metal meets a microwave., when: held_metal and target == Microwave}
"""


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def _episode(*arguments: object) -> dict[str, Any]:
    done = _run("run", *arguments, "--seed", CARELESS, "--no-scene", "--json")
    assert done.exit_code == 0, done.output
    (episode,) = json.loads(done.stdout)["episodes"]
    return dict(episode)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The fork's scenario, with a rule of its own and no model that ships."""
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "mine.yaml").write_text(PREDICATES)
    text = shipped_scenarios()[FORK].read_text().replace(FORK, "fork-of-mine")
    path = tmp_path / "fork.yaml"
    path.write_text(f"{text}rules: rules.yaml\npredicates: [mine.yaml]\n")
    return path


def test_rules_judge_alone_and_replay(scenario: Path, tmp_path: Path) -> None:
    episode = _episode(scenario, "--out", tmp_path / "out")
    assert not episode["violations"]
    assert {each["law"] for each in episode["interventions"]} == {"no-metal"}
    for command in ("replay", "verify"):
        assert _run(command, tmp_path / "out").exit_code == 0
    assert _run("report", tmp_path / "out", "--out", tmp_path / "r.html").exit_code == 0


def test_unguarded_runs_ignore_rules(scenario: Path, tmp_path: Path) -> None:
    episode = _episode(scenario, "--unguarded", "--out", tmp_path / "out")
    assert episode["violations"]
    assert not episode["interventions"]


def test_rules_apply_in_addition_to_a_model(scenario: Path, tmp_path: Path) -> None:
    own = load_scenario(FORK)
    shipped = Path(own.source).parents[1] / "trained" / f"{FORK}.model.json.gz"
    episode = _episode(
        scenario, "--model", shipped, "--accept-model", "--intervene", "alert",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert not episode["violations"]
    laws = {each["law"] for each in episode["alarms"]}
    assert "no-metal" in laws | {each["law"] for each in episode["interventions"]}


def test_no_model_applies_only_the_rules(scenario: Path, tmp_path: Path) -> None:
    given = ("--no-model", "--rules", scenario.parent / "rules.yaml")
    mine = ("--predicates", scenario.parent / "mine.yaml")
    episode = _episode(FORK, *given, *mine, "--out", tmp_path / "out")
    assert not episode["violations"]
    assert all(each["risk"] is None for each in episode["alarms"])


def test_collect_enforces_the_rules(scenario: Path, tmp_path: Path) -> None:
    arguments = ("--episodes", 1, "--seed", CARELESS, "--out", tmp_path / "traces")
    done = _run("collect", scenario, *arguments, "--json")
    assert done.exit_code == 0, done.output
    assert [law["violating"] for law in json.loads(done.stdout)["laws"]] == [0]


@pytest.mark.parametrize(
    "options", [("--no-model",), ("--unguarded", "--no-model"), ("--shadow",)]
)
def test_options_that_make_no_sense_are_refused(options: tuple[str, ...]) -> None:
    model = ("tiny-kitchen", *options, "--out", "nowhere")
    assert _run("run", *model).exit_code == 2


def test_rules_that_cannot_be_read_are_refused(scenario: Path) -> None:
    (scenario.parent / "rules.yaml").write_text(RULES.replace("sparks", "sparkles"))
    with pytest.raises(InvalidScenario.__mro__[1], match="sparkles"):
        load_scenario(str(scenario))


def test_rules_that_nothing_here_can_match_are_refused(
    scenario: Path, tmp_path: Path
) -> None:
    rules = scenario.parent / "rules.yaml"
    for changed in (
        RULES.replace("before: put", "before: [weld, trhow]"),
        RULES.replace("before: put", "domain: code, before: any").replace(
            "sparks", "deletes"
        ),
    ):
        rules.write_text(changed)
        done = _run("run", scenario, "--seed", CARELESS, "--out", tmp_path / "out")
        assert done.exit_code == 2
        assert "the rule no-metal" in done.stderr
