"""Rules that evolve: how long it takes, and how they fare on tasks held out.

    python benchmarks/evolving.py [--splits N] [--ablations]
        [--llm PROVIDER:MODEL [--base-url URL]] [--replies FOLDER]

prints, for each set of labelled traces, F1 over random 70/30 splits by task, of evolved
rules and of all who learn from the same bits. The sets are those that ship, and those
in $FOREWARN_DATA/rules where they are. What splits share is the predicates, which were
written by people who had seen runs of the same kinds.

The LLM classifier of the paper takes part where a model is named; what it replies is
kept in the folder of replies, and stands in for it where only the folder is given.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from measuring import Row, installed

from forewarn.monitors.rules.evolving.bits.groups import and_groups
from forewarn.monitors.rules.evolving.bits.hypothesis import Hypothesis, explain
from forewarn.monitors.rules.evolving.bits.matrix import Matrix, Occasion, matrix
from forewarn.monitors.rules.evolving.corpus import Corpus, corpus
from forewarn.monitors.rules.evolving.learning import compared, propose
from forewarn.monitors.rules.evolving.rivals.asked import Ask, classifier
from forewarn.monitors.rules.evolving.rivals.learners import (
    ABLATIONS,
    Learner,
    evolved,
)
from forewarn.monitors.rules.evolving.search.evolution import evolve
from forewarn.monitors.rules.evolving.search.step import Way
from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Domain
from forewarn.monitors.rules.rule import RuleSet, expert_rules
from forewarn.plugins.chat.asking import How, Message, Partner
from forewarn.scenarios.labelled import labelled_traces

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FOREWARN_DATA", ROOT.parent / "shared" / "data")) / "rules"
SHARED: dict[str, Domain] = {"embodied": "household", "code": "code"}
SHIPPED: tuple[Domain, ...] = ("household", "driving", "code")

ILP_BAR_S = 0.5
LOOP_BAR_S = 2.0
PAPER_S = {"embodied": 11.8, "code": 20.1}
RUNS = 10


def rows(quick: bool) -> Iterator[Row]:
    """Processor times: other work on the machine does not count."""
    proof = "clingo proves it" if installed("clingo") else "clingo: not installed"
    times, proven = zip(*(ilp_step(seed) for seed in range(RUNS)), strict=True)
    said = f"{proof}: {sum(each.proven for each in proven)} of {RUNS}"
    yield Row("ILP step, 24 x 200 x 5, the slowest", max(times), ILP_BAR_S, said)
    for name, domain in SHARED.items():
        path = DATA / f"{name}.jsonl"
        if not path.exists():
            continue
        traces = read_labelled(path)
        data = corpus(RuleSet(domain), traces, library(domain))
        loop = best(lambda data=data: evolve(data.matrix), 1 if quick else 3)
        yield Row(
            f"evolution from nothing, {name}, the loop", loop, LOOP_BAR_S,
            "the paper", PAPER_S[name],
        )  # fmt: skip

        def whole(domain: Domain = domain, traces: object = traces) -> object:
            return propose(RuleSet(domain), traces, library(domain))  # type: ignore[arg-type]

        said = f"the same, reading and caution too, {name}"
        yield Row(said, best(whole, 1), LOOP_BAR_S, "the paper", PAPER_S[name])


def best(run: Callable[[], object], goes: int) -> float:
    found = []
    for _ in range(goes):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


def ilp_step(seed: int) -> tuple[float, Hypothesis]:
    """The least hypothesis of runs that are unsafe by three hidden and-groups."""
    data = hidden(seed, predicates=24, runs=200, events=5)
    began = time.process_time()
    found = explain(and_groups(data), data.unsafe, data.safe)
    return time.process_time() - began, found


def hidden(seed: int, predicates: int, runs: int, events: int) -> Matrix:
    luck = random.Random(seed)
    truth = []
    for _ in range(3):
        some = luck.sample(range(predicates), luck.choice((2, 3)))
        truth.append([(p, i == 0 or luck.random() < 0.7) for i, p in enumerate(some)])
    made = [
        [
            Occasion(1, sum((luck.random() < 0.3) << i for i in range(predicates)))
            for _ in range(events)
        ]
        for _ in range(runs)
    ]
    unsafe = [
        any(
            all(bool(row >> p & 1) == wanted for p, wanted in group)
            for group in truth
            for _, row, _ in run
        )
        for run in made
    ]
    return matrix([f"p{i}" for i in range(predicates)], ["before"], made, unsafe)


# -- held out


def sets() -> Iterator[tuple[str, Domain, list[LabelledTrace]]]:
    for name, domain in SHARED.items():
        if (DATA / f"{name}.jsonl").exists():
            yield name, domain, read_labelled(DATA / f"{name}.jsonl")
    for domain in SHIPPED:
        yield f"{domain}, shipped", domain, labelled_traces(domain)


def table(
    name: str, data: Corpus, splits: int, ablations: bool, model: Learner | None = None
) -> Iterator[str]:
    extra: list[tuple[str, Callable[[], Learner]]] = []
    if ablations:
        extra += [(what, partial(evolved, way)) for what, way in ABLATIONS.items()]
    if model is not None:
        extra.append(("LLM classifier", lambda: model))
    found, missing = compared(data, range(splits), 0.3, extra=extra)
    start = "the expert's rules" if data.start else "nothing"
    labels = data.matrix.unsafe.bit_count(), data.matrix.safe.bit_count()
    yield f"{name}: {labels[0]} unsafe, {labels[1]} safe; evolved from {start}"
    yield f"  {'':36} mean   min  precision recall"
    best = max(each.mean for each in found)
    for each in found:
        row = each.as_dict()
        first = " <- first" if each.mean == best else ""
        yield (
            f"  {each.name:36} {each.mean:.3f} {each.least:.3f}"
            f"     {row['precision']:.3f}  {row['recall']:.3f}{first}"
        )
    yield from (f"  {who}: {why}" for who, why in missing.items())


def convergence(data: Corpus) -> Iterator[str]:
    steps = evolve(data.matrix, data.start, Way(branches=False, prove=False)).steps
    curve = " ".join(f"{step.standing.f1:.3f}" for step in steps)
    tried = sum(step.candidates for step in steps)
    yield f"  on all traces, an edit a step: {curve} ({tried} candidates)"


def asked(options: argparse.Namespace, name: str) -> Ask | None:
    """The model that options name, or its recorded replies; None for neither."""
    if not options.llm and options.replies is None:
        return None
    folder = None if options.replies is None else options.replies / name
    how: How = "live" if folder is None else "record" if options.llm else "replay"
    chat = Partner(
        options.llm,
        base_url=options.base_url,
        temperature=0.0,
        timeout_s=120.0,
        replies=folder,
        how=how,
    ).chat(0)
    return lambda told, shown: (
        chat.reply([Message("system", told), Message("user", shown)]).text
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--llm", default="", metavar="PROVIDER:MODEL")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--replies", type=Path)
    options = parser.parse_args()
    for name, domain, traces in sets():
        ask = asked(options, name)
        model = None if ask is None else classifier(traces, ask)
        for start in (RuleSet(domain), expert_rules(domain)):
            data = corpus(start, traces, library(domain))
            for line in table(name, data, options.splits, options.ablations, model):
                print(line, flush=True)
            for line in convergence(data):
                print(line)
            print(flush=True)
    if ask is None:
        print("The LLM classifier of the paper is left out: name a model with --llm.")


if __name__ == "__main__":
    main()
