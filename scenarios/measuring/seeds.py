"""Determines which runs a model was trained on, and which are held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.model import Model, load_models
from forewarn.scenarios.running.campaign import recorded_files, recordings
from forewarn.scenarios.schema import Scenario

RECORDINGS = "recordings"
"""The key in a model's training facts for the names of the recordings."""


def trained_seeds(
    model: Model, scenario: str, recorded: Sequence[str] = ()
) -> set[int]:
    """Returns the seeds of the scenario's runs that were used to learn a model or tune
    its policy.

    Args:
        model: The model.
        scenario: The name of the scenario.
        recorded: The present recordings of a log scenario, by seed. A recording that
            was used is recognised by its name, because its seed changes if recordings
            are added before it.
    """
    facts, found = model.training, set[int]()
    for entry in (*facts.get("files", ()), *facts.get("set_aside", ())):
        if entry.get("scenario") == scenario:
            used = set(entry.get(RECORDINGS, ()))
            present = {seed for seed, name in enumerate(recorded) if name in used}
            found |= present or set(seeds_of(entry))
    return found


def with_recordings(
    entries: Sequence[Mapping[str, Any]], scenario: Scenario
) -> list[Mapping[str, Any]]:
    """Adds the names of the recordings to a model's training facts about a log
    scenario.
    """
    try:
        recorded = recorded_files(scenario)
    except InvalidInput:  # the traces were copied without the recordings
        recorded = []
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        named: list[str] = []
        if entry.get("scenario") == scenario.name and RECORDINGS not in entry:
            named = [recorded[n] for n in seeds_of(entry) if n < len(recorded)]
        found.append({**entry, RECORDINGS: named} if named else entry)
    return found


def unknown_seeds(
    model: Path,
    scenario: Scenario,
    seed: int | None,
    count: int | None,
    first: int,
    by_default: int = 1,
) -> range:
    """Returns the requested seeds; by default, seeds that the model was not trained on.

    For recordings, the default is every recording after the last training run.

    Args:
        model: The model's file.
        scenario: The scenario.
        seed: The requested first seed; None for `first`, or a higher seed if the model
            was trained on that one.
        count: The requested number of seeds; None for `by_default`, or for all
            remaining recordings.
        first: The default first seed.
        by_default: The default number of seeds.
    """
    held = recordings(scenario)
    if seed is None:
        names = recorded_files(scenario)
        known = [
            trained_seeds(each, scenario.name, names) for each in load_models(model)
        ]
        after = max(set().union(*known), default=-1) + 1
        seed = after if held is not None else max(first, after)
        if seed == held:
            raise InvalidInput(
                f"the model was learned from all {held} logs, so none is held out",
                mend=(
                    "learn from fewer logs: limit them with --episodes of `forewarn "
                    "collect`"
                ),
            )
    if count is None:  # the world reports a missing recording
        count = by_default if held is None else max(held - seed, 1)
    return range(seed, seed + count)


def seeds_of(entry: Mapping[str, Any]) -> Sequence[int]:
    """Returns the seeds of the runs in one entry of a model's training facts."""
    seeds: Sequence[int] = entry.get("seeds", ())
    return seeds or ([entry["seed"]] if "seed" in entry else [])


def refuse_trained(
    model: Model,
    scenario: str,
    seeds: Iterable[int],
    or_else: str = "",
    recorded: Sequence[str] = (),
) -> None:
    """Raises an error if any of these runs was used to train the model.

    Args:
        model: The model.
        scenario: The scenario of the runs.
        seeds: The seeds of the runs.
        or_else: Text to append to the suggested fix.
        recorded: The present recordings, as in `trained_seeds`.
    """
    trained = trained_seeds(model, scenario, recorded)
    if both := sorted(trained.intersection(seeds)):
        raise InvalidInput(
            f"the model was learned from {len(both)} of these runs, including "
            f"seed {both[0]}",
            mend=f"use runs whose seeds begin at {max(trained) + 1}, as with --seed "
            f"{max(trained) + 1}{or_else}",
        )
