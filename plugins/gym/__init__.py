"""Gymnasium environments as worlds, and guards around Gymnasium environments.

This package requires the extra `gym`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.gym.act import EnvActuator as EnvActuator
    from forewarn.plugins.gym.bridge import EnvPilot as EnvPilot
    from forewarn.plugins.gym.bridge import EnvWorld as EnvWorld
    from forewarn.plugins.gym.guarded import Equipment as Equipment
    from forewarn.plugins.gym.guarded import GuardedEnv as GuardedEnv
    from forewarn.plugins.gym.guarded import GuardedParallelEnv as GuardedParallelEnv
    from forewarn.plugins.gym.guarded import GuardedVectorEnv as GuardedVectorEnv

__all__, __getattr__, __dir__ = _front(
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
