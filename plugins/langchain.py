"""A middleware for LangChain 1.x that asks the guard before a tool runs.

The middleware wraps each tool call instead of using a callback, because LangChain runs
the tool even if a callback raises an exception. LangChain runs the calls of a message
in parallel. The effect of a call depends on earlier calls, so the middleware runs the
calls of a message one after another.

This module requires the extra `langchain`.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.plugins.agents import (
    STOPPED,
    AgentGuard,
    Question,
    Verdict,
    check_harmless,
)
from forewarn.plugins.loop.approval import answer_of

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ToolCallRequest,
        hook_config,
    )
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        HumanMessage,
        ToolMessage,
    )
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.types import Command, interrupt
except ImportError as error:
    raise MissingDependency("LangChain", "langchain") from error

__all__ = ["GuardMiddleware"]

Answer = ToolMessage | Command[Any]


_CHECKPOINTER = "__pregel_checkpointer"
"""The key under which LangGraph passes its checkpointer to the nodes of a graph."""

POLL_S = 0.001
PATIENCE_S = 1.0
"""How many seconds a call waits for an earlier call of the message to begin.

The earlier call never begins if another middleware has already answered it.
"""

MAX_MESSAGES = 100
"""The maximum number of messages with waiting calls per middleware."""

AMBIGUOUS = "Two calls of the message have the same id, so neither is carried out."

Key = tuple[str | None, tuple[str, ...]]


@dataclass(slots=True, eq=False)
class _Progress:
    """The calls of a message that have begun, and those that have ended."""

    key: Key
    begun: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """Runs a tool only if the guard lets the call pass; otherwise, the guard answers.

    When the guard stops the agent, all calls are answered, and the agent ends before
    its model is asked again. Pass this middleware as the last one, so that no other
    middleware changes a call after the verdict. A guard whose approver is `Deferred`
    asks a person through LangGraph's `interrupt`. In this case, the agent needs a
    checkpointer, and is resumed with `Command(resume="approve")`, with `"reject"`, or
    with an action to carry out instead: `{"name": …, "arguments": {…}}`.

    Args:
        guard: Reviews the calls. Agents that act in the same world must share one
            guard.
        harmless: The names of tools, such as a web search, that the provider of the
            model runs and that do not affect the world. All other tools that the
            provider runs are rejected.
    """

    @checked
    def __init__(self, guard: AgentGuard, *, harmless: Collection[str] = ()) -> None:
        super().__init__()
        self.guard, self._harmless = guard, frozenset(harmless)
        self._queue = Queue()
        self._tools: dict[str, BaseTool] = {}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]
    ) -> Any:
        self._check(request)
        return handler(request)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[Any]],
    ) -> Any:
        self._check(request)
        return await handler(request)

    def _check(self, request: ModelRequest[Any]) -> None:
        """Rejects tools that the provider runs, and rules that match no tool."""
        here = [tool for tool in request.tools if not isinstance(tool, dict)]
        self.guard.check_rules({tool.name: list(tool.args) for tool in here})
        self._tools = {tool.name: tool for tool in here}
        check_harmless(self._harmless, _names(request.tools))
        for tool in request.tools:
            if isinstance(tool, dict) and not self._harmless & _names([tool]):
                name = str(tool.get("name") or tool.get("type"))
                raise InvalidInput(
                    f"the tool {name!r:.60} does not run in this process, so "
                    "it cannot be guarded",
                    mend="remove the tool, or list it in `harmless`",
                )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        call = request.tool_call
        if _is_ambiguous(request):
            return _refusal(call["name"], call["id"], AMBIGUOUS)
        with self._queue.place(request), self.guard.turn():
            asked = _asked_for(request)
            verdict = self.guard.before(call["name"], call["args"], asked)
            if verdict.asks is not None:
                verdict = self._asked(verdict.asks)
            if (run := self._run(request, verdict)) is None:
                return _refusal(call["name"], call["id"], self.guard.unmade(verdict))
            failed, answer = True, None
            try:
                answer = handler(run)
                failed = _failed(answer, call["id"])
                return _told(answer, verdict)
            finally:
                self._after(verdict, failed, answer)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[Answer]],
    ) -> Answer:
        call = request.tool_call
        if _is_ambiguous(request):
            return _refusal(call["name"], call["id"], AMBIGUOUS)
        async with (
            self._queue.place_async(request),
            self.guard.turn_async() as judging,
        ):
            asked = _asked_for(request)
            before = self.guard.before
            verdict = await judging(before, call["name"], call["args"], asked)
            if verdict.asks is not None:
                verdict = self._asked(verdict.asks)
            if (run := self._run(request, verdict)) is None:
                return _refusal(call["name"], call["id"], self.guard.unmade(verdict))
            failed: bool | None = True
            answer = None
            late = _Late(self, verdict, call["id"])
            try:
                answer = await handler(late.heard(run))
                failed = _failed(answer, call["id"])
                return _told(answer, verdict)
            except asyncio.CancelledError:
                failed = late.awaited()
                raise
            finally:
                await judging(self._after, verdict, failed, answer)

    def _run(
        self, request: ToolCallRequest, verdict: Verdict
    ) -> ToolCallRequest | None:
        """Returns the call to run under a verdict, if any."""
        if verdict.passes:
            return request
        other = verdict.instead
        if other is None or other.name not in self._tools:
            return None
        given = request.tool_call.copy()
        given["name"], given["args"] = other.name, dict(other.arguments)
        return request.override(tool_call=given, tool=self._tools[other.name])

    def _asked(self, question: Question) -> Verdict:
        """Asks a person; the interrupt pauses the graph until it is resumed.

        Raises:
            InvalidInput: The graph has no checkpointer, so it could not be resumed.
        """
        if get_config()["configurable"].get(_CHECKPOINTER, True) is None:
            raise InvalidInput(
                "the agent has no checkpointer, so it cannot pause and ask a person",
                mend="write create_agent(…, checkpointer=InMemorySaver())",
            )
        return self.guard.answered(question, answer_of(interrupt(question.as_dict())))

    def _after(self, verdict: Verdict, failed: bool | None, answer: Any) -> None:
        if verdict.acts:
            said = "\n".join(each.text for each in _messages(answer))
            self.guard.after(failed, verdict.call, said)

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: AgentState[Any], runtime: Any
    ) -> dict[str, Any] | None:
        """Ends the agent if the guard has stopped it."""
        if not self.guard.stopped:
            return None
        answers = [
            _refusal(name, identity, STOPPED)
            for name, identity in _unanswered(state["messages"])
        ]
        return {"messages": [*answers, AIMessage(STOPPED)], "jump_to": "end"}

    def after_agent(
        self, state: AgentState[Any], runtime: Any
    ) -> dict[str, Any] | None:
        """Reviews the final state."""
        if self.guard.finish() is None:
            return None
        return {"messages": [AIMessage(STOPPED)]}


@dataclass(slots=True, eq=False)
class _Late:
    """Tracks a tool whose thread continues to run after the call was cancelled."""

    of: GuardMiddleware
    verdict: Verdict
    call: str | None
    answers: list[Any] = field(default_factory=list)
    given_up: bool = False

    def heard(self, request: ToolCallRequest) -> ToolCallRequest:
        """Returns the request with a tool that reports its result to this object."""
        if request.tool is None:
            return request
        tool = copy.copy(request.tool)
        run = tool._run

        @wraps(run)
        def telling(*given: Any, **named: Any) -> Any:
            answer = run(*given, **named)
            self.answers.append(answer)
            if self.given_up:
                self.of._after(self.verdict, self._failed(), answer)
            return answer

        object.__setattr__(tool, "_run", telling)
        return request.override(tool=tool)

    def awaited(self) -> bool | None:
        """Returns whether the call failed; None if the tool may still be running."""
        self.given_up = True
        return self._failed()

    def _failed(self) -> bool | None:
        if not self.answers:
            return None
        (answer,) = self.answers
        said = isinstance(answer, Command) or any(_messages(answer))
        return said and _failed(answer, self.call)


def _names(tools: Sequence[Any]) -> set[str]:
    """Returns the names of tools, and the types of those that the provider runs."""
    named = [tool if isinstance(tool, dict) else {"name": tool.name} for tool in tools]
    return {str(each[key]) for each in named for key in ("name", "type") if key in each}


def _asked_for(request: ToolCallRequest) -> str:
    """Returns the last message of a person to the agent."""
    state = request.state
    said = state.get("messages", ()) if isinstance(state, dict) else ()
    asked = (each.text for each in reversed(said) if isinstance(each, HumanMessage))
    return str(next(asked, ""))


def _is_ambiguous(request: ToolCallRequest) -> bool:
    """Whether several calls of the message have the same id."""
    call = str(request.tool_call["id"])
    return _message_of(request, call)[1].count(call) > 1


def _failed(answer: Any, call: str | None) -> bool:
    """Whether a call failed, according to the messages in its answer.

    A call failed if no message reports its success, or if some message reports an
    error.
    """
    messages = list(_messages(answer))
    succeeded = any(
        each.tool_call_id == call and each.status != "error" for each in messages
    )
    return not succeeded or any(each.status == "error" for each in messages)


def _messages(answer: Any) -> Iterator[ToolMessage]:
    """Yields the tool messages in the answer to a call."""
    if isinstance(answer, ToolMessage):
        yield answer
    elif isinstance(answer, Command):
        update = answer.update
        found = update.get("messages", ()) if isinstance(update, dict) else update
        yield from _messages(found)
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from _messages(each)


def _told(answer: Answer, verdict: Verdict) -> Answer:
    """Adds a note to the answer if another call was made instead."""
    if verdict.passes or not isinstance(answer, ToolMessage):
        return answer
    return answer.model_copy(update={"content": f"{verdict.message}{answer.text}"})


def _refusal(name: str, identity: str | None, message: str) -> ToolMessage:
    return ToolMessage(
        content=message, name=name, tool_call_id=identity or "", status="error"
    )


def _unanswered(messages: list[AnyMessage]) -> list[tuple[str, str | None]]:
    """Returns the calls without an answer, with which a model could not continue."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return [
        (call["name"], call["id"])
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] not in answered
    ]


class Queue:
    """Runs the calls of a message one after another, in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[Key, _Progress] = {}

    @contextmanager
    def place(self, request: ToolCallRequest) -> Iterator[None]:
        """Waits for all earlier calls to end; later calls wait for the block to end."""
        with self._arrived(request) as waits:
            while waits():
                time.sleep(POLL_S)
            yield

    @asynccontextmanager
    async def place_async(self, request: ToolCallRequest) -> AsyncIterator[None]:
        """Like `place`, but for coroutines."""
        with self._arrived(request) as waits:
            while waits():
                await asyncio.sleep(POLL_S)
            yield

    @contextmanager
    def _arrived(self, request: ToolCallRequest) -> Iterator[Callable[[], bool]]:
        """Registers a call; yields a function that returns whether it must wait."""
        call, progress = self._arrives(request)
        until_s = time.monotonic() + PATIENCE_S
        try:
            yield lambda: self._waits(call, progress, until_s)
        finally:
            self._leaves(call, progress)

    def _arrives(self, request: ToolCallRequest) -> tuple[str, _Progress]:
        call = str(request.tool_call["id"])
        key = _message_of(request, call)
        with self._lock:
            progress = self._messages.setdefault(key, _Progress(key))
            progress.begun.add(call)
            if len(self._messages) > MAX_MESSAGES:
                del self._messages[next(iter(self._messages))]
        return call, progress

    def _waits(self, call: str, progress: _Progress, until_s: float) -> bool:
        calls = progress.key[1]
        with self._lock:
            left = set(calls[: calls.index(call)]) - progress.done
            coming = time.monotonic() < until_s
            return bool(left) and (coming or not left.isdisjoint(progress.begun))

    def _leaves(self, call: str, progress: _Progress) -> None:
        with self._lock:
            progress.done.add(call)
            if progress.done.issuperset(progress.key[1]):
                self._messages.pop(progress.key, None)


def _message_of(request: ToolCallRequest, call: str) -> Key:
    """Returns the key of the message that contains a call: its id and the ids of its
    calls.
    """
    state: Any = request.state
    messages = state.get("messages", []) if isinstance(state, dict) else state
    for message in reversed(messages or []):
        found = [str(each["id"]) for each in getattr(message, "tool_calls", None) or []]
        if call in found:
            return message.id, tuple(found)
    return None, (call,)
