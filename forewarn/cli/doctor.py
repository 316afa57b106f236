"""`forewarn doctor`: lists usable integrations, and how to install the others.

Versions are read from package metadata; nothing is imported.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import read_yaml
from forewarn.cli.command import (
    command,
)
from forewarn.cli.printing import (
    say,
    table,
)
from forewarn.plugins.support import version_of

MISSING_PIECE = 3


PURPOSES: dict[str, str] = read_yaml(Path(__file__).with_name("purposes.yaml"))
"""The purpose of each extra in pyproject.toml; `core` is forewarn without extras."""


def packages_of(piece: str) -> list[str]:
    """Returns the packages that an extra (or `core`) requires, from the metadata."""
    found: list[str] = []
    for needed in requires("forewarn") or ():
        extra = re.search(r"extra == ['\"]([^'\"]+)", needed)
        if (extra[1] if extra else "core") == piece:
            found += re.findall(r"^[\w.-]+", needed)
    return found


@command()
def doctor(
    name: str | None = None,
    /,
) -> None:
    """List the usable engines, simulators and frameworks.

    With NAME, check only that one; the exit status is 3 if it is not usable.
    """
    if name is not None and name not in PURPOSES:
        raise InvalidInput(
            f"{name!r} is not a known engine, simulator or framework",
            mend=near_miss(name, PURPOSES) or "forewarn doctor lists them",
        )
    found = [_examine(each) for each in (PURPOSES if name is None else [name])]
    if name is None or name == "apollo":
        found.append(_cyber())
    if name is None or name == "thor":
        found.append(_unity())
    system = {
        "forewarn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    say({**system, "pieces": found}, _lines(system, found))
    if name is not None and not found[0]["usable"]:
        raise SystemExit(MISSING_PIECE)


def _examine(piece: str) -> dict[str, Any]:
    versions = {package: version_of(package) for package in packages_of(piece)}
    usable = None not in versions.values()
    wanted = "forewarn" if piece == "core" else f"forewarn[{piece}]"
    return {
        "name": piece,
        "purpose": PURPOSES[piece],
        "usable": usable,
        "versions": versions,
        "remedy": None if usable else f"pip install '{wanted}'",
    }


def _cyber() -> dict[str, Any]:
    """Returns the status of Apollo's Python bindings, which no package registry
    provides.
    """
    from forewarn.apollo_bridge.support import examine

    support = examine()
    return {
        "name": "cyber_py3",
        "purpose": "running inside Apollo's container",
        "usable": bool(support.cyber),
        "versions": {"cyber_py3": "found" if support.cyber else None},
        "remedy": None if support.cyber else "run inside Apollo's container",
        "missing": list(support.missing),
    }


def _unity() -> dict[str, Any]:
    """Returns the status of AI2-THOR's Unity build, which our embedded household does
    not need.
    """
    from forewarn.thor_bridge.support import examine

    support = examine()
    return {
        "name": "unity",
        "purpose": "the real AI2-THOR build",
        "usable": support.unity,
        "versions": {"unity": "can be started" if support.unity else None},
        "remedy": None if support.unity else "; ".join(support.missing),
        "missing": list(support.missing),
    }


def _lines(system: dict[str, str], found: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        f"forewarn {system['forewarn']} on Python {system['python']}, "
        f"{system['system']}"
    )
    yield ""
    yield from table(
        ("integration", "", "purpose", "version, or how to install it"),
        (
            (
                piece["name"],
                "yes" if piece["usable"] else "no",
                piece["purpose"],
                piece["remedy"]
                or ", ".join(f"{k} {v}" for k, v in piece["versions"].items()),
            )
            for piece in found
        ),
    )
