"""`forewarn apollo`: guards and records Apollo, or a stand-in for it."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.command import (
    AnyPath,
    File,
    NotNegative,
    Number,
    Port,
    Seed,
    command,
    one_of,
)
from forewarn.cli.episodes import sumo_world
from forewarn.cli.printing import (
    note,
    progress,
    say,
    tell,
    wants_json,
)

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.apollo_bridge.recordings import RecordedDrive
    from forewarn.apollo_bridge.wire import Bus
    from forewarn.standins.apollo.play import StandIn
    from forewarn.standins.apollo.server import FakeCyber


Edition = Literal[8, 9]
QUEUED = 10_000
"""The maximum number of messages waiting to be written; further messages are lost."""

_LEAP_NS = 10 * 10**9
"""The largest jump in message time, in ns, that needs no second message to confirm
it.
"""

_LATEST_S = 9e9
"""The latest time that a record can store, in s."""

Pace = Annotated[float, Number(min=0.0, max=1000.0)]


@dataclass(frozen=True, slots=True)
class Connection:
    """How to connect to Apollo.

    Args:
        bridge: Connect to Apollo's cyber_bridge at this address.
        node: Run as a Cyber RT node inside Apollo's container.
    """

    bridge: Annotated[str | None, "tcp://HOST:PORT"] = None
    node: bool = False

    def chosen(self) -> str:
        """Returns the chosen connection: the bridge's address, or `node`."""
        one_of("--bridge tcp://HOST:PORT", "--node")
        return self.bridge or "node"


@dataclass(frozen=True, slots=True)
class ApolloSurroundings:
    """The map, and facts about the surroundings that Apollo's channels do not provide.

    Args:
        map_: Folder or file of Apollo's map.
        told: Value of a signal that no channel provides, such as rain=0.2 or
            time_of_day=21; may be repeated.
        body: Distances from the rear axle to the front and back of the car, and its
            width, in m (default: Apollo's standard car).
        edition: Message format: 9 for Apollo 9 and later, 8 for Apollo 8 and earlier.
    """

    map_: AnyPath | None = None
    told: tuple[Annotated[str, "SIGNAL=VALUE"], ...] = ()
    body: Annotated[str | None, "FRONT,BACK,WIDTH"] = None
    edition: Edition = 9

    def road_map(self) -> Path:
        """Returns the path of Apollo's map."""
        if self.map_ is None:
            raise click.UsageError("give --map, the folder or file of Apollo's map")
        return self.map_

    def surroundings(self) -> dict[str, Any]:
        """Returns the values of --told, parsed and checked."""
        from forewarn.abstractions.errors import InvalidInput, suggest
        from forewarn.abstractions.files import parse_yaml
        from forewarn.abstractions.serial import validated
        from forewarn.plugins.driving.sense import Surroundings

        given: dict[str, Any] = {}
        for each in self.told:
            name, equals, value = each.partition("=")
            if not equals or name not in Surroundings.model_fields:
                raise InvalidInput(
                    f"--told takes SIGNAL=VALUE, not {each!r:.60}",
                    mend=suggest(name, Surroundings.model_fields),
                )
            given[name] = parse_yaml(value, "--told")
        checked = validated(Surroundings, given, "--told")
        return {name: getattr(checked, name) for name in given}

    def size(self) -> dict[str, float] | None:
        """Returns the dimensions of the car from --body; None if not given."""
        text = self.body
        if text is None:
            return None
        try:
            front, back, width = (float(part) for part in text.split(","))
        except ValueError:
            raise click.UsageError(
                f"--body takes FRONT,BACK,WIDTH in m, not {text!r:.60}"
            ) from None
        if not (0 < front < 30 and 0 <= back < 30 and 0 < width < 10):
            raise click.UsageError(f"--body {text!r:.60} is not a plausible car size")
        return {"front_m": front, "back_m": back, "width_m": width}


def drive(
    scenario: str, seed: int, cyber: FakeCyber, edition: Edition, guardian: bool
) -> StandIn:
    """Creates a stand-in that drives a scenario."""
    from forewarn.apollo_bridge.channels import messages
    from forewarn.plugins.registry import make_pilot
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.apollo.play import StandIn

    wanted = load_scenario(scenario)
    world = sumo_world(wanted, seed)
    settings = wanted.settings(wanted.pilot, seed)
    pilot = make_pilot(wanted.pilot.name, settings, wanted.source)
    return StandIn(
        cyber, messages(edition), world, pilot, guardian=guardian,
        max_time_s=wanted.end.max_time_s,
    )  # fmt: skip


@contextlib.contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Calls `end` on SIGTERM and at the end of the block."""
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        end()


@click.group()
def apollo() -> None:
    """Guard or record a running Apollo system, or test with a stand-in.

    Every command takes --json. `forewarn doctor apollo` lists what is available on this
    machine.
    """


@command(of=apollo)
def serve(
    what: Annotated[str, "SCENARIO|RECORD"],
    /,
    *,
    host: str = "127.0.0.1",
    port: Port = 9090,
    allow_remote: bool = False,
    seed: Seed = 0,
    episodes: Annotated[Seed, "COUNT"] = 0,
    pace: Pace = 1.0,
    edition: Edition = 9,
    guardian: bool = False,
) -> None:
    """Run a stand-in for Apollo.

    The stand-in provides a cyber_bridge and its channels. It drives a SUMO scenario
    repeatedly, or replays a .record file. Guards can connect to it and stop the car, as
    with Apollo.

    \b
    Example:
      forewarn apollo map crossing --out maps/base_map.bin
      forewarn apollo serve s2
      forewarn apollo guard --bridge tcp://127.0.0.1:9090 --map maps --model s2.json

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 picks a free one.
        allow_remote: Allow an address that other machines can reach. cyber_bridge has
            no password.
        seed: Seed of the first run; each run has the next seed.
        episodes: Number of runs. 0: unlimited.
        pace: Speed of the stand-in relative to real time. 0: as fast as possible.
        edition: Message format: 9 for Apollo 9 and later, 8 for Apollo 8 and earlier.
        guardian: Enable the stand-in's guardian module.
    """
    from forewarn.apollo_bridge import frames
    from forewarn.apollo_bridge.recordings import read_record
    from forewarn.plugins.loop.alerts import is_loopback
    from forewarn.standins.apollo.play import play_record
    from forewarn.standins.apollo.server import BridgeServer, FakeCyber

    if not allow_remote and not is_loopback(host):
        raise InvalidInput(
            f"other machines can reach {host}, and cyber_bridge has no password",
            mend="listen on 127.0.0.1, or add --allow-remote",
        )
    cyber = FakeCyber()
    record = Path(what) if what.endswith(".record") else None
    playing = None if record else drive(what, seed, cyber, edition, guardian)
    going = threading.Event()
    with (
        ended_by_signals(going.set),
        contextlib.closing(BridgeServer(cyber, frames, host, port)) as server,
    ):
        address = f"tcp://{host}:{server.port}"
        say({"listening": address}, [f"Listening on {address}."])
        count = 0
        if record is not None:
            count = play_record(
                cyber, read_record(record), pace, lambda: not going.is_set()
            )
            say({"messages": count}, [f"{count} messages."])
        elif playing is not None:
            for why in playing.play(seed, pace, lambda: not going.is_set()):
                count += 1
                say({"episode": seed + count - 1, "ended": why}, [f"{why}."])
                if count == episodes:
                    break


@command(of=apollo)
def map_(
    name: Annotated[str, "NAME|FILE.net.xml"],
    /,
    *,
    out: File,
) -> None:
    """Convert a built-in map or a SUMO network to Apollo's map format.

    \b
    Example:
      forewarn apollo map crossing --out maps/crossing/base_map.bin

    Args:
        out: Output file: base_map.bin (binary) or base_map.txt (text).
    """
    from google.protobuf import text_format

    from forewarn.abstractions.files import atomic_bytes
    from forewarn.apollo_bridge.lockstep import draw_map

    made = draw_map(name)
    text = out.suffix == ".txt"
    data = text_format.MessageToBytes(made) if text else made.SerializeToString()
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_bytes(out) as file:
        file.write(data)
    counts = {
        "lanes": len(made.lane),
        "junctions": len(made.junction),
        "signals": len(made.signal),
        "crosswalks": len(made.crosswalk),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    say({"map": str(out), "bytes": len(data), **counts}, [f"{out}: {told}."])


@command(of=apollo)
def record(
    out: File,
    /,
    *,
    way: Connection,
    for_: NotNegative | None = None,
    edition: Edition = 9,
) -> None:
    """Record Apollo's messages to a .record file.

    \b
    Example:
      forewarn apollo record drive.record --bridge tcp://127.0.0.1:9090 --for 60

    Args:
        for_: Stop after this many seconds (default: record until interrupted).
        edition: Message format: 9 for Apollo 9 and later, 8 for Apollo 8 and earlier.
    """
    from forewarn.apollo_bridge import channels
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.recordings import write_record
    from forewarn.apollo_bridge.tcp import connect

    known = messages(edition)
    ending = threading.Event()
    with (
        ended_by_signals(ending.set),
        contextlib.closing(connect(way.chosen(), newest_only=False)) as bus,
    ):
        heard = _Heard()
        for channel in (*channels.INPUTS.values(), *channels.ROUTES[edition].values()):
            bus.create_reader(channel.name, known[channel.type], heard, channel.name)
        until_s = None if for_ is None else time.monotonic() + for_
        try:
            count = write_record(out, heard.said(ending, until_s))
        except KeyboardInterrupt:
            count = heard.count
        if not count:
            _refuse_silence(bus, out)
    facts = {"record": str(out), "messages": count, "lost": heard.lost}
    say(facts, [f"{out}: {count} messages, {heard.lost} lost."])


class _Heard:
    """A queue of messages from the thread of the bus to the writer of the file."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[str, Any, int]] = queue.Queue(QUEUED)
        self._last_ns = self._leapt_ns = 0
        self.count = self.lost = 0

    def __call__(self, message: Any, channel: str) -> None:
        try:
            self._queue.put_nowait((channel, message, self._time_ns(message)))
        except queue.Full:
            self.lost += 1

    def _time_ns(self, message: Any) -> int:
        """Returns the time of a message in ns.

        If the time jumps in a single message only, the last plausible time is returned.
        Messages may arrive out of order.
        """
        from forewarn.apollo_bridge.wire import stamp

        stamped = stamp(message)
        if stamped is None or stamped > _LATEST_S:
            self._last_ns = self._last_ns or time.time_ns()
            return self._last_ns
        time_ns = round(stamped * 1e9)
        if not self._last_ns or abs(time_ns - self._last_ns) <= _LEAP_NS:
            self._last_ns = max(self._last_ns, time_ns)
        elif abs(time_ns - self._leapt_ns) <= _LEAP_NS:
            self._last_ns = time_ns
        else:
            self._leapt_ns = time_ns
        return self._last_ns

    def said(
        self, ending: threading.Event, until_s: float | None
    ) -> Iterator[tuple[str, Any, int]]:
        """Yields the messages until the recording ends."""
        try:
            while not ending.is_set():
                if until_s is not None and time.monotonic() >= until_s:
                    return
                with contextlib.suppress(queue.Empty):
                    yield self._queue.get(timeout=0.1)
                    self.count += 1
        except KeyboardInterrupt:
            return  # return normally, so that the file is closed properly


def _refuse_silence(bus: Bus, out: Path) -> None:
    out.unlink(missing_ok=True)
    raise InvalidInput(
        "no messages were received"
        + (f" ({bus.health.problem})" if bus.health.problem else ""),
        mend="is Apollo running?",
    )


@command(of=apollo)
def resume(
    *,
    way: Connection,
    edition: Edition = 9,
) -> None:
    """Let Apollo continue after a guard has stopped it.

    A stop remains in force after the guard has exited; this command lifts it.

    \b
    Example:
      forewarn apollo resume --bridge tcp://127.0.0.1:9090

    Args:
        edition: Message format: 9 for Apollo 9 and later, 8 for Apollo 8 and earlier.
    """
    from forewarn.apollo_bridge import channels
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.commander import Commander, Paths
    from forewarn.apollo_bridge.tcp import connect
    from forewarn.apollo_bridge.wire import Inbox

    known = messages(edition)
    with contextlib.closing(connect(way.chosen())) as bus:
        wanted = {n: channels.INPUTS[n] for n in ("chassis", "planning")}
        inbox = Inbox(bus, wanted, known)
        commander = Commander(bus, known, inbox, Paths())
        heard = inbox.wait(lambda: inbox.newest("planning") is not None, 5.0)
        commander.resume()
        shown = inbox.wait(lambda: commander.telemetry.emergency_stop is False, 3.0)
        if not heard:
            raise InvalidInput(
                f"Apollo's planning module sends nothing ({bus.health.problem})",
                mend="is Apollo running?",
            )
    said = (
        "Apollo can continue."
        if shown
        else ("The request was sent, but Apollo has not confirmed it.")
    )
    say({"resumed": shown}, [said], found=not shown)


@command(of=apollo)
def signals(
    record: File,
    /,
    *,
    period: Annotated[float, Number(min=0.001, max=60.0)] = 0.1,
    around: ApolloSurroundings,
    out: File | None = None,
) -> None:
    """Convert a .record file to driving signals.

    With --json, prints one line per frame: {"time_s": …, "signals": {…}}. Signals with
    unknown values are omitted; null means that the object does not exist. If a message
    contains an impossible value, "fault" names it, and the signals that depend on it
    are omitted.

    \b
    Examples:
      forewarn apollo signals drive.record --map maps --json
      forewarn apollo signals drive.record --map maps --out drive.jsonl.gz

    Args:
        period: Seconds between frames.
        out: Write the signals as a trace to this file.
    """
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.maps import load_map
    from forewarn.apollo_bridge.recordings import RecordedDrive
    from forewarn.apollo_bridge.scene import Body

    drive = RecordedDrive(
        record,
        messages(around.edition),
        load_map(around.road_map()),
        body=Body(**(around.size() or {})),
        told=around.surroundings(),
        period_s=period,
    )
    if out is not None:
        frames = _written(drive, out, record, period)
    else:
        frames = drive.frames()
    if wants_json():
        for frame in frames:
            line = {"time_s": frame.time_s, "signals": dict(frame.values)}
            fault = {"fault": drive.fault} if drive.fault else {}
            say({**line, **fault}, ())
        if drive.faults:
            note(_faults(drive))
        return
    tell(_summary(drive, progress(frames, "frames"), out))


def _written(
    drive: RecordedDrive, out: Path, record: Path, period_s: float
) -> Iterator[Frame]:
    """Writes a trace of the signals that are known in nearly every frame.

    Frames in which one of these signals is unknown are left out. Yields the frames that
    were written, with all their signals.
    """
    from forewarn.abstractions.frame import Frame
    from forewarn.abstractions.trace import TraceHeader, trace_writer

    provides = drive.steady()
    header = TraceHeader(
        "driving", provides, period_s, source=f"Apollo record {record.name}"
    )
    with trace_writer(out, header) as writer:
        for frame in drive.frames():
            if all(name in frame.values for name in provides):
                known = {name: frame.values[name] for name in provides}
                writer.write(Frame(frame.time_s, frame.sequence, known))
                yield frame


def _summary(
    drive: RecordedDrive, frames: Iterator[Frame], out: Path | None
) -> Iterator[str]:
    known: Counter[str] = Counter()
    count, last_s = 0, 0.0
    for frame in frames:
        known.update(frame.values.keys())
        count, last_s = count + 1, frame.time_s
    yield f"{count} frames in {last_s:.1f} s, from {', '.join(drive.channels)}."
    missing: dict[int, list[str]] = {}
    for name in drive.provides:
        missing.setdefault(count - known[name], []).append(name)
    for lacking, names in sorted(missing.items()):
        where = f"missing in {lacking} frames" if lacking else "in every frame"
        yield f"{len(names)} signals {where}: {', '.join(names)}."
    if drive.faults:
        yield _faults(drive)
    if out is not None:
        yield f"Trace written to {out}"


def _faults(drive: RecordedDrive) -> str:
    return f"{drive.faults} frames contain messages with impossible values."
