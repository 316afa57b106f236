"""A proxy between CARLA's client and a server, which can spoil what passes.

It is a process of its own, for CARLA's client can hold a whole interpreter up. It
prints its port (streams have one of their own, which it writes into the answers) and
then reads what it is to do from standard input, a word a line:

- `pass`: hands everything on;
- `stall`: streams stay open, and nothing more comes out of them;
- `tear`: half of a frame, and then the connection is cut;
- `halve`: half of a frame, and then silence;
- `swallow`: both ways open, both streams and calls, and nothing passes any more;
- `deafen`: the same of calls alone;
- `garble`: what calls are answered is no answer;
- `mislead`: what streams say is noise after the first half of a frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
from types import TracebackType

_HALF = 60


def _spoiled(data: bytes, stream: bool) -> bytes:
    if stream:
        return data[:_HALF] + os.urandom(len(data) - len(data[:_HALF]))
    # Whole messages that are no answers. Some random bytes begin a long message, and
    # the client would wait for the rest until its time-out.
    return bytes(len(data))


class Line:
    """One client's connection to the server."""

    def __init__(self, modes: Modes, stream: bool, ports: tuple[int, int]) -> None:
        self._modes, self._stream = modes, stream
        (server, own) = ports
        self._theirs, self._ours = (
            struct.pack("<HBB4s", port, 1, 1, socket.inet_aton("127.0.0.1"))
            for port in (server, own)
        )

    async def carry(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, down: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                while self._stalled(down):
                    await self._modes.changed()
                data = await source.read(65536)
                if not data:
                    break
                if self._silent:
                    continue
                mode = self._modes.now
                if down and self._stream and mode in ("tear", "halve"):
                    to.write(data[:_HALF])
                    await to.drain()
                    self._modes.set("pass" if mode == "tear" else "stall")
                    if mode == "tear":
                        break
                    continue
                if down and mode == ("mislead" if self._stream else "garble"):
                    data = _spoiled(data, self._stream)
                # The way to a stream is told in answers: it is to lead through here.
                to.write(data.replace(self._theirs, self._ours) if down else data)
                await to.drain()
        to.close()

    def _stalled(self, down: bool) -> bool:
        return self._stream and down and self._modes.now == "stall"

    @property
    def _silent(self) -> bool:
        mode = self._modes.now
        return mode == "swallow" or (mode == "deafen" and not self._stream)


class Modes:
    def __init__(self) -> None:
        self.now = "pass"
        self._event = asyncio.Event()

    def set(self, mode: str) -> None:
        self.now = mode
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self) -> None:
        await self._event.wait()


async def _serve(port: int) -> None:
    modes = Modes()
    ports = [port + 1, 0]

    def accepts(stream: bool, server: int) -> object:
        async def accept(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            there = await asyncio.open_connection("127.0.0.1", server)
            line = Line(modes, stream, (ports[0], ports[1]))
            ways = (
                line.carry(reader, there[1], down=False),
                line.carry(there[0], writer, down=True),
            )
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            writer.close()
            there[1].close()

        return accept

    streams = await asyncio.start_server(accepts(True, port + 1), "127.0.0.1", 0)  # type: ignore[arg-type]
    ports[1] = streams.sockets[0].getsockname()[1]
    calls = await asyncio.start_server(accepts(False, port), "127.0.0.1", 0)  # type: ignore[arg-type]
    print(calls.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        modes.set(line.strip())
        print("done", flush=True)
    os._exit(0)  # whoever started it is gone


class Proxy:
    """The proxy's process. Use it with `with`."""

    def __init__(self, server_port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(server_port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, mode: str) -> None:
        """Has everything that passes from now on be treated so."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
