"""`forewarn laws`: lists the law book, or shows one law with its automaton."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import Number, emit, json_option, table

if TYPE_CHECKING:
    from forewarn.monitors.laws.automaton import Automaton
    from forewarn.monitors.laws.lawbook import Law

DEFAULT_PERIOD_S = 0.1

edition_option = click.option(
    "--edition",
    type=click.Choice(["probguard", "lawbreaker"]),
    default="probguard",
    show_default=True,
    help="Whose text and times the law book gives.",
)
book_option = click.option(
    "--book",
    type=click.Path(path_type=Path),
    help="A law file of your own, instead of the law book.",
)


@click.command()
@click.argument("name", required=False)
@edition_option
@book_option
@click.option(
    "--period",
    type=Number(min=0, min_open=True),
    default=DEFAULT_PERIOD_S,
    show_default=True,
    help="The monitor's clock, in seconds.",
)
@click.option("--svg", type=click.Path(path_type=Path), help="Draw it into this file.")
@json_option
def laws(
    name: str | None,
    edition: str,
    book: Path | None,
    period: float,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Lists the law book, or shows the law NAME (or a formula) with its automaton."""
    from forewarn.monitors.laws.lawbook import find_laws, law_book

    used = law_book(edition, book)  # type: ignore[arg-type]
    if name is None:
        if svg is not None:
            raise click.UsageError("--svg needs the NAME of a law")
        payload = {"laws": [_entry(law) for law in used.laws.values()]}
        emit(as_json, payload, _listing(list(used.laws.values())))
        return
    found = find_laws(name, used)
    shown = [_Shown(law, period) for law in found]
    if svg is not None:
        _draw(svg, shown)
    payloads = [each.payload() for each in shown]
    lines = [line for each in shown for line in each.lines()]
    emit(as_json, payloads[0] if len(found) == 1 else {"laws": payloads}, lines)


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
    yield from table(["law", "article", "in plain words"], rows)
    yield ""
    yield "forewarn laws NAME shows one with its formula, signals and automaton."


class _Shown:
    """One law, compiled: whole, and each of its parts."""

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
        from forewarn.monitors.laws.outline import outline

        law = self.law
        yield law.name + (f": {law.title}" if law.title else "")
        if law.article:
            yield f"  {law.article}" + (f", {law.statute}" if law.statute else "")
        if law.edition:
            yield f"  as {_AUTHORS[law.edition]} has it"
        if law.note:
            yield f"  {law.note}"
        yield "  signals: " + ", ".join(law.signals)
        if law.clock_s:
            yield f"  its monitor ticks every {law.clock_s:g} s, or slower"
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
                if source is target and len(source.states) > 1 and edge.when:
                    to = "one less"
                yield f"    {source.name} -> {to}{when}{last}"
        yield ""


_AUTHORS = {"probguard": "ProbGuard", "lawbreaker": "LawBreaker"}


def _automaton(automaton: Automaton) -> dict[str, Any]:
    from forewarn.monitors.laws.outline import legend, transitions

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


def _draw(path: Path, shown: list[_Shown]) -> None:
    from forewarn.abstractions.files import atomic_text
    from forewarn.monitors.laws.outline import draw, outline

    rows = [
        (f"{law.name}: {law.title}" if law.title else law.name, outline(automaton))
        for each in shown
        for law, automaton in each.parts or [(each.law, each.automaton)]
    ]
    with atomic_text(path) as out:
        out.write(draw(rows))
