"""The options for learning a model, also of `forewarn learn`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt

Positive = Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True)
class Wish:
    """The options for learning a model; None for an automatic choice.

    Args:
        format: states: one sequence of state names a line; trace: frames with signals.
        scenario: The scenario that the traces come from: its abstraction and its laws.
        abstraction: The predicates, as YAML; for traces of frames. auto: find some too,
            and take those whose risks are best on held-out traces (needs scikit-learn).
        horizon: Horizon in seconds of the risk by which --abstraction auto compares;
            the scenario's, or 3.
        law: A law that the model is for, instead of those of --scenario; may be
            repeated. Without --abstraction and --scenario the predicates are the laws'
            own atoms.
        vocabulary: A shipped vocabulary, or the path of a YAML file.
        period: Seconds between two states, where the predicates come from laws; also
            between the rows of a table without times.
        alpha: Pseudo-count of every allowed transition; 0 for the observed support and
            0.1 for the others, unless given.
        support: Allowed transitions: those seen (default), those the abstraction holds
            valid, all pairs of seen states, or a JSON file {"state": ["successor", …]}.
        end: Whether a trace's end is a step into an absorbing END (default) or nothing.
        mix_guarded: Accept traces of guarded runs beside unguarded ones.
        candidate: A predicate that the abstraction does not use: how informative would
            it be? May be given again.
    """

    format: Literal["auto", "states", "trace"] = "auto"
    scenario: Annotated[str | None, "NAME_OR_FILE"] = None
    abstraction: Annotated[str | None, "FILE|auto"] = None
    horizon: Positive | None = None
    law: tuple[Annotated[str, "NAME_OR_FORMULA"], ...] = ()
    vocabulary: str | None = None
    period: Positive | None = None
    alpha: Annotated[str | None, "NUMBER"] = None
    support: Annotated[
        str | None, "--support", "--smoothing", "observed|valid|all|FILE"
    ] = None
    end: Literal["absorb", "ignore"] | None = None
    mix_guarded: bool = False
    candidate: tuple[Annotated[str, "PREDICATE"], ...] = ()

    @property
    def auto(self) -> bool:
        """Whether to search for predicates."""
        return self.abstraction == "auto"

    @property
    def file(self) -> Path | None:
        """The abstraction's file."""
        given = self.abstraction
        return None if given is None or self.auto else Path(given)
