"""`forewarn show`: a model for people, and all of it as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.scenarios.shipped import FOLDER

GOLDEN = Path(__file__).parents[1] / "golden" / "chains"
LAW = "always(speed > 10 -> eventually[0, 0.2 s] speed < 5)"
SPEEDS = [0.0, 0.0, 20.0, 20.0, 20.0, 20.0, 0.0, 7.0]


def forewarn(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def shown(*arguments: object) -> dict[str, Any]:
    done = forewarn("show", *arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def kettle(tmp_path: Path) -> Path:
    out = tmp_path / "K.json"
    support = GOLDEN / "kettle.support.json"
    done = forewarn("learn", GOLDEN / "kettle.states", "--support", support, "--alpha",
                    "1", "--end", "ignore", "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    header = {"format": "forewarn.trace/1", "vocabulary": "driving", "period_s": 0.1,
              "provides": ["speed"]}  # fmt: skip
    frames = [
        {"sequence": i, "time_s": i / 10, "signals": {"speed": speed}}
        for i, speed in enumerate(SPEEDS)
    ]
    trace, out = tmp_path / "t.jsonl", tmp_path / "S.json"
    trace.write_text("\n".join(map(json.dumps, [header, *frames])))
    done = forewarn("learn", trace, "--law", LAW, "--out", out)
    assert done.exit_code == 0, done.output
    return out


def test_the_json_has_the_promised_shape(kettle: Path) -> None:
    found = shown(kettle)
    assert found["states"] == ["cold", "dry", "hot", "warming"]
    assert found["rows"]["cold"] == {"cold": 2 / 6, "warming": 4 / 6}
    assert found["rows"]["dry"] == {"dry": 1.0}
    assert found["counts"]["warming"] == {"dry": 1, "hot": 2, "warming": 2}
    assert found["training"]["traces"] == 3 and found["training"]["frames"] == 16
    assert all(abs(sum(row.values()) - 1) < 1e-12 for row in found["rows"].values())
    assert found["visits"] == {"cold": 4, "dry": 1, "hot": 3, "warming": 5}
    assert (found["alpha"], found["support"], found["end"]) == (
        "1",
        "declared",
        "ignore",
    )


def test_a_published_chain_has_no_counts() -> None:
    found = shown(GOLDEN / "kettle.json")
    assert found["counts"] == {} and found["training"] == {}
    assert found["rows"]["1"] == {"1": 0.7, "2": 0.2, "3": 0.1}
    assert found["labels"] == {"hot": ["2"], "dry": ["3"]} and found["initial"] == "0"


def test_people_see_the_busiest_state_first(kettle: Path) -> None:
    lines = forewarn("show", kettle).stdout.splitlines()
    assert lines[0] == f"{kettle}: 4 states, 8 transitions"
    assert (
        "alpha 1 over declared transitions; the ends of traces are ignored." in lines[1]
    )
    head = next(i for i, line in enumerate(lines) if line.startswith("state"))
    states = [line.split()[0] for line in lines[head + 1 :]]
    assert states == ["warming", "cold", "hot", "dry"]
    assert "hot 0.375, warming 0.375, dry 0.25" in lines[head + 1]
    assert "starts here" in lines[head + 2] and "stays" in lines[head + 4]


def test_people_see_states_in_words(speeds: Path) -> None:
    text = forewarn("show", speeds).stdout
    assert "  1. speed > 10" in text and "  2. speed < 5" in text
    assert "A step takes 0.1 s." in text
    rows = {line.split()[0]: line for line in text.splitlines() if line}
    assert rows["10"].endswith("speed > 10") and rows["00"].endswith("none")
    assert rows["01"].endswith("speed < 5; starts here") and "stays" in rows["END"]


def test_successors_beyond_the_shown_ones_are_counted(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "M.json"
    runs.write_text("a a a b a c a d a e\n")
    forewarn("learn", runs, "--end", "ignore", "--out", out)
    assert "a 0.3333, b 0.1667, c 0.1667, 2 more" in forewarn("show", out).stdout


def test_the_risk_of_the_model_s_own_law(speeds: Path) -> None:
    found = shown(speeds, "--risk", "--horizon", "1")
    ((text, risk),) = found["risk"].items()
    assert text == LAW.replace("always(", "always (")
    assert risk["horizon_steps"] == 10
    fast = risk["states"]["10"]
    assert fast["words"] == ["speed > 10"]
    assert fast["visits"] == 4 and fast["violations_seen"] == 1
    for at in (fast["fresh"], fast["worst"]):
        assert 0 <= at["low"] <= at["risk"] <= at["high"] <= 1
    assert fast["worst"]["monitor"].startswith("wait")
    lines = forewarn("show", speeds, "--risk").stdout.splitlines()
    assert any(
        line.startswith("Risk within 50 steps (5 s) of breaking") for line in lines
    )


def test_output_says_where_bounds_are_from_first_visits(speeds: Path) -> None:
    said = forewarn("show", speeds, "--risk", "--horizon", "3").stdout
    assert "[low, high] applies to a run's first visit" in said
    said = forewarn("show", speeds, "--risk").stdout
    assert "--horizon 3 shows narrower bounds, for a run's first visit" in said


def test_the_risk_of_a_law_over_labels() -> None:
    law = "always(hot -> eventually[0, 2 steps] cold)"
    found = shown(GOLDEN / "kettle.json", "--risk", "--law", law, "--define",
                  "cold=s=0", "--within", "9")  # fmt: skip
    (risk,) = found["risk"].values()
    assert risk["horizon_steps"] == 9 and set(risk["states"]) == {"0", "1", "2", "3"}
    assert risk["states"]["2"]["fresh"]["monitor"] == "wait:2"
    # Hot: out within two steps, or else broken; then risk comes again.
    assert risk["states"]["2"]["fresh"]["risk"] >= (2 / 3) ** 2
    assert risk["states"]["2"]["fresh"]["low"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--risk"], "give --within STEPS"),
        (["--risk", "--within", "5"], "the model specifies no laws"),
        (["--risk", "--within", "5", "--horizon", "1"], "cannot be combined"),
        (["--risk", "--within", "5", "--law", "always not wet"], "wet"),
    ],
)
def test_bad_input_is_one_line_and_status_two(arguments: list[str], said: str) -> None:
    done = forewarn("show", GOLDEN / "kettle.json", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_escape_sequences_in_state_names_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "M.json"
    name = "a\x1b[2Jb"
    rows = {"format": "forewarn.model/1", "states": [name], "rows": {name: {name: 1.0}}}
    path.write_text(json.dumps(rows))
    assert "\x1b" not in forewarn("show", path).stdout


def test_unknown_law_of_a_file_with_several_models_is_rejected() -> None:
    model = FOLDER / "virtualhome-chores.model.json.gz"
    for laws in (["no_such"], ["off_when_done", "no_such"]):
        done = forewarn("show", model, *(f"--law={law}" for law in laws))
        assert done.exit_code == 2
        assert "--law no_such: the file has models only for" in done.stderr
        assert "closed_when_done" in done.stderr
