"""`forewarn carla guard` and `record`: beside a client that somebody else runs."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.guarding.making import (
    Fitting,
    GuardMaker,
    Judging,
    announced,
    guard_options,
    watched,
)
from forewarn.cli.guarding.saying import Saying
from forewarn.cli.runs.episodes import Telling, person
from forewarn.cli.support import Count, Number, emit, json_option

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.monitors.guarding.decision import Action
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.record import RunRecord
    from forewarn.plugins.carla.guarded import Watching

_FILE = click.Path(dir_okay=False, path_type=Path)

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
@click.option("--shadow", is_flag=True, help="Decide everything, enforce nothing.")
@for_option
@click.option("--record", "record_path", type=_FILE, help="Where the run record goes.")
@json_option
def guard(
    host: str,
    port: int,
    role: str,
    model_path: Path,
    policy_path: Path | None,
    laws: tuple[str, ...],
    judging: Judging,
    telling: Telling,
    fitting: Fitting,
    intervene: str | None,
    manager_port: int | None,
    shadow: bool,
    for_s: float | None,
    record_path: Path | None,
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
    from forewarn.plugins.carla.act import CarlaActuator, TrafficManagerActuator
    from forewarn.plugins.carla.beside import Beside, find_vehicle
    from forewarn.plugins.carla.guarded import PROVIDES, GuardedVehicle
    from forewarn.plugins.carla.wire import answering, connect

    make = GuardMaker.of(model_path, policy_path, laws, shadow, judging, intervene)
    fitting.check(make, vocabulary="driving")
    made = make(PROVIDES)
    client = connect(host, port)
    with answering(host, port), ExitStack() as stack:
        world = client.get_world()
        # None where the server does not wait for anybody.
        period_s = world.get_settings().fixed_delta_seconds
        fitting.check(make, period_s=period_s)
        ego = find_vehicle(world, role)
        actuator = CarlaActuator()
        if manager_port is not None:
            manager = client.get_trafficmanager(manager_port)
            actuator = TrafficManagerActuator(manager, ego)
        kept = None
        if record_path is not None:
            kept = _open(record_path, made, model_path)
        guarded = GuardedVehicle(
            world,
            ego,
            made,
            actuator=actuator,
            alerts=telling.alerts(),
            approver=person(),
            record=kept,
        )
        over = stack.enter_context(_ended(for_s))
        head = f"Watching {role} ({ego.type_id}) at {host}:{port}."
        begins = {"vehicle": ego.type_id, **watched(made)}
        emit(as_json, begins, [head, *announced(made)])
        sys.stdout.flush()
        saying = Saying(as_json)

        def tell(frame: Frame, executed: Action | None) -> None:
            if guarded.decision is not None and guarded.outcome is not None:
                saying.told(guarded.decision, guarded.outcome)

        beside = stack.enter_context(Beside(client, world, guarded, tell))
        beside.run(over)
    counts = made.summary()["decisions"]
    facts = {
        "frames": saying.frames,
        "decisions": counts,
        "lost": beside.lost,
        "broken": dict(saying.broken),
    }
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    lines = [f"{saying.frames} frames: {told}; {beside.lost} losses.", saying.laws()]
    emit(as_json, facts, lines)


@click.command()
@click.argument("out", type=_FILE)
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

    client = connect(host, port)
    frames = 0
    with answering(host, port), ExitStack() as stack:
        over = stack.enter_context(_ended(None if recording else for_s))
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
            if writer is None:
                header = TraceHeader(
                    vocabulary="driving", provides=PROVIDES, source="carla",
                    period_s=round(snapshot.timestamp.delta_seconds, 6),
                )  # fmt: skip
                writer = stack.enter_context(trace_writer(out, header))
            writer.write(frame)
            frames += 1
    written = str(out) if frames else None
    told = f"{frames} frames in {out}." if frames else f"{_NOTHING.format(role)}."
    emit(as_json, {"frames": frames, "trace": written}, [told])
    if not frames:
        raise SystemExit(1)


_NOTHING = (
    "There was nothing to record, and no file is written: {} was on no road that is"
    " known while it was looked at; is it driven, and for long enough?"
)


def _live(
    client: Any, role: str, over: Callable[[], bool]
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
    client: Any, name: str, role: str, over: Callable[[], bool]
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
            contextlib.closing(replayed(client, recording, over))
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


@contextlib.contextmanager
def _ended(for_s: float | None) -> Iterator[Callable[[], bool]]:
    """Tells when the time is over, or somebody wants to end it."""
    asked = False

    def end(*_: Any) -> None:
        nonlocal asked
        asked = True

    until_s = math.inf if for_s is None else time.monotonic() + for_s
    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked or time.monotonic() >= until_s
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _open(path: Path, guard: Guard, model_path: Path) -> RunRecord:
    from forewarn.plugins.carla.guarded import PROVIDES
    from forewarn.plugins.loop.records import keep_model, open_record

    model = {"sha256": keep_model(model_path, path.parent), "name": model_path.name}
    return open_record(
        path,
        model,
        guard.policy,
        guard.watch,
        judges=guard.judges,
        scenario={"name": "carla"},
        source="carla",
        vocabulary="driving",
        provides=PROVIDES,
    )
