"""`forewarn carla`: guards and records vehicles in CARLA, and serves a stand-in."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import click

from forewarn.abstractions.errors import InvalidInput, Unreachable
from forewarn.abstractions.places import left_running
from forewarn.cli.command import (
    Count,
    File,
    Folder,
    NotNegative,
    Number,
    Seed,
    command,
)
from forewarn.cli.episodes import sumo_world
from forewarn.cli.guarding import (
    GuardOptions,
    Saying,
    until,
)
from forewarn.cli.live import (
    Showing,
    watched_live,
)
from forewarn.cli.printing import (
    say,
    several,
)

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.monitors.guarding.decision import Action
    from forewarn.plugins.carla.guarded import Watching
    from forewarn.standins.carla.server import Server
    from forewarn.standins.carla.traffic import Stage


@click.group()
def carla() -> None:
    """Guard or record vehicles in CARLA, or test with a stand-in.

    Every command takes --json.
    """


@command(
    of=carla,
    epilog="Example: forewarn carla serve --map crossing, and then in Python "
    "carla.Client('127.0.0.1', 2000).get_world().",
)
def serve(
    *,
    port: Annotated[int, Count(0, 65534)] = 2000,
    host: str = "127.0.0.1",
    map_: Annotated[str | None, "NAME|FILE.xodr"] = None,
    seed: Seed = 0,
    rate: Annotated[float, Number(min=0.1, max=1000.0)] = 20.0,
    traffic: Annotated[float, Number(min=0.0, max=20000.0)] = 900.0,
    walkers: Annotated[float, Number(min=0.0, max=20000.0)] = 200.0,
    scenario: Annotated[str | None, "NAME|FILE"] = None,
    kinematic: bool = False,
    recordings: Folder | None = None,
    until_eof: bool = False,
) -> None:
    """Run a stand-in for CARLA 0.9.16.

    The stand-in provides CARLA's protocol and traffic, without rendering or physics. If
    libsumo is installed and supports the map, SUMO simulates traffic, pedestrians and
    traffic lights. The world restarts from --seed if a client enables synchronous mode
    before it spawns an actor.

    Args:
        port: Port for calls; streams use the next port. 0 picks two free ports.
        host: Address to listen on.
        map_: Name of a built-in map, or an OpenDRIVE file (default: crossing).
        seed: Random seed.
        rate: Ticks per second in asynchronous mode.
        traffic: Vehicles per hour that SUMO adds, if it supports the map.
        walkers: Pedestrians per hour.
        scenario: Driving scenario that provides the map, the traffic and the car, whose
            role_name is hero (not with --map or --kinematic).
        kinematic: Do not use SUMO; the only actors are those that clients spawn.
        recordings: Folder for recordings that clients create and replay (default: a
            temporary folder).
        until_eof: Exit when standard input is closed, for example because the parent
            process has exited.
    """
    from forewarn.abstractions.errors import MissingDependency, clean
    from forewarn.plugins.sumo import wire
    from forewarn.plugins.sumo.support import MAPS

    try:
        from forewarn.standins.carla.guests import Busy
        from forewarn.standins.carla.roads import Maps
        from forewarn.standins.carla.server import Server
        from forewarn.standins.carla.traffic import makes_traffic
    except ImportError as error:
        raise MissingDependency("the stand-in for CARLA", "carla") from error

    stage = None if scenario is None else _stage(scenario)
    if stage is not None:
        first = stage(seed).beginning
        map_ = str(first.map).replace(".net.xml", ".xodr")
        rate = 1.0 / first.period_s
    busy = None if kinematic else Busy(traffic, walkers)
    maps = {path.stem: path for path in sorted(MAPS.glob("*.xodr"))}
    sumo = None if find_spec("libsumo") is None else wire
    server = Server(
        Maps(maps), map_ or "crossing", makes_traffic(busy, sumo, stage), seed,
        host, port, rate, waits=stage is not None, folder=recordings,
        say=lambda problem: print(clean(problem), file=sys.stderr, flush=True),
    )  # fmt: skip
    asyncio.run(_serve(server, until_eof))


def _stage(name: str) -> Callable[[int], Stage]:
    """Returns a function from a seed to the traffic and surroundings of the run."""
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.carla.traffic import Stage

    found = load_scenario(name)

    def stage(seed: int) -> Stage:
        world = sumo_world(found, seed)
        return Stage(world.beginning, world.surroundings.model_dump())

    return stage


async def _serve(server: Server, until_eof: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def end(number: int) -> None:
        asked.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    if until_eof:
        standard_input = sys.stdin.fileno()

        def read() -> None:
            if not os.read(standard_input, 4096):
                stop.set()

        loop.add_reader(standard_input, read)

    def ready() -> None:
        facts = {
            "listening": f"{server.host}:{server.port}",
            "streams": server.port + 1,
            "map": server.world.roads.name,
        }
        text = f"Listening on {facts['listening']}, streams on {facts['streams']}."
        say(facts, [text])

    await server.serve(ready, stop)
    if signal.SIGINT in asked:
        raise KeyboardInterrupt


_NOTHING = (
    "Nothing was recorded, and no file was written: the vehicle {} was never on a "
    "road of the map. Check that a client drives it, and record for longer."
)


@dataclass(frozen=True, slots=True)
class Vehicle:
    """The vehicle, its server, and the time limit.

    Args:
        host: Host of the CARLA server.
        port: Port of the CARLA server.
        role_name: Attribute role_name of the vehicle.
        for_: Stop after this many seconds.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Count(1, 65535)] = 2000
    role_name: str = "hero"
    for_: NotNegative | None = None

    @property
    def server(self) -> str:
        """The address of the server."""
        return f"{self.host}:{self.port}"


@command(of=carla)
def guard(
    *,
    vehicle: Vehicle,
    asked: GuardOptions,
    traffic_manager: Annotated[int | None, Count(1, 65535)] = None,
    record: File | None = None,
    showing: Showing,
) -> None:
    """Guard a vehicle that another client drives.

    The server may run in synchronous or asynchronous mode. The guard reads snapshots
    and intervenes between ticks; it never ticks the world. The other client must keep
    driving. The last control before a tick takes effect, so a client that sends a
    control after the guard overrides the guard. If the vehicle does not obey, the guard
    notices this and escalates.

    \b
    Example:
      forewarn carla guard --model s2.json --policy stop.yaml

    Args:
        traffic_manager: Port of the Traffic Manager that drives the vehicle; to
            slow the vehicle, the guard then sets the Traffic Manager's target speed.
        record: Write the run record to this file.
    """
    from functools import partial

    from forewarn.plugins.carla.act import CarlaActuator, TrafficManagerActuator
    from forewarn.plugins.carla.beside import Beside, find_vehicle
    from forewarn.plugins.carla.guarded import SOURCE, GuardedVehicle
    from forewarn.plugins.carla.wire import answering, connect

    guarding = asked.guarding(record)
    asked.check(guarding, vocabulary="driving")
    asked.open(guarding, SOURCE)  # report errors in the policy before connecting
    alone = apart(vehicle.server)
    client = connect(vehicle.host, vehicle.port)
    with answering(vehicle.host, vehicle.port), ExitStack() as stack:
        world = client.get_world()
        # None in asynchronous mode with a variable time step.
        asked.check(guarding, period_s=world.get_settings().fixed_delta_seconds)
        ego = find_vehicle(world, vehicle.role_name)
        actuator: Callable[..., CarlaActuator] = CarlaActuator
        if traffic_manager is not None:
            manager = client.get_trafficmanager(traffic_manager)
            actuator = partial(TrafficManagerActuator, manager, ego)
        watching = stack.enter_context(watched_live(showing.live))
        guarding = replace(guarding, listeners=[*guarding.listeners, *watching])
        name = f"{vehicle.role_name} ({ego.type_id})"
        guarded = GuardedVehicle(world, ego, guarding, actuator=actuator, name=name)
        over = stack.enter_context(until(vehicle.for_))
        saying = Saying(guarded.guard, "the vehicle")
        head = f"Watching {name} at {vehicle.server}."
        saying.begins(head, {"vehicle": ego.type_id})

        def told(frame: Frame, executed: Action | None) -> None:
            if guarded.decision is not None and guarded.outcome is not None:
                saying.turn(guarded.decision, guarded.outcome)

        with Beside(client, world, guarded, told) as beside:
            beside.run(lambda: over() is not None or alone())
        saying.ends(
            "",
            {"lost": beside.lost},
            f"The connection was lost {several(beside.lost, 'time')}.",
        )


@command(of=carla)
def record(
    out: File,
    /,
    *,
    vehicle: Vehicle,
    from_: Annotated[str | None, "LOG"] = None,
) -> None:
    """Record the signals of a vehicle to the trace OUT.

    Any client may drive the vehicle. The recording begins when the vehicle is on a road
    and ends when it leaves the road. With --from, the server replays one of CARLA's own
    recordings, and the vehicle in the replay is recorded; no other client should drive
    meanwhile. The exit status is 1 if nothing was recorded.

    \b
    Example:
      forewarn carla record drive.jsonl.gz --for 60
      forewarn carla record drive.jsonl.gz --from recording01.log
      forewarn monitor drive.jsonl.gz --law 51_5

    Args:
        from_: Name of a recording on the server, as passed to start_recorder, to replay
            tick by tick.
    """
    from forewarn.abstractions.trace import TraceHeader, trace_writer
    from forewarn.plugins.carla.guarded import PROVIDES
    from forewarn.plugins.carla.wire import answering, connect

    alone = apart(vehicle.server)
    client = connect(vehicle.host, vehicle.port)
    frames, role = 0, vehicle.role_name
    ends_s = math.inf if vehicle.for_ is None else vehicle.for_
    ends = until(None if from_ else vehicle.for_)
    with answering(vehicle.host, vehicle.port), ends as over:
        with ExitStack() as stack:
            shots = _live(client, vehicle.role_name, over)
            if from_ is not None:
                shots = _played(client, from_, vehicle.role_name, over)
            writer = None
            for watching, snapshot in stack.enter_context(contextlib.closing(shots)):
                frame = watching.frame(snapshot)
                if not all(name in frame.values for name in PROVIDES):
                    if writer is not None:
                        break  # the vehicle has left the road
                    continue
                if from_ is not None and frame.time_s > ends_s:
                    break
                if alone():
                    break
                if writer is None:
                    header = TraceHeader(
                        vocabulary="driving", provides=PROVIDES, source="carla",
                        period_s=round(snapshot.timestamp.delta_seconds, 6),
                    )  # fmt: skip
                    writer = stack.enter_context(trace_writer(out, header))
                writer.write(frame)
                frames += 1
        written = str(out) if frames else None
        told = f"{frames} frames in {out}." if frames else _NOTHING.format(role)
        say({"frames": frames, "trace": written}, [told], found=not frames)


def _live(
    client: Any, role: str, over: Callable[[], str | None]
) -> Generator[tuple[Watching, Any]]:
    """Yields the snapshots of a world that other clients tick."""
    from forewarn.plugins.carla.beside import Newest, find_vehicle
    from forewarn.plugins.carla.guarded import Watching

    world = client.get_world()
    ego = find_vehicle(world, role)
    with Watching(world, ego) as watching, Newest(world) as newest:
        while not over() and ego.is_alive:
            snapshot = newest.wait(0.1)
            if snapshot is not None:
                yield watching, snapshot


def _played(
    client: Any, name: str, role: str, over: Callable[[], str | None]
) -> Generator[tuple[Watching, Any]]:
    """Yields the snapshots of a replayed recording, beginning when the vehicle
    appears.
    """
    from forewarn.plugins.carla.beside import find_vehicle
    from forewarn.plugins.carla.guarded import Watching
    from forewarn.plugins.carla.replayed import find_recording, replayed

    recording = find_recording(client, name)
    watching: Watching | None = None
    missing: InvalidInput | None = None
    with ExitStack() as stack:
        for world, snapshot in stack.enter_context(
            contextlib.closing(replayed(client, recording, lambda: over() is not None))
        ):
            if watching is None:
                try:
                    ego = find_vehicle(world, role, wait_s=0.0)
                except InvalidInput as error:
                    missing = error
                    continue
                watching = stack.enter_context(Watching(world, ego))
            yield watching, snapshot
    if watching is None and missing is not None:
        raise missing


_FAULTS = frozenset(("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"))


class ClientEnded(Unreachable):
    """CARLA's client library crashed while it handled a response from the server."""


def apart(where: str) -> Callable[[], bool]:
    """Forks, and returns in the child; the parent waits and exits with the child's
    status.

    The parent forwards signals, and reports a crash of CARLA's library in the child.

    Args:
        where: The address of the server, as shown in error messages.

    Returns:
        A function that tells whether the parent has exited; the child should then exit
        too.

    Raises:
        ClientEnded: In the parent, if CARLA's library crashed the child.
    """
    sys.stdout.flush()
    waits = os.getpid()
    child = os.fork()
    if not child:
        left_running.append("carla")
        return lambda: os.getppid() != waits
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended >= 0:
        raise SystemExit(ended)
    name = signal.Signals(-ended).name
    if name in _FAULTS:
        raise ClientEnded(
            f"CARLA's client library crashed ({name}) while it handled a response from "
            f"the server at {where}: the vehicle is no longer guarded, and its driver "
            "has full control"
        )
    raise SystemExit(128 - ended)
