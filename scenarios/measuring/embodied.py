"""Runs all tasks of a family with every guard, for the embodied table.

For each task, two chains are learned from thirty unguarded runs: one with ProbGuard's
recipe and one with ours. The same held-out seeds are then run with every guard. The
results depend on the agent: an embedded planner and a language model give different
figures.
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
from forewarn.abstractions.trace import Trace
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding import listening
from forewarn.monitors.guarding.decision import Action, Kind
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import ANY_LAW, Policy, Step
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.training import law_abstraction
from forewarn.plugins.household import NEXT
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.pools import Lost, Pool
from forewarn.scenarios.running.runner import Keep, Runner
from forewarn.scenarios.running.tracker import Recorder
from forewarn.scenarios.schema import NamedPlugin, Scenario, load_family
from forewarn.thor_bridge.steps import VERBS

TRAINING_RUNS = 30
"""The number of training runs per task, as in the paper."""

UNBOUNDED_S = 1000.0
"""A horizon in seconds that is longer than any episode, in place of the paper's
unbounded horizon.
"""

PERIOD_S = 1.0

EMBEDDED = ("household-planner", "household-ruled")
"""The names of our embedded robots, whose compliance can be set."""

Recipe = Literal["none", "paper", "ours", "after", "rules"]


@dataclass(frozen=True, slots=True)
class Method:
    """One guarding method: a row of the table.

    Args:
        recipe: `none`: no guard. `paper`: the point risk of the observed state over an
            unbounded horizon, from counts smoothed over all states; warnings are only
            advice. `ours`: the risk within the horizon of the state that the action
            would lead to. `after`: the risk within the horizon of the observed state,
            which includes the next verb that the robot announces; an action that is
            repeated after a warning is skipped. `rules`: hand-written rules in the
            robot's own loop.
        kind: The intervention.
        threshold: The risk threshold.
        compliance: The robot's probability of heeding a warning; None for the value in
            its habits.
    """

    recipe: Recipe
    kind: Kind = "proceed"
    threshold: float = 1.0
    compliance: float | None = None

    @property
    def title(self) -> str:
        """The name of the method in the table."""
        if self.recipe == "none":
            return "none"
        if self.recipe == "rules":
            return "rule guard, stop"
        after = "ours after the act" if self.recipe == "after" else self.recipe
        return f"{after}, {self.kind} at {self.threshold:g}"

    def policy(self, horizon_s: float) -> Policy:
        """Returns the guard's policy for this method."""
        if self.recipe == "paper":
            # The paper's guard stops at or above the threshold, but warns only above
            # it.
            step = Step(self.kind, self.threshold, inclusive=self.kind == "stop")
            return Policy(
                name=self.title, rules={ANY_LAW: (step,)}, horizon_s=UNBOUNDED_S,
                hysteresis=0.0, hold_s=0.0, max_reflections=100,
            )  # fmt: skip
        return Policy(
            name=self.title, rules={ANY_LAW: (Step(self.kind, self.threshold),)},
            horizon_s=horizon_s, when="before" if self.recipe == "ours" else "after",
            hysteresis=0.0, hold_s=0.0,
            max_reflections=1 if self.recipe == "after" else 3,
            escalation=("skip", "stop", "cut"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskJob:
    """All runs of one task.

    Args:
        family: The family's name or file.
        task: The task.
        ways: The methods to run.
        seeds: The held-out seeds that are run with every method.
        training: The seeds of the training runs.
        settings: Settings for the pilot, which override those of the family.
    """

    family: str
    task: str
    ways: tuple[Method, ...]
    seeds: tuple[int, ...]
    training: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The outcome of one run.

    Args:
        unsafe: Whether the law was broken.
        complete: Whether the goal was reached at any time.
        rejected: Whether the robot gave up before its first action.
        stopped: Whether the guard ended the run.
        proposals: The number of actions that the robot proposed; for a robot with a
            language model, the number of model calls.
        done: The number of actions that were carried out.
        failed: The number of actions that failed.
        warnings: The number of proposed actions that were not carried out.
        review_s: The total time of the guard's reviews, in seconds.
        tokens: The number of tokens that the robot's language model used; None without
            such a model.
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


TaskRuns = Mapping[Method, tuple[TaskRun, ...]]


def study(jobs: Sequence[TaskJob], on: Pool) -> Iterator[tuple[TaskJob, TaskRuns]]:
    """Yields the runs of each task as soon as they are done."""
    with closing(on.map(play_task, jobs)) as done:  # type: ignore[type-var]
        for job, runs in done:
            if isinstance(runs, Lost):
                raise ForewarnError(f"{job.task}: {runs.error}")
            yield job, runs


def play_task(job: TaskJob) -> TaskRuns:
    """Learns the chains of one task, and runs the task with every method."""
    scenario = _scenario(job)
    recipes = {way.recipe for way in job.ways}
    models: dict[str, Model] = {}
    if recipes - {"none", "rules"}:
        traces = list(_unguarded(scenario, job.training))
        models["paper"] = as_the_paper(scenario, traces)
        models["ours"] = as_we_do(scenario, traces)
    saying = saying_next(scenario)
    if "after" in recipes:
        models["after"] = as_we_do(saying, list(_unguarded(saying, job.training)))
    found: dict[Method, tuple[TaskRun, ...]] = {}
    for way in job.ways:
        own = saying if way.recipe == "after" else scenario
        runner = _runner(own, way, models.get(way.recipe))
        found[way] = tuple(_run(runner, seed) for seed in job.seeds)
    return found


@cache
def _family(name: str) -> Any:
    return load_family(name)


def _scenario(job: TaskJob) -> Scenario:
    scenario: Scenario = _family(job.family).scenario(job.task)
    settings = {**scenario.pilot.settings, **dict(job.settings)}
    return replace(
        scenario, pilot=NamedPlugin(name=scenario.pilot.name, settings=settings)
    )


def saying_next(scenario: Scenario) -> Scenario:
    """Returns the scenario with our embedded robot announcing its next verb; other
    agents remain unchanged.
    """
    world, pilot = scenario.world, scenario.pilot
    if pilot.name not in EMBEDDED or world.name != "household":
        return scenario
    content = scenario.abstraction.as_dict()
    verbs = [f"{NEXT} == {verb}" for verb in VERBS if verb != "find"]
    content["predicates"] = [*content["predicates"], *verbs]
    return replace(
        scenario,
        world=NamedPlugin(name=world.name, settings={**world.settings, "plan": True}),
        pilot=NamedPlugin(
            name=pilot.name, settings={**pilot.settings, "says_next": True}
        ),
        abstraction=Abstraction.from_dict(content, scenario.name),
    )


def _runner(scenario: Scenario, way: Method, model: Model | None) -> Runner:
    pilot = scenario.pilot
    settings = dict(pilot.settings)
    if way.compliance is not None:
        settings["compliance"] = way.compliance
    name = "household-ruled" if way.recipe == "rules" else pilot.name
    withhold = "once" if way.recipe == "paper" else "always"
    scenario = replace(
        scenario,
        pilot=NamedPlugin(name=name, settings=settings),
        actuator=NamedPlugin(name="household-agent", settings={"withhold": withhold}),
    )
    if model is None:
        return Runner(scenario)
    policy = way.policy(scenario.horizon_s)
    guarding = Guarding([model], policy, scenario.name, laws=scenario.references)
    return Runner(scenario, guarding)


def _run(runner: Runner, seed: int) -> TaskRun:
    acts = _Acts()
    episode = runner.run(seed, Keep(listeners=(acts,)))
    if episode.failed:
        raise ForewarnError(f"{runner.scenario.name}, seed {seed}: {episode.error}")
    used = episode.usage
    return TaskRun(
        bool(episode.violations),
        episode.goal_s is not None,
        acts.executed == 0,
        _was_stopped(episode, acts),
        int(used.get("model_calls", acts.proposals)),
        acts.executed,
        acts.refused,
        acts.withheld,
        float(episode.machine.get("review_s", 0.0)),
        used["tokens_in"] + used["tokens_out"] if "tokens_in" in used else None,
    )


def _was_stopped(episode: Episode, acts: _Acts) -> bool:
    return acts.last == "stop" or any(
        each.kind in ("stop", "cut") for each in episode.interventions
    )


class _Acts(Listener):
    """Counts the actions that are proposed, withheld, carried out and failed."""

    def began(self, run: listening.Run) -> None:
        self.proposals = self.executed = self.refused = self.withheld = 0
        self.last = ""

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        self.refused += frame.values.get("last_action_succeeded") is False
        if proposal is None:
            return
        self.proposals += 1
        self.withheld += executed != proposal
        self.last = executed.name if executed is not None else ""
        self.executed += self.last not in ("", "finish", "stop", "cut")


# -- learning


def _unguarded(scenario: Scenario, seeds: Iterable[int]) -> Iterator[Trace]:
    """Yields the traces of unguarded runs."""
    runner = Runner(scenario)
    for seed in seeds:
        kept = Recorder()
        episode = runner.run(seed, Keep(listeners=(kept,)))
        if episode.failed:
            raise ForewarnError(f"{scenario.name}, seed {seed}: {episode.error}")
        yield kept.trace(scenario.name, episode)


def as_the_paper(scenario: Scenario, traces: Sequence[Trace]) -> Model:
    """Learns a model as in the paper.

    Its predicates are the atoms of the law and the goal. As in both the paper and its
    code, one is added to the count of every pair of observed states (alpha is 1).
    """
    spoken = [law.formula for law in scenario.laws]
    goal = [] if scenario.goal is None else [scenario.goal]
    abstraction = law_abstraction([*spoken, *goal], scenario.abstraction.vocabulary)
    return _learned(scenario, abstraction, traces, Support("all"), Fraction(1))


def as_we_do(scenario: Scenario, traces: Sequence[Trace]) -> Model:
    """Learns a model over the scenario's own predicates, with observed transitions
    only.
    """
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
