"""`forewarn learn --abstraction auto`: the predicates are found from the traces too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import progress

if TYPE_CHECKING:
    from forewarn.abstractions.abstraction import Abstraction
    from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
    from forewarn.monitors.finding.choice import Choice, Chosen
    from forewarn.monitors.laws.lawbook import Law

AUTO = "auto"
HORIZON_S = 3.0


def find(
    files: Sequence[Path],
    laws: Sequence[Law],
    vocabulary: Vocabulary | None,
    hand: Abstraction | None,
    period_s: float | None,
    horizon_s: float,
) -> list[Chosen]:
    """Chooses the abstraction of each law by the traces.

    Args:
        files: The traces.
        laws: What the model is for.
        vocabulary: What the signals are.
        hand: The abstraction that there is without any search.
        period_s: The clock, where the abstraction gives none.
        horizon_s: How far ahead the risk is to look.
    """
    from forewarn.abstractions.readers.stored import batches, stored_runs
    from forewarn.monitors.finding.choice import choose_by_law
    from forewarn.monitors.finding.corpus import Corpus

    if not laws:
        raise click.UsageError("--abstraction auto needs --scenario or --law")
    stored = stored_runs(files)
    read = (
        run
        for batch in batches(stored, None, vocabulary, period_s)
        for run in batch.apart()
    )
    runs = list(progress(read, "runs read", len(stored)))
    clock_s = hand.period_s if hand is not None and hand.period_s else period_s
    clock_s = clock_s or runs[0].header.period_s
    if clock_s is None:
        raise click.UsageError("--abstraction auto needs a clock: give --period")
    known = [law for law in laws if all(map(runs[0].header.can_know, law.signals))]
    parts = [part for law in known for part in law.parts or (law,)]
    corpus = Corpus(runs, parts, vocabulary or runs[0].vocabulary, clock_s)
    return choose_by_law(corpus, known, hand, horizon_s, progress=progress)


def write(choice: Choice, out: Path, runs: int) -> None:
    """The abstraction that was chosen, for people to read, edit and use again."""
    from forewarn.abstractions.files import atomic_text

    with atomic_text(out) as file:
        file.write(choice.text(f"Found in {runs} runs by forewarn learn."))
