"""The two protocols between AI2-THOR 5.0.0's player and its Python controller.

FIFO exchanges framed messages over two named pipes. With WSGI, the player posts its
state over HTTP, and the response is the next action. This module implements the
player's side of both protocols.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, BinaryIO, Protocol

from forewarn.abstractions.errors import ForewarnError, MissingDependency

METADATA, ACTION, PATCH, END = 1, 2, 11, 255
RGB, DEPTH, NORMALS, CLASSES, INSTANCES = 4, 5, 6, 8, 9
"""The field numbers of the images from the robot's camera."""

BESIDE = {RGB: 10, DEPTH: 12, NORMALS: 13, INSTANCES: 14, CLASSES: 15}
"""The field numbers of the same images from third-party cameras."""

_PARTS = {
    RGB: "image", DEPTH: "image_depth", NORMALS: "image_normals",
    CLASSES: "image_classes", INSTANCES: "image_ids",
    BESIDE[RGB]: "image-thirdParty-camera", BESIDE[DEPTH]: "image_thirdParty_depth",
    BESIDE[NORMALS]: "image_thirdParty_normals",
    BESIDE[INSTANCES]: "image_thirdParty_image_ids",
    BESIDE[CLASSES]: "image_thirdParty_classes",
}  # fmt: skip
"""The names of the images in an HTTP request."""

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
        images: The cameras' images with their field numbers; the bottom row is first.
        patch: The changed metadata entries, if they are sent in place of all metadata.
    """

    sequence: int
    metadata: Mapping[str, Any]
    images: Sequence[tuple[int, bytes]] = ()
    patch: Mapping[str, Any] | None = None

    def envelope(self) -> dict[str, Any]:
        """Returns the metadata and sequence number in the form that both protocols
        use.
        """
        return {
            "agents": [self.metadata],
            "thirdPartyCameras": self.metadata["thirdPartyCameras"],
            "activeAgentId": 0,
            "sequenceId": self.sequence,
        }


class Channel(Protocol):
    """Sends messages and receives actions."""

    def exchange(self, message: Message) -> dict[str, Any] | None:
        """Sends a message and waits for the next action; returns None if there is
        none.
        """


def channel_from(environment: Mapping[str, str]) -> Channel:
    """Returns the channel that ai2thor's controller requests in environment
    variables.
    """
    kind = environment.get("AI2THOR_SERVER_TYPE", "WSGI")
    try:
        if kind == "FIFO":
            return FifoChannel(
                environment["AI2THOR_FIFO_SERVER_PIPE_PATH"],
                environment["AI2THOR_FIFO_CLIENT_PIPE_PATH"],
            )
        return WsgiChannel(
            environment.get("AI2THOR_HOST", "127.0.0.1"),
            int(environment["AI2THOR_PORT"]),
            environment.get("AI2THOR_CLIENT_TOKEN", ""),
        )
    except KeyError as error:
        raise Disconnected(
            f"the environment variable {error} is not set: start this program "
            "through the local_executable_path of ai2thor's Controller"
        ) from error


class FifoChannel:
    """A channel over two named pipes, which are opened in an order that avoids a
    deadlock.
    """

    def __init__(self, server_pipe: str, client_pipe: str) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise MissingDependency("AI2-THOR's FIFO protocol", "thor") from error
        self._out: BinaryIO = open(server_pipe, "wb", buffering=1 << 20)
        self._client_pipe = client_pipe
        self._in: BinaryIO | None = None
        self._pack = msgpack.Packer(use_bin_type=True, autoreset=False)
        self._packed: dict[str, tuple[Any, bytes]] = {}

    def exchange(self, message: Message) -> dict[str, Any] | None:
        try:
            if message.patch is not None:
                self._send(PATCH, self._encode(message.patch))
            else:
                self._send(METADATA, self._full(message))
                for kind, image in message.images:
                    self._send(kind, image)
            self._send(END, b"")
            self._out.flush()
            return self._receive()
        except BrokenPipeError:
            return None

    def _send(self, kind: int, body: bytes) -> None:
        self._out.write(HEADER.pack(kind, len(body)))
        self._out.write(body)

    def _encode(self, value: Any) -> bytes:
        pack = self._pack
        pack.reset()
        pack.pack(value)
        return bytes(pack.bytes())

    def _full(self, message: Message) -> bytes:
        """Returns the packed envelope. Unchanged objects are packed only once."""
        envelope = message.envelope()
        objects = message.metadata["objects"]
        bodies, before, now = [], self._packed, {}
        for thing in objects:
            known = before.get(thing["objectId"])
            if known is None or known[0] is not thing:
                known = (thing, self._encode(thing))
            now[thing["objectId"]] = known
            bodies.append(known[1])
        self._packed = now
        pack = self._pack
        pack.reset()
        pack.pack_map_header(len(envelope))
        for key, value in envelope.items():
            pack.pack(key)
            if key != "agents":
                pack.pack(value)
                continue
            pack.pack_array_header(1)
            pack.pack_map_header(len(message.metadata))
            for name, entry in message.metadata.items():
                if name != "objects":
                    pack.pack(name)
                    pack.pack(entry)
            pack.pack("objects")
            pack.pack_array_header(len(bodies))
            start = bytes(pack.bytes())
            pack.reset()
        return start + b"".join(bodies) + bytes(pack.bytes())

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


class WsgiChannel:
    """A channel over HTTP.

    The channel reconnects when necessary, because Werkzeug closes the connection after
    every answer.
    """

    _BOUNDARY = "forewarn-household"

    def __init__(self, host: str, port: int, token: str) -> None:
        self._address, self._token = (host, port), token
        self._socket: socket.socket | None = None
        self._in: BufferedReader | None = None

    def exchange(self, message: Message) -> dict[str, Any] | None:
        body = self._body(message)
        head = (
            "POST /train HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: multipart/form-data;"
            f' boundary="{self._BOUNDARY}"\r\n\r\n'
        )
        try:
            if self._socket is None:
                self._connect()
            assert self._socket is not None and self._in is not None  # noqa: S101
            self._socket.sendall(head.encode() + body)
            answer = self._answer(self._in)
        except ConnectionError:
            return None
        return answer if answer and "action" in answer else None

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def _body(self, message: Message) -> bytes:
        """Returns the multipart body in the exact form that the controller's parser
        expects.
        """
        text = 'Content-Type: text/plain; charset="utf-8"\r\n'
        parts = [
            (text, "metadata", "", json.dumps(message.envelope()).encode()),
            (text, "token", "", self._token.encode()),
        ]
        raw = "Content-Type: application/octet-stream\r\n"
        parts[:0] = [
            (raw, _PARTS[kind], f'; filename="{_PARTS[kind]}"', image)
            for kind, image in message.images
        ]
        body = b""
        for kind, name, file, content in parts:
            body += (
                f"\r\n--{self._BOUNDARY}\r\n{kind}"
                f'Content-disposition: form-data; name="{name}"{file}\r\n\r\n'
            ).encode() + content
        return body + f"\r\n--{self._BOUNDARY}--\r\n".encode()

    def _answer(self, stream: BufferedReader) -> dict[str, Any] | None:
        status = stream.readline()
        if not status:
            return None
        length, close = 0, False
        while line := stream.readline().strip().lower():
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
            close = close or (name == b"connection" and b"close" in value)
        body = stream.read(length)
        if close and self._socket is not None:
            stream.close()
            self._socket.close()
            self._socket, self._in = None, None
        if b" 200" not in status:
            raise Disconnected(f"the controller answered {status.decode().strip()}")
        return _action(body)


def _action(body: bytes) -> dict[str, Any]:
    try:
        action = json.loads(body)
    except ValueError as error:
        raise Disconnected("an action is not valid JSON") from error
    if not isinstance(action, dict):
        raise Disconnected("an action is not a JSON object")
    return action
