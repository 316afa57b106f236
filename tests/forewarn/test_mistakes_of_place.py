"""Mistakes whose messages once named the wrong place or lacked a fix: each message must
say what helps.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn import InvalidInput
from forewarn.monitors.programs.cases import CaseKind, read_cases
from tests.forewarn.test_mistakes import HEADER, RULES, frame, lines, predicates
from tests.forewarn.test_mistakes_again import said

CALLS = "always not tool == delete"
POLICY = """format: forewarn.policy/1
when: before
rules:
- {law: careful, thresholds: {ask: 0.5}}
"""
VOCABULARY = """format: forewarn.vocabulary/1
name: cart
signals:
  angle: {type: number, unit: radians, doc: lean}
"""
PREDICATES = """format: forewarn.predicates/1
domain: driving
predicates:
  close: {doc: The car is close behind., when: lead_distance < 8 m}
"""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "p.yaml": POLICY,
        "v.yaml": VOCABULARY,
        "r.yaml": RULES,
        "d.yaml": RULES.replace("household", "driving").replace(
            "held_metal", "speed > 3"
        ),
        "o.yaml": RULES.replace("household", "driving"),
        "mine.yaml": PREDICATES,
        "putt.yaml": RULES.replace("put,", "putt,"),
        "light.yaml": predicates("[traffic_light > 3]"),
        "angle.yaml": predicates("[angle > 3]"),
        "unless.yaml": RULES.replace("when", "unless: {held: Watch}, when"),
        "b.yaml": predicates("[braking]"),
        "a.jsonl": lines(HEADER, frame(0), frame(1)),
        "calls.jsonl": '{"chat": []}\n',
        "a.csv": "time_s,angle\n0,0\n1,0.1\n",
        "web.jsonl": '{"id": "1", "user": {}, "label": 0}\n',
        "access.jsonl": '{"id": "1", "identity": "nurse", "label": 0}\n',
        "model.json": "{}",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("run tiny-road --unguarded --set speed=3", "forewarn: --set: pilot: speed:"),
        ("run tiny-road --unguarded --ego hero", "(this option is for monitor)"),
        ("collect tiny-road --model m.json", "(this option is for run,"),
        ("learn s3:/runs --scenario tiny-road --out m.json", "write s3://runs for a"),
        ("learn a.jsonl --abstraction light.yaml --out m.json",
         "compare it, as in traffic_light == red"),
        ("learn a.jsonl --abstraction angle.yaml --out m.json",
         "the vocabulary driving has speed,"),
        ("run tiny-road --unguarded --world carla",
         "tiny-road.yaml: the scenario does not run in the world carla (choose"),
        ("measure tiny-road --thresholds 0.3 0.5", "as in 0.3,0.5 or rain=0.2; write"),
        ("rules lint unless.yaml",
         "rules.0.unless: expected text or a list, found a mapping (write the text"),
        ("run tiny-road --webhook example.org/h",
         "write it as in https://example.org/hook"),
        ("run tiny-road --unguardd", "(did you mean --unguarded?)"),
        ("monitor a.csv b.csv --law 'always angle < 3'", "write forewarn monitor ["),
        ("run household:fork --unguarded", "such as fork-microwave-safe"),
        ("show tiny-road", "use `forewarn scenarios tiny-road`"),
        ("monitor a.csv --vocabulary v.yaml --law 'always angle < 2 rad'",
         "the vocabulary has the units radians"),
        (f"mcp guard --law '{CALLS}' --policy p.yaml -- true",
         "p.yaml: the policy default has rules only for careful"),
        ("run fork-in-microwave --no-model --rules o.yaml --episodes 1 --out o",
         "forewarn: o.yaml: rule no-metal, column 1: unknown signal 'held_metal'"),
        ("run fork-in-microwave --no-model --rules putt.yaml --episodes 1 --out o",
         "the rule no-metal: household does not have the action 'putt' (did you mean"),
        ("learn a.jsonl --abstraction b.yaml --law no_collision --out m.json",
         "b.yaml: the law no_collision: the predicates of the abstraction do not"),
        ("warrant calls.jsonl --law 'always not tool == x' --out w",
         'an agent\'s log has {"messages": […]} on each line, see docs/warrants.md'),
        ("mcp guard --model model.json -- true",
         "model.json is a file, but a folder is needed"),
    ],
)  # fmt: skip
def test_messages_name_the_place_and_the_fix(line: str, mend: str) -> None:
    assert mend in said(line)


def test_traces_of_another_vocabulary_are_named(desk: Path) -> None:
    (desk / "crawl.yaml").write_text(
        "format: forewarn.vocabulary/1\nname: crawl\nsignals:\n"
        "  speed: {type: number, unit: km/h, range: [0, 10], doc: speed}\n"
    )
    vocabulary = "vocabulary: crawl.yaml\n"
    (desk / "c.yaml").write_text(predicates("[speed < 5 km/h]", vocabulary))
    assert "1 run in 1 file" in said("convert a.jsonl --out runs", 0)
    told = said("learn runs --abstraction c.yaml --out m.json")
    assert "speed is 30 km/h, above its range" in told
    assert "the trace has the vocabulary driving, but is read with crawl" in told


def test_predicates_that_are_not_used_are_noted() -> None:
    told = said("rules lint r.yaml --predicates mine.yaml", 0)
    assert "mine.yaml is not used, because no rule has the domain driving" in told
    assert "not used" not in said("rules lint d.yaml --predicates mine.yaml", 0)


@pytest.mark.parametrize(("file", "kind"), [("web", "access"), ("access", "rules")])
def test_cases_of_the_other_kind_are_recognised(file: str, kind: CaseKind) -> None:
    with pytest.raises(InvalidInput, match="use --kind") as caught:
        list(read_cases(Path(f"{file}.jsonl"), kind))
    assert f"not {kind}" in str(caught.value)
