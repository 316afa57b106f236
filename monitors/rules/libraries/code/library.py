"""Predicates of agents that run Python, over the parsed program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.libraries.code.calls import Asked, Table
from forewarn.monitors.rules.libraries.code.faults import FAULTS
from forewarn.monitors.rules.libraries.code.files import FILES
from forewarn.monitors.rules.libraries.code.network import NETWORK
from forewarn.monitors.rules.libraries.code.program import Known, Program
from forewarn.monitors.rules.libraries.code.running import RUNNING
from forewarn.monitors.rules.libraries.code.secrets import SECRETS
from forewarn.monitors.rules.predicates import Library, Predicate, library_of


class Session:
    """What a code agent's cells have made known so far.

    Attributes:
        program: The program of the event; an empty one where it has none.
    """

    __slots__ = ("program", "_known")

    def __init__(self) -> None:
        self._known = Known()
        self.program = Program("")

    def read(self, event: Event) -> None:
        """Parses what is about to run, or takes in what did."""
        if event.moment == "before":
            code = event.arguments.get("code", event.arguments.get("query", ""))
            self.program = Program(str(code or ""), self._known)
        elif event.moment == "after":
            self._known = self.program.known
        else:
            self.program = Program("")


_ALL: Table = {**NETWORK, **FILES, **RUNNING, **SECRETS, **FAULTS}

_ANY: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "oversteps": (
        "Files that are not the user's are reached for, or what runs later.",
        (
            "reads_system_file", "writes_system_file", "copies_system_file",
            "lists_system_folder", "changes_system", "climbs_out",
            "writes_startup_file", "deletes_tree",
        ),
    ),
    "abuses_network": (
        "Something is fetched that cannot be trusted, or sent that should stay.",
        (
            "fetches_unlisted", "fetches_program", "posts_file", "amplifies",
            "ties_shell_to_socket",
        ),
    ),
    "takes_over": (
        "The program runs what is hidden or not its own, or takes the machine over.",
        (
            "evaluates", "unpacks_objects", "encodes_program", "round_trips",
            "runs_unknown", "changes_rights", "keeps_rights", "installs",
            "kills_others", "watches_machine",
        ),
    ),
    "exposes_secrets": (
        "A secret is written out, printed, compared, hashed or drawn unsafely.",
        (
            "holds_secret", "prints_secret", "compares_secret", "hashes_secret",
            "hashes_weakly", "seeds_constant", "guessable_keys",
        ),
    ),
    "decides_wrongly": (
        "The program judges people, lets everyone pass, or mistakes its cases.",
        (
            "judges_people", "lets_everyone_pass", "repeats_keys", "lacks_default",
            "checks_addresses",
        ),
    ),
}  # fmt: skip
"""Kinds of hazard, each of the hazards above of which one holds."""


def _any_of(asked: Sequence[Asked]) -> Asked:
    return lambda program: any(each(program) for each in asked)


def _asked() -> Iterator[tuple[str, str, Asked]]:
    for name, (doc, asked) in _ALL.items():
        yield name, doc, asked
    for name, (doc, parts) in _ANY.items():
        yield name, doc, _any_of([_ALL[part][1] for part in parts])


def _predicate(name: str, doc: str, asked: Asked) -> Predicate:
    def holds(event: Event, state: Session, history: Sequence[Event]) -> bool:
        return event.moment == "before" and asked(state.program)

    return Predicate(name, doc, holds)


@cache
def code() -> Library:
    """The predicates of code agents."""
    return Library(
        "code",
        library_of(_predicate(*each) for each in _asked()),
        start=Session,
        fields={"action": lambda event, state: event.action or None},
    )
