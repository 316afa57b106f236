"""`forewarn apollo` from the command line: maps, the stand-in, guards and records."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import forewarn.scenarios
from forewarn.cli import main
from forewarn.cli.apollo import _Heard
from forewarn.monitors.chains.model import load_model

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

TRAINED = Path(forewarn.scenarios.__file__).parent / "trained"
MODEL, POLICY = TRAINED / "s2.model.json.gz", TRAINED / "s2.policy.yaml"


def invoke(*args: object, status: int = 0) -> Any:
    done = CliRunner().invoke(main, [str(arg) for arg in args])
    assert done.exit_code == status, done.output + str(done.stderr)
    return done


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("maps") / "base_map.bin"
    invoke("apollo", "map", "crossing", "--out", path)
    return path


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_maps_are_written_in_apollo_s_form(tmp_path: Path) -> None:
    from forewarn.apollo_bridge.maps import load_map

    done = invoke("apollo", "map", "crossing", "--out", tmp_path / "m" / "base_map.bin",
                  "--json")  # fmt: skip
    facts = json.loads(done.stdout)
    assert (facts["lanes"], facts["signals"], facts["crosswalks"]) == (40, 16, 4)
    invoke("apollo", "map", "crossing", "--out", tmp_path / "other.txt")
    assert load_map(tmp_path / "m").lanes == load_map(tmp_path / "other.txt").lanes
    done = invoke("apollo", "map", "crosing", "--out", tmp_path / "x", status=2)
    assert "did you mean crossing" in done.stderr


def test_a_guard_on_the_stand_in_in_this_process(tmp_path: Path) -> None:
    record, policy = tmp_path / "run.jsonl", tmp_path / "policy.yaml"
    policy.write_text(
        "format: forewarn.policy/1\nrules:\n- {law: '51_5', thresholds: {stop: 0.1}}\n"
    )
    done = invoke(
        "apollo", "guard", "--fake", "s2", "--seed", 301, "--pace", 0,
        "--model", MODEL, "--policy", policy, "--record", record, "--json", "--log",
    )  # fmt: skip
    assert "stop at " in done.stderr and "51_5" in done.stderr
    begins, *frames, ends = lines(done.stdout)
    assert begins["stop"] == "action service" and begins["laws"] == ["51_5"]
    assert len(frames) == ends["frames"] == sum(ends["decisions"].values())
    held = [f for f in frames if f["executed"] == "stop"]
    assert held and held[0]["planner"]["scenario:emergency_stop"] == 1.0
    assert any(f["carried_out"].get("obeyed") for f in frames)
    invoke("verify", record)
    invoke("replay", record)
    kept = record.read_bytes()
    refused = invoke("apollo", "guard", "--fake", "s2", "--pace", 0,
                     "--model", MODEL, "--record", record, status=2)  # fmt: skip
    assert "a record with this name already exists" in refused.stderr
    assert record.read_bytes() == kept
    again = invoke("apollo", "guard", "--fake", "s2", "--seed", 301, "--pace", 0,
                   "--model", MODEL, "--shadow", "--edition", 8, "--policy", POLICY,
                   "--law", "51_5",
                   "--law", load_model(MODEL).laws[0].partition(" := ")[2])  # fmt: skip
    assert "Watching Apollo 8" in again.stdout
    assert "The policy has no rule for the law always" in again.stdout
    assert "stop by the planning pad, slow by nothing" in again.stdout


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "give exactly one of --bridge"),
        (["--fake", "s2", "--node"], "give exactly one of --bridge"),
        (["--bridge", "127.0.0.1"], "not a valid address of cyber_bridge"),
        (
            ["--bridge", "tcp://127.0.0.1:1", "--without", "chassis"],
            "not an optional input",
        ),
        (["--bridge", "tcp://127.0.0.1:1", "--map", "nowhere"], "nowhere"),
        (["--bridge", "tcp://127.0.0.1:1", "--told", "rian=1"], "did you mean rain"),
        (["--bridge", "tcp://127.0.0.1:1", "--told", "rain=wet"], "--told"),
        (["--bridge", "tcp://127.0.0.1:1", "--body", "1,2"], "FRONT,BACK,WIDTH"),
        (
            ["--bridge", "tcp://127.0.0.1:1", "--body", "99,1,2"],
            "not a plausible car size",
        ),
        (["--fake", "s2", "--told", "rain=1"], "--fake cannot be combined with --told"),
        (["--fake", "tiny-road"], "does not run on SUMO"),
        (["--fake", "s1"], "it was learned on s2, but the scenario is s1"),
        (["--bridge", "tcp://127.0.0.1:1", "--scenario", "s1"], "learned on s2, but"),
    ],
)
def test_unusable_vehicle_is_reported_in_one_line(
    args: list[str], why: str, crossing: Path
) -> None:
    placed = [] if "--fake" in args else ["--map", str(crossing)]
    words = ["--model", MODEL, *placed, *args]
    done = invoke("apollo", "guard", *words, status=2)
    assert why in done.stderr and done.stderr.count("\n") == 1


def test_a_guard_needs_apollo_s_map() -> None:
    words = ("--model", MODEL, "--bridge", "tcp://127.0.0.1:1")
    assert "give --map" in invoke("apollo", "guard", *words, status=2).stderr


def test_node_outside_apollos_container_is_rejected(tmp_path: Path) -> None:
    invoke("apollo", "map", "crossing", "--out", tmp_path / "map")
    words = ("--model", MODEL, "--map", tmp_path / "map", "--node")
    done = invoke("apollo", "guard", *words, status=3)
    assert "inside Apollo's container" in done.stderr


def test_serving_to_others_has_to_be_asked_for() -> None:
    done = invoke("apollo", "serve", "s2", "--host", "0.0.0.0", status=2)  # noqa: S104
    assert "--allow-remote" in done.stderr
    done = invoke("apollo", "serve", "gone.record", "--port", 0, status=2)
    assert "gone.record: no such file" in done.stderr


@pytest.fixture
def served() -> Iterator[str]:
    """The stand-in in a process of its own, as fast as time itself."""
    command = [sys.executable, "-m", "forewarn.cli", "apollo", "serve", "s2", "--port",
               "0", "--seed", "301", "--pace", "1", "--json"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.terminate()
            process.communicate(timeout=30)
            assert process.returncode == 0


def test_served_guarded_resumed_and_recorded(served: str, tmp_path: Path) -> None:
    invoke("apollo", "map", "crossing", "--out", tmp_path / "base_map.bin")
    command = ["apollo", "guard", "--bridge", served, "--map", tmp_path, "--model",
               MODEL, "--body", "3.757,1.043,1.8", "--told", "rain=0"]  # fmt: skip
    done = invoke(*command, "--for", 2, "--json")
    begins, *frames, ends = lines(done.stdout)
    assert begins["source"] == "Apollo 9 by cyber_bridge"
    assert begins["stop"] == "planning pad" and begins["slow"] is None
    assert len(frames) > 10 and ends["bus"]["losses"] == 0
    # Where an input came late on a busy machine, what is owed is not known for a while.
    told = [f for f in frames if f["risk"] is not None or "was lost" in f["reason"]]
    reasons = {f["reason"] for f in frames}
    assert len(told) > len(frames) / 2, reasons
    assert ends["commands"]["/apollo/planning/pad"] >= 1, "it leaves the car stopped"
    # Whoever ends a guard leaves the car stopped, and lets it go by a word.
    done = invoke("apollo", "resume", "--bridge", served, "--json")
    assert json.loads(done.stdout) == {"resumed": True}
    record = tmp_path / "drive.record"
    done = invoke("apollo", "record", record, "--bridge", served, "--for", 2, "--json")
    facts = json.loads(done.stdout)
    assert facts["messages"] > 100 and facts["lost"] == 0
    from forewarn.apollo_bridge.recordings import read_record

    assert {each.channel for each in read_record(record)} >= {
        "/apollo/planning", "/apollo/canbus/chassis", "/apollo/localization/pose",
    }  # fmt: skip
    done = invoke("apollo", "serve", record, "--port", 0, "--pace", 0, "--json")
    assert lines(done.stdout)[-1] == {"messages": facts["messages"]}


def test_recording_without_messages_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "empty.record"
    done = invoke("apollo", "record", out, "--bridge", "tcp://127.0.0.1:1", "--for",
                  0.2, status=2)  # fmt: skip
    assert "no messages were received" in done.stderr and not out.exists()


@pytest.mark.parametrize("absurd_s", [1e9, 1e300])
def test_a_message_at_an_absurd_time_shifts_no_other(absurd_s: float) -> None:
    """Not as the first one either, and a clock that leaps is followed."""
    from types import SimpleNamespace as Of

    def times_s(*stamps_s: float) -> list[float]:
        heard = _Heard()
        ending = threading.Event()
        for each in stamps_s:
            heard(Of(header=Of(timestamp_sec=each)), "/apollo/planning")
        said = heard.said(ending, None)
        return [next(said)[2] / 1e9 for _ in stamps_s]

    assert times_s(5.0, 5.1, absurd_s, 5.2, 0.0, 5.3) == [5.0, 5.1, 5.1, 5.2, 5.2, 5.3]
    assert times_s(absurd_s, 5.0, 5.1, 5.2)[2:] == [5.1, 5.2]
    assert times_s(5.0, 90.0, 90.1, 90.0) == [5.0, 5.0, 90.1, 90.1]
