"""Checks which software for Apollo is installed: messages, records and Apollo
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from forewarn.plugins.support import Support, installed

PROTOBUF = "protobuf"
RECORDS = "cyber-record"
PLACES = ("cyber.python.cyber_py3", "cyber_py3")
"""The packages that may contain `cyber` in Apollo's container, newest first."""


@dataclass(frozen=True, slots=True)
class ApolloSupport(Support):
    """The software for Apollo that is installed on this machine.

    Args:
        cyber: The full name of the package cyber_py3; empty outside Apollo's container.
    """

    cyber: str


def examine() -> ApolloSupport:
    """Reports what is installed, without importing Apollo or connecting to it."""
    here = installed("apollo", PROTOBUF, RECORDS)
    cyber = next((place for place in PLACES if _is_there(place)), "")
    missing = here.missing
    if not cyber:
        missing += (
            "cyber_py3 is not installed: --node works inside Apollo's container, after"
            " `source cyber/setup.bash`; from outside, use --bridge tcp://HOST:9090",
        )
    return ApolloSupport(here.versions, missing, cyber)


def _is_there(place: str) -> bool:
    """Whether a package is installed; its parent packages are not imported."""
    top, *below = place.split(".")
    spec = find_spec(top)
    found = list(spec.submodule_search_locations or ()) if spec else []
    return any(Path(folder, *below).is_dir() for folder in found)
