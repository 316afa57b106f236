"""What the commands that run episodes share: options, policy, progress, sentences."""

from __future__ import annotations

import sys
import time
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forewarn.cli.support import Count, Number, clean, naming, progress

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.monitors.guarding.decision import Action, Decision, Kind
    from forewarn.monitors.guarding.judges import Judge
    from forewarn.monitors.guarding.policy import Policy, When
    from forewarn.monitors.laws.lawbook import Law
    from forewarn.plugins.loop.alerts import Alert
    from forewarn.plugins.loop.approval import Approver
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.running.runner import EpisodeObserver
    from forewarn.scenarios.schema import Scenario

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
NAME_WIDTH = 40

KINDS = ("none", "alert", "reflect", "ask", "slow", "stop")
THRESHOLDS = {"alert": 0.3, "reflect": 0.5, "ask": 0.5, "slow": 0.5, "stop": 0.8}
"""At which risk an intervention that was asked for begins, unless that is said."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

model_option = partial(
    click.option, "--model", type=FILE, help="The model that the guard warns by."
)
accept_option = click.option(
    "--accept-model",
    "accept",
    is_flag=True,
    help="Take a model of another scenario, vocabulary or period all the same.",
)
policy_option = click.option(
    "--policy", "policy_path", type=FILE, help="What to do at which risk, as YAML."
)
horizon_option = click.option(
    "--horizon",
    type=Number(min=0, min_open=True),
    help="How many seconds the guard's risk looks ahead; by default the policy's, or"
    " else the scenario's.",
)
intervene_option = click.option(
    "--intervene",
    metavar="KINDS",
    help=f"What the guard may do, of {', '.join(KINDS)}; several apart by commas, the"
    " mildest first. none: it decides and records, and lets everything pass.",
)
when_option = click.option(
    "--when",
    type=click.Choice(["before", "after", "both"]),
    help="Judge what an action would lead to before it is done (in worlds that can"
    " foresee it), the state observed after it, or both; by default the policy's.",
)
world_option = click.option(
    "--world",
    metavar="NAME",
    help="Run it in this world instead of its own: `carla` takes SUMO's scenarios."
    " SCENARIO@NAME means the same.",
)
pilot_option = click.option(
    "--pilot",
    metavar="NAME",
    help="Who drives instead of the scenario's own pilot, such as driving-llm.",
)
settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the pilot, such as model=ollama:llama3.1; may be repeated.",
)
guard_program_option = click.option(
    "--guard-program",
    "guard_programs",
    type=FILE,
    multiple=True,
    help="A signed guard program that judges beside the risk; may be repeated.",
)
rules_option = click.option(
    "--rules",
    "rule_files",
    type=FILE,
    multiple=True,
    help="Rules that judge beside the risk; may be repeated.",
)
predicates_option = click.option(
    "--predicates",
    "predicate_files",
    type=FILE,
    multiple=True,
    help="Predicates of yours that the rules use, written in YAML; may be repeated.",
)
user_option = click.option(
    "--user",
    multiple=True,
    metavar="KEY=VALUE",
    help="What guard programs are told of who asks, such as role=child.",
)
place_option = click.option(
    "--place",
    multiple=True,
    metavar="KEY=VALUE",
    help="What guard programs are told of where this is, such as room=bedroom.",
)
jobs_option = click.option(
    "--jobs",
    type=Count(min=1),
    default=1,
    show_default=True,
    help="How many processes run episodes.",
)
again_option = click.option(
    "--again", is_flag=True, help="Run also what is in the folder already."
)


def scenario_named(name: str, world: str | None) -> Scenario:
    """The scenario of that name, in its own world or in another."""
    from forewarn.scenarios.schema import load_scenario

    scenario = load_scenario(name)
    return scenario if world is None else scenario.on(world)


def keyed(texts: Sequence[str], option: str) -> dict[str, Any]:
    """What an option's KEY=VALUE say, each value as YAML has it."""
    from forewarn.abstractions.files import parse_yaml

    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option}: {text!r:.60} is not KEY=VALUE")
        given[key] = parse_yaml(value, f"{option} {key}") if value else ""
    return given


def judges_named(
    programs: Sequence[Path],
    user: Sequence[str],
    place: Sequence[str],
    shadow: bool,
    rules: Sequence[Path] = (),
    predicates: Sequence[Path] = (),
) -> list[Judge]:
    """The guard programs and rules of these files.

    Programs that nobody signed are taken only where none is enforced.
    """
    from forewarn.monitors.rules.judging import read_judge as read_rules
    from forewarn.plugins.programs.judging import read_judge

    if predicates and not rules:
        raise click.UsageError("--predicates are for --rules")
    if (user or place) and not programs:
        raise click.UsageError("--user and --place are for --guard-program")
    handed = {"user": keyed(user, "--user"), "place": keyed(place, "--place")}
    return [
        *(read_judge(path, handed, not shadow) for path in programs),
        *(read_rules(path, predicates) for path in rules),
    ]


def driven_by(
    scenario: Scenario, name: str | None, settings: Sequence[str]
) -> Scenario:
    """The scenario with another pilot, or other settings of its own."""
    from forewarn.scenarios.schema import Plug

    given = keyed(settings, "--set")
    if name is None:
        name, given = scenario.pilot.name, {**scenario.pilot.settings, **given}
    return scenario.driven_by(Plug(name=name, settings=given))


def unless_given(
    scenario: Scenario, model: Path | None, policy: Path | None, accept: bool = False
) -> tuple[Path | None, Path | None, str]:
    """The model and the policy that were given, or else those that ship.

    The third says so, where they do. A model of something else is refused, unless it
    is accepted all the same.
    """
    from forewarn.monitors.chains.fitting import refuse_other
    from forewarn.monitors.chains.model import load_model
    from forewarn.scenarios.shipped import shipped_with

    if model is not None and not accept:
        refuse_other(load_model(model), str(model), **facts_of(scenario))
    if model is not None or (files := shipped_with(scenario)) is None:
        return model, policy, ""
    said = f"Guarded by the model that ships with {scenario.name}"
    if policy is None:
        said += ", at the thresholds tuned for it"
    return files.model, policy or files.policy, f"{said}."


def facts_of(scenario: Scenario) -> dict[str, Any]:
    """What a model must be of, to guard a scenario."""
    abstraction = scenario.abstraction
    return {
        "scenario": scenario.name,
        "vocabulary": abstraction.vocabulary and abstraction.vocabulary.name,
        "period_s": abstraction.period_s,
    }


def numbers(most: float) -> Callable[..., tuple[float, ...]]:
    """Reads numbers apart by commas, each within 0 and `most`; an option's callback."""

    def read(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        try:
            found = tuple(float(part) for part in value.split(",") if value)
        except ValueError:
            raise click.BadParameter(
                f"{value!r:.60} is not numbers apart by commas"
            ) from None
        for number in found:
            if not 0 <= number <= most:
                raise click.BadParameter(f"{number:g} is not within 0 and {most:g}")
        return found

    return read


def seeds(first: int, count: int) -> range:
    """The seeds of a campaign: one after the other."""
    return range(first, first + count)


def chosen_policy(
    path: Path | None,
    horizon_s: float | None,
    scenario_horizon_s: float,
    intervene: str | None,
    thresholds: Sequence[float],
    when: When | None = None,
    laws: Sequence[Law] = (),
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
    """
    from forewarn.monitors.guarding.enforcing import acting
    from forewarn.monitors.guarding.policy import ANY_LAW, Policy, Step, load_policy

    policy = load_policy(path) if path else Policy(horizon_s=scenario_horizon_s)
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


def shown(law: str) -> str:
    """A law's name, cut where it is a long formula."""
    return law if len(law) <= NAME_WIDTH else law[: NAME_WIDTH - 1] + "…"


def counted(episodes: Iterable[Episode], what: str, total: int) -> Iterator[Episode]:
    """The episodes, with a line of what there was so far."""
    seen = {"violations": 0, "alarms": 0, "interventions": 0, "failed": 0}

    def note() -> str:
        said = (f"{number} {name}" for name, number in seen.items() if number)
        return "".join(f", {part}" for part in said)

    def heard() -> Iterator[Episode]:
        for episode in episodes:
            seen["violations"] += len(episode.violations)
            seen["alarms"] += len(episode.alarms)
            seen["interventions"] += len(episode.interventions)
            seen["failed"] += episode.failed
            yield episode

    yield from progress(heard(), what, total, note)


def refuse_total_failure(episodes: Sequence[Episode]) -> None:
    """Raises if no episode came to its end: there is nothing to report then."""
    from forewarn.abstractions.errors import ForewarnError

    if episodes and all(episode.failed for episode in episodes):
        raise ForewarnError(f"all {len(episodes)} episodes failed: {episodes[0].error}")


def failure_lines(episodes: Sequence[Episode], folder: Path | None) -> Iterator[str]:
    """What there is to say of episodes that failed."""
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        yield (
            f"{len(failed)} of {len(episodes)} episodes failed, the first with seed"
            f" {failed[0].seed}: {failed[0].error}"
        )
        if folder is not None:
            yield f"They stay in {folder}; --again runs all of it again."


class LiveLine:
    """One line on the terminal that follows an episode; observes its guard."""

    def __init__(self) -> None:
        self._due = time.monotonic() + 0.2
        self._seed = 0
        self._shown = False

    def began(self, scenario: str, seed: int) -> None:
        self._seed = seed

    def reviewed(
        self,
        frame: Frame,
        proposal: Action | None,
        decision: Decision,
        readings: tuple[float, ...],
        foreseen: Frame | None = None,
    ) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due, self._shown = now + 0.1, True
        risk = "" if decision.risk is None else f"risk {decision.risk.point:.2f}"
        words = (
            f"seed {self._seed}  {frame.time_s:.1f} s  {decision.kind}  {risk}"
            f"  {shown(decision.law)}"
        )
        click.echo(f"\r\x1b[K{clean(words)}", err=True, nl=False)

    def ended(self, facts: Mapping[str, Any]) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)


def to_log() -> Alert:
    """Alerts on standard error, a line each."""
    import logging

    from forewarn.plugins.loop.alerts import LOGGER, log_alert

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("forewarn: %(message)s"))
    logging.getLogger(LOGGER).handlers[:] = [handler]
    logging.getLogger(LOGGER).propagate = False
    return log_alert


@dataclass(frozen=True, slots=True)
class ToWebhook:
    """Makes alerts that are posted somewhere; the last ones before the end, too."""

    url: str
    allow_host: str | None

    def __call__(self) -> Alert:
        from multiprocessing.util import Finalize

        from forewarn.plugins.loop.alerts import Webhook

        hook = Webhook(self.url, allow_host=self.allow_host)
        # Unlike atexit, this runs in the processes of a pool as well.
        Finalize(None, hook.close, exitpriority=1)
        return hook


def observers(live: bool) -> list[Callable[[], EpisodeObserver]]:
    """What hears of every review: telemetry if it is installed, and a live line."""
    from forewarn.plugins.telemetry import OpenTelemetry, is_installed

    found: list[Callable[[], EpisodeObserver]] = []
    if is_installed():
        found.append(OpenTelemetry)
    if live and sys.stderr.isatty():
        found.append(LiveLine)
    return found


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
            click.echo(clean(line), err=True)


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of interventions, as options say.

    Args:
        log: Whether standard error is.
        webhook: Where they are posted; None: nowhere.
        webhook_host: The host that this may be on, besides this machine.
    """

    log: bool = False
    webhook: str | None = None
    webhook_host: str | None = None

    def makers(self) -> list[Callable[[], Alert]]:
        """Make what is told, once a process; what is wrong shows now."""
        found: list[Callable[[], Alert]] = [to_log] if self.log else []
        if self.webhook is not None:
            hook = ToWebhook(self.webhook, self.webhook_host)
            hook()
            found.append(hook)
        return found

    def alerts(self) -> list[Alert]:
        """What is told in this process."""
        found: list[Alert] = [to_log()] if self.log else []
        if self.webhook is not None:
            found.append(ToWebhook(self.webhook, self.webhook_host)())
        return found


def telling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--log, --webhook and --webhook-host: who is told; the command is handed that."""

    @wraps(command)
    def handed(
        *arguments: Any,
        log: bool,
        webhook: str | None,
        webhook_host: str | None,
        **rest: Any,
    ) -> Any:
        telling = Telling(log, webhook, webhook_host)
        return command(*arguments, telling=telling, **rest)

    found: Callable[..., Any] = handed
    for option in (
        click.option(
            "--webhook-host",
            metavar="HOST",
            help="The host that the webhook may be on, where that is not this machine.",
        ),
        click.option(
            "--webhook", metavar="URL", help="Post each intervention there as JSON."
        ),
        click.option(
            "--log",
            is_flag=True,
            help="Say each intervention on standard error as it begins.",
        ),
    ):
        found = option(found)
    return found


def person() -> Approver | None:
    """Who is asked: whoever sits at the terminal, if anybody does."""
    from forewarn.plugins.loop.approval import Console

    return Console() if sys.stdin.isatty() else None
