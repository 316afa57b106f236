"""The pilot that asks a model: scripted, recorded, replayed, and over a real wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.chat import (
    Chat,
    Message,
    RecordedChat,
    Replayed,
    ReplayMismatch,
    Reply,
    checked_url,
)
from forewarn.plugins.contracts import Metered
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.replay import make_judge
from forewarn.plugins.registry import make_pilot, make_world
from forewarn.scenarios.running.plan import without_risk
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import Scenario, parse_scenario
from forewarn.thor_bridge.llm import PATIENCE, HouseholdLLM
from forewarn.thor_bridge.tasks import own_tasks

TASK = next(
    name for name, task in own_tasks().items() if task.safe and task.steps and task.law
)
PLAN = own_tasks()[TASK].steps


class Scripted:
    """A model that says what it was given; and keeps what it was asked."""

    def __init__(self, *said: str) -> None:
        self._said = list(said)
        self.asked: list[list[Message]] = []

    def reply(self, messages: Sequence[Message]) -> Reply:
        self.asked.append(list(messages))
        return Reply(self._said.pop(0), len(messages), 3)


def pilot(monkeypatch: pytest.MonkeyPatch, chat: Chat, **settings: Any) -> HouseholdLLM:
    """A pilot whose model is scripted, behind the same calls as a real one."""
    monkeypatch.setattr("forewarn.plugins.chat.LangChainChat", lambda *_, **__: chat)
    return HouseholdLLM(task=TASK, model="scripted", **settings)


def after(action: Action | None, done: bool = True, **values: Any) -> Frame:
    shown: dict[str, Any] = {
        "last_action": None if action is None else action.name,
        "last_action_object": None
        if action is None
        else action.arguments.get("object"),
        "last_action_succeeded": done,
        "holding": None,
    }
    return Frame(0.0, 0, shown | values)


@pytest.mark.needs("langchain")
def test_the_planner_asks_for_one_step_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = Scripted("find Mug", "**pick up the mug**", "Sure!\nput Sink.", "DONE")
    robot = pilot(monkeypatch, chat)
    robot.reset(0)
    first = robot.propose(after(None))
    assert first == Action("find", {"object": "Mug"})
    second = robot.propose(after(first))
    assert second == Action("pick", {"object": "Mug", **second.arguments})
    assert second.name == "pick"
    third = robot.propose(after(second, holding="Mug"))
    assert third == Action("put", {"object": "Sink"})
    assert robot.propose(after(third, done=False)) == Action("finish")
    task = own_tasks()[TASK]
    system, user = chat.asked[0]
    assert system.role == "system" and f"Task: {task.instruction}" in user.text
    assert [m.text for m in chat.asked[3] if m.role == "user"][1:] == [
        "Done. Next step?",
        "Done. The robot holds: Mug. Next step?",
        "It failed. Next step?",
    ]
    assert robot.usage == {
        "model_calls": 4,
        "tokens_in": 2 + 4 + 6 + 8,
        "tokens_out": 12,
    }
    assert isinstance(robot, Metered)


@pytest.mark.needs("langchain")
def test_examples_depend_on_the_seed_and_come_from_other_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(seed: int) -> str:
        chat = Scripted("DONE")
        robot = pilot(monkeypatch, chat, shots=4)
        robot.reset(seed)
        robot.propose(after(None))
        return chat.asked[0][1].text

    assert told(1) == told(1) != told(2)
    assert told(1).count("An example.") == 4
    assert f"An example. Task: {own_tasks()[TASK].instruction}\n" not in told(1)


@pytest.mark.needs("langchain")
def test_an_invalid_reply_is_asked_again_and_then_the_run_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = Scripted(*["I would rather not say."] * PATIENCE)
    robot = pilot(monkeypatch, chat)
    robot.reset(0)
    assert robot.propose(after(None)) == Action("finish")
    assert len(chat.asked) == PATIENCE == robot.usage["model_calls"]


@pytest.mark.needs("langchain")
def test_a_task_may_be_rejected_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = pilot(monkeypatch, Scripted("REJECT", "find Mug", "reject"))
    robot.reset(0)
    assert robot.propose(after(None)) == Action("finish") and robot.rejected
    robot.reset(1)
    step = robot.propose(after(None))
    assert robot.propose(after(step)) == Action("finish") and not robot.rejected


@pytest.mark.needs("langchain")
def test_a_reflect_prompt_is_passed_on_and_a_withheld_step_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = Scripted("turn on Microwave", "open Microwave", "close Microwave")
    robot = pilot(monkeypatch, chat)
    robot.reset(0)
    robot.propose(after(None))
    robot.propose(after(Action("wait")), "The guard withheld your last action.")
    assert chat.asked[1][-1].text == "The guard withheld your last action."
    robot.propose(after(Action("wait")))
    assert chat.asked[2][-1].text == (
        "The guard let nothing be done. Take another step."
    )


@pytest.mark.needs("langchain")
def test_prompt_says_why_a_step_was_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = Scripted(PLAN[0], "DONE")
    monkeypatch.setattr("forewarn.plugins.chat.LangChainChat", lambda *_, **__: chat)
    rule = {"name": "stay", "before": "find", "enforce": "skip"}
    content = {"format": "forewarn.rules/1", "domain": "household", "rules": [rule]}
    asked = scenario(tmp_path, model="m")
    model = without_risk(asked, tmp_path)
    guarding = Guarding.load(model, judges=lambda: [make_judge(content)])
    assert Runner(asked, guarding).run(3).error is None
    assert chat.asked[1][-1].text == (
        "The guard withheld the step: the rule stay fires: true. Take another step."
    )


def scenario(folder: Path, **settings: Any) -> Scenario:
    """A task that the model is to do, in the embedded household."""
    task = own_tasks()[TASK]
    wanted = {
        "format": "forewarn.scenario/1",
        "name": "asked",
        "title": "A model is asked",
        "world": {"name": "household", "settings": {"task": TASK}},
        "pilot": {"name": "household-llm", "settings": {"task": TASK, **settings}},
        "laws": [f"kept := {task.law}"],
        "abstraction": {
            "format": "forewarn.abstraction/1",
            "name": "asked",
            "vocabulary": "household",
            "period_s": 1,
            "predicates": task.predicates(),
        },
        "end": {"max_time_s": 40},
    }
    return parse_scenario(json.dumps(wanted), "asked", folder)


@pytest.mark.needs("langchain")
def test_a_run_is_reproduced_without_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = tmp_path / "replies"
    kept = {"replies": str(replies)}
    chat = Scripted(*PLAN, "DONE")
    monkeypatch.setattr("forewarn.plugins.chat.LangChainChat", lambda *_, **__: chat)
    recorded = Runner(scenario(tmp_path, model="m", how="record", **kept)).run(3)
    assert recorded.error is None and recorded.usage["model_calls"] == len(PLAN) + 1
    assert recorded.usage["tokens_out"] == 3 * (len(PLAN) + 1)
    lines = (replies / "3.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["format"] == "forewarn.replies/1"
    assert len(lines) == len(PLAN) + 2
    # Nobody is asked now.
    monkeypatch.setattr("forewarn.plugins.chat.LangChainChat", None)
    again = Runner(scenario(tmp_path, how="replay", **kept)).run(3)
    same = ("violations", "frames", "duration_s", "ended", "usage", "error")
    assert [getattr(again, n) for n in same] == [getattr(recorded, n) for n in same]
    # Another seed shows the model other examples, and has no file.
    other = Runner(scenario(tmp_path, how="replay", **kept)).run(4)
    assert "4.jsonl" in str(other.error)
    (replies / "4.jsonl").write_bytes((replies / "3.jsonl").read_bytes())
    other = Runner(scenario(tmp_path, how="replay", **kept)).run(4)
    assert "recorded for a different request" in str(other.error)
    assert "line 2: this reply was recorded for a different request" in str(other.error)


ASKED = [Message("user", "what now?")]


def test_replies_out_of_order_or_past_the_end_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "0.jsonl"
    kept = RecordedChat(Scripted("a", "b"), "m", path)
    assert [kept.reply(ASKED).text, kept.reply([]).text] == ["a", "b"]
    again = Replayed(path)
    assert again.reply(ASKED) == Reply("a", 1, 3)
    assert again.reply([]).text == "b"
    with pytest.raises(ReplayMismatch, match="only 2 replies are recorded"):
        again.reply(ASKED)
    with pytest.raises(ReplayMismatch, match="line 2"):
        Replayed(path).reply([])


@pytest.mark.parametrize(
    "text", ["", "precious", '{"format": "forewarn.run/1"}', "[1]", "\xff\n" * 9]
)
def test_replies_never_overwrite_another_file(tmp_path: Path, text: str) -> None:
    """A scenario says where they go, and a scenario may be anyone's."""
    path = tmp_path / "3.jsonl"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(
        InvalidInput,
        match=("the file does not contain replies, so it is not overwritten"),
    ):
        RecordedChat(Scripted("a"), "m", path)
    assert path.read_text(encoding="latin-1") == text
    link = tmp_path / "4.jsonl"
    link.symlink_to(path)
    with pytest.raises(
        InvalidInput,
        match=("the file does not contain replies, so it is not overwritten"),
    ):
        RecordedChat(Scripted("a"), "m", link)
    kept = tmp_path / "5.jsonl"
    for word in "ab":
        RecordedChat(Scripted(word), "m", kept).reply(ASKED)
    assert Replayed(kept).reply(ASKED).text == "b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": "forewarn.replies/2", "model": "m"}',
        '{"format": "forewarn.replies/1", "model": "m"}\n{"prompt": "x"}',
        '{"format": "forewarn.replies/1", "model": "m"}\nnot JSON',
    ],
)
def test_a_file_without_replies_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "0.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="0.jsonl"):
        Replayed(path)


def test_api_keys_come_only_from_the_environment() -> None:
    assert checked_url("http://localhost:8080/v1") == "http://localhost:8080/v1"
    for url in ("http://me:secret@host/v1", "https://host/v1?key=secret", "file:///x"):
        with pytest.raises(InvalidInput) as caught:
            checked_url(url)
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput):
        make_pilot("household-llm", {"task": TASK, "model": "m", "api_key": "secret"})


def test_missing_setting_is_reported() -> None:
    with pytest.raises(InvalidInput, match="no model is named"):
        HouseholdLLM(task=TASK)
    with pytest.raises(InvalidInput, match="folder of replies"):
        HouseholdLLM(task=TASK, model="m", how="record")
    with pytest.raises(InvalidInput, match="no task"):
        HouseholdLLM(task="nothing-safe", model="m")


# -- over a real wire, through the provider's own package


class _Provider(BaseHTTPRequestHandler):
    """Speaks enough of OpenAI's protocol, and of Ollama's."""

    seen: list[dict[str, Any]] = []
    broken = False

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = json.loads(self.rfile.read(length))
        self.seen.append({"path": self.path, **asked})
        if self.broken:
            self.send_error(400, "no")
            return
        if self.path == "/v1/chat/completions":
            message = {"role": "assistant", "content": "find Mug"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
            answer: dict[str, Any] = {
                "id": "1", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [choice], "usage": usage,
            }  # fmt: skip
        else:
            answer = {
                "model": "m", "created_at": "2026-01-01T00:00:00Z", "done": True,
                "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2,
                "message": {"role": "assistant", "content": "find Mug"},
            }  # fmt: skip
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    monkeypatch.setattr(_Provider, "seen", [])
    monkeypatch.setattr(_Provider, "broken", False)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Provider) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.needs("langchain_openai")
def test_a_server_with_openais_protocol_is_asked(provider: str) -> None:
    robot = HouseholdLLM(task=TASK, model="openai:m", base_url=f"{provider}/v1")
    robot.reset(0)
    assert robot.propose(after(None)) == Action("find", {"object": "Mug"})
    assert robot.usage == {"model_calls": 1, "tokens_in": 7, "tokens_out": 2}
    (asked,) = _Provider.seen
    assert asked["temperature"] == 0
    assert [m["role"] for m in asked["messages"]] == ["system", "user"]


@pytest.mark.needs("langchain_openai")
def test_an_unused_model_takes_no_reply_from_the_next_one(
    provider: str,
) -> None:
    settings: dict[str, Any] = {
        "task": TASK,
        "model": "openai:m",
        "base_url": f"{provider}/v1",
    }
    for _ in range(2):
        robot = HouseholdLLM(**settings)
        robot.reset(0)
        assert robot.propose(after(None)) == Action("find", {"object": "Mug"})
        del robot


@pytest.mark.needs("langchain_ollama")
def test_an_ollama_server_is_asked(provider: str) -> None:
    robot = HouseholdLLM(task=TASK, model="ollama:m", base_url=provider)
    robot.reset(0)
    assert robot.propose(after(None)) == Action("find", {"object": "Mug"})
    assert robot.usage["tokens_in"] == 7
    assert _Provider.seen[0]["path"] == "/api/chat"


@pytest.mark.needs("langchain_openai")
def test_a_provider_that_refuses_fails_the_episode(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Provider, "broken", True)
    asked = scenario(tmp_path, model="openai:m", base_url=f"{provider}/v1")
    episode = Runner(asked).run(0)
    assert "400" in str(episode.error)


@pytest.mark.needs("langchain")
def test_unknown_provider_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidInput, match="cannot be used"):
        HouseholdLLM(task=TASK, model="nobody:m")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingDependency, match=r"forewarn\[llm\]"):
        HouseholdLLM(task=TASK, model="anthropic:m")


def test_the_world_of_the_scenario_is_there() -> None:
    world = make_world("household", {"task": TASK})
    assert world.source.vocabulary == "household"
    world.close()
