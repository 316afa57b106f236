"""What a guarded loop is made of, apart from what it guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.contracts import Foresight, Source, World
from forewarn.plugins.loop.alerts import Alert
from forewarn.plugins.loop.approval import Approver


@dataclass(frozen=True, slots=True)
class Guarding:
    """What a guard is made of, apart from the source that it watches.

    Args:
        make: The guard for a source, on a clock.
        policy: What it does at which risk.
        model: What the record's header says of its model.
        alerts: Told of each intervention when it begins.
        approver: Who is asked; without one `ask` escalates.
    """

    make: Callable[[Source, Clock], Guard]
    policy: Policy
    model: Mapping[str, Any] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    approver: Approver | None = None


def foresight_of(world: World, policy: Policy) -> Foresight | None:
    """Who says what actions lead to; None where the policy does not ask.

    Raises:
        InvalidInput: The policy asks, and the world cannot say.
    """
    if policy.when == "after":
        return None
    if not isinstance(world, Foresight):
        raise InvalidInput(
            f"the world {world.source.name} cannot foresee what an action leads to, and"
            f" the policy's `when` is {policy.when!r}",
            mend="judge what is observed: `when: after`",
        )
    return world
