"""`forewarn apollo signals`: a record's channels as signals, or as a trace."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.apollo.shared import (
    body_option,
    body_size,
    edition_option,
    map_option,
    surroundings,
    told_option,
)
from forewarn.cli.support import Number, clean, json_option, progress

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.apollo_bridge.channels import Edition
    from forewarn.apollo_bridge.recordings import RecordedDrive


@click.command()
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
@map_option
@click.option(
    "--period",
    "period_s",
    type=Number(min=0.001, max=60.0),
    default=0.1,
    show_default=True,
    help="Seconds between frames.",
)
@told_option
@body_option
@edition_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a trace there, for learn, monitor and measure.",
)
@json_option
def signals(
    record: Path,
    map_path: Path | None,
    period_s: float,
    told: tuple[str, ...],
    body: str | None,
    edition: Edition,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read a .record file as the signals of driving.

    With --json a line for each frame: {"time_s": …, "signals": {…}}. A signal that is
    not known at a moment is left out; null is known not to be there. Where a message
    says what cannot be, "fault" says which, and what it touches is left out.

    \b
    Examples:
      forewarn apollo signals drive.record --map maps --json
      forewarn apollo signals drive.record --map maps --out drive.jsonl.gz
    """
    from forewarn.apollo_bridge.channels import messages
    from forewarn.apollo_bridge.maps import load_map
    from forewarn.apollo_bridge.recordings import RecordedDrive
    from forewarn.apollo_bridge.scene import Body

    drive = RecordedDrive(
        record,
        messages(edition),
        None if map_path is None else load_map(map_path),
        body=Body(**(body_size(body) or {})),
        told=surroundings(told),
        period_s=period_s,
    )
    if out is not None:
        frames = _written(drive, out, record, period_s)
    else:
        frames = drive.frames()
    if as_json:
        for frame in frames:
            line = {"time_s": frame.time_s, "signals": dict(frame.values)}
            fault = {"fault": drive.fault} if drive.fault else {}
            sys.stdout.write(json.dumps({**line, **fault}, allow_nan=False) + "\n")
        if drive.faults:
            click.echo(_faults(drive), err=True)
        return
    for text in _summary(drive, progress(frames, "frames"), out):
        click.echo(clean(text))


def _written(
    drive: RecordedDrive, out: Path, record: Path, period_s: float
) -> Iterator[Frame]:
    """The frames that carry what is known nearly always, written as they come."""
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
        yield f"The trace: {out}"


def _faults(drive: RecordedDrive) -> str:
    return f"{drive.faults} frames have messages that say what cannot be."
