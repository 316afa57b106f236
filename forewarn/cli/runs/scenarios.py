"""`forewarn scenarios`: what can be run, and what each one is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import emit, json_option, table

if TYPE_CHECKING:
    from forewarn.scenarios.schema import Family, Scenario


@click.command()
@click.argument("name", required=False)
@json_option
def scenarios(name: str | None, as_json: bool) -> None:
    """List the scenarios that ship, or show the one called NAME (or a file).

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
        emit(as_json, payload, _listed(found, families))
    elif name in shipped_families():
        family = load_family(name)
        lines = (f"{name}:{task}" for task in family.tasks)
        emit(as_json, _family(family), [family.title, "", *lines])
    else:
        scenario = load_scenario(name)
        emit(as_json, _payload(scenario), _lines(scenario, name))


def _listed(found: Sequence[Scenario], families: Sequence[Family]) -> Iterator[str]:
    rows = [(each.name, each.world.name, each.title) for each in found]
    yield from table(["scenario", "world", ""], rows)
    yield ""
    many = [(f"{each.name}:TASK", len(each.tasks), each.title) for each in families]
    yield from table(["one for each task", "tasks", ""], many)


def _family(family: Family) -> dict[str, Any]:
    return {"name": family.name, "title": family.title, "tasks": list(family.tasks)}


def _payload(scenario: Scenario) -> dict[str, Any]:
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
        "period_s": scenario.abstraction.period_s,
        "expected_base_rate": {
            law: list(span) for law, span in scenario.expected_base_rate.items()
        },
    }


def _lines(scenario: Scenario, called: str) -> Iterator[str]:
    yield f"{scenario.name}: {scenario.title}"
    if scenario.description:
        yield scenario.description
    yield ""
    yield f"world {scenario.world.name}, pilot {scenario.pilot.name}"
    yield f"ends after {scenario.end.max_time_s:g} s at the latest"
    for law in scenario.laws:
        span = scenario.expected_base_rate.get(law.name)
        expected = f"   (broken in {span[0]:g} to {span[1]:g} of runs)" if span else ""
        yield f"law {law.name}: {law.title or law.text}{expected}"
    for name, draw in scenario.draws.items():
        yield f"drawn {name}: {draw}"
    yield f"{len(scenario.abstraction.texts)} predicates:"
    for text in scenario.abstraction.texts:
        yield f"  {text}"
    yield ""
    yield f"forewarn collect {called} --episodes 200 --out traces"
    yield f"forewarn learn traces --scenario {called} --out model.json"
    yield f"forewarn run {called} --model model.json"
