"""Cyber in one process: nodes, channels and services, as cyber_py3 has them.

For tests and for the stand-in. Messages travel as bytes; a reader is called on the
thread of who writes, and what it raises is swallowed, as Apollo's host does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from forewarn.apollo_bridge.buses.contract import Callback

Raw = Callable[[bytes], None]
Answer = Callable[[bytes], bytes | None]


class FakeCyber:
    """What the module `cyber` of cyber_py3 offers.

    `swallowed` counts what callbacks raised.
    """

    def __init__(self) -> None:
        self.ServiceUtils = self
        self.swallowed = 0
        self._lock = threading.Lock()
        self._readers: dict[str, list[Raw]] = {}
        self._services: dict[str, Answer] = {}
        self._up = False

    def init(self, module_name: str = "cyber_py") -> bool:
        """Begins; nodes may be made from now on."""
        self._up = True
        return True

    def ok(self) -> bool:
        """Whether it goes on."""
        return self._up

    def is_shutdown(self) -> bool:
        """Whether it has ended."""
        return not self._up

    def shutdown(self) -> None:
        """Ends."""
        self._up = False

    def Node(self, name: str) -> FakeNode:
        """A node of that name."""
        return FakeNode(self, name)

    def get_services(self, sleep_s: float = 2) -> list[str]:
        """The names of the services that there are."""
        return list(self._services)

    def publish(self, channel: str, data: bytes) -> None:
        """Calls every reader of the channel."""
        for reader in tuple(self._readers.get(channel, ())):
            try:
                reader(data)
            except Exception:
                self.swallowed += 1

    def read(self, channel: str, reader: Raw) -> Callable[[], None]:
        """Adds a reader of bytes; what is returned takes it away."""
        with self._lock:
            self._readers.setdefault(channel, []).append(reader)

        def leave() -> None:
            with self._lock:
                if reader in self._readers[channel]:
                    self._readers[channel].remove(reader)

        return leave

    def serve(self, service: str, answer: Answer) -> None:
        """Adds a service; an answer of None, or an empty one, is no answer."""
        self._services[service] = answer

    def withdraw(self, service: str) -> None:
        """Takes a service away."""
        self._services.pop(service, None)

    def call(self, service: str, request: bytes) -> bytes | None:
        """What a service answers; None if there is none."""
        answer = self._services.get(service)
        try:
            return None if answer is None else answer(request) or None
        except Exception:
            self.swallowed += 1
            return None


class FakeNode:
    """A node: what a `cyber.Node` can do."""

    def __init__(self, cyber: FakeCyber, name: str) -> None:
        self.name = name
        self._cyber = cyber
        self._read: set[str] = set()

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> object | None:
        """A reader, or None if this node reads the channel already."""
        if name in self._read:
            return None
        self._read.add(name)
        extra = () if args is None else (args,)
        return self._cyber.read(
            name, lambda data: callback(data_type.FromString(data), *extra)
        )

    def create_writer(
        self, name: str, data_type: Any, qos_depth: int = 1
    ) -> FakeWriter:
        """A writer."""
        return FakeWriter(self._cyber, name)

    def create_client(
        self, name: str, request_type: Any, response_type: Any
    ) -> FakeClient:
        """A client of a service, which need not be there."""
        return FakeClient(self._cyber, name, response_type)

    def create_service(
        self,
        name: str,
        req_data_type: Any,
        res_data_type: Any,
        callback: Callable[..., Any],
        args: Any = None,
    ) -> None:
        """A service that answers with what the callback returns."""
        extra = () if args is None else (args,)

        def answer(request: bytes) -> bytes | None:
            response = callback(req_data_type.FromString(request), *extra)
            return (
                None if response is None else bytes(response.SerializePartialToString())
            )

        self._cyber.serve(name, answer)


class FakeWriter:
    """Publishes on one channel."""

    def __init__(self, cyber: FakeCyber, name: str) -> None:
        self.name = name
        self._cyber = cyber

    def write(self, data: Any) -> bool:
        """Publishes a message, or bytes as they are."""
        raw = data if isinstance(data, bytes) else data.SerializeToString()
        self._cyber.publish(self.name, raw)
        return True


class FakeClient:
    """Calls one service."""

    def __init__(self, cyber: FakeCyber, name: str, response_type: Any) -> None:
        self._cyber, self.name, self._response = cyber, name, response_type

    def send_request(self, data: Any) -> Any:
        """The response; None if the service is not there or says nothing."""
        reply = self._cyber.call(self.name, data.SerializeToString())
        if reply is None:
            return None
        response = self._response()
        response.ParseFromString(reply)
        return response
