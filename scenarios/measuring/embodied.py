"""The embodied table: what guards are worth over all tasks of a family.

For each task a chain is learned from thirty unguarded runs, twice: as ProbGuard's
authors do it, and as we do. Then the same runs, on seeds that were not learned from,
are done under every way to guard. What comes out depends on who drives: the figures of
an embedded planner are not those of a language model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Trace, TraceHeader
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.decision import Action, Kind
from forewarn.monitors.guarding.policy import ANY_LAW, Policy, Step
from forewarn.monitors.trust.training import encode_trace, law_abstraction
from forewarn.plugins.contracts import Source
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.pools.local import Lost, Pool
from forewarn.scenarios.running.runner import Keep, Runner
from forewarn.scenarios.schema import Plug, Scenario, load_family

TRAINING_RUNS = 30
"""For each task, as in the paper."""

UNBOUNDED_S = 1000.0
"""The paper looks ahead without end; by then every episode is over."""

PERIOD_S = 1.0

Recipe = Literal["none", "paper", "ours", "after", "rules"]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to guard: a row of the table.

    Args:
        recipe: `paper`: unbounded risk of the observed state, its point, smoothed over
            all states, and warnings that are but words. `ours`: bounded risk of the
            state that the action would lead to, its upper bound. `after`: the same of
            the observed state. `rules`: hand-written ones in the robot's own loop.
        kind: What is done about it.
        threshold: From which risk on.
        compliance: How often the robot heeds a warning; None: as its habits have it.
    """

    recipe: Recipe
    kind: Kind = "proceed"
    threshold: float = 1.0
    compliance: float | None = None

    @property
    def title(self) -> str:
        """What the table calls it."""
        if self.recipe == "none":
            return "none"
        if self.recipe == "rules":
            return "rule guard, stop"
        after = "ours after the act" if self.recipe == "after" else self.recipe
        return f"{after}, {self.kind} at {self.threshold:g}"

    def policy(self, horizon_s: float) -> Policy:
        """What the guard does."""
        if self.recipe == "paper":
            # Its stop is at the threshold, its warning above it.
            step = Step(self.kind, self.threshold, inclusive=self.kind == "stop")
            return Policy(
                name=self.title, rules={ANY_LAW: (step,)}, horizon_s=UNBOUNDED_S,
                hysteresis=0.0, hold_s=0.0, max_reflections=100,
            )  # fmt: skip
        return Policy(
            name=self.title, rules={ANY_LAW: (Step(self.kind, self.threshold),)},
            horizon_s=horizon_s, when="before" if self.recipe == "ours" else "after",
            hysteresis=0.0, hold_s=0.0,
            escalation=("skip", "stop", "cut"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskJob:
    """All runs of one task.

    Args:
        family: The family's name or file.
        task: The task.
        ways: How it is guarded.
        seeds: Of the runs that are compared.
        training: Of the runs that are learned from.
        settings: For the pilot, beside those of the family.
    """

    family: str
    task: str
    ways: tuple[Way, ...]
    seeds: tuple[int, ...]
    training: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one run.

    Args:
        unsafe: Whether the law was broken.
        complete: Whether the goal was reached at some moment.
        rejected: Whether the robot gave up before it did anything.
        stopped: Whether the guard ended it.
        proposals: How many actions the robot proposed, or how often its model was
            called where it has one.
        done: How many were carried out.
        failed: How many of these failed.
        warnings: How often it was told to think again.
        review_s: What the guard's reviews took, all together.
        tokens: What the robot's model took; None where it has none.
    """

    unsafe: bool
    complete: bool
    rejected: bool
    stopped: bool
    proposals: int
    done: int
    failed: int
    warnings: int
    review_s: float
    tokens: float | None = None


TaskRuns = Mapping[Way, tuple[Run, ...]]


def study(jobs: Sequence[TaskJob], on: Pool) -> Iterator[tuple[TaskJob, TaskRuns]]:
    """The runs of all tasks, as they are done."""
    with closing(on.map(play_task, jobs)) as done:  # type: ignore[type-var]
        for job, runs in done:
            if isinstance(runs, Lost):
                raise ForewarnError(f"{job.task}: {runs.error}")
            yield job, runs


def play_task(job: TaskJob) -> TaskRuns:
    """Learns one task and runs it under every way to guard."""
    scenario = _scenario(job)
    recipes = {way.recipe for way in job.ways}
    models: dict[str, Model] = {}
    if recipes - {"none", "rules"}:
        traces = list(_unguarded(scenario, job.training))
        models["paper"] = as_the_paper(scenario, traces)
        models["ours"] = models["after"] = as_we_do(scenario, traces)
    found: dict[Way, tuple[Run, ...]] = {}
    for way in job.ways:
        runner = _runner(scenario, way, models.get(way.recipe))
        found[way] = tuple(_run(runner, seed) for seed in job.seeds)
    return found


@cache
def _family(name: str) -> Any:
    return load_family(name)


def _scenario(job: TaskJob) -> Scenario:
    scenario: Scenario = _family(job.family).scenario(job.task)
    settings = {**scenario.pilot.settings, **dict(job.settings)}
    return replace(scenario, pilot=Plug(name=scenario.pilot.name, settings=settings))


def _runner(scenario: Scenario, way: Way, model: Model | None) -> Runner:
    pilot = scenario.pilot
    settings = dict(pilot.settings)
    if way.compliance is not None:
        settings["compliance"] = way.compliance
    name = "household-ruled" if way.recipe == "rules" else pilot.name
    withhold = "once" if way.recipe == "paper" else "always"
    scenario = replace(
        scenario,
        pilot=Plug(name=name, settings=settings),
        actuator=Plug(name="household-agent", settings={"withhold": withhold}),
    )
    if model is None:
        return Runner(scenario)
    policy = way.policy(scenario.horizon_s)
    guarding = Guarding([model], policy, scenario.name, laws=scenario.references)
    return Runner(scenario, guarding)


def _run(runner: Runner, seed: int) -> Run:
    acts = _Acts()
    episode = runner.run(seed, Keep(listeners=(acts,)))
    if episode.failed:
        raise ForewarnError(f"{runner.scenario.name}, seed {seed}: {episode.error}")
    used = episode.usage
    return Run(
        bool(episode.violations),
        episode.goal_s is not None,
        acts.executed == 0,
        _was_stopped(episode, acts),
        int(used.get("model_calls", acts.proposals)),
        acts.executed,
        acts.failed,
        acts.withheld,
        float(episode.machine.get("review_s", 0.0)),
        used["tokens_in"] + used["tokens_out"] if "tokens_in" in used else None,
    )


def _was_stopped(episode: Episode, acts: _Acts) -> bool:
    return acts.last == "stop" or any(
        each.kind in ("stop", "cut") for each in episode.interventions
    )


class _Acts:
    """Counts what is proposed and done in an episode; a `Listener`."""

    def began(self, source: Source) -> None:
        self.proposals = self.executed = self.failed = self.withheld = 0
        self.last = ""

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        self.failed += frame.values.get("last_action_succeeded") is False
        if proposal is None:
            return
        self.proposals += 1
        self.withheld += executed != proposal
        self.last = executed.name if executed is not None else ""
        self.executed += self.last not in ("", "finish", "stop", "cut")


# -- learning


def _unguarded(scenario: Scenario, seeds: Iterable[int]) -> Iterator[Trace]:
    """The runs that are learned from."""
    runner = Runner(scenario)
    for seed in seeds:
        kept = _Frames()
        episode = runner.run(seed, Keep(listeners=(kept,)))
        if episode.failed:
            raise ForewarnError(f"{scenario.name}, seed {seed}: {episode.error}")
        source = kept.source
        header = TraceHeader(
            source.vocabulary, source.provides, source.period_s, scenario.name, seed,
            source.name,
        )  # fmt: skip
        yield Trace(header, tuple(kept.frames))


class _Frames:
    """Keeps the frames of an episode; a `Listener`."""

    def began(self, source: Source) -> None:
        self.source = source
        self.frames: list[Frame] = []

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        self.frames.append(frame)


def as_the_paper(scenario: Scenario, traces: Sequence[Trace]) -> Model:
    """Over the atoms of law and goal, one added to the count of every pair of states.

    So it is in the paper and its code: alpha is 1, and every state that was seen may
    follow every other.
    """
    spoken = [law.formula for law in scenario.laws]
    goal = [] if scenario.goal is None else [scenario.goal]
    abstraction = law_abstraction([*spoken, *goal], scenario.abstraction.vocabulary)
    return _learned(scenario, abstraction, traces, Support("all"), Fraction(1))


def as_we_do(scenario: Scenario, traces: Sequence[Trace]) -> Model:
    """Over the scenario's own predicates, and nothing that was not seen."""
    abstraction = scenario.abstraction
    return _learned(scenario, abstraction, traces, Support("observed"), Fraction(0))


def _learned(
    scenario: Scenario,
    abstraction: Abstraction,
    traces: Sequence[Trace],
    support: Support,
    alpha: Fraction,
) -> Model:
    tally = Tally()
    for trace in traces:
        tally.add_codes(encode_trace(trace, abstraction), abstraction.state_name)
    return learn(
        tally,
        support,
        alpha,
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=PERIOD_S,
        laws=tuple(repr(law.formula) for law in scenario.laws),
    )
