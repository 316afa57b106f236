"""Pools that run the episodes of a campaign, in this process or in separate processes.

A pool has a single method. Support for another execution engine only requires a class
with this method, because episodes leave their results in files.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, Protocol, TypeVar

from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidInput,
    Unreachable,
    is_out_of_threads,
    said,
)
from forewarn.plugins.functions import said_where

Job = TypeVar("Job")
Result = TypeVar("Result")

DEFECT = 70
"""The exit status of a process with an internal error."""

_LEAVE_S = 10.0
"""The time limit in seconds for a process to close its world and exit when asked."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a job whose process died."""

    error: str


class CannotRun(ForewarnError):
    """An error in another process that makes the episode impossible to run."""

    def __init__(self, message: str, exit_status: int) -> None:
        self.exit_status = exit_status
        super().__init__(message)


class Pool(Protocol):
    """Runs jobs."""

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        """Runs the jobs, and yields each job with its result, in any order.

        A `ForewarnError` in one job ends all jobs. Closing the iterator ends the jobs
        that are still running.
        """


class Here:
    """A pool that runs one job after another in this process."""

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        for job in jobs:
            yield job, work(job)


class Processes:
    """A pool of separate processes, each with its own simulator.

    If a worker process dies, its job is lost and the process is replaced. If this
    process dies for any reason, the workers close their worlds and exit.

    Args:
        count: The number of concurrent processes.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        waiting = iter(jobs)
        workers: list[_Worker[Job, Result]] = []
        try:
            while True:
                for job in waiting:
                    idle = next((w for w in workers if not w.busy), None)
                    if idle is None:
                        idle = _Worker(work)
                        workers.append(idle)
                    idle.give(job)
                    if sum(w.busy for w in workers) == self._count:
                        break
                busy = {w.pipe: w for w in workers if w.busy}
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    yield worker.take()
                    if not worker.alive:
                        workers.remove(worker)
        finally:
            for worker in workers:
                worker.dismiss()
            for worker in workers:
                worker.end()


class _Worker(Generic[Job, Result]):
    """One worker process with its current job."""

    def __init__(self, work: Callable[[Job], Result]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, work), daemon=True
        )
        with _no_interrupts():
            self._process.start()
        theirs.close()
        self._job: list[Job] = []
        self.alive = True

    @property
    def busy(self) -> bool:
        return bool(self._job)

    def give(self, job: Job) -> None:
        """Sends a job to the worker."""
        self._job.append(job)
        # If the worker has died, `take` reports it.
        with suppress(OSError):
            self.pipe.send(job)

    def take(self) -> tuple[Job, Result | Lost]:
        """Returns the job with its result, or with `Lost` if the worker has died."""
        job = self._job.pop()
        try:
            kind, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            return job, Lost(f"the process ended with status {self.end()}")
        if kind == "cannot":
            raise CannotRun(*answer)
        return job, answer

    def dismiss(self) -> None:
        """Asks the worker to exit: at once if idle, otherwise after closing its
        world.
        """
        self.pipe.close()
        if self.busy:
            self._process.terminate()

    def end(self) -> int | None:
        """Waits until the worker has exited; returns its exit status."""
        self._process.join(_LEAVE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Protects processes that are starting from Ctrl-C, which reaches every process in
    a terminal.

    A process that is interrupted while it starts prints a long traceback, so this
    process ends the others after they have started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    # The resource tracker starts together with the first process, and resets the mask.
    resource_tracker.ensure_running()
    # The mask is inherited by the new process; here, another thread may still receive
    # the signal.
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    masks = getattr(signal, "pthread_sigmask", None)
    before = masks(signal.SIG_BLOCK, {signal.SIGINT}) if masks else None
    try:
        yield
    finally:
        if masks:
            masks(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _serve(pipe: Connection[Any, Any], work: Callable[[Any], Any]) -> None:
    """Runs jobs in a worker until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with suppress(RuntimeError):  # without the thread, the worker exits when asked
        threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        with suppress(OSError):
            pipe.send(answered(work, job))


def answered(work: Callable[[Any], Any], job: Any) -> tuple[str, Any]:
    """Runs a job in a worker; returns the result, or why the job is impossible."""
    try:
        return "done", work(job)
    except ForewarnError as error:
        return "cannot", (str(error), error.exit_status)
    except Exception as error:
        if is_out_of_threads(error):
            return "cannot", (said(error), Unreachable.exit_status)
        if own := said_where(error):
            return "cannot", (own, InvalidInput.exit_status)
        return "cannot", (f"a defect in forewarn: {said(error)}", DEFECT)


def _leave(number: int, frame: object) -> None:
    # Not an Exception, so that it is not handled as the failure of an episode.
    raise SystemExit(128 + number)


def _follow_parent() -> None:
    """Exits when the parent process is gone, for example because it was killed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


SHARE = 100
"""The number of runs in one job."""


def shared(runs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Splits runs into batches of `SHARE` runs."""
    return (runs[at : at + SHARE] for at in range(0, len(runs), SHARE))


def in_turn(
    work: Callable[[Job], Result], jobs: Sequence[Job], on: Pool
) -> Iterator[Result]:
    """Yields the results in the order of the jobs.

    Raises:
        CannotRun: The process of a job died.
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
    """Wraps a function of a job, so that it accepts a pair of a number and a job."""

    work: Callable[[Job], Result]

    def __call__(self, numbered: tuple[int, Job]) -> Result:
        return self.work(numbered[1])
