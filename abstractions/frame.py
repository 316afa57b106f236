"""A frame: the signals at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

Value = float | bool | str | None


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number; true is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a source knew at `time_s`.

    A value of None is `none`: its subject is known not to be there, and comparisons
    with it are false. A signal without a value is absent: nothing is known of it.

    Args:
        time_s: The source's clock.
        sequence: Counts the source's frames; it never repeats or goes back.
        values: The signals, in the units of their vocabulary.
    """

    time_s: float
    sequence: int
    values: Mapping[str, Any] = field(default_factory=dict)
