"""`forewarn demo`: the whole way from traces to warnings, on traces that ship."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import emit, json_option, table

if TYPE_CHECKING:
    from forewarn.scenarios.demo.study import Judged, LawStudy, Study

THRESHOLDS = (0.3, 0.5, 0.7)
WORST_STATES = 5


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("forewarn-demo"),
    show_default=True,
    help="Where the report and the learned models go.",
)
@json_option
def demo(out: Path, as_json: bool) -> None:
    """Learn, check and monitor on traces that ship with the package.

    Two small made-up worlds: a car approaches a traffic light, a robot warms mugs.
    From some of their runs a chain is learned; the others show how early, and how
    wrongly, the risk would have warned.
    """
    from forewarn.abstractions.files import atomic_text, write_json
    from forewarn.monitors.chains.formats.own import model_as_dict
    from forewarn.scenarios.demo.study import FOLDER, WORLDS, study

    studies = [study(world) for world in WORLDS]
    lines = [line for found in studies for line in _section(found)]
    for found in studies:
        write_json(out / f"{found.world.name}.model.json", model_as_dict(found.model))
    with atomic_text(out / "report.txt") as report:
        report.writelines(f"{line}\n" for line in lines)
    facts = [_facts(found) for found in studies]
    payload = {"worlds": facts, "traces": str(FOLDER), "out": str(out)}
    ends = [f"This report and the learned models are in {out}, the traces in {FOLDER}."]
    emit(as_json, payload, [*lines, *ends])


def _facts(found: Study) -> dict[str, Any]:
    return {
        "world": found.world.name,
        "states": found.model.chain.n,
        "training": dict(found.model.training),
        "laws": [
            {
                "law": found.world.laws[law.name],
                "ever": law.ever,
                "warnings": [
                    asdict(law.warnings(t, found.period_s)) for t in THRESHOLDS
                ],
            }
            for law in found.laws
        ],
    }


def _section(found: Study) -> Iterator[str]:
    world, training = found.world, found.model.training
    title = f"{world.name.capitalize()}: {world.story}"
    yield title
    yield "=" * len(title)
    yield (
        f"Learned a chain of {found.model.chain.n - 1} states and END from "
        f"{training['traces']} runs, {training['frames']} frames "
        f"{found.period_s:g} s apart."
    )
    yield ""
    for law in found.laws:
        yield from _law(found, law)


def _law(found: Study, law: LawStudy) -> Iterator[str]:
    from forewarn.monitors.risk.evidence import risk_rows
    from forewarn.scenarios.demo.study import in_words

    abstraction, world = found.abstraction, found.world
    yield f"Law: {law.name}"
    yield f"  {world.laws[law.name]}"
    broken = sum(run.violation is not None for run in law.runs)
    yield (
        f"  By the chain a run breaks it with probability {law.ever:.3f}; "
        f"of {len(law.runs)} runs held out {broken} do."
    )
    yield ""
    yield f"  Where the risk within {world.horizon_s:g} s is highest:"
    risky = sorted(
        (row for row in risk_rows(law.table) if row.fresh.monitor != "violated"),
        key=lambda row: -row.fresh.risk,
    )
    yield from _indented(
        table(
            ("risk", "from", "to", "visits", "state"),
            (
                (
                    f"{row.fresh.risk:.3f}",
                    _figure(row.fresh.low),
                    _figure(row.fresh.high),
                    row.visits,
                    in_words(abstraction, abstraction.bits(row.state)),
                )
                for row in risky[:WORST_STATES]
            ),
        )
    )
    yield ""
    yield "  Had a guard warned in the runs held out:"
    yield from _indented(
        table(
            ("threshold", "detected", "to trigger", "to violation", "false alarms"),
            (
                (
                    w.threshold,
                    f"{w.detected} of {w.violating}",
                    _seconds(w.to_trigger_s),
                    _seconds(w.to_violation_s),
                    f"{w.false_alarms} of {w.clean}",
                )
                for w in (law.warnings(t, found.period_s) for t in THRESHOLDS)
            ),
        )
    )
    yield ""
    shown = next((run for run in law.runs if run.violation is not None), None)
    if shown is not None:
        yield "  One of those that break it:"
        yield from _indented(_timeline(found, shown))
        yield ""


def _timeline(found: Study, run: Judged) -> list[str]:
    """The moments at which the state changed, or the monitor was set off or broken."""
    from forewarn.scenarios.demo.study import in_words

    def kind(i: int) -> tuple[int, str]:
        return run.states[i], run.monitors[i].partition(":")[0]

    moments = [i for i in range(len(run.states)) if i == 0 or kind(i) != kind(i - 1)]
    return table(
        ("time", "risk", "monitor", "state"),
        (
            (
                f"{i * found.period_s:.1f} s",
                f"{run.risks[i]:.3f}",
                run.monitors[i],
                in_words(found.abstraction, run.states[i]),
            )
            for i in moments
        ),
    )


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
