"""Files of another format in every place: each message must name both formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.forewarn.test_mistakes_again import said
from tests.forewarn.test_mistakes_of_form import FILES, TRACE
from tests.scenarios import learned

MORE = {
    "run.jsonl": TRACE,
    "long.run.jsonl": '{"format": "forewarn.run/1"}\n' + '{"a": 1}\n' * 20_000,
    "tally.json": json.dumps({"format": "forewarn.tally/1", "id": "a"}, indent=1),
    "rules.yaml": "format: forewarn.rules/1\ndomain: household\nrules: []\n",
    "policy.yaml": "format: forewarn.policy/1\nrules: []\n",
    "notes.jsonl": '{"a": 1}\n{"a": 2}\n',
    "notes.txt": "some words here\n",
}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {**FILES, **MORE}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "m.json").symlink_to(learned.model("tiny-road"))
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("show run.jsonl",
         "run.jsonl: the file has the format forewarn.trace, but a model is needed "
         "(create a model with `forewarn learn`)"),
        ("guard --stdio --model tally.json",
         "tally.json: the file has the format forewarn.tally, but a model is needed"),
        ("show notes.jsonl",
         "line 2 column 1: not JSON: extra data (check that this is the intended file"),
        ("rules lint run.jsonl",
         "run.jsonl: the file has the format forewarn.trace, but a YAML file of "
         "another format is needed (give a different file)"),
        ("rules lint long.run.jsonl", "the file has the format forewarn.run, but a"),
        ("run policy.yaml",
         "'forewarn.scenario/1' is needed (give a different file; --policy takes"),
        ("run tiny-road --policy m.json --model m.json", "; --model takes this one)"),
        ("run tally.json", "; `forewarn merge-tallies` takes this one)"),
        ("monitor policy.yaml --law no_collision",
         "policy.yaml: the file has the format forewarn.policy, but a trace is needed "
         "(give a file that `forewarn collect` wrote, or a CSV file)"),
        ("learn policy.yaml --law no_collision --out o.json",
         "policy.yaml: the file has the format forewarn.policy, but a trace is needed"),
        ("monitor notes.jsonl --law no_collision",
         "line 1: the line has no 'format' (the first line must be the header"),
        ("verify run.jsonl",
         "run.jsonl: line 1: the file has the format forewarn.trace, but a run record "
         "is needed (run records are named *.run.jsonl)"),
        ("replay policy.yaml",
         "the file has the format forewarn.policy, but a run record is needed"),
        ("rules score --rules rules.yaml --traces m.json",
         "m.json: line 1: not JSON: expecting property name enclosed in double quotes "
         '(write {"id": …'),
        ("show folder", "'folder' is a directory (give a file in this folder"),
        ("learn notes.txt --law no_collision --out o.json",
         " is not the name of a state with 1 predicate (give a trace; or, for "
         "sequences of states, write a 0 or 1 for each predicate)"),
    ],
)  # fmt: skip
def test_the_message_names_the_format(line: str, message: str) -> None:
    assert message in said(line, 1 if line.startswith("verify") else 2)
