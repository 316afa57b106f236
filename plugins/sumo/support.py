"""What is installed: libsumo, its version, and the maps that ship."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency, near_miss
from forewarn.plugins.support import Support, installed

MAPS = Path(__file__).parent / "maps"
"""Where the maps lie that ship: `NAME.net.xml`, and `NAME.xodr` for CARLA."""

_NET = ".net.xml"
_CONFIG = ".sumocfg"


def libsumo() -> Any:
    """The simulator as a library.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module("libsumo")
    except ImportError as error:
        raise MissingDependency("the world sumo", "sumo") from error


def examine() -> Support:
    """Looks what is here; the maps that ship need nothing more."""
    return installed("sumo", "libsumo")


def shipped_maps() -> dict[str, Path]:
    """The maps that ship, by name."""
    found = sorted(MAPS.glob(f"*{_NET}"))
    return {path.name.removesuffix(_NET): path for path in found}


def find_map(name: str) -> Path:
    """A map that ships, or a user's own `.net.xml` or `.sumocfg`, by path."""
    maps = shipped_maps()
    if name in maps:
        return maps[name]
    path = Path(name)
    if not path.name.endswith((_NET, f"{_NET}.gz", _CONFIG)):
        raise InvalidInput(
            f"no map {name!r:.80}",
            mend=near_miss(name, maps)
            or f"known are {', '.join(maps)}, or a path to a {_NET} or {_CONFIG}",
        )
    if not path.is_file():
        raise InvalidInput(f"there is no file {name!r:.200}")
    return path.resolve()
