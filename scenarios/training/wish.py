"""The options for learning a model, as in `forewarn learn`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt

Positive = Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True)
class Wish:
    """The options for learning a model; an option that is None is chosen automatically.

    Args:
        format: Format of the traces. states: one sequence of state names per line;
            trace: frames with signals; auto: detect.
        scenario: Scenario of the traces, which defines the abstraction and the laws.
        abstraction: YAML file of predicates, for traces of frames. auto: also search
            for predicates, and choose those whose risks are best on held-out traces
            (needs scikit-learn).
        horizon: With --abstraction auto: prediction horizon in seconds of the risks to
            compare (default: the scenario's, or 3).
        law: Law to learn for, instead of those of --scenario; may be repeated. Without
            --abstraction and --scenario, the predicates are the atoms of the laws.
        vocabulary: Name of a shipped vocabulary, or path of a YAML file.
        period: Seconds between two states if the predicates come from laws, and between
            the rows of a table without times.
        alpha: Pseudo-count of each allowed transition (default: 0 for the observed
            support, 0.1 for the others).
        support: Transitions to allow. observed: those seen in the traces (default);
            valid: all between valid states of the abstraction; all: all pairs of seen
            states; or a JSON file {"state": ["successor", …]}.
        end: How to count the end of a trace. absorb: as a step into an absorbing state
            END (default); ignore: not at all.
        mix_guarded: Accept traces of guarded runs together with unguarded ones.
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

    @property
    def auto(self) -> bool:
        """Whether to search for predicates."""
        return self.abstraction == "auto"

    @property
    def file(self) -> Path | None:
        """The abstraction's file."""
        given = self.abstraction
        return None if given is None or self.auto else Path(given)
