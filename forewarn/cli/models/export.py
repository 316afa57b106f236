"""`forewarn export`: a model, its product with a law, or a run, for another tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.options.models import of_option
from forewarn.cli.support import emit, json_option, naming

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from forewarn.monitors.chains.chain import Chain
    from forewarn.monitors.chains.model import Model

_FORMATS = ("prism", "drn", "csv", "explicit", "umb", "mcap")
_OF_RUNS = ("mcap", "csv")


@click.command()
@click.argument(
    "model", metavar="MODEL|RUN", type=click.Path(dir_okay=False, path_type=Path)
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    required=True,
    help="prism: PRISM language; drn: Storm; csv: one transition a line; explicit: "
    "PRISM's .tra, .lab and .sta; umb: PRISM's and Storm's binary archive. Of a run: "
    "mcap: for Foxglove; csv: a frame a line.",
)
@of_option
@click.option(
    "--law",
    metavar="NAME_OR_FORMULA",
    help="Write the product with this law's monitor, labelled violated and pending.",
)
@click.option(
    "--define",
    "definitions",
    multiple=True,
    metavar="NAME=FORMULA",
    help="A label for the law, as in 'bad=s=3|s=7'; written as a label too.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it goes; text goes to standard output without it.",
)
@json_option
def export(
    model: Path,
    of: str | None,
    kind: str,
    law: str | None,
    definitions: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a model, or a run record, for another tool.

    \b
    Examples:
      forewarn export model.json --format prism --out model.prism
      forewarn export forewarn-runs/s1-*-000007.run.jsonl --format mcap --out run.mcap
    """
    if _is_run(model):
        _export_run(model, kind, law, definitions, out, as_json)
        return
    if kind == "mcap":
        raise click.UsageError(f"--format mcap is for runs, and {model} is none")
    from forewarn.monitors.chains.formats.files import (
        TEXT_FORMATS,
        chain_as_text,
        write_chain,
    )
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.risk.evidence import model_for

    one = model_for(load_models(model), of or law, str(model))
    chain = _exported(one, law, definitions)
    if out is None:
        if kind not in TEXT_FORMATS:
            raise click.UsageError(f"--format {kind} needs --out")
        text = chain_as_text(chain, kind)
        payload = {"format": kind, "states": chain.n, "text": text}
        emit(as_json, payload, text.splitlines())
        return
    written = [str(path) for path in write_chain(chain, kind, out)]
    emit(
        as_json,
        {"format": kind, "states": chain.n, "files": written},
        [f"{', '.join(written)}: {chain.n} states, {chain.transitions} transitions"],
    )


def _is_run(path: Path) -> bool:
    """Whether a file is a run record; its first line says so."""
    from forewarn.abstractions.files import first_line
    from forewarn.monitors.guarding.record import FORMAT

    return first_line(path).startswith(f'{{"format":"{FORMAT}"')


def _export_run(
    path: Path,
    kind: str,
    law: str | None,
    definitions: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    from forewarn.scenarios.export.foxglove import write_mcap
    from forewarn.scenarios.export.table import write_csv
    from forewarn.scenarios.report.runs import read_run

    if kind not in _OF_RUNS:
        known = " and ".join(_OF_RUNS)
        raise click.UsageError(f"--format {kind} is for models; of a run: {known}")
    if law is not None or definitions:
        raise click.UsageError("--law and --define are for models")
    out = out or path.with_name(f"{path.name.removesuffix('.run.jsonl')}.{kind}")
    run = read_run(path)
    payload: dict[str, Any] = {"format": kind, "files": [str(out)]}
    if kind == "csv":
        payload["rows"] = write_csv(run, out)
        said = f"{out}: {payload['rows']} frames"
    else:
        payload["topics"] = write_mcap(run, out)
        said = f"{out}: {', '.join(f'{n} {t}' for t, n in payload['topics'].items())}"
    emit(as_json, payload, [*run.cautions, said])


def _exported(model: Model, law: str | None, definitions: tuple[str, ...]) -> Chain:
    """The model's chain with what was defined as labels, or its product with a law."""
    from dataclasses import replace

    import numpy as np

    from forewarn.monitors.checking.labelling import Labelling
    from forewarn.monitors.checking.law_checking import compiled_on, laws_on
    from forewarn.monitors.checking.properties import define
    from forewarn.monitors.risk.evidence import (
        abstraction_of,
        in_words_of,
        letters_of_states,
    )
    from forewarn.monitors.risk.product import product_chain

    if law is None and not definitions:
        return model.chain
    labelling = Labelling(model.chain, abstraction_of(model))
    for definition in definitions:
        define(labelling, definition)
    defined = {
        name: frozenset(np.flatnonzero(states).tolist())
        for name, states in labelling.definitions.items()
    }
    chain = replace(model.chain, labels={**model.chain.labels, **defined})
    if law is None:
        return chain
    with naming("--law"):
        found = laws_on(labelling, in_words_of(model, law))
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise click.UsageError(f"--law {law} is several laws: name one of {names}")
    with naming("--law"):
        automaton = compiled_on(labelling, found[0], model.period_s)
        letters = letters_of_states(chain, automaton, labelling.proposition)
    product = product_chain(chain, letters, automaton)
    variables = _pair_variables(product, chain, automaton.names)
    return replace(product, variables=variables)


def _pair_variables(
    product: Chain, chain: Chain, monitor: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """The chain's variables, or its states' numbers, beside the monitor's number.

    Copies of END, in which different things are owed, are numbered behind the rest.
    """
    import numpy as np

    pairs = [name.rpartition("|") for name in product.states]
    numbers = {name: i for i, name in enumerate(chain.states)}
    for name, _, _ in pairs:
        numbers.setdefault(name, len(numbers))
    states = np.array([numbers[name] for name, _, _ in pairs])
    variables = {"s": states}
    if chain.variables:
        variables = {name: v[states] for name, v in chain.variables.items()}
    rows = {name: i for i, name in enumerate(monitor)}
    own = "q" if "q" not in variables else "monitor_state"
    return {**variables, own: np.array([rows[name] for _, _, name in pairs])}
