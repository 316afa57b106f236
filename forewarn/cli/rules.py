"""`forewarn rules`: imports, scores, lints, labels, evolves and enforces rules."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.command import (
    AnyPath,
    Folder,
    Many,
    Number,
    Seed,
    command,
    one_of,
)
from forewarn.cli.printing import (
    note,
    say,
    several,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.rules.agentspec import Imported
    from forewarn.monitors.rules.evolving.proposal import Proposal
    from forewarn.monitors.rules.labelled import LabelledTrace
    from forewarn.monitors.rules.predicates import Domain, Library
    from forewarn.monitors.rules.rule import RuleSet
    from forewarn.monitors.rules.scoring import Score
    from forewarn.monitors.rules.versions import VersionChange


@click.group()
def rules() -> None:
    """Manage rules, which intervene if their conditions are true when an event is about
    to happen.

    Every command takes --json.
    """


@dataclass(frozen=True, slots=True)
class Known:
    """The user's own predicates.

    Args:
        predicates: YAML file with your own predicates; may be repeated.
        module: Python file with your own predicates, which run in a separate
            process; may be repeated.
    """

    predicates: tuple[AnyPath, ...] = ()
    module: tuple[AnyPath, ...] = ()

    def added(self, rules: RuleSet) -> RuleSet:
        """Adds the user's Python files to the rules, so that guards load them too."""
        from forewarn.abstractions.files import read_text

        own = {path.name: read_text(path) for path in self.module}
        return replace(rules, functions={**rules.functions, **own})

    def of(self, rules: RuleSet, domain: Domain | None = None) -> Library:
        """Returns the predicates of a domain (default: that of the rules), including
        those of the user and those in the rules' Python files.
        """
        from forewarn.monitors.rules.libraries import library
        from forewarn.plugins.programs.rules import known_to

        domain = domain or rules.domain
        own = [path for path in self.predicates if _is_of(path, domain)]
        return known_to(self.added(rules), library(domain, own))

    def of_all(self, rules: RuleSet) -> dict[Domain, Library]:
        """Returns the predicates of all domains, including those of the user."""
        from forewarn.monitors.rules.predicates import DOMAINS

        return {each: self.of(rules, each) for each in DOMAINS}


def _domain_of(name: str | None, default: Domain) -> Domain:
    from forewarn.monitors.rules.predicates import domain_of

    return domain_of(name, "--domain") if name else default


def say_unknown(signals: Sequence[str]) -> None:
    """Warns about signals that rules or predicates need and that traces lack."""
    if signals:
        names = ", ".join(signals)
        note(
            f"missing from some traces: {names} (conditions on a missing signal are "
            "unknown and never make a rule fire)"
        )


def _is_of(path: Path, domain: Domain) -> bool:
    """Whether a file of predicates applies to a domain."""
    from forewarn.monitors.rules.predicates import domain_of

    named = _named(path)
    return named is None or domain_of(named, str(path)) == domain


@cache
def _named(path: Path) -> str | None:
    """Returns the domain named in a file of predicates; cached, because parsing is
    slow.
    """
    from forewarn.abstractions.files import read_yaml

    content = read_yaml(path)
    named = content.get("domain") if isinstance(content, dict) else None
    return named if isinstance(named, str) else None


@command(of=rules)
def accept(
    file: Annotated[AnyPath, "RULES"],
    proposed: AnyPath | None = None,
    /,
    *,
    enforce: bool = False,
) -> None:
    """Accept proposed changes to RULES, first in shadow mode.

    PROPOSED is a file of rules, such as the output of `forewarn rules evolve`. New and
    changed rules in PROPOSED are added in shadow mode, in which they only report what
    they would do. --enforce then enforces the rules. All versions are kept.

    \b
    Example:
      forewarn rules accept rules.yaml proposed.yaml
      forewarn rules accept rules.yaml --enforce
      forewarn rules rollback rules.yaml

    Args:
        enforce: Enforce the rules that are currently in shadow mode.
    """
    from forewarn.monitors.rules import versions

    if enforce == (proposed is not None):
        raise click.UsageError("give either a PROPOSED file or --enforce")
    if proposed is None:
        _say_step(versions.enforce(file), file)
    else:
        _say_step(versions.take_in_shadow(file, proposed), file)


@command(of=rules)
def rollback(
    file: Annotated[AnyPath, "RULES"],
    /,
    *,
    to: Many | None = None,
) -> None:
    """Restore an earlier version of RULES.

    Args:
        to: Version to restore (default: the previous version).
    """
    from forewarn.monitors.rules.versions import roll_back

    _say_step(roll_back(file, to), file)


def _say_step(step: VersionChange, path: Path) -> None:
    from forewarn.abstractions.serial import to_json

    payload = {"rules": str(path), **to_json(step)}
    said = f"{path}: version {step.version}, {step.stage} (before: {step.before})"
    say(payload, [*step.difference, said])


_SHOWN = 10


def _of_domain(path: Path, domain: str) -> list[LabelledTrace]:
    """Reads the labelled traces of a domain, of which there must be one."""
    from forewarn.abstractions.errors import InvalidTrace
    from forewarn.monitors.rules.labelled import read_labelled

    traces = list(read_labelled(path))
    found = [each for each in traces if each.domain == domain]
    if not found:
        others = ", ".join(dict.fromkeys(each.domain for each in traces))
        raise InvalidTrace(
            f"no trace belongs to the domain {domain}",
            source=str(path),
            mend=f"the traces belong to {others}" if others else "",
        )
    return found


@command(of=rules)
def evolve(
    *,
    rules_file: Annotated[AnyPath | None, "--rules"] = None,
    traces: AnyPath,
    domain: str | None = None,
    holdout: Annotated[float, Number(0, 0.9)] = 0.0,
    vocabulary: Literal["expert", "primitive"] = "expert",
    out: AnyPath | None = None,
    report: Folder | None = None,
    known: Known,
    seed: Seed = 0,
) -> None:
    """Fit rules to labelled traces, with safeguards against overfitting.

    Rules are added, and narrowed by conditions and exceptions, as long as F1 on the
    labelled traces improves. The minimum gain of an edit is chosen by cross-validation
    over tasks. The same rules, traces and seed always give the same file.

    \b
    Example:
      forewarn rules evolve --traces labelled.jsonl --domain household \\
        --holdout 0.3 --out rules.yaml --report why

    Args:
        rules_file: Rules to start from (default: the built-in rules of the domain).
        traces: Labelled traces (JSON Lines).
        domain: Domain: household, driving or code (default: that of the rules).
        holdout: Fraction of the tasks to hold out for evaluating the rules.
        vocabulary: Predicates for new rules. primitive: only primitive predicates;
            without --rules, evolution then starts without rules. expert: also
            handwritten predicates for hazards, such as damages.
        out: Write the proposed rules to this file.
        report: Write a report to this folder: the changes as a diff, the traces with
            changed verdicts, and the traces that are still misclassified.
        seed: Random seed.
    """
    from forewarn.monitors.rules.evolving.proposal import (
        propose,
        write_report,
    )
    from forewarn.monitors.rules.rule import save_rules

    began = time.perf_counter()
    start = known.added(_begin(rules_file, domain))
    if vocabulary == "primitive" and rules_file is None:
        start = start.with_rules(())
    of = _domain_of(domain, start.domain)
    labelled = _of_domain(traces, of)
    library = known.of(start, of).spoken(vocabulary)
    found = propose(start, labelled, library, seed, holdout)
    if out is not None:
        save_rules(out, found.rules)
    if report is not None:
        write_report(report, found)
    say_unknown(found.corpus.unknown)
    payload = found.as_dict()
    payload["vocabulary"] = vocabulary
    payload["seconds"] = round(time.perf_counter() - began, 3)
    said = f"vocabulary: {vocabulary}, {len(library.names)} predicates"
    say(payload, [said, *_evolved(found, payload)])


def _begin(path: Path | None, name: str | None) -> RuleSet:
    from forewarn.monitors.rules.predicates import domain_of
    from forewarn.monitors.rules.rule import expert_rules, load_rules

    if path is not None:
        return load_rules(path)
    if name is None:
        raise click.UsageError("give --rules or --domain")
    return expert_rules(domain_of(name, "--domain"))


def _evolved(found: Proposal, payload: dict[str, Any]) -> Iterator[str]:
    yield (
        f"F1 {payload['f1_before']:.3f} -> {payload['f1_after']:.3f} with"
        f" {payload['rules_after']} rules, {payload['iterations']} changes,"
        f" {payload['seconds']:.1f} s"
    )
    if found.holdout is not None:
        held = payload["holdout"]
        yield (
            f"held out, {held['traces']} traces: precision {held['precision']:.3f},"
            f" recall {held['recall']:.3f}, F1 {held['f1_before']:.3f} ->"
            f" {held['f1']:.3f}"
        )
    yield ""
    yield found.diff() or "no change improves the rules enough"
    unresolved = list(found.unresolved())
    if unresolved:
        yield ""
        yield f"{len(unresolved)} traces are still misclassified:"
        yield from (f"  {each.said()}" for each in unresolved[:_SHOWN])


@command(of=rules)
def import_(
    paths: tuple[AnyPath, ...],
    /,
    *,
    out: AnyPath,
    domain: str | None = None,
    upstream_exact: bool = False,
    known: Known,
) -> None:
    """Import AgentSpec rules from PATHS (files or folders).

    A rule with an unknown predicate is written, but disabled and listed. To enable it,
    define the predicate with --module or --predicates and import again. Rules that
    cannot be parsed are listed with their line numbers.

    \b
    Example:
      forewarn rules import rules/ --out rules.yaml --module my_predicates.py

    Args:
        out: Write the rules to this file.
        domain: Domain of all rules: household, driving or code (default: the domain of
            each rule's trigger).
        upstream_exact: Match exactly as AgentSpec's own runtime does: case-sensitively,
            by a prefix of an action's text, in rule order, reading `!!p` as `!p`, and
            with predicates in --module taking precedence over built-in ones.
    """
    from forewarn.monitors.rules.agentspec import import_rules, rule_files
    from forewarn.monitors.rules.predicates import domain_of
    from forewarn.monitors.rules.rule import Matching, RuleSet, save_rules

    of = domain_of(domain, "--domain") if domain else None
    matching: Matching = "exact" if upstream_exact else "plain"
    libraries = known.of_all(RuleSet("household", matching=matching))
    found = import_rules(rule_files(paths), libraries, of, upstream_exact)
    if not found.rules.rules and found.unread:
        file, line, problem = found.unread[0]
        raise InvalidInput(problem, source=str(file), place=f"line {line}")
    save_rules(out, known.added(found.rules))
    say(found.as_dict(), _imported(found, out))


def _imported(found: Imported, out: Path) -> Iterator[str]:
    total = len(found.rules.rules)
    yield (
        f"{found.files} files with {total} rules: {found.runnable} runnable,"
        f" {total - found.runnable} with unknown names; written to {out}"
    )
    if fixes := found.fixes():
        yield ""
        yield from table(["rule", "needs", "fix"], fixes)
    for file, line, problem in found.unread:
        yield f"{file}: line {line}: {problem}"


@command(of=rules)
def lint(
    file: Annotated[AnyPath, "RULES"],
    /,
    *,
    known: Known,
) -> None:
    """Find ineffective and redundant rules.

    These are rules that never fire, always fire, or duplicate or shadow other rules.
    The exit status is 1 if such a rule is found.
    """
    from forewarn.monitors.rules.linting import lint as linted
    from forewarn.monitors.rules.rule import load_rules

    read = load_rules(file)
    domains = {read.domain, *(rule.domain for rule in read.rules if rule.domain)}
    for path in known.predicates:
        if not any(_is_of(path, domain) for domain in domains):
            note(f"{path} is not used, because no rule has the domain {_named(path)}")
    findings = linted(read, known.of_all(read))
    payload = {
        "rules": len(read.rules),
        "findings": [finding.as_dict() for finding in findings],
    }
    rows = [(f.rule, f.problem, f.message) for f in findings]
    lines = table(["rule", "problem", ""], rows) if rows else []
    last = f"{several(len(read.rules), 'rule')}, {several(len(rows), 'finding')}"
    say(payload, [*lines, last], found=findings)


@command(of=rules)
def mark(
    run: AnyPath,
    /,
    *,
    as_: Literal["false-alarm", "miss", "safe", "unsafe"] | None = None,
    trace: str | None = None,
    answers: bool = False,
    why: Annotated[str, "--note"] = "",
    out: AnyPath,
) -> None:
    """Label a run as safe or unsafe.

    RUN is a run record, or with --trace a file of labelled traces. A new label replaces
    an earlier label of the same run.

    \b
    Example:
      forewarn rules mark out/run.jsonl --as false-alarm --out labels.jsonl
      forewarn rules evolve --traces labels.jsonl --domain household …

    Args:
        as_: Label the run safe (false-alarm) or unsafe (miss).
        trace: Id of the trace to label, if RUN is a file of labelled traces.
        answers: Use the answers to `ask` interventions in the run as labels: approved
            means safe, rejected means unsafe (not with --trace).
        why: Note with the reason for the label.
        out: Add the labelled traces to this file.
    """
    from forewarn.monitors.rules.marking import (
        answered,
        keep,
        marked_run,
        marked_trace,
    )

    one_of("--as", "--answers")
    if as_ is None:
        rows = answered(run)
    elif trace:
        rows = [marked_trace(run, trace, as_, why)]
    else:
        rows = [marked_run(run, as_, why)]
    total = keep(out, rows) if rows else 0
    payload = {
        "marked": [{"id": row["id"], "label": row["label"]} for row in rows],
        "out": str(out),
        "traces": total,
    }
    lines = [f"{row['id']}: {row['label']}" for row in rows] or [
        "no one was asked in this run"
    ]
    say(payload, lines)


@command(of=rules)
def predicates(
    domain: str,
    /,
    *,
    known: Known,
) -> None:
    """List the predicates for rules of a domain.

    DOMAIN is household, driving or code. Conditions can also compare signals of the
    domain, such as `speed > 30 km/h`, and fields of an event, such as `object == Mug`.
    """
    from forewarn.monitors.rules.predicates import domain_of
    from forewarn.monitors.rules.rule import RuleSet

    of = domain_of(domain, "DOMAIN")
    library = known.of(RuleSet(of))
    found = {name: library.predicates[name].doc for name in library.names}
    payload = {
        "domain": of,
        "predicates": found,
        "fields": list(library.fields),
        "vocabulary": library.vocabulary,
    }
    fields = ", ".join(library.fields) or "none"
    lines = table(["predicate", "holds when"], found.items())
    say(payload, [*lines, "", f"Fields of an event: {fields}"])


@command(of=rules)
def score(
    *,
    rules_file: Annotated[AnyPath, "--rules"],
    traces: AnyPath,
    domain: str | None = None,
    known: Known,
) -> None:
    """Score rules on labelled traces.

    A trace is predicted to be unsafe if any rule fires in it, even a rule in shadow
    mode. Traces with a null label affect neither precision nor recall.

    Args:
        rules_file: File of rules.
        traces: Labelled traces (JSON Lines).
        domain: Domain: household, driving or code (default: that of the rules).
    """
    from forewarn.monitors.rules.rule import load_rules
    from forewarn.monitors.rules.scoring import score as scored

    read = load_rules(rules_file)
    of = _domain_of(domain, read.domain)
    labelled = _of_domain(traces, of)
    found = scored(read, labelled, known.of(read, of))
    say_unknown(found.unknown)
    say(found.as_dict(), _scored(found))


def _scored(found: Score) -> Iterator[str]:
    yield (
        f"{found.traces} traces, {found.unsafe} unsafe and {found.safe} safe;"
        f" {len(found.called)} predicted unsafe:"
        f" precision {found.precision:.3f}, recall {found.recall:.3f},"
        f" F1 {found.f1:.3f}"
    )
    yield ""
    rows = sorted(found.fired.items(), key=lambda item: -item[1])
    yield from table(["rule", "fires in"], rows)
