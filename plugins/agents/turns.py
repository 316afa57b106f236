"""Taking turns: what one call leads to depends on those before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")

POLL_S = 0.001

_TURNS: ContextVar[Mapping[int, threading.Lock]] = ContextVar("turns", default={})  # noqa: B039
"""Whose turn of which guard a call is within; threads and tasks inherit it."""


class Judging:
    """Asks the guard in a thread, in one turn.

    Neither a person who is asked nor a slow sensor holds up the event loop. A call
    may be taken back while it is judged; the guard is not: it is asked to the end, and
    until then the turn is not over.
    """

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._last: Future[Any] | None = None

    async def __call__(
        self, work: Callable[[Unpack[Given]], Answer], *given: *Given
    ) -> Answer:
        context = copy_context()
        asked = self._threads.submit(lambda: context.run(work, *given))
        self._last = asked
        return await asyncio.shield(asyncio.wrap_future(asked))

    def over(self, then: Callable[[], object]) -> None:
        """Does something as soon as nothing is asked any more."""
        if self._last is None:
            then()
        else:
            self._last.add_done_callback(lambda _: then())


class Turns:
    """Calls that run in parallel pass one by one."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(1, "guard")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Held from before a call until after it: parallel calls come one by one.

        Calls that are made within it, as by an agent that is a tool of another, take
        turns among themselves.
        """
        with self._mine(), self._within():
            yield

    @asynccontextmanager
    async def turn_async(self) -> AsyncIterator[Judging]:
        """The same for coroutines, on however many event loops."""
        turn = self._mine()
        while not turn.acquire(blocking=False):
            await asyncio.sleep(POLL_S)
        judging = Judging(self._threads)
        try:
            with self._within():
                yield judging
        finally:
            judging.over(turn.release)

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
