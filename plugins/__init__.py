"""Interfaces of worlds, pilots and actuators, and the plugins that implement them."""

from __future__ import annotations

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.actions import CAP as CAP
    from forewarn.plugins.actions import Actions as Actions
    from forewarn.plugins.actions import ActionSpec as ActionSpec
    from forewarn.plugins.actions import Argument as Argument
    from forewarn.plugins.actions import number as number
    from forewarn.plugins.actions import switch as switch
    from forewarn.plugins.actions import word as word
    from forewarn.plugins.contracts import Actuator as Actuator
    from forewarn.plugins.contracts import Pilot as Pilot
    from forewarn.plugins.contracts import Source as Source
    from forewarn.plugins.contracts import SteppedWorld as SteppedWorld
    from forewarn.plugins.contracts import World as World
    from forewarn.plugins.loop.loop import EpisodeClock as EpisodeClock

__all__, __getattr__, __dir__ = _front(
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
