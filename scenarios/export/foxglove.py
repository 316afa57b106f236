"""A run as an MCAP log that Foxglove opens.

Every message is JSON with a JSON schema. The log's clock is the run's, from zero, so
the same record gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import MissingDependency
from forewarn.abstractions.files import atomic_bytes
from forewarn.scenarios.export import topics
from forewarn.scenarios.report.runs import Run, vocabulary_of

Message = tuple[str, float, dict[str, Any]]
"""A topic, a time in seconds, and what is said."""


def write_mcap(run: Run, path: Path) -> dict[str, int]:
    """Writes a run as an MCAP file.

    Returns:
        How many messages each topic has.

    Raises:
        MissingDependency: Without the extra `mcap`.
    """
    try:
        from mcap.writer import Writer
    except ImportError as error:
        raise MissingDependency("writing MCAP", "mcap") from error
    laws = [law.name for law in run.laws]
    seen = run.scenery is not None
    schemas = topics.schemas(laws, run.signals, vocabulary_of(run), seen)
    counts: dict[str, int] = {}
    buffer = BytesIO()
    writer: Any = Writer(buffer)
    writer.start("", f"forewarn {__version__}")
    channels: dict[str, int] = {}
    for topic, (name, schema) in schemas.items():
        data = json.dumps(schema).encode()
        number = writer.register_schema(name, "jsonschema", data)
        channels[topic] = writer.register_channel(topic, "json", number)
    for topic, time_s, content in _messages(run):
        at = round(time_s * 1e9)
        counts[topic] = counts.get(topic, 0) + 1
        data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        writer.add_message(channels[topic], at, data, at, counts[topic])
    writer.finish()
    with atomic_bytes(path) as out:
        out.write(buffer.getvalue())
    return counts


def _messages(run: Run) -> Iterator[Message]:
    """All messages in the order of their times."""
    started = run.times_s[0]
    if run.scenery is not None:
        yield "/ground", started, topics.ground(run.scenery.ground, started)
    moments = {m.sequence: m for m in run.scenery.moments} if run.scenery else {}
    named = topics.risk_topics([law.name for law in run.laws])
    events = list(run.events)
    for i, time_s in enumerate(run.times_s):
        values = {name: topics.plain(each[i]) for name, each in run.signals.items()}
        yield "/signals", time_s, values
        for topic, law in zip(named, run.laws, strict=True):
            least = min((at for _, at in law.steps), default=None)
            said = topics.risk_message(law.name, law.risks[i], law.left_s[i], least)
            yield topic, time_s, said
        yield "/decision", time_s, {"decision": run.decisions[i]}
        moment = moments.get(run.sequences[i])
        if moment is not None:
            yield "/scene", time_s, topics.scene(moment.things.values(), time_s)
            for thing in moment.things.values():
                if thing.kind == "ego":
                    yield "/tf", time_s, topics.transform(thing, time_s)
        while events and events[0].time_s <= time_s:
            event = events.pop(0)
            told = topics.log(event.kind, event.text, event.time_s)
            yield "/events", event.time_s, told
