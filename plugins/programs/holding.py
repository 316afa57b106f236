"""Every predicate of the domains, for guard programs: whether it holds now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import get_args

from forewarn.abstractions.errors import InvalidInput, suggest
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.event import Event, Moment
from forewarn.monitors.rules.labelled import Domain
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Situation

SUCCEEDED = "last_action_succeeded"


@cache
def domains_of() -> Mapping[str, Domain]:
    """Of each predicate that ships the domain it is from, the first that has it."""
    found: dict[str, Domain] = {}
    for domain in get_args(Domain):
        for name in library(domain).names:
            found.setdefault(name, domain)
    return found


def described() -> Iterator[str]:
    """A line for each predicate, for whoever writes programs."""
    for name, domain in domains_of().items():
        yield f'holds["{name}"]: {library(domain).predicates[name].doc}'


class Holds(Mapping[str, bool]):
    """What holds in a run, event by event; a predicate is asked only when it is read.

    Args:
        names: The predicates that are asked for.

    Raises:
        InvalidInput: Nobody knows one of them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        known = domains_of()
        for name in names:
            if name not in known:
                raise InvalidInput(
                    f"no predicate is called {name!r:.60}", mend=suggest(name, known)
                )
        self._domains = {name: known[name] for name in names}
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        domains = dict.fromkeys(self._domains.values())
        self._situations = {each: Situation(library(each)) for each in domains}
        self._proposed: Action | None = None

    def enter(self, frame: Frame, proposal: Action | None) -> None:
        """A frame, and what is proposed on it, are now."""
        events = []
        if self._proposed is not None:
            events.append(_event("after", self._proposed, frame))
        self._proposed = proposal
        moment = Event("tick", values=frame.values, time_s=frame.time_s)
        if proposal is not None:
            moment = _event("before", proposal, frame)
        for event in (*events, moment):
            for situation in self._situations.values():
                situation.enter(event)

    def __getitem__(self, name: str) -> bool:
        return self._situations[self._domains[name]].so(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)


def _event(moment: Moment, action: Action, frame: Frame) -> Event:
    succeeded = frame.values.get(SUCCEEDED) if moment == "after" else None
    return Event(
        moment,
        action.name,
        action.arguments,
        frame.values,
        succeeded if isinstance(succeeded, bool) else None,
        time_s=frame.time_s,
    )
