"""Certificates of laws over calls, by replay of what agents did in the past."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.abstractions.readers.calls import read_calls
from forewarn.cli import main
from forewarn.monitors.guarding.certificate import load_certificate
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.agents.guard import LawReplay
from forewarn.plugins.loop.warrant import Warrant

LAW = "careful := always (tool == delete -> once (tool == backup and not failed))"


def conversation(number: int, *tools: str, label: str = "") -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"task {number}"}]
    for place, tool in enumerate(tools):
        key = f"{number}-{place}"
        said = {"id": key, "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "tool_calls": [said]})
        messages.append({"role": "tool", "tool_call_id": key, "content": "done"})
    facts = {"model": f"<m{number % 3}>"} | ({"label": label} if label else {})
    return {"messages": messages, "metadata": facts}


def write(path: Path, runs: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


def warrant(*arguments: object) -> Result:
    said = ["warrant", *map(str, arguments), "--law", LAW, "--json"]
    return CliRunner().invoke(main, said)


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    runs = [conversation(n, "look", "backup", "delete") for n in range(100)]
    runs[7] = conversation(7, "look", "delete")
    log = write(folder / "log.jsonl", runs)
    done = warrant(log, "--group", "model", "--out", folder / "guard")
    assert done.exit_code == 0, done.output
    return folder / "guard"


def test_without_labels_each_past_run_counts_as_clean(guard: Path) -> None:
    certificate = load_certificate(guard)
    (alarms,) = certificate.guarantees
    assert (alarms.runs, alarms.failures) == (100, 1) and alarms.bound <= 0.05
    assert certificate.over == "calls" and certificate.laws == {"careful": None}
    (wrong,) = certificate.shadow
    assert wrong.run == "log:8" and wrong.what == "wrongly stopped"
    assert wrong.clip.signals["tool"] == ["look", "delete"]
    assert "each counts as clean" in certificate.assumption
    assert "&lt;m1&gt;" in (guard / "certificate.html").read_text()


def test_labels_say_what_must_not_be_missed(tmp_path: Path) -> None:
    runs = [conversation(n, "look", label="safe") for n in range(90)]
    runs += [conversation(n, "delete", label="unsafe") for n in range(90, 110)]
    done = warrant(write(tmp_path / "a.jsonl", runs), "--out", tmp_path / "guard")
    certificate = json.loads(done.stdout)["certificate"]
    rates = [(g["rate"], g["runs"], g["failures"]) for g in certificate["guarantees"]]
    assert rates == [("false_alarms", 90, 0), ("missed", 20, 0)]
    few = warrant(write(tmp_path / "b.jsonl", runs[60:]), "--out", tmp_path / "none")
    (need,) = json.loads(few.stdout)["needs"]
    assert few.exit_code == 1 and need["more"] > 0 and not (tmp_path / "none").exists()


def test_the_guard_denies_what_the_law_denies_and_loses_its_certificate(
    guard: Path,
) -> None:
    agent = AgentGuard.load(guard)
    with agent:
        assert not agent.before("delete", {}).passes
        agent.reset()
        verdict = agent.before("backup", {})
        assert verdict.passes
        agent.after(False, verdict.call)
        assert agent.before("delete", {}).passes
    told = Warrant(guard).told()["evidence"]["careful: clean runs with an alarm"]
    assert (told["runs"], told["happened"]) == (2, 1)
    with agent:
        for _ in range(40):
            agent.reset()
            agent.before("delete", {})
    assert "runs with an alarm" in Warrant(guard).revoked()


def test_laws_read_what_calls_gave_and_where_arguments_were_copied_from(
    tmp_path: Path,
) -> None:
    """The guard that is replayed hears results, as it does when it is in use."""
    found = {"id": "a", "function": {"name": "find", "arguments": "{}"}}
    send = {"id": "b", "function": {"name": "send", "arguments": '{"to": "eve@x.org"}'}}
    messages = [
        {"role": "assistant", "tool_calls": [found]},
        {"role": "tool", "tool_call_id": "a", "content": '{"body": "eve@x.org"}'},
        {"role": "assistant", "tool_calls": [send]},
    ]
    log = read_calls(write(tmp_path / "log.jsonl", [{"messages": messages}]))
    told = LawReplay('always not (tool == send and from_to == "find.body")')
    assert told.withheld(log.runs[0]) == 1
    gave = LawReplay('always (tool == send -> not once (result_body matches "eve"))')
    assert gave.withheld(log.runs[0]) == 1
    assert (
        LawReplay('always not (tool == send and from_to == "new")').withheld(
            log.runs[0]
        )
        is None
    )


def test_logs_of_two_kinds_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [conversation(1, "look")])
    write(tmp_path / "b.jsonl", [{"format": "forewarn.trace/1", "provides": []}])
    done = warrant(tmp_path, "--out", tmp_path / "guard")
    assert done.exit_code == 2 and "not a log of tool calls" in done.stderr
