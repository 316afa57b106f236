"""Serialises parallel calls, because the effect of a call depends on earlier calls."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple, Unpack

from forewarn.abstractions.errors import InvalidInput

MAX_OPEN = 1000
"""The maximum number of calls without a reported result."""

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")


class Line:
    """A first-come, first-served lock for threads and coroutines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._taken = False

    def enter(self) -> Future[None]:
        """Joins the queue; returns a future that completes when the caller's turn
        comes.

        After its turn, the caller must call `leave`.
        """
        place: Future[None] = Future()
        with self._lock:
            if self._taken:
                self._waiting.append(place)
                return place
            self._taken = True
        place.set_result(None)
        return place

    def leave(self) -> None:
        """Passes the turn to the next caller in the queue."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    break
            else:
                self._taken = False
                return
        place.set_result(None)

    def give_up(self, place: Future[None]) -> None:
        """Leaves the queue, or ends the turn if it has just begun."""
        if not place.cancel():
            self.leave()


@dataclass(slots=True, eq=False)
class CallTurn:
    """The exclusive right to make a call, from before the review until after the
    result.

    Args:
        of: The guard whose calls are serialised.
        within: The turn of the call within which this call was made.
    """

    of: Turns
    within: CallTurn | None
    inner: Line = field(default_factory=Line)
    over: bool = False
    call: int | None = None


_TURNS: ContextVar[Mapping[int, CallTurn]] = ContextVar("turns", default={})  # noqa: B039
"""The current turn of each guard; tasks inherit it."""


class Judging:
    """Runs the guard in a thread within one turn, so that it does not block the event
    loop.

    If a call is cancelled during its review, the turn ends only after the review. If no
    thread can be started, the guard runs in the event loop.
    """

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._last: Future[Any] | None = None

    async def __call__(
        self, work: Callable[[Unpack[Given]], Answer], *given: *Given
    ) -> Answer:
        context = copy_context()
        try:
            # The executor keeps a submitted task even if it cannot start a thread.
            self._threads.submit(int)
        except RuntimeError:
            return context.run(work, *given)
        asked = self._threads.submit(lambda: context.run(work, *given))
        self._last = asked
        return await asyncio.shield(asyncio.wrap_future(asked))

    def over(self, then: Callable[[], object]) -> None:
        """Calls `then` once the guard has finished."""
        if self._last is None:
            then()
        else:
            self._last.add_done_callback(lambda _: then())


class Turns:
    """Serialises parallel calls in the order in which they arrive."""

    def __init__(self) -> None:
        self._line = Line()
        self._threads = ThreadPoolExecutor(1, "guard")
        self._process = os.getpid()
        self._calls = itertools.count(1)
        self._open: dict[int, CallTurn | None] = {}

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a turn, and holds it until the end of the block.

        Calls made within a turn, such as those of an agent that is used as a tool, take
        turns among themselves.

        Raises:
            InvalidInput: The guard was created before this process was forked.
        """
        line = self._mine()
        place = line.enter()
        try:
            place.result()
        except BaseException:
            line.give_up(place)
            raise
        try:
            with self._within():
                yield
        finally:
            line.leave()

    @asynccontextmanager
    async def turn_async(self) -> AsyncIterator[Judging]:
        """Like `turn`, but for coroutines, in any number of event loops."""
        line = self._mine()
        place = line.enter()
        try:
            await asyncio.wrap_future(place)
        except BaseException:
            line.give_up(place)
            raise
        judging = Judging(self._threads)
        try:
            with self._within():
                yield judging
        finally:
            judging.over(line.leave)

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process was forked from the one that created the guard."""
        return os.getpid() != self._process

    def _now(self) -> CallTurn | None:
        """Returns the innermost turn of the current context that has not ended."""
        turn = _TURNS.get().get(id(self))
        while turn is not None and turn.over:
            turn = turn.within
        return turn

    def _began(self) -> int:
        """Registers a call, and returns its number."""
        call, turn = next(self._calls), self._now()
        self._open[call] = turn
        if turn is not None:
            turn.call = call
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return call

    def _ended(self, call: int | None) -> int | None:
        """Ends a call, and returns its number; None if the call was not in progress."""
        turn = self._now()
        if call is None and turn is not None:
            call, turn.call = turn.call, None
        if call is None:
            loose = (n for n, t in self._open.items() if t is None or t.over)
            call = max(loose, default=None)
        if call not in self._open:
            return None
        del self._open[call]
        return call

    def _mine(self) -> Line:
        if self.is_elsewhere:
            raise InvalidInput(
                "the guard was created before this process was forked",
                mend="create a guard in each process",
            )
        now = self._now()
        return self._line if now is None else now.inner

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Opens a turn within which further calls take turns among themselves."""
        turn = CallTurn(self, self._now())
        before = _TURNS.set({**_TURNS.get(), id(self): turn})
        try:
            yield
        finally:
            turn.over = True
            _TURNS.reset(before)
