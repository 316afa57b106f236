"""Values and names of the wrong kind: each message must say what to write instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import forewarn
from forewarn import Guarding, load_policy
from forewarn.cli import main
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.rules.labelled import labelled_from
from forewarn.monitors.rules.rule import rules_from
from forewarn.plugins import EpisodeClock
from tests.forewarn.test_mistakes_again import said
from tests.forewarn.test_mistakes_in_python import refused
from tests.forewarn.test_mistakes_of_kind import PROGRAM
from tests.scenarios import learned

HOUSEHOLD = {"verb": "put", "object": "Microwave", "success": True}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"success": "false"},
         "event 0, success: expected true or false, found 'false' (write true or false "
         "without quotes)"),
        ({"success": 0}, "event 0, success: expected true or false, found 0"),
        ({"object": ["Fork"]}, "event 0, object: expected text, found ['Fork']"),
        ({"signals": [1]}, "event 0, signals: expected a mapping, found [1]"),
    ],
)  # fmt: skip
def test_an_event_has_values_of_the_right_kind(
    changed: dict[str, Any], message: str
) -> None:
    row = {"id": "a", "domain": "household", "events": [HOUSEHOLD | changed]}
    assert message in refused(lambda: labelled_from(row))


def test_a_run_of_another_program_without_success_is_read() -> None:
    row = {"id": "a", "domain": "household", "events": [{"verb": "a", "success": None}]}
    assert labelled_from(row).events[1].succeeded is None


def test_a_function_is_needed_where_a_value_is_returned() -> None:
    guarding = Guarding.load(learned.model("tiny-road"))
    of_class: Any = EpisodeClock
    assert (
        "Guarding.guard: clock: expected a function that returns a number, found the "
        "class EpisodeClock (write EpisodeClock())"
    ) in refused(lambda: guarding.guard(clock=of_class))
    of_one: Any = lambda now: now  # noqa: E731
    assert (
        "clock: expected a function without arguments, found <lambda>(now)"
    ) in refused(lambda: guarding.guard(clock=of_one))
    guarding.guard(clock=EpisodeClock())


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("bash", "_FOREWARN_COMPLETE: expected bash_source, zsh_source or fish_source, "
         "found 'bash'"),
        ("csh_source", "found 'csh_source'"),
        ("bash_sources", "found 'bash_sources'"),
    ],
)  # fmt: skip
def test_an_unknown_instruction_for_completion_is_reported(
    instruction: str, message: str
) -> None:
    done = CliRunner(env={"_FOREWARN_COMPLETE": instruction}).invoke(main, [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--install-completion bash",
         'add eval "$(_FOREWARN_COMPLETE=bash_source forewarn)" to ~/.bashrc'),
        ("completion bash", "see docs/shell.md"),
        ("learn tiny-road --out m.json",
         "tiny-road: this is a scenario, not a file (record its runs with `forewarn "
         "collect tiny-road`)"),
        ("monitor tiny-road --law no_collision", "tiny-road: this is a scenario"),
        ("replay tiny-road", "tiny-road: this is a scenario"),
    ],
)  # fmt: skip
def test_the_message_says_what_to_write(line: str, message: str) -> None:
    assert message in said(line)


def test_learn_takes_a_scenario_by_name() -> None:
    assert (
        "traces: tiny-road: this is a scenario, not a trace (write "
        "scenario='tiny-road')"
    ) in refused(lambda: forewarn.learn("tiny-road", runs=20))


RULES = "format: forewarn.rules/1\ndomain: household\nrules:\n"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{name: a, on: put}",
         "rules.0: unknown key 'on' (write the moment, as in before: put; the moments "
         "are before, after, tick, finish)"),
        ("{name: on, before: any}",
         'name: expected text, found True (put the word in quotes, as in "on")'),
        ("{name: a, before: no}",
         'before: expected text, found False (put the word in quotes, as in "no")'),
    ],
)  # fmt: skip
def test_words_that_yaml_reads_as_true_or_false(rule: str, message: str) -> None:
    assert message in refused(lambda: rules_from(f"{RULES}- {rule}\n", "r.yaml"))


@pytest.mark.parametrize(
    ("shadow", "rules", "message"),
    [
        ('"yes"', "[{law: no_collision, thresholds: {alert: 0.3}}]",
         "shadow: expected true or false, found 'yes' (write true or false without "
         "quotes)"),
        ("true", "[]", "rules: expected at least one entry, found none"),
    ],
)  # fmt: skip
def test_policies_say_what_to_write(shadow: str, rules: str, message: str) -> None:
    text = f"format: forewarn.policy/1\nshadow: {shadow}\nrules: {rules}\n"
    Path("p.yaml").write_text(text)
    assert message in refused(lambda: load_policy("p.yaml"))


@pytest.mark.parametrize(
    ("enforcement", "fix"),
    [("halt", "write user_inspection, "), ("stopp", "did you mean stop?")],
)
def test_an_unknown_enforcement_names_the_known_ones(
    enforcement: str, fix: str
) -> None:
    Path("x.ar").write_text(f"rule @x\ntrigger put\nenforce\n  {enforcement}\nend\n")
    told = said("rules import x.ar --out o.yaml", 0)
    assert "1 with unknown names" in told
    assert fix in told


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rules mark records --as miss --out l.jsonl",
         "records: is a directory (give a run record in it, such as records/a.run."),
        ("rules mark empty --as miss --out l.jsonl",
         "empty: is a directory (give a file in this folder)"),
        ("guard-program review household.md",
         "household.md: this is not a guard program (compile a request with `forewarn "
         "guard-program compile household.md"),
        ("guard-program run program.yaml bare.json --shadow",
         'bare.json: unknown key \'name\' (write {"action": {"name": …, "arguments": '
         "{…}}"),
        ("guard-program check bare.json --program program.yaml --shadow",
         'write one action on each line, as {"action": {"name": …, "arguments": {…}}, '
         '"user": {…}}, in a file whose name ends in .jsonl'),
        ("guard-program check bare.jsonl --program program.yaml --shadow",
         "bare.jsonl: line 1: unknown key 'name' (write {\"action\""),
    ],
)  # fmt: skip
def test_the_message_names_the_file_that_is_needed(
    tmp_path: Path, line: str, message: str
) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records/a.run.jsonl").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "household.md").write_text("# House\n- a child: no stove\n")
    (tmp_path / "program.yaml").write_text(PROGRAM)
    for name in ("bare.json", "bare.jsonl"):
        (tmp_path / name).write_text('{"name": "turn on", "arguments": {}}\n')
    assert message in said(line)


FLEET = """format: forewarn.scenario/1
name: fleet
title: What our fleet recorded
world:
  name: log
  settings:
    files: $here/drive.csv
    columns: {v_ego: {signal: speed, unit: m/s}, crashed: collision}
    time: stamp_ms
    time_unit: ms
    period_s: 0.1
pilot: {name: log}
laws: [no_collision]
abstraction:
  format: forewarn.abstraction/1
  name: fleet
  vocabulary: driving
  period_s: 0.1
  predicates: [collision, speed > 5 km/h]
end: {max_time_s: 60}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("unit: m/s", "unit: mps",
         "'mps' is not a unit of speed, which is in km/h (did you mean m/s?)"),
        ("unit: m/s", "unit: m",
         "'m' is not a unit of speed, which is in km/h (choose from m/s, km/h, mph)"),
        ("time: stamp_ms", "blanks: none",
         "drive.csv: the log has no column 'time_s' (set `time` in the scenario to the "
         "column with the times; the columns are stamp_ms, v_ego, crashed)"),
        ("time: stamp_ms", "time: stamp",
         "the log has no column 'stamp' (did you mean stamp_ms?)"),
        ("drive.csv", "drives.csv", "drives.csv' (did you mean drive.csv?)"),
    ],
)  # fmt: skip
def test_a_scenario_of_logs_says_what_to_change(
    old: str, new: str, message: str
) -> None:
    rows = "stamp_ms,v_ego,crashed\n0,1,false\n100,2,false\n"
    Path("drive.csv").write_text(rows)
    Path("fleet.yaml").write_text(FLEET)
    said("monitor fleet.yaml --law no_collision", 0)
    Path("fleet.yaml").write_text(FLEET.replace(old, new))
    assert message in said("monitor fleet.yaml --law no_collision")


def test_tables_are_no_scenes() -> None:
    Path("drive.csv").write_text("time_s,speed\n0,1\n")
    settings = re.compile("  name: log.*period_s: 0.1\npilot", re.DOTALL)
    text = "  name: commonroad\n  settings: {files: $here/drive.csv}\npilot"
    Path("scene.yaml").write_text(settings.sub(text, FLEET, count=1))
    assert (
        "drive.csv: this is not XML, but a CommonRoad file is needed (for tables and "
        "recordings, use the world log)"
    ) in said("monitor scene.yaml --law no_collision")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("monitor nofile.xml --ego 1 --law no_collision",
         "nofile.xml: no such file or directory (the file is not in the folder "),
        ("thor tasks --only nosuchtask",
         "--only: no task name contains 'nosuchtask' (choose from "),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(line: str, message: str) -> None:
    assert message in said(line)


def test_a_storage_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "a")
    assert (
        "s3://bucket/runs: no storage answers at http://127.0.0.1:9 (check "
        "AWS_ENDPOINT_URL and the network)"
    ) in said("learn s3://bucket/runs --scenario tiny-road --out m.json", 2)


OTHERS = {
    "rules.yaml": f"# ours\n{RULES}- {{name: a, before: any}}\n",
    "run.jsonl": '{"format":"forewarn.run/1"}\n{"a": 1}\n',
    "long.jsonl": '{"format":"forewarn.trace/1"}\n' + '{"a": 1}\n' * 20_000,
    "lift.yaml": "format: forewarn.vocabulary/1\nname: lift\n"
    "signals: {door: {type: bool}}\n",
    "drive.csv": "time_s,speed\n0,1\n0.1,1\n",
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run drive.csv",
         "drive.csv: expected a mapping, found text (give a file that begins with "
         "`format: forewarn.scenario/1`)"),
        ("rules lint long.jsonl",
         "long.jsonl: the file has the format forewarn.trace, but a YAML "),
        ("convert rules.yaml --out z.parquet",
         "rules.yaml: the file has the format forewarn.rules, but a trace is needed"),
        ("show run.jsonl",
         "run.jsonl: the file has the format forewarn.run, but a model is needed "
         "(create a model with `forewarn learn`)"),
        ("show drive.csv",
         "not a chain or model in a known format (create a model with `forewarn learn`,"
         " or use "),
        ("monitor drive.csv --law no_collision --vocabulary lift.yaml",
         "drive.csv: line 1: no signal 'speed' in the vocabulary lift (leave it out, "
         "or describe the columns in a scenario file"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named(line: str, message: str) -> None:
    for name, text in OTHERS.items():
        Path(name).write_text(text)
    assert message in said(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run tiny-road --threshold 30", "30 is not between 0 and 1; write 0.3"),
        ("run tiny-road --threshold 30%", "separated by commas; write 0.3 for 30 %"),
        ("tune tiny-road --at-most 5", "strictly between 0 and 1; write 0.05 for 5 %"),
        ("run tiny-road --horizon 500ms", "'500ms' is not a number; write 0.5, in s"),
        ("run tiny-road --horizon 3s", "'3s' is not a number; write 3, in s"),
        ("monitor a.csv --law a --period 1min", "write 60, in s"),
        ("measure tiny-road --model m.json --runs 10",
         "10: there is no such folder (for a number of runs, use --episodes)"),
        ("convert drive.csv --out z.jsonl",
         "'--out': z.jsonl is the name of a file, but a folder is written; leave out "
         ".jsonl"),
        ("collect tiny-road --out runs.json.gz", "runs.json.gz is the name of a file"),
        ("report nowhere --out r.html",
         "nowhere: no such file or folder (the file is not in the folder "),
        ("thor brew", "no such command 'brew' (choose from replay, harvest, "),
        ("monitor fleet.csv --law no_collision --vocabulary driving",
         "no signal 'gap' in the vocabulary driving (leave it out, or "
         "describe the columns in a scenario file"),
    ],
)  # fmt: skip
def test_options_say_what_to_write(line: str, message: str) -> None:
    Path("m.json").symlink_to(learned.model("tiny-road"))
    Path("drive.csv").write_text(OTHERS["drive.csv"])
    Path("fleet.csv").write_text("time_s,speed,gap,collision,stamp_ms\n0,1,1,0,0\n")
    assert message in said(line)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bands(speed", "band(speed", "'band' is not a predicate or function (did you "
         "mean bands?)"),
        ("driving", "drivng", "'drivng' is not a built-in vocabulary (did you mean "
         "driving?)"),
        ("driving\npredicates: [", "household\npredicates: ['is_inside(Mug, Sink)', ",
         "(the abstraction is for the vocabulary household, "
         "but the data have driving)"),
    ],
)  # fmt: skip
def test_an_abstraction_with_another_name_is_rejected(
    old: str, new: str, message: str
) -> None:
    text = (
        "format: forewarn.abstraction/1\nname: a\nvocabulary: driving\n"
        "predicates: [collision, 'bands(speed, 10, 30)']\n"
    )
    Path("a.yaml").write_text(text.replace(old, new))
    traces = learned.traces("tiny-road")
    law = "--law no_collision --out m.json"
    assert message in said(f"learn {traces} --abstraction a.yaml {law}")


def test_a_law_ends_without_a_full_stop() -> None:
    message = refused(lambda: parse_formula("always speed < kmh."))
    assert "(remove the full stop)" in message
