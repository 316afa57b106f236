"""Groups of options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.cli.command import (
    AnyPath,
    File,
    Formerly,
    KeyValues,
    LawNames,
    Many,
    Positive,
    given_options,
    keyed,
)
from forewarn.cli.printing import note

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import (
        Judge,
        Kind,
    )
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.monitors.guarding.policy import Policy, When
    from forewarn.monitors.laws.lawbook import Law, LawBook
    from forewarn.plugins.loop.approval import Approver
    from forewarn.scenarios.running.pools import (
        Pool,
    )
    from forewarn.scenarios.schema import Scenario

KINDS = ("none", "alert", "reflect", "ask", "slow", "stop")
THRESHOLDS = {"alert": 0.3, "reflect": 0.5, "ask": 0.5, "slow": 0.5, "stop": 0.8}
"""The risk at which an intervention begins by default."""


# -- where and how episodes run --------------------------------------------------------


def _ray(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "ray" or re.fullmatch(r"ray://[^\s/]+:\d+", value):
        return value
    raise click.BadParameter(f"{value!r:.60} is neither ray nor ray://HOST:PORT")


@dataclass(frozen=True, slots=True)
class Working:
    """Who does the work.

    Args:
        jobs: How many processes share the work.
        on: Do the work on Ray: on a cluster, or on one that is started here and ended
            with the command. --jobs says how many at a time.
    """

    jobs: Many = 1
    on: Annotated[str | None, "ray[://HOST:PORT]", _ray] = None

    def pool(self) -> Pool:
        """The processes."""
        from forewarn.scenarios.running.campaign import pool

        return pool(self.jobs, self.on)


@dataclass(frozen=True, slots=True)
class Where:
    """In which world a scenario runs.

    Args:
        world: Run it in this world instead of its own: `carla` takes SUMO's scenarios.
            SCENARIO@NAME means the same.
        law: A law to watch instead of the scenario's: a name or a formula; may be
            repeated.
    """

    world: Annotated[str | None, "NAME"] = None
    law: LawNames = ()

    def scenario(self, name: str) -> Scenario:
        """The scenario of that name, in its own world or in another, with its laws."""
        from forewarn.scenarios.schema import load_scenario

        scenario = load_scenario(name)
        scenario = scenario if self.world is None else scenario.on(self.world)
        return scenario.under(self.law) if self.law else scenario


@dataclass(frozen=True, slots=True)
class Driven(Where):
    """In which world a scenario runs, and who drives.

    Args:
        pilot: Who drives instead of the scenario's own pilot, such as driving-llm.
        set: A setting of the pilot, such as model=ollama:llama3.1; may be repeated.
    """

    pilot: Annotated[str | None, "NAME"] = None
    set: KeyValues = ()

    def scenario(self, name: str) -> Scenario:
        """The scenario with another pilot, or other settings of its own."""
        from forewarn.scenarios.schema import Plug

        scenario = Where.scenario(self, name)
        pilot, given = self.pilot, keyed(self.set, "--set")
        if pilot is None:
            pilot, given = scenario.pilot.name, {**scenario.pilot.settings, **given}
        return scenario.driven_by(Plug(name=pilot, settings=given))


# -- what a guard warns by, and what it does -------------------------------------------


@dataclass(frozen=True, slots=True)
class Warned:
    """The model that a guard warns by, and its policy; by default those that ship.

    Args:
        model: The model that the guard warns by, or the folder of a guard with a
            certificate.
        accept_model: Take a model of another scenario, vocabulary or period all the
            same.
        policy: What to do at which risk, as YAML.
        preset: Which shipped policy to use: the one tuned to alert, or the one tuned
            with the guard acting (`forewarn tune --preset stop`).
        horizon: How many seconds the guard's risk looks ahead; by default the policy's,
            or else the scenario's.
        intervene: What the guard may do, of none, alert, reflect, ask, slow, stop;
            several apart by commas, the mildest first. none: it decides and records,
            and lets everything pass.
    """

    model: AnyPath | None = None
    accept_model: bool = False
    policy: File | None = None
    preset: Annotated[Literal["alert", "stop"], Formerly("--for")] = "alert"
    horizon: Positive | None = None
    intervene: Annotated[str | None, "KINDS"] = None

    def files(self, scenario: Scenario) -> tuple[Path | None, Path | None, str]:
        """The model and the policy, and a sentence if they are those that ship."""
        from forewarn.monitors.chains.model import (
            load_models,
            refuse_other,
        )
        from forewarn.monitors.guarding.certificate import guard_files
        from forewarn.monitors.risk.evidence import refuse_undecided_by
        from forewarn.scenarios.shipped import shipped_with

        if "law" in given_options():
            files = shipped_with(scenario)
            used = self.model or (files.model if files else None)
            if used is not None:
                refuse_undecided_by(load_models(used), scenario.laws)
        model, policy, purpose = self.model, self.policy, self.preset
        if model is not None:
            model, policy = guard_files(model, policy)
            if not self.accept_model:
                for each in load_models(model):
                    refuse_other(each, str(model), **scenario.facts)
            if policy is None and purpose != "alert":
                raise InvalidInput(
                    f"--preset {purpose} is tuned for the shipped model, not for yours",
                    mend="give your own policy with --policy",
                )
            return model, policy, ""
        if (files := shipped_with(scenario)) is None:
            return None, policy, ""
        said = f"Guarded by the model that ships with {scenario.name}"
        if policy is None:
            policy = files.policy_for(purpose)
            if not policy.exists():
                raise InvalidInput(
                    f"no policy to {purpose} ships with {scenario.name}",
                    mend=f"make one: forewarn tune {scenario.name} --preset {purpose}",
                )
            said += f", at the thresholds tuned to {purpose}"
        return files.model, policy, f"{said}."


def chosen_policy(
    path: Path | None,
    horizon_s: float | None,
    scenario_horizon_s: float,
    intervene: str | None,
    thresholds: Sequence[float] = (),
    when: When | None = None,
    laws: Sequence[Law] = (),
    shadow: bool = False,
) -> Policy:
    """The policy in a file, or the default one, with what the options change.

    Args:
        path: The policy's file.
        horizon_s: The horizon that was asked for.
        scenario_horizon_s: The scenario's, for where nobody says.
        intervene: What the guard may do.
        thresholds: From which risk on; as many as interventions. None: those of a
            file that has one a law, or else `THRESHOLDS`.
        when: Which states are judged.
        laws: The scenario's: of those that ask to move a tuned policy only alerts.
        shadow: Whether nothing is enforced.
    """
    from forewarn.monitors.guarding.policy import (
        ANY_LAW,
        Policy,
        Step,
        acting,
        load_policy,
    )

    policy = load_policy(path) if path else Policy(horizon_s=scenario_horizon_s)
    policy = replace(policy, shadow=policy.shadow or shadow)
    if horizon_s is not None and horizon_s != policy.horizon_s:
        policy = replace(policy, horizon_s=horizon_s, calibration={}, promises={})
    if when is not None:
        policy = replace(policy, when=when)
    kinds = _kinds(intervene)
    if kinds == ["none"]:
        if thresholds:
            raise click.UsageError("--intervene none takes no --threshold")
        return replace(policy, shadow=True)
    if not kinds and not thresholds:
        return policy
    wanted = kinds or ["alert"]
    tuned = path is not None and all(len(each) == 1 for each in policy.rules.values())
    if tuned and len(wanted) == 1 and not thresholds:
        return acting(policy, kind(wanted[0]), laws)
    levels = list(thresholds) or [THRESHOLDS[name] for name in wanted]
    if len(levels) != len(wanted):
        raise click.UsageError(
            f"--threshold gives {len(levels)} numbers for {', '.join(wanted)}"
            " (give one for each, apart by commas)"
        )
    if sorted(levels) != levels:
        raise click.UsageError("--threshold: a severer intervention needs more risk")
    steps = tuple(Step(kind(k), at) for k, at in zip(wanted, levels, strict=True))
    return replace(
        policy, rules={ANY_LAW: steps}, promises={}, name="from the command line"
    )


def _kinds(text: str | None) -> list[str]:
    from forewarn.abstractions.errors import near_miss

    if text is None:
        return []
    kinds = [part.strip() for part in text.split(",")]
    for name in kinds:
        if name not in KINDS:
            hint = near_miss(name, KINDS) or f"one of {', '.join(KINDS)}"
            raise click.UsageError(f"--intervene: no {name!r:.60} ({hint})")
    if "none" in kinds and len(kinds) > 1:
        raise click.UsageError("--intervene none stands alone")
    if [k for k in KINDS if k in kinds] != kinds:
        raise click.UsageError("--intervene: name each once, the mildest first")
    return kinds


def kind(text: str) -> Kind:
    """The intervention of that name."""
    from forewarn.monitors.guarding.decision import SEVERITY

    return SEVERITY[SEVERITY.index(text)]


def gaps(
    policy: Policy, laws: Sequence[str], left_out: Collection[str] = ()
) -> Iterator[str]:
    """Where a policy and what is watched do not meet.

    Raises:
        InvalidPolicy: They meet nowhere.
    """
    for law in policy.without_rule(laws):
        yield f"The policy has no rule for the law {law}: it is never acted on."
    for law in policy.rules:
        if law not in ("*", *laws, *left_out):
            yield f"The policy has a rule for {law}, which is not watched."


def tell_gaps(policy: Policy, path: Path | None, laws: Sequence[str]) -> None:
    """Says on standard error where the policy of that file and the laws do not meet."""
    with naming(path or "the policy"):
        for line in gaps(policy, laws):
            note(line)


# -- who judges beside the risk --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judging:
    """The rules and guard programs that judge beside the risk.

    Args:
        guard_program: A signed guard program that judges beside the risk; may be
            repeated.
        rules: Rules that judge beside the risk; may be repeated.
        predicates: Predicates of yours that the rules use, written in YAML; may be
            repeated.
        user: What guard programs are told of who asks, such as role=child.
        place: What guard programs are told of where this is, such as room=bedroom.
        request: What guard programs are told of what was asked, in words.
    """

    guard_program: tuple[File, ...] = ()
    rules: tuple[File, ...] = ()
    predicates: tuple[File, ...] = ()
    user: KeyValues = ()
    place: KeyValues = ()
    request: str = ""

    def __bool__(self) -> bool:
        return bool(self.guard_program or self.rules)

    def judges(self, shadow: bool) -> list[Judge]:
        """They, anew for each guard: each remembers its own run.

        Programs that nobody signed are taken only where none is enforced.
        """
        from forewarn.plugins.programs.judging import read_judge

        if self.predicates and not self.rules:
            raise click.UsageError("--predicates are for --rules")
        if (self.user or self.place or self.request) and not self.guard_program:
            raise click.UsageError(
                "--user, --place and --request are for --guard-program"
            )
        facts = {
            "user": keyed(self.user, "--user"),
            "place": keyed(self.place, "--place"),
            **({"request": self.request} if self.request else {}),
        }
        return [
            *(
                read_judge(path, facts=facts, enforced=not shadow)
                for path in self.guard_program
            ),
            *(read_judge(path, self.predicates) for path in self.rules),
        ]


# -- who is told, and who is asked -----------------------------------------------------


def to_log() -> Listener:
    """Tells of interventions on standard error, a line each."""
    import logging

    from forewarn.plugins.loop.alerts import LOGGER, LogAlerts

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("forewarn: %(message)s"))
    logging.getLogger(LOGGER).handlers[:] = [handler]
    logging.getLogger(LOGGER).propagate = False
    return LogAlerts()


@cache
def _webhook(url: str, allow_host: str | None) -> Listener:
    """Posts interventions, the last ones before the end too; one a process."""
    from multiprocessing.util import Finalize

    from forewarn.plugins.loop.alerts import Webhook

    hook = Webhook(url, allow_host=allow_host)
    # Unlike atexit, this runs in the processes of a pool as well.
    Finalize(None, hook.close, exitpriority=1)
    return hook


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of interventions.

    Args:
        log: Say each intervention on standard error as it begins.
        webhook: Post each intervention there as JSON.
        webhook_host: The host that the webhook may be on, where that is not this
            machine.
    """

    log: bool = False
    webhook: Annotated[str | None, "URL"] = None
    webhook_host: Annotated[str | None, "HOST"] = None

    def listeners(self) -> list[Callable[[], Listener]]:
        """Make what is told of a loop; what is wrong with it shows now.

        Where OpenTelemetry is installed, it is told too.
        """
        from forewarn.plugins.telemetry import OpenTelemetry, is_installed

        found: list[Callable[[], Listener]] = [to_log] if self.log else []
        if self.webhook is not None:
            hook = partial(_webhook, self.webhook, self.webhook_host)
            hook()
            found.append(hook)
        if is_installed():
            found.append(OpenTelemetry)
        return found


def person() -> Approver | None:
    """Who is asked: whoever sits at the terminal, if anybody does."""
    from forewarn.plugins.loop.approval import Console

    return Console() if sys.stdin.isatty() else None


# -- laws ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Book:
    """The law book.

    Args:
        edition: Whose text and times the law book gives.
        book: A law file of your own, instead of the law book.
    """

    edition: Literal["probguard", "lawbreaker"] = "probguard"
    book: Path | None = None

    def laws(self) -> LawBook:
        """The laws."""
        from forewarn.monitors.laws.lawbook import law_book

        return law_book(self.edition, self.book)
