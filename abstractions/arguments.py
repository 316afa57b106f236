"""Checks the arguments of public functions against their annotations.

A wrong argument is reported when the function is called, before it can cause an obscure
error elsewhere.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
import types
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cache, wraps
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)  # fmt: skip

from forewarn.abstractions.errors import InvalidInput, near_miss

Called = TypeVar("Called", bound=Callable[..., Any])
Misfit = tuple[str, str, object]
"""The place of a wrong value in the argument, what is expected there, and the value."""

_MADE_BY = {
    "Approver": "give an object with a method ask(decision, proposal)",
    "Automaton": "compile it with compile_law",
    "AgentGuard": "make it with AgentGuard.load(model) or AgentGuard.by_laws(laws)",
    "Env": "make it with gymnasium.make; for a VectorEnv, use GuardedVectorEnv",
    "Expression": "parse the text with parse_formula",
    "FunctionTool": "make it with @function_tool; for LangChain's tools, use "
    "GuardMiddleware",
    "Guarding": "make it with Guarding.load(model)",
    "Judge": "load the file with read_judge",
    "Learned": "give the file of a model, or learn's result",
    "Model": "load the file with load_model",
    "Policy": "load the file with load_policy",
    "Scenario": "load it with load_scenario",
    "Vocabulary": "load it with load_vocabulary",
    "Watch": "make it with load_watch(model, horizon_s=3)",
}
_WORDS: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    Path: "a path", Mapping: "a mapping", dict: "a mapping", Callable: "a function",
    "Expression": "a formula", "Learned": "learn's result", "Tuning": "tune's result",
}  # fmt: skip
_PLURAL = {str: "texts", int: "whole numbers", float: "numbers"}
_OWNERS = ("self", "cls")
_PLAIN = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_SERIES = (Sequence, Collection, Iterable, list, tuple, set, frozenset)
_LOOKED_AT = 1_000
_LISTED = 4
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "gt": ("above", operator.gt), "ge": ("of at least", operator.ge),
    "lt": ("below", operator.lt), "le": ("of at most", operator.le),
}  # fmt: skip


def checked(call: Called) -> Called:
    """Decorates a public function, so that each call checks its arguments.

    Applied to a class, it checks the arguments of the constructor. A call raises
    `InvalidInput` if an argument does not match its annotation. The message names the
    function, the argument, what is expected, and how to get it.
    """
    if not isinstance(call, type):
        return cast(Called, _checking(call, call.__qualname__, call.__doc__))
    check = _checking(vars(call)["__init__"], call.__name__, call.__doc__)
    call.__init__ = check  # type: ignore[misc]
    return call


def named(call: Called) -> Called:
    """Decorates a public function that checks the values of its arguments itself, so
    that a call with wrong names of arguments says which names there are.
    """
    return cast(Called, _checking(call, call.__qualname__, call.__doc__, values=False))


def _checking(call: Any, name: str, doc: str | None, values: bool = True) -> Any:
    signature, title = inspect.signature(call), name.removesuffix(".__init__")
    hints = cache(lambda: get_type_hints(call, include_extras=True))
    # Binding takes longer than many a call, so the most common form does without it.
    needed = [p for p in signature.parameters.values() if p.default is p.empty]
    simple = all(p.kind in _PLAIN for p in needed)
    ordered = [n for n, p in signature.parameters.items() if p.kind in _PLAIN]

    @wraps(call)
    def checking(*args: Any, **kwargs: Any) -> Any:
        try:
            if simple and not kwargs and len(needed) <= len(args) <= len(ordered):
                given = dict(zip(ordered, args, strict=False))
            else:
                given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            names = [each for each in signature.parameters if each not in _OWNERS]
            problem, mend = str(error), f"the arguments are {', '.join(names)}"
            if lacks := re.search(r"missing a required argument: '(\w+)'", problem):
                mend = _described(doc or "", lacks[1]) or mend
            only = inspect.Parameter.KEYWORD_ONLY
            words = [n for n, p in signature.parameters.items() if p.kind is only]
            if "too many positional" in problem and words:
                mend = f"name the further arguments, as in {words[0]}=…"
            more = inspect.Parameter.VAR_KEYWORD
            closed = all(p.kind is not more for p in signature.parameters.values())
            if closed and (unknown := [each for each in kwargs if each not in names]):
                problem = f"there is no argument {unknown[0]!r}"
                mend = near_miss(unknown[0], names) or mend
            raise TypeError(f"{title}: {problem} ({mend})") from None
        for argument, value in given.items() if values else ():
            hint = hints().get(argument, Any)
            if hint is Any or (type(value) is hint and hint is not float):
                continue
            kind = signature.parameters[argument].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                continue
            if kind is inspect.Parameter.VAR_POSITIONAL:
                hint = tuple[hint, ...]  # type: ignore[valid-type]
            if wrong := _misfit(value, hint, argument):
                text = doc or (type(args[0]).__doc__ if title != name else "")
                mend = _described(text or "", argument) or f"see help({title})"
                raise _error(title, wrong, hint, mend)
        return call(*args, **kwargs)

    return checking


def expect(value: object, hint: Any, name: str, mend: str) -> None:
    """Checks a value that a user's code returned or stored.

    Args:
        value: The value.
        hint: The expected type, as in an annotation.
        name: The name of the value, for the error message.
        mend: The fix to suggest, unless there is a usual one for the type.

    Raises:
        InvalidInput: The value does not have the expected type.
    """
    if wrong := _misfit(value, hint, name):
        raise _error("", wrong, hint, mend)


def _error(source: str, wrong: Misfit, hint: Any, mend: str) -> InvalidInput:
    place, wanted, found = wrong
    problem = f"expected {wanted}, found {_found(found, hint):.80}"
    mend = _mend(found, hint) or mend
    return InvalidInput(problem, source=source, place=place, mend=mend)


def _misfit(value: object, hint: Any, place: str) -> Misfit | None:
    """Returns how a value differs from its annotation; None if it does not."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if wrong := _misfit(value, inside[0], place):
            return wrong
        given = [each for one in inside[1:] for each in getattr(one, "metadata", [one])]
        for key, (words, holds) in _BOUNDS.items():
            for limit in (getattr(each, key, None) for each in given):
                if limit is not None and value is not None and not holds(value, limit):
                    return place, f"{_words(inside[0])} {words} {limit:g}", value
        return None
    if origin in (Union, types.UnionType):
        found = [_misfit(value, kind, place) for kind in inside]
        if not all(found):
            return None
        # A misfit deeper inside means that the value as a whole has the right type.
        deeper = [wrong for wrong in found if wrong and wrong[0] != place]
        return deeper[0] if deeper else (place, _words(hint), value)
    if not _is_one(value, hint, origin):
        return place, _words(hint), value
    if origin is Callable and (wanted := _unlike(value, *inside)):
        return place, wanted, value
    return next(_inside(value, origin, inside, place), None)


def _is_one(value: object, hint: Any, origin: Any) -> bool:
    kind = origin or hint
    if kind is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(hint))
    if kind is Callable or kind is type:
        return callable(value)
    if not isinstance(kind, type) or kind in (Any, object):
        return True
    if not getattr(kind, "_is_runtime_protocol", True):
        return True  # only type checkers can check this protocol
    if isinstance(value, type):
        return False  # a class was given in place of an object
    if kind in (int, float):
        number = Integral if kind is int else Real
        return (
            isinstance(value, number)
            and not isinstance(value, bool)
            and not (isinstance(value, float) and math.isnan(value))
        )
    if origin not in _SERIES:
        return isinstance(value, kind)
    needed = Collection if issubclass(kind, Collection) else Iterable
    # The items of a pandas frame would be the names of its columns.
    is_series = isinstance(value, needed) and not hasattr(value, "iloc")
    return is_series and not isinstance(value, str | bytes | Mapping)


def _unlike(value: Any, given: Any, returned: Any) -> str:
    """Returns which function is expected instead of this one; empty if it fits."""
    if isinstance(value, type) and returned in (str, int, float, bool):
        return f"a function that returns {_words(returned)}"
    try:
        if given == []:
            inspect.signature(value).bind()
    except TypeError:
        return "a function without arguments"
    except ValueError:
        pass  # a built-in function whose arguments are unknown
    return ""


def _inside(
    value: Any, origin: Any, kinds: tuple[Any, ...], place: str
) -> Iterator[Misfit]:
    """Yields the misfits of a container's items; an iterator is not consumed."""
    if isinstance(value, Mapping) and len(kinds) == 2:
        pairs = islice(value.items(), _LOOKED_AT)
        items = ((item, kinds[1], f"{place}[{key!r}]") for key, item in pairs)
    elif origin in _SERIES and isinstance(value, Collection):
        several = islice(value, _LOOKED_AT)
        items = ((item, kinds[0], f"{place}[{n}]") for n, item in enumerate(several))
        if origin is tuple and kinds[-1] is not ...:
            return  # the items of this tuple have different types
    else:
        return
    for item, kind, where in items:
        if wrong := _misfit(item, kind, where):
            yield wrong


def _words(hint: Any) -> str:
    """Returns the type in words, as in `a list of text`."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(inside[0])
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inside if kind is not types.NoneType]
        several = list(dict.fromkeys(map(_words, kinds)))
        if len(several) > _LISTED:
            several[_LISTED - 1 :] = [f"another of {len(several)} types"]
        return " or ".join(several)
    if origin is Literal:
        return f"one of {', '.join(map(str, inside))}"
    if origin in _SERIES:
        item = inside[0] if inside else None
        item = get_args(item)[0] if get_origin(item) is Annotated else item
        return f"a list of {_PLURAL[item]}" if item in _PLURAL else "a list"
    kind = origin or hint
    name = getattr(kind, "__name__", str(kind))
    return _WORDS.get(kind) or _WORDS.get(name) or _with_an(name)


def _found(value: object, hint: Any) -> str:
    """Describes a wrong value: the value itself, or the kind of object."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None:
        return "nothing"
    if inspect.isfunction(value):
        return f"{value.__name__}{inspect.signature(value)}"
    plain = str | int | float | None
    if isinstance(value, list | tuple) and not all(isinstance(v, plain) for v in value):
        return "a list"
    if isinstance(value, str | int | float | list | tuple | dict):
        return repr(value)
    lacks = [each for each in dir(hint) if each[0] != "_" and not hasattr(value, each)]
    without = getattr(hint, "_is_protocol", False) and f" without {', '.join(lacks)}"
    return _with_an(type(value).__name__) + (without or "")


def _with_an(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _mend(found: object, hint: Any) -> str:
    """Returns a hint on how to get a value of the expected type; empty if there is
    none.
    """
    if type(found).__name__ == "_GeneratorContextManager":
        return "open it in a with statement: with … as value"
    kinds = [hint]
    inside = get_args(hint)
    if isinstance(found, list | tuple) and not _misfit(found, hint, ""):
        return "give this list without brackets around it"
    if get_origin(hint) in _SERIES and inside and not _misfit(found, inside[0], ""):
        return "put it in a list"
    for kind in kinds:
        kinds.extend(get_args(kind))
        if isinstance(found, str) and get_origin(kind) is Literal:
            return near_miss(found, map(str, get_args(kind)))
    names = [getattr(kind, "__name__", "") for kind in kinds]
    made = [_MADE_BY[name] for name in names if name in _MADE_BY]
    if isinstance(found, type) and any(_has_all(found, kind) for kind in kinds):
        return f"write {found.__name__}()"
    if isinstance(found, type) and not made:
        mine = {each.__name__ for each in found.__mro__[:-1]}
        mine |= {"Callable"} if "__call__" in vars(found) else set()
        if mine & {*names}:
            return f"write {found.__name__}()"
    return made[0] if made else ""


def _has_all(found: type, kind: Any) -> bool:
    """Whether a class has all methods of a protocol."""
    needed = [each for each in dir(kind) if each[0] != "_"]
    return getattr(kind, "_is_protocol", False) and all(
        hasattr(found, each) for each in needed
    )


def _described(doc: str, argument: str) -> str:
    """Returns the docstring's description of an argument, up to the first semicolon."""
    entry = rf"^ +\*{{0,2}}{argument}: (.*?)(?=[.;]\s|\.?\Z|\n\s*\n|\n +\w+: )"
    found = re.search(entry, doc, re.MULTILINE | re.DOTALL)
    return f"{argument}: {' '.join(found[1].split())}" if found else ""
