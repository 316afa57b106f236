"""The server side of WebSocket (RFC 6455), as far as ROSMonitoring uses it."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from forewarn.plugins.remote.messages import MAX_BYTES, Malformed

HEAD_BYTES = 1 << 13
HELLO_S = 5.0
"""The time limit of the handshake in seconds."""
MESSAGE_S = 5.0
"""The time limit from the first to the last byte of a message, in seconds."""
IDLE_S = 3600.0
"""The maximum time between two messages of a node, in seconds."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_MAX_CONTROL = 125


class WebSocket:
    """A WebSocket connection, on which `shake_hands` must be called first.

    Args:
        connection: The socket of the connection.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""
        self._until_s = time.monotonic() + HELLO_S

    def shake_hands(self) -> None:
        """Performs the handshake.

        Raises:
            Malformed: The client does not use WebSocket, or is a web page of another
                site.
        """
        while b"\r\n\r\n" not in self._data:
            if len(self._data) > HEAD_BYTES:
                raise Malformed(f"the request header is longer than {HEAD_BYTES} bytes")
            self._data += self._received()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
        key = fields.get("sec-websocket-key", "")
        wants = fields.get("upgrade", "").lower() == "websocket"
        if not (first.startswith("GET ") and wants and key):
            raise Malformed("the request is not a WebSocket handshake")
        if fields.get("sec-websocket-version") != "13":
            raise Malformed("the WebSocket version is not 13")
        for name in ("host", "origin"):
            # A web page of another site in a local browser sends the origin of its
            # site.
            if name in fields and not _is_here(fields[name]):
                raise Malformed(f"the header field {name} does not name this machine")
        digest = hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False)
        accept = base64.b64encode(digest.digest()).decode()
        self._send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )

    def messages(self) -> Iterator[bytes]:
        """Yields the messages of the client until it disconnects."""
        whole = b""
        begun = False
        while True:
            if not begun:
                self._until_s = time.monotonic() + IDLE_S
            final, code, part = self._frame()
            if code == _CLOSE:
                self._send(_framed(_CLOSE, part[:2]))
                return
            if code == _PING:
                self._send(_framed(_PONG, part))
            if code in (_PING, _PONG):
                continue
            if code not in (0, _TEXT, _BINARY) or (code == 0) != begun:
                raise Malformed("a WebSocket frame is out of order")
            whole += part
            if len(whole) > MAX_BYTES:
                raise Malformed(f"a message is longer than {MAX_BYTES} bytes")
            begun = not final
            if final:
                yield whole
                whole = b""

    def send(self, message: bytes) -> None:
        """Sends a text message."""
        self._send(_framed(_TEXT, message))

    def _frame(self) -> tuple[bool, int, bytes]:
        """Returns the next frame: whether it is final, its opcode, and its content."""
        one, two = self._exactly(1)[0], self._exactly(1)[0]
        self._until_s = min(self._until_s, time.monotonic() + MESSAGE_S)
        code, size = one & 0x0F, two & 0x7F
        if one & 0x70 or not two & 0x80:
            raise Malformed("a WebSocket frame is not masked, or uses an extension")
        if code >= _CLOSE and (size > _MAX_CONTROL or not one & 0x80):
            raise Malformed("a WebSocket control frame is fragmented or too long")
        if size > _MAX_CONTROL:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        if size > MAX_BYTES:
            raise Malformed(f"a message is longer than {MAX_BYTES} bytes")
        mask, data = self._exactly(4), self._exactly(size)
        masks = (mask * (size // 4 + 1))[:size]
        plain = int.from_bytes(data, "big") ^ int.from_bytes(masks, "big")
        return bool(one & 0x80), code, plain.to_bytes(size, "big")

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._data += self._received()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _received(self) -> bytes:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0.0:
            raise TimeoutError("the message took too long to arrive")
        self._connection.settimeout(left_s)
        data = self._connection.recv(1 << 16)
        if not data:
            raise Gone("the connection ended")
        return data

    def _send(self, data: bytes) -> None:
        self._connection.settimeout(MESSAGE_S)
        self._connection.sendall(data)


class Gone(Malformed):
    """The client disconnected without closing the WebSocket."""


def _framed(code: int, content: bytes) -> bytes:
    size = len(content)
    if size <= _MAX_CONTROL:
        head = bytes([0x80 | code, size])
    elif size < 1 << 16:
        head = bytes([0x80 | code, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | code, 127]) + size.to_bytes(8, "big")
    return head + content


def _is_here(address: str) -> bool:
    """Whether an address is a loopback address or `localhost`.

    Other names are not resolved, because another site could make its own name resolve
    to this machine.
    """
    try:
        host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
