"""What `forewarn measure` does with a family of tasks: the embodied table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from forewarn.cli.support import emit, progress, table

if TYPE_CHECKING:
    from forewarn.scenarios.measuring.embodied import Table

RUNS = 5
"""How often each task is run, where nobody says; as in the paper."""

COMPLIANCES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What the compliance is swept over, beside the fitted one."""

TRAINING_SEED = 0


def measure_family(
    name: str,
    runs: int,
    seed: int,
    jobs: int,
    compliances: Sequence[float],
    as_json: bool,
) -> None:
    """Prints the embodied table of a family of tasks.

    Args:
        name: The family's name or file.
        runs: How often each task is run.
        seed: The first seed of them.
        jobs: How many processes.
        compliances: What the compliance is swept over.
        as_json: Whether for machines.
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.scenarios.measuring import embodied
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.schema import load_family
    from forewarn.thor_bridge.pilot import frozen_habits

    family = load_family(name)
    pilot = family.scenario(family.tasks[0]).pilot.name
    fitted = frozen_habits().compliance if pilot in embodied.EMBEDDED else None
    if fitted is None and compliances:
        raise InvalidInput(f"{pilot} cannot be told how often to heed a warning")
    swept = sorted({*(compliances or COMPLIANCES), fitted}) if fitted else []
    ways = embodied.ways(swept)
    seeds = tuple(range(seed, seed + runs))
    training = tuple(range(TRAINING_SEED, TRAINING_SEED + embodied.TRAINING_RUNS))
    todo = [
        embodied.TaskJob(name, task, tuple(ways), seeds, training)
        for task in family.tasks
    ]
    studied = embodied.study(todo, pool(jobs))
    done = {job.task: played for job, played in progress(studied, "tasks", len(todo))}
    found = embodied.table(
        name,
        pilot,
        {
            way: [run for task in family.tasks for run in done[task][way]]
            for way in ways
        },
        len(todo),
        seeds,
        swept,
        fitted,
    )
    emit(as_json, found.as_dict(), _lines(found))


def _lines(found: Table) -> Iterator[str]:
    from forewarn.scenarios.measuring.embodied import PAPER_HEADLINE

    facts = found.as_dict()
    yield (
        f"{found.family}: {found.tasks} tasks, {len(found.seeds)} runs of each on seeds"
        f" {found.seeds[0]} to {found.seeds[-1]}; a share has its 95 % interval."
    )
    yield found.label
    yield ""
    yield from _rows([row for row in facts["rows"] if row["compliance"] is None])
    for share in dict.fromkeys(row["compliance"] for row in facts["rows"]):
        if share is not None:
            yield ""
            why = ", as fitted to published runs" if share == found.fitted else ""
            yield f"A robot that heeds a warning in {share:.0%} of its runs{why}:"
            yield from _rows([r for r in facts["rows"] if r["compliance"] == share])
    yield ""
    yield (
        f"The paper reports of its reflect mode, with GPT-4.1:"
        f" {PAPER_HEADLINE['unsafe_cut']:.2%} fewer unsafe runs,"
        f" {PAPER_HEADLINE['completion_kept']:.1%} of the completions kept."
    )
    yield ""
    yield "Completed at the same share of unsafe runs:"
    yield from _bars(facts["bars"])
    yield found.label


def _rows(rows: Sequence[dict[str, Any]]) -> list[str]:
    head = [
        "guard", "unsafe", "complete", "safely", "rejected", "stopped", "unsafe cut by",
        "completion kept", "model calls", "tokens", "warnings", "us a decision",
    ]  # fmt: skip
    return table(
        head,
        (
            (
                row["way"],
                _share(row["unsafe"], row["intervals"]["unsafe"]),
                _share(row["complete"], row["intervals"]["complete"]),
                f"{row['safely_complete']:.1%}",
                f"{row['rejected']:.1%}",
                f"{row['stopped']:.1%}",
                _share(row["unsafe_cut"], row["unsafe_cut_interval"]),
                _share(row["completion_kept"], row["completion_kept_interval"]),
                f"{row['model_calls']:.1f}",
                "none" if row["tokens"] is None else f"{row['tokens']:.0f}",
                f"{row['warnings']:.2f}",
                "-" if row["review_us"] is None else f"{row['review_us']:.0f}",
            )
            for row in rows
        ),
    )


def _bars(bars: Sequence[dict[str, Any]]) -> list[str]:
    return table(
        [
            "against",
            "heeds",
            "unsafe",
            "ours",
            "theirs",
            "ahead",
            "needed",
            "",
            "their most",
        ],
        (
            (
                bar["what"],
                "-" if bar["compliance"] is None else f"{bar['compliance']:.0%}",
                f"{bar['unsafe']:.1%}",
                f"{bar['complete']:.1%}",
                f"{bar['others_complete']:.1%}",
                _share(bar["ahead"], bar["interval"]),
                f"{bar['needed']:.0%}" if bar["needed"] else "more",
                "met" if bar["met"] else "MISSED",
                f"{bar['others_anywhere']:.1%}",
            )
            for bar in bars
        ),
    )


def _share(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "-"
    if interval is None:
        return f"{value:.1%}"
    return f"{value:.1%} ({interval[0]:.0%} to {interval[1]:.0%})"
