"""The server, which listens on two ports and runs one world at a time."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from forewarn import ForewarnError, InvalidInput
from forewarn.standins.carla import actor_calls, actors, calls, roads
from forewarn.standins.carla.actors import Refusal
from forewarn.standins.carla.recordings import Recordings
from forewarn.standins.carla.roads import Maps, Roads
from forewarn.standins.carla.traffic import MakesTraffic, Traffic
from forewarn.standins.carla.wire import Caller, Guests, Reader, Streams
from forewarn.standins.carla.world import World

LOOPBACK: Final = "127.0.0.1"
_OWN_MAP: Final = "OpenDriveMap"
_FASTEST_HZ: Final = 1000.0
_LOADING_S: Final = 0.05
_MOST_SAID: Final = 100


ANSWERS = {**calls.ANSWERS, **actor_calls.ANSWERS}
DOES = {**calls.DOES, **actor_calls.DOES}


class Server:
    """Serves a world until the server is stopped. Clients can replace the world.

    Args:
        maps: The maps that clients can load.
        first: The name or file of the initial map.
        make_traffic: Creates the traffic other than clients' actors.
        seed: The seed of all random choices.
        host: The address to listen on.
        port: The port for calls; streams use the next port. 0 for any two free ports.
        rate_hz: The number of ticks per second in asynchronous mode.
        waits: Whether worlds start in synchronous mode, with a step length of 1 /
            `rate_hz`.
        folder: The folder for clients' recordings; by default a temporary folder.
        say: Called with each message about a problem.
    """

    def __init__(
        self,
        maps: Maps,
        first: str,
        make_traffic: MakesTraffic,
        seed: int = 0,
        host: str = LOOPBACK,
        port: int = 2000,
        rate_hz: float = 20.0,
        waits: bool = False,
        folder: Path | None = None,
        say: Callable[[str], None] = lambda problem: None,
    ) -> None:
        if not 0.1 <= rate_hz <= _FASTEST_HZ:
            raise InvalidInput(
                f"the tick rate must be between 0.1 and 1000 Hz, not {rate_hz:g} Hz"
            )
        self.host, self.port = _address(host), port
        self.managers: dict[int, list[Any]] = {}
        self.streams = Streams(self._first)
        self.recordings = Recordings(folder, self._say)
        self._maps, self._first_map = maps, maps.load(first)
        self._make_traffic, self._seed, self._say_it = make_traffic, seed, say
        self._rate_hz = rate_hz
        self._waits = waits
        self._texts: dict[str, str] = {}
        self._callers = Guests()
        self._said: set[str] = set()
        self.world = self._make(self._first_map, seed, 1)

    # -- the interface for calls
    # --------------------------------------------------------------

    def token(self, stream: int) -> bytes:
        host = LOOPBACK if self.host == "0.0.0.0" else self.host  # noqa: S104
        return actors.token(host, self.port + 1, stream)

    def maps(self) -> Iterable[str]:
        names = [*self._maps.names]
        if self._first_map.name not in names:
            names.append(self._first_map.name)
        return names

    def load(self, name: str, *, keep_settings: bool) -> None:
        bare = name.rpartition("/")[2]
        if not bare:
            on = self.world.roads
        elif bare in self._texts:
            on = Roads(bare, self._texts[bare])
        elif bare == self.world.roads.name:
            on = self.world.roads
        elif bare == self._first_map.name:
            on = self._first_map
        elif bare in self._maps.names:
            on = self._maps.load(bare)
            if bare in roads.TOWNS:
                self._say(
                    f"the name {bare} loads the stand-in's map "
                    f"{roads.TOWNS[bare]}, because CARLA's own towns are not included"
                )
        else:
            known = ", ".join(self.maps())
            raise Refusal(
                f"there is no map {name!r:.80}; the available maps are {known}"
            )
        self._replace(on, self._seed, keep_settings)

    def load_text(self, text: str) -> None:
        if len(text) > roads.LARGEST:
            raise Refusal(
                f"the OpenDRIVE text has more than {roads.LARGEST} characters"
            )
        self._texts = {_OWN_MAP: text}

    def restart(self, seed: int) -> None:
        self._seed = seed
        self._replace(self.world.roads, seed, keep_settings=True)

    # -- serving ----------------------------------------------------------------------

    async def serve(self, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Listens, calls `ready`, and serves until `stop` is set."""
        loop = asyncio.get_running_loop()
        callers, streams = await self._listen(loop)
        clock = loop.create_task(self._tick_by_itself())
        try:
            ready()
            await stop.wait()
        finally:
            clock.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await clock
            callers.close()
            streams.close()
            for caller in self._callers:
                caller.close()
            for reader in self.streams.readers:
                reader.close()
            self.recordings.close(self.world)
            self.world.traffic.close()
            await asyncio.sleep(0)

    async def _listen(
        self, loop: asyncio.AbstractEventLoop
    ) -> tuple[asyncio.Server, asyncio.Server]:
        wanted = self.port
        for _ in range(20):
            callers = await loop.create_server(self._caller, self.host, wanted)
            self.port = callers.sockets[0].getsockname()[1]
            try:
                streams = await loop.create_server(
                    lambda: Reader(self.streams), self.host, self.port + 1
                )
            except OSError:
                callers.close()
                if wanted:
                    raise
                continue  # the port after the free one is in use
            return callers, streams
        raise InvalidInput("no two consecutive ports are free")

    def _caller(self) -> Caller:
        return Caller(self._answer, self._callers)

    def _answer(self, name: str, arguments: list[Any]) -> tuple[str | None, Any]:
        """Carries out a call, whose arguments are untrusted."""
        if name == "apply_batch":
            try:
                return None, actor_calls.apply_batch(self, *arguments)
            except Exception as problem:
                return None, [actors.refused(f"{name}: {problem}"[:300])]
        handler = ANSWERS.get(name) or DOES.get(name)
        if handler is None:
            unknown = f"the stand-in for CARLA does not support the call {name!r:.80}"
            self._say(unknown)
            return unknown, None
        error = actors.refused if name in ANSWERS else actors.failed
        try:
            value = handler(self, *arguments)
        except ForewarnError as problem:
            return None, error(str(problem))
        except Exception as problem:
            return None, error(f"{name}: {type(problem).__name__}: {problem}"[:300])
        return None, actors.result(value) if name in ANSWERS else actors.DONE

    def _say(self, problem: str) -> None:
        """Reports a problem the first time that it occurs."""
        if problem not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(problem)
            self._say_it(problem)

    def _first(self, stream: int) -> bytes | None:
        if stream == actors.WORLD_STREAM:
            return self.world.snapshot()
        return b"" if self.world.sensors.has(stream) else None

    async def _tick_by_itself(self) -> None:
        """Ticks the world in asynchronous mode while a client reads the world's
        stream.
        """
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            # Keep pace with the clock, but do not catch up on more than 0.5 s.
            due_s = max(due_s + 1.0 / self._rate_hz, loop.time() - 0.5)
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            world = self.world
            if not world.synchronous and self.streams.read(actors.WORLD_STREAM):
                try:
                    world.tick(hurried=True)
                except Exception as problem:  # the server must keep running
                    self._say(f"a tick failed: {type(problem).__name__}: {problem}")

    # -- worlds -----------------------------------------------------------------------

    def _make(
        self,
        on: Roads,
        seed: int,
        number: int,
        settings: Any = None,
        frame: int = 1,
        first: int = 1,
    ) -> World:
        step_s = 1.0 / self._rate_hz
        if settings is None:
            settings = _standard_settings()
            if self._waits:
                settings[0], settings[2] = True, [True, step_s]

        def make_traffic(step_s: float) -> Traffic:
            return self._make_traffic(on, seed, step_s)

        return World(
            number, on, make_traffic, self.streams, seed, step_s, settings, frame, first
        )

    def _replace(self, on: Roads, seed: int, keep_settings: bool) -> None:
        old = self.world
        self.recordings.leave(old)
        old.traffic.close()
        for sensor in list(old.sensors.mounted()):
            self.streams.end(getattr(sensor, "stream", 0))
        self.world = self._make(
            on, seed, old.episode + 1, old.settings if keep_settings else None,
            old.frame + 1, old.unused,
        )  # fmt: skip
        # Clients expect the announcement after the answer to their call.
        asyncio.get_running_loop().call_later(_LOADING_S, self._announce, self.world)

    def _announce(self, world: World) -> None:
        """Announces a new world to clients, even if the world does not tick yet."""
        if world is self.world:
            body = world.snapshot(actors.MAP_CHANGES)
            self.streams.send(actors.WORLD_STREAM, body)


def _standard_settings() -> list[Any]:
    """Returns the initial settings of an episode, in CARLA's order."""
    return [False, False, [False], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]


def _address(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(LOOPBACK if host == "localhost" else host))
    except ValueError:
        raise InvalidInput(
            f"{host!r:.80} is not an IPv4 address",
            mend=(
                f"CARLA supports only IPv4 addresses; for this machine use {LOOPBACK}"
            ),
        ) from None
