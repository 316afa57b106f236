"""AI2-THOR: predicates from metadata, interventions, and an embedded household
simulator.
"""

from __future__ import annotations

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.thor_bridge.bridge import HouseholdWorld as HouseholdWorld
    from forewarn.thor_bridge.performing import Robot as Robot

__all__, __getattr__, __dir__ = _front(
    __name__, {"bridge": ("HouseholdWorld",), "performing": ("Robot",)}
)
