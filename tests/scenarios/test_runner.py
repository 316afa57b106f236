"""The one loop: guarded, shadowed, unguarded; what fails, and what is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import ForewarnError, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.registry import BrokenPlugin
from forewarn.plugins.tiny import TinyPilot, TinyWorld
from forewarn.scenarios.running import runner as runner_module
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.running.runner import FAILED, Keep, Runner
from forewarn.scenarios.schema import InvalidScenario, load_scenario, parse_scenario
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
KITCHEN = load_scenario("tiny-kitchen")
STOP = Policy(rules={"*": (Step("stop", 0.4),)})
REFLECT = Policy(rules={"*": (Step("reflect", 0.4),)})


def guarded(policy: Policy, scenario: str = "tiny-road") -> Runner:
    wanted = load_scenario(scenario)
    return runner_of(plan(wanted, learned.model(scenario), policy))


class Frames(Listener):
    """A listener that keeps everything."""

    def began(self, run: Run) -> None:
        self.heard: list[tuple[Frame, Action | None, Action | None]] = []

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        self.heard.append((frame, proposal, executed))


def told(episode: Episode) -> dict[str, Any]:
    """An episode without what the machine adds."""
    return episode.as_dict() | {"machine": None}


def in_folder(runner: Runner, seed: int, folder: Path) -> Path:
    """The record of an episode, with the model beside it."""
    plan(ROAD, learned.model("tiny-road"), Policy()).keep_model(folder)
    path = folder / f"{seed}.run.jsonl"
    runner.run(seed, Keep(record=path))
    return path


# -- with and without a guard ----------------------------------------------------------


def test_a_shadow_changes_nothing() -> None:
    shadow, alone = guarded(replace(STOP, shadow=True)), Runner(ROAD)
    stopped = 0
    for seed in range(200, 230):
        seen, bare = Frames(), Frames()
        one = shadow.run(seed, Keep(listeners=(seen,)))
        two = alone.run(seed, Keep(listeners=(bare,)))
        assert seen.heard == bare.heard
        assert (one.violations, one.frames) == (two.violations, two.frames)
        assert one.interventions == () and two.alarms == ()
        stopped += one.decisions.get("stop", 0)
    assert stopped > 0


def test_intervening_guard_changes_the_executed_action() -> None:
    runner, seen = guarded(STOP), Frames()
    episode = next(
        found
        for seed in range(200, 300)
        if (found := runner.run(seed, Keep(listeners=(seen,)))).interventions
    )
    first, last = episode.interventions[0], episode.interventions[-1]
    assert (first.kind, first.decided, first.because) == ("stop", "stop", "")
    changed = [frame.time_s for frame, wish, done in seen.heard if done != wish]
    assert changed[0] == first.time_s
    assert changed[-1] == last.until_s
    assert first.obeyed_s is not None and first.obeyed_s > first.time_s
    assert episode.alarms[0].time_s == first.time_s
    assert episode.alarms[0].risk is not None and episode.alarms[0].risk.point >= 0.4


def test_the_guard_acting_breaks_fewer_laws_on_seeds_it_does_not_know() -> None:
    alone, acting = Runner(ROAD), guarded(STOP)
    seeds = range(1000, 1080)
    without = sum(bool(alone.run(seed).violations) for seed in seeds)
    with_it = sum(bool(acting.run(seed).violations) for seed in seeds)
    assert without >= 8
    assert with_it <= without / 4


def test_most_robots_correct_the_action_after_reflection() -> None:
    alone = Runner(KITCHEN)
    acting = guarded(REFLECT, "tiny-kitchen")
    broken = [s for s in range(1000, 1100) if alone.run(s).violations]
    found = [acting.run(seed) for seed in broken]
    assert len(broken) >= 10
    assert sum(bool(episode.violations) for episode in found) <= len(broken) / 5
    kinds = {each.kind for episode in found for each in episode.interventions}
    assert "reflect" in kinds


def test_run_without_a_guard_has_no_decisions() -> None:
    episode = Runner(ROAD).run(3)
    assert episode.mode == "unguarded"
    assert (episode.alarms, episode.decisions, episode.head) == ((), {}, None)


# -- the same seed, the same bytes -----------------------------------------------------


def test_the_same_seed_gives_the_same_record_whatever_ran_before(
    tmp_path: Path,
) -> None:
    runner = guarded(STOP)
    first = in_folder(runner, 207, tmp_path / "a")
    for seed in range(210, 220):
        runner.run(seed)
    again = in_folder(runner, 207, tmp_path / "b")
    runner_of.cache_clear()
    fresh = in_folder(guarded(STOP), 207, tmp_path / "c")
    assert first.read_bytes() == again.read_bytes() == fresh.read_bytes()
    other = in_folder(runner, 208, tmp_path / "a")
    assert other.read_bytes() != first.read_bytes()


def test_what_was_recorded_comes_out_again(tmp_path: Path) -> None:
    runner = guarded(STOP)
    for seed in range(200, 206):
        path = in_folder(runner, seed, tmp_path)
        alike, divergence = replay(path)
        assert divergence is None
        reviews = [line for line in read_record(path) if "decision" in line.content]
        assert alike == len(reviews) > 50


def test_a_record_says_what_was_carried_out_and_what_was_broken(
    tmp_path: Path,
) -> None:
    runner, seen = guarded(STOP), Frames()
    path = tmp_path / "x.run.jsonl"
    stopped = broken = 0
    for seed in range(200, 230):
        episode = runner.run(seed, Keep(record=path, listeners=(seen,)))
        lines = [line.content for line in read_record(path)]
        events = [line for line in lines if "event" in line]
        done = {e["sequence"]: e for e in events if e["event"] == "carried_out"}
        for frame, wish, executed in seen.heard:
            if executed != wish:
                assert executed is not None
                carried = {"name": executed.name, **executed.arguments}
                assert done[frame.sequence]["executed"] == carried
                stopped += 1
        told = [e for e in events if e["event"] == "violated"]
        assert [e["law"] for e in told] == [b.law for b in episode.violations]
        broken += len(told)
        assert lines[-1]["end"] and lines[-1]["ended"] == episode.ended
        assert lines[-1]["hash"] == episode.head
    assert stopped and broken


def test_the_last_frame_is_reviewed_too(tmp_path: Path) -> None:
    seen = Frames()
    episode = guarded(STOP).run(200, Keep(listeners=(seen,)))
    assert sum(episode.decisions.values()) == episode.frames == len(seen.heard)
    assert seen.heard[-1][1:] == (None, None)
    assert sum(times for _, times in episode.states) == episode.frames


# -- how it ends -----------------------------------------------------------------------


def changed(old: str, new: str) -> Runner:
    assert old in ROAD.text
    text = ROAD.text.replace(old, new)
    return Runner(parse_scenario(text, "changed.yaml", Path()))


def test_it_ends_after_its_time() -> None:
    episode = changed("max_time_s: 30", "max_time_s: 2").run(1)
    assert (episode.ended, episode.duration_s) == ("2 s had passed", 2.0)
    assert episode.frames == 21


def test_it_ends_with_a_violation_where_that_is_wanted() -> None:
    text = ROAD.text.replace("eventually[0, 2 s]", "eventually[0, 0.5 s]")
    text = text.replace("max_time_s: 30", "max_time_s: 30\n  on_violation: stop")
    runner = Runner(parse_scenario(text, "changed.yaml", Path()))
    ended = {runner.run(seed).ended for seed in range(60)}
    assert "stop_at_red was broken" in ended


# -- what goes wrong -------------------------------------------------------------------


class Closing(TinyWorld):
    """Counts how often it was closed, and does at a frame what it is told."""

    closed = 0
    at = 5
    act: Callable[[], None] = staticmethod(lambda: None)

    def step(self, action: Action | None) -> Frame:
        frame = super().step(action)
        if frame.sequence == self.at:
            type(self).act()
        return frame

    def close(self) -> None:
        type(self).closed += 1
        super().close()


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> type[Closing]:
    learned.model("tiny-road")  # in the world as it is
    monkeypatch.setattr(Closing, "closed", 0)
    monkeypatch.setattr(runner_module, "make_world", lambda *_: Closing())
    return Closing


def test_the_world_is_closed_at_the_end(closing: type[Closing]) -> None:
    assert not Runner(ROAD).run(1).failed
    assert closing.closed == 1


@pytest.mark.parametrize("policy", [None, STOP])
def test_what_fails_is_kept_with_its_error(
    closing: type[Closing],
    policy: Policy | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "act", raising(RuntimeError("the bridge fell in")))
    runner = Runner(ROAD) if policy is None else guarded(policy)
    path = tmp_path / "x.run.jsonl"
    episode = runner.run(1, Keep(record=path))
    assert closing.closed == 1
    assert (episode.ended, episode.error) == (
        FAILED,
        "RuntimeError: the bridge fell in",
    )
    assert episode.frames == 5
    if policy is not None:
        last = list(read_record(path))[-1].content
        assert last["error"] == episode.error


def test_a_pilot_that_fails_is_a_failed_episode(
    closing: type[Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    def propose(*_: object) -> Action:
        raise KeyError("nothing to say")

    monkeypatch.setattr(TinyPilot, "propose", propose)
    assert Runner(ROAD).run(1).error == "KeyError: 'nothing to say'"
    assert closing.closed == 1


@pytest.mark.parametrize("policy", [None, STOP])
def test_a_proposal_that_is_not_an_action_is_reported(
    closing: type[Closing], policy: Policy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TinyPilot, "propose", lambda *_: {"name": "control"})
    runner = Runner(ROAD) if policy is None else guarded(policy)
    assert runner.run(1).error == (
        "propose of the pilot must return an Action or None, not {'name': 'control'}"
    )


def test_a_world_with_an_unknown_signal_is_rejected(
    closing: type[Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    provides = ("velocity", *closing.source.provides[1:])
    monkeypatch.setattr(closing, "source", replace(closing.source, provides=provides))
    with pytest.raises(BrokenPlugin, match="the world tiny: no signal 'velocity' in "):
        Runner(ROAD).run(1)


def test_an_invalid_value_in_the_first_frame_is_reported(
    closing: type[Closing], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reset(self: Closing, seed: int) -> Frame:
        frame = TinyWorld.reset(self, seed)
        return replace(frame, values={**frame.values, "traffic_light": "RED"})

    monkeypatch.setattr(closing, "reset", reset)
    assert Runner(ROAD).run(1).error == (
        "traffic_light cannot be 'RED' (did you mean red?)"
    )


def test_ctrl_c_closes_the_world_and_is_recorded(
    closing: type[Closing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "act", raising(KeyboardInterrupt()))
    path = tmp_path / "x.run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        guarded(STOP).run(1, Keep(record=path))
    assert closing.closed == 1
    *seen, end = [line.content for line in read_record(path)]
    assert len(seen) == 6 and seen[-1]["sequence"] == 4
    assert end["ended"] == "interrupted"


def test_a_world_that_lacks_its_extra_ends_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(*_: object) -> None:
        raise MissingDependency("the world sumo", "sumo")

    monkeypatch.setattr(runner_module, "make_world", make)
    with pytest.raises(MissingDependency, match="pip install"):
        Runner(ROAD).run(1)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "- braking\n",
            "- braking\n    - horn_on\n",
            "changed.yaml: abstraction: the world tiny does not provide horn_on",
        ),
        (
            "speed_kmh: $speed",
            "speed_kmh: $speed\n    wheels: 3",
            "changed.yaml: world: wheels: unknown key 'wheels'",
        ),
        (
            "name: tiny\n  settings",
            "name: tinny\n  settings",
            "changed.yaml: world: there is no world 'tinny' (did",
        ),
    ],
)
def test_unsuitable_scenario_is_reported(old: str, new: str, line: str) -> None:
    with pytest.raises(ForewarnError) as caught:
        changed(old, new).run(1)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_laws_that_nothing_provides_for_are_left_out_unless_that_leaves_none() -> None:
    without = ROAD.text.replace("- no_collision", '- "57"')
    without = without.replace("  no_collision: [0.03, 0.12]\n", "")
    runner = Runner(parse_scenario(without, "x.yaml", Path()))
    assert not runner.run(1).failed
    begin, end = ROAD.text.index("  - stop_at_red"), ROAD.text.index("draws:")
    none = ROAD.text[:begin] + '  - "57"\n' + ROAD.text[end:]
    begin, end = none.index("expected_base"), none.index("abstraction:")
    with pytest.raises(ForewarnError, match="no law applies: 57.* needs"):
        Runner(parse_scenario(none[:begin] + none[end:], "x.yaml", Path())).run(1)


# -- who hears of it -------------------------------------------------------------------


def test_listeners_hear_of_episodes_and_reviews() -> None:
    class Ear(Listener):
        def __init__(self) -> None:
            self.heard: list[object] = []

        def began(self, run: Run) -> None:
            self.heard.append((run.scenario, run.seed))

        def reviewed(
            self, frame: Frame, proposal: Action | None, decision: Decision, *_: object
        ) -> None:
            self.heard.append(decision)

        def ended(self, facts: Any) -> None:
            self.heard.append(facts)

    ear = Ear()
    made = guarded(STOP).guarding
    assert made is not None
    runner = Runner(ROAD, replace(made, listeners=[lambda: ear]))
    episode = runner.run(200)
    heard = ear.heard
    assert heard[0] == ("tiny-road", 200)
    assert heard[-1] == told(episode) | {"machine": dict(episode.machine)}
    assert len(heard) == episode.frames + 2


class Live(TinyWorld):
    """A world that says it is none of ours."""

    source = replace(TinyWorld.source, embedded=False)

    def __init__(self) -> None:
        super().__init__()
        self.halted = threading.Event()

    def halt(self) -> None:
        self.halted.set()


def test_a_live_world_is_judged_by_a_live_clock_and_replays_from_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned.model("tiny-road")  # in the world as it is
    monkeypatch.setattr(runner_module, "make_world", lambda *_: Live())
    runner_of.cache_clear()
    # Simulated frames come faster than live ones, so none of them is old.
    runner = guarded(STOP)
    path = in_folder(runner, 200, tmp_path)
    runner_of.cache_clear()
    lines = [line.content for line in read_record(path)]
    clocks = [line["clock"] for line in lines if "decision" in line]
    assert all(clock == sorted(clock) and len(clock) > 1 for clock in clocks)
    assert clocks[-1][0] > clocks[0][0]
    assert replay(path)[1] is None


class Hanging(Listener):
    """A listener in whose hands a review hangs, until the world is halted."""

    def __init__(self, world: Live) -> None:
        self.world, self.reviews, self.halted = world, 0, False

    def reviewed(self, *_: Any) -> None:
        self.reviews += 1
        if self.reviews == 3:
            assert not self.world.halted.is_set()
            self.halted = self.world.halted.wait(timeout=10.0)


def live_runner(
    monkeypatch: pytest.MonkeyPatch, world: Any, policy: Policy
) -> tuple[Runner, Hanging]:
    model = learned.model("tiny-road")
    monkeypatch.setattr(runner_module, "make_world", lambda *_: world)
    parts = runner_of(plan(ROAD, model, policy)).guarding
    assert parts is not None
    hanging = Hanging(world)
    return Runner(ROAD, replace(parts, listeners=[lambda: hanging])), hanging


def test_a_review_that_hangs_leaves_no_live_world_driving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Live()
    runner, hanging = live_runner(monkeypatch, world, replace(STOP, lease_s=0.2))
    runner.run(200)
    assert hanging.halted and hanging.reviews > 3


def test_nothing_is_halted_where_the_guard_only_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Live()
    runner, _ = live_runner(monkeypatch, world, replace(STOP, shadow=True))
    runner.run(200)
    assert not world.halted.is_set()


class Unstoppable(TinyWorld):
    """A live world that nobody can halt."""

    source = replace(TinyWorld.source, embedded=False)


def test_live_world_without_a_halt_is_not_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner, _ = live_runner(monkeypatch, Unstoppable(), STOP)
    with pytest.raises(
        InvalidScenario,
        match=("runs in real time, and nothing can halt it if the guard hangs"),
    ):
        runner.run(200)
