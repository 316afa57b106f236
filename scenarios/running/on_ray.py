"""Runs episodes on a Ray cluster; a job is repeated if its actor is lost.

An actor is a process in the cluster that keeps loaded models and worlds between
episodes. Only jobs and summaries of episodes are sent over the network, a few kilobytes
each; traces and records are written to a folder that all nodes share. If the process or
node of a job is lost, another process repeats the job. The files are identical, because
the seed determines an episode and files are written atomically.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from forewarn.abstractions.errors import MissingDependency, Unreachable
from forewarn.scenarios.running.pools import (
    CannotRun,
    Job,
    Lost,
    Result,
    answered,
)

HERE = "ray"
"""The address of a temporary cluster on this machine only."""

MAX_LOST = 3
"""A job is abandoned after it has lost this many processes."""

SILENT_S = 3600
"""The time limit in seconds for a response from Ray: a slot, a process or a result."""

OBJECT_STORE_BYTES = 100 * 1024 * 1024
"""The size of the object store of a temporary cluster; only small objects are stored
there.
"""


class OnRay:
    """Runs jobs on Ray.

    Args:
        address: `ray`, or `ray://HOST:PORT` of a running cluster.
        count: The number of concurrent actors, each of which uses one processor.
    """

    def __init__(self, address: str, count: int) -> None:
        self._address, self._count = address, count

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        with _connected(self._address, self._count) as ray:
            crew = _Crew(ray, work, self._count)
            try:
                yield from crew.work_off(deque(jobs))
            finally:
                crew.leave()


class _Crew:
    """The actors, with the job that each is running."""

    def __init__(self, ray: Any, work: Callable[[Any], Any], count: int) -> None:
        self._ray, self._count = ray, count

        class Hand:
            """An actor that runs one job at a time."""

            def __init__(self, folder: str) -> None:
                os.chdir(folder)

            def ready(self) -> None:
                pass

            def do(self, job: Any) -> tuple[str, Any]:
                return answered(work, job)

        self._make = ray.remote(num_cpus=1, max_restarts=0)(Hand)
        # Maps each pending Ray result to its actor, and to the job once it has one.
        self._busy: dict[Any, tuple[Any, Any]] = {}

    def work_off(self, waiting: deque[Any]) -> Iterator[tuple[Any, Any]]:
        """Yields each job with its result; lost jobs are repeated."""
        lost: dict[int, int] = {}
        died = 0
        while True:
            self._hire(len(waiting))
            if not self._busy:
                return
            done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=SILENT_S)
            if not done:
                raise Unreachable(f"Ray has not answered for {SILENT_S} s")
            hand, job = self._busy.pop(done[0])
            try:
                answer = self._ray.get(done[0])
                if job is not None:
                    answer = _checked(answer)
            except (self._ray.exceptions.RayError, _Garbage) as error:
                # The actor is gone, whether it was starting or working.
                self._ray.kill(hand)
                if job is None:
                    died += 1
                    if died == MAX_LOST * self._count:
                        raise Unreachable(
                            f"Ray's processes could not be started: {error}"
                        ) from error
                    continue
                times = lost[id(job)] = lost.get(id(job), 0) + 1
                if times < MAX_LOST:
                    waiting.appendleft(job)
                else:
                    yield job, Lost(f"the process was lost {times} times: {error}")
                continue
            if job is not None:
                kind, result = answer
                died = 0
                if kind == "cannot":
                    raise CannotRun(*result)
                yield job, result
            if waiting:
                job = waiting.popleft()
                self._busy[hand.do.remote(job)] = hand, job
            else:
                self._ray.kill(hand)

    def _hire(self, waiting: int) -> None:
        """Starts as many actors as there are jobs, up to the limit; they begin when
        processors are free.
        """
        idle = sum(job is None for _, job in self._busy.values())
        for _ in range(min(self._count - len(self._busy), waiting - idle)):
            hand = self._make.remote(os.getcwd())
            self._busy[hand.ready.remote()] = hand, None

    def leave(self) -> None:
        """Stops all actors, even busy ones."""
        for hand, _ in self._busy.values():
            self._ray.kill(hand)
        self._busy.clear()


class _Garbage(Exception):
    """The answer cannot come from one of our actors."""


def _checked(answer: object) -> tuple[str, Any]:
    match answer:
        case ("done", result):
            return "done", result
        case ("cannot", (str(why), int(status))):
            return "cannot", (why, status)
    raise _Garbage("the process sent an invalid answer")


@contextmanager
def _connected(address: str, count: int) -> Iterator[Any]:
    """Connects to Ray; shuts down a temporary cluster at the end."""
    # Ray sends no usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("running episodes on Ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        if address == HERE:
            ray.init(
                address="local",
                num_cpus=count,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
            )
        else:
            ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Unreachable(f"no Ray cluster at {address}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
