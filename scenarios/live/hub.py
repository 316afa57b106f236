"""What the page's server knows of the runs: the last minute of each, and no more."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

MINUTE_S = 60.0
"""How much of a run's own time is kept."""
APART_S = 0.05
"""How close in a run's own time moments are kept apart."""
MOST_MOMENTS = 4000
MOST_EVENTS = 200
MOST_OUTLINED = 200
"""How many moments are kept of a run that is over."""
MOST_OVER = 60
"""How many runs that are over are kept."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class Run:
    """One run, as far as it is kept; every line is JSON, ready to be sent.

    Args:
        number: Its place among all that came.
        about: Its first lines: what it is, its ground.
        moments: Pairs of a count and a moment.
        events: Pairs of a count and an event.
        scene: The newest picture.
        end: Its last line.
        version: Counts what came.
    """

    number: int
    about: list[str] = field(default_factory=list)
    moments: deque[tuple[int, str]] = field(
        default_factory=lambda: deque(maxlen=MOST_MOMENTS)
    )
    events: deque[tuple[int, str]] = field(
        default_factory=lambda: deque(maxlen=MOST_EVENTS)
    )
    scene: tuple[int, str] = (0, "")
    end: str = ""
    version: int = 0
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_MOMENTS))
    _kept_s: float = float("-inf")
    _news: bool = True

    def take(self, content: list[Any]) -> None:
        """Takes in a message.

        Raises:
            ValueError: It is none.
        """
        self.version += 1
        line = _encode([self.number, *content])
        match content:
            case ["begin", dict()] | ["ground" | "told", list()]:
                self.about.append(line)
            case ["frame", None | float() | int() as time_s, bool() as news, *_]:
                self._frame(time_s, news, line)
            case ["scene", *_]:
                self.scene = self.version, line
            case ["event", *_]:
                self.events.append((self.version, line))
            case ["end", *_]:
                self.end = line
                # Of what is over the outline is enough.
                step = 1 + len(self.moments) // MOST_OUTLINED
                self.moments = deque(list(self.moments)[::step])
            case _:
                raise ValueError("not a message")

    def _frame(self, time_s: float | None, news: bool, line: str) -> None:
        """Keeps a moment. One that follows closely takes the place of the last."""
        if time_s is None:
            time_s = self._times[-1] if self._times else 0.0
        close = bool(self._times) and time_s - self._kept_s < APART_S
        if close and not self._news:
            self.moments.pop()
            self._times.pop()
        if not close or news:
            self._kept_s = time_s
        # A moment that is news stays, whatever follows closely.
        self._news = news
        self.moments.append((self.version, line))
        self._times.append(time_s)
        while self._times[0] < time_s - MINUTE_S:
            self._times.popleft()
            self.moments.popleft()


class Hub:
    """All runs that are told of, and what each viewer has yet to see."""

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}
        self._count = 0

    def begin(self) -> Run:
        """A run that begins; those that were over long ago are forgotten."""
        self._count += 1
        run = self.runs[self._count] = Run(self._count)
        over = [each.number for each in self.runs.values() if each.end]
        for number in over[: max(0, len(over) - MOST_OVER)]:
            del self.runs[number]
        return run


class Feed:
    """What one loop tells, run after run."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._run: Run | None = None

    def take(self, line: bytes) -> None:
        """Takes in a line.

        Raises:
            ValueError: It is none of a feed's.
        """
        content = json.loads(line)
        match content:
            case ["begin", dict()]:
                self._run = self._hub.begin()
            case [str(), *_] if self._run is not None:
                pass
            case _:
                raise ValueError("not a message of a run that has begun")
        self._run.take(content)

    def lost(self) -> None:
        """Whoever told of it is gone: its run is over."""
        if self._run is not None and not self._run.end:
            self._run.take(["end", "Whoever ran it is gone", 0])


class View:
    """What one viewer has seen, and what is new to it.

    A viewer that reads slowly sees less, and holds nobody up: what is new is asked for
    only when it has taken all that it was given.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seen: dict[int, tuple[int, int]] = {}

    def news(self) -> Iterator[str]:
        """The lines that are new to it."""
        runs = self._hub.runs
        for number in [number for number in self._seen if number not in runs]:
            del self._seen[number]
            yield _encode([number, "gone"])
        for number, run in runs.items():
            seen, told = self._seen.get(number, (0, 0))
            if seen == run.version:
                continue
            self._seen[number] = run.version, len(run.about)
            yield from run.about[told:]
            yield from _since(run.moments, seen)
            if run.scene[0] > seen:
                yield run.scene[1]
            yield from _since(run.events, seen)
            if run.end:
                yield run.end


def _since(lines: deque[tuple[int, str]], seen: int) -> list[str]:
    found = [line for _, line in takewhile(lambda it: it[0] > seen, reversed(lines))]
    return found[::-1]
