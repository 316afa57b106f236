"""Events: what a rule is asked about, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from forewarn.abstractions.frame import Value

Moment = Literal["before", "after", "tick", "finish"]
MOMENTS: tuple[Moment, ...] = ("before", "after", "tick", "finish")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to an agent.

    Args:
        moment: `before` an action is done, `after` it, a `tick` of a world that goes
            on by itself, or the `finish` of the run.
        action: The verb or the tool's name; "" for a tick and the finish.
        arguments: What the action is given.
        values: The signals at that moment, in the domain's vocabulary.
        succeeded: After an action: whether it did; None where nobody says.
        output: After an action: what came back.
        time_s: The source's clock.
        tool: What carries the action out, where that has a name of its own.
        text: The action as the agent wrote it.
    """

    moment: Moment
    action: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    succeeded: bool | None = None
    output: str = ""
    time_s: float = 0.0
    tool: str = ""
    text: str = ""

    @property
    def decides(self) -> bool:
        """Whether something can still be done about it: all but what is over."""
        return self.moment != "after"
