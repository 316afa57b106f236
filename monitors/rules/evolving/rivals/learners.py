"""Others that learn from the same bits: what evolved rules are measured against."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import MissingDependency
from forewarn.monitors.rules.evolving.bits.bench import Bench, Entries, Entry, Standing
from forewarn.monitors.rules.evolving.bits.groups import and_groups, vector
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Matrix, members
from forewarn.monitors.rules.evolving.search.caution import (
    FOLDS,
    LEAST_WORTH,
    MOST_LITERALS,
    cautious,
    folds,
)
from forewarn.monitors.rules.evolving.search.edits import narrowings
from forewarn.monitors.rules.evolving.search.evolution import evolve
from forewarn.monitors.rules.evolving.search.step import Way

Caller = Callable[[Matrix], int]
"""Says which runs of a matrix it calls unsafe."""

Learner = Callable[[Matrix, Sequence[Clause]], Caller]
"""Learns from the labelled runs of a matrix; it may begin with an expert's rules."""


def _rules(entries: Entries) -> Caller:
    return lambda matrix: Bench(matrix).called(entries)


def expert(matrix: Matrix, start: Sequence[Clause]) -> Caller:
    """The expert's rules as they are."""
    return _rules(tuple(Entry(i, clause) for i, clause in enumerate(start)))


def evolved(way: Way | None = None) -> Learner:
    """Evolved rules, with the caution that held up in training."""

    def learn(matrix: Matrix, start: Sequence[Clause]) -> Caller:
        groups = and_groups(matrix, MOST_LITERALS, LEAST_WORTH)
        chosen, _ = cautious(matrix, start, way or Way(prove=False), groups)
        return _rules(evolve(matrix, start, chosen, groups).entries)

    return learn


WITHOUT_ILP = Way(ilp=False, polish=False, branches=False, prove=False)
"""The paper's baseline: predicates are nominated by how often they hold."""


def random_search(matrix: Matrix, start: Sequence[Clause]) -> Caller:
    """Random edits, kept where they help: as many tries as evolution has."""
    luck = random.Random(0)  # noqa: S311
    bench = Bench(matrix)
    groups = and_groups(matrix, 2, 2)
    entries: Entries = tuple(Entry(i, clause) for i, clause in enumerate(start))
    now = bench.standing(entries)
    for _ in range(600):
        number = luck.randrange(len(groups) + 1) if len(groups) else 0
        if number < len(groups) and luck.random() < 0.5:
            tried: Entries = (*entries, Entry(-1, groups.clause(number)))
        elif entries:
            rule = luck.randrange(len(entries))
            edits = list(narrowings(bench, entries, [rule]))
            tried = luck.choice(edits).of(entries)
        else:
            continue
        standing = bench.standing(tried)
        if standing > now:
            entries, now = tried, standing
    return _rules(entries)


# -- learners of others


def _features(matrix: Matrix, clauses: Sequence[Clause]) -> NDArray[np.float32]:
    columns = [vector(matrix.fires(clause), matrix.runs) for clause in clauses]
    return np.stack(columns, axis=1).astype(np.float32)


def _short(matrix: Matrix, most: int) -> list[Clause]:
    """Predicates and pairs of them, as inputs for those that weigh."""
    groups = and_groups(matrix, most, 2)
    return [groups.clause(number) for number in range(len(groups))]


def _set(calls: NDArray[Any], runs: int) -> int:
    return sum(1 << run for run in range(runs) if calls[run])


def _fitted(made: Callable[[Any], Any], settings: Sequence[Any]) -> Learner:
    """A classifier of scikit-learn, with the setting that holds up in training."""

    def learn(matrix: Matrix, start: Sequence[Clause]) -> Caller:
        clauses = _short(matrix, 2)
        inputs = _features(matrix, clauses)
        unsafe = vector(matrix.unsafe, matrix.runs)
        parts = list(folds(matrix, FOLDS, 0))
        kept = list(members(matrix.labelled))

        def held_up(setting: Any) -> Standing:
            called = 0
            for part in parts:
                train = list(members(matrix.labelled & ~part))
                model = made(setting).fit(inputs[train], unsafe[train])
                called |= _set(model.predict(inputs), matrix.runs) & part
            return Bench(matrix).standing_of(called, 0)

        best = max(settings, key=held_up)
        model = made(best).fit(inputs[kept], unsafe[kept])

        def call(other: Matrix) -> int:
            return _set(model.predict(_features(other, clauses)), other.runs)

        return call

    return learn


def logistic() -> Learner:
    """L1 logistic regression on predicates and their pairs."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingDependency("the competitor L1 logistic", "learn") from error

    def made(strength: float) -> Any:
        return LogisticRegression(
            l1_ratio=1.0, C=strength, solver="liblinear", random_state=0
        )

    return _fitted(made, (0.1, 0.3, 1.0, 3.0))


def tree() -> Learner:
    """A shallow decision tree on the same."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise MissingDependency("the competitor tree", "learn") from error

    def made(depth: int) -> Any:
        return DecisionTreeClassifier(
            max_depth=depth, min_samples_leaf=2, random_state=0
        )

    return _fitted(made, (3, 5, 8))


def ripper(matrix: Matrix, start: Sequence[Clause]) -> Caller:
    """Rules grown by information gained and pruned on a third, as RIPPER does."""
    entries: list[Entry] = []
    left = matrix.labelled
    bench = Bench(matrix)
    for turn in range(32):
        prune = next(iter(folds(matrix.only(left), 3, turn)), 0) & left
        clause = _grown(bench, left & ~prune)
        if clause is None:
            break
        clause = _pruned(bench, clause, prune)
        runs = bench.runs(clause) & left
        hits = (runs & matrix.unsafe).bit_count()
        if 2 * hits <= runs.bit_count():
            break
        entries.append(Entry(-1, clause))
        left &= ~runs
    return _rules(tuple(entries))


def _grown(bench: Bench, among: int) -> Clause | None:
    """Literals added while they gain information, on the runs to grow on."""
    matrix = bench.matrix
    unsafe, safe = matrix.unsafe & among, matrix.safe & among
    if not unsafe:
        return None
    best = max(
        (Clause(kind) for kind in range(matrix.open_kinds)),
        key=lambda clause: (bench.runs(clause) & unsafe).bit_count(),
    )
    while bench.runs(best) & safe and len(best.literals) < 6:
        entries = (Entry(-1, best),)
        tried = [edit.clause for edit in narrowings(bench, entries, [0])]
        following = max(tried, key=lambda each: _gain(bench, best, each, unsafe, safe))
        if _gain(bench, best, following, unsafe, safe) <= 0:
            break
        best = following
    return best if best.literals else None


def _gain(bench: Bench, before: Clause, after: Clause, unsafe: int, safe: int) -> float:
    """FOIL's gain."""
    hits, more = ((bench.runs(each) & unsafe).bit_count() for each in (after, before))
    if not hits:
        return 0.0
    false, falser = ((bench.runs(each) & safe).bit_count() for each in (after, before))
    gained = np.log2(hits / (hits + false)) - np.log2(more / (more + falser))
    return float(hits * gained)


def _pruned(bench: Bench, clause: Clause, among: int) -> Clause:
    """The literals at whose end the rule is worth most on the runs to prune on."""

    def worth(short: Clause) -> float:
        hits = (bench.runs(short) & bench.matrix.unsafe & among).bit_count()
        false = (bench.runs(short) & bench.matrix.safe & among).bit_count()
        return (hits - false) / (hits + false) if hits + false else -1.0

    shorter = [
        Clause(clause.kind, clause.literals[:count])
        for count in range(len(clause.literals), 0, -1)
    ]
    return max(shorter, key=worth)


def learners() -> Iterator[tuple[str, Callable[[], Learner]]]:
    """Everybody that can be asked, by name; asking may need a package."""
    yield "evolved", evolved
    yield "expert", lambda: expert
    yield "no ILP", lambda: evolved(WITHOUT_ILP)
    yield "random search", lambda: random_search
    yield "L1 logistic", logistic
    yield "tree", tree
    yield "RIPPER-like", lambda: ripper


ABLATIONS: Mapping[str, Way] = {
    "without ILP": Way(ilp=False, prove=False),
    "without branches": Way(branches=False, prove=False),
    "without chains": Way(chains=False, prove=False),
    "without novelty": Way(novelty=0.0, prove=False),
    "alarms as the only negatives": Way(quiet=False, prove=False),
    "without a last look at every edit": Way(polish=False, prove=False),
}
