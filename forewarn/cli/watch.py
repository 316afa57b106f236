"""`forewarn laws` and `monitor`: list laws, and check laws on recorded traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from forewarn.abstractions.errors import naming
from forewarn.cli.command import (
    FilePlace,
    Place,
    Positive,
    command,
)
from forewarn.cli.episodes import (
    recorded_by,
)
from forewarn.cli.groups import (
    Book,
    Working,
)
from forewarn.cli.printing import (
    left_out,
    note,
    progress,
    say,
    say_each,
    table,
)

if TYPE_CHECKING:
    from forewarn.abstractions.trace import Trace
    from forewarn.monitors.laws.automaton import (
        Automaton,
    )
    from forewarn.monitors.laws.judging import Judgement
    from forewarn.monitors.laws.lawbook import Law, LawBook
    from forewarn.scenarios.running.pools import (
        Pool,
    )


DEFAULT_PERIOD_S = 0.1


@command()
def laws(
    law: Annotated[str | None, "[NAME]"] = None,
    /,
    *,
    book: Book,
    period: Positive = DEFAULT_PERIOD_S,
) -> None:
    """List the law book's laws, or show a law (NAME or a formula) with its automaton.

    Args:
        period: Sampling period of the monitor in seconds.
    """
    from forewarn.monitors.laws.lawbook import find_laws

    used = book.laws()
    if law is None:
        payload = {"laws": [_entry(law) for law in used.laws.values()]}
        say(payload, _listing(list(used.laws.values())))
        return
    found = find_laws(law, used)
    _doubt(found)
    shown = [_Shown(law, period) for law in found]
    say_each([(each.payload(), each.lines()) for each in shown], "laws")


def _doubt(found: Sequence[Law]) -> None:
    """Warns about unknown signals that may be misspelled names of a built-in
    vocabulary.
    """
    from forewarn.abstractions.vocabularies.vocabulary import SHIPPED, load_vocabulary

    shipped = [load_vocabulary(name) for name in SHIPPED]
    known = [name for each in shipped for name in each.names()]
    for signal in (name for law in found for name in law.signals):
        close = get_close_matches(signal, known, 1, 0.8)
        if close and not any(each.knows(signal) for each in shipped):
            note(f"{signal!r:.60} is not a known signal; did you mean {close[0]}?")


def _note_momentary(found: Iterable[Law]) -> None:
    """Notes laws that only the first moment of a run can violate."""
    from forewarn.monitors.laws.formula import is_momentary

    for law in found:
        if is_momentary(law.formula):
            note(
                f"{law.name:.60} applies only to the first moment of a run (write "
                "always (…) for a law that must hold throughout)"
            )


def _entry(law: Law) -> dict[str, Any]:
    return {
        "name": law.name,
        "title": law.title,
        "article": law.article,
        "statute": law.statute,
        "edition": law.edition,
        "formula": law.text,
        "signals": list(law.signals),
        "clock_s": law.clock_s,
        "note": law.note,
        "parts": [{"name": part.name, "formula": part.text} for part in law.parts],
    }


def _listing(book: list[Law]) -> Iterator[str]:
    rows = [(law.name, law.article or "-", law.title) for law in book]
    yield from table(["law", "article", "meaning"], rows)
    yield ""
    yield "forewarn laws NAME shows a law's formula, signals and automaton."


class _Shown:
    """A compiled law, and its compiled parts."""

    def __init__(self, law: Law, period_s: float) -> None:
        self.law = law
        self.automaton = law.compile(period_s)
        self.parts = [(part, part.compile(period_s)) for part in law.parts]

    def payload(self) -> dict[str, Any]:
        return _entry(self.law) | {
            "automaton": _automaton(self.automaton),
            "parts": [
                {"name": p.name, "formula": p.text, "automaton": _automaton(a)}
                for p, a in self.parts
            ],
        }

    def lines(self) -> Iterator[str]:
        from forewarn.monitors.laws.outline import (
            outline,
        )

        law = self.law
        yield law.name + (f": {law.title}" if law.title else "")
        if law.article:
            yield f"  {law.article}" + (f", {law.statute}" if law.statute else "")
        if law.edition:
            yield f"  edition: {_AUTHORS[law.edition]}"
        if law.note:
            yield f"  {law.note}"
        yield "  signals: " + ", ".join(law.signals)
        if law.clock_s:
            yield f"  shortest period of its monitor: {law.clock_s:g} s"
        for part, automaton in self.parts or [(law, self.automaton)]:
            clock = f" at {automaton.period_s:g} s" if automaton.period_s else ""
            drawn = outline(automaton)
            yield ""
            yield f"  {part.text}" if part is law else f"  {part.name}: {part.text}"
            yield f"  {automaton.n} states{clock}"
            for letter, text in drawn.legend:
                yield f"    {letter}: {text}"
            for edge in drawn.edges:
                when = f" when {edge.when}" if edge.when else ""
                last = " at the last step" if edge.at_the_end else ""
                source, target = drawn.nodes[edge.source], drawn.nodes[edge.target]
                to = "itself" if source is target else target.name
                if source is target and source.counts_down:
                    to = "one less"
                yield f"    {source.name} -> {to}{when}{last}"


_AUTHORS = {"probguard": "ProbGuard", "lawbreaker": "LawBreaker"}


def _automaton(automaton: Automaton) -> dict[str, Any]:
    from forewarn.monitors.laws.outline import (
        legend,
        transitions,
    )

    return {
        "period_s": automaton.period_s,
        "propositions": dict(legend(automaton)),
        "states": list(automaton.names),
        "initial": automaton.names[automaton.initial],
        "transitions": [
            {"from": source, "when": when, "to": target}
            for source, when, target in transitions(automaton)
        ],
    }


@command()
def monitor(
    trace: Place,
    /,
    *,
    law: tuple[Annotated[str, "NAME|FORMULA"], ...],
    period: Positive | None = None,
    every: bool = False,
    book: Book,
    vocabulary: Annotated[str | None, "NAME|FILE"] = None,
    map_: tuple[Annotated[str, "COLUMN=SIGNAL"], ...] = (),
    ego: Annotated[int | None, click.INT, "ID"] = None,
    out: FilePlace | None = None,
    working: Working,
) -> None:
    """Check laws on a recorded TRACE: forewarn.trace/1, CSV or LawBreaker's JSON.

    For a CommonRoad scene (.xml, .xml.gz), the trajectory of one road user is checked.

    TRACE can also be a folder of traces, a Parquet file with many traces, or a scenario
    file with `world: log`, whose recordings are then all checked. The output is then a
    verdict for each run, and the violation rate of each law.

    The exit status is 1 if a law is violated.

    Args:
        law: Law of the law book, or a formula; may be repeated.
        period: Sampling period of the monitor in seconds (default: the period of the
            trace). Also the time between rows of a CSV file without a time_s column.
        every: Also print the verdict after each frame.
        vocabulary: Vocabulary of the trace, if the trace does not specify one.
        map_: Read this column of a CSV file as this signal; may be repeated.
        ego: Id of the road user to check in a CommonRoad scene: a moving vehicle or a
            planning problem (default: the first planning problem).
        out: For many traces: write one row per run and law to this Parquet file.
    """
    from forewarn.abstractions.vocabularies.vocabulary import YAML

    is_scene = trace.name.endswith((".xml", ".xml.gz"))
    if ego is not None and not is_scene:
        raise click.UsageError("--ego applies only to a CommonRoad scene")
    are_logs = trace.suffix in YAML
    if trace.suffix == ".parquet" or are_logs or trace.is_dir():
        if every or map_:
            raise click.UsageError("--every and --map apply only to a single trace")
        if are_logs:
            trace = recorded_by(trace, working)
        where = working.pool()
        _many(trace, law, period, book.laws(), vocabulary, out, where)
        return
    if out is not None or working.on is not None or working.jobs > 1:
        raise click.UsageError(
            "--out, --jobs and --on apply only to a folder of traces, a Parquet "
            "file or logs"
        )
    if is_scene:
        from forewarn.plugins.commonroad.bridge import scene_trace

        if vocabulary or map_:
            raise click.UsageError(
                "--vocabulary and --map do not apply to a CommonRoad scene"
            )
        trace.stat()  # reports a missing file
        recorded = scene_trace(trace, ego)
    else:
        from forewarn.abstractions.readers import read_trace
        from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary

        used = load_vocabulary(vocabulary) if vocabulary else None
        recorded = read_trace(trace, used, period, _renames(map_))
    judged: list[Judgement] = []
    laws: list[Law] = []
    for name in law:
        with naming("--law"):
            found = _laws(name, book.laws(), recorded)
        _note_momentary(found)
        judged += [_judged(each, trace, recorded, period, every) for each in found]
        laws += found
    times_s = [frame.time_s for frame in recorded.frames]
    _note_long(period, trace.name, times_s[-1] - times_s[0])
    results = [
        _payload(each, every) | {"instances": _instances(law, each, recorded)}
        for law, each in zip(laws, judged, strict=True)
    ]
    payload = {"results": results}
    violated = any(each.verdict == "violated" for each in judged)
    say(payload, _lines(judged, recorded, every), found=violated)


def _many(
    source: Path,
    wanted: Sequence[str],
    period_s: float | None,
    book: LawBook,
    vocabulary: str | None,
    out: Path | None,
    on: Pool,
) -> None:
    """Checks laws on every run in a folder or a Parquet file."""
    from forewarn.abstractions.dataset.layout import SUFFIX
    from forewarn.abstractions.readers.stored import files_in, stored_runs
    from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
    from forewarn.monitors.laws.lawbook import find_laws
    from forewarn.scenarios.measuring.verdicts import VERDICTS, judged, key_of

    if out is not None and out.suffix != SUFFIX:
        raise click.BadParameter(
            f"{str(out)!r} must end in {SUFFIX}, because it is a Parquet file",
            param_hint="'--out'",
        )
    left_out([source])
    runs = stored_runs(files_in(source))
    used = load_vocabulary(vocabulary) if vocabulary else None
    used = used or runs[0].kept((), period_s=period_s).vocabulary
    laws: list[Law] = []
    for name in wanted:
        with naming("--law"):
            found = find_laws(name, book, used)
        laws += [replace(found[0], name=name)] if len(found) == 1 else found
    _note_momentary(laws)
    told = judged(runs, laws, period_s, on, out, progress)
    first = runs[0].kept((), used, period_s)
    header = first.header
    _note_long(period_s, runs[0].name, float(first.times_s[-1] - first.times_s[0]))
    for law, each in zip(laws, told, strict=True):
        lacking = [name for name in law.signals if not header.can_know(name)]
        if lacking and each[key_of("not applicable")]:
            note(f"{runs[0].name} does not provide {', '.join(lacking)}")
    head = ["law", "runs", *VERDICTS, "violations", "rate", "first in"]
    rows = [
        (
            each["law"], each["runs"], *(each[key_of(v)] for v in VERDICTS),
            each["violations"], f"{each['rate']:.3f}", each["first_run"] or "-",
        )
        for each in told
    ]  # fmt: skip
    say(
        {"laws": told, "out": out and str(out)},
        table(head, rows),
        found=any(rate["violated"] for rate in told),
    )


def _note_long(period_s: float | None, name: str, lasts_s: float) -> None:
    """Notes a sampling period that is longer than a run."""
    if period_s is not None and 0 < lasts_s < period_s:
        note(
            f"--period: a step of {period_s:g} s is longer than {name}, which lasts "
            f"{lasts_s:g} s (give --period in seconds)"
        )


def _judged(
    law: Law, path: Path, trace: Trace, period: float | None, every: bool
) -> Judgement:
    """Checks a law on a trace; errors name the trace or the law."""
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
    """Returns the laws with this name; a single law keeps the given name."""
    from dataclasses import replace

    from forewarn.abstractions.errors import InvalidExpression
    from forewarn.monitors.laws.lawbook import find_laws

    try:
        found = find_laws(name, book, trace.vocabulary)
    except InvalidExpression as error:
        # A CSV file may have columns that its vocabulary does not contain.
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


def _instances(law: Law, judged: Judgement, trace: Trace) -> list[dict[str, Any]]:
    """Returns the time intervals of violations, each with the ranges of the law's
    signals.
    """
    from forewarn.monitors.laws.judging import instances

    return [
        {"from_s": from_s, "until_s": until_s, "signals": _span(law, trace, *each)}
        for each in instances(v.time_s for v in judged.violations)
        for from_s, until_s in [each]
    ]


def _span(
    law: Law, trace: Trace, from_s: float, until_s: float
) -> dict[str, list[float]]:
    """Returns the minimum and maximum of each numeric signal of the law in a time
    interval.
    """
    from forewarn.abstractions.frame import is_number

    during = [f.values for f in trace.frames if from_s <= f.time_s <= until_s]
    told = {name: [each.get(name) for each in during] for name in law.signals}
    numbers = {name: [v for v in of if is_number(v)] for name, of in told.items()}
    return {name: [min(of), max(of)] for name, of in numbers.items() if of}


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


_SPANS = 5


def _said(judged: Judgement) -> str:
    from forewarn.monitors.laws.judging import instances

    if not judged.violations:
        left = f"{judged.left_s:g} s left" if judged.left_s is not None else ""
        return judged.reason or left
    first = judged.violations[0]
    text = f"at {first.time_s:g} s (frame {first.frame})"
    if first.since_s < first.time_s:
        text += f", pending since {first.since_s:g} s"
    again = len(judged.violations) - 1
    if again:
        text += f"; {again} more after that"
    spans = instances(v.time_s for v in judged.violations)
    if len(spans) < len(judged.violations):
        listed = ", ".join(f"{a:g} to {b:g} s" for a, b in spans[:_SPANS])
        more = f" and {len(spans) - _SPANS} more" if len(spans) > _SPANS else ""
        text += f"; instances: {listed}{more}"
    return text
