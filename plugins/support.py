"""What is installed of the packages that a bridge uses: every bridge says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@dataclass(frozen=True, slots=True)
class Support:
    """The parts of a simulator that can be used on this machine.

    Args:
        versions: Of the packages that the bridge uses; None where one is missing.
        missing: What cannot be done, each with its fix.
    """

    versions: Mapping[str, str | None]
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"versions": dict(self.versions), "missing": list(self.missing)}


def installed(extra: str, *packages: str) -> Support:
    """The versions of an extra's packages; nothing is imported."""
    versions = {name: version_of(name) for name in packages}
    lacking = [name for name, found in versions.items() if found is None]
    mend = f"is not installed: pip install 'forewarn[{extra}]'"
    return Support(versions, tuple(f"{name} {mend}" for name in lacking))


@cache
def version_of(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
