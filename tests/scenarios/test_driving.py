"""The driving scenarios: each runs, and breaks its laws about as often as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.monitors.evaluation.figures import wilson
from forewarn.scenarios import schema
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import Scenario, load_scenario

pytestmark = pytest.mark.needs("libsumo")

FOLDER = Path(schema.__file__).parent / "driving"
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
EPISODES = 120
FIRST_SEED = 50_000
"""Seeds from here on served to set the base rates; none of them is held out."""

FRESH_SEED = 60_000
"""Nothing was set by these."""


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return load_scenario(request.param)


def test_there_are_the_situations_of_the_paper_and_more() -> None:
    assert set(SCENARIOS) >= {f"s{i}" for i in range(1, 8)}
    assert len(SCENARIOS) >= 11


def test_a_scenario_runs_and_its_abstraction_settles_its_laws(
    scenario: Scenario,
) -> None:
    for law in scenario.laws:
        automaton = law.compile(scenario.abstraction.period_s)
        for proposition in automaton.propositions:
            scenario.abstraction.decides(proposition)
    assert scenario.expected_base_rate
    for low, high in scenario.expected_base_rate.values():
        assert 0.02 <= low < high <= 0.45
    episode = Runner(scenario).run(FIRST_SEED)
    assert episode.error is None and episode.frames > 50


@pytest.mark.soak
def test_the_laws_are_broken_as_often_as_expected(scenario: Scenario) -> None:
    runner = Runner(scenario)
    episodes = [runner.run(FRESH_SEED + i) for i in range(EPISODES)]
    assert [episode.error for episode in episodes if episode.error] == []
    for law, (low, high) in scenario.expected_base_rate.items():
        broken = sum(
            any(violation.law == law for violation in episode.violations)
            for episode in episodes
        )
        interval = wilson(broken, EPISODES)
        assert interval is not None
        assert interval[0] <= high and low <= interval[1], (law, broken)
