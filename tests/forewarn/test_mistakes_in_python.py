"""Mistakes in calls of the Python interface: each message must say what helps."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forewarn
from forewarn import (
    AgentGuard,
    Frame,
    Guard,
    Guarding,
    InvalidInput,
    Monitor,
    Policy,
    Step,
    compile_law,
    load_model,
    load_watch,
    parse_formula,
)
from forewarn.abstractions.files import make_folder, write_json
from forewarn.monitors.guarding.record import RunRecord
from tests.scenarios import learned

untyped: Callable[[Any], Any] = lambda value: value  # noqa: E731
LAW = parse_formula("always (a -> b)")
CALLS = "always not tool == delete"


def refused(call: Callable[[], Any]) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(InvalidInput) as caught:
        call()
    return str(caught.value)


def test_values_that_are_needed_are_described() -> None:
    wrong: Any = "rules.yaml"
    told = refused(lambda: AgentGuard.by_laws([CALLS], judges=[wrong]))
    assert "load the file with read_judge" in told
    told = refused(lambda: AgentGuard.by_laws([CALLS], approver=wrong))
    assert "a method ask(decision, proposal)" in told
    law: Any = LAW
    assert "compile it with compile_law" in refused(lambda: Monitor(law))
    cls: Any = forewarn.Listener
    told = refused(lambda: Guarding.load(learned.model("tiny-road"), listeners=cls))
    assert "listeners: expected a list" in told


def test_a_word_with_another_first_letter_is_not_suggested() -> None:
    halt: Any = "halt"
    told = refused(lambda: Step(halt, 0.3))
    assert "slow, stop, cut" in told
    assert "alert?" not in told


def test_files_cannot_be_written_into_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    told = refused(lambda: make_folder(tmp_path / "a.csv"))
    assert "a.csv: file exists (this is a file, but a folder is needed)" in told
    told = refused(lambda: write_json(tmp_path, {}))
    assert "this is a folder (give a file, such as" in told
    with pytest.raises(InvalidInput, match="a folder is needed"):
        RunRecord(tmp_path / "a.csv/b.run.jsonl", {})


@pytest.mark.parametrize("kind", ["guard-program", "rules"])
def test_judges_are_no_models(kind: str, tmp_path: Path) -> None:
    (tmp_path / "house.yaml").write_text(f"format: forewarn.{kind}/1\n")
    told = refused(lambda: AgentGuard.load(tmp_path / "house.yaml"))
    assert f"; --{kind} takes this one, or in Python read_judge)" in told


def test_missing_arguments_are_reported_once() -> None:
    load: Any = load_watch
    with pytest.raises(TypeError, match="horizon_s") as caught:
        load(load_model(learned.model("tiny-road")))
    text = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in text


@pytest.mark.parametrize(
    ("call", "mend"),
    [
        (
            lambda: untyped(Policy)(horizon=3),
            "Policy: .*'horizon' .did you mean horizon_s",
        ),
        (lambda: forewarn.measure("s1", "m.json"), "as in model="),
        (
            lambda: untyped(AgentGuard.by_laws)(judges=[]),
            "by_laws: .*'laws' .laws: One or more formulas",
        ),
        (lambda: AgentGuard.by_laws(CALLS, tools=[]), "Guarding: .*'tools'"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], Any], mend: str) -> None:
    with pytest.raises(TypeError, match=mend):
        call()


def test_laws_of_agents_hold_throughout(caplog: pytest.LogCaptureFixture) -> None:
    told = refused(lambda: AgentGuard.by_laws(["tool != delete"]))
    assert "only to the first moment of a run (write always (…))" in told
    guard = AgentGuard.by_laws(["always (tool == delet -> arg_file == 3)"])
    wrong: Any = ["delete"]
    assert 'as in {"delete": ["path"]}' in refused(lambda: guard.check_tools(wrong))
    for _ in range(2):
        guard.check_rules({"delete": ["path"]})
    assert caplog.text.count("did you mean delete?") == 1
    assert caplog.text.count("no call has a signal 'arg_file'") == 1
    assert "put it in a list" in refused(lambda: Guard(*_watched(), judges=_judge()))


def _watched() -> tuple[Any, Policy]:
    return load_watch(load_model(learned.model("tiny-road")), horizon_s=1.0), Policy()


def _judge() -> Any:
    from forewarn.monitors.rules.judging import RuleJudge
    from forewarn.monitors.rules.rule import rules_of

    content = {"format": "forewarn.rules/1", "domain": "household", "rules": []}
    return RuleJudge(rules_of(content, "r"))


def test_studies_name_what_is_wrong(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame: Any = pandas.DataFrame({"a": [1]})
    told = refused(lambda: forewarn.learn(frame, scenario="tiny-road"))
    assert "traces: expected a path or text" in told
    told = refused(lambda: forewarn.learn("runs", scenario=tmp_path))
    assert "is a folder, not a scenario (give a YAML file" in told
    learned_cart: Any = learned.model("tiny-road")
    told = refused(
        lambda: forewarn.measure("s3", model=learned_cart, runs=1, seed=5000)
    )
    assert "`accept`" not in told
    assert "use a model learned with these settings" in told


def test_reviews_say_what_was_given() -> None:
    guard = Guard(
        load_watch(load_model(learned.model("tiny-road")), horizon_s=1.0), Policy()
    )
    wrong: Any = {"speed": 3}
    reason = guard.review(wrong).reason
    assert "review expects Frame(time_s, sequence, signals), but got dict" in reason
    guard.reset()
    action: Any = "go"
    reason = guard.review(Frame(0.0, 0, {}), action).reason
    assert "the proposal must be an Action, but is str" in reason
    frame: Any = Frame(0.0, 0, {"a": True})
    with pytest.raises(forewarn.InvalidInput.__mro__[1], match="mapping of signals"):
        Monitor(compile_law(LAW)).step(frame)


def test_policies_name_their_unknown_laws() -> None:
    policy = Policy(rules={"no_colision": (Step("stop", 0.5),)})
    guarding = Guarding.load(learned.model("tiny-road"), policy)
    told = refused(guarding.guard)
    assert "the policy default has rules only for no_colision" in told
    assert "stop_at_red" in told


class TestEnvironments:
    def env(self) -> Any:
        return pytest.importorskip("gymnasium").make("CartPole-v1")

    def guarded(self, stop: Any = 1, shown: Any = None, period_s: float = 0.1) -> Any:
        from forewarn.plugins.gym import EnvActuator, GuardedEnv

        guarding = Guarding.load(learned.model("tiny-road"))
        actuator = EnvActuator(stop, shown or (lambda decision, frame: True))
        return GuardedEnv(self.env(), guarding, lambda seen, info: {}, actuator,
                          period_s)  # fmt: skip

    def test_the_stop_must_be_an_action(self) -> None:
        assert self.guarded()
        told = refused(lambda: self.guarded(stop=9))
        assert "stop: 9 is not in the action space Discrete(2)" in told

    def test_the_stop_may_have_several_parts(self) -> None:
        spaces = pytest.importorskip("gymnasium").spaces
        from forewarn.plugins.gym import EnvActuator

        box = spaces.Box(-1, 1, (1,))
        parts = spaces.Dict({"gear": spaces.Discrete(2), "throttle": box})
        stop = {"gear": 0, "throttle": np.zeros(1, np.float32)}
        EnvActuator(stop, lambda decision, frame: True).check(parts)
        pair = spaces.Tuple((spaces.Discrete(2), box))
        EnvActuator(tuple(stop.values()), lambda decision, frame: True).check(pair)

    def test_the_effect_must_be_a_function(self) -> None:
        told = refused(lambda: self.guarded(shown="angle < 0.1"))
        assert "shown: expected a function, found 'angle < 0.1'" in told

    def test_functions_must_take_their_arguments(self) -> None:
        from forewarn.plugins.gym import EnvActuator

        told = refused(lambda: EnvActuator(lambda env: 1, lambda decision, frame: True))
        assert "stop: " in told and "it is called as" in told
        told = refused(lambda: self.guarded(shown=lambda frame: True))
        assert "is called as" in told and "(decision, frame)" in told
        swapped: Any = 1
        told = refused(lambda: EnvActuator(lambda: True, swapped))
        assert "EnvActuator: shown: expected a function" in told
        assert "shown: Returns whether a frame shows" in told

    def test_other_kinds_of_environments(self) -> None:
        from forewarn.plugins.gym import GuardedEnv, GuardedParallelEnv

        told = refused(lambda: GuardedParallelEnv(self.env(), lambda agent: None))
        assert "not a parallel environment of PettingZoo (use GuardedEnv)" in told
        make: Any = GuardedEnv
        told = refused(lambda: make("CartPole-v1", None, None, None, 0.1))
        assert "make it with gymnasium.make" in told

    def test_the_period_must_be_that_of_the_model(self) -> None:
        told = refused(lambda: self.guarded(period_s=100))
        assert "its states are 0.1 s apart, but the source's frames are 100 s" in told

    def test_swapped_arguments(self) -> None:
        from forewarn.plugins.gym import GuardedEnv

        make: Any = GuardedEnv
        guarding = Guarding.load(learned.model("tiny-road"))
        told = refused(lambda: make(guarding, self.env(), None, None, 0.1))
        assert "env: expected an Env, found a Guarding" in told
