"""Files of the wrong kind or form: each message must say what is needed instead."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import forewarn
from tests.forewarn.test_mistakes_again import said
from tests.scenarios import learned

RULES = "format: forewarn.rules/1\ndomain: household\nrules:\n"
PROGRAM = """format: forewarn.guard-program/1
name: children
request: a child may not turn on the stove
specification: A robot.
made_by: rules
program: |
  if Does(action, "turn on") and Same(user["role"], "child"):
      deny("a child may not turn on the stove")
"""
FILES = {
    "slow.yaml": f"{RULES}- {{name: a, before: any, enforce: {{slow: 20}}}}\n",
    "rules.yaml": f"{RULES}- {{name: a, before: any}}\n",
    "program.yaml": PROGRAM,
    "policy.yaml": "format: forewarn.policy/1\n"
    "rules: {no_collision: {thresholds: {alert: 0.3}}}\n",
    "one.yaml": "format: forewarn.policy/1\n"
    "rules: {law: no_collision, thresholds: {alert: 0.3}}\n",
    "no_enforce.ar": "rule @x\ntrigger put\ncheck\n  held_metal\nend\n",
    "no_trigger.ar": "rule @x\ncheck\n  held_metal\nenforce stop\nend\n",
    "empty.ar": "nothing here\n",
    "tallies/note.txt": "x\n",
    "list.json": "[1]\n",
    "facts.csv": "run;driver\na;1\n",
    "traces/a.jsonl": '{"format":"forewarn.trace/1"}\n',
}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "m.json").symlink_to(learned.model("tiny-road"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


FORK = "run fork-in-microwave --no-model --episodes 1 --out out"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rules lint slow.yaml",
         "slow.yaml: rules.0.enforce.slow: expected a mapping, found 20 "
         "(write slow: {cap_kmh: 20})"),
        ("run tiny-road --model m.json --policy policy.yaml",
         "policy.yaml: rules: expected a list, found a mapping (begin each entry with "
         "a dash, as in `- law: no_collision`)"),
        ("run tiny-road --model m.json --policy one.yaml",
         "as in `- law: no_collision`)"),
        ("rules score --rules rules.yaml --traces traces",
         "traces: this is a folder, but a file of labelled traces is needed (write "
         '{"id": …, "domain": …, "label": "safe", "events": [{…}, …]} on each line, or '
         "label run records with `forewarn rules mark`)"),
        ("rules score --rules rules.yaml --traces a.parquet",
         "a.parquet: this is a Parquet file, but a file of labelled traces is needed"),
        ("rules score --rules rules.yaml --traces traces/a.jsonl",
         "or label run records with `forewarn rules mark`)"),
        ("rules import no_enforce.ar --out r.yaml",
         "no_enforce.ar: line 1: rule x has no enforcement (add `enforce stop` before "
         "`end`)"),
        ("rules import no_trigger.ar --out r.yaml",
         "line 1: rule x has no trigger (add `trigger any` after the name)"),
        ("rules import empty.ar --out r.yaml",
         "the file has no rule (a rule of AgentSpec begins with `rule @name`"),
        (f"{FORK} --rules rules.yaml --predicates program.yaml",
         "program.yaml: format: the file has the format 'forewarn.guard-program/1'"),
        (f"{FORK} --rules program.yaml",
         "but 'forewarn.rules/1' is needed (give a different file; --guard-program "
         "takes this one)"),
        (f"{FORK} --guard-program policy.yaml", "--policy takes this one)"),
        ("merge-tallies tallies --into m.json",
         "tallies/note.txt: this is not a tally (give files that --tally wrote; move "
         "other files out of the folder)"),
        ("guard-program run program.yaml rules.yaml --shadow",
         "rules.yaml: the file has the format forewarn.rules, but an action is needed "
         '(write {"action": {"name": …, "arguments": {…}}, "user": {…}})'),
        ("guard-program run program.yaml list.json --shadow",
         'list.json: expected a JSON object (write {"action"'),
        ("merge-tallies empty --into m.json",
         "empty: the folder contains no tallies (--tally of `forewarn run` and"),
        ("measure tiny-road --model m.json --rules rules.yaml",
         "no such option '--rules' (this option is for run"),
        ("mcp guard --law 'always tool != x' --tally t.gz -- python",
         "no such option '--tally' (this option is for run"),
        ("mcp tools --law x --out t.json -- python", "no such option '--law'"),
        ("learn traces --scenario tiny-road --facts facts.csv --group driver "
         "--abstraction auto --out o",
         "facts.csv: no column identifies the runs (the columns are run;driver) "
         "(separate the columns by commas)"),
        ("guard-program check rules.yaml --program program.yaml --shadow",
         "rules.yaml: line 1: the file has the format forewarn.rules, but JSON is "
         "needed"),
    ],
)  # fmt: skip
def test_the_message_says_what_is_needed(line: str, message: str) -> None:
    assert message in said(line)


@pytest.mark.parametrize(
    ("facts", "lacks"),
    [(None, True), ({"user": {}}, True), ({"user": {"role": "adult"}}, False)],
)
def test_a_fact_that_a_program_lacks_is_reported(
    facts: dict[str, Any] | None, lacks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    forewarn.read_judge("program.yaml", facts=facts, enforced=False)
    wanted = 'program.yaml: the program reads user["role"], which is not given'
    assert (wanted in caplog.text) == lacks
    assert ("(give --user role=…, or facts=" in caplog.text) == lacks


def test_a_token_that_is_given_as_a_file_is_not_printed() -> None:
    secret = "a-secret-of-sixteen-letters"  # noqa: S105
    message = said(f"guard --model m.json --socket localhost:0 --token-file {secret}")
    assert "--token-file: no such file (write the token into a file" in message
    assert secret not in message


def test_a_package_that_is_not_installed_is_named(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = next(learned.traces("tiny-road").iterdir())
    (desk / made.name).symlink_to(made)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "needs a package that is not installed: run pip install" in said(
        f"convert {made.name} --format columns --out out", 3
    )
