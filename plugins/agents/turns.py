"""Taking turns: what one call leads to depends on those before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

POLL_S = 0.001

_TURNS: ContextVar[Mapping[int, threading.Lock]] = ContextVar("turns", default={})  # noqa: B039
"""Whose turn of which guard a call is within; threads and tasks inherit it."""


class Turns:
    """Calls that run in parallel pass one by one."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Held from before a call until after it: parallel calls come one by one.

        Calls that are made within it, as by an agent that is a tool of another, take
        turns among themselves.
        """
        with self._mine(), self._within():
            yield

    @asynccontextmanager
    async def turn_async(self) -> AsyncIterator[None]:
        """The same for coroutines, on however many event loops."""
        turn = self._mine()
        while not turn.acquire(blocking=False):
            await asyncio.sleep(POLL_S)
        try:
            with self._within():
                yield
        finally:
            turn.release()

    def _mine(self) -> threading.Lock:
        return _TURNS.get().get(id(self), self._turn)

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Gives the calls within this one a turn of their own."""
        before = _TURNS.set({**_TURNS.get(), id(self): threading.Lock()})
        try:
            yield
        finally:
            _TURNS.reset(before)
