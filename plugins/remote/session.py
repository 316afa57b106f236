"""One loop's conversation with its guard, apart from how the bytes travel."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import BinaryIO

from forewarn.abstractions.errors import ForewarnError
from forewarn.monitors.guarding.guard import Guard
from forewarn.plugins.remote.messages import (
    HELLO_BYTES,
    LENGTH_BYTES,
    MAX_BYTES,
    Hello,
    Malformed,
    framed,
    is_hello,
    parse_object,
    read_frame,
    read_hello,
    write_decision,
    write_error,
)

MAX_IDLE = 16

_CHUNK = 1 << 16

Provides = tuple[str, ...] | None
Lend = Callable[[Provides], AbstractContextManager[Guard]]
"""Lends a guard for one episode of a source with those signals."""


class Refused(ForewarnError):
    """A loop that may not be here; it is told nothing."""


class GuardPool:
    """Keeps guards whose loop has gone for the next loop with the same signals.

    To build one is to solve its laws' risks, which takes a while.

    Args:
        build: Makes a guard for a source with those signals.
    """

    def __init__(self, build: Callable[[Provides], Guard]) -> None:
        self._build = build
        self._idle: dict[Provides, list[Guard]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, provides: Provides) -> Iterator[Guard]:
        """A guard at the beginning of an episode, to be given back at its end."""
        with self._lock:
            idle = self._idle.get(provides)
            guard = idle.pop() if idle else None
        if guard is None:
            guard = self._build(provides)
        guard.reset()
        if guard.watch.drift is not None:
            # A record of this episode must replay without those before it.
            guard.watch.drift.forget()
        yield guard
        with self._lock:
            if sum(map(len, self._idle.values())) < MAX_IDLE:
                self._idle.setdefault(provides, []).append(guard)


class Session:
    """Takes messages and gives answers; an error ends it. Use it with `with`.

    Args:
        lend: Where its guard comes from.
        token: What the hello must show; None where the loop needs no hello.
    """

    def __init__(self, lend: Lend, token: str | None) -> None:
        self._lend, self._token = lend, token
        self._borrowed = ExitStack()
        self._guard: Guard | None = None
        self.welcome = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._borrowed.close()

    @property
    def most_bytes(self) -> int:
        """How long a message may be; who has shown no token has little to say."""
        return MAX_BYTES if self.welcome or self._token is None else HELLO_BYTES

    def take(self, message: bytes) -> bytes | None:
        """The answer to a message; None to a hello.

        Raises:
            Refused: The hello does not show the token.
            ForewarnError: The message is malformed, or no guard can be had.
        """
        content = parse_object(message)
        guard = self._guard
        if guard is None:
            greets = is_hello(content)
            guard = self._greet(read_hello(content) if greets else Hello())
            if greets:
                return None
        elif is_hello(content):
            raise Malformed("a second hello")
        return write_decision(guard.review(*read_frame(content)))

    def _greet(self, hello: Hello) -> Guard:
        if self._token is not None:
            shown = hello.token.encode("utf-8", "surrogatepass")
            if not hmac.compare_digest(shown, self._token.encode()):
                raise Refused("a loop did not show the token")
        self.welcome = True
        self._guard = self._borrowed.enter_context(self._lend(hello.provides))
        return self._guard


def serve_stream(
    receive: Callable[[int, bool], bytes],
    send: Callable[[bytes], object],
    session: Session,
) -> None:
    """Cuts a stream into messages and answers them, until it ends.

    Args:
        receive: Gives so many bytes at most, none at the end of the stream; it is told
            whether a message has begun.
        send: Sends an answer with its length.
        session: Gives the answer to a message, if it has one.
    """
    data = b""
    while chunk := receive(_CHUNK, bool(data)):
        data = data + chunk if data else chunk
        while len(data) >= LENGTH_BYTES:
            length = int.from_bytes(data[:LENGTH_BYTES], "big")
            if length > session.most_bytes:
                raise Malformed(f"a message is longer than {session.most_bytes} bytes")
            end = LENGTH_BYTES + length
            if len(data) < end:
                break
            message, data = data[LENGTH_BYTES:end], data[end:]
            answer = session.take(message)
            if answer is not None:
                send(framed(answer))
    if data:
        raise Malformed("the stream ended in the middle of a message")


def serve_lines(source: BinaryIO, sink: BinaryIO, lend: Lend) -> int:
    """Answers a line with a line until the source ends; gives how many.

    A hello may come first; it needs no token.
    """
    answered = 0
    with Session(lend, None) as session:
        while line := source.readline(MAX_BYTES + 2):
            try:
                answer = session.take(line.rstrip(b"\r\n"))
            except ForewarnError as error:
                sink.write(write_error(str(error)) + b"\n")
                sink.flush()
                raise
            if answer is not None:
                sink.write(answer + b"\n")
                sink.flush()
                answered += 1
    return answered
