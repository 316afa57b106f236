"""What becomes of a policy that alerts when the guard is to act."""

from __future__ import annotations

import pytest

from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import acting, asks_to_move, load_policy
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped


def kinds(name: str, kind: Kind) -> set[str]:
    policy = load_policy(Shipped.in_folder(FOLDER, name).policy)
    acts = acting(policy, kind, load_scenario(name).laws)
    before = [s.threshold for steps in policy.rules.values() for s in steps]
    after = [step for steps in acts.rules.values() for step in steps]
    assert [step.threshold for step in after] == before
    return {step.kind for step in after}


@pytest.mark.parametrize("name", ["s1", "s3", "s7", "highway-speed", "give-way"])
def test_a_stop_is_enforced_for_laws_that_standing_keeps(name: str) -> None:
    assert not asks_to_move(load_scenario(name).laws)
    assert kinds(name, "stop") == {"stop"}
    assert kinds(name, "slow") == {"slow"}


def test_guard_does_not_stop_a_car_for_not_moving_off() -> None:
    assert asks_to_move(load_scenario("green-start").laws) == {"38_1"}
    assert kinds("green-start", "stop") == {"alert"}
    assert kinds("green-start", "slow") == {"alert"}
    assert kinds("green-start", "reflect") == {"reflect"}
