"""Every public function and constructor names an argument of a wrong type."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import MagicMock

import pytest

import forewarn
import forewarn.plugins
from forewarn import InvalidInput

FRONTS = ("forewarn", "forewarn.plugins")
EXTRAS = {
    "forewarn.plugins.gym": ("GuardedEnv", "GuardedVectorEnv", "Equipment"),
    "forewarn.plugins.langchain": ("GuardMiddleware",),
    "forewarn.plugins.openai_agents": ("guarded_tools",),
}
UNCHECKED = {
    *("Frame", "Action", "Decision", "Risk"),  # made for each frame; guards check them
    *("ForewarnError", "InvalidInput", "MissingDependency"),  # raised, not called
    "watched_live",  # knows its four values
    "AgentGuard.before",  # withholds a call that it cannot read
}
"""Public names whose arguments are not checked against their annotations."""


VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


class Stranger:
    """An object that no function expects."""


def callables() -> Iterator[tuple[str, Any]]:
    """The checked functions and methods; a class stands for its constructor."""
    fronts = {name: import_module(name).__all__ for name in FRONTS}
    for front, names in fronts.items():
        for name in names:
            each = getattr(import_module(front), name)
            if callable(each) and name not in UNCHECKED:
                yield name, each
            if inspect.isclass(each) and not inspect.isabstract(each):
                for method, of in inspect.getmembers(each):
                    known = f"{name}.{method}" not in UNCHECKED
                    if known and method[0] != "_" and hasattr(of, "__wrapped__"):
                        whole = inspect.ismethod(of)
                        yield f"{name}.{method}", of if whole else bound(each, method)


def bound(of: type, method: str) -> Any:
    return getattr(object.__new__(of), method)


def function_of(call: Any) -> Any:
    return call.__init__ if inspect.isclass(call) else call


def is_checked(call: Any) -> bool:
    return hasattr(function_of(call), "__wrapped__")


def hints_of(call: Any) -> dict[str, Any]:
    function = inspect.unwrap(function_of(call))
    return get_type_hints(function, include_extras=True)


def wanted(call: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(call).parameters


CALLABLES = dict(callables())


@pytest.mark.parametrize("name", CALLABLES)
def test_every_public_callable_checks_its_arguments(name: str) -> None:
    call = CALLABLES[name]
    if inspect.isclass(call) and getattr(call, "_is_protocol", False):
        return  # a contract that users implement
    assert is_checked(call) or not wanted(call)


def sample(hint: Any) -> Any:
    """A value that matches an annotation."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Annotated, Union, types.UnionType):
        return sample(inside[0])
    if origin is Literal:
        return inside[0]
    simple = {str: "x", int: 1, float: 0.5, bool: True, Path: Path("x")}
    if hint in simple:
        return simple[hint]
    if origin is not None:
        return (
            {} if issubclass(origin, Mapping) else print if origin is Callable else []
        )
    if getattr(hint, "_is_protocol", False):
        return MagicMock()
    return object.__new__(hint) if isinstance(hint, type) and hint is not Any else None


CASES = [
    (name, argument)
    for name, call in CALLABLES.items()
    if is_checked(call)
    for argument, hint in hints_of(call).items()
    if argument not in ("return", "settings", "rest") and hint not in (Any, object)
]


@pytest.mark.parametrize("wrong", [Stranger(), Stranger])
@pytest.mark.parametrize(("name", "argument"), CASES)
def test_argument_of_a_wrong_type_is_named(
    name: str, argument: str, wrong: object
) -> None:
    call, hint = CALLABLES[name], hints_of(CALLABLES[name])[argument]
    if wrong is Stranger and "Callable" in str(hint):
        pytest.skip("a class can be called")
    parameters = wanted(call)
    given = {
        other: sample(hints_of(call)[other])
        for other, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in VARIABLE
    }
    with pytest.raises(InvalidInput) as caught:
        if parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL:
            call(wrong)
        else:
            call(**{**given, argument: wrong})
    said = str(caught.value)
    assert said.startswith(f"{name}: {argument}") and "\n" not in said
    assert "expected " in said and "found " in said
    assert said.endswith(")")  # what to give instead


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a negative number of runs": (
        lambda: forewarn.learn(scenario="tiny-road", runs=-5),
        "learn: runs: expected a whole number of at least 1, found -5",
    ),
    "a rate above 1": (
        lambda: forewarn.tune("tiny-road", model="m.json", false_alarm_rate=10),
        "tune: false_alarm_rate: expected a number below 1, found 10",
    ),
    "not a number": (
        lambda: forewarn.risks("t", model="m.json", horizon_s=float("nan")),
        "risks: horizon_s: expected a number, found nan",
    ),
    "a number in place of a name within a list": (
        lambda: forewarn.measure("tiny-road", laws=["no_collision", 7]),  # type: ignore[list-item]
        r"measure: laws\[1\]: expected text, found 7",
    ),
    "an intervention that is misspelt": (
        lambda: forewarn.tune("tiny-road", model="m", intervene="stopp"),  # type: ignore[arg-type]
        r"tune: intervene: expected one of proceed, .* found 'stopp' \(did you mean st",
    ),
    "text in place of a list": (
        lambda: forewarn.measure("tiny-road", baselines="ttc"),
        "measure: baselines: expected a list of texts, found 'ttc'",
    ),
    "a switch for a number": (
        lambda: forewarn.tune("tiny-road", model="m.json", jobs=True),
        "tune: jobs: expected a whole number, found True",
    ),
    "a duration below 0": (
        lambda: forewarn.Policy(hold_s=-1),
        "Policy: hold_s: expected a number of at least 0, found -1",
    ),
    "a minimum above the maximum": (
        lambda: forewarn.plugins.number(5, 1),
        "the minimum 5 is above the maximum 1",
    ),
    "an option of the command": (
        lambda: forewarn.measure("tiny-road", laws="no_law", runs=1),
        "`laws`: the law book has no law 'no_law'",
    ),
    "no model": (
        lambda: forewarn.load_watch([], horizon_s=1),
        "load_watch: model: there is no model",
    ),
    "a live view that does not exist": (
        lambda: forewarn.watched_live("lime").__enter__(),
        "watched_live: 'lime' is not a live view",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_value_is_named_with_its_place(what: str) -> None:
    call, says = WRONG[what]
    with pytest.raises(InvalidInput, match=says):
        call()


@pytest.mark.parametrize(
    ("front", "name"), [(front, name) for front in EXTRAS for name in EXTRAS[front]]
)
def test_wrappers_of_other_libraries_check_their_arguments(
    front: str, name: str
) -> None:
    try:
        call = getattr(import_module(front), name)
    except forewarn.MissingDependency as missing:
        pytest.skip(str(missing))
    assert is_checked(call) and hints_of(call)
