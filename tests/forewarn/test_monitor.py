"""`forewarn monitor`: the shapes that it promises, on every format that it reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Trace, TraceHeader, write_trace
from forewarn.cli import main

RESPONSE = "always (a -> eventually[0, 0.2 s] b)"


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["monitor", *map(str, arguments)])


def _json(*arguments: str | Path, status: int = 0) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)["results"]


def _csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_a_violated_law_has_exactly_this_shape(tmp_path: Path) -> None:
    path = _csv(tmp_path, "a,b\n0,0\n1,0\n0,0\n0,0\n0,1\n")
    (result,) = _json(path, "--law", RESPONSE, "--period", "0.1", "--every", status=1)
    assert result == {
        "law": RESPONSE,
        "verdict": "violated",
        "first_violation_s": pytest.approx(0.3),
        "violations": [
            {"frame": 3, "time_s": pytest.approx(0.3), "since_s": pytest.approx(0.1)}
        ],
        "instances": [
            {
                "from_s": pytest.approx(0.3),
                "until_s": pytest.approx(0.3),
                "signals": {"a": [0.0, 0.0], "b": [0.0, 0.0]},
            }
        ],
        "frames": ["ok", "pending", "pending", "violated", "violated"],
    }


def test_a_kept_law_has_exactly_this_shape(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,a,b\n0,1,0\n0.1,0,1\n")
    assert _json(path, "--law", RESPONSE) == [  # fmt: skip
        {
            "law": RESPONSE,
            "verdict": "ok",
            "first_violation_s": None,
            "violations": [],
            "instances": [],
        }
    ]


def test_near_misses_are_listed_by_their_instances(tmp_path: Path) -> None:
    seconds = {0.5: 1.4, 0.6: 1.2, 0.7: 1.3, 1.2: 1.1, 3.0: 0.9}
    rows = [f"{i / 10:g},{seconds.get(i / 10, 4.0)},,50" for i in range(40)]
    head = "time_s,time_to_collision,lead_distance,speed"
    path = _csv(tmp_path, "\n".join([head, *rows]))
    ttc, pet, drac = _json(path, "--law", "near_miss", status=1)
    assert [each["law"] for each in (ttc, pet, drac)] == [
        "near_miss_ttc", "near_miss_pet", "near_miss_drac"
    ]  # fmt: skip
    assert pet["verdict"] == "not applicable"
    assert ttc["instances"] == [
        {"from_s": 0.5, "until_s": 1.2, "signals": {"time_to_collision": [1.1, 4.0]}},
        {"from_s": 3.0, "until_s": 3.0, "signals": {"time_to_collision": [0.9, 0.9]}},
    ]
    said = _run(path, "--law", "near_miss").stdout
    assert "4 more after that; instances: 0.5 to 1.2 s, 3 to 3 s" in said


def test_laws_may_use_any_csv_column(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,speed,my flag?,ok\n0,0.4,7,true\n0.1,0.6,8,false\n")
    (result,) = _json(path, "--law", "always not (speed > 0.5)", status=1)
    assert result["first_violation_s"] == pytest.approx(0.1)
    (result,) = _json(path, "--law", "always (ok or speed > 0.5)")
    assert result["verdict"] == "ok"


def test_several_laws_are_judged_in_their_order(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,speed,collision,mine\n0,10,0,1\n0.1,11,0,0\n")
    results = _json(
        path, "--law", "rule51_5", "--law", "no_collision", "--law", "46",
        "--law", "always (mine -> speed < 50)",
    )  # fmt: skip
    assert [(r["law"], r["verdict"]) for r in results] == [
        ("rule51_5", "not applicable"),
        ("no_collision", "ok"),
        ("46_2", "not applicable"),
        ("46_3", "not applicable"),
        ("always (mine -> speed < 50)", "ok"),
    ]
    assert "traffic_light" in results[0]["reason"]


def test_a_vacuous_law_says_why(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,a,b\n0,0,1\n0.1,0,0\n")
    (result,) = _json(path, "--law", RESPONSE)
    assert result["verdict"] == "vacuous" and result["reason"] == "a is never true"


def test_a_pending_obligation_ends_with_status_0(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,a,b\n0,0,1\n0.1,1,0\n")
    (result,) = _json(path, "--law", RESPONSE)
    assert (result["verdict"], result["left_s"]) == ("pending", pytest.approx(0.2))
    assert "0.2 s left" in _run(path, "--law", RESPONSE).stdout


def test_lawbreakers_columns_are_judged_by_its_laws(tmp_path: Path) -> None:
    head = "time_s,trafficLightAheadcolor,signalAhead,stoplineAhead,junctionAhead"
    rows = [f"{i / 10},1,1,1.5,200,1000,0,20" for i in range(40)]
    path = _csv(
        tmp_path, "\n".join([f"{head},NPCAheadAhead,NPCAheadspeed,speed", *rows])
    )
    (result,) = _json(path, "--law", "rule51_5", "--every", status=1)
    assert result["first_violation_s"] == pytest.approx(2.0)
    assert result["violations"][0]["since_s"] == 0
    assert result["frames"] == ["pending"] * 20 + ["violated"] * 20


def test_renamed_columns_take_the_signals_meaning(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,crash\n0,0\n0.1,1\n")
    law = ("--law", "no_collision")
    assert _json(path, *law)[0]["verdict"] == "not applicable"
    assert _json(path, *law, "--map", "crash=collision", status=1)[0]["violations"]


def test_our_own_traces_are_judged(tmp_path: Path) -> None:
    header = TraceHeader("driving", ("collision", "speed"), 0.1)
    frames = tuple(
        Frame(i / 10, i, {"collision": i == 7, "speed": 30.0}) for i in range(9)
    )
    path = tmp_path / "run.jsonl.gz"
    write_trace(path, Trace(header, frames))
    (result,) = _json(path, "--law", "no_collision", status=1)
    assert result["violations"] == [
        {"frame": 7, "time_s": pytest.approx(0.7), "since_s": pytest.approx(0.7)}
    ]


def test_a_vocabulary_of_ones_own_types_a_csv(tmp_path: Path) -> None:
    (tmp_path / "lift.yaml").write_text(
        "{format: forewarn.vocabulary/1, name: lift, signals: {height: {type: number,"
        " unit: m, range: [0, 40]}, door: {type: enum, values: [open, closed]}}}"
    )
    path = _csv(tmp_path, "time_s,height,door\n0,10,closed\n0.1,12,open\n")
    law = ("--law", "always (door == open -> height < 100 cm)")
    own = ("--vocabulary", tmp_path / "lift.yaml")
    assert _json(path, *law, *own, status=1)[0]["first_violation_s"] == 0.1
    bad = _run(path, "--law", "always (door == opn)", *own)
    assert bad.exit_code == 2 and "did you mean open" in bad.stderr


def test_the_published_recording_is_judged(shared_data: Path) -> None:
    path = shared_data / "driving" / "lawbreaker_example_trace.json"
    results = _json(path, "--law", "38_1", "--law", "45", "--law", "no_collision")
    verdicts = [r["verdict"] for r in results]
    assert verdicts == ["ok", "not applicable", "ok"]
    (result,) = _json(path, "--law", "always speed < 31 km/h", "--every", status=1)
    assert len(result["frames"]) == 68
    first = result["violations"][0]
    assert result["frames"].index("violated") == first["frame"]


def test_every_frame_is_printed_for_people(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,a,b\n0,1,0\n0.1,0,1\n")
    text = _run(path, "--law", RESPONSE, "--every").stdout
    assert "pending" in text and text.splitlines()[-1].split() == ["1", "0.1", "ok"]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("a,b\n0,1\n", ["--law", RESPONSE], "--period"),
        (
            "time_s,a\n0,1\n0.1,0\n0.7,0\n",
            ["--law", "G (a -> F[0,1 s] a)"],
            "irregular",
        ),
        ("time_s,a\n0,1\n0.1,nan\n", ["--law", "always a"], "t.csv: line 3"),
        ("time_s,a\n0,1\n", ["--law", "always (a"], "column 10"),
        ("time_s,a\n0,1\n", ["--law", "rule51_55"], "did you mean 51_5"),
        ("time_s,a\n0,1\n", ["--law", "always a", "--map", "a"], "COLUMN=SIGNAL"),
        ("time_s,a\n0,1\n", ["--law", "always a", "--map", "b=c"], "no column 'b'"),
        ("time_s,a\n0,1\n", ["--law", "always a", "--vocabulary", "drivin"], "driving"),
        ("time_s,a\n", ["--law", "always a"], "no frames"),
        ("time_s,a\n0,1\n", [], "--law"),
        ("", ["--law", "always a"], "empty"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    tmp_path: Path, text: str, arguments: list[str], said: str
) -> None:
    result = _run(_csv(tmp_path, text), *arguments, "--json")
    assert result.exit_code == 2 and result.stdout == ""
    assert said in result.stderr and result.stderr.count("\n") == 1


def test_an_error_in_a_trace_names_its_file_and_not_its_recorder(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.jsonl"
    header = TraceHeader(provides=("a",), period_s=0.1, source="the recorder")
    for frames, problem in (
        ((), "the trace has no frames"),
        (
            (Frame(0.0, 0, {"a": True}), Frame(0.1, 1, {})),
            "frame 1: the signal a is listed in 'provides', but missing from this "
            "frame",
        ),
    ):
        write_trace(path, Trace(header, frames))
        said = _run(path, "--law", "always a").stderr
        assert said == f"forewarn: {path}: {problem}\n"


@pytest.mark.parametrize("period", ["nan", "inf"])
def test_a_period_is_finite(tmp_path: Path, period: str) -> None:
    path = _csv(tmp_path, "a,b\n1,1\n")
    result = _run(path, "--law", RESPONSE, "--period", period)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not a finite number" in result.stderr


def test_violations_in_a_random_trace_match_the_definition(tmp_path: Path) -> None:
    rng = random.Random(7)
    rows = [(rng.random() < 0.3, rng.random() < 0.3) for _ in range(400)]
    lines = [f"{i * 0.1:.1f},{a:d},{b:d}" for i, (a, b) in enumerate(rows)]
    path = _csv(tmp_path, "\n".join(["time_s,a,b", *lines]))
    (result,) = _json(path, "--law", "always (a -> eventually[0, 0.5 s] b)", status=1)
    expected = next(
        i + 5
        for i, (a, _) in enumerate(rows)
        if a and not any(b for _, b in rows[i : i + 6])
    )
    assert result["violations"][0]["frame"] == expected
    assert result["first_violation_s"] == pytest.approx(expected / 10)
