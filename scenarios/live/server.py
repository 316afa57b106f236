"""The page's server: a process of its own, on this machine alone.

    python -m forewarn.scenarios.live.server

says on standard output where it listens. It ends when its standard input does: with
whoever began it.

    GET  /        the page, which holds nothing of any run
    GET  /stream  what goes on, a line of JSON each; wants the viewers' token
    POST /feed    a loop that tells of itself; wants the loops' token

A viewer is given what is new when it has taken all that it was given before, so one
that reads slowly sees less, and takes no more memory for it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from forewarn.scenarios.live.hub import Feed, Hub, View
from forewarn.scenarios.live.page import page

HOST = "127.0.0.1"
NOTHING = "default-src 'none'"
"""The policy of what is no page."""
MOST_HEAD = 16 * 1024
MOST_LINE = 16 * 1024 * 1024
MOST_VIEWERS = 64
MOST_CONNECTIONS = 512
"""With the loops, and those of whom nobody knows yet what they want."""
HEAD_S = 5.0
"""How long a request may take until it is known what is asked for."""
READS_S = 30.0
"""How long a viewer may take to read what it was given."""
BEAT_S = 0.04
"""How often viewers are given what is new."""
ALIVE_S = 5.0
"""How often a viewer is told that nothing is new."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def shown(self) -> str:
        """The token that it shows."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token if kind == "Bearer" else ""


class Refused(Exception):
    """What is answered in place of what was asked for."""

    def __init__(self, status: str) -> None:
        self.status = status
        super().__init__(status)


class Server:
    """Serves viewers and loops until it is cancelled.

    Args:
        viewers: What viewers must show.
        loops: What loops must show.
    """

    def __init__(self, viewers: str, loops: str) -> None:
        self._viewers, self._loops = viewers, loops
        self._hub = Hub()
        self._open = 0
        self.port = 0
        self._page, self._policy = page()

    async def start(self, port: int = 0) -> asyncio.Server:
        """Listens; on any port that is free, unless one is given."""
        server = await asyncio.start_server(self._attend, HOST, port, limit=MOST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _attend(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._open += 1
        try:
            if self._open > MOST_CONNECTIONS:
                raise Refused("503 Service Unavailable")
            async with asyncio.timeout(HEAD_S):
                request = await _head(reader)
            await self._answer(request, reader, writer)
        except Refused as refused:
            writer.write(_response(refused.status, b"", "text/plain", NOTHING))
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # The server ends, and has nothing more to say.
        finally:
            self._open -= 1
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                writer.close()
                async with asyncio.timeout(HEAD_S):
                    await writer.wait_closed()
            writer.transport.abort()

    async def _answer(
        self,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._admit(request)
        loop = (request.method, request.path) == ("POST", "/feed")
        if self._open > MOST_VIEWERS and not loop:
            raise Refused("503 Service Unavailable")
        match request.method, request.path:
            case "GET", "/":
                kind = "text/html; charset=utf-8"
                writer.write(_response("200 OK", self._page, kind, self._policy))
                async with asyncio.timeout(READS_S):
                    await writer.drain()
            case "GET", "/stream":
                _want(request, self._viewers)
                await self._stream(writer)
            case "POST", "/feed":
                _want(request, self._loops)
                await self._feed(reader)
            case _:
                raise Refused("404 Not Found")

    def _admit(self, request: Request) -> None:
        """Refuses what another site's page asks for, by whatever name it calls us."""
        own = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        origin = request.headers.get("origin", "")
        if request.headers.get("host") not in own:
            raise Refused("421 Misdirected Request")
        if origin and origin.removeprefix("http://") not in own:
            raise Refused("403 Forbidden")

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        view, silent_s = View(self._hub), 0.0
        kind = "application/x-ndjson"
        writer.write(_head_of("200 OK", kind, NOTHING, None))
        # So little waits in memory for whoever does not read.
        writer.transport.set_write_buffer_limits(high=1 << 16)
        while not writer.is_closing():
            lines = list(view.news())
            silent_s = 0.0 if lines else silent_s + BEAT_S
            if silent_s >= ALIVE_S:
                lines, silent_s = ["[]"], 0.0
            if lines:
                writer.write("".join(f"{line}\n" for line in lines).encode())
                async with asyncio.timeout(READS_S):
                    await writer.drain()
            await asyncio.sleep(BEAT_S)

    async def _feed(self, reader: asyncio.StreamReader) -> None:
        feed, rest = Feed(self._hub), b""
        try:
            while data := await reader.read(1 << 18):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MOST_LINE:
                    raise ValueError("too long a line")
                for line in lines:
                    feed.take(line)
        finally:
            feed.lost()


async def _head(reader: asyncio.StreamReader) -> Request:
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused("400 Bad Request") from None
    first, *lines = data.decode("latin-1").split("\r\n")
    try:
        method, path, _ = first.split(" ")
    except ValueError:
        raise Refused("400 Bad Request") from None
    pairs = (line.partition(":") for line in lines if line)
    return Request(method, path, {n.lower(): value.strip() for n, _, value in pairs})


def _want(request: Request, token: str) -> None:
    if not hmac.compare_digest(request.shown.encode("latin-1"), token.encode()):
        raise Refused("401 Unauthorized")


def _response(status: str, body: bytes, kind: str, policy: str) -> bytes:
    return _head_of(status, kind, policy, len(body)) + body


def _head_of(status: str, kind: str, policy: str, length: int | None) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        f"Content-Security-Policy: {policy}",
        "Connection: close",
    ]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _serve() -> None:
    viewers, loops = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    server = Server(viewers, loops)
    listening = await server.start()
    said = {
        "page": f"http://{HOST}:{server.port}/#{viewers}",
        "host": HOST,
        "port": server.port,
        "token": loops,
    }
    print(json.dumps(said), flush=True)
    async with listening:
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Serves until standard input ends."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve())


if __name__ == "__main__":
    main()
