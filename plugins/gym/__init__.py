"""Gymnasium: environments as worlds, and guards around environments.

Needs the extra `gym`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.gym.act import EnvActuator
    from forewarn.plugins.gym.bridge import EnvPilot, EnvWorld
    from forewarn.plugins.gym.guarded import (
        Equipment,
        GuardedEnv,
        GuardedParallelEnv,
        GuardedVectorEnv,
    )

__all__ = [
    "EnvActuator",
    "EnvPilot",
    "EnvWorld",
    "Equipment",
    "GuardedEnv",
    "GuardedParallelEnv",
    "GuardedVectorEnv",
]

__getattr__, __dir__ = _front(
    __name__,
    {
        "act": ("EnvActuator",),
        "bridge": ("EnvPilot", "EnvWorld"),
        "guarded": (
            "Equipment",
            "GuardedEnv",
            "GuardedParallelEnv",
            "GuardedVectorEnv",
        ),
    },
)
