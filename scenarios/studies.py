"""The Python API: learn, tune, measure, and compute the risks along a trace.

The functions do the same as the commands of the same names, and return objects with a
table and a plot (see `Plotted`).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import Field

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.abstractions.files import write_json
from forewarn.abstractions.readers.stored import files_in, read_traces, stored_runs
from forewarn.abstractions.trace import Trace
from forewarn.abstractions.vocabularies.vocabulary import YAML
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.model import Model, load_models, refuse_other
from forewarn.monitors.checking.risks import risks_on
from forewarn.monitors.evaluation.figures import CONFIDENCE
from forewarn.monitors.guarding.certificate import deciding
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.measuring.measure import Measurement
from forewarn.scenarios.measuring.measure import Wish as ToMeasure
from forewarn.scenarios.measuring.measure import measure as measured
from forewarn.scenarios.measuring.recorded import training_runs
from forewarn.scenarios.measuring.seeds import refuse_trained, unknown_seeds
from forewarn.scenarios.plotted import MARKERS, Plotted, flat, in_short
from forewarn.scenarios.running.campaign import pool, recorded_files
from forewarn.scenarios.running.series import learns
from forewarn.scenarios.schema import Scenario, load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import shipped_with
from forewarn.scenarios.training.learner import HORIZON_S, Learner
from forewarn.scenarios.training.train import collected
from forewarn.scenarios.training.tune import Settled, tuned_policy
from forewarn.scenarios.training.tune import tune as settle
from forewarn.scenarios.training.wish import Wish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURED_SEED, TUNED_SEED = 1_000_000, 2_000_000
"""The default first seeds for measuring and for tuning, well above those for
training.
"""


@dataclass(frozen=True, slots=True)
class Learned(Plotted):
    """Learned models, with the risk of each law in each state.

    Args:
        models: One model for all laws, or several models for different laws.
        horizon_s: The prediction horizon of the risks in the table, in seconds.
        warnings: Warnings about the runs and the chain.
    """

    models: tuple[Model, ...]
    horizon_s: float
    warnings: tuple[str, ...] = ()

    def write(self, path: Path | str) -> Path:
        """Writes the models to a file, as `forewarn learn --out` does."""
        path = Path(path)
        write_json(path, models_as_dict(self.models))
        return path

    def table(self) -> Iterator[dict[str, Any]]:
        """Yields one row for each law and state of the chain.

        `risk` is the risk when no obligation is pending, with its bounds; `worst` is
        the highest risk that can occur in the state.
        """
        for model in self.models:
            steps = max(1, round(self.horizon_s / (model.period_s or 1.0)))
            for law, states in risks_on(model, (), (), steps, 0.05):
                for each in states:
                    yield {
                        "law": law,
                        "state": each.state,
                        "holds": " and ".join(each.words or ()),
                        "visits": each.visits,
                        "risk": each.fresh.risk,
                        "low": each.fresh.low,
                        "high": each.fresh.high,
                        "worst": each.worst.risk,
                    }

    def draw(self, axes: Axes) -> None:
        """Plots the risk in each state, with its bounds, against the number of
        visits.
        """
        for (law, rows), marker in zip(_by_law(self.table()), cycle(MARKERS)):
            seen = [row for row in rows if row["visits"] and row["high"] is not None]
            x, risks = ([row[key] for row in seen] for key in ("visits", "risk"))
            axes.plot(x, risks, marker, markersize=4, label=in_short(law))
            bounds = [row["low"] for row in seen], [row["high"] for row in seen]
            colour = axes.lines[-1].get_color()
            axes.vlines(x, *bounds, color=colour, alpha=0.25, linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel("visits in training (number of steps)")
        axes.set_ylabel(f"risk of a violation within {self.horizon_s:g} s")
        axes.set_ylim(-0.02, 1.02)


@dataclass(frozen=True, slots=True)
class Tuning(Plotted):
    """Tuned thresholds and their guarantees.

    Args:
        settled: The horizons that were tried, the thresholds and the guarantees.
        policy: The policy; None if no threshold achieves the guarantee.
    """

    settled: Settled
    policy: Policy | None

    def write(self, path: Path | str) -> Path:
        """Writes the policy's file.

        Raises:
            InvalidInput: No threshold achieves the guarantee; the message says why.
        """
        path = Path(path)
        write_policy(path, self.needed_policy())
        return path

    def needed_policy(self) -> Policy:
        """Returns the policy.

        Raises:
            InvalidInput: No threshold achieves the guarantee; the message says why.
        """
        if self.policy is None:
            why = "; ".join(f"{law}: {t}" for law, t in self.settled.without.items())
            raise InvalidInput(
                f"no threshold achieves the guarantee: {why}",
                mend="tune with more runs, or allow a higher false_alarm_rate",
            )
        return self.policy

    def table(self) -> Iterator[dict[str, Any]]:
        """Yields one row for each law and tried horizon; `taken` marks the best
        horizon.
        """
        for number, tried in enumerate(self.settled.tried):
            for row in tried.as_dict()["laws"]:
                yield {
                    "law": row["law"],
                    "horizon_s": tried.horizon_s,
                    "taken": number == 0,
                    **flat({k: v for k, v in row.items() if k != "law"}),
                }

    def draw(self, axes: Axes) -> None:
        """Plots the detection and false-alarm rates of each law by horizon; the best
        horizon is marked.
        """
        for (law, rows), marker in zip(_by_law(self.table()), cycle(MARKERS)):
            rows.sort(key=lambda row: row["horizon_s"])
            x = [row["horizon_s"] for row in rows]
            colour = None
            for key, what, style in (
                ("detection_rate", "detection rate", "-"),
                ("false_alarm_rate", "false-alarm rate", "--"),
            ):
                y = [math.nan if row[key] is None else row[key] for row in rows]
                (line,) = axes.plot(x, y, style, marker=marker, color=colour)
                line.set_label(f"{in_short(law)}: {what}")
                colour = line.get_color()
            axes.set_xticks(x)
        best_s = self.settled.best.horizon_s
        axes.axvline(best_s, color="0.6", label=f"chosen horizon: {best_s:g} s")
        axes.set_xlabel("horizon (s)")
        axes.set_ylabel("fraction of runs")
        axes.set_ylim(-0.02, 1.02)


@dataclass(frozen=True, slots=True)
class Risks(Plotted):
    """The risk of each law at each frame of one trace.

    Args:
        horizon_s: The prediction horizon of the risks, in seconds.
        series: One row for each frame and law.
        thresholds: The policy's interventions with their thresholds, by law.
    """

    horizon_s: float
    series: tuple[Mapping[str, Any], ...]
    thresholds: Mapping[str, Sequence[tuple[Kind, float]]]

    def table(self) -> Sequence[Mapping[str, Any]]:
        """Returns one row for each frame and law."""
        return self.series

    def draw(self, axes: Axes) -> None:
        """Plots the risk of each law over time, with bounds, thresholds and
        violations.
        """
        for law, rows in _by_law(self.series):
            times = [row["time_s"] for row in rows]
            (line,) = axes.step(
                times, [row["risk"] for row in rows], where="post", label=in_short(law)
            )
            bounds = [row["low"] for row in rows], [row["high"] for row in rows]
            colour = line.get_color()
            axes.fill_between(times, *bounds, step="post", alpha=0.2, color=colour)
            for kind, at in self.thresholds.get(law, ()):
                label = f"{in_short(law)}: {kind} at {at:g}"
                axes.axhline(at, color=colour, linestyle=":", label=label)
            broken = [row["time_s"] for row in rows if row["violated"]]
            for number, time_s in enumerate(broken):
                label = "" if number else f"{in_short(law)}: violation"
                axes.axvline(time_s, color=colour, linestyle="--", label=label)
        axes.set_xlabel("time (s)")
        axes.set_ylabel(f"risk of a violation within {self.horizon_s:g} s")
        axes.set_ylim(-0.02, 1.02)


def _by_law(
    rows: Iterator[dict[str, Any]] | Sequence[Mapping[str, Any]],
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["law"], []).append(row)
    return list(found.items())


Study = TypeVar("Study", bound=Callable[..., Any])


def _in_python(study: Study) -> Study:
    """Replaces command-line options in error messages by the function's parameters."""

    @wraps(study)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            return study(*args, **kwargs)
        except InvalidInput as error:
            texts = (error.problem, error.source, error.place, error.mend)
            problem, source, place, mend = (_OPTION.sub(_named_in, e) for e in texts)
            raise type(error)(problem, source=source, place=place, mend=mend) from error

    return cast(Study, told)


def _named_in(option: re.Match[str]) -> str:
    return f"`{_PARAMETER.get(option[1], option[1])}`" if option[1] else ""


_OPTION = re.compile(r", or add --accept-model|--([a-z]+)")
_PARAMETER = {
    "law": "laws", "episodes": "runs", "horizon": "horizon_s",
    "horizons": "horizons_s", "threshold": "thresholds", "baseline": "baselines",
}  # fmt: skip

AnyModel = Path | str | Learned | Model
AnyPolicy = Path | str | Policy | Tuning
Laws = str | Sequence[str]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, lt=1)]


def _policy(given: AnyPolicy) -> Policy:
    if isinstance(given, Policy):
        return given
    if isinstance(given, Tuning):
        return given.needed_policy()
    return load_policy(given)


def _file(model: AnyModel, folder: Path) -> Path:
    if isinstance(model, Model):
        model = Learned((model,), HORIZON_S)
    if isinstance(model, Learned):
        return model.write(folder / "model.json")
    return Path(model)


def _named(laws: Laws) -> tuple[str, ...]:
    return (laws,) if isinstance(laws, str) else tuple(laws)


def _scenario(name: Path | str, laws: Laws) -> Scenario:
    scenario = load_scenario(name)
    return scenario.under(_named(laws)) if laws else scenario


@checked
@_in_python
def learn(
    traces: Path | str | Sequence[Path | str] | None = None,
    *,
    scenario: Path | str | None = None,
    laws: Laws = (),
    abstraction: Path | str | None = None,
    horizon_s: Seconds | None = None,
    runs: Count = 200,
    jobs: Count = 1,
    episodes: Count | None = None,
) -> Learned:
    """Learns a model, as `forewarn learn` does.

    Args:
        traces: Files or folders of traces; by default, new runs of the scenario.
        scenario: The name or the file of the scenario that defines the abstraction and
            the laws.
        laws: Laws to learn for, by name or formula; by default, the scenario's.
        abstraction: A file of predicates, or `auto` to find predicates automatically.
        horizon_s: The prediction horizon of the risks in seconds; by default, the
            scenario's.
        runs: The number of new runs if no traces are given.
        jobs: The number of processes.
        episodes: The former name of `runs`.
    """
    if traces == [] or (traces is None and scenario is None):
        raise InvalidInput(
            "there are no runs to learn from", mend="give traces=… or scenario=…"
        )
    wish = Wish(
        scenario=None if scenario is None else str(scenario),
        abstraction=None if abstraction is None else str(abstraction),
        law=_named(laws),
        horizon=horizon_s if abstraction == "auto" else None,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        if traces is None:
            seeds = range(episodes or runs)
            wanted = load_scenario(scenario or "")
            found = list(collected(wanted, seeds, pool(jobs, None), Path(folder)))
            files = list(dict.fromkeys(run.path for run in found))
        else:
            given = [traces] if isinstance(traces, Path | str) else list(traces)
            for path in given:
                named = str(path) in shipped_scenarios() and not Path(path).exists()
                if named or Path(path).suffix in YAML:
                    problem = "this is a scenario, not a trace"
                    mend = f"write scenario={str(path)!r}"
                    raise InvalidInput(problem, source=f"traces: {path}", mend=mend)
            files = [file for path in given for file in files_in(Path(path))]
            found = stored_runs(files)
        first = Learner(wish, None, "", files[0])
        learners = [first]
        if wish.auto:
            learners = [one for one, _ in first.find(files, lambda items, *_: items)]
        models, warnings = [], dict[str, None]()
        for learner in learners:
            for _ in learner.add(found):
                pass
            models.append(model := learner.model())
            warnings |= dict.fromkeys([*model.chain.warnings(), *learner.warnings()])
    of = first.scenario
    ahead_s = horizon_s or (HORIZON_S if of is None else of.horizon_s)
    return Learned(tuple(models), ahead_s, tuple(warnings))


@checked
@_in_python
def tune(
    scenario: Path | str,
    *,
    model: AnyModel,
    laws: Laws = (),
    runs: Count | None = None,
    seed: Seed | None = None,
    false_alarm_rate: Rate = 0.1,
    horizons_s: Sequence[Seconds] = (1, 2, 3, 4, 5),
    confidence: Rate = CONFIDENCE,
    intervene: Kind = "alert",
    jobs: Count = 1,
) -> Tuning:
    """Finds thresholds with a guaranteed false-alarm rate, as `forewarn tune` does.

    To tune with the guard intervening, use the command `forewarn tune --preset stop`.

    Args:
        scenario: The name or the file of the scenario to run.
        model: The model that predicts the risks.
        laws: Laws to tune for, by name or formula; by default, the scenario's.
        runs: The number of new runs. The default is 300; for recordings, all that the
            model was not trained on.
        seed: The first seed of the runs; by default, one that the model was not trained
            on.
        false_alarm_rate: Maximum false-alarm rate of each law.
        horizons_s: The prediction horizons to try, in seconds.
        confidence: Confidence level of the guarantee.
        intervene: The intervention at the thresholds.
        jobs: The number of processes.
    """
    wanted = _scenario(scenario, laws)
    with TemporaryDirectory() as made:
        folder = Path(made)
        path = _file(model, folder)
        seeds = unknown_seeds(path, wanted, seed, runs, TUNED_SEED, 300)
        traces = collected(wanted, seeds, pool(jobs, None), folder)
        base = Policy(f"{wanted.name}, at most {false_alarm_rate:g} false alarms a run")
        base = replace(base, tuned_for=deciding(path, base))
        found = settle(
            wanted.laws, path, traces, false_alarm_rate, horizons_s, base,
            confidence=confidence,
        )  # fmt: skip
    policy = tuned_policy(found, base, intervene) if found.thresholds else None
    return Tuning(found, policy)


@checked
@_in_python
def measure(
    scenario: Path | str,
    *,
    model: AnyModel | None = None,
    policy: AnyPolicy | None = None,
    laws: Laws = (),
    runs: Count | None = None,
    seed: Seed | None = None,
    thresholds: Sequence[Annotated[float, Field(ge=0, le=1)]] = (),
    baselines: Sequence[str] = (),
    sweep: bool = False,
    guarded: bool = True,
    jobs: Count = 1,
) -> Measurement:
    """Evaluates the warnings of a model on held-out runs, as `forewarn measure` does.

    Args:
        scenario: The name or the file of the scenario to run.
        model: The model; by default, the one that ships with the scenario.
        policy: The guard's policy; by default, the one that ships with the scenario.
        laws: Laws to watch, by name or formula; by default, the scenario's.
        runs: The number of runs. The default is 100; for recordings, all that the model
            was not trained on.
        seed: The first seed of the runs; by default, one that the model was not trained
            on.
        thresholds: The thresholds to compare; by default, the policy's.
        baselines: The names of other methods to compare with the guard, such as `ttc`.
        sweep: Whether to evaluate all thresholds too, for curves in the plot.
        guarded: Whether to run the same seeds again with the guard intervening.
        jobs: The number of processes.
    """
    wanted, on = _scenario(scenario, laws), pool(jobs, None)
    files = shipped_with(wanted) if model is None else None
    if model is None and files is None:
        raise InvalidInput(f"no model ships with {wanted.name}", mend="give model=…")
    if policy is None and files is not None:
        policy = files.policy
    chosen = Policy(horizon_s=wanted.horizon_s) if policy is None else _policy(policy)
    with TemporaryDirectory() as made:
        folder = Path(made)
        path = files.model if model is None and files else _file(model or "", folder)
        seeds = unknown_seeds(path, wanted, seed, runs, MEASURED_SEED, 100)
        names = recorded_files(wanted)
        for each in load_models(path):
            refuse_other(each, str(path), **wanted.facts)
            refuse_trained(each, wanted.name, seeds, recorded=names)
        wish = ToMeasure(
            wanted, path, replace(chosen, shadow=False), seeds, tuple(thresholds),
            tuple(baselines), sweep=sweep, guarded=guarded and not chosen.shadow,
        )  # fmt: skip
        if any(map(learns, baselines)):
            lessons = training_runs(wanted, path, on, folder / "training")
            wish = replace(wish, training=lessons)
        return measured(wish, on, folder)


@checked
@_in_python
def risks(
    trace: Path | str | Trace,
    *,
    model: AnyModel,
    policy: AnyPolicy | None = None,
    horizon_s: Seconds | None = None,
    laws: Laws = (),
) -> Risks:
    """Computes the risk of each law at each frame of a trace, as a guard would.

    Args:
        trace: A trace, or its file; if a file or folder has several traces, the first
            is used.
        model: The model.
        policy: The policy whose calibration is applied and whose thresholds are drawn.
        horizon_s: The prediction horizon of the risks in seconds; by default, the
            policy's.
        laws: Laws to watch, by name or formula; by default, the model's.
    """
    traces = iter((trace,)) if isinstance(trace, Trace) else read_traces(trace)
    read = next(traces)
    if next(traces, None) is not None:
        text = f"{trace} has several traces, so these are the risks of the first"
        warnings.warn(f"{text} (give the file of one trace)", stacklevel=4)
    chosen = Policy() if policy is None else _policy(policy)
    if horizon_s is not None and horizon_s != chosen.horizon_s:
        chosen = replace(chosen, horizon_s=horizon_s, calibration={}, promises={})
    with ExitStack() as stack:
        made = Path(stack.enter_context(TemporaryDirectory()))
        guarding = Guarding.load(_file(model, made), chosen, laws=_named(laws))
    # Only a guard applies the policy's calibration to the laws that it watches.
    for each in guarding.models:
        refuse_other(each, guarding.name, vocabulary=read.header.vocabulary)
    watch = guarding.guard(read.header.provides or None).watch
    series: list[Mapping[str, Any]] = []
    for frame in read.frames:
        try:
            watch.read(frame)
            known = watch.risks
        except SignalFault:
            known = {}
        for law in watch.laws:
            risk = known.get(law.name)
            series.append(
                {
                    "time_s": frame.time_s,
                    "law": law.name,
                    "risk": math.nan if risk is None else risk.point,
                    "low": math.nan if risk is None else risk.low,
                    "high": math.nan if risk is None else risk.high,
                    "left_s": None if risk is None else law.left_s,
                    "violated": law.name in watch.violated,
                }
            )
    steps = {} if policy is None else {
        law.name: [(step.kind, step.threshold) for step in chosen.steps_for(law.name)]
        for law in watch.laws
    }  # fmt: skip
    return Risks(chosen.horizon_s, tuple(series), steps)
