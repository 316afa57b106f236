"""Counting what a guard sees, one state after the other, until someone steps in."""

from __future__ import annotations

from collections.abc import Callable

from forewarn.monitors.chains.learning import Tally

MAX_PAIRS = 20_000
"""So many different transitions are told apart; a model that ships has 3,000."""


class LiveTally:
    """Counts the transitions of one episode as they happen.

    What follows an intervention says nothing of the world without one: from `stop`
    on nothing is counted until `begin`.

    Attributes:
        stopped: Whether someone has stepped in.
        beyond: Transitions that were not kept, because too many differ.
    """

    __slots__ = ("_before", "_began", "_first", "_steps", "beyond", "stopped")

    def __init__(self) -> None:
        self._steps: dict[tuple[int, int], int] = {}
        self._first: int | None = None
        self.beyond = 0
        self.begin()

    def begin(self) -> None:
        """A new episode begins."""
        self._before: int | None = None
        self._began = self.stopped = False

    def observe(self, bits: int) -> None:
        """Takes in the state after a tick."""
        if self.stopped:
            return
        before, self._before = self._before, bits
        if before is None:
            if not self._began:
                self._began, self._first = True, bits
            return
        steps, pair = self._steps, (before, bits)
        seen = steps.get(pair)
        if seen is not None:
            steps[pair] = seen + 1
        elif len(steps) < MAX_PAIRS:
            steps[pair] = 1
        else:
            self.beyond += 1

    def skip(self) -> None:
        """Time passes unseen: no step leads over it."""
        self._before = None

    def stop(self) -> None:
        """Someone stepped in. Who holds what has not begun yet changes nothing."""
        self.stopped = self.stopped or self._began

    def take(self, name: Callable[[int], str], ended: bool) -> Tally:
        """What was counted since the last time; it is counted nowhere else then.

        Args:
            name: The name of a state.
            ended: Whether the episode is over, and came to its end.
        """
        tally = Tally()
        if self._first is not None:
            tally.begin(name(self._first))
        for (before, after), times in self._steps.items():
            tally.step(name(before), name(after), times)
        if ended and not self.stopped and self._before is not None:
            tally.finish(name(self._before))
            # It is over: nothing of it is counted twice.
            self.stopped = True
        self._steps, self._first = {}, None
        return tally
