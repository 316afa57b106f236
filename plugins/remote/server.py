"""The guard's server: loops connect, say hello, and have their frames judged.

Each connection is an episode with a guard of its own, in a thread of its own. A
connection that breaks the protocol, or stalls in the middle of a message, is closed;
its loop then treats the guard as lost. Connections that have not shown the token yet
take no room from loops: if there are too many, the oldest is closed.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from forewarn.abstractions.errors import ForewarnError, InvalidInput, clean
from forewarn.plugins.loop.alerts import LOGGER, is_loopback
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.remote.messages import Hello, framed, write_error
from forewarn.plugins.remote.session import Lend, Session, serve_stream

MAX_CONNECTIONS = 16
MAX_STRANGERS = 16
MIN_TOKEN = 16
HELLO_S = 5.0
"""How long a stranger may take for the whole hello."""
MESSAGE_S = 5.0
"""How long a message may take from its first byte to its last."""
IDLE_S = 60.0
"""How long a loop may say nothing between two messages."""
BREATH_S = 0.05
"""How long to wait where the machine has nothing left for another connection."""
FAREWELL_S = 10.0
"""How long the threads may take to finish their records when the server is closed."""


class Server(ABC):
    """Listens on one address until it is closed.

    Args:
        host: A name or address of this machine.
        port: 0 for any that is free.
        allow_remote: Also on an address that others can reach.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, *, allow_remote: bool = False
    ) -> None:
        if not allow_remote and not is_loopback(host):
            raise InvalidInput(
                f"{host} is not a loopback address",
                mend="listen on 127.0.0.1, or give --allow-remote",
            )
        self._lock = threading.RLock()  # `close` may come in a signal
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._strangers: dict[threading.Thread, socket.socket] = {}
        self._closed = False
        self.connections = self.losses = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not 0 <= port < 1 << 16:
            raise InvalidInput(f"{port} is no port")
        try:
            self._listener = socket.create_server((host, port), family=family)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise InvalidInput(f"cannot listen on {host}:{port}: {reason}") from error

    @abstractmethod
    def converse(self, connection: socket.socket) -> None:
        """Answers a connection until it ends; an error ends it."""

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Serves until `close` is called, from another thread or a signal."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
                self._welcome(connection)
            except (OSError, RuntimeError):
                # No file or thread is left for another one; some end.
                if not self._closed:
                    time.sleep(BREATH_S)

    def _welcome(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._attend, args=(connection,), daemon=True)
        with self._lock:
            if len(self._strangers) >= MAX_STRANGERS:
                _wake(self._strangers.pop(next(iter(self._strangers))))
            self._threads[thread] = self._strangers[thread] = connection
        self.connections += 1
        try:
            thread.start()
        except RuntimeError:
            self._forget(thread)
            connection.close()
            raise

    def _forget(self, thread: threading.Thread) -> None:
        with self._lock:
            self._threads.pop(thread, None)
            self._strangers.pop(thread, None)

    def close(self) -> None:
        """Stops listening, ends every connection and waits a moment for them."""
        self._closed = True
        with self._lock:
            attended = dict(self._threads)
        for waiting in (self._listener, *attended.values()):
            _wake(waiting)
        self._listener.close()
        until_s = time.monotonic() + FAREWELL_S
        for thread in attended:
            # A signal may have come before it was started: then it has nothing to end.
            if thread.is_alive():
                thread.join(max(0.0, until_s - time.monotonic()))

    def _attend(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.converse(connection)
        except Exception as error:
            self.losses += 1
            why = str(error) or type(error).__name__
            logging.getLogger(LOGGER).warning("a loop was lost: %s", clean(why))
        finally:
            _wake(connection)
            connection.close()
            self._forget(threading.current_thread())

    def admit(self) -> None:
        """Makes room for this thread's connection, which has shown the token."""
        with self._lock:
            self._strangers.pop(threading.current_thread(), None)
            if len(self._threads) - len(self._strangers) > MAX_CONNECTIONS:
                raise Full(f"it already guards {MAX_CONNECTIONS} loops, the maximum")


class GuardServer(Server):
    """Lends each connection that shows the token a guard.

    Args:
        lend: Lends each connection its guard.
        token: The token that every hello must show.
        host: A name or address of this machine.
        port: 0 for any that is free.
        allow_remote: Also on an address that others can reach. The token then travels
            in the clear: use it in networks that you trust.
    """

    def __init__(
        self,
        lend: Lend,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        allow_remote: bool = False,
    ) -> None:
        if len(token) < MIN_TOKEN:
            raise InvalidInput(f"the token needs at least {MIN_TOKEN} characters")
        super().__init__(host, port, allow_remote=allow_remote)
        self._lend, self._token = lend, token

    def converse(self, connection: socket.socket) -> None:
        with Session(self._lend_if_room, self._token) as session:
            line = _Line(connection, session)
            try:
                serve_stream(line.receive, line.send, session)
            except ForewarnError as error:
                if session.welcome:
                    line.send(framed(write_error(str(error))))
                raise

    @contextmanager
    def _lend_if_room(self, hello: Hello) -> Iterator[GuardedLoop]:
        self.admit()
        with self._lend(hello) as guard:
            yield guard


class Full(ForewarnError):
    """There is no room for another loop."""


class _Line:
    """A connection with a time limit, however slowly bytes come."""

    def __init__(self, connection: socket.socket, session: Session) -> None:
        self._connection, self._session = connection, session
        self._until_s = time.monotonic() + HELLO_S
        self._begun = False

    def receive(self, size: int, begun: bool) -> bytes:
        now_s = time.monotonic()
        if self._session.welcome and not (begun and self._begun):
            self._until_s = now_s + (MESSAGE_S if begun else IDLE_S)
        self._begun = begun
        if now_s >= self._until_s:
            raise TimeoutError("it took too long")
        self._connection.settimeout(self._until_s - now_s)
        return self._connection.recv(size)

    def send(self, message: bytes) -> None:
        self._begun = False
        self._connection.settimeout(MESSAGE_S)
        self._connection.sendall(message)


def _wake(waiting: socket.socket) -> None:
    """Wakes both sides; closing alone would not wake our own threads."""
    with suppress(OSError):
        waiting.shutdown(socket.SHUT_RDWR)
