"""Forewarn says how likely a car or robot is to break a rule soon, and steps in.

The names here are the ones that most programs need. They are loaded when they are
first used: `import forewarn` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forewarn.abstractions.errors import ForewarnError
    from forewarn.abstractions.frame import Frame
    from forewarn.abstractions.states.abstraction import Abstraction, load_abstraction
    from forewarn.abstractions.vocabularies.vocabulary import (
        Vocabulary,
        load_vocabulary,
    )
    from forewarn.monitors.chains.model import Model, load_model
    from forewarn.monitors.guarding.decision import Action, Decision, Risk
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.policy import Policy, load_policy
    from forewarn.monitors.guarding.watch import Watch, load_watch
    from forewarn.monitors.laws.formula import parse_formula
    from forewarn.monitors.laws.lawbook import Law, find_laws
    from forewarn.monitors.laws.monitor import Monitor

__version__ = "0.1.0"

_HOMES = {
    "abstractions.states.abstraction": ("Abstraction", "load_abstraction"),
    "abstractions.errors": ("ForewarnError",),
    "abstractions.frame": ("Frame",),
    "abstractions.vocabularies.vocabulary": ("Vocabulary", "load_vocabulary"),
    "monitors.guarding.decision": ("Action", "Decision", "Risk"),
    "monitors.laws.formula": ("parse_formula",),
    "monitors.guarding.guard": ("Guard",),
    "monitors.laws.lawbook": ("Law", "find_laws"),
    "monitors.chains.model": ("Model", "load_model"),
    "monitors.laws.monitor": ("Monitor",),
    "monitors.guarding.policy": ("Policy", "load_policy"),
    "monitors.guarding.watch": ("Watch", "load_watch"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Abstraction",
    "Action",
    "Decision",
    "ForewarnError",
    "Frame",
    "Guard",
    "Law",
    "Model",
    "Monitor",
    "Policy",
    "Risk",
    "Vocabulary",
    "Watch",
    "__version__",
    "find_laws",
    "load_abstraction",
    "load_model",
    "load_policy",
    "load_vocabulary",
    "load_watch",
    "parse_formula",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'forewarn' has no attribute {name!r}")
    return getattr(import_module(f"forewarn.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
