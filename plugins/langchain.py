"""LangChain 1.x: a middleware that asks the guard before a tool runs.

It stands around each tool call and not in a callback: LangChain runs the tool all the
same when a callback raises. LangChain runs the calls of one message all at once, in any
order; what a call leads to depends on those before it, so each waits for them.

Needs the extra `langchain`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from forewarn.abstractions.errors import MissingDependency
from forewarn.plugins.agents import POLL_S, STOPPED, AgentGuard, Question, Verdict
from forewarn.plugins.loop.approval import answer_of

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ToolCallRequest,
        hook_config,
    )
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
    from langgraph.types import Command, interrupt
except ImportError as error:
    raise MissingDependency("LangChain", "langchain") from error

__all__ = ["GuardMiddleware"]

Answer = ToolMessage | Command[Any]


PATIENCE_S = 1.0
"""How long a call waits for an earlier one to come: another middleware may have
answered that one itself."""


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """Lets a tool run only if the guard does; otherwise the call is answered by it.

    A stopped agent ends before its model is asked again, every call answered. Give it
    as the last of the middleware, so that nothing changes a call behind it. A guard
    whose approver is `Deferred` asks by LangGraph's interrupt: the agent needs a
    checkpointer, and goes on with `Command(resume="approve")`, `"reject"`, or an
    action to be done instead, `{"name": …, "arguments": {…}}`.

    Args:
        guard: Judges the calls; one for each robot, whichever agents drive it.
    """

    def __init__(self, guard: AgentGuard) -> None:
        super().__init__()
        self.guard = guard
        self._queue = Queue()

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        call = request.tool_call
        with self._queue.place(request), self.guard.turn():
            verdict = self.guard.before(call["name"], call["args"])
            if verdict.asks is not None:
                verdict = self._asked(verdict.asks)
            if not verdict.passes:
                return _refusal(call["name"], call["id"], verdict.message)
            failed = True
            try:
                answer = handler(request)
                failed = _failed(answer)
                return answer
            finally:
                self._after(verdict, failed)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[Answer]],
    ) -> Answer:
        call = request.tool_call
        async with (
            self._queue.place_async(request),
            self.guard.turn_async() as judging,
        ):
            verdict = await judging(self.guard.before, call["name"], call["args"])
            if verdict.asks is not None:
                verdict = self._asked(verdict.asks)
            if not verdict.passes:
                return _refusal(call["name"], call["id"], verdict.message)
            failed = True
            try:
                answer = await handler(request)
                failed = _failed(answer)
                return answer
            finally:
                await judging(self._after, verdict, failed)

    def _asked(self, question: Question) -> Verdict:
        """Asks by LangGraph's interrupt: the graph pauses here until it is resumed."""
        return self.guard.answered(question, answer_of(interrupt(question.as_dict())))

    def _after(self, verdict: Verdict, failed: bool) -> None:
        if verdict.acts:
            self.guard.after(failed)

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: AgentState[Any], runtime: Any
    ) -> dict[str, Any] | None:
        """Ends an agent that was stopped."""
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
        """Judges what the agent leaves behind."""
        if self.guard.finish() is None:
            return None
        return {"messages": [AIMessage(STOPPED)]}


def _failed(answer: Answer) -> bool:
    return isinstance(answer, ToolMessage) and answer.status == "error"


def _refusal(name: str, identity: str | None, message: str) -> ToolMessage:
    return ToolMessage(
        content=message, name=name, tool_call_id=identity or "", status="error"
    )


def _unanswered(messages: list[AnyMessage]) -> list[tuple[str, str | None]]:
    """The calls that no tool has answered; a model would not go on from there."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return [
        (call["name"], call["id"])
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] not in answered
    ]


class Queue:
    """Lets calls pass in the order of their message."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._done: set[str] = set()

    @contextmanager
    def place(self, request: Any) -> Iterator[None]:
        """Held from when all earlier calls are over until this one is."""
        earlier, every = self._arrives(request)
        until_s = time.monotonic() + PATIENCE_S
        try:
            while self._waits(earlier, until_s):
                time.sleep(POLL_S)
            yield
        finally:
            self._leaves(request, every)

    @asynccontextmanager
    async def place_async(self, request: Any) -> AsyncIterator[None]:
        """The same for coroutines."""
        earlier, every = self._arrives(request)
        until_s = time.monotonic() + PATIENCE_S
        try:
            while self._waits(earlier, until_s):
                await asyncio.sleep(POLL_S)
            yield
        finally:
            self._leaves(request, every)

    def _arrives(self, request: Any) -> tuple[list[str], list[str]]:
        call = str(request.tool_call["id"])
        every = _siblings(request, call)
        with self._lock:
            self._begun.add(call)
        return every[: every.index(call)], every

    def _waits(self, earlier: list[str], until_s: float) -> bool:
        with self._lock:
            left = [call for call in earlier if call not in self._done]
            coming = time.monotonic() < until_s
            return any(call in self._begun or coming for call in left)

    def _leaves(self, request: Any, every: list[str]) -> None:
        with self._lock:
            self._done.add(str(request.tool_call["id"]))
            if self._done.issuperset(every):
                self._begun.difference_update(every)
                self._done.difference_update(every)


def _siblings(request: Any, call: str) -> list[str]:
    """The calls of the message that this one is of, in their order."""
    state = request.state
    messages = state.get("messages", []) if isinstance(state, dict) else state
    for message in reversed(messages or []):
        found = [str(each["id"]) for each in getattr(message, "tool_calls", None) or []]
        if call in found:
            return found
    return [call]
