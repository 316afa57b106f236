"""What is here for Apollo: its messages, its records, and Apollo itself perhaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROTOBUF = "protobuf"
RECORDS = "cyber-record"
PLACES = ("cyber.python.cyber_py3", "cyber_py3")
"""Where Apollo's container has the module `cyber`, the newer place first."""


@dataclass(frozen=True, slots=True)
class Support:
    """What of Apollo can be used on this machine.

    Args:
        versions: Of the packages that the bridge uses; None where one is missing.
        cyber: Where cyber_py3 was found; empty outside Apollo's container.
        missing: What cannot be done, each with its mend.
    """

    versions: Mapping[str, str | None]
    cyber: str
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "versions": dict(self.versions),
            "channels": self.versions[PROTOBUF] is not None,
            "records": None not in self.versions.values(),
            "node": bool(self.cyber),
            "missing": list(self.missing),
        }


def examine() -> Support:
    """Looks what is here; connects to nothing, and imports nothing of Apollo's."""
    versions = {name: _version(name) for name in (PROTOBUF, RECORDS)}
    missing = [
        f"{name} is not installed: pip install 'forewarn[apollo]'"
        for name, found in versions.items()
        if found is None
    ]
    cyber = next((place for place in PLACES if _is_there(place)), "")
    if not cyber:
        missing.append(
            "no cyber_py3: --node works inside Apollo's container, after `source"
            " cyber/setup.bash`; from outside there is --bridge tcp://HOST:9090"
        )
    return Support(versions, cyber, tuple(missing))


def _is_there(place: str) -> bool:
    """Whether a package is there; its parents are not imported to find out."""
    top, *below = place.split(".")
    spec = find_spec(top)
    found = list(spec.submodule_search_locations or ()) if spec else []
    return any(Path(folder, *below).is_dir() for folder in found)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
