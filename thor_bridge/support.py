"""Checks what is installed for AI2-THOR, and defines the errors of the simulator."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forewarn.abstractions.errors import ForewarnError
from forewarn.plugins.support import Support, installed

WANTED = ("ai2thor", "msgpack")
BUILD_BYTES = 2 * 10**9
"""The approximate size of a Unity build in bytes."""


class SimulatorError(ForewarnError):
    """The simulator cannot continue and has been stopped."""


class SimulatorHung(SimulatorError):
    """The simulator did not answer in time."""


class SimulatorDied(SimulatorError):
    """The simulator's process has ended unexpectedly."""


class NoBuild(SimulatorError):
    """The simulator's build is not installed and cannot be downloaded."""

    exit_status = 3


class OutOfStep(SimulatorError):
    """The simulator's answer is for a different action than the one that was sent."""


@dataclass(frozen=True, slots=True)
class ThorSupport(Support):
    """The parts of AI2-THOR that can be used on this machine.

    Args:
        unity: Whether the real build can probably be started.
    """

    unity: bool


def examine(
    environment: Mapping[str, str] | None = None,
    *,
    system: str = "",
    machine: str = "",
) -> ThorSupport:
    """Reports what is installed, without starting or downloading anything."""
    environment = os.environ if environment is None else environment
    system, machine = system or platform.system(), machine or platform.machine()
    here = installed("thor", *WANTED)
    missing = list(here.missing)
    known = (("Linux", "x86_64"), ("Darwin", "x86_64"), ("Darwin", "arm64"))
    if (system, machine) not in known:
        missing.append(f"there is no Unity build for {system} on {machine}")
    if system == "Linux" and not environment.get("DISPLAY"):
        missing.append(
            "DISPLAY is not set: the Unity build for Linux needs an X server with GLX"
            " (ai2thor-xorg start), or CloudRendering with Vulkan"
        )
    home = Path(environment.get("HOME", "/")) / ".ai2thor"
    if not any((home / "releases").glob("*")):
        folder = home if home.exists() else home.parent
        if not os.access(folder, os.W_OK):
            missing.append(
                f"the build cannot be stored in {folder}, which is not writable"
            )
        elif shutil.disk_usage(folder).free < BUILD_BYTES:
            missing.append(f"the build needs 2 GB of free space in {folder}")
    return ThorSupport(here.versions, tuple(missing), not missing)
