"""The live page's server: a separate process that accepts only local connections.

`python -m forewarn.scenarios.live.server` prints its address and tokens as JSON on
standard output. The server exits when its standard input closes, that is, when its
parent process exits.

- `GET /` returns the page, without data of any run.
- `GET /stream` returns new data as JSON Lines, and requires the viewers' token.
- `POST /feed` accepts messages from a guarded loop, and requires the loops' token.

A viewer is sent new data only after it has read all earlier data, so a slow viewer
receives less data and needs no more memory.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Reversible
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from forewarn.scenarios.report.drawing import asset, document, fragment

_SHARED = ("ground.js", "bodies.js", "picture.js", "curves.js")


def page() -> tuple[bytes, str]:
    """Returns the page and its content security policy."""
    text, policy = document(
        "Live",
        fragment("live.html", __package__),
        styles=[asset("page.css"), asset("live.css", __package__)],
        scripts=[*map(asset, _SHARED), asset("live.js", __package__)],
        more="; connect-src 'self'",
    )
    # This directive works only in an HTTP header.
    return text.encode(), f"{policy}; frame-ancestors 'none'"


MINUTE_S = 60.0
"""The length of the part of a run that is stored, in seconds of simulated time."""
APART_S = 0.05
"""The minimum time between stored frames, in seconds of simulated time."""
MOST_MOMENTS = 4000
MOST_EVENTS = 200
MOST_OUTLINED = 200
"""The approximate number of frames that are stored of a finished run."""
MOST_OVER = 60
"""The maximum number of finished runs that are stored."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class LiveRun:
    """The stored data of one run, as lines of JSON that are ready to be sent.

    Args:
        number: The number of the run.
        about: The first lines, with the facts about the run and the ground.
        moments: The frames, each with the value of `version` when it arrived, and its
            time.
        events: The events, each with the value of `version` when it arrived.
        scene: The latest scene, with the value of `version` when it arrived.
        end: The last line; empty while the run is in progress.
        version: The number of messages received.
    """

    number: int
    about: list[str] = field(default_factory=list)
    moments: deque[tuple[int, str, float]] = field(
        default_factory=lambda: deque(maxlen=MOST_MOMENTS)
    )
    events: deque[tuple[int, str]] = field(
        default_factory=lambda: deque(maxlen=MOST_EVENTS)
    )
    scene: tuple[int, str] = (0, "")
    end: str = ""
    version: int = 0
    _kept_s: float = float("-inf")
    _news: bool = True

    def take(self, content: list[Any]) -> None:
        """Processes a message.

        Raises:
            ValueError: The content is not a valid message.
        """
        self.version += 1
        line = _encode([self.number, *content])
        match content:
            case ["begin", dict()] | ["ground" | "told", list()]:
                self.about.append(line)
            case ["frame", None | float() | int() as time_s, bool() as news, *_]:
                self._frame(time_s, news, line)
            case ["scene", *_]:
                self.scene = self.version, line
            case ["event", *_]:
                self.events.append((self.version, line))
            case ["end", *_]:
                self.end = line
                # A coarse outline suffices for a finished run.
                step = 1 + len(self.moments) // MOST_OUTLINED
                self.moments = deque(list(self.moments)[::step])
            case _:
                raise ValueError("not a message")

    def _frame(self, time_s: float | None, news: bool, line: str) -> None:
        """Stores a frame; replaces the previous frame if the two are close in time."""
        moments = self.moments
        if time_s is None:
            time_s = moments[-1][2] if moments else 0.0
        close = bool(moments) and time_s - self._kept_s < APART_S
        if close and not self._news:
            moments.pop()
        if not close or news:
            self._kept_s = time_s
        # A frame with a new decision or a violation is never replaced.
        self._news = news
        moments.append((self.version, line, time_s))
        while moments[0][2] < time_s - MINUTE_S:
            moments.popleft()


class Hub:
    """All stored runs, and the latest result of the drift test."""

    def __init__(self) -> None:
        self.runs: dict[int, LiveRun] = {}
        self.drift = ""
        self._count = 0

    def begin(self) -> LiveRun:
        """Creates a run, and discards the oldest finished runs."""
        self._count += 1
        run = self.runs[self._count] = LiveRun(self._count)
        over = [each.number for each in self.runs.values() if each.end]
        for number in over[: max(0, len(over) - MOST_OVER)]:
            del self.runs[number]
        return run


class Feed:
    """Processes the messages from one loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._run: LiveRun | None = None

    def take(self, line: bytes) -> None:
        """Processes a line.

        Raises:
            ValueError: The line is not a valid message.
        """
        content = json.loads(line)
        match content:
            case ["drift", bool(), str(), list()]:
                self._hub.drift = _encode([0, *content])
                return
            case ["begin", dict()]:
                self._run = self._hub.begin()
            case [str(), *_] if self._run is not None:
                pass
            case _:
                raise ValueError("the message does not belong to a run in progress")
        self._run.take(content)

    def lost(self) -> None:
        """Marks the current run as ended, because its connection was lost."""
        if self._run is not None and not self._run.end:
            self._run.take(["end", "The connection to the guarded loop was lost", 0])


class View:
    """Keeps track of the data that one viewer has received."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seen: dict[int, tuple[int, int]] = {}
        self._drift = ""

    def news(self) -> Iterator[str]:
        """Yields the lines that the viewer has not received yet."""
        runs = self._hub.runs
        for number in [number for number in self._seen if number not in runs]:
            del self._seen[number]
            yield _encode([number, "gone"])
        for number, run in runs.items():
            seen, told = self._seen.get(number, (0, 0))
            if seen == run.version:
                continue
            self._seen[number] = run.version, len(run.about)
            yield from run.about[told:]
            yield from _since(run.moments, seen)
            if run.scene[0] > seen:
                yield run.scene[1]
            yield from _since(run.events, seen)
            if run.end:
                yield run.end
        if self._drift != self._hub.drift:
            self._drift = self._hub.drift
            yield self._drift


def _since(lines: Reversible[tuple[Any, ...]], seen: int) -> list[str]:
    """Returns the lines that arrived after this version."""
    new = takewhile(lambda it: it[0] > seen, reversed(lines))
    return [line for _, line, *_ in new][::-1]


HOST = "127.0.0.1"
NOTHING = "default-src 'none'"
"""The content security policy of responses that are not pages."""
MOST_HEAD = 16 * 1024
MOST_LINE = 16 * 1024 * 1024
MOST_VIEWERS = 64
MOST_STRANGERS = 64
"""The maximum number of open connections that have not sent a complete request."""
HEAD_S = 5.0
"""The time limit in seconds for receiving the head of a request."""
READS_S = 30.0
"""The time limit in seconds for a viewer to read the data that was sent."""
BEAT_S = 0.04
"""The seconds between two checks for new data for a viewer."""
ALIVE_S = 5.0
"""The seconds after which an idle viewer is sent a keep-alive message."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request line and the headers of an HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def shown(self) -> str:
        """The bearer token of the request; empty if there is none."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token if kind == "Bearer" else ""


class RequestError(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: str) -> None:
        self.status = status
        super().__init__(status)


class Server:
    """Serves viewers and loops until it is cancelled.

    Args:
        viewers: The viewers' token.
        loops: The loops' token.
    """

    def __init__(self, viewers: str, loops: str) -> None:
        self._viewers, self._loops = viewers, loops
        self._hub = Hub()
        self._watching = 0
        self._strangers: dict[asyncio.StreamWriter, None] = {}
        self.port = 0
        self._page, self._policy = page()

    async def start(self, port: int = 0) -> asyncio.Server:
        """Starts listening on a port; 0 for any free port."""
        server = await asyncio.start_server(self._attend, HOST, port, limit=MOST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _attend(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # The oldest idle connection is dropped, so that new ones are always accepted.
        self._strangers[writer] = None
        if len(self._strangers) > MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(HEAD_S):
                request = await _head(reader)
            self._strangers.pop(writer, None)
            await self._answer(request, reader, writer)
        except RequestError as refused:
            writer.write(_response(refused.status, b"", "text/plain", NOTHING))
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # The server is shutting down.
        finally:
            self._strangers.pop(writer, None)
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
        match request.method, request.path:
            case "GET", "/":
                kind = "text/html; charset=utf-8"
                writer.write(_response("200 OK", self._page, kind, self._policy))
                async with asyncio.timeout(READS_S):
                    await writer.drain()
            case "GET", "/stream":
                _want(request, self._viewers)
                if self._watching >= MOST_VIEWERS:
                    raise RequestError("503 Service Unavailable")
                self._watching += 1
                try:
                    await self._stream(writer)
                finally:
                    self._watching -= 1
            case "POST", "/feed":
                _want(request, self._loops)
                await self._feed(reader)
            case _:
                raise RequestError("404 Not Found")

    def _admit(self, request: Request) -> None:
        """Rejects requests from pages of other origins, even with DNS rebinding."""
        own = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        origin = request.headers.get("origin", "")
        if request.headers.get("host") not in own:
            raise RequestError("421 Misdirected Request")
        if origin and origin.removeprefix("http://") not in own:
            raise RequestError("403 Forbidden")

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        view, silent_s = View(self._hub), 0.0
        kind = "application/x-ndjson"
        writer.write(_head_of("200 OK", kind, NOTHING, None))
        # This limits the memory for a viewer that does not read.
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
                    raise ValueError("the line is too long")
                for line in lines:
                    feed.take(line)
        finally:
            feed.lost()


async def _head(reader: asyncio.StreamReader) -> Request:
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise RequestError("400 Bad Request") from None
    first, *lines = data.decode("latin-1").split("\r\n")
    try:
        method, path, _ = first.split(" ")
    except ValueError:
        raise RequestError("400 Bad Request") from None
    pairs = (line.partition(":") for line in lines if line)
    return Request(method, path, {n.lower(): value.strip() for n, _, value in pairs})


def _want(request: Request, token: str) -> None:
    if not hmac.compare_digest(request.shown.encode("latin-1"), token.encode()):
        raise RequestError("401 Unauthorized")


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
