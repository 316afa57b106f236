"""The guard's server: loops connect, say hello, and have their frames judged.

Each connection is an episode with a guard of its own, in a thread of its own. A
connection that breaks the protocol, or that stalls in the middle of a message, is
closed: to its loop that is the loss of the guard.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import suppress

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.text import clean
from forewarn.plugins.loop.alerts import LOGGER, is_loopback
from forewarn.plugins.remote.messages import framed, write_error
from forewarn.plugins.remote.session import Lend, Session, serve_stream

MAX_CONNECTIONS = 16
MIN_TOKEN = 16
HELLO_S = 5.0
IDLE_S = 60.0
FAREWELL_S = 10.0
"""How long the threads may take to finish their records when the server is closed."""


class GuardServer:
    """Listens on one address until it is closed.

    Args:
        lend: Lends each connection its guard.
        token: What every hello must show.
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
            raise InvalidInput(f"a token has at least {MIN_TOKEN} characters")
        if not allow_remote and not is_loopback(host):
            raise InvalidInput(
                f"{host} is not an address of this machine alone",
                mend="listen on 127.0.0.1, or say --allow-remote",
            )
        self._lend, self._token = lend, token
        self._lock = threading.RLock()  # `close` may come in a signal
        self._threads: dict[threading.Thread, socket.socket] = {}
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

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Serves until `close` is called, from another thread or a signal."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                raise
            thread = threading.Thread(
                target=self._attend, args=(connection,), daemon=True
            )
            with self._lock:
                full = len(self._threads) >= MAX_CONNECTIONS
                if not full:
                    self._threads[thread] = connection
            if full:
                connection.close()
            else:
                self.connections += 1
                thread.start()

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
            connection.settimeout(HELLO_S)
            self._converse(connection)
        except Exception as error:
            self.losses += 1
            why = str(error) or type(error).__name__
            logging.getLogger(LOGGER).warning("a loop was lost: %s", clean(why))
        finally:
            _wake(connection)
            connection.close()
            with self._lock:
                self._threads.pop(threading.current_thread(), None)

    def _converse(self, connection: socket.socket) -> None:
        with Session(self._lend, self._token) as session:

            def take(message: bytes) -> bytes | None:
                answer = session.take(message)
                if answer is None:
                    connection.settimeout(IDLE_S)
                return answer

            try:
                serve_stream(connection.recv, connection.sendall, take)
            except ForewarnError as error:
                if session.welcome:
                    connection.sendall(framed(write_error(str(error))))
                raise


def _wake(waiting: socket.socket) -> None:
    """Ends the other's waiting and our own; closing alone wakes no thread of ours."""
    with suppress(OSError):
        waiting.shutdown(socket.SHUT_RDWR)
