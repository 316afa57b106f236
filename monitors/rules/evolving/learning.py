"""From rules and labelled traces to a proposal, with what it is worth on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.monitors.rules.evolving.bits.bench import Bench, Entry
from forewarn.monitors.rules.evolving.bits.groups import and_groups
from forewarn.monitors.rules.evolving.corpus import Corpus, corpus
from forewarn.monitors.rules.evolving.proposal import Holdout, Proposal
from forewarn.monitors.rules.evolving.rivals.heldout import Fared, fared, held_out
from forewarn.monitors.rules.evolving.rivals.learners import Learner, learners
from forewarn.monitors.rules.evolving.search.caution import (
    LEAST_WORTH,
    MOST_LITERALS,
    cautious,
)
from forewarn.monitors.rules.evolving.search.evolution import Step, evolve
from forewarn.monitors.rules.evolving.search.step import Way
from forewarn.monitors.rules.labelled import LabelledTrace
from forewarn.monitors.rules.predicates import Library
from forewarn.monitors.rules.rule import RuleSet


def propose(
    rules: RuleSet,
    traces: Iterable[LabelledTrace],
    library: Library,
    seed: int = 0,
    holdout: float | None = None,
    way: Way | None = None,
    tick: Callable[[Step], None] = lambda step: None,
) -> Proposal:
    """Evolves rules on labelled traces.

    Args:
        rules: The rules at first.
        traces: The traces; those without a label are not learned from.
        library: The predicates of their domain.
        seed: Deals the tasks: into what is held out, and into folds.
        holdout: The share of the tasks to hold out; None for none.
        way: How; its caution is what holds up on folds of the training traces.
        tick: Hears of each step.
    """
    data = corpus(rules, traces, library)
    matrix = data.matrix
    if not matrix.unsafe or not matrix.safe:
        raise InvalidInput(
            "no rule can be learned unless some traces are unsafe and some safe",
            mend="label more of them",
        )
    held = held_out(matrix, holdout, seed) if holdout else 0
    training = matrix.only(matrix.labelled & ~held)
    if not training.unsafe or not training.safe:
        raise InvalidInput("what is not held out is all safe, or all unsafe")
    groups = and_groups(training, MOST_LITERALS, LEAST_WORTH)
    chosen, trials = cautious(training, data.start, way or Way(), groups, seed)
    found = evolve(training, data.start, chosen, groups, tick)
    judged = None
    if held:
        bench = Bench(matrix.only(held))
        before = tuple(Entry(i, clause) for i, clause in enumerate(data.start))
        judged = Holdout(
            held,
            bench.standing_of(Bench(matrix).called(before) & held, 0),
            bench.standing_of(Bench(matrix).called(found.entries) & held, 0),
        )
    return Proposal(data, found, data.written(found.entries), chosen, trials, judged)


def compared(
    data: Corpus,
    seeds: Iterable[int],
    share: float,
    names: Iterable[str] = (),
    extra: Iterable[tuple[str, Callable[[], Learner]]] = (),
) -> tuple[list[Fared], dict[str, str]]:
    """How evolved rules and their rivals fare on the same held-out traces.

    Args:
        data: Rules and traces.
        seeds: One split each.
        share: Of the tasks, held out.
        names: Who; by default all.
        extra: Others, by name.

    Returns:
        Those that could be asked, and for the others why not.
    """
    found: list[Fared] = []
    missing: dict[str, str] = {}
    wanted = set(names)
    for name, made in (*learners(), *extra):
        if wanted and name not in wanted:
            continue
        try:
            learner = made()
        except MissingDependency as error:
            missing[name] = str(error)
            continue
        found.append(fared(name, learner, data.matrix, data.start, seeds, share))
    return found, missing
