"""`forewarn monitor`: laws over a recorded trace, no model needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.runs.episodes import jobs_option, on_option, recorded_by
from forewarn.cli.support import (
    Number,
    Place,
    emit,
    json_option,
    left_out,
    naming,
    table,
)
from forewarn.cli.watching.laws import book_option, edition_option

if TYPE_CHECKING:
    from forewarn.abstractions.trace import Trace
    from forewarn.monitors.laws.judging import Judgement
    from forewarn.monitors.laws.lawbook import Law, LawBook
    from forewarn.scenarios.running.pools import Pool


@click.command()
@click.argument("trace", type=Place())
@click.option(
    "--law",
    "wanted",
    multiple=True,
    required=True,
    metavar="NAME|FORMULA",
    help="A law of the book, or a formula; may be given many times.",
)
@click.option(
    "--period",
    type=Number(min=0, min_open=True),
    help="The monitor's clock, in seconds; also the time between the rows of a CSV"
    " that has no time_s. By default the trace's own.",
)
@click.option("--every", is_flag=True, help="Also the verdict on every prefix.")
@edition_option
@book_option
@click.option(
    "--vocabulary",
    metavar="NAME|FILE",
    help="What the trace's names mean, where the trace does not say.",
)
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="COLUMN=SIGNAL",
    help="The signal that a column of a CSV holds; may be given many times.",
)
@click.option(
    "--ego",
    type=int,
    metavar="ID",
    help="Whose drive in a CommonRoad scene is judged: a vehicle that moves, or a"
    " planning problem. By default the first planning problem.",
)
@click.option(
    "--out",
    type=Place(dir_okay=False),
    help="Of many runs: write a row a run and law to this Parquet file.",
)
@jobs_option
@on_option
@json_option
def monitor(
    trace: Path,
    wanted: tuple[str, ...],
    period: float | None,
    every: bool,
    edition: str,
    book: Path | None,
    vocabulary: str | None,
    renamed: tuple[str, ...],
    ego: int | None,
    out: Path | None,
    jobs: int,
    on: str | None,
    as_json: bool,
) -> None:
    """Judges a recorded TRACE by laws: forewarn.trace/1, CSV, or LawBreaker's JSON.

    A CommonRoad scene (.xml, .xml.gz) is judged as the drive of one of those in it.

    TRACE may also be a folder of traces, a Parquet file of many, or a scenario file,
    which stands for all that its logs recorded (`world: log`): then each run has its
    verdict, and each law the rate at which runs break it.

    Exit status 1 says that a law is violated.
    """
    from forewarn.abstractions.vocabularies.vocabulary import YAML

    is_scene = trace.name.endswith((".xml", ".xml.gz"))
    if ego is not None and not is_scene:
        raise click.UsageError("--ego is for a CommonRoad scene")
    are_logs = trace.suffix in YAML
    if trace.suffix == ".parquet" or are_logs or trace.is_dir():
        from forewarn.scenarios.running.campaign import pool

        if every or renamed:
            raise click.UsageError("--every and --map are for one trace")
        if are_logs:
            trace = recorded_by(trace, jobs, on)
        known, where = law_book_of(edition, book), pool(jobs, on)
        _many(trace, wanted, period, known, vocabulary, out, where, as_json)
        return
    if out is not None or on is not None or jobs > 1:
        raise click.UsageError(
            "--out, --jobs and --on are for a folder of traces, a Parquet file or logs"
        )
    if is_scene:
        from forewarn.plugins.commonroad.bridge import scene_trace

        if vocabulary or renamed:
            raise click.UsageError("a CommonRoad scene takes no --vocabulary, no --map")
        recorded = scene_trace(trace, ego)
    else:
        from forewarn.abstractions.readers import read_trace
        from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary

        used = load_vocabulary(vocabulary) if vocabulary else None
        recorded = read_trace(trace, used, period, _renames(renamed))
    laws = law_book_of(edition, book)
    judged = []
    for name in wanted:
        with naming("--law"):
            found = _laws(name, laws, recorded)
        judged += [_judged(law, trace, recorded, period, every) for law in found]
    payload = {"results": [_payload(each, every) for each in judged]}
    emit(as_json, payload, _lines(judged, recorded, every))
    if any(each.verdict == "violated" for each in judged):
        raise SystemExit(1)


def law_book_of(edition: str, book: Path | None) -> LawBook:
    """The laws that were asked for."""
    from forewarn.monitors.laws.lawbook import law_book

    return law_book(edition, book)  # type: ignore[arg-type]


def _many(
    source: Path,
    wanted: Sequence[str],
    period_s: float | None,
    book: LawBook,
    vocabulary: str | None,
    out: Path | None,
    on: Pool,
    as_json: bool,
) -> None:
    """Judges every run of a folder or a Parquet file."""
    from dataclasses import replace

    from forewarn.abstractions.readers.stored import files_in, stored_runs
    from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
    from forewarn.cli.watching.dataset import judged, rate_lines
    from forewarn.monitors.laws.lawbook import find_laws

    left_out([source])
    runs = stored_runs(files_in(source))
    used = load_vocabulary(vocabulary) if vocabulary else runs[0].kept(()).vocabulary
    laws: list[Law] = []
    for name in wanted:
        with naming("--law"):
            found = find_laws(name, book, used)
        laws += [replace(found[0], name=name)] if len(found) == 1 else found
    told = judged(runs, laws, period_s, on, out)
    emit(as_json, {"laws": told, "out": out and str(out)}, rate_lines(told))
    if any(rate["violated"] for rate in told):
        raise SystemExit(1)


def _judged(
    law: Law, path: Path, trace: Trace, period: float | None, every: bool
) -> Judgement:
    """The judgement, where an error is said of the trace or of the law."""
    from forewarn.abstractions.errors import InvalidTrace
    from forewarn.monitors.laws.judging import judge

    with naming("--law"):
        try:
            return judge(law, trace, period, every=every)
        except InvalidTrace as error:
            raise error.within(str(path)) from None


def _renames(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        column, equals, signal = pair.partition("=")
        if not (equals and column.strip() and signal.strip()):
            raise click.UsageError(f"--map takes COLUMN=SIGNAL, not {pair[:60]!r}")
        found[column.strip()] = signal.strip()
    return found


def _laws(name: str, book: LawBook, trace: Trace) -> list[Law]:
    """The laws of that name, called as the user called them where there is one."""
    from dataclasses import replace

    from forewarn.abstractions.errors import InvalidExpression
    from forewarn.monitors.laws.lawbook import find_laws

    try:
        found = find_laws(name, book, trace.vocabulary)
    except InvalidExpression as error:
        # A CSV may have columns beside those of its vocabulary.
        if trace.vocabulary is None or not _has_free_columns(trace):
            raise
        try:
            found = find_laws(name, book, None)
        except InvalidExpression:
            raise error from None
    return [replace(found[0], name=name)] if len(found) == 1 else list(found)


def _has_free_columns(trace: Trace) -> bool:
    vocabulary = trace.vocabulary
    return vocabulary is not None and not all(
        vocabulary.knows(name) for name in trace.header.provides
    )


def _payload(judged: Judgement, every: bool) -> dict[str, Any]:
    first = judged.violations[0].time_s if judged.violations else None
    payload: dict[str, Any] = {
        "law": judged.law,
        "verdict": judged.verdict,
        "first_violation_s": first,
        "violations": [
            {"frame": v.frame, "time_s": v.time_s, "since_s": v.since_s}
            for v in judged.violations
        ],
    }
    if every:
        payload["frames"] = list(judged.frames)
    if judged.left_s is not None:
        payload["left_s"] = judged.left_s
    if judged.reason:
        payload["reason"] = judged.reason
    return payload


def _lines(judged: Sequence[Judgement], trace: Trace, every: bool) -> Iterator[str]:
    rows = [(each.law, each.verdict, _said(each)) for each in judged]
    yield from table(["law", "verdict", ""], rows)
    if every:
        yield ""
        head = ["frame", "time_s", *(each.law for each in judged)]
        yield from table(
            head,
            (
                [i, f"{frame.time_s:g}", *(each.frames[i] for each in judged)]
                for i, frame in enumerate(trace.frames)
            ),
        )


def _said(judged: Judgement) -> str:
    if not judged.violations:
        left = f"{judged.left_s:g} s left" if judged.left_s is not None else ""
        return judged.reason or left
    first = judged.violations[0]
    text = f"at {first.time_s:g} s (frame {first.frame})"
    if first.since_s < first.time_s:
        text += f", owed since {first.since_s:g} s"
    again = len(judged.violations) - 1
    return text + (f"; {again} more after that" if again else "")
