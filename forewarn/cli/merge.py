"""`forewarn merge-tallies`: adds the tallies of many guards to a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from forewarn.cli.command import (
    Chance,
    FilePlace,
    Place,
    Positive,
    command,
)
from forewarn.cli.printing import (
    progress,
    say_each,
    shown,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.fleet.merging import (
        Merge,
        Moved,
    )


_SHOWN = 20


@command()
def merge_tallies(
    tallies: tuple[Place, ...],
    /,
    *,
    into: FilePlace,
    accept: bool = False,
    horizon: Positive = 5.0,
    delta: Chance = 0.05,
) -> None:
    """Add TALLIES (files, or folders that contain only tallies) to a model.

    A guard writes a tally if it is given --tally. The order of tallies does not matter,
    and a tally that was added before is not added again. A tally for a different
    abstraction, period or law is rejected. A tally is left out if its transitions
    differ significantly from the others. It is also left out if its guard stopped runs
    for a law of this model and let no such run continue (--let-pass of `forewarn run`),
    because the counts then depend on the thresholds of that guard. The exit status is 1
    if any tally is left out.

    \b
    Examples:
      forewarn run s3 --shadow --episodes 50 --tally car.tally.json.gz
      forewarn merge-tallies car.tally.json.gz --into model.json

    Args:
        into: Model to add the tallies to; the file is replaced atomically.
        accept: Also add tallies that differ significantly from the others, and tallies
            of guards that stopped runs for a law of this model and let none continue.
        horizon: Prediction horizon in seconds, for comparing the risks before and after
            the merge.
        delta: Maximum probability that an interval does not contain the true value.
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.abstractions.files import write_json
    from forewarn.abstractions.places import files_below
    from forewarn.abstractions.readers.stored import files_in
    from forewarn.monitors.chains.formats.own import models_as_dict
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.fleet.files import dealt
    from forewarn.monitors.fleet.merging import merge, moved
    from forewarn.monitors.risk.evidence import (
        laws_named,
    )

    for path in tallies:
        if path.is_dir() and not files_below(path):
            mend = "--tally of `forewarn run` and `forewarn guard` writes them"
            problem = "the folder contains no tallies"
            raise InvalidInput(problem, source=str(path), mend=mend)
    files = [file for path in tallies for file in files_in(path)]
    models = load_models(into)
    read = progress(files, "tallies read", len(files))
    found: list[Merge] = []
    results: list[tuple[dict[str, Any], list[str]]] = []
    for model, own in zip(models, dealt(models, read, str(into)), strict=True):
        merged = merge(model, own, accept=accept, source=str(into))
        changed: list[Moved] = []
        if merged.added:
            changed = moved(model, merged.model, laws_named(model), horizon, delta)
        found.append(merged)
        payload = _payload(into, merged, changed, horizon)
        lines = [*_lines(into, model, merged, changed, horizon)]
        if len(models) > 1:
            payload["laws"] = list(model.laws)
            lines.insert(0, f"The model of {', '.join(model.laws)}:")
        results.append((payload, lines))
    if any(each.added for each in found):
        content = models_as_dict([each.model for each in found])
        with TemporaryDirectory() as folder:
            # Make sure that the new model can be read before replacing the old one.
            written = Path(folder) / "merged.json"
            write_json(written, content)
            load_models(written)
        write_json(into, content)
    refused = any(each.refused or each.stopped for each in found)
    say_each(results, found=refused)


def _payload(
    into: Path, found: Merge, changed: Sequence[Moved], horizon: float
) -> dict[str, Any]:
    from forewarn.abstractions.serial import to_json
    from forewarn.monitors.fleet.merging import contributors

    return {
        "model": str(into),
        "added": {each.id: each.transitions for each in found.added},
        "known": list(found.known),
        "refused": [
            {"id": tally.id, "state": why.state, "evidence": why.evidence}
            for tally, why in found.refused
        ],
        "stopped": {each.id: dict(each.stopped_by) for each in found.stopped},
        "censored": {
            "runs": sum(each.traces for each in found.added),
            "stopped_by": found.censored,
            "unweighted": found.unweighted,
            "let_pass": found.let_pass,
        },
        "after_stops": {
            band: {"runs": runs, "broke": broke}
            for band, (runs, broke) in found.after_stops.items()
        },
        "beyond": found.beyond,
        "contributors": contributors(found.model),
        "transitions": found.model.training.get("transitions"),
        "states": found.model.chain.n,
        "horizon_s": horizon,
        "moved": [to_json(each) for each in changed],
    }


def _lines(
    into: Path,
    before: Model,
    found: Merge,
    changed: Sequence[Moved],
    horizon: float,
) -> Iterator[str]:
    for tally, why in found.refused:
        yield (
            f"left out {tally.id}: its transitions differ significantly from "
            f"those of the others, most in state {why.state} (evidence "
            f"{why.evidence:.1f}; the limit is 1); --accept adds it"
        )
    for tally in found.stopped:
        yield (
            f"left out {tally.id}: of {tally.traces} runs, its guard stopped "
            f"{_stops(tally.stopped_by)}, so transitions after high risks are "
            "missing; count in shadow mode, let some runs pass with --let-pass, or "
            "add the tally with --accept"
        )
    for band, (runs, broke) in found.after_stops.items():
        where = f"a risk of {band} or more" if band else "an unknown risk"
        yield f"Of {runs} runs stopped at {where}, {broke} still broke a law."
    if found.known:
        yield f"tallies already in the model: {len(found.known)}"
    if not found.added:
        yield f"{into}: nothing was added"
        return
    model = found.model
    whole = sum(each.transitions for each in found.added)
    share = whole / max(int(model.training["transitions"]), 1)
    yield (
        f"{into}: tallies added: {len(found.added)}, with {whole:,} transitions, "
        f"{share:.1%} of the model's total; new states: "
        f"{model.chain.n - before.chain.n}"
    )
    yield (
        "The guarantees of existing policies do not hold for the new risks; tune the "
        "policies again (`forewarn tune`)."
    )
    if found.censored:
        runs = sum(each.traces for each in found.added)
        yield f"Of these {runs} runs, interventions stopped {_stops(found.censored)}."
    if found.let_pass:
        yield (
            f"Stops skipped because of --let-pass: {_stops(found.let_pass)}. The later "
            "transitions of these runs are weighted to represent the stopped runs too."
        )
    if found.unweighted:
        yield (
            f"warning: these runs were stopped, and no run that continued represents "
            f"them: {_stops(found.unweighted)}; risks are too low if these runs were "
            "riskier than the others"
        )
    most = sorted(found.added, key=lambda each: (-each.transitions, each.id))
    given = [(each.id, f"{each.transitions:,}") for each in most]
    yield from table(["contributor", "transitions"], given, most=_SHOWN)
    if found.beyond:
        yield (
            f"warning: {found.beyond:,} transitions were not counted, because a "
            "guard saw too many different transitions"
        )
    if before.likely:
        yield (
            "warning: the model no longer has `likely` intervals for its risks: "
            "computing them requires runs, and tallies contain only counts"
        )
    yield ""
    if not changed:
        yield f"In every state, the risk within {horizon:g} s is in its old interval."
        return
    yield (
        f"In {len(changed)} states, the risk within {horizon:g} s is outside its old "
        "interval:"
    )
    rows = [
        (
            *(each.law[:40], each.state, each.monitor),
            *_figures(each.before),
            *_figures(each.after),
        )
        for each in changed
    ]
    head = ["law", "state", "monitor", "before", "", "after", ""]
    yield from table(head, rows, most=_SHOWN)


def _stops(stopped_by: Mapping[str, int]) -> str:
    """Formats the number of stopped runs for each law."""
    return ", ".join(
        f"{times} for {shown(law) if law else 'invalid inputs'}"
        for law, times in stopped_by.items()
    )


def _figures(risk: tuple[float, float, float]) -> tuple[str, str]:
    low, point, high = risk
    return f"{point:.3f}", f"[{low:.3f}, {high:.3f}]"
