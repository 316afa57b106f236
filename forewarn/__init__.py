"""Forewarn estimates how likely a car or robot is to break a rule soon, and intervenes.

This package exports the names that most programs need. Each is imported on first use,
so `import forewarn` itself is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forewarn.abstractions.abstraction import Abstraction as Abstraction
    from forewarn.abstractions.abstraction import load_abstraction as load_abstraction
    from forewarn.abstractions.errors import ForewarnError as ForewarnError
    from forewarn.abstractions.errors import InvalidInput as InvalidInput
    from forewarn.abstractions.errors import MissingDependency as MissingDependency
    from forewarn.abstractions.frame import Frame as Frame
    from forewarn.abstractions.readers import read_trace as read_trace
    from forewarn.abstractions.readers.stored import read_traces as read_traces
    from forewarn.abstractions.vocabularies.vocabulary import Vocabulary as Vocabulary
    from forewarn.abstractions.vocabularies.vocabulary import (
        load_vocabulary as load_vocabulary,
    )
    from forewarn.cli.live import watched_live as watched_live
    from forewarn.monitors.chains.model import Model as Model
    from forewarn.monitors.chains.model import load_model as load_model
    from forewarn.monitors.chains.model import load_models as load_models
    from forewarn.monitors.guarding.decision import Action as Action
    from forewarn.monitors.guarding.decision import Decision as Decision
    from forewarn.monitors.guarding.decision import Risk as Risk
    from forewarn.monitors.guarding.guard import Guard as Guard
    from forewarn.monitors.guarding.listening import Listener as Listener
    from forewarn.monitors.guarding.policy import Policy as Policy
    from forewarn.monitors.guarding.policy import Step as Step
    from forewarn.monitors.guarding.policy import load_policy as load_policy
    from forewarn.monitors.guarding.watch import Watch as Watch
    from forewarn.monitors.guarding.watch import load_watch as load_watch
    from forewarn.monitors.laws.automaton import compile_law as compile_law
    from forewarn.monitors.laws.formula import parse_formula as parse_formula
    from forewarn.monitors.laws.lawbook import Law as Law
    from forewarn.monitors.laws.lawbook import find_laws as find_laws
    from forewarn.monitors.laws.monitor import Monitor as Monitor
    from forewarn.plugins.agents import AgentGuard as AgentGuard
    from forewarn.plugins.loop.alerts import LogAlerts as LogAlerts
    from forewarn.plugins.loop.approval import Deferred as Deferred
    from forewarn.plugins.loop.guarding import Guarding as Guarding
    from forewarn.plugins.programs.judging import read_judge as read_judge
    from forewarn.scenarios.schema import load_scenario as load_scenario
    from forewarn.scenarios.shipped import shipped_with as shipped_with
    from forewarn.scenarios.studies import learn as learn
    from forewarn.scenarios.studies import measure as measure
    from forewarn.scenarios.studies import risks as risks
    from forewarn.scenarios.studies import tune as tune

__version__ = "0.1.0"


def _front(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` for a package with lazy imports.

    Args:
        package: The name of the package.
        homes: The public names that the package exports, by the module that defines
            them.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return sorted(home), load, lambda: sorted(home)


__all__, __getattr__, __dir__ = _front(
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
