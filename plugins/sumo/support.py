"""Finds libsumo and its version, and finds and checks maps."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import (
    InvalidInput,
    MissingDependency,
    mend_of,
    near_miss,
)
from forewarn.abstractions.files import read_bytes

if TYPE_CHECKING:
    from forewarn.plugins.support import Support

MAPS = Path(__file__).parent / "maps"
"""The folder of the shipped maps.

Each map has a file `NAME.net.xml`, and a file `NAME.xodr` for CARLA.
"""

_NET = ".net.xml"
_CONFIG = ".sumocfg"
_INPUTS = frozenset(("net-file", "route-files", "additional-files", "load-state"))
_WRITES = re.compile(r"output|log$|^save|dump|script|remote|^gui|template|schema")
"""Matches configuration options that make SUMO write files, run programs or open ports.
"""
_WHERE = ("file", "dest", "output")
_READS = frozenset(("rerouter", "variableSpeedSign"))
_NOWHERE = ("", "NUL", "/dev/null")
_MOST_BYTES = 512 * 1024**2


def libsumo() -> Any:
    """Imports libsumo.

    Raises:
        MissingDependency: The module is not installed.
    """
    try:
        return import_module("libsumo")
    except ImportError as error:
        raise MissingDependency("the world sumo", "sumo") from error


def examine() -> Support:
    """Reports whether libsumo is installed, and its version."""
    from forewarn.plugins.support import installed

    return installed("sumo", "libsumo")


def shipped_maps() -> dict[str, Path]:
    """Returns the paths of the shipped maps by name."""
    found = sorted(MAPS.glob(f"*{_NET}"))
    return {path.name.removesuffix(_NET): path for path in found}


def find_map(name: str) -> Path:
    """Returns the path of a shipped map, or of a `.net.xml` or `.sumocfg` file."""
    maps = shipped_maps()
    if name in maps:
        return maps[name]
    path = Path(name)
    if not path.name.endswith((_NET, f"{_NET}.gz", _CONFIG)):
        raise InvalidInput(
            f"there is no map {name!r:.80}",
            mend=near_miss(name, maps)
            or f"use {', '.join(maps)}, or a path to a {_NET} or {_CONFIG}",
        )
    check_there(path)
    for each in _with_inputs(path.resolve()):
        _refuse_writing(each)
    return path.resolve()


def check_there(path: Path, source: str = "") -> None:
    """Checks that a file named in a scenario or a configuration exists."""
    if path.is_file():
        return
    mend = mend_of(FileNotFoundError(), path)
    if not path.is_absolute() and not mend.startswith("did you mean"):
        mend = "a path that begins with $here/ is relative to the scenario file"
    raise InvalidInput(f"there is no file {str(path)!r:.200}", source=source, mend=mend)


def is_own_network(path: Path) -> bool:
    """Whether a map is a network file of the user and not a shipped map."""
    return path not in shipped_maps().values() and not path.name.endswith(_CONFIG)


def _with_inputs(path: Path) -> Iterator[Path]:
    """Yields a SUMO file and the input files that it refers to.

    Raises:
        InvalidInput: A configuration refers to a file that does not exist.
    """
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        each = waiting.pop()
        if each in seen or not each.is_file():
            continue
        seen.add(each)
        yield each
        for element in _elements(each):
            named = element.get("href", "")
            if element.tag in _INPUTS and each.name.endswith(_CONFIG):
                named = element.get("value", "")
            inputs = [each.parent / name.strip() for name in named.split(",") if name]
            if element.tag in _INPUTS:
                for path in inputs:
                    check_there(path, str(each))
            waiting += inputs


def _refuse_writing(path: Path) -> None:
    """Rejects a file that could make SUMO write files, run programs or open ports."""
    config = path.name.endswith(_CONFIG)
    for element in _elements(path):
        writes = bool(config and _WRITES.search(element.tag) and element.get("value"))
        if element.tag not in _READS and not config:
            writes = any(element.get(key, "") not in _NOWHERE for key in _WHERE)
        if writes:
            raise InvalidInput(
                f"the element <{element.tag:.40}> could make SUMO write files",
                source=str(path),
                mend="remove the element; only Forewarn may write files during a run",
            )


def _elements(path: Path) -> Iterator[ET.Element]:
    try:
        found = ET.iterparse(io.BytesIO(read_bytes(path, _MOST_BYTES)), ("end",))  # noqa: S314
        for _, element in found:
            yield element
            element.clear()
    except ET.ParseError as error:
        raise InvalidInput(
            f"the XML is not well-formed: {error}", source=str(path)
        ) from error
