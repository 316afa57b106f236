"""Learns a model from traces, or updates an existing model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from forewarn.abstractions.abstraction import (
    Abstraction,
    load_abstraction,
)
from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.abstractions.files import read_json
from forewarn.abstractions.readers.stored import Stored, batches, stored_runs
from forewarn.abstractions.trace import Kept
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.chains.formats.rows import (
    rational,
)
from forewarn.monitors.chains.learning import Support
from forewarn.monitors.chains.learning import learn as learn_rows
from forewarn.monitors.chains.model import Model
from forewarn.monitors.finding.choice import (
    Choice,
    Chosen,
    choose_by_law,
)
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.laws.automaton import (
    Automaton,
)
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.evidence import (
    compile_for,
    refuse_undecided,
    told_apart,
)
from forewarn.monitors.trust.encoding import Counted, count
from forewarn.monitors.trust.fairness import (
    FairnessReport,
    assess_training,
)
from forewarn.monitors.trust.hindsight import Found
from forewarn.monitors.trust.training import (
    Training,
    holds_traces,
    law_abstraction,
)
from forewarn.scenarios.measuring.seeds import with_recordings
from forewarn.scenarios.running.pools import (
    Pool,
    in_turn,
    shared,
)
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.training.train import Shown
from forewarn.scenarios.training.wish import Wish

HORIZON_S = 3.0
GroupOf = Callable[[str, int], str]
"""A function that returns the group of a run, given the run's name and number."""

SHOWN = 4
"""The maximum number of predicates in the description of a state."""


MOST_JUDGED = 1_000_000
"""The approximate maximum number of frames that the fairness check uses."""


@dataclass(frozen=True, slots=True)
class _Share:
    """A batch of runs to count in another process, with the abstraction."""

    runs: Sequence[Stored]
    abstraction: dict[str, Any]
    vocabulary: Vocabulary | None
    period_s: float | None


def _count_share(share: _Share) -> list[Counted]:
    """Counts the transitions in a batch of runs."""

    known = share.vocabulary
    by = Abstraction.from_dict(share.abstraction, "--abstraction", known)
    used = known or by.vocabulary
    read = batches(share.runs, dict.fromkeys(by.signals), used, share.period_s)
    return [count(batch, by) for batch in read]


class Learner:
    """Learns a model with the given options, starting from an existing model if there
    is one.
    """

    def __init__(
        self, wish: Wish, earlier: Model | None, source: str, sample: Path
    ) -> None:

        self.wish, self.earlier, self.source = wish, earlier, source
        self.scenario = self._scenario()
        self.vocabulary = self._vocabulary(sample)
        with naming("--law"):
            self.laws: list[Law] = told_apart(
                law
                for text in wish.law or (earlier.laws if earlier else ())
                for law in find_laws(text, vocabulary=self.vocabulary)
            )
        if self.scenario is not None:
            self.laws = list(self.scenario.laws)
        self.abstraction = self._abstraction()
        own = self.scenario.source if self.scenario else wish.file
        chosen, period_s = self.abstraction, wish.period
        if own and chosen and (period_s or chosen.period_s):
            with naming(own):
                refuse_undecided(chosen, self.laws, period_s)
        self._refuse_idle_period(sample)
        self.training: Training = Training()
        self._found: Found | None = None
        if earlier is not None:
            self.training = Training.of(earlier)

    def _refuse_idle_period(self, sample: Path) -> None:
        """Rejects --period where it has no effect."""
        asked, by = self.wish.period, self.abstraction
        own_s = by and by.period_s
        if asked in (None, own_s) or (self.wish.auto and own_s is None):
            return
        if ".csv" in sample.suffixes:
            used = self.vocabulary or (by.vocabulary if by else None)
            if stored_runs([sample])[0].kept((), used, asked).header.period_s:
                return  # the table has no times
        why, mend = "the traces have times", "set period_s in the abstraction"
        if own_s is not None:
            why = f"the abstraction sets period_s: {own_s:g}"
            mend = "change it there, or leave out --period"
        problem = f"--period {asked:g} does not apply, because {why}"
        raise InvalidInput(problem, mend=mend)

    def _scenario(self) -> Scenario | None:

        wish = self.wish
        if wish.scenario is None:
            return None
        if wish.file is not None or wish.vocabulary:
            raise InvalidInput(
                "--scenario already sets the abstraction and the vocabulary",
                mend="leave out --abstraction and --vocabulary",
            )
        scenario = load_scenario(wish.scenario)
        return scenario.under(wish.law) if wish.law else scenario

    def _vocabulary(self, sample: Path) -> Vocabulary | None:
        """Returns the requested vocabulary, or else that of the scenario, the model or
        the first trace.
        """

        if self.wish.vocabulary:
            return load_vocabulary(self.wish.vocabulary)
        if self.scenario is not None:
            return self.scenario.abstraction.vocabulary
        if self.earlier is not None and self.earlier.abstraction is not None:
            content = dict(self.earlier.abstraction)
            return Abstraction.from_dict(content, self.source).vocabulary
        if not self.wish.law or self.wish.format == "states":
            return None
        if self.wish.format == "auto" and not holds_traces(sample):
            return None
        first = stored_runs([sample])[0]
        return first.kept((), period_s=self.wish.period).vocabulary

    def _abstraction(self) -> Abstraction | None:

        chosen = None if self.scenario is None else self.scenario.abstraction
        if self.wish.file:
            chosen = load_abstraction(self.wish.file, self.vocabulary)
        elif self.wish.law and self.scenario is None:
            clocks = [law.clock_s for law in self.laws if law.clock_s]
            chosen = law_abstraction(
                [law.formula for law in self.laws],
                self.vocabulary or self.laws[0].vocabulary,
                self.wish.period or max(clocks, default=None),
            )
        if self.earlier is None:
            return chosen
        if self.earlier.abstraction is None:
            if chosen is not None:
                raise InvalidInput(
                    "the model has no predicates: it was learned from state sequences",
                    source=self.source,
                    mend="update the model with state sequences, and give no laws",
                )
            return None
        known = Abstraction.from_dict(
            dict(self.earlier.abstraction), self.source, self.vocabulary
        )
        if chosen is not None and chosen.fingerprint() != known.fingerprint():
            raise InvalidInput(
                "the model was learned with a different abstraction",
                source=self.source,
                mend="learn a new model from all traces, or leave out "
                + ("--scenario" if self.wish.scenario else "--abstraction"),
            )
        return known

    def find(
        self, files: Sequence[Path], progress: Shown, group_of: GroupOf | None = None
    ) -> list[tuple[Learner, Choice]]:
        """Finds the abstraction that gives the best warnings for each law in held-out
        traces; returns a learner for each choice.

        Args:
            files: The traces.
            progress: Shows progress.
            group_of: A function that returns the group of a run. Groups are held out as
                a whole; by default, each run is a group.
        """

        chosen = self._choose(files, progress, group_of)
        found: list[tuple[Learner, Choice]] = []
        for each in chosen:
            one = copy(self)
            if len(chosen) > 1:
                one.laws = list(each.laws)
            one.training = Training()
            one.abstraction, one._found = each.choice.abstraction, each.choice.found
            found.append((one, each.choice))
        return found

    def _choose(
        self, files: Sequence[Path], progress: Shown, group_of: GroupOf | None
    ) -> list[Chosen]:
        """Chooses the abstraction of each law by cross-validation on the traces."""
        laws, hand, period_s = self.laws, self.abstraction, self.wish.period
        if not laws:
            raise InvalidInput("--abstraction auto needs --scenario or --law")
        stored = stored_runs(files)
        runs: list[Kept] = []
        groups: list[str] = []
        read = (
            pair
            for batch in batches(stored, None, self.vocabulary, period_s)
            for pair in zip(batch.runs, batch.apart(), strict=True)
        )
        for origin, run in progress(read, "runs read", len(stored)):
            if group_of is not None:
                seed = run.header.seed
                groups.append(
                    group_of(origin.name, len(runs) if seed is None else seed)
                )
            runs.append(run)
        if len(set(groups)) == 1:
            raise InvalidInput(
                f"all runs belong to one group, {groups[0]:.80}",
                mend="add runs of other groups, or leave out --group",
            )
        clock_s = hand.period_s if hand is not None and hand.period_s else period_s
        clock_s = clock_s or runs[0].header.period_s
        if clock_s is None:
            raise InvalidInput(
                "--abstraction auto needs a sampling period, but neither the traces "
                "nor the laws have one",
                mend="give --period",
            )
        known = [law for law in laws if all(map(runs[0].header.can_know, law.signals))]
        parts = [part for law in known for part in law.parts or (law,)]
        vocabulary = self.vocabulary or runs[0].vocabulary
        corpus = Corpus(runs, parts, vocabulary, clock_s, groups)
        return choose_by_law(corpus, known, hand, self._horizon_s, progress=progress)

    @property
    def _horizon_s(self) -> float:
        """The prediction horizon of the risk, in seconds."""
        known = self.scenario.horizon_s if self.scenario else HORIZON_S
        return self.wish.horizon or known

    def add(self, runs: Iterable[Stored], on: Pool | None = None) -> Iterator[Stored]:
        """Counts the transitions in runs, and yields each run once it is counted.

        Args:
            runs: The runs to count.
            on: The pool that reads the runs; it does not affect the counts. None for
                this process.
        """
        kind = self.wish.format
        with_frames = cache(holds_traces)
        for frames, group in groupby(
            runs, lambda r: kind == "trace" or (kind == "auto" and with_frames(r.path))
        ):
            some = list(group)
            if frames:
                yield from self._count(some, on)
                continue
            for run in some:
                self.training.add_states(run.path, self.abstraction)
                yield run

    def _count(self, runs: Sequence[Stored], on: Pool | None) -> Iterator[Stored]:
        """Counts the transitions in traces of frames."""

        by, training = self.abstraction, self.training
        if by is None:
            raise InvalidInput(
                "the trace contains frames, so learning a chain needs predicates",
                source=str(runs[0].path),
                mend="choose predicates with --scenario, --abstraction or --law",
            )
        wish = self.vocabulary, self.wish.period
        if self._found is not None:
            for run in runs:
                own = self._found.counting(training.tally.traces)
                yield from training.counting([run], own, *wish)
        elif on is None:
            yield from training.counting(runs, by, *wish)
        else:
            of_all = by.as_dict(), *wish
            shares = [_Share(part, *of_all) for part in shared(runs)]
            for found in in_turn(_count_share, shares, on):
                for counted in found:
                    training.take(counted)
                    yield from counted.runs

    def model(self) -> Model:
        """Returns the model with all transitions counted so far."""

        if not self.wish.mix_guarded:
            self.training.refuse_mixture()
        earlier, support = self.earlier, self._support()
        alpha = Fraction(0) if support.kind == "observed" else Fraction(1, 10)
        if self.wish.alpha is not None:
            with naming("--alpha"):
                alpha = rational(self.wish.alpha)
        elif earlier is not None and earlier.alpha is not None:
            alpha = earlier.alpha
        model = learn_rows(
            self.training.tally,
            support,
            alpha,
            self.wish.end or (earlier.end if earlier else "absorb"),
            abstraction=self.abstraction.as_dict() if self.abstraction else None,
            period_s=self.training.period_s,
            laws=tuple(dict.fromkeys(law.told for law in self.laws)),
            training=self.training.summary(),
        )
        if self.abstraction is None or not self.laws:
            return model
        laws = [law.formula for law in self.laws]
        broken = self.training.violations(model, self.abstraction, laws)
        visits = self.training.first_visits(
            model, self.abstraction, laws, self._horizon_s
        )
        facts = {**model.training, "violations": broken}
        if self.scenario is not None:
            facts["files"] = with_recordings(facts["files"], self.scenario)
        return replace(model, training=facts, first_visits=visits)

    def monitors(self, model: Model) -> dict[str, Automaton]:
        """Returns the laws' monitors on the model's clock; empty without an
        abstraction.
        """

        if self.abstraction is None:
            return {}
        return {
            law.name: compile_for(law.formula, self.abstraction, model.period_s)
            for law in self.laws
        }

    def fairness(self, model: Model, monitors: dict[str, Automaton]) -> FairnessReport:
        """Checks whether the model's risks agree with the outcomes of the traces."""

        return assess_training(
            self.training.sequences(self._judged_by),
            model,
            abstraction=self.abstraction,
            automata=monitors,
        )

    @property
    def _judged_by(self) -> int:
        """The number n such that the fairness check uses every n-th run."""
        return math.ceil(self.training.seen.size / MOST_JUDGED) or 1

    def told(self, state: str) -> str:
        """Describes a state by the predicates that are true in it."""
        if self.abstraction is None:
            return f"it is {state}"
        held = self.abstraction.holding(self.abstraction.bits(state))
        shown = " and ".join(held[:SHOWN]) or "no predicate is true"
        more = len(held) - SHOWN
        return f"{shown} and {more} more" if more > 0 else shown

    def _support(self) -> Support:

        kind = self.wish.support
        if kind is None:
            return Support.of(self.earlier) if self.earlier else Support("observed")
        if kind in ("observed", "all"):
            return Support(kind)
        if kind != "valid":
            return Support.declared(read_json(Path(kind)), kind)
        if self.abstraction is None:
            raise InvalidInput(
                "--support valid needs --abstraction or --law, which define "
                "the valid states"
            )
        return Support.valid(self.abstraction)

    def warnings(self) -> Iterator[str]:
        """Yields warnings about the training."""
        if names := self.training.repeated():
            yield (
                f"identical files were counted more than once: {', '.join(names)} "
                "(leave them out, because they make the confidence bounds too narrow)"
            )
        if len(self.training.periods) > 1:
            yield "the traces have different periods, so a step has no fixed length"
        if self._judged_by > 1:
            yield f"the chain was checked on only one run in {self._judged_by}"
        for name, times in self.training.gaps.items():
            yield f"{name} has {times} gaps; no step was counted over them"
        if late := self.training.late:
            name, gap = max(late.items(), key=lambda each: each[1])
            others = f" (and {len(late) - 1} more traces)" if len(late) > 1 else ""
            by_laws = self.wish.law and not (self.scenario or self.wish.file)
            option = "--period" if by_laws else "period_s in the abstraction, such as"
            yield (
                f"{name}{others} has a frame every {gap:.2g} s on average, fewer than "
                "one per step, so times in seconds are wrong: set a coarser clock "
                f"with {option} {gap:.2g}"
            )
        if (by := self.abstraction) is not None and by.constraints:
            seen = [name for name in self.training.numbers if set(name) <= {"0", "1"}]
            odd = [name for name in seen if not by.is_valid(by.bits(name))]
            if odd:
                yield (
                    f"{len(odd)} of {len(seen)} states contradict the constraints, "
                    f"such as {odd[0]} ({self.told(odd[0])}): correct `constraints`"
                )
