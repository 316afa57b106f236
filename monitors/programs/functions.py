"""The functions that guard programs may call: the toolbox."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression.pattern import pattern as compiled
from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.asking import (
    activities,
    asks_for,
    singular,
    words_of,
)
from forewarn.monitors.programs.grammar import NAME
from forewarn.monitors.programs.values import (
    ORDER,
    ProgramFault,
    Value,
    kind,
    mapping_of,
    names_of,
    plain,
    text_of,
)
from forewarn.monitors.rules.household import KINDS, is_a
from forewarn.monitors.rules.household import plain as plain_thing

SAID = ("deny", "ask", "reflect", "slow")
"""The verdicts of the language, which are not allowed as names of functions."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the toolbox.

    `call` maps values to a value, in time proportional to their size and without side
    effects, and raises `ProgramFault` if it cannot decide. `about` describes it for
    authors of programs; the first `needed` of its parameters are required.
    """

    name: str
    call: Callable[..., Value]
    parameters: tuple[str, ...]
    about: str
    needed: int

    @property
    def signature(self) -> str:
        """The name with its parameters, as shown to authors."""
        optional = [f"{name}=None" for name in self.parameters[self.needed :]]
        return f"{self.name}({', '.join([*self.parameters[: self.needed], *optional])})"


def function(call: Callable[..., Value], name: str = "") -> Function:
    """Creates a function of the toolbox from a Python function and its docstring."""
    name = name or "".join(part.title() for part in call.__name__.split("_"))
    about = " ".join((inspect.getdoc(call) or "").split())
    if not about:
        raise InvalidInput(f"the function {name} has no description")
    parameters = inspect.signature(call).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        problem = f"the function {name} has parameters that programs cannot pass"
        raise InvalidInput(problem)
    names = tuple(p.name for p in parameters)
    needed = sum(p.default is p.empty for p in parameters)
    return Function(name, call, names, about, needed)


class Toolbox:
    """Functions by name; each name is unique and can be called in programs."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions: dict[str, Function] = {}
        for each in functions:
            if not NAME.fullmatch(each.name) or each.name in SAID:
                raise InvalidInput(
                    f"{each.name!r:.60} is not allowed as a function's name"
                )
            if each.name in self._functions:
                raise InvalidInput(f"the toolbox has two functions named {each.name}")
            self._functions[each.name] = each

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def get(self, name: str) -> Function | None:
        """The function with this name, if there is one."""
        return self._functions.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._functions)

    def described(self) -> list[str]:
        """A line for each function."""
        return [f"{each.signature}: {each.about}" for each in self]


def check_access(allowed: Value, needed: Value) -> Value:
    """Returns whether any needed column is not allowed, and the missing columns by
    database. Both arguments map databases to their columns."""
    may = {plain(k): v for k, v in mapping_of(allowed, "`allowed`").items()}
    known: dict[str, set[str]] = {}
    missing: dict[str, Value] = {}
    for database, columns in mapping_of(needed, "`needed`").items():
        wanted = names_of(columns, f"`needed` of {database}")
        name = plain(database)
        if name not in may:
            missing[database] = tuple(wanted)
            continue
        if name not in known:
            granted = names_of(may[name], f"`allowed` of {database}")
            known[name] = set(map(plain, granted))
        if lacking := tuple(c for c in wanted if plain(c) not in known[name]):
            missing[database] = lacking
    return bool(missing), missing


def allowed_to(table: Value, role: Value) -> Value:
    """Returns the entry of a role in a table of roles; empty if the role is unknown."""
    rows = mapping_of(table, "the table")
    if not isinstance(role, str):
        return {}
    wanted = plain(role)
    return next((row for name, row in rows.items() if plain(name) == wanted), {})


def same(one: Value, other: Value) -> Value:
    """Whether two names are equal, ignoring case and treating underscores and hyphens
    as spaces."""
    return plain(text_of(one, "a name")) == plain(text_of(other, "a name"))


def check_rules(rules: Value, user: Value) -> Value:
    """Returns whether a user breaks any rule, and the names of the broken rules. A rule
    compares the user's property `info` with `value` by `operator` (==, !=, <, <=, >,
    >=). A rule about an unknown property counts as broken."""
    about = {plain(k): v for k, v in mapping_of(user, "the user").items()}
    broken = tuple(
        name
        for name, rule in mapping_of(rules, "the rules").items()
        if not _kept(name, mapping_of(rule, f"the rule {name}"), about)
    )
    return bool(broken), broken


def count(items: Value) -> Value:
    """The number of items in a list or a mapping."""
    if isinstance(items, Mapping | list | tuple):
        return len(items)
    raise ProgramFault(f"{kind(items)} cannot be counted")


def _kept(name: str, rule: Mapping[str, Any], user: Mapping[str, Any]) -> bool:
    info, operator, value = (rule.get(k) for k in ("info", "operator", "value"))
    if not isinstance(info, str):
        raise ProgramFault(
            f"the rule {name} needs `info`, the name of a property of the user"
        )
    known = user.get(plain(info))
    if known is None:
        return False
    if operator in ("==", "!="):
        equal = isinstance(known, bool) is isinstance(value, bool) and known == value
        if isinstance(known, str) and isinstance(value, str):
            equal = plain(known) == plain(value)
        return bool(equal) is (operator == "==")
    if not isinstance(operator, str) or operator not in ORDER or not is_number(value):
        raise ProgramFault(f"the rule {name} uses an unknown comparison")
    return is_number(known) and ORDER[operator](known, value)


STANDARD: tuple[Function, ...] = tuple(
    function(call) for call in (check_access, allowed_to, same, check_rules, count)
)

ANYTHING = "any"
LONGEST_REQUEST = 20_000
LONGEST_NAME = 200
MOST_WORDS = 12
"""A name with more words is searched word by word, like a text."""

MOST_THINGS = 100
"""The maximum number of names in the arguments of an action."""

_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def does(action: Value, verb: Value) -> Value:
    """Whether an action does what a verb says, as any robot spells it: TurnOn,
    turn_on_object and ToggleObjectOn all mean turn on."""
    name = text_of(_of(action, "name"), "an action's name")
    return _is_verb(name[:LONGEST_NAME], text_of(verb, "a verb"))


def about(action: Value, thing: Value) -> Value:
    """Whether an argument of an action names a thing of a type or kind: StoveKnob and
    gas stove both count as a stove."""
    wanted = text_of(thing, "a thing")
    return any(_mentions(name, wanted) for name in _things(action))


def held(frame: Value, thing: Value) -> Value:
    """Whether the robot holds a thing of a type or kind."""
    values = mapping_of(frame, "the frame")
    if "holding" not in values:
        raise ProgramFault(
            "the frame has no signal `holding`, so it is unknown what the robot holds"
        )
    wanted, name = text_of(thing, "a thing"), values["holding"]
    return name is not None and _mentions(text_of(name, "the held thing"), wanted)


def may_use(table: Value, role: Value, room: Value, action: Value) -> Value:
    """Whether a table lets a role do an action in a room. For each role, the table maps
    rooms to the things that the role may use there; `any` means every room or thing.
    Anything else is forbidden. An action that names no thing is allowed."""
    rows = mapping_of(table, "the table")
    things = _things(action)
    if not things:
        return True
    rooms = _row(rows, role)
    allowed = [*_row(rooms, room, ()), *_row(rooms, ANYTHING, ())]
    return all(
        any(_same_name(each, ANYTHING) or _is_thing(name, each) for each in allowed)
        for name in things
    )


def check_odd(limits: Value, frame: Value) -> Value:
    """Returns whether a car is outside its permitted conditions, and the signals that
    are out of range. Each limit maps a signal to its minimum and maximum (None for no
    limit). A signal that is unknown counts as out of range."""
    values = mapping_of(frame, "the frame")
    outside = tuple(
        signal
        for signal, span in mapping_of(limits, "the limits").items()
        if not _within(values.get(signal), span, signal)
    )
    return bool(outside), outside


def has(user: Value, what: Value) -> Value:
    """Whether a property of a user is true, such as a membership; false if unknown."""
    wanted = _bare(text_of(what, "a user's property"))
    about = mapping_of(user, "the user")
    found = {key: value for key, value in about.items() if _bare(key) == wanted}
    for key, value in found.items():
        if not isinstance(value, bool):
            raise ProgramFault(f"the user's {key} is {kind(value)}, not true or false")
    return any(found.values())


def calls(action: Value, tool: Value) -> Value:
    """Whether an action is a call of a tool."""
    return _of(action, "name") == text_of(tool, "a tool")


def argument(action: Value, name: Value) -> Value:
    """The value of an argument of an action; None if the argument is missing."""
    given = mapping_of(_of(action, "arguments"), "an action's arguments")
    return given.get(text_of(name, "an argument"))


CONTACTS = "contacts"


def knows(user: Value, whom: Value) -> Value:
    """Whether every person in a text or a list is one of the user's contacts."""
    known = mapping_of(user, "the user").get(CONTACTS)
    return _all_named(whom, "the list of people") <= _all_named(known, "the contacts")


def names(value: Value, thing: Value) -> Value:
    """Whether a text, or any text in a list, names a thing."""
    wanted = text_of(thing, "a thing")
    return any(_mentions(each, wanted) for each in _all_named(value, "a value"))


def starts_with(text: Value, start: Value) -> Value:
    """Whether a text begins with another text; false if the text is None."""
    if text is None:
        return False
    return text_of(text, "a text").startswith(text_of(start, "a beginning"))


def matches(text: Value, pattern: Value) -> Value:
    """Whether any part of a text matches a regular expression; ^ and $ anchor it to the
    start and end. Backreferences and lookaheads are not allowed."""
    if text is None:
        return False
    try:
        found = compiled(text_of(pattern, "a pattern"))
    except InvalidInput as error:
        raise ProgramFault(f"{error.problem} (at {error.place})") from None
    return found.found_in(text_of(text, "a text"))


def asks(request: Value, doing: Value, thing: Value) -> Value:
    """Whether a request in plain words asks for an activity with a thing, such as book
    a flight; common synonyms are recognised."""
    text = text_of(request, "a request")
    if len(text) > LONGEST_REQUEST:
        raise ProgramFault(f"a request is longer than {LONGEST_REQUEST} characters")
    return asks_for(text, text_of(doing, "an activity"), text_of(thing, "a thing"))


def _bare(name: str) -> str:
    """A name without spaces and punctuation, so `driver's` equals `drivers`."""
    return "".join(_WORD.findall(name.casefold().replace("licence", "license")))


@lru_cache(maxsize=4096)
def _is_thing(name: str, wanted: str) -> bool:
    one = " ".join(singular(word) for word in wanted.casefold().split())
    thing = plain_thing(name)
    if one in KINDS:
        return is_a(thing, one) or thing == plain_thing(one)
    return thing == plain_thing(one) or thing == plain_thing(wanted)


@lru_cache(maxsize=4096)
def _is_verb(name: str, wanted: str) -> bool:
    """Whether a name contains the words of a verb, or of a synonym, consecutively."""
    said, bare = parts(name), _bare(name)
    others = activities()["verbs"].get(plain(wanted), ())
    return any(each in said or _bare(each) == bare for each in (parts(wanted), *others))


@lru_cache(maxsize=4096)
def _mentions(name: str, wanted: str) -> bool:
    """Whether consecutive words of a name denote a thing of this type or kind."""
    if _is_thing(name, wanted):
        return True
    words = parts(name).split()
    if len(words) > MOST_WORDS:
        return words_of(wanted) in words_of(name)
    spans = (
        " ".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    )
    return any(_is_thing(span, wanted) for span in spans)


def parts(name: str) -> str:
    """The words of a name, each between spaces: TurnOn and turn_on give ` turn on `."""
    return words_of(_HUMP.sub(" ", name))


def is_known(thing: str) -> bool:
    """Whether a word names a known type or kind of thing."""
    one = singular(thing.casefold())
    if one in KINDS or thing in KINDS:
        return True
    return any(plain_thing(one) in types for types in KINDS.values())


def _things(action: Value) -> list[str]:
    """Every name in the arguments of an action."""
    found = list(islice(_named(action), MOST_THINGS + 1))
    if len(found) > MOST_THINGS:
        raise ProgramFault(f"an action names more than {MOST_THINGS} objects")
    return found


def _named(action: Value) -> Iterator[str]:
    """Yields every text in the arguments of an action, at any depth."""
    pending = [mapping_of(_of(action, "arguments"), "an action's arguments")]
    while pending:
        value: Value = pending.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value


def _all_named(value: Value, what: str) -> set[str]:
    """The comma-separated names in a text or a list of texts; empty for None."""
    if value is None:
        return set()
    texts = (value,) if isinstance(value, str) else names_of(value, what)
    return {part.strip().casefold() for text in texts for part in text.split(",")}


def _row(rows: Value, name: Value, otherwise: Value = None) -> Any:
    """The value for a name in a mapping, ignoring spelling differences."""
    found = mapping_of(rows or {}, "a row of the table").items()
    if not isinstance(name, str):
        return otherwise
    return next((row for key, row in found if _same_name(key, name)), otherwise)


def _same_name(one: Value, other: str) -> bool:
    return isinstance(one, str) and plain(one) == plain(other)


def _within(value: Value, span: Value, signal: str) -> bool:
    if not isinstance(span, list | tuple) or len(span) != 2:
        raise ProgramFault(f"the limit of {signal} must be a minimum and a maximum")
    if not is_number(value):
        return False
    least, most = span
    return (least is None or value >= least) and (most is None or value <= most)


def _of(action: Value, part: str) -> Value:
    found = mapping_of(action, "an action")
    if part not in found:
        raise ProgramFault(f"the action has no {part}")
    return found[part]


_ABOUT_ACTIONS: tuple[Callable[..., Value], ...] = (
    does, about, held, may_use, check_odd, has, asks, starts_with, matches, calls,
    argument, knows, names,
)  # fmt: skip
ACTIONS: tuple[Function, ...] = tuple(map(function, _ABOUT_ACTIONS))
