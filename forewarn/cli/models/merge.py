"""`forewarn merge`: what many guards counted, into one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import Number, Place, emit, json_option, progress, table

if TYPE_CHECKING:
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.fleet.merging import Merge, Moved
    from forewarn.monitors.fleet.tallies import FleetTally

_SHOWN = 20


@click.command()
@click.argument("tallies", nargs=-1, required=True, type=Place())
@click.option(
    "--into",
    type=Place(dir_okay=False),
    required=True,
    help="The model that they are added to. It is written anew: whole, or not at all.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="Add also a tally whose transitions the others reject.",
)
@click.option(
    "--horizon",
    type=Number(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How many seconds the risks look ahead whose changes are shown.",
)
@click.option(
    "--delta",
    type=Number(min=0, max=1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="How improbable it may be that an interval misses.",
)
@json_option
def merge(
    tallies: tuple[Path, ...],
    into: Path,
    accept: bool,
    horizon: float,
    delta: float,
    as_json: bool,
) -> None:
    """Add what guards counted to a model: tallies, or folders of nothing but tallies.

    A guard keeps a tally with --tally. In which order they are merged makes no
    difference, and one that is in the model already is not added again. A tally of
    another abstraction, another period or other laws is bad input. One whose
    transitions the others reject is left out, and the status is then 1.

    \b
    Examples:
      forewarn run s3 --shadow --episodes 50 --tally car.tally.json.gz
      forewarn merge car.tally.json.gz --into model.json
    """
    from forewarn.abstractions.files import write_json
    from forewarn.abstractions.readers.stored import files_in
    from forewarn.monitors.chains.formats.own import models_as_dict
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.fleet import merging

    files = [file for path in tallies for file in files_in(path)]
    models = load_models(into)
    found: list[Merge] = []
    payloads: list[dict[str, Any]] = []
    lines: list[str] = []
    for model, own in zip(models, _dealt(models, files, into), strict=True):
        merged = merging.merge(model, own, accept=accept, source=str(into))
        changed: list[Moved] = []
        if merged.added:
            changed = _moved(model, merged.model, horizon, delta)
        found.append(merged)
        payloads.append(_payload(into, merged, changed, horizon))
        if len(models) > 1:
            payloads[-1]["laws"] = list(model.laws)
            lines.append(f"The model of {', '.join(model.laws)}:")
        lines += _lines(into, model, merged, changed, horizon)
    if any(each.added for each in found):
        content = models_as_dict([each.model for each in found])
        with TemporaryDirectory() as folder:
            # The model on file is replaced only by one that can be read.
            written = Path(folder) / "merged.json"
            write_json(written, content)
            load_models(written)
        write_json(into, content)
    emit(as_json, payloads[0] if len(models) == 1 else {"models": payloads}, lines)
    if any(each.refused for each in found):
        click.get_current_context().exit(1)


def _dealt(
    models: Sequence[Model], files: Sequence[Path], into: Path
) -> list[list[tuple[str, FleetTally]]]:
    """Of each model the tallies that were counted by it."""
    from forewarn.monitors.fleet.tallies import Subject, read_tallies

    subjects = [Subject.of(model, str(into)) for model in models]
    found: list[list[tuple[str, FleetTally]]] = [[] for _ in models]
    for path in progress(files, "tallies read", len(files)):
        for tally in read_tallies(path):
            if tally.subject not in subjects:
                subjects[0].refuse_other(tally.subject, str(path))
            found[subjects.index(tally.subject)].append((str(path), tally))
    return found


def _moved(before: Model, after: Model, horizon: float, delta: float) -> list[Moved]:
    from forewarn.monitors.fleet.merging import moved
    from forewarn.monitors.laws.lawbook import find_laws
    from forewarn.monitors.risk.evidence import abstraction_of

    abstraction = abstraction_of(before)
    vocabulary = None if abstraction is None else abstraction.vocabulary
    laws = [
        law for text in before.laws for law in find_laws(text, vocabulary=vocabulary)
    ]
    return moved(before, after, laws, horizon, delta)


def _payload(
    into: Path, found: Merge, changed: Sequence[Moved], horizon: float
) -> dict[str, Any]:
    from forewarn.monitors.fleet.merging import contributors

    return {
        "model": str(into),
        "added": {each.id: each.transitions for each in found.added},
        "known": list(found.known),
        "refused": [
            {"id": tally.id, "state": why.state, "evidence": why.evidence}
            for tally, why in found.refused
        ],
        "beyond": found.beyond,
        "contributors": contributors(found.model),
        "transitions": found.model.training.get("transitions"),
        "states": found.model.chain.n,
        "horizon_s": horizon,
        "moved": [
            {
                "law": each.law,
                "state": each.state,
                "monitor": each.monitor,
                "before": list(each.before),
                "after": list(each.after),
            }
            for each in changed
        ],
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
            f"refused {tally.id}: the others reject its transitions, most in state"
            f" {why.state} (evidence {why.evidence:.1f}, from 1 on too much);"
            " --accept takes it all the same"
        )
    if found.known:
        yield f"{len(found.known)} were in the model already"
    if not found.added:
        yield f"{into}: nothing was added"
        return
    model = found.model
    whole = sum(each.transitions for each in found.added)
    share = whole / max(int(model.training["transitions"]), 1)
    yield (
        f"{into}: {len(found.added)} tallies added, with {whole:,} transitions, which"
        f" is {share:.1%} of what it holds now; {model.chain.n - before.chain.n} states"
        " are new"
    )
    most = sorted(found.added, key=lambda each: (-each.transitions, each.id))
    rows = [(each.id, f"{each.transitions:,}") for each in most[:_SHOWN]]
    yield from table(["contributor", "transitions"], rows)
    if len(most) > _SHOWN:
        yield f"… and {len(most) - _SHOWN} more; --json lists all."
    if found.beyond:
        yield (
            f"warning: {found.beyond:,} transitions were not kept, because a guard saw"
            " too many different ones"
        )
    if before.likely:
        yield (
            "warning: where its risks likely lie is not known any more: that takes"
            " runs, and a tally has none"
        )
    yield ""
    if not changed:
        yield f"In no state did a risk within {horizon:g} s move out of its interval."
        return
    yield (
        f"In {len(changed)} states the risk within {horizon:g} s moved out of its"
        " interval:"
    )
    yield from table(
        ["law", "state", "monitor", "before", "", "after", ""],
        (
            (
                *(each.law[:40], each.state, each.monitor),
                *_figures(each.before),
                *_figures(each.after),
            )
            for each in changed[:_SHOWN]
        ),
    )
    if len(changed) > _SHOWN:
        yield f"… and {len(changed) - _SHOWN} more; --json lists all."


def _figures(risk: tuple[float, float, float]) -> tuple[str, str]:
    low, point, high = risk
    return f"{point:.3f}", f"[{low:.3f}, {high:.3f}]"
