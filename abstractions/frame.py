"""Frames (the signals at one time) and the sources that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeGuard

from pydantic import Field

from forewarn.abstractions.arguments import checked

Value = float | bool | str | None


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is an int or a float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Frame:
    """The values of signals at `time_s`.

    None means that the object that the signal describes is known to be absent;
    comparisons with the signal are then false. If the value is unknown, the signal is
    missing from the frame.

    Args:
        time_s: The time of the source's clock, in s.
        sequence: The frame number, which increases with every frame.
        values: The value of each signal, in the unit declared in the vocabulary.
    """

    time_s: float
    sequence: int
    values: Mapping[str, Any] = field(default_factory=dict)


@checked
@dataclass(frozen=True, slots=True)
class Source:
    """A source of frames, as described before the first frame.

    Args:
        name: The name and version of the source.
        vocabulary: The name of the frames' vocabulary; empty if unknown.
        provides: The signals that every frame contains; empty if unknown.
        period_s: The time between two frames, in s; 0 if unknown.
        embedded: Whether the source's clock is simulated; if so, deadlines are measured
            with it.
        fixed: Whether the source replays a recording, so that actions have no effect.
    """

    name: str
    vocabulary: str = ""
    provides: tuple[str, ...] = ()
    period_s: Annotated[float, Field(ge=0)] = 0.0
    embedded: bool = True
    fixed: bool = False
