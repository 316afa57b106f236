"""Publishes a simulated drive or a `.record` file on Cyber RT channels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from forewarn.plugins import Pilot
from forewarn.standins.apollo.drive import SumoDrive
from forewarn.standins.apollo.planner import STOCK, Planner
from forewarn.standins.apollo.server import FakeCyber

EPOCH_S = 1_700_000_000.0
"""The time of Apollo's clock at the start of the first episode."""

_ROUTE_S = 1.0


class StandIn:
    """A stand-in for Apollo that drives a scenario and handles commands as Apollo does.

    The route is sent every second so that readers that connect late receive it; Apollo
    sends it only once.

    Args:
        cyber: The Cyber RT instance to publish on.
        messages: The message classes of the Apollo edition to imitate.
        world: The scenario's SUMO world.
        pilot: The scenario's pilot.
        guardian: Whether the guardian module is enabled.
        max_time_s: The maximum duration of an episode in seconds.
    """

    def __init__(
        self,
        cyber: FakeCyber,
        messages: Any,
        world: Any,
        pilot: Pilot,
        *,
        guardian: bool = False,
        max_time_s: float = math.inf,
    ) -> None:
        self._cyber, self._messages = cyber, messages
        self.drive = SumoDrive(world, pilot, messages, max_time_s)
        self.planner = Planner(
            cyber, messages, lambda: self.now_s, STOCK, guardian=guardian
        )
        self._begun_s = self.now_s = EPOCH_S
        self._routed_s = 0.0

    def begin(self, seed: int) -> None:
        """Starts an episode without resetting Apollo's clock."""
        self._begun_s = self.now_s
        self._routed_s = 0.0
        self.drive.begin(seed)
        self.say()

    def tick(self) -> bool:
        """Advances by one period; returns False once the episode is over."""
        if self.drive.over:
            return False
        frame = self.drive.advance(self.planner)
        self.now_s = round(self._begun_s + frame.time_s, 6)
        self.say()
        return not self.drive.over

    def say(self) -> None:
        """Publishes the messages for the current time."""
        said = list(self.drive.says(self.now_s, self.planner))
        if self.now_s - self._routed_s >= _ROUTE_S and not self.drive.over:
            self._routed_s = self.now_s
            said.insert(0, self.drive.route(self.now_s))
        for channel, message in said:
            self._cyber.publish(channel.name, message.SerializeToString())

    def play(self, seed: int, pace: float, going: Callable[[], bool]) -> Iterator[str]:
        """Plays episodes with consecutive seeds, and yields the reason why each episode
        ended.

        Args:
            seed: The seed of the first episode.
            pace: The speed of the clock relative to real time; 0 for as fast as
                possible.
            going: Returns whether to continue.
        """
        while going():
            self.begin(seed)
            due_s = time.monotonic()
            while going() and self.tick():
                if pace > 0.0:
                    due_s += self.drive.period_s / pace
                    time.sleep(max(0.0, due_s - time.monotonic()))
            if self.drive.over:
                yield self.drive.over
            # The clock must advance before the next episode begins.
            self.now_s += self.drive.period_s
            seed += 1


def play_record(
    cyber: FakeCyber,
    said: Iterable[tuple[str, int, bytes]],
    pace: float,
    going: Callable[[], bool],
) -> int:
    """Replays the messages of a `.record` file and returns how many it has published.

    Args:
        cyber: The Cyber RT instance to publish on.
        said: The channel, the time in nanoseconds and the bytes of each message.
        pace: The speed of the clock relative to real time; 0 for as fast as possible.
        going: Returns whether to continue.
    """
    count, first_ns, began_s = 0, 0, time.monotonic()
    for channel, time_ns, message in said:
        if not going():
            break
        first_ns = first_ns or time_ns
        if pace > 0.0:
            due_s = began_s + (time_ns - first_ns) / 1e9 / pace
            time.sleep(max(0.0, due_s - time.monotonic()))
        cyber.publish(channel, message)
        count += 1
    return count
