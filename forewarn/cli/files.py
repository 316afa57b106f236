"""`forewarn convert`, `import` and `export`: convert traces and models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import click

from forewarn.cli.command import (
    File,
    FolderPlace,
    Place,
    PlaceType,
    command,
)
from forewarn.cli.printing import (
    left_out,
    progress,
    say,
    several,
)


@command()
def convert(
    sources: tuple[Annotated[Place, PlaceType(exists=True), "TRACES…"], ...],
    /,
    *,
    out: FolderPlace,
    format_: Literal["columns", "jsonl"] | None = None,
) -> None:
    """Convert TRACES between Parquet and JSON Lines, without loss.

    TRACES are files, or folders that contain only traces: JSON Lines, CSV, LawBreaker's
    JSON, or Parquet files written by `forewarn collect`.

    \b
    Examples:
      forewarn convert runs/*.jsonl.gz --out columns
      forewarn convert columns --out lines

    Args:
        out: Folder for the converted traces.
        format_: columns: Parquet, for large datasets. jsonl: one human-readable file
            per run. Default: jsonl if the first source is Parquet, else columns.
    """
    from forewarn.abstractions.dataset.layout import SUFFIX
    from forewarn.abstractions.readers.stored import (
        files_in,
        stored_runs,
        to_columns,
        to_lines,
    )

    left_out(sources)
    if out in sources:
        raise click.BadParameter(
            f"{str(out)!r} contains the traces to convert; choose another folder",
            param_hint="'--out'",
        )
    files = [file for source in sources for file in files_in(source)]
    kind = format_ or ("jsonl" if files[0].suffix == SUFFIX else "columns")
    runs = stored_runs(files)
    converted = to_columns(runs, out) if kind == "columns" else to_lines(runs, out)
    written = list(dict.fromkeys(progress(converted, "runs converted", len(runs))))
    size = sum(path.stat().st_size for path in written)
    payload = {
        "format": kind,
        "runs": len(runs),
        "files": [str(path) for path in written],
        "bytes": size,
    }
    held = f"{several(len(runs), 'run')} in {several(len(written), 'file')}"
    say(payload, [f"{out}: {held}, {size:,} bytes"])


@command()
def import_(file: File, /, *, out: File) -> None:
    """Import a chain from another tool.

    The format is detected from the content: the PRISM language, Storm DRN and UMB
    (which need the extra storm), explicit files of PRISM or Storm (give the .tra file;
    .lab and .sta must be next to it), ProbGuard's model.json, or Forewarn's own JSON.

    Args:
        out: Write the model to this file.
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
    head = f"{out}: {chain.n} states and {chain.transitions} transitions"
    say(payload, [head, *(f"warning: {warning}" for warning in warnings)])


@command()
def export(
    model: Annotated[File, "MODEL|RUN"],
    /,
    *,
    format_: Literal["prism", "drn", "csv", "umb", "mcap"],
    of: Annotated[str | None, "LAW"] = None,
    out: File | None = None,
) -> None:
    """Export a model or a run record for another tool.

    \b
    Examples:
      forewarn export model.json --format prism --out model.prism
      forewarn export forewarn-runs/s1-*-000007.run.jsonl --format mcap --out run.mcap

    Args:
        format_: For a model: prism (PRISM language), drn (Storm), csv (one transition
            per line) or umb (binary archive for PRISM and Storm, with doubles and
            labels only; needs the extra storm). For a run record: mcap (for Foxglove)
            or csv (one frame per line).
        of: For a file with several models: export the model for this law.
        out: Write to this file. By default, a text format goes to standard output, and
            a run record is exported to a file next to it.
    """
    from forewarn.abstractions.lines import first_line
    from forewarn.monitors.chains.formats.files import (
        TEXT_FORMATS,
        chain_as_text,
        write_chain,
    )
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.guarding.record import FORMAT
    from forewarn.monitors.risk.evidence import (
        model_for,
    )

    if first_line(model).startswith(f'{{"format":"{FORMAT}"'):
        _export_run(model, format_, out)
        return
    if format_ == "mcap":
        raise click.UsageError(
            f"--format mcap applies only to run records, and {model} is not one"
        )
    chain = model_for(load_models(model), None, str(model), of).chain
    if out is None:
        if format_ not in TEXT_FORMATS:
            raise click.UsageError(f"--format {format_} requires --out")
        text = chain_as_text(chain, format_)
        payload = {"format": format_, "states": chain.n, "text": text}
        say(payload, text.splitlines())
        return
    write_chain(chain, format_, out)
    say(
        {"format": format_, "states": chain.n, "files": [str(out)]},
        [f"{out}: {chain.n} states, {chain.transitions} transitions"],
    )


def _export_run(path: Path, kind: str, out: Path | None) -> None:
    from forewarn.scenarios.export import write_csv, write_mcap
    from forewarn.scenarios.report.runs import read_run

    if kind not in ("mcap", "csv"):
        known = "mcap or csv"
        raise click.UsageError(
            f"--format {kind} applies only to models; a run record can be "
            f"exported as {known}"
        )
    out = out or path.with_name(f"{path.name.removesuffix('.run.jsonl')}.{kind}")
    run = read_run(path)
    payload: dict[str, Any] = {"format": kind, "files": [str(out)]}
    if kind == "csv":
        payload["rows"] = write_csv(run, out)
        said = f"{out}: {payload['rows']} frames"
    else:
        payload["topics"] = write_mcap(run, out)
        said = f"{out}: {', '.join(f'{n} {t}' for t, n in payload['topics'].items())}"
    say(payload, [*run.cautions, said])
