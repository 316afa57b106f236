"""`forewarn scenarios` and `report`: list scenarios, and write reports on runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from forewarn.cli.command import (
    Existing,
    File,
    command,
)
from forewarn.cli.printing import (
    say,
    several,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.chains.model import Model
    from forewarn.scenarios.schema import Family, Scenario


@command()
def scenarios(
    name: str | None = None,
    /,
) -> None:
    """List the built-in scenarios, or show the scenario NAME (a name or a file).

    \b
    Example:
      forewarn scenarios tiny-road
    """
    from forewarn.scenarios.schema import (
        load_family,
        load_scenario,
        shipped_families,
        shipped_scenarios,
    )

    if name is None:
        found = [load_scenario(each) for each in shipped_scenarios()]
        families = [load_family(each) for each in shipped_families()]
        payload = {
            "scenarios": [_payload(each) for each in found],
            "families": [_family(each) for each in families],
        }
        say(payload, _listed(found, families))
    elif name in shipped_families():
        family = load_family(name)
        lines = (f"{name}:{task}" for task in family.tasks)
        say(_family(family), [family.title, "", *lines])
    else:
        scenario = load_scenario(name)
        say(_payload(scenario), _lines(scenario, name))


def _listed(found: Sequence[Scenario], families: Sequence[Family]) -> Iterator[str]:
    rows = [(each.name, each.world.name, each.title) for each in found]
    yield from table(["scenario", "world", ""], rows)
    yield ""
    many = [(f"{each.name}:TASK", len(each.tasks), each.title) for each in families]
    yield from table(["family", "tasks", ""], many)


def _family(family: Family) -> dict[str, Any]:
    return {"name": family.name, "title": family.title, "tasks": list(family.tasks)}


def _payload(scenario: Scenario) -> dict[str, Any]:
    from forewarn.monitors.risk.evidence import abstraction_of

    return {
        "name": scenario.name,
        "title": scenario.title,
        "description": scenario.description,
        "file": scenario.source,
        "sha256": scenario.digest,
        "world": {"name": scenario.world.name, "settings": scenario.world.settings},
        "pilot": {"name": scenario.pilot.name, "settings": scenario.pilot.settings},
        "laws": [
            {"name": law.name, "formula": law.text, "title": law.title}
            for law in scenario.laws
        ],
        "horizon_s": scenario.horizon_s,
        "end": scenario.end.model_dump(),
        "draws": {
            name: draw.model_dump(exclude_none=True)
            for name, draw in scenario.draws.items()
        },
        "predicates": list(scenario.abstraction.texts),
        "shipped_predicates": [
            text
            for found in _shipped(scenario)
            if (abstraction := abstraction_of(found)) is not None
            for text in abstraction.texts
        ],
        "period_s": scenario.abstraction.period_s,
        "expected_base_rate": {
            law: list(span) for law, span in scenario.expected_base_rate.items()
        },
    }


def _shipped(scenario: Scenario) -> list[Model]:
    """Returns the models shipped with a scenario."""
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.shipped import shipped_with

    files = shipped_with(scenario)
    return [] if files is None else list(load_models(files.model))


def _lines(scenario: Scenario, called: str) -> Iterator[str]:
    from forewarn.monitors.risk.evidence import abstraction_of, laws_of

    yield f"{scenario.name}: {scenario.title}"
    if scenario.description:
        yield scenario.description
    yield ""
    yield f"world {scenario.world.name}, pilot {scenario.pilot.name}"
    yield f"ends after at most {scenario.end.max_time_s:g} s"
    for law in scenario.laws:
        span = scenario.expected_base_rate.get(law.name)
        line = f"law {law.name}: {law.title or law.text}"
        if span:
            expected = f"{span[0]:.0%} to {span[1]:.0%} of runs"
            line += f" (expected to be violated in {expected})"
        yield line
    for name, draw in scenario.draws.items():
        yield f"random {name}: {draw}"
    yield f"{len(scenario.abstraction.texts)} predicates:"
    for line in scenario.abstraction.listed():
        yield f"  {line}"
    for found in _shipped(scenario):
        names = ", ".join(law.name for law in laws_of(found))
        yield f"The shipped model for {names} uses:"
        if (abstraction := abstraction_of(found)) is not None:
            for line in abstraction.listed():
                yield f"  {line}"
    yield ""
    yield f"forewarn collect {called} --episodes 200 --out traces"
    yield f"forewarn learn traces --scenario {called} --out model.json"
    yield f"forewarn run {called} --model model.json"


NAME = "report.html"


@command()
def report(
    sources: tuple[Annotated[Existing, "RUN|DIR..."], ...],
    /,
    *,
    out: File | None = None,
    title: str = "",
) -> None:
    """Write a self-contained HTML report about RUN or DIR.

    RUN is a run record, or a file with the output of `forewarn measure --json`. DIR is
    a folder written by `forewarn run --out` or `forewarn measure --out`. The report
    animates each run and shows its risk, signals, chain and laws; campaigns and
    measurements are shown as tables. The report needs no network.

    \b
    Examples:
      forewarn report forewarn-runs
      forewarn report forewarn-runs/s1-*-000007.run.jsonl --out run.html

    Args:
        out: Write the report to this file (default: report.html in DIR, or a file next
            to RUN, with the name of RUN).
        title: Title of the report.
    """
    from forewarn.scenarios.report.page import write_report

    out = out or _beside(sources[0])
    found = write_report(sources, out, title)
    counts = [
        several(found[f"{what}s"], what)
        for what in ("run", "campaign", "measurement")
        if found[f"{what}s"]
    ]
    say(found, [*found["cautions"], f"{out}: {', '.join(counts)}"])


def _beside(source: Path) -> Path:
    if source.is_dir():
        return source / NAME
    stem = source.name.removesuffix(".json").removesuffix(".run.jsonl")
    return source.with_name(f"{stem}.html")
