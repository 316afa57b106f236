"""`forewarn apollo`: guard a running Apollo, record it, and test without it."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.apollo.guard import guard
from forewarn.cli.apollo.shared import (
    drive,
    edition_option,
    ended_by_signals,
    pace_option,
    way,
    way_options,
)
from forewarn.cli.apollo.signals import signals
from forewarn.cli.support import Count, Number, emit, json_option, seed_option

if TYPE_CHECKING:
    from forewarn.apollo_bridge.channels import Edition
    from forewarn.apollo_bridge.wire import Bus

FILE = click.Path(dir_okay=False, path_type=Path)
QUEUED = 10_000
"""So many messages may wait to be written before more of them are lost."""


@click.group()
def apollo() -> None:
    """Apollo: guard it, record it, and test without it.

    Every command takes --json. `forewarn doctor apollo` says what is usable here.
    """


@apollo.command()
@click.argument("what", metavar="SCENARIO|RECORD")
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen there.")
@click.option(
    "--port",
    type=Count(0, 65535),
    default=9090,
    show_default=True,
    help="The port; 0 takes one that is free.",
)
@click.option(
    "--allow-remote", is_flag=True, help="Listen where others can reach it, unguarded."
)
@seed_option
@click.option(
    "--episodes",
    type=Count(min=0),
    default=0,
    help="So many of a scenario; by default they go on.",
)
@pace_option
@edition_option
@click.option("--guardian", is_flag=True, help="Its guardian is enabled.")
@json_option
def serve(
    what: str,
    host: str,
    port: int,
    allow_remote: bool,
    seed: int,
    episodes: int,
    pace: float,
    edition: Edition,
    guardian: bool,
    as_json: bool,
) -> None:
    """A stand-in for Apollo: cyber_bridge, its channels, and a car that obeys.

    It drives a scenario that runs on SUMO, episode after episode, or says what a
    .record file holds. Guards may connect and stop the car, as they can with Apollo.

    \b
    Example:
      forewarn apollo map crossing --out maps/base_map.bin
      forewarn apollo serve s2
      forewarn apollo guard --bridge tcp://127.0.0.1:9090 --map maps --model s2.json
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.apollo_bridge import frames
    from forewarn.apollo_bridge.recordings import read_record
    from forewarn.plugins.loop.alerts import is_loopback
    from forewarn.standins.apollo.play import play_record
    from forewarn.standins.apollo.server import BridgeServer, FakeCyber

    if not allow_remote and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from elsewhere, and cyber_bridge has no passwords",
            mend="listen on 127.0.0.1, or say --allow-remote",
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
        emit(as_json, {"listening": address}, [f"Listening on {address}."])
        sys.stdout.flush()
        count = 0
        if record is not None:
            count = play_record(
                cyber, read_record(record), pace, lambda: not going.is_set()
            )
            emit(as_json, {"messages": count}, [f"{count} messages."])
        elif playing is not None:
            for why in playing.play(seed, pace, lambda: not going.is_set()):
                count += 1
                emit(as_json, {"episode": seed + count - 1, "ended": why}, [f"{why}."])
                sys.stdout.flush()
                if count == episodes:
                    break


@apollo.command("map")
@click.argument("name", metavar="NAME|FILE.net.xml")
@click.option(
    "--out",
    type=FILE,
    required=True,
    help="The file: base_map.bin, or base_map.txt for people.",
)
@json_option
def map_(name: str, out: Path, as_json: bool) -> None:
    """Write one of our maps, or any of SUMO's nets, in Apollo's form.

    \b
    Example:
      forewarn apollo map crossing --out maps/crossing/base_map.bin
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
    emit(as_json, {"map": str(out), "bytes": len(data), **counts}, [f"{out}: {told}."])


@apollo.command()
@click.argument("out", type=FILE)
@way_options
@click.option(
    "--for",
    "for_s",
    type=Number(min=0.0),
    help="Seconds; by default until Ctrl-C.",
)
@edition_option
@json_option
def record(
    out: Path,
    bridge: str | None,
    node: bool,
    for_s: float | None,
    edition: Edition,
    as_json: bool,
) -> None:
    """Write what Apollo says to a .record file, for learn and measure.

    \b
    Example:
      forewarn apollo record drive.record --bridge tcp://127.0.0.1:9090 --for 60
    """
    from forewarn.apollo_bridge import channels
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.recordings import write_record
    from forewarn.apollo_bridge.wire import connect

    known = messages(edition)
    ending = threading.Event()
    with (
        ended_by_signals(ending.set),
        contextlib.closing(connect(way(bridge, node), newest_only=False)) as bus,
    ):
        heard = _Heard()
        for channel in (*channels.INPUTS.values(), *channels.ROUTES[edition].values()):
            bus.create_reader(channel.name, known[channel.type], heard, channel.name)
        until_s = None if for_s is None else time.monotonic() + for_s
        try:
            count = write_record(out, heard.said(ending, until_s))
        except KeyboardInterrupt:
            count = heard.count
        if not count:
            _refuse_silence(bus, out)
    facts = {"record": str(out), "messages": count, "lost": heard.lost}
    emit(as_json, facts, [f"{out}: {count} messages, {heard.lost} lost."])


class _Heard:
    """What came, on its way from the bus's thread to the file."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[str, Any, int]] = queue.Queue(QUEUED)
        self._last_ns = 0
        self.count = self.lost = 0

    def __call__(self, message: Any, channel: str) -> None:
        from forewarn.apollo_bridge.wire import stamp

        stamped = stamp(message)
        time_ns = time.time_ns() if stamped is None else round(stamped * 1e9)
        # Channels are not stamped in the order in which they come.
        self._last_ns = max(self._last_ns, time_ns)
        try:
            self._queue.put_nowait((channel, message, self._last_ns))
        except queue.Full:
            self.lost += 1

    def said(
        self, ending: threading.Event, until_s: float | None
    ) -> Iterator[tuple[str, Any, int]]:
        """What came, until the end."""
        try:
            while not ending.is_set():
                if until_s is not None and time.monotonic() >= until_s:
                    return
                with contextlib.suppress(queue.Empty):
                    yield self._queue.get(timeout=0.1)
                    self.count += 1
        except KeyboardInterrupt:
            return  # the file is to be closed as files are


def _refuse_silence(bus: Bus, out: Path) -> None:
    from forewarn.abstractions.errors import InvalidInput

    out.unlink(missing_ok=True)
    raise InvalidInput(
        "nothing came" + (f" ({bus.health.problem})" if bus.health.problem else ""),
        mend="is Apollo running?",
    )


@apollo.command()
@way_options
@edition_option
@json_option
def resume(bridge: str | None, node: bool, edition: Edition, as_json: bool) -> None:
    """Let Apollo drive on after a guard has stopped it.

    A stop stays when the guard that asked for it has ended; this takes it back.

    \b
    Example:
      forewarn apollo resume --bridge tcp://127.0.0.1:9090
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.apollo_bridge import channels
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.commander import Commander, Paths
    from forewarn.apollo_bridge.wire import Inbox, connect

    known = messages(edition)
    with contextlib.closing(connect(way(bridge, node))) as bus:
        wanted = {n: channels.INPUTS[n] for n in ("chassis", "planning")}
        inbox = Inbox(bus, wanted, known)
        commander = Commander(bus, known, inbox, Paths())
        heard = inbox.wait(lambda: inbox.newest("planning") is not None, 5.0)
        commander.resume()
        shown = inbox.wait(lambda: commander.telemetry.emergency_stop is False, 3.0)
        if not heard:
            raise InvalidInput(
                f"planning says nothing ({bus.health.problem})",
                mend="is Apollo running?",
            )
    emit(
        as_json,
        {"resumed": shown},
        ["It drives on." if shown else "It was told to drive on; it does not show."],
    )
    if not shown:
        raise SystemExit(1)


apollo.add_command(guard)
apollo.add_command(signals)
