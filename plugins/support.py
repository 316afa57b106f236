"""Reports which of the packages that a bridge uses are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@dataclass(frozen=True, slots=True)
class Support:
    """What a bridge can use on this machine.

    Args:
        versions: The version of each package that the bridge uses; None if it is
            missing.
        missing: What is not possible, each with its fix.
    """

    versions: Mapping[str, str | None]
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return {"versions": dict(self.versions), "missing": list(self.missing)}


def installed(extra: str, *packages: str) -> Support:
    """Looks up the versions of an extra's packages, without importing them."""
    versions = {name: version_of(name) for name in packages}
    lacking = [name for name, found in versions.items() if found is None]
    mend = f"is not installed: pip install 'forewarn[{extra}]'"
    return Support(versions, tuple(f"{name} {mend}" for name in lacking))


@cache
def version_of(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
