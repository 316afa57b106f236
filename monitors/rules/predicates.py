"""Events, and the predicates on events that rules use.

The same predicates are used in hand-written and in evolved rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from forewarn.abstractions.errors import InvalidInput, SignalFault, near_miss
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.frame import Value
from forewarn.monitors.rules.arguments import Arguments

Domain = Literal["household", "driving", "code"]

DOMAINS: tuple[Domain, ...] = ("household", "driving", "code")
Vocabulary = Literal["expert", "primitive"]
_ALSO: Mapping[str, Domain] = {"embodied": "household"}

Moment = Literal["before", "after", "tick", "finish"]
MOMENTS: tuple[Moment, ...] = ("before", "after", "tick", "finish")


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the run of an agent.

    Args:
        moment: `before` or `after` for an action, `tick` in a world that does not wait
            for actions, or `finish` at the end of the run.
        action: The verb or the tool's name; "" for a tick or the finish.
        values: The values of the signals, in the domain's vocabulary.
        succeeded: Whether the action succeeded; None if unknown or not yet done.
        output: The result of the action.
        time_s: The time on the source's clock, in seconds.
        tool: The device that carries out the action, if it has its own name.
        text: The action as the agent wrote it.
    """

    moment: Moment
    action: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    succeeded: bool | None = None
    output: str = ""
    time_s: float = 0.0
    tool: str = ""
    text: str = ""


def domain_of(name: str, source: str = "") -> Domain:
    """Returns the domain with this name or alias."""
    found = _ALSO.get(name, name)
    for domain in DOMAINS:
        if found == domain:
            return domain
    raise InvalidInput(
        f"there is no domain {name!r:.40}",
        source=source,
        mend=near_miss(name[:40], DOMAINS) or f"choose one of {', '.join(DOMAINS)}",
    )


REMEMBERED = 32
"""The number of past events that predicates can read."""


class State:
    """The state that a domain computes from the events so far; by default, none."""

    __slots__ = ()

    def read(self, event: Event) -> None:
        """Reads an event before the predicates are evaluated on it."""


Holds = Callable[[Event, Any, Sequence[Event]], bool]
Field = Callable[[Event, Any], Value]
Test = Callable[["Situation"], bool]


class Written(Protocol):
    """The condition that defines a predicate, evaluated in one run; see `Condition`."""

    @property
    def remembers(self) -> bool: ...

    @property
    def test(self) -> Test: ...

    def hear(self, situation: Situation) -> None: ...


@dataclass(frozen=True, slots=True)
class Predicate:
    """A Boolean property of the current event, defined by a function or a condition.

    Args:
        holds: Evaluates the predicate from the event, the domain's state and earlier
            events.
        written: Creates the condition for a run; it uses the predicates in `asks`.
        part: Whether the predicate only helps to define others; learners ignore it.
    """

    name: str
    doc: str
    holds: Holds | None = None
    written: Callable[[], Written] | None = None
    asks: tuple[str, ...] = ()
    part: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """The predicates of a domain, with the state that they need.

    Args:
        start: Creates the state of a run, for tools with these argument roles.
        fields: The event fields that conditions can compare, as in `object == Mug`.
        actions: The known actions; empty if any tool may be called.
        words: Texts that conditions may compare with fields; others are not errors.
    """

    domain: Domain
    predicates: Mapping[str, Predicate]
    start: Callable[[Arguments], State] = lambda arguments: State()
    arguments: Arguments = Arguments()
    vocabulary: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The predicates that learners use."""
        return tuple(name for name, each in self.predicates.items() if not each.part)

    def spoken(self, vocabulary: Vocabulary) -> Library:
        """Returns the library as learners see it in one of the two vocabularies.

        The expert vocabulary includes hand-written hazards such as `damages`; the
        primitive one has only the predicates that hazards consist of.
        """
        if vocabulary == "expert":
            return self
        found = {n: replace(p, part=bool(p.asks)) for n, p in self.predicates.items()}
        return replace(self, predicates=found)

    def only(self, names: Iterable[str]) -> Library:
        """Returns the library with only these predicates and those that they use."""
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in wanted:
                wanted.add(name)
                pending += self.predicates[name].asks
        kept = {name: p for name, p in self.predicates.items() if name in wanted}
        return replace(self, predicates=kept)


_NOTHING = Event("tick")


class Situation:
    """The current event of a run, as predicates see it.

    Each predicate is evaluated at most once, when it is first needed.
    """

    __slots__ = (
        "event", "history", "known", "library", "state", "_asks", "_remembering",
        "_values",
    )  # fmt: skip

    def __init__(self, library: Library) -> None:
        self.library = library
        self.state = library.start(library.arguments)
        self.history: deque[Event] = deque(maxlen=REMEMBERED)
        self.event = _NOTHING
        self.known: dict[str, bool] = {}
        self._values: Mapping[str, Any] | None = None
        self._remembering: dict[str, Written] = {}
        self._asks = {name: self._ask(p) for name, p in library.predicates.items()}

    def _ask(self, predicate: Predicate) -> Test:
        """Returns the function that evaluates a predicate in this run."""
        holds = predicate.holds
        if holds is not None:
            return lambda now: holds(now.event, now.state, now.history)
        if predicate.written is None:
            raise TypeError(f"the predicate {predicate.name} has no implementation")
        written = predicate.written()
        if written.remembers:
            self._remembering[predicate.name] = written
        return written.test

    def enter(self, event: Event) -> None:
        """Advances to the next event; the previous one becomes history."""
        if self.event is not _NOTHING:
            self.history.append(self.event)
        self.state.read(event)
        self.event, self._values = event, None
        if event.moment != "after":
            self.known = {}
            for name, written in self._remembering.items():
                written.hear(self)
                try:
                    self.so(name)
                except SignalFault:
                    continue  # the fault is raised when the predicate is needed
        else:
            # Predicates over past decisions keep their value until the next decision.
            known = self.known
            self.known = {n: known[n] for n in self._remembering if n in known}

    @property
    def values(self) -> Mapping[str, Any]:
        """Returns the event's values and fields, for comparisons."""
        if self._values is None:
            event, state, fields = self.event, self.state, self.library.fields
            self._values = event.values
            if fields:
                found = {name: read(event, state) for name, read in fields.items()}
                self._values = {**event.values, **found}
        return self._values

    def so(self, name: str) -> bool:
        """Whether the predicate with this name is true now."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = self._asks[name](self)
        return found


def plain_predicates(
    domain: Domain, holds: Mapping[str, Holds]
) -> dict[str, Predicate]:
    """Creates predicates from functions; learners see those in `plain.yaml`."""
    docs = read_yaml(Path(__file__).with_name("plain.yaml"))[domain]
    docs |= {name: "" for name in holds if name not in docs}
    return {n: Predicate(n, doc, holds[n], part=not doc) for n, doc in docs.items()}
