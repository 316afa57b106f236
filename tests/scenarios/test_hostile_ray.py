"""A Ray cluster whose processes die, hang or answer nonsense."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forewarn.abstractions.errors import Unreachable
from forewarn.scenarios.running.on_ray import MAX_LOST, SILENT_S, _Crew
from forewarn.scenarios.running.pools import Lost


class RayError(Exception):
    """What Ray raises."""


class Cluster:
    """As much of Ray as is used; its processes give what they are told to.

    Args:
        starts: Whether processes start.
        answers: What comes of each job that is given to one; None: nothing ever.
    """

    exceptions = type("exceptions", (), {"RayError": RayError})

    def __init__(self, starts: bool, answers: Iterator[Any]) -> None:
        self._starts, self._answers = starts, answers
        self._comes: dict[object, Any] = {}
        self.waited_s: list[float] = []
        self.made = 0

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        return lambda kind: self

    def __call__(self, come: Any) -> Any:
        reference = object()
        self._comes[reference] = come
        call = type("Call", (), {"remote": lambda *_: reference})
        return call

    def wait(self, refs: list[object], num_returns: int, timeout: float) -> Any:
        self.waited_s.append(timeout)
        ready = [ref for ref in refs if self._comes[ref] is not Ellipsis]
        return ready[:1], []

    def get(self, ref: object) -> Any:
        come = self._comes[ref]
        if isinstance(come, Exception):
            raise come
        return come

    def kill(self, hand: object) -> None:
        pass

    def hire(self) -> Any:
        self.made += 1
        assert self.made < 100, "it goes on for ever"
        ready = self(None if self._starts else RayError("it died"))

        class Do:
            @staticmethod
            def remote(job: Any) -> Any:
                return self(next(self._answers)).remote()

        return type("Hand", (), {"ready": ready, "do": Do})


def work_off(starts: bool, *answers: Any) -> list[tuple[Any, Any]]:
    cluster = Cluster(starts, iter(answers))
    crew = _Crew(cluster, str, 1)
    crew._make = type("Make", (), {"remote": lambda *_: cluster.hire()})
    try:
        return list(crew.work_off(deque(["job"])))
    finally:
        assert set(cluster.waited_s) == {SILENT_S}


def test_processes_that_never_start_are_given_up() -> None:
    with pytest.raises(
        Unreachable, match=("Ray's processes could not be started: it died")
    ):
        work_off(False)


def test_a_process_that_never_answers_is_given_up() -> None:
    with pytest.raises(Unreachable, match="Ray has not answered for 3600 s"):
        work_off(True, ...)


@pytest.mark.parametrize(
    "odd", ["", 5, ("done",), ("maybe", 1), ("cannot", "x"), b"xx"]
)
def test_an_answer_that_is_none_counts_as_a_lost_process(odd: Any) -> None:
    assert work_off(True, odd, ("done", 7)) == [("job", 7)]
    ((job, lost),) = work_off(True, *[odd] * MAX_LOST)
    assert job == "job" and isinstance(lost, Lost)
    assert f"lost {MAX_LOST} times" in lost.error
