"""`forewarn guard`: line by line, over a socket, and what it refuses."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn import Guard, load_model, load_models, load_policy, load_watch
from forewarn.abstractions.files import write_json
from forewarn.cli import main
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.programs.file import ProgramFile, write_program
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.remote.client import GuardClient
from forewarn.scenarios.schema import shipped_scenarios
from tests.plugins.remote.serving import (
    CALM,
    PROVIDES,
    RISKY,
    TOKEN,
    frame,
    hello,
    model,
    served,
)

TRAINED = Path(shipped_scenarios()["s1"]).parents[1] / "trained"


@pytest.fixture
def model_path(tmp_path: Path) -> str:
    path = tmp_path / "model.json"
    write_json(path, model_as_dict(model()))
    return str(path)


ANNOUNCED = (
    "Interventions for the law always not collision, by risk: alert from 0.3, slow from"
    " 0.5, stop from 0.8.\n"
)


def stdio(model_path: str, *lines: bytes, options: tuple[str, ...] = ()) -> Result:
    arguments = ["guard", "--stdio", "--model", model_path, *options]
    return CliRunner().invoke(main, arguments, input=b"\n".join(lines) + b"\n")


def test_a_line_is_answered_with_a_line(model_path: str) -> None:
    done = stdio(model_path, frame(0), frame(1, RISKY))
    assert (done.exit_code, done.stderr) == (0, ANNOUNCED)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(a["sequence"], a["decision"]) for a in answers] == [
        (0, "proceed"), (1, "stop"),
    ]  # fmt: skip


def test_a_hello_may_come_first(model_path: str) -> None:
    done = stdio(model_path, hello(token="any"), frame(0))  # noqa: S106
    assert json.loads(done.stdout)["decision"] == "proceed"


def test_guard_programs_judge_beside_the_risk_and_replay(
    model_path: str, tmp_path: Path
) -> None:
    program, records = tmp_path / "slow.yaml", tmp_path / "records"
    text = 'if frame["speed"] > 1 and Same(user["role"], "novice"):\n'
    text += '    slow("novices drive slowly", 30)\n'
    file = ProgramFile(
        name="novices", request="", specification="", made_by="rules", program=text
    )
    options = ("--guard-program", str(program), "--user", "role=novice")
    write_program(program, file)
    refused = stdio(model_path, frame(0), options=options)
    assert refused.exit_code == 2 and "nobody has signed the program" in refused.stderr
    write_program(program, file.signed("Ada"))
    done = stdio(model_path, frame(0), options=(*options, "--record", str(records)))
    (decision,) = map(json.loads, done.stdout.splitlines())
    assert (decision["decision"], decision["cap_kmh"]) == ("slow", 30.0)
    assert decision["law"] == "novices drive slowly"
    (record,) = records.glob("*.jsonl")
    assert CliRunner().invoke(main, ["replay", str(record)]).exit_code == 0
    other = stdio(model_path, frame(0), options=(*options[:3], "role=expert"))
    assert json.loads(other.stdout)["decision"] == "proceed"


def test_signals_that_the_first_frame_lacks_are_reported(
    model_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = frame(0).replace(b'"speed"', b'"sped"')
    stdio(model_path, lacking, lacking)
    (told,) = caplog.messages
    assert told == "the first frame lacks speed (did you mean speed by 'sped'?)"


def test_a_malformed_line_ends_it(model_path: str) -> None:
    done = stdio(model_path, frame(0), b'{"sequence": 1', frame(2))
    assert done.exit_code == 2
    assert [*map(json.loads, done.stdout.splitlines())][1:] == [
        {"error": "line 2, column 15: not JSON: expecting ',' delimiter"}
    ]
    assert "not JSON" in done.stderr


_HUGE = b"1" + b"0" * 4200
_STOPS = [
    b'"speed":1' + b"0" * 400, b'"speed":-' + _HUGE, b'"speed":true', b'"speed":null',
    b'"speed":-1.0', b'"speed":1e308', b'"speed":20.0,"collision":0',
    b'"speed":20.0,"collision":null',
]  # fmt: skip
_ENDS = [
    b'{"sequence":%b,"time_s":0,"signals":{}}' % _HUGE,
    b'{"sequence":0,"time_s":%b,"signals":{}}' % _HUGE,
    b'{"sequence":0,"time_s":0,"signals":{"speed":90,"speed":20,"collision":false}}',
    b'{"sequence":0,"time_s":0,"signals":{"speed":20.0,"z":' + b"[" * 100_000,
    frame(0, obeyed="false"), frame(0, scene={"ground": [["lane", None, [[0, 0]]]]}),
    hello(can=[]), hello(can=["alert"]), hello(provides=["speed"]), b"", b"null", b"5",
]  # fmt: skip


@pytest.mark.parametrize("line", _STOPS, ids=lambda line: line[:30])
def test_a_frame_of_odd_values_stops(model_path: str, line: bytes) -> None:
    rest = b"" if b"collision" in line else b',"collision":false'
    odd = b'{"sequence":0,"time_s":0,"signals":{%b%b}}' % (line, rest)
    done = stdio(model_path, odd, frame(1))
    assert (done.exit_code, done.stderr) == (0, ANNOUNCED)
    assert json.loads(done.stdout.splitlines()[0])["decision"] == "stop"


@pytest.mark.parametrize("line", _ENDS, ids=lambda line: line[:30])
def test_a_line_that_is_no_message_ends_it(model_path: str, line: bytes) -> None:
    done = stdio(model_path, line, frame(1))
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert [*json.loads(done.stdout)] == ["error"]


def test_an_odd_proposal_is_recorded_so_that_it_replays(
    model_path: str, tmp_path: Path
) -> None:
    values = '1%s,"s":"é"' % ("0" * 1400), '{"$float":"abc"}', "[" * 900 + "]" * 900
    odd = [
        frame(i, proposal={"name": "a", "arguments": {}}).replace(
            b'"arguments": {}', b'"arguments":{"x":%b}' % each.encode()
        )
        for i, each in enumerate(values)
    ]
    done = stdio(model_path, *odd, options=("--record", str(tmp_path / "records")))
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == len(odd)
    (record,) = (tmp_path / "records").glob("*.jsonl")
    assert replay(record) == (len(odd), None)


def test_laws_and_policy_can_be_given(model_path: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "format: forewarn.policy/1\nrules: [{law: '*', thresholds: {alert: 0.2}}]\n"
    )
    law = "always speed <= 60 km/h"
    options = ("--policy", str(policy), "--law", law)
    done = stdio(model_path, frame(0), frame(1, RISKY), options=options)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["law"] for answer in answers] == [law, law]
    assert answers[1]["decision"] == "alert"


def test_rules_judge_beside_the_risk(model_path: str, tmp_path: Path) -> None:
    rules, predicates = tmp_path / "rules.yaml", tmp_path / "predicates.yaml"
    rules.write_text(
        "format: forewarn.rules/1\ndomain: driving\n"
        "rules: [{name: steady, tick: any, when: moves, enforce: ask}]\n"
    )
    predicates.write_text(
        "format: forewarn.predicates/1\ndomain: driving\n"
        "predicates: {moves: {doc: The car moves at all., when: speed > 1 km/h}}\n"
    )
    options = ("--rules", str(rules), "--predicates", str(predicates))
    done = stdio(model_path, frame(0), frame(1, RISKY), options=options)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(a["decision"], a["law"]) for a in answers] == [
        ("ask", "steady"), ("stop", "always not collision"),
    ]  # fmt: skip
    assert answers[0]["evidence"] == ["moves"]


LAW = "always speed <= 60 km/h"
OTHER = "always not (speed > 60 km/h)"


def ruling(tmp_path: Path, *laws: str) -> tuple[str, ...]:
    """Options: a policy with a rule for each of these, and two laws to watch."""
    path = tmp_path / "policy.yaml"
    rules = [{"law": law, "thresholds": {"alert": 0.2}} for law in laws]
    write_json(path, {"format": "forewarn.policy/1", "name": "mine", "rules": rules})
    return ("--policy", str(path), "--law", LAW, "--law", OTHER)


def test_laws_that_the_policy_does_not_rule_are_named(
    model_path: str, tmp_path: Path
) -> None:
    done = stdio(model_path, frame(0), options=ruling(tmp_path, LAW, "51_5"))
    assert json.loads(done.stdout)["decision"] == "proceed"
    assert done.stderr.splitlines() == [
        f"The policy has no rule for the law {OTHER}, so the guard never intervenes for"
        " it.",
        "The policy has a rule for 51_5, which is not watched.",
        f"For the law {LAW} the guard only alerts and does not intervene.",
    ]
    acts = (*ruling(tmp_path, "*"), "--intervene", "stop")
    assert stdio(model_path, frame(0), options=acts).stderr.splitlines() == [
        f"Interventions for the law {LAW}, by risk: stop from 0.2.",
        f"Interventions for the law {OTHER}, by risk: stop from 0.2.",
    ]
    shadow = stdio(model_path, frame(0), options=(*acts[:-1], "none")).stderr
    assert shadow.endswith("The guard decides and records, but enforces nothing.\n")


def test_a_policy_that_rules_none_of_the_laws_is_refused(
    model_path: str, tmp_path: Path
) -> None:
    done = stdio(model_path, frame(0), options=ruling(tmp_path, "51_5", "53"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"forewarn: {tmp_path}/policy.yaml: the policy mine has rules only for 51_5,"
        f" 53, but the watched laws are {LAW}, {OTHER} (add a rule for one of them, or"
        " for any law ('*'))\n"
    )


def test_a_model_of_something_else_is_refused(model_path: str) -> None:
    of = ("--scenario", "tiny-kitchen")
    done = stdio(model_path, frame(0), options=of)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "its vocabulary is driving, but the source's is household" in done.stderr
    assert stdio(model_path, frame(0), options=(*of, "--accept-model")).exit_code == 0
    assert stdio(model_path, frame(0), options=("--scenario", "s2")).exit_code == 0


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"vocabulary": "household"}, "driving, but the source's is household"),
        ({"period_s": 1.0}, "0.1 s apart, but the source's frames are 1 s"),
    ],
)
def test_a_loop_that_says_it_is_something_else_is_refused(
    model_path: str, says: dict[str, Any], why: str
) -> None:
    done = stdio(model_path, hello(**says), frame(0))
    assert done.exit_code == 2 and why in done.stderr
    assert [list(json.loads(each)) for each in done.stdout.splitlines()] == [["error"]]
    insists = stdio(model_path, hello(**says), frame(0), options=("--accept-model",))
    assert insists.exit_code == 0


@pytest.mark.parametrize(("apart_s", "fits"), [(0.1, True), (0.12, True), (1.0, False)])
def test_a_loop_whose_frames_are_otherwise_apart_is_refused(
    model_path: str, apart_s: float, fits: bool
) -> None:
    frames = [frame(n, time_s=round(apart_s * n, 6)) for n in range(40)]
    done = stdio(model_path, hello(), *frames)
    assert (done.exit_code == 0) is fits
    if not fits:
        assert "0.1 s apart, but the source's frames are 1 s" in done.stderr
        assert len(done.stdout.splitlines()) == 21
        insists = stdio(model_path, hello(), *frames, options=("--accept-model",))
        assert insists.exit_code == 0


def test_decisions_are_recorded_and_replay(model_path: str, tmp_path: Path) -> None:
    options = ("--record", str(tmp_path / "runs"))
    stdio(model_path, frame(0), frame(1, RISKY), options=options)
    (record,) = (tmp_path / "runs").glob("*.jsonl")
    assert replay(record) == (2, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give exactly one of --stdio, --socket HOST:PORT and"),
        (
            ["--stdio", "--socket", "127.0.0.1:0", "--token-file", "{token}"],
            "give exactly one of --stdio, --socket HOST:PORT and",
        ),
        (["--socket", "127.0.0.1:0"], "--socket requires --token-file"),
        (["--socket", "7007", "--token-file", "{token}"], "takes HOST:PORT"),
        (["--socket", "127.0.0.1:x", "--token-file", "{token}"], "takes HOST:PORT"),
        (
            ["--socket", "0.0.0.0:0", "--token-file", "{token}"],
            "not a loopback address",
        ),
        (["--socket", "127.0.0.1:0", "--token-file", "{none}"], "no such file"),
        (["--socket", "127.0.0.1:0", "--token-file", "{short}"], "at least 16"),
        (["--socket", "127.0.0.1:0", "--token-file", "{lines}"], "one line"),
        (["--stdio", "--policy", "{token}"], "token"),
        (["--stdio", "--law", "always speling"], "speling"),
    ],
)
def test_wrong_guard_options_are_rejected(
    model_path: str, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    files = {"token": TOKEN, "short": "abc", "lines": TOKEN + "\n" + TOKEN}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in (*files, "none")}
    done = CliRunner().invoke(
        main,
        ["guard", "--model", model_path, *(a.format(**paths) for a in arguments)],
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert problem in done.stderr


def test_over_a_socket_until_it_is_told_to_end(tmp_path: Path) -> None:
    with served(tmp_path, "--record", str(tmp_path / "runs")) as (process, address):
        client = GuardClient(address, TOKEN, PROVIDES, lease_s=20.0)
        assert client.review(0, 0.0, CALM)["decision"] == "proceed"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (0, ANNOUNCED)
        assert json.loads(out) == {"connections": 1, "losses": 0}
        assert client.review(1, 0.1, CALM)["decision"] == "stop"
        client.close()
    (record,) = (tmp_path / "runs").glob("*.jsonl")
    assert replay(record) == (1, None)


def test_ctrl_c_ends_it_with_its_own_status(tmp_path: Path) -> None:
    with served(tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert err.split() == f"{ANNOUNCED} forewarn: interrupted".split()


@pytest.mark.parametrize(
    "policy_path", sorted(TRAINED.glob("*.policy.yaml")), ids=lambda path: path.name
)
def test_shipped_models_name_the_laws_of_their_policies(policy_path: Path) -> None:
    name = policy_path.name.partition(".")[0]  # one that acts has no model of its own
    models = load_models(policy_path.with_name(f"{name}.model.json.gz"))
    named = {text.partition(" := ")[0] for each in models for text in each.laws}
    assert named == set(load_policy(str(policy_path)).laws)


def test_what_ships_guards_in_process_and_by_the_command() -> None:
    model_path = TRAINED / "chain-braking.model.json.gz"
    policy_path = TRAINED / "chain-braking.policy.yaml"
    policy = load_policy(policy_path)
    watch = load_watch(load_model(model_path), horizon_s=policy.horizon_s)
    assert not Guard(watch, policy).without_rule
    options = "--model", str(model_path), "--policy", str(policy_path)
    done = CliRunner().invoke(main, ["guard", *options, "--stdio"], input="")
    assert done.exit_code == 0, done.output
