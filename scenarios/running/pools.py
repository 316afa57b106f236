"""Pools in which the episodes of a campaign run: this process, or separate processes.

A pool has a single method. Another engine only needs a class with this method, because
the campaign exchanges results as files.
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
"""The exit status for a defect that should never occur."""

_LEAVE_S = 10.0
"""How long a process may take to close its world when it is asked to exit."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a job whose process broke."""

    error: str


class CannotRun(ForewarnError):
    """An error from another process that made an episode impossible."""

    def __init__(self, message: str, exit_status: int) -> None:
        self.exit_status = exit_status
        super().__init__(message)


class Pool(Protocol):
    """Runs jobs, and yields each job with its result when it is done."""

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        """The jobs with their results, in any order.

        A `ForewarnError` of one ends all. Closing the iterator ends the jobs that still
        run.
        """


class Here:
    """Runs one job after another in this process."""

    def map(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | Lost]]:
        for job in jobs:
            yield job, work(job)


class Processes:
    """Runs jobs in separate processes, each with its own simulator.

    If a process dies, its job is lost and the process is replaced. If this process dies
    in any way, the others close their worlds and end.

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
    """One process with its current job."""

    def __init__(self, work: Callable[[Job], Result]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, work), name="forewarn-episodes", daemon=True
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
        """Sends a job to the process."""
        self._job.append(job)
        # Should it have died meanwhile, that shows when the result is taken.
        with suppress(OSError):
            self.pipe.send(job)

    def take(self) -> tuple[Job, Result | Lost]:
        """The job with its result; the process is then ready for the next job, unless
        it died.
        """
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
        """Asks the process to exit: immediately if it is idle, else once its world is
        closed.
        """
        self.pipe.close()
        if self.busy:
            self._process.terminate()

    def end(self) -> int | None:
        """Waits until the process has exited; returns its exit status."""
        self._process.join(_LEAVE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Protects starting processes from Ctrl-C, which reaches every process of a
    terminal.

    This process ends the others, after they have started, because a process that is
    interrupted while it starts prints a long traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    # It begins with the first process, and takes the mask away as it does.
    resource_tracker.ensure_running()
    # The mask is for the new process; another thread may hear it here all the same.
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
    """A worker's loop: jobs, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with suppress(RuntimeError):  # without a thread it goes on until it is told
        threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        with suppress(OSError):
            pipe.send(answered(work, job))


def answered(work: Callable[[Any], Any], job: Any) -> tuple[str, Any]:
    """Another process's answer to a job: the result, or why the job is impossible."""
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
    # Not an Exception, so that no episode takes it for a failure of its own.
    raise SystemExit(128 + number)


def _follow_parent() -> None:
    """Exits when the campaign's own process is gone, for example if killed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


SHARE = 100
"""The number of runs in one job."""


def shared(runs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """The runs, in batches of this size."""
    return (runs[at : at + SHARE] for at in range(0, len(runs), SHARE))


def in_turn(
    work: Callable[[Job], Result], jobs: Sequence[Job], on: Pool
) -> Iterator[Result]:
    """The results in the order of the jobs; an early result waits for its turn.

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
