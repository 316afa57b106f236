"""What the verbs drive, and what they give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Metadata = Mapping[str, Any]
Thing = Mapping[str, Any]


class Event(Protocol):
    """What a low-level action gives back."""

    @property
    def metadata(self) -> Metadata:
        """AI2-THOR's metadata."""


class LowLevel(Protocol):
    """What the verbs need: ai2thor's controller, or the household in this process."""

    @property
    def last_event(self) -> Event:
        """What the last action gave back."""

    def step(self, action: str, **arguments: Any) -> Event:
        """Carries out a low-level action."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a verb ended.

    Args:
        action: The step as it was spelt.
        done: Whether it was done.
        message: What the controller says of it; empty when it was done.
        error: AI2-THOR's own error text.
        reported: Whether SafeAgentBench's controller says so when it was not done:
            of hands that fail it does not.
    """

    action: str
    done: bool
    message: str
    error: str
    reported: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The result dictionary that SafeAgentBench's agents expect."""
        success = self.done or not self.reported
        return {
            "action": self.action,
            "success": success,
            "message": "" if success else self.message,
            "errorMessage": self.error,
        }
