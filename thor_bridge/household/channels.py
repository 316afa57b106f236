"""The protocol between AI2-THOR 5.0.0's player and its Python controller.

The two exchange framed messages over two named pipes. This module implements the
player's side.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from forewarn.abstractions.errors import ForewarnError, MissingDependency

METADATA, ACTION, END = 1, 2, 255
IMAGE = 4
"""The field number of the image from the robot's camera."""

HEADER = struct.Struct("!BI")
MAX_ACTION_BYTES = 16 * 2**20


class Disconnected(ForewarnError):
    """There is no connection to the controller, or the controller sent an invalid
    message.
    """


@dataclass(frozen=True, slots=True)
class Message:
    """The player's message after an action.

    Args:
        sequence: The sequence number of the action that is answered.
        metadata: The agent's metadata.
        image: The robot's camera image in RGB; empty for none.
    """

    sequence: int
    metadata: Mapping[str, Any]
    image: bytes = b""

    def envelope(self) -> dict[str, Any]:
        """Returns the metadata and sequence number in the form that ai2thor expects."""
        return {
            "agents": [self.metadata],
            "thirdPartyCameras": self.metadata["thirdPartyCameras"],
            "activeAgentId": 0,
            "sequenceId": self.sequence,
        }


class Channel:
    """Sends messages and receives actions over two named pipes, which are opened in an
    order that avoids a deadlock.
    """

    def __init__(self, server_pipe: str, client_pipe: str) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise MissingDependency("AI2-THOR's FIFO protocol", "thor") from error
        self._out: BinaryIO = open(server_pipe, "wb", buffering=1 << 20)
        self._client_pipe = client_pipe
        self._in: BinaryIO | None = None
        self._pack: Callable[[Any], bytes] = msgpack.packb

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Channel:
        """Returns the channel that ai2thor's controller requests in environment
        variables.
        """
        try:
            return cls(
                environment["AI2THOR_FIFO_SERVER_PIPE_PATH"],
                environment["AI2THOR_FIFO_CLIENT_PIPE_PATH"],
            )
        except KeyError as error:
            raise Disconnected(
                f"the environment variable {error} is not set: start this program "
                "through the local_executable_path of ai2thor's Controller, with its "
                "FIFO server"
            ) from error

    def exchange(self, message: Message) -> dict[str, Any] | None:
        """Sends a message and waits for the next action; returns None if the
        controller has closed the connection.
        """
        try:
            self._send(METADATA, self._pack(message.envelope()))
            if message.image:
                self._send(IMAGE, message.image)
            self._send(END, b"")
            self._out.flush()
            return self._receive()
        except BrokenPipeError:
            return None

    def _send(self, kind: int, body: bytes) -> None:
        self._out.write(HEADER.pack(kind, len(body)))
        self._out.write(body)

    def _receive(self) -> dict[str, Any] | None:
        if self._in is None:
            self._in = open(self._client_pipe, "rb")
        action: dict[str, Any] | None = None
        while True:
            header = self._in.read(HEADER.size)
            if not header and action is None:
                return None
            if len(header) < HEADER.size:
                raise Disconnected("the connection ended in the middle of an action")
            kind, length = HEADER.unpack(header)
            if kind == END:
                return action
            if kind != ACTION or length > MAX_ACTION_BYTES:
                raise Disconnected(
                    f"a field of type {kind} with {length} bytes is not an action"
                )
            body = self._in.read(length)
            if len(body) < length:
                raise Disconnected("the connection ended in the middle of an action")
            action = _action(body)


def _action(body: bytes) -> dict[str, Any]:
    try:
        action = json.loads(body)
    except ValueError as error:
        raise Disconnected("an action is not valid JSON") from error
    if not isinstance(action, dict):
        raise Disconnected("an action is not a JSON object")
    return action
