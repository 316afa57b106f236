"""scenarios, collect, run, measure and tune, as a user types them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from forewarn.abstractions.readers.stored import stored_runs
from forewarn.cli import main
from forewarn.cli.episodes import counted
from forewarn.cli.groups import chosen_policy
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.policy import Policy, Step, load_policy
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.measuring.seeds import seeds_of
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import runner_of
from forewarn.scenarios.schema import shipped_scenarios
from tests.scenarios import learned
from tests.scenarios.learned import forewarn

KITCHEN = "tiny-kitchen"


@pytest.fixture
def model() -> Path:
    return learned.model(KITCHEN)


def told(*arguments: object) -> dict[str, Any]:
    """The JSON that a command prints, and nothing else."""
    found: dict[str, Any] = json.loads(forewarn(*arguments, "--json"))
    return found


def refused(*arguments: object) -> tuple[int, str]:
    """The exit status and the one line of a command that refuses."""
    done: Result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.exit_code, done.stderr.strip()


# -- scenarios -------------------------------------------------------------------------


def test_scenarios_are_listed_and_shown() -> None:
    listed = told("scenarios")["scenarios"]
    names = [each["name"] for each in listed]
    assert {"tiny-road", KITCHEN} <= set(names)
    shown = told("scenarios", KITCHEN)
    assert shown == listed[names.index(KITCHEN)]
    assert shown["laws"][0]["name"] == "no_metal_heated"
    assert "is_hot(Mug)" in forewarn("scenarios", KITCHEN)
    text = forewarn("scenarios")
    assert all(name in text for name in names)
    status, line = refused("scenarios", "tiny-kitchn")
    assert (status, line) == (
        2,
        "forewarn: no scenario 'tiny-kitchn' (did you mean tiny-kitchen?)",
    )


# -- collect ---------------------------------------------------------------------------


def test_collect_json_has_the_documented_keys(tmp_path: Path) -> None:
    found = told("collect", KITCHEN, "--episodes", "40", "--out", tmp_path)
    assert {"episodes", "frames", "failed", "traces"} <= set(found)
    assert (found["episodes"], found["failed"]) == (40, 0)
    assert len(stored_runs(map(Path, found["traces"]))) == 40
    (law,) = found["laws"]
    assert law["as_expected"] is True and 0 < law["violating"] < 40
    assert found["others"] == []
    # A second campaign into the same folder is told of the first.
    more = forewarn(
        "collect", KITCHEN, "--episodes", "2", "--seed", "900", "--out", tmp_path
    )
    assert (
        "2 traces" in more and f"warning: {tmp_path} contains 40 other traces" in more
    )


def test_learn_reads_the_runs_of_collect(tmp_path: Path, model: Path) -> None:
    content = json.loads(model.read_text())
    files = content["training"]["files"]
    seeds = [seed for each in files for seed in seeds_of(each)]
    assert seeds == list(range(learned.SEEDS))
    assert {each["scenario"] for each in files} == {KITCHEN}
    assert content["period_s"] == 1
    status, line = refused(
        *("learn", learned.traces(KITCHEN), "--scenario", KITCHEN),
        *("--vocabulary", "household", "--out", tmp_path / "m.json"),
    )
    assert status == 2 and "--scenario already sets the abstraction" in line


# -- run -------------------------------------------------------------------------------

EPISODE = {"seed", "violations", "alarms", "interventions", "ended", "record"}


def test_run_json_has_the_documented_keys(tmp_path: Path, model: Path) -> None:
    found = told(
        *("run", KITCHEN, "--model", model, "--intervene", "reflect"),
        *("--episodes", "30", "--seed", "500", "--out", tmp_path),
    )
    assert found["scenario"] == KITCHEN
    assert [each["seed"] for each in found["episodes"]] == list(range(500, 530))
    for episode in found["episodes"]:
        assert set(episode) >= EPISODE
        assert Path(episode["record"]).is_file()
        for alarm in episode["alarms"]:
            assert set(alarm) == {"law", "time_s", "risk", "decision"}
            assert set(alarm["risk"]) == {"low", "point", "high"}
        for broken in episode["violations"]:
            assert set(broken) >= {"law", "time_s"}
    kinds = {i["kind"] for e in found["episodes"] for i in e["interventions"]}
    assert "reflect" in kinds
    assert found["policy"]["rules"] == [{"law": "*", "thresholds": {"reflect": 0.5}}]


def test_run_warns_of_a_policy_tuned_for_another_scenario(
    model: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    words = ["run", KITCHEN, "--model", str(model), "--policy", str(policy)]
    for scenario, warns in (("s3", True), (KITCHEN, False)):
        name = f"{scenario}, false-alarm rate at most 0.1"
        policy.write_text(json.dumps({"format": "forewarn.policy/1", "name": name}))
        done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / scenario)])
        assert done.exit_code == 0
        assert ("The policy was tuned for s3, so" in done.stderr) == warns


def test_run_names_laws_without_rule_and_rules_without_law(
    tmp_path: Path, model: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    words = ["run", KITCHEN, "--model", str(model), "--policy", str(policy)]
    words += ["--out", str(tmp_path / "out"), "--json"]

    def ruled(*laws: str) -> Result:
        rules = [{"law": law, "thresholds": {"stop": 0.5}} for law in laws]
        content = {"format": "forewarn.policy/1", "rules": rules}
        policy.write_text(json.dumps(content))
        return CliRunner().invoke(main, words)

    met = ruled("no_metal_heated", "51_5")
    assert met.stderr == "The policy has a rule for 51_5, which is not watched.\n"
    assert (met.exit_code, json.loads(met.stdout)["without_rule"]) == (0, [])
    apart = ruled("51_5")
    assert (apart.exit_code, apart.stdout) == (2, "")
    assert apart.stderr == (
        f"forewarn: {policy}: the policy default has rules only for 51_5, but the"
        " watched laws are no_metal_heated (add a rule for one of them, or for any law"
        " ('*'))\n"
    )
    measured = CliRunner().invoke(main, ["measure", *words[1:-1]])
    assert (measured.exit_code, measured.stderr) == (2, apart.stderr)


def test_run_without_a_model_is_unguarded(tmp_path: Path) -> None:
    words = ["run", KITCHEN, "--episodes", "3", "--out", tmp_path]
    found = told(*words, "--unguarded")
    assert found["policy"] is None and found["unguarded"]
    for episode in found["episodes"]:
        assert (episode["mode"], episode["record"]) == ("unguarded", None)
    assert "there is no guard to configure" in refused("run", KITCHEN, "--shadow")[1]
    done = CliRunner().invoke(main, [str(each) for each in words])
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "UNGUARDED: there is no model, and nothing was judged"
    )


def test_another_pilot_can_be_chosen(tmp_path: Path) -> None:
    def run(*options: str) -> list[dict[str, Any]]:
        found = told("run", "s3", "--unguarded", "--out", tmp_path, *options)
        episodes: list[dict[str, Any]] = found["episodes"]
        return episodes

    pytest.importorskip("libsumo")
    seeds = "--episodes", "1", "--jobs", "1", "--seed", "4"
    calm = run(*seeds, "--set", "boldness=0.0", "--set", "looks_away_per_s=0")
    usual = run(*seeds)
    assert [each["duration_s"] for each in calm] != [
        each["duration_s"] for each in usual
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pilot", "nobody"], "no pilot 'nobody'"),
        (["--set", "boldness"], "'boldness' is not KEY=VALUE"),
        (["--set", "boldnes=1"], "boldnes"),
        (["--set", "boldness=[1"], "--set boldness"),
        (["--set", "boldness=2"], "boldness"),
    ],
)
def test_unknown_pilot_is_rejected(
    options: list[str], says: str, tmp_path: Path
) -> None:
    pytest.importorskip("libsumo")
    done = CliRunner().invoke(
        main, ["run", "s3", "--unguarded", "--out", str(tmp_path), *options]
    )
    assert done.exit_code == 2 and says in done.stderr


def test_single_episode_is_printed_as_a_timeline(tmp_path: Path, model: Path) -> None:
    for seed in range(500, 530):
        said = forewarn(
            *("run", KITCHEN, "--model", model, "--seed", str(seed)),
            *("--intervene", "alert,reflect", "--out", tmp_path),
        )
        if "reflect" in said:
            break
    assert "reflect: no_metal_heated at risk" in said
    assert "carried out: reflect until" in said
    times = [float(line.split(" s ")[0]) for line in said.splitlines()[:-1]]
    assert times == sorted(times)
    assert "Run record: " in said.splitlines()[-1]


@pytest.mark.parametrize("how", [["--shadow"], ["--intervene", "none"]])
def test_shadow_run_intervenes_in_nothing(
    how: list[str], tmp_path: Path, model: Path
) -> None:
    plain = told("run", KITCHEN, "--unguarded", "--episodes", "15", "--out", tmp_path)
    shadow = told(
        *("run", KITCHEN, "--model", model, "--episodes", "15", "--out", tmp_path, *how)
    )
    pairs = zip(plain["episodes"], shadow["episodes"], strict=True)
    assert all(one["violations"] == two["violations"] for one, two in pairs)
    assert any(episode["alarms"] for episode in shadow["episodes"])
    assert all(episode["interventions"] == [] for episode in shadow["episodes"])


def test_actions_are_judged_before_they_are_done(tmp_path: Path, model: Path) -> None:
    veto = ["--when", "before", "--intervene", "reflect", "--threshold", "0.9"]
    found = told(
        "run", KITCHEN, "--model", model, *veto,
        "--episodes", "20", "--seed", "300", "--out", tmp_path,
    )  # fmt: skip
    episodes = found["episodes"]
    assert not any(each["violations"] for each in episodes)
    acted = next(each for each in episodes if each["interventions"])
    assert acted["interventions"][0]["kind"] == "reflect" and acted["usage"] == {}
    forewarn("replay", acted["record"])
    assert '"foreseen"' in Path(acted["record"]).read_text()
    road = learned.model("tiny-road")
    status, line = refused(
        "run", "tiny-road", "--model", road, *veto, "--out", tmp_path / "road"
    )
    assert (status, "tiny cannot predict the result of an action" in line) == (2, True)


def test_run_resumes_and_starts_afresh_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("run", "tiny-road", "--unguarded", "--episodes", "2", "--out", tmp_path)
    runner_of.cache_clear()

    def reset(*_: object) -> None:
        raise ConnectionError("no simulator")

    monkeypatch.setattr(TinyWorld, "reset", reset)
    words = ["run", "tiny-road", "--unguarded", "--episodes", "3", "--out", tmp_path]
    more = told(*words)
    assert [each["error"] is None for each in more["episodes"]] == [True, True, False]
    said = forewarn(*words)
    assert said.startswith("UNGUARDED")
    assert "1 of 3 runs failed, the first with seed 2: Connec" in said
    again: list[Any] = [*words, "--rerun"]
    status, line = refused(*again)
    assert (status, line) == (
        2,
        "forewarn: all 3 runs failed: ConnectionError: no simulator; after you "
        "have fixed the cause, add --rerun to repeat them",
    )


def test_other_laws_are_watched_where_predicates_decide_them(
    tmp_path: Path, model: Path
) -> None:
    law = ["--law", "slow := always speed < 40 km/h"]
    runs, never = tmp_path / "runs", tmp_path / "never"
    found = told("collect", "tiny-road", "--episodes", "2", *law, "--out", runs)
    assert [each["law"] for each in found["laws"]] == ["slow"]
    clean = ["--law", "clean := always not is_dirty(Mug)", "--model", model]
    for command in (
        ["train", "tiny-road", *law],
        ["learn", runs, "--scenario", "tiny-road", *law],
        *([name, KITCHEN, *clean] for name in ("run", "tune", "measure")),
    ):
        status, line = refused(*command, "--out", never)
        assert status == 2 and "predicate" in line, command
    assert not never.exists()


@pytest.mark.parametrize("name", ["run", "measure", "tune"])
def test_law_of_the_scenario_that_the_model_lacks_is_named(
    name: str, tmp_path: Path
) -> None:
    runs, model = tmp_path / "runs", tmp_path / "model.json"
    told("collect", "tiny-road", "--episodes", "5", "--out", runs)
    forewarn("learn", runs, "--law", "no_collision", "--vocabulary", "driving",
             "--period", "0.1", "--out", model)  # fmt: skip
    out = tmp_path / "never"
    accept = [] if name == "tune" else ["--accept-model"]
    line = refused(name, "tiny-road", "--model", model, "--out", out, *accept)[1]
    assert "the law stop_at_red cannot be evaluated with the model's predicates" in line
    assert "train a model for it with `forewarn train SCENARIO --law …`" in line
    assert not out.exists()


def test_an_edited_abstraction_simulates_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, runs = tmp_path / "road.yaml", tmp_path / "runs"
    text = shipped_scenarios()["tiny-road"].read_text()
    scenario.write_text(text)
    told("collect", scenario, "--episodes", "2", "--out", runs)
    scenario.write_text(text.replace("    - braking\n", ""))

    def reset(*_: object) -> None:
        raise ConnectionError("no simulator")

    monkeypatch.setattr(TinyWorld, "reset", reset)
    assert told("collect", scenario, "--episodes", "2", "--out", runs)["episodes"] == 2
    assert told("collect", scenario, "--episodes", "3", "--out", runs)["failed"] == 1


# -- the policy that options make ------------------------------------------------------


def test_options_make_a_policy(tmp_path: Path) -> None:
    assert chosen_policy(None, None, 4.0, None, ()) == Policy(horizon_s=4.0)
    stop = chosen_policy(None, 2.0, 4.0, "stop", ())
    assert (stop.horizon_s, stop.steps_for("x")) == (2.0, (Step("stop", 0.8),))
    two = chosen_policy(None, None, 4.0, "alert,stop", (0.2, 0.6))
    assert two.steps_for("x") == (Step("alert", 0.2), Step("stop", 0.6))
    only = chosen_policy(None, None, 4.0, None, (0.4,))
    assert only.steps_for("x") == (Step("alert", 0.4),)
    path = tmp_path / "p.yaml"
    path.write_text("format: forewarn.policy/1\nhorizon_s: 7.0\nhold_s: 2.0\n")
    filed = chosen_policy(path, None, 4.0, "none", ())
    assert (filed.horizon_s, filed.hold_s, filed.shadow) == (7.0, 2.0, True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--intervene", "stopp"],
            "--intervene: unknown intervention 'stopp' (did you mean stop?)",
        ),
        (["--intervene", "stop,alert"], "--intervene: list each intervention once"),
        (["--intervene", "none,stop"], "--intervene none cannot be"),
        (["--intervene", "none", "--threshold", ".3"], "with --intervene none"),
        (["--threshold", "0.3,0.5"], "--threshold has 2 numbers for alert"),
        (["--threshold", "1.5"], "'--threshold': 1.5 is not between 0 and 1"),
        (["--threshold", "x"], "'--threshold': 'x' is not a list of numbers"),
        (
            ["--intervene", "alert,stop", "--threshold", "0.6,0.5"],
            "--threshold: a more severe intervention needs a higher",
        ),
        (["--episodes", "0"], "'--episodes': 0 must be 1 or more"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml: no such file"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], line: str, model: Path, tmp_path: Path
) -> None:
    status, said = refused(
        "run", KITCHEN, "--model", model, "--out", tmp_path, *options
    )
    assert status == 2
    assert line in said


# -- measure and tune ------------------------------------------------------------------

LAW_KEYS = {
    "law", "horizon_s", "threshold", "violating", "clean", "detected", "missed",
    "awt_violation_s", "awt_trigger_s", "false_alarm_rate", "brier", "base_rate",
    "initial_risk", "intervals",
}  # fmt: skip


def test_measure_json_has_the_documented_keys(tmp_path: Path, model: Path) -> None:
    arguments: list[Any] = [
        *("measure", KITCHEN, "--model", model, "--episodes", "60"),
        *("--thresholds", "0.3,0.7", "--intervene", "reflect"),
        *("--baseline", "deadline", "--out", tmp_path),
    ]
    found = told(*arguments)
    assert set(found) >= {"scenario", "laws", "baselines", "guarded"}
    assert found["seeds"] == list(range(1_000_000, 1_000_060))
    assert [row["threshold"] for row in found["laws"]] == [0.3, 0.7]
    for row in found["laws"]:
        assert set(row) >= LAW_KEYS
        for key in ("awt_violation_s", "awt_trigger_s"):
            assert set(row[key]) == {"mean", "median", "p10", "max"}
        assert row["violating"] + row["clean"] == 60
        assert row["detected"] + row["missed"] == row["violating"]
    assert set(found["baselines"]) == {"deadline"}
    assert found["guarded"]["laws"][0]["violating_guarded"] == 0
    said = forewarn(*arguments)
    assert "deadline  no_metal_heated" in said and "With the guard intervening" in said
    assert "no_metal_heated" in said


def test_measure_notes_a_policy_that_only_alerts(model: Path) -> None:
    words: list[Any] = ["measure", KITCHEN, "--model", model, "--episodes", "20"]
    alerts = forewarn(*words, "--intervene", "alert")
    assert (
        "With the guard intervening" not in alerts and "arrived  caused" not in alerts
    )
    assert "The policy only alerts, so nothing was prevented." in alerts
    assert "--intervene stop" in alerts
    found = told(*words, "--intervene", "alert")
    assert found["guarded"] is None and found["acts"] is False
    assert found["only_alerts"] == ["no_metal_heated"]
    acting = forewarn(*words, "--intervene", "alert,stop")
    assert "With the guard intervening" in acting and "only alerts" not in acting


def test_run_says_how_guarded_runs_end(model: Path, tmp_path: Path) -> None:
    words: list[Any] = ["run", KITCHEN, "--model", model, "--intervene", "stop"]
    words += ["--episodes", "4", "--seed", "500", "--out", tmp_path]
    said, found = forewarn(*words), told(*words)
    assert "Of 4 runs with the guard, 0 break a law" in said
    assert found["outcomes"]["runs"] == 4
    assert found["outcomes"]["violating"] == 0
    page = tmp_path / "report.html"
    forewarn("report", tmp_path, "--out", page)
    assert "Of 4 runs with the guard, 0 break a law" in page.read_text()


def test_measure_rejects_training_runs(model: Path, tmp_path: Path) -> None:
    arguments: list[Any] = ["measure", KITCHEN, "--model", model, "--episodes", "5"]
    status, line = refused(*arguments, "--seed", "100")
    assert status == 2
    assert "the model was learned from 5 of these runs" in line
    assert "--seed 120" in line
    found = told(*arguments, "--seed", "100", "--allow-training-seeds")
    assert found["seeds"] == [100, 101, 102, 103, 104]
    status, line = refused(*arguments, "--runs", learned.traces(KITCHEN))
    assert status == 2 and "the model was learned from 120 of these runs" in line


def test_measure_judges_runs_on_file(model: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path)
    told("collect", KITCHEN, "--episodes", "30", "--seed", "7000", *out)
    live: list[Any] = ["measure", KITCHEN, "--model", model, "--no-guarded"]
    filed = told(*live, "--runs", tmp_path)
    direct = told(*live, "--episodes", "30", "--seed", "7000")
    assert filed["laws"] == direct["laws"]
    assert filed["guarded"] is None


def test_measure_rejects_stored_guarded_runs(model: Path, tmp_path: Path) -> None:
    told("run", KITCHEN, "--model", model, "--seed", "500", "--out", tmp_path)
    status, line = refused("measure", KITCHEN, "--model", model, "--runs", tmp_path)
    assert status == 2 and "a guard intervened in this run" in line
    empty = tmp_path / "empty"
    empty.mkdir()
    status, line = refused("measure", KITCHEN, "--model", model, "--runs", empty)
    assert status == 2 and "the folder contains no trace or run record" in line


def test_measure_uses_held_out_runs_by_default(
    tmp_path: Path,
) -> None:
    runs, model, first = tmp_path / "runs", tmp_path / "model.json", 1_000_000
    forewarn("collect", KITCHEN, "--seed", first, "--episodes", "12", "--out", runs)
    forewarn("learn", runs, "--scenario", KITCHEN, "--out", model)
    found = told("measure", KITCHEN, "--model", model, "--episodes", "2")
    assert found["seeds"] == [first + 12, first + 13]
    known = ["measure", KITCHEN, "--model", model, "--seed", first]
    status, line = refused(*known, "--episodes", "2")
    assert status == 2 and "learned from 2 of these runs" in line


def test_tune_writes_a_policy_that_measure_takes(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"
    found = told(
        *("tune", KITCHEN, "--model", model),
        *("--runs", learned.traces(KITCHEN, learned.FRESH)),
        *("--horizons", "2,4", "--intervene", "reflect", "--out", out),
    )
    first, half = learned.FRESH, learned.SEEDS // 2
    assert found["seeds"]["calibration"] == list(range(first, first + half))
    assert found["seeds"]["set_aside"] == list(range(first + half, first + 2 * half))
    assert {each["horizon_s"] for each in found["tried"]} == {2, 4}
    policy = load_policy(out)
    assert policy.horizon_s == found["horizon_s"] == found["tried"][0]["horizon_s"]
    (row,) = found["laws"]
    assert policy.steps_for("no_metal_heated") == (Step("reflect", row["threshold"]),)
    assert row["false_alarm_rate"] <= row["promise"]["false_alarms"] == 0.1
    assert yaml.safe_load(out.read_text())["format"] == "forewarn.policy/1"
    measured = told(
        *("measure", KITCHEN, "--model", model, "--policy", out, "--episodes", "40")
    )
    (law,) = measured["laws"]
    assert (law["threshold"], law["horizon_s"]) == (row["threshold"], policy.horizon_s)
    assert law["promise"] == row["promise"]


def test_tune_says_what_it_tried(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"
    runs = ("--runs", learned.traces(KITCHEN, learned.FRESH))
    said = forewarn(
        *("tune", KITCHEN, "--model", model, "--horizons", "3", "--out", out, *runs)
    )
    assert "Thresholds from 120 runs, seeds 7000 to 7119, at the horizon 3 s:" in said
    assert said.splitlines()[-1].startswith(f"{out}: horizon 3 s")
    status, line = refused(
        *("tune", KITCHEN, "--model", model, "--horizons", "0", "--out", out)
    )
    assert status == 2 and "a horizon must be greater than 0" in line


@pytest.mark.slow
def test_tune_for_stop_says_what_it_prevents_and_what_it_costs(
    model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stop.policy.yaml"
    command = [
        *("tune", KITCHEN, "--model", model, "--preset", "stop", "--horizons", "3"),
        *("--runs", learned.traces(KITCHEN, learned.FRESH), "--acting", "10"),
        *("--max-slowed", "0.7", "--release-after", "1", "--out", out),
    ]
    certifying = ("--violations", "3", "--at-most", "0.6", "--held-out", "10")
    found = told(*command, *certifying)
    assert found["violating"] >= 3
    tried = {(each["threshold"], each["hold_s"]): each for each in found["tried"]}
    taken = tried[found["threshold"], found["hold_s"]]
    assert taken["prevented"] > 0 and taken["prolonged"] <= 0.7 * taken["clean"]
    assert {hold_s for _, hold_s in tried} == {1.0, Policy().hold_s}
    policy = load_policy(out)
    assert policy.steps_for("no_metal_heated") == (Step("stop", found["threshold"]),)
    assert policy.hold_s == found["hold_s"]
    kept = policy.kept
    assert kept is not None and kept.runs == 10 and kept.seeds == (7_000_000, 7_000_009)
    ran = ("run", KITCHEN, "--model", model, "--policy", out, "--out", tmp_path / "o")
    assert kept.sentence() in forewarn(*ran)
    few = ("--violations", "1000", "--at-most", "0.01", "--held-out", "10")
    done: Result = CliRunner().invoke(main, [str(each) for each in (*command, *few)])
    assert done.exit_code == 1 and "of 10 runs broke a law, too many" in done.stdout
    assert "of these runs break a law without a guard, fewer than the" in done.stdout
    assert load_policy(out).kept is None


def test_tune_rejects_training_runs(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"
    status, line = refused(
        *("tune", "--runs", learned.traces(KITCHEN), "--model", model, "--out", out)
    )
    assert status == 2 and "the model was learned from 120 of these runs" in line
    assert (
        "; if these are other recordings and only the scenario's name is the same, "
        "rename their scenario"
    ) in line and not out.exists()


@pytest.mark.parametrize("command", ["run", "measure"])
def test_preset_with_an_own_model_is_rejected(command: str, model: Path) -> None:
    status, line = refused(command, KITCHEN, "--model", model, "--preset", "stop")
    assert status == 2 and "give your own policy with --policy" in line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--release-after", "1"], "--release-after requires --preset slow or stop"),
        (["--max-slowed", "0.1"], "--max-slowed requires --preset slow or stop"),
        (["--preset", "stop", "--held-out", "9"], "--held-out requires --at-most"),
        (["--at-most", "0.1"], "--at-most requires --preset slow or stop"),
        (
            ["--preset", "stop", "--intervene", "slow"],
            "--intervene requires --preset alert",
        ),
        (
            ["--preset", "slow", "--confidence", "0.9"],
            "--confidence requires --preset alert",
        ),
    ],
)
def test_tune_rejects_options_without_effect(
    options: list[str], says: str, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "policy.yaml"
    status, line = refused("tune", KITCHEN, "--model", model, "--out", out, *options)
    assert status == 2 and says in line


def test_tune_rejects_a_model_without_abstraction_before_simulating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.scenarios.training.train.collected", None)
    path = tmp_path / "model.tra"
    path.write_text("1 1\n0 0 1\n")
    out = tmp_path / "policy.yaml"
    status, line = refused("tune", "tiny-road", "--model", path, "--out", out)
    assert (
        status == 2
        and ("the model has no abstraction or no counts, so a run cannot be") in line
    )


def test_tune_writes_no_policy_that_cannot_keep_its_promise(
    model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "policy.yaml"
    arguments = ["tune", KITCHEN, "--model", model, "--episodes", "20", "--out", out]
    done = CliRunner().invoke(main, [*map(str, arguments), "--horizons", "3"])
    assert done.exit_code == 1, done.output
    assert "no_metal_heated has no threshold" in done.stdout
    assert "No policy was written" in done.stdout and not out.exists()


# -- who is told -----------------------------------------------------------------------


def test_interventions_are_logged_on_request(tmp_path: Path, model: Path) -> None:
    command = ["run", KITCHEN, "--model", model, "--intervene", "reflect", "--log"]
    arguments: list[Any] = [
        *command,
        "--episodes",
        "20",
        "--seed",
        "500",
        "--out",
        tmp_path,
    ]
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    episodes = json.loads(done.stdout)["episodes"]
    begun = sum(len(episode["interventions"]) for episode in episodes)
    lines = done.stderr.splitlines()
    assert len(lines) == begun > 0
    assert all(
        line.startswith("forewarn: ") and " s: no_metal" in line for line in lines
    )


def test_interventions_are_posted_on_request(tmp_path: Path, model: Path) -> None:
    posted: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            posted.append(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        episodes = told(
            *("run", KITCHEN, "--model", model, "--intervene", "reflect"),
            *("--webhook", f"http://127.0.0.1:{server.server_port}/alerts"),
            *("--episodes", "20", "--seed", "500", "--jobs", "2", "--out", tmp_path),
        )["episodes"]
        server.shutdown()
    begun = [each["time_s"] for e in episodes for each in e["interventions"]]
    assert sorted(each["time_s"] for each in posted) == sorted(begun) != []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--webhook", "http://192.0.2.1/x"], "192.0.2.1 is not on this machine"),
        (["--webhook", "ftp://x"], "not an HTTP or HTTPS URL"),
    ],
)
def test_a_webhook_elsewhere_must_be_allowed(
    options: list[str], line: str, model: Path, tmp_path: Path
) -> None:
    status, said = refused(
        "run", KITCHEN, "--model", model, "--out", tmp_path, *options
    )
    assert status == 2 and line in said


def test_a_model_of_another_scenario_is_named(tmp_path: Path) -> None:
    other = learned.model("tiny-road")
    for command in ("run", "measure"):
        arguments = [command, KITCHEN, "--model", other, "--out", tmp_path]
        status, said = refused(*arguments)
        assert status == 2
        assert said == (
            f"forewarn: {other}: the model does not match the guarded system: it was "
            f"learned on tiny-road, but the scenario is {KITCHEN}; its vocabulary is "
            "driving, but the source's is household; its states are 0.1 s apart, "
            "but the source's frames are 1 s apart (use a model learned with these "
            "settings, or add --accept-model)"
        )
        status, said = refused(*arguments, "--accept-model")
        assert status == 2
        assert "cannot be evaluated with the model's predicates" in said


def test_a_model_of_another_scenario_is_taken_on_request(
    tmp_path: Path, model: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    shipped = shipped_scenarios()[KITCHEN].read_text()
    mine.write_text(shipped.replace(f"name: {KITCHEN}", "name: mine"))
    command = ["run", mine, "--model", model, "--out", tmp_path / "runs"]
    assert (
        "it was learned on tiny-kitchen, but the scenario is mine"
        in refused(*command)[1]
    )
    assert told(*command, "--accept-model")["failed"] == 0


def test_a_campaign_counts_what_happened_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 11))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    broken = (Broken("no_collision", 1.0, 1.0),)
    episodes = [
        Episode(seed=1, mode="shadow", ended="over", violations=broken),
        Episode(seed=2, mode="shadow", ended="failed", error="lost"),
    ]
    assert list(counted(episodes, "episodes", 2)) == episodes
    one, two = capsys.readouterr().err.splitlines()
    assert one.startswith("episodes: 0 of 2, 1 violations, ")
    assert two.startswith(
        "episodes: 1 of 2, 1 violations, 1 failed, 0.091/s, 0:11 left"
    )
