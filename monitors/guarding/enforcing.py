"""What a guard does where its policy only alerts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from forewarn.monitors.guarding.decision import RANK, Kind
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.laws.lawbook import Law, broken_by_standing

_CLOCK_S = 0.5  # which laws ask to move does not hang on it, but how long it takes does


def acting(policy: Policy, kind: Kind, laws: Iterable[Law]) -> Policy:
    """The policy with this intervention at each of its thresholds.

    No car is slowed or stopped for a law that asks it to move: that would cause what it
    should prevent, and to set a car going that its driver holds is no fallback. Of
    such a law there is an alert.
    """
    moving = asks_to_move(laws) if RANK[kind] >= RANK["slow"] else frozenset[str]()
    rules = {
        law: tuple(replace(s, kind="alert" if law in moving else kind) for s in steps)
        for law, steps in policy.rules.items()
    }
    return replace(policy, rules=rules)


def asks_to_move(laws: Iterable[Law]) -> frozenset[str]:
    """The names of the laws that standing still would break."""
    return frozenset(law.name for law in laws if broken_by_standing(law, _CLOCK_S))
