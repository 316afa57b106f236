"""What is said to those who mix up the arguments of public functions in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forewarn
from forewarn import AgentGuard, Guard, Guarding, InvalidInput, Policy, load_model
from tests.scenarios import learned

LAW = "always not tool == delete"


@pytest.fixture(scope="module")
def road() -> Path:
    return learned.model("tiny-road")


def _measure(road: Path, **given: Any) -> Any:
    return forewarn.measure("tiny-road", model=road, **given)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "a model for a watch": (
        lambda road: Guard(load_model(road), Policy()),  # type: ignore[arg-type]
        r"watch: expected a Watch, found a Model \(make it with load_watch",
    ),
    "a file for a policy": (
        lambda road: Guarding.load(road, "p.yaml"),  # type: ignore[arg-type]
        r"policy: expected a Policy, found 'p.yaml' \(load the file with load_policy",
    ),
    "a file for a model": (
        lambda road: forewarn.load_watch(str(road), horizon_s=1.0),  # type: ignore[arg-type]
        r"model: expected a Model or a list, found .*load_model",
    ),
    "text for a formula": (
        lambda _: forewarn.compile_law("always a"),  # type: ignore[arg-type]
        "formula: expected a formula, found 'always a' .*parse_formula",
    ),
    "text for a number": (
        lambda _: forewarn.learn(scenario="tiny-road", episodes="20"),  # type: ignore[arg-type]
        "episodes: expected a whole number, found '20'",
    ),
    "a scenario for traces": (
        lambda _: forewarn.learn("cart.yaml"),
        r"traces: cart.yaml: this is a scenario.*write scenario='cart.yaml'",
    ),
    "a number for a model": (
        lambda _: forewarn.tune("tiny-road", model=42),  # type: ignore[arg-type]
        "model: expected a path or text or learn's result or a Model, found 42",
    ),
    "a number for a list": (
        lambda road: _measure(road, thresholds=0.5),
        r"thresholds: expected a list of numbers, found 0.5",
    ),
    "a number for a policy": (
        lambda road: _measure(road, policy=0.5),
        "policy: expected a path or text or a Policy or tune's result, found 0.5",
    ),
    "laws over a car for laws over calls": (
        lambda road: AgentGuard.load(road),
        r"the laws of the model are not about calls: .* \(pass observe=",
    ),
    "an intervention that does not exist": (
        lambda _: Policy(rules={"*": (forewarn.Step("halt", 0.5),)}),  # type: ignore[arg-type]
        "Step: kind: expected one of proceed, alert, .* found 'halt'",
    ),
    "a policy that judges calls afterwards": (
        lambda _: AgentGuard.by_laws(LAW, Policy()),
        "when: the policy judges calls only after they are made.*when: before",
    ),
    "no law": (
        lambda _: AgentGuard.by_laws([]),
        "laws: the guard has no law .*read_judge",
    ),
    "text for a horizon": (
        lambda road: forewarn.risks("no", model=road, horizon_s="3"),  # type: ignore[arg-type]
        "horizon_s: expected a number, found '3'",
    ),
    "a listener for its class": (
        lambda road: Guarding.load(road, listeners=[forewarn.LogAlerts()]),
        r"listeners: a LogAlerts cannot be called.*listeners=\[LogAlerts\]",
    ),
    "a file object for a record": (
        lambda road: Guarding.load(road, record=object()),
        "record: expected a path, found an object",
    ),
    "no arguments of a tool": (
        lambda _: AgentGuard.by_laws(LAW).check_tools({"pay": None}),  # type: ignore[dict-item]
        r"tools\['pay'\]: expected a list of texts, found nothing",
    ),
    "a list of tools": (
        lambda _: AgentGuard.by_laws(LAW).check_tools(["delete"]),  # type: ignore[arg-type]
        r"tools: expected a mapping, found \['delete'\]",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mixed_up_argument_is_named(what: str, road: Path) -> None:
    call, says = WRONG[what]
    with pytest.raises(InvalidInput, match=says):
        call(road)


def test_a_wrong_class_for_a_guarded_environment_is_named(road: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from forewarn.plugins.gym import EnvActuator, GuardedEnv

    guarding = Guarding.load(road)

    class Deaf(EnvActuator):
        def carry_out(self, decision: Any) -> Any:  # type: ignore[override]
            return decision

    def none(observation: Any, info: Any) -> dict[str, Any]:
        return {}

    def shown(decision: Any, frame: Any) -> bool:
        return True

    actuator = EnvActuator(1, shown)
    wrong: list[tuple[Any, Any, Any, str]] = [
        (lambda observation: {}, actuator, 0.02, "it is called as .*observation, info"),
        (none, EnvActuator, 0.02, "found the class EnvActuator"),
        (none, object(), 0.02, "an object without can, carry_out, fallback, obeyed"),
        (none, Deaf(1, shown), 0.02, r"carry_out\(decision, proposal, frame\)"),
        (none, actuator, "0.02", "period_s: expected a number"),
        (
            none,
            actuator,
            -0.02,
            r"period_s: expected a number above 0, found -0\.02",
        ),
    ]
    for signals, of, period_s, says in wrong:
        with pytest.raises(InvalidInput, match=says):
            GuardedEnv(gymnasium.make("CartPole-v1"), guarding, signals, of, period_s)


def test_equipment_for_a_function_of_the_agent_is_named(road: Path) -> None:
    pytest.importorskip("gymnasium")
    from forewarn.plugins.gym import EnvActuator, Equipment, GuardedParallelEnv

    actuator = EnvActuator(1, lambda decision, frame: True)
    equipment: Any = Equipment(Guarding.load(road), lambda o, i: {}, actuator, 0.02)
    with pytest.raises(InvalidInput, match="Equipment cannot be called like a functi"):
        GuardedParallelEnv(object(), equipment)


def test_a_closed_environment_takes_no_step(road: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from forewarn.plugins.gym import EnvActuator, GuardedEnv

    actuator = EnvActuator(1, lambda decision, frame: True)
    inner = gymnasium.make("CartPole-v1")
    env = GuardedEnv(inner, Guarding.load(road), lambda o, i: {}, actuator, 0.02)
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_mistakes_that_a_guard_must_survive_are_logged(
    road: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard(forewarn.load_watch(load_model(road), horizon_s=1.0), Policy())
    assert guard.review({"speed": 3.0}).kind == "stop"  # type: ignore[arg-type]
    agent = AgentGuard.by_laws(LAW)
    agent.after(False, 99)
    agent.check_tools({"delet": ["path"]})
    assert agent.before("read", '{"path": "a"}').stopped  # type: ignore[arg-type]
    said = [record.getMessage() for record in caplog.records]
    for says in (
        "expects Frame(time_s, sequence, signals), but got dict",
        "call 99 is not in progress",
        "there is no tool 'delete' (did you mean delet?)",
        "arguments: expected a mapping, found",
    ):
        assert any(says in each for each in said), (says, said)
