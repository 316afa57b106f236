"""Reports which packages of a bridge are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, slots=True)
class Support:
    """The packages of a bridge that are installed on this machine.

    Args:
        versions: The version of each package; None if the package is missing.
        missing: For each missing package, a message with the command that installs it.
    """

    versions: Mapping[str, str | None]
    missing: tuple[str, ...]


def installed(extra: str, *packages: str) -> Support:
    """Looks up the versions of the packages in an extra, without importing them."""
    versions = {name: version_of(name) for name in packages}
    lacking = [name for name, found in versions.items() if found is None]
    mend = f"is not installed: pip install 'forewarn[{extra}]'"
    return Support(versions, tuple(f"{name} {mend}" for name in lacking))


@cache
def version_of(package: str) -> str | None:
    """Returns the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
