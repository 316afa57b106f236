"""What stands beside the risk: rules and guard programs, asked about every frame.

A judge sees what the guard sees, and may call for an intervention by itself. The guard
follows whoever calls for the severest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Kind


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge calls for.

    Args:
        kind: The intervention; `proceed` for what is only to be noted.
        rule: Which of the judge's rules; one of those that it names.
        reason: One sentence for people.
        because: What was found out, for people.
        cap_kmh: For `slow`: the speed not to exceed.
        action: For `substitute`: what to do instead.
    """

    kind: Kind
    rule: str
    reason: str = ""
    because: tuple[str, ...] = ()
    cap_kmh: float | None = None
    action: Action | None = None


class Judge(Protocol):
    """A set of rules, or a guard program, during one episode after another."""

    @property
    def rules(self) -> Mapping[str, str]:
        """The names of its rules, each with its text: all that a prompt may quote."""

    def as_dict(self) -> Mapping[str, Any]:
        """What a record keeps of it: enough to make it again, format and all."""

    def reset(self) -> None:
        """Begins an episode."""

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        """What it calls for on this frame; None where it has nothing to say."""


@runtime_checkable
class Substituting(Protocol):
    """A judge that may put another action in the place of the one proposed."""

    @property
    def substitutes(self) -> Mapping[str, Action]:
        """Those actions, by the names of the rules that ask for them."""


@runtime_checkable
class Bound(Protocol):
    """A judge whose rules are about actions that there may or may not be."""

    def unmatched(self, actions: Collection[str]) -> Sequence[str]:
        """The names of its rules that none of these actions can match."""
