"""Merging: the tallies of many into one model, each of them once.

Sums do not ask in which order they are taken, so neither does merging: as long as
nobody is refused, the same tallies give the same model, whether they come at once or
one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.formats.own import MAX_COUNT
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.rejecting import Rejected, rejected
from forewarn.monitors.fleet.stacking import Stack
from forewarn.monitors.fleet.tallies import FleetTally, InvalidTally, Subject
from forewarn.monitors.risk.evidence import needed_abstraction

FLEET = "fleet"
"""Where a model's training facts keep who contributed how many transitions."""

MAX_CONTRIBUTORS = 1_000_000
"""A model that knew more by their ids could not be read again."""


@dataclass(frozen=True, slots=True)
class Merge:
    """What came of merging.

    Args:
        model: The model with all that was added.
        added: The tallies that are in it now, by their ids.
        known: The ids of those that were in it already.
        refused: Those that the others reject.
        beyond: Transitions that contributors did not keep, because too many differ.
    """

    model: Model
    added: tuple[FleetTally, ...]
    known: tuple[str, ...]
    refused: tuple[tuple[FleetTally, Rejected], ...]
    beyond: int


def contributors(model: Model) -> dict[str, int]:
    """How many transitions of a model each contributor gave, by its id."""
    ledger = model.training.get(FLEET, {})
    if not isinstance(ledger, dict) or set(map(type, ledger.values())) - {int}:
        raise InvalidModel(
            "not the transitions of contributors by their ids",
            place=f"training.{FLEET}",
        )
    return dict(ledger)


def merge(
    model: Model,
    tallies: Iterable[tuple[str, FleetTally]],
    *,
    accept: bool = False,
    source: str = "the model",
) -> Merge:
    """A model with what others counted.

    Args:
        model: A learned model.
        tallies: With the files that they come from, for errors.
        accept: Take also those that the others reject.
        source: The model's file, for errors.

    Raises:
        InvalidTally: One was counted by another model, or is not what was merged under
            its id.
    """
    subject = Subject.of(model, source)
    abstraction = needed_abstraction(model, source)
    ledger = contributors(model)
    fresh: dict[str, FleetTally] = {}
    known: set[str] = set()
    for file, each in tallies:
        subject.refuse_other(each.subject, file)
        _refuse_strange(each, len(abstraction.predicates), file)
        twin = fresh.get(each.id, each)
        same = twin is each or twin.as_dict() == each.as_dict()
        if not same or ledger.get(each.id, each.transitions) != each.transitions:
            raise InvalidTally(
                f"another tally is called {each.id} too",
                source=file,
                mend="take a tally's file away when it is merged: its guard begins a"
                " new one",
            )
        if each.id in ledger:
            known.add(each.id)
        else:
            fresh[each.id] = each
    there = FleetTally.of("", subject, Tally.of(model))
    stack = Stack.of([there, *(fresh[key] for key in sorted(fresh))])
    found = [] if accept else rejected(stack)
    out = {each.index for each in found}
    taken = [i for i in range(1, stack.contributors) if i not in out]
    added = tuple(stack.tallies[i] for i in taken)
    ledger |= {each.id: each.transitions for each in added}
    if len(ledger) > MAX_CONTRIBUTORS:
        raise TooLarge(
            f"more than {MAX_CONTRIBUTORS:,} contributors",
            source=source,
            mend="begin again with the model as it was before any was merged",
        )
    return Merge(
        _learned(model, stack.total([0, *taken]), ledger, source) if added else model,
        added,
        tuple(sorted(known)),
        tuple((stack.tallies[each.index], each) for each in found),
        sum(each.beyond for each in added),
    )


def _refuse_strange(tally: FleetTally, predicates: int, file: str) -> None:
    if any(len(name) != predicates for name in tally.states[:1]):
        raise InvalidTally(
            f"{tally.states[0]!r} is not a state of {predicates} predicates",
            source=file,
        )


def _learned(
    model: Model, total: Tally, ledger: Mapping[str, int], source: str
) -> Model:
    """The model of the sum; what only runs can tell is not told any more."""
    facts: dict[str, Any] = {
        **model.training,
        "traces": total.traces,
        "frames": total.frames,
        "transitions": total.frames - total.traces,
        FLEET: dict(sorted(ledger.items())),
    }
    largest = max(max(row.values(), default=0) for row in total.seen.values())
    if largest > MAX_COUNT:
        raise TooLarge(f"a count of more than {MAX_COUNT}", source=source)
    try:
        return learn(
            total, Support.of(model), model.alpha or Fraction(0), model.end,
            abstraction=model.abstraction, period_s=model.period_s, laws=model.laws,
            training=facts,
        )  # fmt: skip
    except InvalidInput as error:
        raise error.within(source) from None
