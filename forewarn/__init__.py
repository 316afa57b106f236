"""Forewarn says how likely a car or robot is to break a rule soon, and steps in.

The names here are the ones that most programs need. They are loaded when they are
first used: `import forewarn` itself costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forewarn.abstractions.abstraction import Abstraction, load_abstraction
    from forewarn.abstractions.errors import (
        ForewarnError,
        InvalidInput,
        MissingDependency,
    )
    from forewarn.abstractions.frame import Frame
    from forewarn.abstractions.readers import read_trace
    from forewarn.abstractions.readers.stored import read_traces
    from forewarn.abstractions.vocabularies.vocabulary import (
        Vocabulary,
        load_vocabulary,
    )
    from forewarn.cli.live import watched_live
    from forewarn.monitors.chains.model import Model, load_model, load_models
    from forewarn.monitors.guarding.decision import Action, Decision, Risk
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.monitors.guarding.policy import Policy, Step, load_policy
    from forewarn.monitors.guarding.watch import Watch, load_watch
    from forewarn.monitors.laws.automaton import compile_law
    from forewarn.monitors.laws.formula import parse_formula
    from forewarn.monitors.laws.lawbook import Law, find_laws
    from forewarn.monitors.laws.monitor import Monitor
    from forewarn.plugins.agents import AgentGuard
    from forewarn.plugins.loop.alerts import LogAlerts
    from forewarn.plugins.loop.approval import Deferred
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.programs.judging import read_judge
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.shipped import shipped_with
    from forewarn.scenarios.studies import learn, measure, risks, tune

__version__ = "0.1.0"


def _front(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names wait to be used.

    Args:
        package: Its name.
        homes: Its modules, by their names below it, with the names that each gives.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return load, lambda: sorted(home)


__all__ = [
    "Abstraction",
    "Action",
    "AgentGuard",
    "Decision",
    "Deferred",
    "ForewarnError",
    "Frame",
    "Guard",
    "Guarding",
    "InvalidInput",
    "Law",
    "Listener",
    "MissingDependency",
    "LogAlerts",
    "Model",
    "Monitor",
    "Policy",
    "Risk",
    "Step",
    "Vocabulary",
    "Watch",
    "__version__",
    "compile_law",
    "find_laws",
    "learn",
    "load_abstraction",
    "load_model",
    "load_models",
    "load_policy",
    "load_scenario",
    "load_vocabulary",
    "load_watch",
    "measure",
    "parse_formula",
    "read_judge",
    "read_trace",
    "read_traces",
    "risks",
    "shipped_with",
    "tune",
    "watched_live",
]


__getattr__, __dir__ = _front(
    __name__,
    {
        "cli.live": ("watched_live",),
        "abstractions.abstraction": ("Abstraction", "load_abstraction"),
        "abstractions.errors": ("ForewarnError", "InvalidInput", "MissingDependency"),
        "abstractions.frame": ("Frame",),
        "abstractions.readers": ("read_trace",),
        "abstractions.readers.stored": ("read_traces",),
        "abstractions.vocabularies.vocabulary": ("Vocabulary", "load_vocabulary"),
        "monitors.chains.model": ("Model", "load_model", "load_models"),
        "monitors.guarding.decision": ("Action", "Decision", "Risk"),
        "monitors.guarding.guard": ("Guard",),
        "monitors.guarding.listening": ("Listener",),
        "monitors.guarding.policy": ("Policy", "Step", "load_policy"),
        "monitors.guarding.watch": ("Watch", "load_watch"),
        "monitors.laws.automaton": ("compile_law",),
        "monitors.laws.formula": ("parse_formula",),
        "monitors.laws.lawbook": ("Law", "find_laws"),
        "monitors.laws.monitor": ("Monitor",),
        "plugins.agents": ("AgentGuard",),
        "plugins.loop.alerts": ("LogAlerts",),
        "plugins.loop.approval": ("Deferred",),
        "plugins.loop.guarding": ("Guarding",),
        "plugins.programs.judging": ("read_judge",),
        "scenarios.schema": ("load_scenario",),
        "scenarios.shipped": ("shipped_with",),
        "scenarios.studies": ("learn", "measure", "risks", "tune"),
    },
)
