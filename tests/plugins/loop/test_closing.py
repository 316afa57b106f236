"""Leaving the `with` block of a guard ends its records, whatever the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.contracts import Source
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import Closing, EpisodeClock, GuardedLoop
from tests.plugins.remote.serving import model

POLICY = Policy(rules={"*": (Step("stop", 0.5),)}, hold_s=0.0, horizon_s=3.0)


def guarding(folder: Path) -> Guarding:
    return Guarding([model()], POLICY, record=folder)


def loop(folder: Path) -> Any:
    signals = {"speed": 1.0, "collision": False}
    opened = guarding(folder).open(Source("here", period_s=0.1), clock=EpisodeClock())
    opened.begin(None)
    opened.review(Frame(0.0, 0, signals))
    return opened


def agent(folder: Path) -> Any:
    guard = AgentGuard.by_laws(["always not tool == delete"], record=folder)
    assert guard.before("read", {}).passes
    return guard


def environment(folder: Path) -> Any:
    gym = pytest.importorskip("tests.plugins.gym.test_wrapper")
    actuator = gym.EnvActuator(gym.BRAKE, gym.shown)
    env = gym.GuardedEnv(gym.TinyEnv(), guarding(folder), gym.signals, actuator, 0.1)
    env.reset(seed=1)
    env.step(gym.FASTEST)
    return env


def vector(folder: Path) -> Any:
    gym = pytest.importorskip("tests.plugins.gym.test_wrapper")
    mode = gym.gymnasium.vector.AutoresetMode.NEXT_STEP
    parts = gym.gymnasium.vector.SyncVectorEnv([gym.TinyEnv] * 2, autoreset_mode=mode)
    actuator = gym.EnvActuator(gym.BRAKE, gym.shown)
    equipment = gym.Equipment(guarding(folder), gym.signals, actuator, 0.1)
    env = gym.GuardedVectorEnv(parts, equipment)
    env.reset(seed=1)
    env.step(gym.np.array([gym.FASTEST] * 2))
    return env


def parallel(folder: Path) -> Any:
    zoo = pytest.importorskip("tests.plugins.gym.test_pettingzoo")
    of_a = zoo.equipment("a")
    equipment = zoo.Equipment(
        guarding(folder), of_a.signals, of_a.actuator, of_a.period_s
    )
    env = zoo.GuardedParallelEnv(zoo.Cars(), {"a": equipment}.get)
    env.reset(seed=1)
    env.step({name: zoo.np.array([1.0], zoo.np.float32) for name in env.agents})
    return env


MAKERS = [loop, agent, environment, vector, parallel]


@pytest.mark.parametrize("make", MAKERS)
def test_leaving_a_guard_ends_its_records(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    guard = make(tmp_path / "records")
    with guard as entered:
        assert entered is guard
    ends = _ends(tmp_path / "records")
    assert ends and all(end["ended"] and "error" not in end for end in ends)


@pytest.mark.parametrize("make", MAKERS)
def test_an_exception_ends_the_records_and_is_written_there(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    with pytest.raises(KeyError), make(tmp_path / "records"):
        raise KeyError("speed")
    ends = _ends(tmp_path / "records")
    assert ends and {end["error"] for end in ends} == {"KeyError: 'speed'"}


@pytest.mark.parametrize("make", MAKERS)
def test_an_interrupt_ends_the_records(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt), make(tmp_path / "records"):
        raise KeyboardInterrupt
    assert {end["ended"] for end in _ends(tmp_path / "records")} == {"interrupted"}


def test_a_guard_alone_lets_nothing_pass_once_it_is_left() -> None:
    signals = {"speed": 1.0, "collision": False}
    with guarding(Path("unused")).guard(clock=EpisodeClock()) as guard:
        assert guard.review(Frame(0.0, 0, signals)).kind == "proceed"
    after = guard.review(Frame(0.1, 1, signals))
    assert after.kind == "stop" and "`with` block" in after.reason


def _ends(folder: Path) -> list[dict[str, Any]]:
    """The last line of each record; `read_record` refuses one without an end."""
    return [list(read_record(path))[-1].content for path in folder.glob("*.jsonl*")]


def test_a_record_that_cannot_be_ended_keeps_no_other_open() -> None:
    ended: list[str] = []

    class Full:
        def left_by(self, error: BaseException | None) -> None:
            ended.append("full")
            raise OSError("no space left")

    class Fine:
        def left_by(self, error: BaseException | None) -> None:
            ended.append("fine")

    class Several(Closing):
        def loops(self) -> Any:
            return Fine(), Full(), Fine()

        def close(self) -> None:
            ended.append("closed")

    with pytest.raises(OSError, match="no space left"), Several():
        raise ValueError
    assert ended == ["fine", "full", "fine", "closed"]


@pytest.mark.parametrize("make", [environment, vector, parallel])
def test_a_record_that_cannot_be_ended_leaves_no_environment_open(
    make: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    env, closed = make(tmp_path), list[bool]()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
        patch.setattr(env.env, "close", lambda **_: closed.append(True))
        patch.setattr(GuardedLoop, "close", full)
        env.close()
    env.close()
    assert closed
