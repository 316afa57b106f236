"""A record as a drive: its channels to frames of signals, as they would have come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidTrace
from forewarn.abstractions.frame import Frame
from forewarn.apollo_bridge.maps.hdmap import RoadMap
from forewarn.apollo_bridge.messages.channels import INPUTS, ROUTING, Channel
from forewarn.apollo_bridge.messages.pool import Messages
from forewarn.apollo_bridge.recordings.files import (
    Recorded,
    read_record,
    record_channels,
)
from forewarn.apollo_bridge.sense import ApolloSenses, provided
from forewarn.apollo_bridge.vehicle import Body
from forewarn.apollo_bridge.wire import stamp

PIVOT = "localization"

_BACK_S = 1.0
_NEARLY = 0.9


class RecordedDrive:
    """The frames of one record. Only the newest message of each input is read at all.

    `provides` lists the signals that follow from the channels that it has; `faults`
    counts frames whose messages said something that cannot be, and `fault` says what
    it was at the last frame.

    Args:
        path: The `.record` file.
        messages: The classes of its edition.
        road_map: Apollo's map; without it there are only the car's own signals.
        body: The car's.
        told: What no channel tells, by signal.
        period_s: The time between frames.
    """

    def __init__(
        self,
        path: Path,
        messages: Messages,
        road_map: RoadMap | None = None,
        *,
        body: Body | None = None,
        told: Mapping[str, Any] | None = None,
        period_s: float = 0.1,
    ) -> None:
        self._path, self._messages, self._period_s = path, messages, period_s
        there = record_channels(path)
        wanted = {**INPUTS, "routing": ROUTING}
        self.channels = {n: c for n, c in wanted.items() if c.name in there}
        for name in (PIVOT, "chassis"):
            if name not in self.channels:
                raise InvalidInput(
                    f"the record has no {INPUTS[name].name}",
                    source=str(path),
                    mend="record it with forewarn apollo record",
                )
        for channel in self.channels.values():
            if there[channel.name] != channel.type:
                raise InvalidInput(
                    f"{channel.name} holds {there[channel.name]:.80}, not"
                    f" {channel.type}",
                    source=str(path),
                )
        inputs = [name for name in INPUTS if name in self.channels]
        self.provides = provided(road_map, inputs, told or {})
        self._senses = ApolloSenses(road_map, body, told, period_s)
        self.faults, self.fault = 0, ""

    def frames(self) -> Iterator[Frame]:
        """The frames, each at the first localization that its period has.

        What was recorded at that very moment belongs to it, in whatever order.
        """
        newest = _Newest(self._messages, self.channels, str(self._path))
        names = {channel.name: name for name, channel in self.channels.items()}
        self._senses.reset()
        self.faults, self.fault = 0, ""
        begun_s, last_s = math.nan, -math.inf
        sequence = due = 0
        pending: tuple[float, int] | None = None
        for said in read_record(self._path, names):
            if pending is not None and said.time_ns > pending[1]:
                yield self._frame(pending[0], begun_s, sequence, newest)
                sequence, pending = sequence + 1, None
            name = names[said.channel]
            newest.keep(name, said)
            if name != PIVOT:
                continue
            now_s = newest.time_s(PIVOT)
            begun_s = now_s if math.isnan(begun_s) else begun_s
            if now_s < last_s - _BACK_S:
                raise InvalidTrace(
                    f"Apollo's clock goes back, {last_s - begun_s:.3f} s after the"
                    " beginning",
                    source=str(self._path),
                )
            if now_s >= begun_s + due * self._period_s - 1e-6 and now_s > last_s:
                if pending is not None:
                    yield self._frame(pending[0], begun_s, sequence, newest)
                    sequence += 1
                pending, last_s = (now_s, said.time_ns), now_s
                passed = math.floor((now_s - begun_s) / self._period_s + 1e-6)
                due = max(due, passed) + 1
        if pending is not None:
            yield self._frame(pending[0], begun_s, sequence, newest)

    def _frame(
        self, now_s: float, begun_s: float, sequence: int, newest: _Newest
    ) -> Frame:
        values = self._values(now_s, newest)
        return Frame(round(now_s - begun_s, 6), sequence, values)

    def steady(self) -> tuple[str, ...]:
        """The signals that nearly every frame carries once every input has come."""
        known: Counter[str] = Counter()
        count = 0
        ages = {f"{name}_age" for name in self.channels if name in INPUTS}
        for frame in self.frames():
            if ages <= frame.values.keys():
                count += 1
                known.update(frame.values.keys())
        return tuple(n for n in self.provides if known[n] >= _NEARLY * count > 0)

    def _values(self, now_s: float, newest: _Newest) -> dict[str, Any]:
        values = self._senses.values(now_s, newest.messages())
        self.fault = self._senses.fault
        self.faults += bool(self.fault)
        for name in self.channels:
            if name in INPUTS and name in newest:
                age_s = max(0.0, now_s - newest.time_s(name))
                values[f"{name}_age"] = round(age_s, 4)
        return values


class _Newest:
    """The newest message of each input, decoded when it is asked for."""

    def __init__(
        self, messages: Messages, channels: Mapping[str, Channel], source: str
    ) -> None:
        self._types = {n: messages[c.type] for n, c in channels.items()}
        self._source = source
        self._said: dict[str, Recorded] = {}
        self._read: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._said

    def keep(self, name: str, said: Recorded) -> None:
        self._said[name] = said
        self._read.pop(name, None)

    def messages(self) -> dict[str, Any]:
        return {name: self._message(name) for name in self._said}

    def time_s(self, name: str) -> float:
        """When it was made; where it does not say so, when it was recorded."""
        stamped = stamp(self._message(name))
        return self._said[name].time_ns / 1e9 if stamped is None else stamped

    def _message(self, name: str) -> Any:
        from google.protobuf.message import DecodeError

        known = self._read.get(name)
        if known is None:
            said = self._said[name]
            try:
                known = self._types[name].FromString(said.content)
            except DecodeError as error:
                raise InvalidTrace(
                    f"a message on {said.channel} cannot be decoded",
                    source=self._source,
                    place=f"{said.time_ns} ns",
                ) from error
            self._read[name] = known
        return known
