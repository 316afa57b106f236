"""Option groups that several commands share."""

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


class KindsType(click.types.StringParamType):
    """An option type for kinds of intervention; the help lists the kinds."""

    def get_metavar(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str:
        return f"[{'|'.join(_offered())}],…"


Kinds = Annotated[str, KindsType()]


# -- worlds, pilots and processes
# --------------------------------------------------------


def _ray(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "ray" or re.fullmatch(r"ray://[^\s/]+:\d+", value):
        return value
    raise click.BadParameter(f"{value!r:.60} is neither ray nor ray://HOST:PORT")


@dataclass(frozen=True, slots=True)
class Working:
    """The processes to use.

    Args:
        jobs: Number of processes.
        on: Run on Ray: an existing cluster, or a local one that stops when the command
            ends. --jobs limits the number of concurrent runs.
    """

    jobs: Many = 1
    on: Annotated[str | None, "ray[://HOST:PORT]", _ray] = None

    def pool(self) -> Pool:
        """Returns the pool of processes."""
        from forewarn.scenarios.running.campaign import pool

        return pool(self.jobs, self.on)


@dataclass(frozen=True, slots=True)
class Where:
    """The world that a scenario runs in.

    Args:
        world: World to use instead of the scenario's own; `carla` can run SUMO
            scenarios. SCENARIO@NAME means the same.
        law: Law to watch instead of the scenario's laws: a name or a formula; may be
            repeated.
    """

    world: Annotated[str | None, "NAME"] = None
    law: LawNames = ()

    def scenario(self, name: str) -> Scenario:
        """Loads a scenario, with the requested world and laws."""
        from forewarn.scenarios.schema import load_scenario

        scenario = load_scenario(name)
        scenario = scenario if self.world is None else scenario.on(self.world)
        return scenario.under(self.law) if self.law else scenario


@dataclass(frozen=True, slots=True)
class Driven(Where):
    """The world and the pilot of a scenario.

    Args:
        pilot: Pilot to use instead of the scenario's pilot, such as driving-llm.
        set: Setting of the pilot, such as model=ollama:llama3.1; may be repeated.
    """

    pilot: Annotated[str | None, "NAME"] = None
    set: KeyValues = ()

    def scenario(self, name: str) -> Scenario:
        """Loads a scenario, with the requested world, laws, pilot and settings."""
        from forewarn.scenarios.schema import NamedPlugin

        scenario = Where.scenario(self, name)
        pilot, given = self.pilot, keyed(self.set, "--set")
        if pilot is None:
            pilot, given = scenario.pilot.name, {**scenario.pilot.settings, **given}
        return scenario.driven_by(NamedPlugin(name=pilot, settings=given))


# -- the model and policy of a guard -------------------------------------------


@dataclass(frozen=True, slots=True)
class Warned:
    """The guard's model and policy (default: those shipped with the scenario).

    Args:
        model: Model of the guard, or folder of a guard with a certificate.
        accept_model: Accept a model learned for a different scenario, vocabulary or
            sampling period.
        policy: Policy file, which defines the risk at which each intervention begins.
        preset: Shipped policy to use: the one tuned for alerts, or the one tuned for
            stops with `forewarn tune --preset stop` (not with --policy).
        horizon: Prediction horizon in seconds (default: that of the policy, or else of
            the scenario).
        intervene: Interventions to use, separated by commas, the mildest first. none:
            decide and record, but do not intervene.
    """

    model: AnyPath | None = None
    accept_model: bool = False
    policy: File | None = None
    preset: Annotated[Literal["alert", "stop"], Formerly("--for")] = "alert"
    horizon: Positive | None = None
    intervene: Kinds | None = None

    def files(self, scenario: Scenario) -> tuple[Path | None, Path | None, str]:
        """Returns the files of the model and the policy, and a message if they are the
        shipped files.
        """
        from forewarn.monitors.chains.model import (
            has_other_predicates,
            load_models,
            refuse_other,
        )
        from forewarn.monitors.guarding.certificate import guard_files
        from forewarn.monitors.risk.evidence import refuse_undecided_by
        from forewarn.scenarios.shipped import shipped_with

        files = shipped_with(scenario)
        model, policy, purpose = self.model, self.policy, self.preset
        if model is not None:
            model, policy = guard_files(model, policy)
            models = load_models(model)
            if not self.accept_model:
                for each in models:
                    refuse_other(each, str(model), **scenario.facts)
            with naming(model):
                refuse_undecided_by(models, scenario.laws)
            if policy is None and purpose != "alert":
                raise InvalidInput(
                    f"--preset {purpose} is tuned for the shipped model, not for yours",
                    mend="give your own policy with --policy",
                )
            name, current = scenario.name, scenario.abstraction
            if any(has_other_predicates(each, name, current) for each in models):
                note(
                    f"{model}: the model was learned with predicates that differ from "
                    f"the abstraction of {name}, and uses those predicates (to use the "
                    "present abstraction, learn a new model with forewarn learn)."
                )
            return model, policy, ""
        if files is None:
            if "preset" in given_options():
                raise click.UsageError(
                    f"--preset chooses a shipped policy, and {scenario.name} has none "
                    "(give --model and --policy)"
                )
            return None, policy, ""
        if "law" in given_options():
            refuse_undecided_by(load_models(files.model), scenario.laws)
        said = f"Guarded by the model that ships with {scenario.name}"
        if policy is None:
            policy = files.policy_for(purpose)
            if not policy.exists():
                raise InvalidInput(
                    f"no policy for --preset {purpose} is shipped with {scenario.name}",
                    mend=(
                        f"create one with forewarn tune {scenario.name} --preset "
                        f"{purpose}"
                    ),
                )
            said += f", at the thresholds of --preset {purpose}"
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
    model: Path | None = None,
) -> Policy:
    """Loads a policy, or creates the default one, and applies the options.

    Args:
        path: The policy file; None for the default policy.
        horizon_s: The requested horizon in s; None for that of the policy.
        scenario_horizon_s: The horizon of the default policy, in s.
        intervene: The requested interventions, as text.
        thresholds: The requested threshold of each intervention. If empty, the
            thresholds are those of the file, which may differ by law, or else
            those of `THRESHOLDS`.
        when: Whether to evaluate the state before or after an action.
        laws: The laws of the scenario. For laws that require the car to move, a tuned
            policy only alerts.
        shadow: Whether to decide and record without enforcing anything.
        model: The guard's model; the guarantees of a policy that was tuned for another
            one are dropped.
    """
    from forewarn.monitors.guarding.certificate import deciding
    from forewarn.monitors.guarding.decision import THRESHOLDS
    from forewarn.monitors.guarding.policy import (
        ANY_LAW,
        Policy,
        Step,
        acting,
        load_policy,
    )

    policy = load_policy(path) if path else Policy(horizon_s=scenario_horizon_s)
    if (longest_s := max(policy.deadline_s.values())) > policy.lease_s:
        note(
            f"{path}: deadline_s: {longest_s:g} s is longer than lease_s "
            f"({policy.lease_s:g} s), so the lease ends before a slow review does "
            "(write seconds, such as deadline_s: 0.02)."
        )
    if model and policy.tuned_for and policy.tuned_for != deciding(model, policy):
        note(
            f"{path}: the policy was tuned for another model than {model}, so nothing "
            "is guaranteed (tune it again with forewarn tune)."
        )
        policy = replace(policy, promises={}, ordinary={})
    policy = replace(policy, shadow=policy.shadow or shadow)
    if horizon_s is not None and horizon_s != policy.horizon_s:
        policy = replace(
            policy, horizon_s=horizon_s, calibration={}, promises={}, if_acted={}
        )
    if when is not None:
        policy = replace(policy, when=when)
    kinds = _kinds(intervene)
    if kinds == ["none"]:
        return replace(policy, shadow=True)
    if not kinds and not thresholds:
        return policy
    wanted = kinds or ["alert"]
    tuned = path is not None and all(len(each) == 1 for each in policy.rules.values())
    if tuned and len(wanted) == 1 and not thresholds:
        return acting(policy, kind(wanted[0]), laws)
    levels = list(thresholds) or [THRESHOLDS[kind(name)] for name in wanted]
    if len(levels) != len(wanted):
        raise click.UsageError(
            f"--threshold has {len(levels)} numbers for {', '.join(wanted)} (give "
            "one for each, separated by commas)"
        )
    if sorted(levels) != levels:
        raise click.UsageError(
            "--threshold: a more severe intervention needs a higher threshold"
        )
    steps = tuple(Step(kind(k), at) for k, at in zip(wanted, levels, strict=True))
    return replace(
        policy, rules={ANY_LAW: steps}, promises={}, name="from the command line"
    )


def _kinds(text: str | None) -> list[str]:
    from forewarn.abstractions.errors import near_miss

    if text is None:
        return []
    offered = _offered()
    kinds = [part.strip() for part in text.split(",")]
    for name in kinds:
        if name not in offered:
            hint = near_miss(name, offered) or f"one of {', '.join(offered)}"
            raise click.UsageError(
                f"--intervene: unknown intervention {name!r:.60} ({hint})"
            )
    if "none" in kinds and len(kinds) > 1:
        raise click.UsageError(
            "--intervene none cannot be combined with other interventions"
        )
    if [k for k in offered if k in kinds] != kinds:
        ordered = ",".join(k for k in offered if k in kinds)
        raise click.UsageError(
            "--intervene: list each intervention once, the mildest first (write "
            f"--intervene {ordered})"
        )
    return kinds


def _offered() -> tuple[str, ...]:
    from forewarn.monitors.guarding.decision import THRESHOLDS

    return "none", *THRESHOLDS


def kind(text: str) -> Kind:
    """Returns the intervention with this name."""
    from forewarn.monitors.guarding.decision import SEVERITY

    return SEVERITY[SEVERITY.index(text)]


def gaps(
    policy: Policy, laws: Sequence[str], left_out: Collection[str] = ()
) -> Iterator[str]:
    """Yields warnings about laws without thresholds, and about thresholds without laws.

    Raises:
        InvalidPolicy: The policy has no rule for any of the laws.
    """
    for law in policy.without_rule(laws):
        yield (
            f"The policy has no rule for the law {law}, so the guard never intervenes "
            "for it."
        )
    for law in policy.rules:
        if law not in ("*", *laws, *left_out):
            yield f"The policy has a rule for {law}, which is not watched."


_TUNED = re.compile(
    r"([\w-]+), (?:false-alarm rate |at most [\d.]+ false alarms|to \w+ at )"
)
"""The name that `tune` and `train` give a policy; it begins with the scenario."""


def tell_gaps(policy: Policy, path: Path | None, scenario: Scenario) -> None:
    """Prints warnings to standard error: those of `gaps`, and those about a policy that
    was tuned for another scenario, or whose horizon is longer than a run.
    """
    with naming(path or "the policy"):
        for line in gaps(policy, [law.name for law in scenario.laws]):
            note(line)
    tuned = _TUNED.match(policy.name)
    if tuned and tuned[1] != scenario.name:
        note(
            f"The policy was tuned for {tuned[1]}, so its guarantees do not apply to "
            f"{scenario.name}; tune one with forewarn tune {scenario.name}."
        )
    if policy.horizon_s > (most_s := scenario.end.max_time_s):
        note(
            f"The horizon of {policy.horizon_s:g} s is longer than a run of "
            f"{scenario.name}, which ends after {most_s:g} s (give --horizon or "
            "horizon_s in seconds)."
        )


# -- rules and guard programs --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judging:
    """The rules and guard programs to apply in addition to the risk check.

    Args:
        guard_program: Signed guard program to apply in addition to the risk check; may
            be repeated.
        rules: File of rules to apply in addition to the risk check; may be repeated.
        predicates: With --rules: YAML file with your own predicates; may be repeated.
        user: With --guard-program: fact about the user, such as role=child; may be
            repeated.
        place: With --guard-program: fact about the location, such as room=bedroom; may
            be repeated.
        request: With --guard-program: text of the user's request.
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
        """Creates the judges for a guard; guards cannot share them, because they have
        state.

        Unsigned programs are accepted only in shadow mode.
        """
        from forewarn.plugins.programs.judging import read_judge
        from forewarn.plugins.programs.rules import rule_judge

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
            *(rule_judge(path, self.predicates) for path in self.rules),
        ]


# -- alerts and approval -----------------------------------------------------


def to_log() -> Listener:
    """Creates a listener that prints each intervention to standard error."""
    import logging

    from forewarn.plugins.loop.alerts import LOGGER, LogAlerts

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("forewarn: %(message)s"))
    logging.getLogger(LOGGER).handlers[:] = [handler]
    logging.getLogger(LOGGER).propagate = False
    return LogAlerts()


@cache
def _webhook(url: str, allow_host: str | None) -> Listener:
    """Returns the listener of this process that posts each intervention to a webhook;
    pending posts are sent before the process exits.
    """
    from multiprocessing.util import Finalize

    from forewarn.plugins.loop.alerts import Webhook

    hook = Webhook(url, allow_host=allow_host)
    # Unlike atexit, this also runs in the processes of a pool.
    Finalize(None, hook.close, exitpriority=1)
    return hook


@dataclass(frozen=True, slots=True)
class Telling:
    """Receivers of alerts about interventions.

    Args:
        log: Print each intervention to standard error when it begins.
        webhook: URL to which each intervention is posted as JSON.
        webhook_host: With --webhook: allow the webhook to be on HOST; by default, it
            must be on the local machine.
    """

    log: bool = False
    webhook: Annotated[str | None, "URL"] = None
    webhook_host: Annotated[str | None, "HOST"] = None

    def listeners(self) -> list[Callable[[], Listener]]:
        """Returns functions that create the listeners; reports invalid options
        immediately.

        Includes OpenTelemetry if it is installed.
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
    """Returns an approver that asks the person at the terminal; None without a
    terminal.
    """
    from forewarn.plugins.loop.approval import Console

    return Console() if sys.stdin.isatty() else None


# -- laws ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Book:
    """The law book to use.

    Args:
        edition: Edition of the law book; editions differ in formulas and times.
        book: Law file to use instead of the law book.
    """

    edition: Literal["probguard", "lawbreaker"] = "probguard"
    book: Path | None = None

    def laws(self) -> LawBook:
        """Loads the law book."""
        from forewarn.monitors.laws.lawbook import law_book

        return law_book(self.edition, self.book)
