"""`forewarn import`: a chain made by another tool becomes a model of ours."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import emit, json_option


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where the model goes.",
)
@json_option
def import_(file: Path, out: Path, as_json: bool) -> None:
    """Read a chain made by another tool.

    The format is found by the content: PRISM language, PRISM or Storm explicit files
    (name the .tra; .lab and .sta stand beside it), Storm DRN, UMB, ProbGuard's
    model.json, or a model of our own. Storm reads the PRISM language: install the
    extra storm.
    """
    from forewarn.abstractions.files import write_json
    from forewarn.monitors.chains.formats.own import model_as_dict
    from forewarn.monitors.chains.model import load_model

    model = load_model(file)
    write_json(out, model_as_dict(model))
    chain, warnings = model.chain, list(model.chain.warnings())
    payload = {
        "out": str(out),
        "states": chain.n,
        "transitions": chain.transitions,
        "labels": {name: len(members) for name, members in chain.labels.items()},
        "exact": chain.exact is not None,
        "warnings": warnings,
    }
    lines = [f"{out}: {chain.n} states and {chain.transitions} transitions"]
    emit(as_json, payload, lines + [f"warning: {warning}" for warning in warnings])
