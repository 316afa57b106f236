"""The OpenAI Agents SDK with a scripted model: nothing runs that is withheld."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    Runner,
    ToolInputGuardrailTripwireTriggered,
    ToolOrigin,
    ToolOriginType,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ModelResponse, TResponseInputItem
from agents.models.interface import Model
from agents.tool_context import ToolContext
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.agents import STOPPED, UNREADABLE, AgentGuard
from forewarn.plugins.openai_agents import guarded_tools
from tests.plugins.agents.kitchens import (
    FORK_IN,
    HOSTILE,
    SWITCH_ON,
    Call,
    Kitchen,
    arguments,
    policy,
)

set_tracing_disabled(True)

EMPTY = ("open", "Microwave", None), ("pick", "Fork", None)
WAYS = ("run", "run_sync", "run_streamed")


class Scripted(Model):
    """Says what it was given, in order; and keeps what it was told."""

    def __init__(self, *turns: list[Any] | str) -> None:
        self._turns = [self._said(number, turn) for number, turn in enumerate(turns)]
        self.told: list[str | list[TResponseInputItem]] = []

    @staticmethod
    def _said(number: int, turn: list[Any] | str) -> list[Any]:
        if isinstance(turn, str):
            text = ResponseOutputText(type="output_text", text=turn, annotations=[])
            return [
                ResponseOutputMessage(
                    id="m",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[text],
                )
            ]
        return [
            ResponseFunctionToolCall(
                type="function_call",
                call_id=f"{number}.{i}",
                name="robot",
                arguments=call
                if isinstance(call, str)
                else json.dumps(arguments(call)),
            )
            for i, call in enumerate(turn)
        ]

    async def get_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        self.told.append(input)
        return ModelResponse(self._turns.pop(0), Usage(), None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> AsyncIterator[Any]:
        said = await self.get_response(system_instructions, input)
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=said.output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )


def single(*calls: Call) -> list[list[Call] | str]:
    return [*([call] for call in calls), "done"]


def run(way: str, kitchen: Kitchen, guard: AgentGuard, model: Scripted) -> Any:
    """The run's result."""

    @function_tool(failure_error_function=None)
    def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot does something."""
        return kitchen.act(verb, object, receptacle)

    agent = Agent(name="robot", model=model, tools=guarded_tools([robot], guard))
    if way == "run_sync":
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            asyncio.set_event_loop(loop)  # run_sync would leave its own open
            try:
                return Runner.run_sync(agent, "warm the fork")
            finally:
                asyncio.set_event_loop(None)
    if way == "run":
        return asyncio.run(Runner.run(agent, "warm the fork"))

    async def streamed() -> Any:
        result = Runner.run_streamed(agent, "warm the fork")
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(streamed())


def outputs(result: Any) -> list[str]:
    return [
        str(item["output"])
        for item in result.to_input_list()
        if item.get("type") == "function_call_output"
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_vetoed_tool_never_runs_and_the_agent_thinks_again(way: str) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    model = Scripted(*single(*FORK_IN, SWITCH_ON, *EMPTY))
    result = run(way, kitchen, guard, model)
    assert ("turn_on", "Microwave") not in kitchen.done
    assert kitchen.done[-1] == ("pick", "Fork") and result.final_output == "done"
    said = outputs(result)
    assert len(said) == 7 and "The guard withheld" in said[4]
    assert "The guard withheld" in str(model.told[5])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stop_ends_the_run(way: str, when: Any) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop", when))
    model = Scripted(*single(*FORK_IN, SWITCH_ON, *EMPTY))
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
        run(way, kitchen, guard, model)
    assert caught.value.output.output_info["message"] == STOPPED
    assert guard.stopped and kitchen.halted == 1
    assert len(model.told) == len(FORK_IN) + 1
    assert (("turn_on", "Microwave") in kitchen.done) == (when == "after")
    # And whoever runs it again is refused.
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        run(way, kitchen, guard, Scripted([EMPTY[0]], "done"))
    assert kitchen.halted == 1


@pytest.mark.parametrize("way", WAYS)
def test_parallel_calls_are_judged_one_by_one(way: str) -> None:
    """Each is harmless where the turn begins; together they break the law."""
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    together = [*FORK_IN[2:], SWITCH_ON]
    model = Scripted([FORK_IN[0]], [FORK_IN[1]], together, "done")
    result = run(way, kitchen, guard, model)
    assert not kitchen.burning and result.final_output == "done"
    assert len(outputs(result)) == 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("broken", ["observe", "foresee", "action_of"])
def test_a_guard_that_raises_runs_nothing(way: str, broken: str) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("the guard blew up")

    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"), **{broken: fail})
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        run(way, kitchen, guard, Scripted([FORK_IN[0], FORK_IN[0]], "done"))
    assert kitchen.done == []


def test_arguments_that_are_not_json_run_nothing() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    result = run("run", kitchen, guard, Scripted(["{", "[]"], "done"))
    assert outputs(result) == [UNREADABLE] * 2 and kitchen.done == []


def test_tool_that_raises_is_still_judged() -> None:
    class Clumsy(Kitchen):
        def act(self, verb: str, thing: str, receptacle: str | None = None) -> str:
            super().act(verb, thing, receptacle)
            raise OSError("the arm is stuck")

    kitchen = Clumsy()
    guard = kitchen.guard(policy("stop", "after"))
    with pytest.raises(Exception, match="stuck"):
        run("run", kitchen, guard, Scripted(*single(FORK_IN[0])))
    assert guard.guard.counts == {"proceed": 2}
    with guard.turn():
        pass


COPIED = "always (tool == delete -> once (tool == backup and not failed))"


async def sorry(context: Any, error: Exception) -> str:
    return f"sorry: {error}"


@pytest.mark.parametrize("handler", ["default", "function", "coroutine", "sync tool"])
def test_a_call_that_raised_has_failed_though_the_sdk_answers_it(handler: str) -> None:
    fails = [True]
    handlers: dict[str, dict[str, Any]] = {
        "function": {"failure_error_function": lambda _, error: f"sorry: {error}"},
        "coroutine": {"failure_error_function": sorry},
    }
    options = handlers.get(handler, {})

    def copied() -> str:
        """Copy."""
        if fails[0]:
            raise OSError("disk full")
        return "copied"

    async def copied_later() -> str:
        """Copy."""
        return copied()

    body: Any = copied if handler == "sync tool" else copied_later
    backup = function_tool(body, name_override="backup", **options)

    @function_tool
    def delete() -> str:
        """Delete."""
        return "gone"

    guard = AgentGuard.by_laws([COPIED])
    tools: Any = {each.name: each for each in guarded_tools([backup, delete], guard)}

    async def call(name: str) -> str:
        context = ToolContext(
            context=None, tool_name=name, tool_call_id="1", tool_arguments="{}"
        )
        return str(await tools[name].on_invoke_tool(context, "{}"))

    async def drive() -> None:
        said = await call("backup")
        expected = "sorry: disk full" if options else "error occurred"
        assert expected in said
        assert "The guard withheld" in await call("delete")
        fails[0] = False
        assert await call("backup") == "copied"
        assert await call("delete") == "gone"

    asyncio.run(drive())
    # The tool that was given is as it was.
    assert backup.on_invoke_tool is not tools["backup"].on_invoke_tool


def test_no_odd_argument_gets_past_a_law_over_it() -> None:
    done: list[Any] = []

    @function_tool
    def pay(amount: float) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    @function_tool
    def send(to: str | list[str]) -> str:
        """Send."""
        done.append(to)
        return "sent"

    laws = ["always not (tool == pay and arg_amount > 100)",
            'always not (tool == send and arg_to == "everyone")']  # fmt: skip
    guard = AgentGuard.by_laws(laws)
    tools: Any = {each.name: each for each in guarded_tools([pay, send], guard)}

    async def drive() -> None:
        for name, value in (
            *(("pay", v) for v in ("101", "1e400", "Infinity", "NaN", '"101"', "7")),
            *(("send", v) for v in ('"everyone"', '["everyone"]', '"me"')),
        ):
            argument = "amount" if name == "pay" else "to"
            text = f'{{"{argument}": {value}}}'
            context = ToolContext(
                context=None, tool_name=name, tool_call_id="1", tool_arguments=text
            )
            await tools[name].on_invoke_tool(context, text)

    asyncio.run(drive())
    assert done == [7.0, "me"]


def test_the_calls_of_a_message_are_carried_out_in_their_order() -> None:
    done: list[str] = []

    @function_tool
    async def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot does something."""
        await asyncio.sleep(random.random() * 0.003)
        done.append(object)
        return "done"

    guard = AgentGuard.by_laws(["always not tool == never"])
    things = [f"Mug#{number}" for number in range(6)]
    model = Scripted([("find", thing, None) for thing in things], "done")
    agent = Agent(name="a", model=model, tools=guarded_tools([robot], guard))
    asyncio.run(Runner.run(agent, "go"))
    assert done == things


def test_a_tool_of_an_mcp_server_is_refused() -> None:
    @function_tool
    def remote() -> str:
        """Runs at a server."""
        return ""

    remote._tool_origin = ToolOrigin(type=ToolOriginType.MCP)
    with pytest.raises(InvalidInput, match="forewarn mcp guard"):
        guarded_tools([remote], AgentGuard.by_laws([COPIED]))


def test_a_tool_that_runs_elsewhere_is_refused() -> None:
    guard = Kitchen().guard(policy("stop"))
    with pytest.raises(InvalidInput, match="so it cannot be guarded"):
        guarded_tools([WebSearchTool()], guard)
    search = WebSearchTool()
    assert guarded_tools([search], guard, harmless=[search.name]) == [search]


def test_a_tool_of_another_framework_is_rejected() -> None:
    foreign: Any = [SimpleNamespace(name="delete")]
    with pytest.raises(InvalidInput, match="for LangChain's tools, use GuardMiddl"):
        guarded_tools(foreign, AgentGuard.by_laws([COPIED]))


def test_a_misspelt_harmless_tool_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    guard = AgentGuard.by_laws(["always not tool == never"])
    search = WebSearchTool()
    guarded_tools([search], guard, harmless=[search.name, "web_serch"])
    assert "no tool 'web_serch' (did you mean web_search?)" in caplog.text


def test_hostile_names_never_change_the_instruction() -> None:
    def refusal(name: str) -> str:
        kitchen = Kitchen()
        model = Scripted(*single(("turn_on", name, None)))
        return outputs(run("run", kitchen, kitchen.refusing(), model))[0]

    plain, told = refusal("Microwave"), refusal(HOSTILE)
    assert plain.split("<<<DATA\n")[0] == told.split("<<<DATA\n")[0]
    assert told.isascii() and told.count("\n") == plain.count("\n")
