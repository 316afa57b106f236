"""Work on many runs shared out: the results come in the order of the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic

from forewarn.scenarios.running.pools.local import (
    DEFECT,
    CannotRun,
    Job,
    Lost,
    Pool,
    Result,
)

SHARE = 100
"""So many runs are one job."""


def shared(runs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """The runs, so many at a time."""
    return (runs[at : at + SHARE] for at in range(0, len(runs), SHARE))


def in_turn(
    work: Callable[[Job], Result], jobs: Sequence[Job], on: Pool
) -> Iterator[Result]:
    """The results in the order of the jobs; one that is early waits for its turn.

    Raises:
        CannotRun: The process of a job was lost again and again.
    """
    early: dict[int, Result] = {}
    due = 0
    with closing(on.map(_Numbered(work), enumerate(jobs))) as done:  # type: ignore[type-var]
        for (number, _), found in done:
            if isinstance(found, Lost):
                raise CannotRun(found.error, DEFECT)
            early[number] = found
            while due in early:
                yield early.pop(due)
                due += 1


@dataclass(frozen=True, slots=True)
class _Numbered(Generic[Job, Result]):
    """Work on a job that carries a number."""

    work: Callable[[Job], Result]

    def __call__(self, numbered: tuple[int, Job]) -> Result:
        return self.work(numbered[1])
