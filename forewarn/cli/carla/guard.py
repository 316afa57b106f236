"""`forewarn carla guard` and `record`: beside a client that somebody else runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.carla.apart import apart
from forewarn.cli.guarding.making import Asked, guard_options
from forewarn.cli.guarding.saying import Saying, until
from forewarn.cli.options.live import live_option, watched_live
from forewarn.cli.support import FILE, Count, Number, emit, json_option

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.monitors.guarding.decision import Action
    from forewarn.plugins.carla.guarded import Watching

_NOTHING = (
    "There was nothing to record, and no file is written: {} was on no road that is"
    " known while it was looked at; is it driven, and for long enough?"
)

host_option = click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where the server runs."
)
port_option = click.option(
    "--port",
    type=Count(1, 65535),
    default=2000,
    show_default=True,
    help="The server's port.",
)
role_option = click.option(
    "--role-name",
    "role",
    default="hero",
    show_default=True,
    help="The role_name of the vehicle.",
)
for_option = click.option(
    "--for", "for_s", type=Number(min=0.0), help="End after so many seconds."
)


@click.command()
@host_option
@port_option
@role_option
@guard_options
@click.option(
    "--traffic-manager",
    "manager_port",
    type=Count(1, 65535),
    help="The port of the Traffic Manager that drives it: slow then turns its knob.",
)
@for_option
@click.option("--record", "record_path", type=FILE, help="Where the run record goes.")
@live_option
@json_option
def guard(
    host: str,
    port: int,
    role: str,
    asked: Asked,
    manager_port: int | None,
    for_s: float | None,
    record_path: Path | None,
    live: str | None,
    as_json: bool,
) -> None:
    """Guard a vehicle that another client drives, in synchronous mode or not.

    It watches snapshots, never ticks, and steps in between ticks. Whoever drives must
    go on doing so: the last control before a tick counts, so a driver who sends its
    own late can win some of them; what the world then shows is judged, and escalates.

    \b
    Example:
      forewarn carla guard --model s2.json --policy stop.yaml
    """
    from functools import partial

    from forewarn.plugins.carla.act import CarlaActuator, TrafficManagerActuator
    from forewarn.plugins.carla.beside import Beside, find_vehicle
    from forewarn.plugins.carla.guarded import SOURCE, GuardedVehicle
    from forewarn.plugins.carla.wire import answering, connect

    guarding = asked.guarding(record_path)
    asked.check(guarding, vocabulary="driving")
    asked.open(guarding, SOURCE)  # what is wrong with it shows before it connects
    alone = apart(f"{host}:{port}")
    client = connect(host, port)
    with answering(host, port), ExitStack() as stack:
        world = client.get_world()
        # None where the server does not wait for anybody.
        asked.check(guarding, period_s=world.get_settings().fixed_delta_seconds)
        ego = find_vehicle(world, role)
        actuator: Callable[..., CarlaActuator] = CarlaActuator
        if manager_port is not None:
            manager = client.get_trafficmanager(manager_port)
            actuator = partial(TrafficManagerActuator, manager, ego)
        watching = stack.enter_context(watched_live(live))
        guarding = replace(guarding, listeners=[*guarding.listeners, *watching])
        name = f"{role} ({ego.type_id})"
        guarded = GuardedVehicle(world, ego, guarding, actuator=actuator, name=name)
        over = stack.enter_context(until(for_s))
        saying = Saying(guarded.guard, "the vehicle", as_json)
        head = f"Watching {role} ({ego.type_id}) at {host}:{port}."
        saying.begins(head, {"vehicle": ego.type_id})

        def told(frame: Frame, executed: Action | None) -> None:
            if guarded.decision is not None and guarded.outcome is not None:
                saying.turn(guarded.decision, guarded.outcome)

        with Beside(client, world, guarded, told) as beside:
            beside.run(lambda: over() is not None or alone())
        saying.ends("", {"lost": beside.lost}, f"{beside.lost} losses.")


@click.command()
@click.argument("out", type=FILE)
@host_option
@port_option
@role_option
@for_option
@click.option(
    "--from",
    "recording",
    metavar="LOG",
    help="A recording that the server has, as start_recorder was given its name: it is"
    " played, tick by tick.",
)
@json_option
def record(
    out: Path,
    host: str,
    port: int,
    role: str,
    for_s: float | None,
    recording: str | None,
    as_json: bool,
) -> None:
    """Write what a vehicle perceives to OUT, a trace, while anything drives it.

    It begins when the vehicle is on a road, and ends when it leaves it. With --from it
    is what the vehicle perceived in a recording of CARLA's own, which the server plays:
    nobody else should drive in its world meanwhile. Exit status 1: there was nothing
    to record.

    \b
    Example:
      forewarn carla record drive.jsonl.gz --for 60
      forewarn carla record drive.jsonl.gz --from recording01.log
      forewarn monitor drive.jsonl.gz --law 51_5
    """
    from forewarn.abstractions.trace import TraceHeader, trace_writer
    from forewarn.plugins.carla.guarded import PROVIDES
    from forewarn.plugins.carla.wire import answering, connect

    alone = apart(f"{host}:{port}")
    client = connect(host, port)
    frames = 0
    ends = until(None if recording else for_s)
    with answering(host, port), ends as over:
        with ExitStack() as stack:
            shots = _live(client, role, over)
            if recording is not None:
                shots = _played(client, recording, role, over)
            writer = None
            for watching, snapshot in stack.enter_context(contextlib.closing(shots)):
                frame = watching.frame(snapshot)
                if not all(name in frame.values for name in PROVIDES):
                    if writer is not None:
                        break  # it has left the road
                    continue
                if recording is not None and for_s is not None and frame.time_s > for_s:
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
        emit(as_json, {"frames": frames, "trace": written}, [told])
        if not frames:
            raise SystemExit(1)


def _live(
    client: Any, role: str, over: Callable[[], str | None]
) -> Generator[tuple[Watching, Any]]:
    """The snapshots of a world that others tick."""
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
    """The snapshots of a recording, from when the vehicle is in it."""
    from forewarn.abstractions.errors import InvalidInput
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
