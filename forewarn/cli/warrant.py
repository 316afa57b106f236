"""`forewarn warrant`: creates a guard with a certificate from logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.cli.command import (
    Chance,
    File,
    Folder,
    Place,
    Positive,
    Seed,
    command,
)
from forewarn.cli.episodes import facts_about, with_recordings
from forewarn.cli.groups import Working
from forewarn.cli.printing import note, progress, say

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.monitors.guarding.certificate import Certificate
    from forewarn.monitors.laws.lawbook import Law
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.warrant.making import Made
    from forewarn.scenarios.warrant.runs import Facts


@dataclass(frozen=True, slots=True)
class Guaranteeing:
    """The rates to guarantee, and the facts about the runs.

    Args:
        false_alarms: Maximum fraction of clean runs with an alarm.
        missed: Maximum fraction of violating runs without an alarm before the trigger.
        confidence: Probability that all guarantees hold simultaneously.
        group: Column of --facts that says which runs belong together, such as driver,
            road, task or model. The runs of a group are used either for learning or for
            the certificate.
        facts: CSV file with one row of data about each run (default: the logs'
            runs.csv). A column `run`, `file` or `seed` identifies the run; the column
            `label` contains `safe` or `unsafe`; any other column can be the --group.
    """

    false_alarms: Chance = 0.05
    missed: Chance = 0.3
    confidence: Chance = 0.95
    group: Annotated[str | None, "driver|road|task|model"] = None
    facts: File | None = None


@command()
def warrant(
    logs: tuple[Annotated[Place, "LOGS…"], ...],
    /,
    *,
    law: tuple[Annotated[str, "NAME|FORMULA|FILE"], ...] = (),
    guaranteeing: Guaranteeing,
    out: Folder,
    scenario: Annotated[str | None, "NAME|FILE"] = None,
    horizon: Positive | None = None,
    abstraction: Annotated[str, "FILE|auto"] = "auto",
    period: Positive | None = None,
    seed: Seed = 0,
    working: Working,
) -> None:
    """Create a guard with a certificate from LOGS.

    LOGS are files or folders of traces (JSON Lines, CSV or Parquet). For a scenario
    file with the world `log`, `commonroad` or `deepscenario`, all its recordings are
    used. LOGS can also be logs of agents that call tools: OpenAI messages, GenAI spans
    of OpenTelemetry, or MCP transcripts. The laws then apply to the calls, and no chain
    is learned.

    The runs are split into three parts. The first is used to choose predicates and
    learn the chain, the second to calibrate the risks, and the third to set the
    thresholds and compute the certificate. If a rate cannot be guaranteed, the output
    says why and how many more runs are needed, nothing is written, and the exit status
    is 1. `forewarn warrant renew` adds runs to a certificate.

    \b
    Examples:
      forewarn warrant traces --law 'always not collision' --out guard
      forewarn warrant fleet.yaml --group driver --false-alarms 0.1 --out guard

    Args:
        law: Law for the guard; may be repeated (default: the laws of the scenario).
        out: Folder for the guard.
        scenario: Scenario of the runs, which provides laws and predicates.
        horizon: Prediction horizon in seconds (default: that of the scenario, or 3).
        abstraction: Abstraction file with the predicates. auto: find predicates with
            the first part of the runs (needs scikit-learn).
        period: Seconds between two rows of a CSV file without a time_s column.
        seed: Random seed of the split into three parts.
    """
    from forewarn.abstractions.abstraction import load_abstraction
    from forewarn.scenarios.training.learner import HORIZON_S
    from forewarn.scenarios.warrant.folder import refuse_other, write_guard
    from forewarn.scenarios.warrant.making import check_laws, make
    from forewarn.scenarios.warrant.runs import read_past

    refuse_other(out)
    facts = facts_about(logs, guaranteeing.facts)
    if of_calls := _call_logs(logs):
        _by_calls(of_calls, law, facts, guaranteeing, out)
        return
    known, stored = _stored(logs, scenario, working)
    past = read_past(stored, None, facts, guaranteeing.group, period, progress)
    vocabulary = past[0].run.vocabulary
    hand = None
    if abstraction != "auto":
        hand = load_abstraction(abstraction, vocabulary)
    elif known is not None:
        hand = known.abstraction
    with naming("--law"):
        laws = _laws(law, known, vocabulary)
        check_laws(laws, past)
    horizon_s = horizon or (known.horizon_s if known else HORIZON_S)
    made = make(
        past, laws, hand, _asked(guaranteeing), horizon_s, guaranteeing.group, seed,
        abstraction == "auto", progress,
    )  # fmt: skip
    _told(made, out, None if made.certificate is None else write_guard(out, made))


@command()
def warrant_renew(
    guard: Folder,
    logs: tuple[Annotated[Place, "LOGS…"], ...],
    /,
    *,
    facts: File | None = None,
    period: Positive | None = None,
    working: Working,
) -> None:
    """Add runs to the certificate of GUARD.

    LOGS are the logs that were used to create the guard, and new logs. The model is
    kept. All runs that were not used to learn the model are used for new thresholds and
    a new certificate, with the same rates and confidence. With groups, only groups that
    were not used to learn the model are used. The evidence against the old certificate
    is discarded. If a rate cannot be guaranteed, the guard is not changed, and the exit
    status is 1.

    \b
    Example:
      forewarn warrant renew guard traces more-traces

    Args:
        facts: CSV file with data about each run, as for `forewarn warrant`.
        period: Seconds between two rows of a CSV file without a time_s column.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.guarding.certificate import MODEL, POLICY, load_certificate
    from forewarn.monitors.guarding.policy import load_policy
    from forewarn.scenarios.warrant.folder import write_guard
    from forewarn.scenarios.warrant.renewing import renew
    from forewarn.scenarios.warrant.runs import read_past

    certificate = load_certificate(guard)
    if certificate.over == "calls":
        raise InvalidInput(
            "the certificate cannot be renewed, because this guard has only laws "
            "and no learned model",
            source=str(guard),
            mend="create the guard again from all logs with `forewarn warrant`",
        )
    if certificate.kept is not None:
        raise InvalidInput(
            "the certificate cannot be renewed from logs, because it is about runs in "
            "which the guard intervenes",
            source=str(guard),
            mend="certify the guard again with `forewarn tune --at-most`",
        )
    known = facts_about(logs, facts)
    _, stored = _stored(logs, None, working)
    group = certificate.group or None
    past = read_past(stored, None, known, group, period, progress)
    policy = load_policy(guard / POLICY)
    made = renew(certificate, load_models(guard / MODEL), policy, past)
    _told(made, guard, None if made.certificate is None else write_guard(guard, made))


def _call_logs(logs: Sequence[Path]) -> list[Path]:
    """Returns the files if all of them are logs of tool calls, and an empty list if
    none is; raises InvalidInput if only some are.
    """
    from forewarn.abstractions.readers.calls import is_call_log
    from forewarn.abstractions.readers.stored import files_in
    from forewarn.abstractions.vocabularies.vocabulary import YAML

    if any(path.suffix in YAML for path in logs):
        return []
    files = [file for path in logs for file in files_in(path)]
    found = [file for file in files if is_call_log(file)]
    tables = [file for file in files if file.suffix == ".csv"]
    if found and len(found) + len(tables) < len(files):
        other = next(file for file in files if file not in [*found, *tables])
        raise InvalidInput("this is not a log of tool calls", source=str(other))
    return found


def _by_calls(
    logs: Sequence[Path],
    texts: Sequence[str],
    facts: Facts,
    wish: Guaranteeing,
    out: Path,
) -> None:
    """Certifies laws over tool calls."""
    from forewarn.abstractions.readers.calls import read_calls
    from forewarn.plugins.agents.guard import LawReplay
    from forewarn.plugins.agents.trajectory import POLICY, misspelt, model_of_laws
    from forewarn.scenarios.warrant.alone import make_alone
    from forewarn.scenarios.warrant.folder import write_guard
    from forewarn.scenarios.warrant.runs import PastCalls, grouped, labelled

    with naming("--law"):
        laws = _laws(texts, None, None)
    read = [read_calls(path) for path in logs]
    past: list[PastCalls] = []
    for run in (run for log in read for run in log.runs):
        said = {**run.facts, **facts.of(run.name, len(past))}
        own = grouped(said, wish.group, run.name, facts.source or run.name)
        label = labelled(said.get("label", ""), run.name)
        past.append(PastCalls(run, own, label))
    tools: dict[str, set[str]] = {}
    for call in (call for each in past for call in each.run.calls):
        tools.setdefault(call.tool, set()).update(call.arguments)
    for warning in misspelt(laws, tools):
        note(warning)
    withheld = {}
    for law in laws:
        with naming("--law"):
            judge = LawReplay(law.reference)
        runs = (judge.withheld(each.run) for each in past)
        withheld[law.name] = list(progress(runs, "runs replayed", len(past)))
    model = model_of_laws(laws)
    made = make_alone(past, withheld, [model], POLICY, _asked(wish), wish.group)
    certificate = None if made.certificate is None else write_guard(out, made)
    _told(made, out, certificate, [str(each) for log in read for each in log.unread])


def _asked(wish: Guaranteeing) -> Any:
    from forewarn.monitors.evaluation.certified import Asked

    return Asked(wish.false_alarms, wish.missed, wish.confidence)


def _stored(
    logs: Sequence[Path], name: str | None, working: Working
) -> tuple[Scenario | None, list[Stored]]:
    """Returns the scenario, if one is given or the logs are a scenario file, and the
    stored runs.
    """
    from forewarn.abstractions.readers.stored import FACTS, files_in, stored_runs
    from forewarn.scenarios.schema import load_scenario

    scenario = None if name is None else load_scenario(name)
    logs, own = with_recordings(logs, working)
    if own is not None:
        scenario = scenario or load_scenario(own)
    files = [file for path in logs for file in files_in(path) if file.name != FACTS]
    stored = sorted(stored_runs(files))
    if not stored:
        raise InvalidInput("the logs contain no runs")
    return scenario, stored


def _laws(
    texts: Sequence[str], scenario: Scenario | None, vocabulary: Any
) -> list[Law]:
    """Returns the requested laws; each part of a law becomes a separate law."""
    from forewarn.monitors.laws.lawbook import find_laws, law_book
    from forewarn.monitors.risk.evidence import told_apart

    if not texts:
        if scenario is None:
            raise click.UsageError(
                "give a law with --law, or a scenario with --scenario"
            )
        return list(scenario.laws)
    found: list[Law] = []
    for text in texts:
        path = Path(text)
        if path.suffix in (".yaml", ".yml"):
            found += law_book(path=path).laws.values()
        else:
            found += find_laws(text, vocabulary=vocabulary)
    return list(told_apart(part for law in found for part in law.parts or (law,)))


def _told(
    made: Made,
    out: Path,
    certificate: Certificate | None,
    unread: Sequence[str] = (),
) -> None:
    """Prints the guarantees, or what is missing for the certificate."""
    from forewarn.abstractions.serial import to_json
    from forewarn.scenarios.warrant.page import sentences

    parts = ", ".join(f"{count} for {use}" for use, count in made.parts.items())
    payload: dict[str, Any] = {
        "granted": certificate is not None,
        "runs": made.parts,
        "left_out": made.again,
        "unread": list(unread),
        "needs": [to_json(lack) for lack in made.lacks],
        "certificate": None if certificate is None else certificate.model_dump(),
        "out": str(out),
    }
    lines = [f"Runs: {parts}."]
    if made.again:
        lines.append(f"{made.again} duplicate runs were left out.")
    if unread:
        more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
        lines.append(f"Not read: {unread[0]}{more}.")
    if certificate is None:
        lines += ["No certificate:", *_lacking(made)]
    else:
        wrong = len(certificate.shadow)
        lines += [
            *sentences(certificate),
            f"Shadow report: the guard would have been wrong in {wrong} runs.",
            f"{out}: the guard, with its certificate as certificate.html and .json",
        ]
    say(payload, lines, found=certificate is None)


def _lacking(made: Made) -> Iterator[str]:
    return (f"  {lack.sentence()}" for lack in made.lacks)
