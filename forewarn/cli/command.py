"""Creates click commands from the signatures and docstrings of typed functions.

Each command is a function. Positional-only parameters become arguments, and other
parameters become options. A parameter can also be a group: a frozen dataclass whose
fields are options, so that commands can share options. The help of each option is under
`Args:` in the docstring of the function or the group.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import click
from click.core import ParameterSource

from forewarn.cli.completing import COMPLETED

Run = Callable[..., None]

_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 0.001, "min": 60.0, "h": 3600.0}

_WITH_UNIT = re.compile(r"'(\d+\.?\d*) ?(%|[a-z]+)' is not a ")
"""An error message about a number with a unit."""


def _plainly(message: str, of: click.IntRange | click.FloatRange) -> str:
    """Rewords click's error message for a number outside its range."""
    least, most = of.min or 0, of.max
    said = f"above {least:g}" if of.min_open else f"{least:g} or more"
    if most is not None:
        said = f"{'strictly between' if of.min_open else 'from'} {least:g}"
        said += f" {'and' if of.min_open else 'to'} {most:g}"
    outside, outside_it, _ = message.partition(" is not in the range ")
    if not outside_it:
        return message
    return f"{outside} must be {said}{_as_percent(outside, most)}."


def _as_percent(outside: str, most: float | None) -> str:
    """Returns a hint if a fraction was probably written in percent."""
    percent = float(outside)
    is_percent = most == 1 and 1 < percent <= 100
    return f"; write {percent / 100:g} for {percent:g} %" if is_percent else ""


class _Plain:
    """A number type with plain error messages."""

    def fail(
        self,
        message: str,
        param: click.Parameter | None = None,
        ctx: click.Context | None = None,
    ) -> NoReturn:
        assert isinstance(self, click.IntRange | click.FloatRange)  # noqa: S101
        plain = message.replace("is not a valid count", "is not a whole number")
        plain = plain.replace("is not a valid number", "is not a number")
        if unit := _WITH_UNIT.match(plain):
            alone = "only a number, in the unit given in the help"
            if unit[2] == "%":
                alone = f"{float(unit[1]) / 100:g}"
            elif unit[2] in _SECONDS and "second" in str(getattr(param, "help", "")):
                alone = f"{float(unit[1]) * _SECONDS[unit[2]]:g}, in s"
            plain = f"{plain.rstrip('.')}; write {alone}"
        raise click.BadParameter(_plainly(plain, self), ctx=ctx, param=param)


class Count(_Plain, click.IntRange):
    """An integer in a range."""

    name = "count"


class Number(_Plain, click.FloatRange):
    """A finite number in a range; unlike click's type, it rejects nan and inf."""

    name = "number"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Numbers(click.ParamType[Any]):
    """A list of numbers from 0 to `most`, separated by commas."""

    name = "text"

    def __init__(self, most: float) -> None:
        self._most = most

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(float(part) for part in value.split(",") if value)
        except ValueError:
            mend = "; write 0.3 for 30 %" if "%" in value else ""
            self.fail(
                f"{value!r:.60} is not a list of numbers separated by commas{mend}",
                param,
                ctx,
            )
        for number in found:
            if not 0 <= number <= self._most:
                most = f"{self._most:g}{_as_percent(str(number), self._most)}"
                self.fail(f"{number:g} is not between 0 and {most}", param, ctx)
        return found


_FILE = re.compile(r"\.(jsonl?|csv|ya?ml|html)(\.gz)?$")
"""The end of the name of a file; a dataset's folder may end in .parquet."""


class FolderType(click.Path):
    """A folder; one that is written to cannot have the name of a file."""

    def __init__(self, **checks: Any) -> None:
        super().__init__(path_type=Path, **checks)

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        end = _FILE.search(str(value))
        written = not self.file_okay and param is not None and param.name == "out"
        if end and written and not Path(value).exists():
            problem = "is the name of a file, but a folder is written"
            self.fail(f"{value} {problem}; leave out {end[0]}", param, ctx)
        return super().convert(value, param, ctx)


class PlaceType(FolderType):
    """A path, or a storage URL such as `s3://bucket/runs`."""

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if "://" not in str(value):
            return super().convert(value, param, ctx)
        from forewarn.abstractions.places import place

        return place(value)


File = Annotated[Path, click.Path(dir_okay=False, path_type=Path)]
Folder = Annotated[Path, FolderType(file_okay=False)]
Existing = Annotated[Path, click.Path(exists=True, path_type=Path)]
AnyPath = Annotated[Path, click.Path(path_type=Path)]
Place = Annotated[Path, PlaceType()]
FolderPlace = Annotated[Path, PlaceType(file_okay=False)]
FilePlace = Annotated[Path, PlaceType(dir_okay=False)]
Seed = Annotated[int, Count(min=0), "SEED"]
Many = Annotated[int, Count(min=1)]
Positive = Annotated[float, Number(min=0, min_open=True)]
NotNegative = Annotated[float, Number(min=0)]
Share = Annotated[float, Number(0, 1)]
Chance = Annotated[float, Number(0, 1, min_open=True, max_open=True)]
Port = Annotated[int, Count(0, 65535), "PORT"]
KeyValues = tuple[Annotated[str, "KEY=VALUE"], ...]
LawNames = tuple[Annotated[str, "--law", "NAME_OR_FORMULA"], ...]
"""Types of options. The annotations of a type can be a click type or a callback that
parses the value, the name of the option (beginning with a dash), and the metavar in the
help.
"""

_TYPES: dict[Any, click.ParamType[Any]] = {
    str: click.STRING,
    int: Count(),
    float: Number(),
    Path: click.Path(path_type=Path),
}


class OnlyFlag(NamedTuple):
    """Marks an option with an optional value; `value` is used if none is given."""

    value: str


class Formerly(NamedTuple):
    """The name of an option in the previous release, still accepted."""

    option: str


class _Renamed(click.Option):
    """An option that also accepts its former name, which the help does not show."""

    formerly: Formerly

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, self.formerly.option]
        super().add_to_parser(parser, ctx)
        self.opts = shown


class _Typed(NamedTuple):
    """A parsed annotation: the type, the other arguments of `Annotated`, and whether
    the option takes several values.
    """

    of: Any
    marks: tuple[Any, ...]
    many: bool


def _typed(hint: Any) -> _Typed:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        found = _typed(inner[0])
        return found._replace(marks=(*found.marks, *inner[1:]))
    if origin in (Union, types.UnionType):
        (one,) = (each for each in inner if each is not type(None))
        return _typed(one)
    if origin is tuple and inner[-1] is ...:
        return _typed(inner[0])._replace(many=True)
    return _Typed(hint, (), many=False)


def _parameter(
    name: str, hint: Any, default: Any, told: str, argument: bool
) -> click.Parameter:
    of, marks, many = _typed(hint)
    names = [mark for mark in marks if isinstance(mark, str) and mark.startswith("-")]
    words = [mark for mark in marks if isinstance(mark, str) and mark not in names]
    kinds = [mark for mark in marks if isinstance(mark, click.ParamType)]
    kinds += [Number(mark.gt, min_open=True) for mark in marks if hasattr(mark, "gt")]
    facts: dict[str, Any] = {"type": kinds[-1] if kinds else None}
    if get_origin(of) is Literal:
        choices = get_args(of)
        facts["type"] = click.Choice([str(each) for each in choices])
        if isinstance(choices[0], int):
            facts["callback"] = lambda ctx, param, value: int(value)
            default = str(default)
    elif of is not bool and not kinds:
        facts["type"] = _TYPES[of]
    for mark in marks:
        if inspect.isfunction(mark):
            facts["callback"] = mark
        elif isinstance(mark, OnlyFlag):
            facts |= {"is_flag": False, "flag_value": mark.value}
    if words:
        facts["metavar"] = words[-1]
    if name in COMPLETED:
        facts["shell_complete"] = COMPLETED[name]
    required = default is inspect.Parameter.empty
    many = many and not isinstance(facts["type"], Numbers)
    if argument:
        facts |= {"nargs": -1} if many else {}
        return click.Argument([name], required=required, **facts)
    shown = f"--{name.rstrip('_').removesuffix('_s').replace('_', '-')}"
    if of is bool:
        facts |= {"is_flag": True}
        shown = f"{shown}/--no-{shown[2:]}" if default is True else shown
    facts |= {"multiple": True} if many else {}
    facts |= {} if required else {"default": default}
    plain = required or default in (None, (), "") or isinstance(default, bool)
    formerly = [mark for mark in marks if isinstance(mark, Formerly)]
    made = (_Renamed if formerly else click.Option)(
        [*(names or [shown]), name],
        help=told,
        required=required,
        show_default=not plain,
        **facts,
    )
    if isinstance(made, _Renamed):
        (made.formerly,) = formerly
    return made


def _told(about: object) -> tuple[str, dict[str, str]]:
    """Splits a docstring into its text and the description of each parameter in
    `Args:`.
    """
    text, _, rest = (inspect.getdoc(about) or "").partition("\nArgs:\n")
    found: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line.startswith("    ") and not line.startswith("     "):
            name, _, line = line.strip().partition(":")
            found[name] = line.strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return text.strip(), found


def _options(made: type) -> Iterator[click.Parameter]:
    """Yields the options of a group and of nested groups, in the order of the
    fields.
    """
    hints = get_type_hints(made, include_extras=True)
    told: dict[str, str] = {}
    for each in reversed(made.__mro__[:-1]):
        told |= _told(each)[1]
    for field in fields(made):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from _options(hint)  # type: ignore[arg-type]
        else:
            missing = field.default is MISSING
            default = inspect.Parameter.empty if missing else field.default
            yield _parameter(field.name, hint, default, told[field.name], False)


def _made(made: type, given: dict[str, Any]) -> Any:
    hints = get_type_hints(made)
    return made(
        **{
            field.name: _made(hints[field.name], given)
            if is_dataclass(hints[field.name])
            else given[field.name]
            for field in fields(made)
        }
    )


def command(
    name: str = "", of: click.Group | None = None, json: bool = True, **settings: Any
) -> Callable[[Run], click.Command]:
    """Returns a decorator that creates a click command from a typed function.

    Args:
        name: The name of the command (default: the name of the function).
        of: The click group that the command is added to.
        json: Whether the command takes --json; `say` then prints JSON.
        settings: More arguments for `click.Command`.
    """

    def make(run: Run) -> click.Command:
        text, told = _told(run)
        hints = get_type_hints(run, include_extras=True)
        options: list[click.Parameter] = []
        groups: dict[str, type] = {}
        for each in inspect.signature(run).parameters.values():
            hint = hints[each.name]
            if is_dataclass(hint):
                groups[each.name] = hint  # type: ignore[assignment]
                options += _options(groups[each.name])
                continue
            argument = each.kind is inspect.Parameter.POSITIONAL_ONLY
            words = "" if argument else told[each.name]
            options.append(_parameter(each.name, hint, each.default, words, argument))
        arguments = [each.name for each in options if isinstance(each, click.Argument)]
        if json:
            words = "Print only JSON."
            options.append(
                click.Option(["--json", "as_json"], is_flag=True, help=words)
            )

        def call(**given: Any) -> None:
            given.pop("as_json", None)
            check_combined(options)
            handed = {each: _made(made, given) for each, made in groups.items()}
            placed = [given.pop(each) for each in arguments]
            own = {
                each: given[each]
                for each in (hints.keys() & given.keys()) - groups.keys()
            }
            run(*placed, **own, **handed)

        made = click.Command(
            name or run.__name__.rstrip("_").replace("_", "-"),
            callback=call, params=options, help=text, **settings,
        )  # fmt: skip
        if of is not None:
            of.add_command(made)
        return made

    return make


def given_options() -> dict[str, str]:
    """Maps parameter names to option names, for the options that were given."""
    ctx = click.get_current_context()
    return {
        option.name: option.opts[0]
        for option in ctx.command.params
        if option.name
        and ctx.get_parameter_source(option.name) == ParameterSource.COMMANDLINE
    }


_OPTIONS = r"--[a-z-]+(?: [a-z]+)?(?:(?:, | or )(?:--)?[a-z-]+(?: [a-z]+)?)*"
_NEEDS = re.compile(rf"With ({_OPTIONS}): ")
"""The beginning of the help of an option that applies only with another option, or only
with these values of it: `With --preset slow or stop: …`.
"""
_APART = re.compile(rf"\(not with ({_OPTIONS})\)")
"""The part of an option's help that names the options it cannot be combined with."""


def _named(text: str) -> list[tuple[str, str]]:
    """Returns the options in a list such as `--preset slow or stop, --runs`, each with
    a value or an empty text.
    """
    found: list[tuple[str, str]] = []
    for part in re.split(", | or ", text):
        option, _, value = part.rpartition(" ") if " " in part else (part, "", "")
        if not part.startswith("--"):
            option, value = found[-1][0], part
        found.append((option, value))
    return found


def check_combined(options: Sequence[click.Parameter]) -> None:
    """Rejects options that, according to their help, need other options or cannot be
    combined with them.
    """
    given, values = given_options(), click.get_current_context().params
    names = {option: each.name or "" for each in options for option in each.opts}

    def applies(option: str, value: str) -> bool:
        name = names[option]
        return str(values[name]) == value if value else name in given

    for each in options:
        words = getattr(each, "help", None) or ""
        if each.name not in given:
            continue
        needed, apart = _NEEDS.match(words), _APART.search(words)
        if needed and not any(applies(*other) for other in _named(needed[1])):
            raise click.UsageError(f"{given[each.name]} requires {needed[1]}")
        for other in _named(apart[1]) if apart else ():
            if applies(*other):
                raise click.UsageError(
                    f"{given[each.name]} cannot be combined with "
                    f"{' '.join(other).strip()} (leave out one of them)"
                )


def one_of(*options: str) -> None:
    """Rejects a command that was not given exactly one of these options, each with its
    metavar, if any.
    """
    used = given_options().values()
    if sum(option.partition(" ")[0] in used for option in options) != 1:
        *others, last = options
        raise click.UsageError(f"give exactly one of {', '.join(others)} and {last}")


def keyed(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Parses the KEY=VALUE pairs of an option; values are YAML."""
    from forewarn.abstractions.files import parse_yaml

    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(
                f"{option}: {text!r:.60} is not KEY=VALUE (as in speed=3)"
            )
        given[key] = parse_yaml(value, f"{option} {key}") if value else ""
    return given
