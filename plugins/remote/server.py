"""A server to which control loops connect to have their frames reviewed.

Each connection is an episode with its own guard and thread. A connection is closed if
it violates the protocol or stalls in the middle of a message; its loop then treats the
guard as lost. Unauthenticated connections cannot crowd out loops: if there are too
many, the oldest is closed.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from forewarn.abstractions.errors import ForewarnError, InvalidInput, clean
from forewarn.plugins.loop.alerts import is_loopback, tell
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.remote.messages import Hello, framed, write_error
from forewarn.plugins.remote.session import Lend, Session, WrongToken, serve_stream

MAX_CONNECTIONS = 16
MAX_STRANGERS = 16
MIN_TOKEN = 16
HELLO_S = 5.0
"""The time limit for the hello of a new connection, in seconds."""
MESSAGE_S = 5.0
"""The time limit from the first to the last byte of a message, in seconds."""
IDLE_S = 60.0
"""The maximum time between two messages of a loop, in seconds."""
BREATH_S = 0.05
"""The time in seconds to wait if resources for another connection are lacking."""
FAREWELL_S = 10.0
"""The time limit for ending records when the server is closed, in seconds."""


class Server(ABC):
    """A server that listens on one address until it is closed.

    Args:
        host: A host name or address of this machine.
        port: The port; 0 for any free port.
        allow_remote: Whether to allow an address that other machines can reach.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, *, allow_remote: bool = False
    ) -> None:
        if not allow_remote and not is_loopback(host):
            raise InvalidInput(
                f"{host} is not a loopback address",
                mend="listen on 127.0.0.1, or add --allow-remote",
            )
        self._lock = threading.RLock()  # `close` may be called from a signal handler
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._strangers: dict[threading.Thread, socket.socket] = {}
        self._loops: set[threading.Thread] = set()
        self._closed = False
        self.connections = self.losses = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not 0 <= port < 1 << 16:
            raise InvalidInput(
                f"{port} is not a valid port number (0 to {(1 << 16) - 1})"
            )
        try:
            self._listener = socket.create_server((host, port), family=family)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {reason}",
                mend="choose another port; 0 picks a free one" if taken else "",
            ) from error

    @abstractmethod
    def converse(self, connection: socket.socket) -> None:
        """Serves a connection until it ends; if it raises, the connection is closed."""

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Serves until `close` is called in another thread or a signal handler."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
                self._welcome(connection)
            except (OSError, RuntimeError):
                # The process is out of files or threads, so wait until some are
                # released.
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
            self._loops.discard(thread)

    def close(self) -> None:
        """Stops listening, ends all connections, and waits for their threads."""
        self._closed = True
        with self._lock:
            attended = dict(self._threads)
        for waiting in (self._listener, *attended.values()):
            _wake(waiting)
        self._listener.close()
        until_s = time.monotonic() + FAREWELL_S
        for thread in attended:
            # The thread may not have started yet when a signal arrives.
            if thread.is_alive():
                thread.join(max(0.0, until_s - time.monotonic()))

    def _attend(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.converse(connection)
        except Exception as error:
            self.losses += 1
            why = str(error) or type(error).__name__
            told = "the connection to a loop was closed: %s"
            tell(logging.WARNING, told, clean(why))
        finally:
            _wake(connection)
            connection.close()
            self._forget(threading.current_thread())

    def admit(self) -> None:
        """Registers this thread's connection as a loop that has sent the token."""
        with self._lock:
            self._strangers.pop(threading.current_thread(), None)
            self._loops.add(threading.current_thread())
            if len(self._loops) > MAX_CONNECTIONS:
                raise Full(
                    f"the server already serves the maximum of {MAX_CONNECTIONS} loops"
                )


class GuardServer(Server):
    """A server that lends a guard to each connection that sends the token.

    Args:
        lend: Lends a guarded loop to a connection.
        token: The token that every hello must contain.
        host: A host name or address of this machine.
        port: The port; 0 for any free port.
        allow_remote: Whether to allow an address that other machines can reach. The
            token is sent unencrypted, so allow this only in trusted networks.
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
            raise InvalidInput(
                f"the token must have at least {MIN_TOKEN} characters",
                mend="write a longer token, such as the output of openssl rand -hex 16",
            )
        super().__init__(host, port, allow_remote=allow_remote)
        self._lend, self._token = lend, token

    def converse(self, connection: socket.socket) -> None:
        with Session(self._lend_if_room, self._token) as session:
            line = _Line(connection, session)
            try:
                serve_stream(line.receive, line.send, session)
            except ForewarnError as error:
                if not isinstance(error, WrongToken):
                    line.send(framed(write_error(str(error))))
                raise

    @contextmanager
    def _lend_if_room(self, hello: Hello) -> Iterator[GuardedLoop]:
        self.admit()
        with self._lend(hello) as guard:
            yield guard


class Full(ForewarnError):
    """The maximum number of loops is already connected."""


class _Line:
    """A connection with a time limit per message, even if bytes arrive slowly."""

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
            raise TimeoutError("the message took too long to arrive")
        self._connection.settimeout(self._until_s - now_s)
        return self._connection.recv(size)

    def send(self, message: bytes) -> None:
        self._begun = False
        self._connection.settimeout(MESSAGE_S)
        self._connection.sendall(message)


def _wake(waiting: socket.socket) -> None:
    """Shuts down a socket, because closing it would not wake threads that use it."""
    with suppress(OSError):
        waiting.shutdown(socket.SHUT_RDWR)
