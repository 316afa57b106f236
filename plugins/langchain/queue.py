"""The calls of one message, in the order in which the model wrote them.

LangChain runs them all at once, in any order. What a call leads to depends on those
before it, so each waits for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from forewarn.plugins.agents import POLL_S

PATIENCE_S = 1.0
"""How long a call waits for an earlier one to come: another middleware may have
answered that one itself."""


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
