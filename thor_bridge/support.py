"""What is here for AI2-THOR: our household always, the real Unity build perhaps."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

WANTED = ("ai2thor", "msgpack")
BUILD_BYTES = 2 * 10**9
"""What a Unity build needs on disk, roughly."""


@dataclass(frozen=True, slots=True)
class Support:
    """What of AI2-THOR can be used on this machine.

    Args:
        versions: Of the packages that the bridge uses; None where one is missing.
        protocols: How a player can be spoken to.
        unity: Whether the real build can be started, as far as one can tell.
        missing: What keeps the real build from starting, each with its mend.
    """

    versions: Mapping[str, str | None]
    protocols: tuple[str, ...]
    unity: bool
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "versions": dict(self.versions),
            "protocols": list(self.protocols),
            "household": True,
            "unity": self.unity,
            "missing": list(self.missing),
        }


def examine(
    environment: Mapping[str, str] | None = None,
    *,
    system: str = "",
    machine: str = "",
) -> Support:
    """Looks what is here; starts and downloads nothing."""
    environment = os.environ if environment is None else environment
    system, machine = system or platform.system(), machine or platform.machine()
    versions = {name: _version(name) for name in WANTED}
    missing = [
        f"{name} is not installed: pip install 'forewarn[thor]'"
        for name, found in versions.items()
        if found is None
    ]
    known = (("Linux", "x86_64"), ("Darwin", "x86_64"), ("Darwin", "arm64"))
    if (system, machine) not in known:
        missing.append(f"there is no Unity build for {system} on {machine}")
    if system == "Linux" and not environment.get("DISPLAY"):
        missing.append(
            "no DISPLAY: the Unity build for Linux needs an X server with GLX"
            " (ai2thor-xorg start), or CloudRendering with Vulkan"
        )
    home = Path(environment.get("HOME", "/")) / ".ai2thor"
    if not any((home / "releases").glob("*")):
        folder = home if home.exists() else home.parent
        if not os.access(folder, os.W_OK):
            missing.append(f"{folder} cannot be written, where the build goes")
        elif shutil.disk_usage(folder).free < BUILD_BYTES:
            missing.append(f"less than 2 GB free under {folder}, where the build goes")
    protocols = ("wsgi",) if system == "Windows" else ("fifo", "wsgi")
    return Support(versions, protocols, not missing, tuple(missing))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
