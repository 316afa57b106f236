"""`forewarn doctor`: what is usable here, and the command that adds the rest.

Versions come from the metadata of what is installed; nothing is imported.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.cli.command import (
    command,
)
from forewarn.cli.printing import (
    say,
    table,
)
from forewarn.plugins.support import version_of

MISSING_PIECE = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that forewarn can use: an extra, or the core itself."""

    name: str
    purpose: str
    packages: tuple[str, ...]

    @property
    def remedy(self) -> str:
        wanted = "forewarn" if self.name == "core" else f"forewarn[{self.name}]"
        return f"pip install '{wanted}'"


PIECES = (
    Piece(
        "core",
        "the engine: laws, chains, risk",
        ("click", "numpy", "pydantic", "pyyaml", "scipy"),
    ),
    Piece("storm", "Storm as a second engine for check", ("stormpy", "umbi")),
    Piece("umb", "UMB models, shared with PRISM and Storm", ("umbi",)),
    Piece("sumo", "the embedded driving simulator", ("libsumo",)),
    Piece("carla", "the CARLA simulator's client", ("carla", "msgpack")),
    Piece("thor", "the AI2-THOR household simulator", ("ai2thor", "msgpack")),
    Piece(
        "apollo",
        "Apollo: channels and records",
        ("cyber-record", "wheelos-msgs", "protobuf"),
    ),
    Piece("langchain", "LangChain agents", ("langchain",)),
    Piece(
        "llm",
        "an LLM as the household pilot",
        ("langchain", "langchain-openai", "langchain-ollama"),
    ),
    Piece("openai-agents", "OpenAI Agents", ("openai-agents",)),
    Piece("mcp", "guarding the tools of MCP servers", ("mcp",)),
    Piece("gym", "Gymnasium environments", ("gymnasium",)),
    Piece("highway", "highway-env's roads", ("highway-env", "gymnasium")),
    Piece("metadrive", "MetaDrive's roads", ("metadrive-simulator", "gymnasium")),
    Piece("virtualhome", "VirtualHome's homes", ("virtualhome-eval",)),
    Piece("fleet", "traces in columns, storage", ("fsspec", "orjson", "pyarrow")),
    Piece(
        "programs",
        "past cases for models that write programs, columns in SQL",
        ("rapidfuzz", "sqlglot"),
    ),
    Piece("dojo", "AgentDojo's prompt injections, replayed", ("agentdojo",)),
    Piece("otel", "OpenTelemetry spans and metrics", ("opentelemetry-api",)),
    Piece("foxglove", "watching live in Foxglove", ("foxglove-sdk",)),
    Piece("logs", "logs of ROS 2 and MCAP", ("mcap", "rosbags")),
    Piece("mcap", "MCAP logs, for Foxglove and Rerun", ("mcap",)),
    Piece("rss", "RSS safe distances", ("ad-rss",)),
    Piece("learn", "predicates found by the machine", ("scikit-learn",)),
    Piece("plots", "pandas frames and plots from Python", ("matplotlib", "pandas")),
    Piece("ray", "campaigns on many machines", ("ray",)),
)
"""The extras of pyproject.toml; a test keeps the two alike."""


@command()
def doctor(
    name: str | None = None,
    /,
) -> None:
    """List the usable engines, simulators and frameworks.

    With NAME, check only that piece; the exit status is 3 if it is missing.
    """
    pieces = PIECES if name is None else (_piece(name),)
    found = [_examine(piece) for piece in pieces]
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


def _piece(name: str) -> Piece:
    known = {piece.name: piece for piece in PIECES}
    if name not in known:
        raise InvalidInput(
            f"there is no piece {name!r}",
            mend=near_miss(name, known) or "forewarn doctor lists them",
        )
    return known[name]


def _examine(piece: Piece) -> dict[str, Any]:
    versions = {package: version_of(package) for package in piece.packages}
    usable = None not in versions.values()
    return {
        "name": piece.name,
        "purpose": piece.purpose,
        "usable": usable,
        "versions": versions,
        "remedy": None if usable else piece.remedy,
    }


def _cyber() -> dict[str, Any]:
    """Apollo's own Python bindings, which are in no registry: detected, not
    declared."""
    from forewarn.apollo_bridge.support import examine

    support = examine()
    return {
        "name": "cyber_py3",
        "purpose": "a running Apollo, from inside",
        "usable": bool(support.cyber),
        "versions": {"cyber_py3": "found" if support.cyber else None},
        "remedy": None if support.cyber else "run inside Apollo's container",
        "missing": list(support.missing),
    }


def _unity() -> dict[str, Any]:
    """AI2-THOR's own build; our household needs nothing more."""
    from forewarn.thor_bridge.support import examine

    support = examine()
    return {
        "name": "unity",
        "purpose": "the real AI2-THOR build",
        "usable": support.unity,
        "versions": {"unity": "can be started" if support.unity else None},
        "remedy": None if support.unity else "; ".join(support.missing),
        "missing": list(support.missing),
        "protocols": list(support.protocols),
    }


def _lines(system: dict[str, str], found: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        f"forewarn {system['forewarn']} on Python {system['python']}, "
        f"{system['system']}"
    )
    yield ""
    yield from table(
        ("piece", "", "for", "found, or how to add it"),
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
