"""Contracts for worlds, pilots and actuators, and the plugs that carry them out."""

from __future__ import annotations

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.actions import (
        CAP,
        Actions,
        ActionSpec,
        Argument,
        number,
        switch,
        word,
    )
    from forewarn.plugins.contracts import Actuator, Pilot, Source, SteppedWorld, World
    from forewarn.plugins.loop.loop import EpisodeClock

__all__ = [
    "CAP",
    "ActionSpec",
    "Actions",
    "Actuator",
    "Argument",
    "EpisodeClock",
    "Pilot",
    "Source",
    "SteppedWorld",
    "World",
    "number",
    "switch",
    "word",
]

__getattr__, __dir__ = _front(
    __name__,
    {
        "actions": (
            *("CAP", "ActionSpec", "Actions", "Argument"),
            *("number", "switch", "word"),
        ),
        "contracts": ("Actuator", "Pilot", "Source", "SteppedWorld", "World"),
        "loop.loop": ("EpisodeClock",),
    },
)
