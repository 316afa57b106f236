"""The main jobs from Python: what they return, as a frame and as a plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import forewarn
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.scenarios.plotted import MARKERS, Plotted
from tests.scenarios import learned

pytest.importorskip("pandas", reason="pandas is not installed")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")

SCENARIO = "tiny-road"


@pytest.fixture(scope="module")
def model() -> Any:
    return forewarn.learn(learned.traces(SCENARIO), scenario=SCENARIO)


def plotted(result: Plotted) -> Any:
    """Its plot: the axes have titles, and the legend has a law in each line."""
    axes = result.plot()
    pyplot.close(axes.figure)
    assert axes.get_xlabel() and axes.get_ylabel()
    return axes


def named(axes: Any) -> str:
    return "\n".join(text.get_text() for text in axes.get_legend().get_texts())


def test_learning_gives_the_risk_of_each_law_in_each_state(
    model: Any, tmp_path: Path
) -> None:
    frame = model.frame()
    assert set(frame["law"]) == {"stop_at_red", "no_collision"}
    assert ((frame["low"] <= frame["high"]) & (frame["risk"] <= frame["worst"])).all()
    axes = plotted(model)
    assert axes.get_ylabel() == "risk of a violation within 3 s"
    assert "stop_at_red" in named(axes) and "no_collision" in named(axes)
    # The command writes the same model.
    written = json.loads(model.write(tmp_path / "m.json").read_text())
    known = json.loads(learned.model(SCENARIO).read_text())
    assert written["counts"] == known["counts"]


def test_measuring_gives_a_row_for_each_way_to_warn(model: Any) -> None:
    found = forewarn.measure(
        SCENARIO, model=model, runs=12, thresholds=[0.3, 0.7], baselines=["deadline"],
        sweep=True, guarded=False,
    )  # fmt: skip
    frame = found.frame()
    assert set(frame["by"]) == {"guard", "deadline"}
    assert list(frame[frame["by"] == "guard"]["threshold"]) == [0.3, 0.7] * 2
    assert list(frame["detected"]) == [
        row["detected"]
        for part in (
            found.as_dict()["laws"],
            found.as_dict()["baselines"]["deadline"]["laws"],
        )
        for row in part
    ]
    axes = plotted(found)
    assert "stop_at_red: guard at 0.3" in named(axes)
    assert "fraction of clean runs" in axes.get_xlabel()
    with pytest.raises(InvalidInput, match="learned from"):
        forewarn.measure(SCENARIO, model=model, runs=3, seed=0)


def test_tuning_gives_a_policy_and_each_horizon(model: Any, tmp_path: Path) -> None:
    found = forewarn.tune(SCENARIO, model=model, runs=60, horizons_s=(1, 3))
    frame = found.frame()
    assert set(frame["horizon_s"]) == {1, 3} and frame["taken"].sum() == 2
    axes = plotted(found)
    assert axes.get_xlabel() == "horizon (s)"
    assert found.policy is not None
    assert forewarn.load_policy(found.write(tmp_path / "p.yaml")) == found.policy


def test_the_risks_along_a_trace(model: Any) -> None:
    path = learned.traces(SCENARIO)
    trace = next(forewarn.read_traces(path))
    policy = forewarn.Policy(rules={"*": (forewarn.Step("stop", 0.6),)})
    found = forewarn.risks(trace, model=model, policy=policy)
    frame = found.frame()
    assert len(frame) == 2 * len(trace.frames)
    assert frame["risk"].between(0.0, 1.0).all()
    with pytest.warns(UserWarning, match="risks of the first .give the file of one"):
        alike = forewarn.risks(path, model=learned.model(SCENARIO))
    assert alike.series == found.series
    axes = plotted(found)
    assert axes.get_xlabel() == "time (s)" and "stop at 0.6" in named(axes)
    # On axes of one's own it draws there, and returns them.
    mine = pyplot.figure().subplots()
    assert found.plot(mine) is mine
    pyplot.close(mine.figure)


@pytest.mark.parametrize(
    ("package", "call"), [("pandas", "frame"), ("matplotlib", "plot")]
)
def test_without_the_extra_one_line_names_it(
    package: str, call: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency) as told:
        getattr(model, call)()
    assert str(told.value).endswith("run pip install 'forewarn[plots]'")


def test_impossible_request_is_reported() -> None:
    with pytest.raises(InvalidInput, match="give traces"):
        forewarn.learn()
    with pytest.raises(InvalidInput, match="no model ships with tiny-road"):
        forewarn.measure(SCENARIO, runs=1)
    assert len(set(MARKERS)) == len(MARKERS)


def test_one_law_may_stand_alone() -> None:
    law = "always speed < 50"
    found = forewarn.learn(learned.traces(SCENARIO), laws=law)
    assert found.models[0].laws == (law,)
