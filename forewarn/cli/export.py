"""`forewarn export`: a model, or its product with a law, for another tool."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import emit, json_option

_FORMATS = ("prism", "drn", "csv", "explicit", "umb")


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    required=True,
    help="prism: PRISM language; drn: Storm; csv: one transition a line; explicit: "
    "PRISM's .tra, .lab and .sta; umb: PRISM's and Storm's binary archive.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it goes; text goes to standard output without it.",
)
@json_option
def export(model: Path, kind: str, out: Path | None, as_json: bool) -> None:
    """Write a model for another tool."""
    from forewarn.monitors.formats.writing import (
        TEXT_FORMATS,
        chain_as_text,
        write_chain,
    )
    from forewarn.monitors.model import load_model

    chain = load_model(model).chain
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
