"""What the tests of the Apollo bridge share: buses, messages, a way to wait."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from forewarn.apollo_bridge.channels import Channel, messages

PATIENCE_S = 20.0


def eventually(holds: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    """Whether something comes to hold in time."""
    end_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.005)
    return True


def message(channel: Channel, time_s: float, edition: Any = 9, **content: Any) -> Any:
    """A message of a channel with that time in its header."""
    made = messages(edition)[channel.type](**content)
    made.header.timestamp_sec = time_s
    return made


class Proxy:
    """A line to a server that can be slow, deaf, torn or cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.delay_s = 0.0
        self.deaf = False
        self.piece = 1 << 16
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._pairs: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._ending = False
        self._start(self._accept)

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            if self._ending:
                one.close()
                return
            try:
                other = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                one.close()
                continue
            self._pairs += [one, other]
            self._start(self._pass_on, one, other)
            self._start(self._pass_on, other, one)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(self.piece):
                time.sleep(self.delay_s)
                while self.deaf and not self._ending:
                    time.sleep(0.01)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self) -> None:
        """Ends every connection; new ones may come.

        Whoever has connected may not have been accepted yet.
        """
        assert eventually(lambda: bool(self._pairs))
        self._shut()

    def _shut(self) -> None:
        for end in self._pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._ending = True
        self._shut()
        # Closing alone does not wake who accepts.
        socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._listening.close()
        for end in self._pairs:
            end.close()
