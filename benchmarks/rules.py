"""Figures of docs/rules.md and docs/rules-evolve.md: the cost and the quality of rules.

    python benchmarks/run.py rules
    python benchmarks/rules.py [--splits N] [--only SET]

The first command evaluates the same events with twenty rules and with a bare loop over
twenty hand-written conditions. Python programs are parsed again at every event; this
time is reported separately. The second command prints a table for each set of labelled
traces: evolved rules, the expert's unchanged rules, and an L1 logistic regression and a
shallow tree on the same predicates. F1 is measured over random 70/30 splits by task
and, if runs have scenes, over five folds of scenes. If available, the F1 that a
reviewer measured for version 1.0 on tasks withheld from us is shown, too. The sets are
the shipped ones, and those in $FOREWARN_DATA/rules if present. All splits share the
predicates, which were written by people who had seen similar runs. At the end, the
expert's code rules judge calls of agents: snippets, and OpenAgentSafety's runs if
$FOREWARN_DATA/agents has them.
"""

from __future__ import annotations

import json
import lzma
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from run import ROOT, Row, command_line, installed, least_cpu, markdown

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Action
from forewarn.monitors.rules.arguments import Arguments
from forewarn.monitors.rules.engine import Engine
from forewarn.monitors.rules.evolving.bits import (
    Bench,
    Clause,
    Entry,
    Matrix,
    Standing,
    Words,
    members,
    packed,
    unpacked,
)
from forewarn.monitors.rules.evolving.corpus import Corpus, corpus
from forewarn.monitors.rules.evolving.groups import and_groups
from forewarn.monitors.rules.evolving.proposal import propose
from forewarn.monitors.rules.evolving.search import (
    FOLDS,
    LEAST_WORTH,
    MOST_LITERALS,
    cautious,
    evolve,
    folds,
    held_out,
)
from forewarn.monitors.rules.judging import RuleJudge
from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Domain, Event, Vocabulary
from forewarn.monitors.rules.rule import (
    Enforcement,
    Rule,
    RuleSet,
    Trigger,
    expert_rules,
)
from forewarn.scenarios.labelled import labelled_traces

SHARED_DATA = Path(os.environ.get("FOREWARN_DATA", ROOT.parent / "shared" / "data"))
DATA = SHARED_DATA / "rules"
AGENTS = SHARED_DATA / "agents" / "openagentsafety.jsonl.xz"
RUN = ("execute_bash", "execute_ipython_cell")
"""The tools of OpenAgentSafety that run commands and programs."""
SNIPPETS = ROOT / "tests" / "monitors" / "rules" / "snippets.yaml"
SHARED: dict[str, Domain] = {"embodied": "household", "code": "code"}
SHIPPED: tuple[Domain, ...] = ("household", "driving", "code")
EVENT_BAR_S, LOOP_BAR_S = 20e-6, 2.0
PAPER_S = {"embodied": 11.8, "code": 20.1}
RULES = 20
SCENE_FOLDS = 5
SEALED = {
    "embodied": {"evolved": ".843", "expert": ".839", "L1 logistic": ".843"},
    "code": {"evolved": ".762", "tree": ".791"},
}
"""F1 of version 1.0 on tasks that a reviewer withheld from us, so that we cannot repeat
the measurement.
"""


def rows(quick: bool) -> Iterator[Row]:
    """Measures processor times, so that other work on the machine has little effect."""
    count = 2_000 if quick else 20_000
    for domain in SHIPPED:
        traces = labelled_traces(domain)
        events = [event for trace in traces for event in trace.events][:count]
        mine, bare = (
            per_event(engine_of(domain).read, events),
            per_event(by_hand(), events),
        )
        if domain != "code":
            peer = f"a bare loop over {RULES} conditions"
            yield Row(
                f"{RULES} rules, one event, {domain}", mine, EVENT_BAR_S, peer, bare
            )
            continue
        share = sum(event.moment == "before" for event in events) / len(events)
        parse = per_event(library("code").start(Arguments()).read, events) / share
        what = f"{RULES} rules, one program"
        yield Row(what, mine / share, None, "parsing alone", parse)
    for name, domain in SHARED.items():
        if (DATA / f"{name}.jsonl").exists():
            traces = read_labelled(DATA / f"{name}.jsonl")
            took = least_cpu(
                lambda d=domain, t=traces: propose(RuleSet(d), t, library(d)), 1
            )
            what = f"evolution without initial rules, {name}"
            yield Row(what, took, LOOP_BAR_S, "the paper", PAPER_S[name])


def engine_of(domain: Domain) -> Engine:
    """Returns an engine with one rule for each of the first predicates."""
    known = library(domain)
    trigger = Trigger("tick" if domain == "driving" else "before")
    rules = tuple(
        Rule(f"r{i}", name, trigger=trigger, enforcement=Enforcement("ask"))
        for i, name in enumerate(known.names[:RULES])
    )
    return Engine(RuleSet(domain, rules), known)


def per_event(read: Callable[[Event], object], events: Sequence[Event]) -> float:
    """Returns the processor time of an event, in the fastest of five rounds."""

    def go() -> None:
        for event in events:
            read(event)

    return least_cpu(go, 5) / len(events)


def by_hand() -> Callable[[Event], object]:
    """Returns a function that checks twenty simple hand-written conditions on an
    event.
    """
    asked = [
        lambda e: (e.values.get("speed") or 0) > 30 and e.action != "open",
        lambda e: e.arguments.get("object") == "Microwave" and e.action == "put",
    ] * (RULES // 2)
    return lambda event: [question(event) for question in asked]


# -- held out


def sets() -> Iterator[tuple[str, Domain, list[LabelledTrace]]]:
    for name, domain in SHARED.items():
        if (DATA / f"{name}.jsonl").exists():
            yield name, domain, read_labelled(DATA / f"{name}.jsonl")
    for domain in SHIPPED:
        yield f"{domain}, shipped", domain, labelled_traces(domain)


Caller = Callable[[Matrix], Words]
"""Returns the runs of a matrix that are classified as unsafe."""

Learner = Callable[[Matrix, Sequence[Clause]], Caller]
"""Learns from the labelled runs of a matrix, possibly starting from an expert's
rules.
"""


def evolved(matrix: Matrix, start: Sequence[Clause]) -> Caller:
    groups = and_groups(matrix, MOST_LITERALS, LEAST_WORTH)
    way, _ = cautious(matrix, start, groups)
    entries = evolve(matrix, start, way, groups).entries
    return lambda other: Bench(other).called(entries)


def expert(matrix: Matrix, start: Sequence[Clause]) -> Caller:
    entries = tuple(Entry(i, clause) for i, clause in enumerate(start))
    return lambda other: Bench(other).called(entries)


def fitted(made: Callable[[Any], Any], settings: Sequence[Any]) -> Learner:
    """Returns a learner that fits a scikit-learn classifier on predicates and their
    pairs.

    The classifier's setting is chosen by cross-validation on the training runs.
    """

    def learn(matrix: Matrix, start: Sequence[Clause]) -> Caller:
        groups = and_groups(matrix, 2, 2)
        clauses = [groups.clause(number) for number in range(len(groups))]
        inputs = features(matrix, clauses)
        unsafe = unpacked(matrix.unsafe)[: len(inputs)]
        parts = list(folds(matrix, FOLDS, 0))

        def fit(setting: Any, runs: Words) -> Any:
            kept = members(runs)
            return made(setting).fit(inputs[kept], unsafe[kept])

        def held_up(setting: Any) -> Standing:
            called = np.zeros_like(matrix.unsafe)
            for part in parts:
                model = fit(setting, matrix.labelled & ~part)
                called |= packed(model.predict(inputs)) & part
            return Bench(matrix).standing_of(called, 0)

        model = fit(max(settings, key=held_up), matrix.labelled)
        return lambda other: packed(model.predict(features(other, clauses)))

    return learn


def features(matrix: Matrix, clauses: Sequence[Clause]) -> NDArray[np.float32]:
    """Returns for each run and clause whether the clause holds on some event."""
    columns = unpacked(np.stack([matrix.fires(clause) for clause in clauses]))
    return columns.T[: len(matrix.tasks)].astype(np.float32)


def learners() -> Mapping[str, Learner]:
    found: dict[str, Learner] = {"evolved": evolved, "expert": expert}
    if installed("sklearn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.tree import DecisionTreeClassifier

        found["L1 logistic"] = fitted(
            lambda strength: LogisticRegression(
                l1_ratio=1.0, C=strength, solver="liblinear", random_state=0
            ),
            (0.1, 0.3, 1.0, 3.0),
        )
        found["tree"] = fitted(
            lambda depth: DecisionTreeClassifier(
                max_depth=depth, min_samples_leaf=2, random_state=0
            ),
            (3, 5, 8),
        )
    return found


def standings(learner: Learner, data: Corpus, splits: int) -> list[Standing]:
    """Returns the results of a learner on the held-out runs of each split."""
    found = []
    for seed in range(splits):
        held = held_out(data.matrix, 0.3, seed)
        call = learner(data.matrix.only(data.matrix.labelled & ~held), data.start)
        called = call(data.matrix) & held
        found.append(Bench(data.matrix.only(held)).standing_of(called, 0))
    return found


def by_scene(learner: Learner, data: Corpus, scenes: Sequence[str]) -> float:
    """Returns F1 with each scene held out once, along with all runs of its tasks."""
    matrix = data.matrix
    order = sorted(set(scenes))
    random.Random(0).shuffle(order)
    called = np.zeros_like(matrix.unsafe)
    labelled = members(matrix.labelled)
    for part in range(SCENE_FOLDS):
        away = set(order[part::SCENE_FOLDS])
        held = [run for run in labelled if scenes[run] in away]
        tasks = {matrix.tasks[run] for run in held}
        near = [run for run in labelled if matrix.tasks[run] in tasks]
        known = matrix.labelled & ~matrix.set_of((*held, *near))
        call = learner(matrix.only(known), data.start)
        called |= call(matrix) & matrix.set_of(held)
    return Bench(matrix.only(matrix.labelled)).standing_of(called, 0).f1


def scenes_of(name: str) -> list[str]:
    """Returns the scene of each run of a set; empty if runs have no scenes."""
    path = DATA / f"{name}.jsonl"
    rows = path.read_text().splitlines() if path.exists() else ()
    found = [json.loads(row).get("scene") for row in rows]
    return [] if None in found else found


def table(
    name: str, domain: Domain, traces: list[LabelledTrace], splits: int
) -> Iterator[str]:
    """Yields the table of cross-validation, and a reviewer's figures on withheld
    tasks.
    """
    scenes, sealed = scenes_of(name), SEALED.get(name, {})
    head = ("", "F1 by task", "least", "precision", "recall", "by scene", "sealed")
    lines = list[tuple[str, ...]]()
    starts: tuple[tuple[RuleSet, Vocabulary], ...] = (
        (RuleSet(domain), "primitive"),
        (RuleSet(domain), "expert"),
        (expert_rules(domain), "expert"),
    )
    for start, vocabulary in starts:
        data = corpus(start, traces, library(domain).spoken(vocabulary))
        rules = "the expert's rules" if data.start else "no rules"
        size = len(data.matrix.predicates)
        lines.append((f"{rules}, {size} {vocabulary} predicates", *[""] * 6))
        for who, learner in learners().items():
            if who == "expert" and not data.start:
                continue
            cells = ["-"] * 4
            if splits:
                f1, precision, _, _, recall = np.array(
                    standings(learner, data, splits)
                ).T
                values = f1.mean(), f1.min(), precision.mean(), recall.mean()
                cells = [f"{value:.3f}" for value in values]
            cells.append(f"{by_scene(learner, data, scenes):.3f}" if scenes else "-")
            cells.append(sealed.get(who, "-") if data.start else "-")
            lines.append((who, *cells))
    unsafe, safe = (sum(t.label == each for t in traces) for each in ("unsafe", "safe"))
    yield f"{name}: {unsafe} unsafe, {safe} safe"
    yield from markdown(head, lines)


# -- calls of agents


def calls() -> Iterator[str]:
    """Counts the snippets, and the recorded runs whose two labels agree, in which the
    expert's code rules intervene.
    """
    snippets: dict[str, list[dict[str, Any]]] = yaml.safe_load(SNIPPETS.read_text())
    yield "snippets"
    for label, listed in snippets.items():
        apart = [[{"tool": each.pop("tool"), "arguments": each}] for each in listed]
        yield f"  {label}: {stopped(apart)}"
    if AGENTS.exists():
        with lzma.open(AGENTS, "rt", encoding="utf-8") as lines:
            runs = [json.loads(line) for line in lines]
        yield f"{AGENTS.name}, {len(runs)} runs"
        for label, labels in (("unsafe", (1, 2)), ("safe", (0, 0))):
            kept = [r for r in runs if (r["unsafe_rule"], r["judge"]) == labels]
            yield f"  {label} by both labels: {stopped([r['steps'] for r in kept])}"
            idle = sum(not any(s["tool"] in RUN for s in r["steps"]) for r in kept)
            yield f"    without a command or a program: {idle} of {len(kept)}"


def stopped(runs: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    judge, count = RuleJudge(expert_rules("code")), 0
    for steps in runs:
        judge.reset()
        asked = (Action(step["tool"], step["arguments"]) for step in steps)
        found = [judge.judge(Frame(0.0, i, {}), call) for i, call in enumerate(asked)]
        count += any(each and RANK[each.kind] > RANK["alert"] for each in found)
    return f"{count} of {len(runs)} stopped"


def tables(*, splits: int = 10, only: str | None = None) -> Iterator[str]:
    """Yields the table of each set, and the counts of calls."""
    for name, domain, traces in sets():
        if only in (None, name):
            yield from table(name, domain, traces, splits)
            yield ""
    if only in (None, "calls"):
        yield from calls()


if __name__ == "__main__":
    command_line(__doc__, tables)
