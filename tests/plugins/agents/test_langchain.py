"""The LangChain middleware with scripted chat models: nothing runs that is withheld."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ToolCallLimitMiddleware,
    hook_config,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.agents import ASKING, STOPPED, AgentGuard
from forewarn.plugins.langchain import AMBIGUOUS, GuardMiddleware
from forewarn.plugins.loop.approval import Answer, Deferred
from tests.plugins.agents.kitchens import (
    FORK_IN,
    HOSTILE,
    SWITCH_ON,
    Call,
    Kitchen,
    arguments,
    policy,
)

EMPTY = ("open", "Microwave", None), ("pick", "Fork", None)
WAYS = ("invoke", "ainvoke", "stream", "astream")


class Scripted(GenericFakeChatModel):
    """Says what it was given, in order; and keeps what it was told."""

    told: list[list[AnyMessage]] = []

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *rest: Any, **more: Any) -> Any:
        self.told.append(list(messages))
        return super()._generate(messages, *rest, **more)


def script(*turns: list[Call] | str) -> Scripted:
    """A model that makes these calls, a list of parallel ones each turn."""

    def messages() -> Iterator[AIMessage]:
        for number, turn in enumerate(turns):
            if isinstance(turn, str):
                yield AIMessage(turn)
                continue
            calls = [
                {"name": "robot", "args": arguments(call), "id": f"{number}.{i}"}
                for i, call in enumerate(turn)
            ]
            yield AIMessage("", tool_calls=calls)

    return Scripted(messages=messages(), told=[])


def single(*calls: Call) -> list[list[Call] | str]:
    return [*([call] for call in calls), "done"]


def run(
    way: str,
    kitchen: Kitchen,
    guard: AgentGuard,
    model: Scripted,
    *more: AgentMiddleware[Any, Any, Any],
) -> list[AnyMessage]:
    """The whole conversation."""

    @tool
    def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot does something."""
        return kitchen.act(verb, object, receptacle)

    agent = create_agent(model, [robot], middleware=[*more, GuardMiddleware(guard)])
    start: Any = {"messages": [HumanMessage("warm the fork")]}
    if way == "invoke":
        result = agent.invoke(start)
    elif way == "ainvoke":
        result = asyncio.run(agent.ainvoke(start))
    elif way == "stream":
        *_, result = agent.stream(start, stream_mode="values")
    else:

        async def last() -> Any:
            async for state in agent.astream(start, stream_mode="values"):
                found = state
            return found

        result = asyncio.run(last())
    found: list[AnyMessage] = result["messages"]
    _every_call_is_answered(found)
    return found


def _every_call_is_answered(messages: list[AnyMessage]) -> None:
    calls = [
        c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls
    ]
    answers = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    assert sorted(answers) == sorted(calls)  # type: ignore[type-var]


@pytest.mark.parametrize("way", WAYS)
def test_a_vetoed_tool_never_runs_and_the_agent_thinks_again(way: str) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    model = script(*single(*FORK_IN, SWITCH_ON, *EMPTY))
    messages = run(way, kitchen, guard, model)
    assert ("turn_on", "Microwave") not in kitchen.done
    assert kitchen.done[-1] == ("pick", "Fork")
    refusals = [
        m for m in messages if isinstance(m, ToolMessage) and m.status == "error"
    ]
    assert len(refusals) == 1 and "The guard withheld" in str(refusals[0].content)
    assert messages[-1].content == "done" and not guard.stopped
    # The model was told, as the answer to its call.
    assert str(refusals[0].content) in str(model.told[5][-1].content)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stopped_agent_ends_before_its_model_is_asked_again(
    way: str, when: Any
) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop", when))
    model = script(*single(*FORK_IN, SWITCH_ON, *EMPTY))
    messages = run(way, kitchen, guard, model)
    assert guard.stopped and kitchen.halted == 1
    assert messages[-1].content == STOPPED
    assert len(model.told) == len(FORK_IN) + 1
    assert (("turn_on", "Microwave") in kitchen.done) == (when == "after")


@pytest.mark.parametrize("way", WAYS)
def test_parallel_calls_are_judged_one_by_one(way: str) -> None:
    """Each is harmless where the turn begins; together they break the law."""
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    together = [*FORK_IN[2:], SWITCH_ON]
    model = script([FORK_IN[0]], [FORK_IN[1]], together, "done")
    messages = run(way, kitchen, guard, model)
    assert not kitchen.burning
    answers = [m for m in messages if isinstance(m, ToolMessage)]
    assert len(answers) == 5


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_answers_every_pending_call(way: str) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop"))
    # Whichever of them comes first, it is the switch that is stopped.
    model = script(*single(*FORK_IN)[:-1], [SWITCH_ON, SWITCH_ON, SWITCH_ON], "done")
    messages = run(way, kitchen, guard, model)
    assert ("turn_on", "Microwave") not in kitchen.done
    stopped = [m for m in messages if isinstance(m, ToolMessage)][-3:]
    assert [m.content for m in stopped] == [STOPPED] * 3
    assert messages[-1].content == STOPPED


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("broken", ["observe", "foresee", "action_of"])
def test_a_guard_that_raises_answers_and_runs_nothing(way: str, broken: str) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("the guard blew up")

    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"), **{broken: fail})
    messages = run(way, kitchen, guard, script(*single(*FORK_IN)))
    assert kitchen.done == []
    assert [m.content for m in messages[-2:]] == [STOPPED, STOPPED]
    assert "blew up" not in str(messages)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_guard_that_raises_in_spite_of_all_runs_nothing(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    monkeypatch.setattr(guard, "before", None)
    with pytest.raises(TypeError):
        run(way, kitchen, guard, script(*single(*FORK_IN)))
    assert kitchen.done == []


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_tool_that_raises_is_still_judged(way: str) -> None:
    class Clumsy(Kitchen):
        def act(self, verb: str, thing: str, receptacle: str | None = None) -> str:
            super().act(verb, thing, receptacle)
            raise OSError("the arm is stuck")

    kitchen = Clumsy()
    guard = kitchen.guard(policy("stop", "after"))
    with pytest.raises(OSError, match="stuck"):
        run(way, kitchen, guard, script(*single(FORK_IN[0])))
    assert guard.guard.counts == {"proceed": 2}  # before the call, and after it
    with guard.turn():  # and the turn was given back
        pass


def test_an_agent_that_was_stopped_stays_so_and_open_calls_are_answered() -> None:
    """A conversation that was cut within a turn, resumed after the stop."""
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop"))
    guard._observe = None  # type: ignore[assignment]
    assert guard.before("robot", arguments(SWITCH_ON)).stopped
    model = script("done")
    agent = create_agent(
        model, [], middleware=[GuardMiddleware(guard)], checkpointer=InMemorySaver()
    )
    call = {"name": "robot", "args": {}, "id": "7"}
    cut: Any = {"messages": [HumanMessage("go"), AIMessage("", tool_calls=[call])]}
    result = agent.invoke(cut, {"configurable": {"thread_id": "1"}})
    _every_call_is_answered(result["messages"])
    assert result["messages"][-1].content == STOPPED and model.told == []


def test_guard_works_with_other_middleware() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"))
    limit = ToolCallLimitMiddleware(run_limit=2)
    messages = run("invoke", kitchen, guard, script(*single(*FORK_IN)), limit)
    assert len(kitchen.done) == 2
    assert "limit" in str(messages).lower()


def test_the_final_state_is_judged_when_the_agent_ends() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop", "before"))
    kitchen.world._place["Fork"] = "Microwave"
    kitchen.world._on.add("Microwave")
    kitchen.frame = kitchen.world._frame()
    messages = run("invoke", kitchen, guard, script("done"))
    assert guard.stopped and messages[-1].content == STOPPED


def test_a_shadow_changes_nothing() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop", shadow=True))
    messages = run("invoke", kitchen, guard, script(*single(*FORK_IN, SWITCH_ON)))
    assert kitchen.burning and messages[-1].content == "done"


def test_the_instruction_in_the_answer_is_the_guard_s_own() -> None:
    def refusal(name: str) -> str:
        kitchen = Kitchen()
        model = script(*single(("turn_on", name, None)))
        return str(run("invoke", kitchen, kitchen.refusing(), model)[2].content)

    plain, hostile = refusal("Microwave"), refusal(HOSTILE)
    assert plain.split("<<<DATA\n")[0] == hostile.split("<<<DATA\n")[0]
    assert hostile.isascii() and hostile.count("\n") == plain.count("\n")


def test_a_run_that_is_cancelled_gives_its_turn_back() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop", "after"))

    @tool
    async def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot takes for ever."""
        began.set()
        await asyncio.sleep(60)
        return "done"

    async def cancelled() -> None:
        model = script(*single(FORK_IN[0]))
        agent = create_agent(model, [robot], middleware=[GuardMiddleware(guard)])
        start: Any = {"messages": [HumanMessage("go")]}
        running = asyncio.create_task(agent.ainvoke(start))
        await asyncio.wait_for(began.wait(), 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    began = asyncio.Event()
    asyncio.run(asyncio.wait_for(cancelled(), 30))
    assert guard.guard.counts["proceed"] == 2  # what came of it was judged
    with guard.turn():
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_a_tool_that_succeeds_after_cancellation_counts(fails: bool) -> None:
    guard = AgentGuard.by_laws(
        ["always (tool == delete -> once (tool == backup and not failed))"]
    )
    began, goes_on = threading.Event(), threading.Event()

    @tool
    def backup() -> str:
        """Copy."""
        began.set()
        assert goes_on.wait(30)
        if fails:
            raise OSError("disk full")
        return "copied"

    async def cancelled() -> None:
        call = {"name": "backup", "args": {}, "id": "1"}
        turns = iter([AIMessage("", tool_calls=[call]), AIMessage("end")])
        model = Scripted(messages=turns, told=[])
        agent = create_agent(model, [backup], middleware=[GuardMiddleware(guard)])
        running = asyncio.create_task(agent.ainvoke({"messages": []}))
        await asyncio.to_thread(began.wait, 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not guard.before("delete", {}).passes
        goes_on.set()

    asyncio.run(cancelled())  # it waits for its threads
    assert guard.before("delete", {}).passes is not fails


class Noting(Kitchen):
    """Takes down what is done, and does nothing."""

    def act(self, verb: str, thing: str, receptacle: str | None = None) -> str:
        self.done.append((verb, thing))
        return "done"


@pytest.mark.parametrize("way", WAYS)
def test_parallel_calls_run_in_the_order_of_their_message(way: str) -> None:
    kitchen = Noting()
    guard = kitchen.guard(policy("reflect"), action_of=lambda *_: None)
    many: list[Call] = [("find", f"Mug#{i}", None) for i in range(7)]
    run(way, kitchen, guard, script(many, "done"))
    assert kitchen.done == [call[:2] for call in many]


def test_call_answered_by_another_middleware_blocks_no_other_call() -> None:
    class Answers(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            call = request.tool_call
            if call["args"]["object"] == "Mug#0":
                return ToolMessage("no", tool_call_id=call["id"], status="error")
            return handler(request)

    kitchen = Noting()
    guard = kitchen.guard(policy("reflect"), action_of=lambda *_: None)
    many: list[Call] = [("find", f"Mug#{i}", None) for i in range(3)]
    run("invoke", kitchen, guard, script(many, "done"), Answers())
    assert kitchen.done == [("find", "Mug#1"), ("find", "Mug#2")]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_guarded_agent_may_be_the_tool_of_another(way: str) -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("reflect"), action_of=lambda *_: None)
    done: list[str] = []

    @tool
    def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot does something."""
        done.append(object)
        return "done"

    within = create_agent(
        script([("find", "Mug#1", None), ("find", "Mug#2", None)], "done"),
        [robot],
        middleware=[GuardMiddleware(guard)],
    )

    @tool(name_or_callable="robot")
    def helper(verb: str, object: str, receptacle: str | None = None) -> str:
        """Another agent does it."""
        within.invoke({"messages": [HumanMessage("go")]})
        return "done"

    agent = create_agent(
        script([("find", "Mug", None)], "done"),
        [helper],
        middleware=[GuardMiddleware(guard)],
    )
    start: Any = {"messages": [HumanMessage("go")]}
    found: list[Any] = []

    def drive() -> None:
        if way == "invoke":
            found.append(agent.invoke(start))
        else:
            found.append(asyncio.run(agent.ainvoke(start)))

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the agents wait for each other"
    assert done == ["Mug#1", "Mug#2"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    ("status", "listed", "own", "passes"),
    [
        ("success", False, True, True),
        ("success", True, True, True),
        ("error", False, True, False),
        ("error", True, True, False),
        ("success", False, False, False),
    ],
)
def test_a_call_has_failed_unless_its_own_message_says_that_it_succeeded(
    way: str, status: Any, listed: bool, own: bool, passes: bool
) -> None:
    guard = AgentGuard.by_laws(
        ["always (tool == delete -> once (tool == backup and not failed))"]
    )
    done: list[str] = []

    @tool
    def backup(call: Annotated[str, InjectedToolCallId]) -> Any:
        """Copy."""
        told: list[AnyMessage] = [ToolMessage("?", tool_call_id=call, status=status)]
        if not own:
            told = [HumanMessage("copied")]
        command: Command[Any] = Command(
            update={"messages": told}, graph=None if own else Command.PARENT
        )
        return [command] if listed else command

    @tool
    def delete() -> str:
        """Delete."""
        done.append("delete")
        return "gone"

    def message(name: str, number: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": number}])

    turns = [message("backup", "1"), message("delete", "2"), AIMessage("end")]
    middleware = GuardMiddleware(guard)
    agent = create_agent(
        Scripted(messages=iter(turns), told=[]),
        [backup, delete],
        middleware=[middleware],
    )
    start: Any = {"messages": [HumanMessage("go")]}
    drive = agent.invoke if way == "invoke" else lambda x: asyncio.run(agent.ainvoke(x))
    if own:
        drive(start)
    else:
        with contextlib.suppress(Exception):  # there is no parent to tell
            drive(start)
        assert not guard.before("delete", {}).passes
    assert (done == ["delete"]) is passes


def test_an_agent_that_a_tool_leaves_running_has_failed_until_it_succeeds() -> None:
    guard = AgentGuard.by_laws(
        ["always (tool == delete -> once (tool == backup and not failed))"]
    )
    done: list[str] = []
    left: list[asyncio.Task[Any]] = []

    def agent(*tools: Any) -> Any:
        calls = [
            AIMessage("", tool_calls=[{"name": each.name, "args": {}, "id": each.name}])
            for each in tools
        ]
        return create_agent(
            Scripted(messages=iter([*calls, AIMessage("end")]), told=[]),
            list(tools),
            middleware=[GuardMiddleware(guard)],
        )

    async def drive() -> None:
        begun, released = asyncio.Event(), asyncio.Event()
        start: Any = {"messages": [HumanMessage("go")]}

        @tool
        async def backup() -> str:
            """Copy."""
            begun.set()
            await released.wait()
            raise OSError("disk full")

        @tool
        async def delete() -> str:
            """Delete."""
            done.append("delete")
            return "gone"

        within = agent(backup)

        @tool
        async def starts() -> str:
            """Start an agent that copies, and do not wait for it."""
            left.append(asyncio.create_task(within.ainvoke(start)))
            await begun.wait()
            return "started"

        await agent(starts, delete).ainvoke(start)
        released.set()
        with contextlib.suppress(OSError):
            await left[0]
        await agent(delete).ainvoke(start)

    asyncio.run(asyncio.wait_for(drive(), 30))
    assert left and done == []


def test_calls_with_one_id_are_not_carried_out() -> None:
    kitchen = Noting()
    guard = kitchen.guard(policy("reflect"), action_of=lambda *_: None)
    calls = [
        {"name": "robot", "args": arguments(("find", thing, None)), "id": "same"}
        for thing in ("Mug", "Fork")
    ]
    turns = iter([AIMessage("", tool_calls=calls), AIMessage("end")])
    messages = run("invoke", kitchen, guard, Scripted(messages=turns, told=[]))
    assert kitchen.done == []
    assert [m.text for m in messages if isinstance(m, ToolMessage)] == [AMBIGUOUS] * 2


def test_ids_may_be_used_again_after_a_call_that_another_middleware_answered() -> None:
    class Answers(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            call = request.tool_call
            if call["args"]["object"] == "Mug#0":
                return ToolMessage("no", tool_call_id=call["id"], status="error")
            return handler(request)

    def message(*things: str, ids: str) -> AIMessage:
        calls = [
            {"name": "robot", "args": arguments(("find", each, None)), "id": number}
            for each, number in zip(things, ids, strict=True)
        ]
        return AIMessage("", tool_calls=calls)

    kitchen = Noting()
    guard = kitchen.guard(policy("reflect"), action_of=lambda *_: None)
    first = message("Mug#0", "Mug#1", ids="12")
    second = message("Mug#2", "Mug#3", ids="23")
    turns = iter([first, second, AIMessage("end")])
    run("invoke", kitchen, guard, Scripted(messages=turns, told=[]), Answers())
    assert [thing for _, thing in kitchen.done] == ["Mug#1", "Mug#2", "Mug#3"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_tool_that_runs_at_the_provider_is_an_error(way: str) -> None:
    search = {"type": "web_search"}

    def drive(**more: Any) -> Any:
        guard = AgentGuard.by_laws(["always not tool == never"])
        middleware = GuardMiddleware(guard, **more)
        agent = create_agent(script("done"), [search], middleware=[middleware])
        start: Any = {"messages": [HumanMessage("go")]}
        if way == "invoke":
            return agent.invoke(start)
        return asyncio.run(agent.ainvoke(start))

    with pytest.raises(InvalidInput, match="'web_search' does not run in this process"):
        drive()
    assert drive(harmless=["web_search"])["messages"][-1].content == "done"


def test_a_misspelt_harmless_tool_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        return path

    for harmless in (["delet", "other"], ["delet"]):
        guard = AgentGuard.by_laws(["always not tool == never"])
        middleware = GuardMiddleware(guard, harmless=harmless)
        agent = create_agent(script("done"), [delete], middleware=[middleware])
        agent.invoke({"messages": [HumanMessage("go")]})
    (told,) = caplog.messages
    assert told == "harmless: there is no tool 'delet' (did you mean delete?)"


def test_jump_to_the_tools_runs_no_rejected_call() -> None:
    class Jumps(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["tools"])
        def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            calls = getattr(state["messages"][-1], "tool_calls", None)
            return {"jump_to": "tools"} if calls else None

    kitchen = Kitchen()
    guard = kitchen.guard(policy("stop"))
    model = script(*single(*FORK_IN, SWITCH_ON, SWITCH_ON))
    messages = run("invoke", kitchen, guard, model, Jumps())
    assert ("turn_on", "Microwave") not in kitchen.done
    assert messages[-1].content == STOPPED


# -- a person is asked by LangGraph's interrupt ------------------------------------

Agent = tuple[Any, Kitchen, AgentGuard]


def asking(*turns: list[Call] | str) -> Agent:
    """An agent that pauses where the guard wants a person asked."""
    kitchen = Kitchen()
    guard = kitchen.guard(policy("ask"), approver=Deferred())

    @tool
    def robot(verb: str, object: str, receptacle: str | None = None) -> str:
        """The robot does something."""
        return kitchen.act(verb, object, receptacle)

    agent = create_agent(
        script(*turns),
        [robot],
        middleware=[GuardMiddleware(guard)],
        checkpointer=InMemorySaver(),
    )
    return agent, kitchen, guard


def going_on(agent: Any, way: str, given: Any) -> dict[str, Any]:
    config = {"configurable": {"thread_id": "1"}}
    if way == "invoke":
        result: dict[str, Any] = agent.invoke(given, config)
    else:
        result = asyncio.run(agent.ainvoke(given, config))
    return result


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("said", ["approve", "reject", "yes please", {"name": 3}])
def test_ask_pauses_the_graph_until_a_person_has_answered(way: str, said: Any) -> None:
    agent, kitchen, guard = asking(*single(*FORK_IN, SWITCH_ON))
    start = {"messages": [HumanMessage("warm the fork")]}
    paused = going_on(agent, way, start)
    (question,) = (each.value for each in paused["__interrupt__"])
    assert question["action"]["name"] == "turn_on" and question["law"]
    assert question["risk"]["point"] >= 0.9 and question["reason"]
    assert ("turn_on", "Microwave") not in kitchen.done
    judged = guard.guard.counts["ask"]
    result = going_on(agent, way, Command(resume=said))
    assert (("turn_on", "Microwave") in kitchen.done) is (said == "approve")
    # The call is judged once; what an approved one leads to, when the agent is done.
    assert guard.guard.counts["ask"] == judged + (said == "approve")
    assert guard.stopped is (said != "approve")
    _every_call_is_answered(result["messages"])


def test_an_action_that_a_person_suggests_is_reported_to_the_agent() -> None:
    agent, kitchen, guard = asking(*single(*FORK_IN, SWITCH_ON))
    going_on(agent, "invoke", {"messages": [HumanMessage("warm the fork")]})
    other = {"name": "open", "arguments": {"object": "Microwave"}}
    result = going_on(agent, "invoke", Command(resume=other))
    assert ("turn_on", "Microwave") not in kitchen.done and not guard.stopped
    told = [m for m in result["messages"] if isinstance(m, ToolMessage)][-1]
    assert told.status == "error" and "A person wants another action" in told.text


def test_while_a_person_is_asked_no_other_call_runs() -> None:
    opens: Call = ("open", "Microwave", None)
    calls: list[list[Call] | str] = [[call] for call in FORK_IN]
    agent, kitchen, guard = asking(*calls, [SWITCH_ON, opens], "done")
    going_on(agent, "invoke", {"messages": [HumanMessage("warm the fork")]})
    assert kitchen.done == [call[:2] for call in FORK_IN]
    result = going_on(agent, "invoke", Command(resume="approve"))
    assert kitchen.done == [call[:2] for call in (*FORK_IN, SWITCH_ON)]
    answers = [m.text for m in result["messages"] if isinstance(m, ToolMessage)]
    assert answers[-1] == ASKING or answers[-2] == ASKING


def test_an_answer_counts_for_the_open_question_alone() -> None:
    kitchen = Kitchen()
    guard = kitchen.guard(policy("ask"), approver=Deferred())
    for call in FORK_IN:
        assert guard.before("robot", arguments(call)).passes
        kitchen.act(*call)
    asked = guard.before("robot", arguments(SWITCH_ON)).asks
    assert asked is not None
    other = replace(asked)
    assert not guard.answered(other, Answer("approve")).passes
    assert guard.answered(asked, Answer("approve")).passes
    assert not guard.answered(asked, Answer("approve")).passes, "once"
