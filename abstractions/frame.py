"""A frame, the signals at one moment, and the source that frames come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

Value = float | bool | str | None


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a number; true and false do not count as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Frame:
    """The signals that a source knew at `time_s`.

    A value of None means `none`: the signal's subject is known to be absent, and
    comparisons with the signal are false. A signal without a value is absent from the
    frame: its value is unknown.

    Args:
        time_s: The time by the source's clock.
        sequence: The number of the frame, which increases with every frame.
        values: The signals, in the units of their vocabulary.
    """

    time_s: float
    sequence: int
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """The description of a source of frames, known before the first frame.

    Args:
        name: Its name, with its version.
        vocabulary: The name of its frames' vocabulary; empty if unknown.
        provides: The signals that every frame carries; empty if unknown.
        period_s: The time between two frames; 0 if unknown.
        embedded: Whether the source's clock is simulated; deadlines then use this clock
            too.
        fixed: Whether the source replays a recording, so that no action has an effect.
    """

    name: str
    vocabulary: str = ""
    provides: tuple[str, ...] = ()
    period_s: float = 0.0
    embedded: bool = True
    fixed: bool = False
