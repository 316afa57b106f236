"""`forewarn learn`: traces to a model, by counting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import Number, emit, json_option, naming, progress

if TYPE_CHECKING:
    from forewarn.abstractions.abstraction import Abstraction
    from forewarn.abstractions.vocabulary import Vocabulary
    from forewarn.monitors.chains.learning import Support
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.finding.choice import Choice
    from forewarn.monitors.laws.automaton import Automaton
    from forewarn.monitors.laws.lawbook import Law
    from forewarn.monitors.trust.fairness import FairnessReport
    from forewarn.monitors.trust.pac import PacReport
    from forewarn.monitors.trust.training import Training
    from forewarn.scenarios.schema import Scenario

_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the command line asked for; None where it left the choice to us."""

    format: str
    scenario: str | None
    abstraction: Path | None
    auto: bool
    laws: tuple[str, ...]
    vocabulary: str | None
    period: float | None
    alpha: str | None
    support: str | None
    end: str | None
    mix_guarded: bool
    candidates: tuple[str, ...]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=_FILE, required=True, help="Where the model goes.")
@click.option(
    "--format",
    type=click.Choice(["auto", "states", "trace"]),
    default="auto",
    show_default=True,
    help="states: one sequence of state names a line; trace: frames with signals.",
)
@click.option(
    "--scenario",
    metavar="NAME_OR_FILE",
    help="The scenario that the traces come from: its abstraction and its laws.",
)
@click.option(
    "--abstraction",
    metavar="FILE|auto",
    help="The predicates, as YAML; for traces of frames. auto: find some too, and take"
    " those by which risks come truest in traces left out (needs scikit-learn).",
)
@click.option(
    "--abstraction-out",
    type=_FILE,
    help="Where the abstraction that was found goes; by default beside the model.",
)
@click.option(
    "--law",
    "laws",
    multiple=True,
    metavar="NAME_OR_FORMULA",
    help="A law that the model is for; may be given again. Without --abstraction the "
    "predicates are the laws' own atoms.",
)
@click.option("--vocabulary", help="A shipped vocabulary, or the path of a YAML file.")
@click.option(
    "--period",
    type=Number(min=0, min_open=True),
    help="Seconds between two states, where the predicates come from laws; also "
    "between the rows of a table without times.",
)
@click.option(
    "--alpha",
    metavar="NUMBER",
    help="Pseudo-count of every allowed transition; 0 for the observed support and "
    "0.1 for the others, unless given.",
)
@click.option(
    "--support",
    "--smoothing",
    "support",
    metavar="observed|valid|all|FILE",
    help="Allowed transitions: those seen (default), those the abstraction holds "
    'valid, all pairs of seen states, or a JSON file {"state": ["successor", …]}.',
)
@click.option(
    "--end",
    type=click.Choice(["absorb", "ignore"]),
    help="Whether a trace's end is a step into an absorbing END (default) or nothing.",
)
@click.option("--update", type=_FILE, help="Continue this model with more traces.")
@click.option(
    "--mix-guarded",
    is_flag=True,
    help="Accept traces of guarded runs beside unguarded ones.",
)
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="PREDICATE",
    help="A predicate that the abstraction does not use: how much would it tell? May "
    "be given again.",
)
@click.option(
    "--epsilon", type=Number(), help="The error that the guarantee may allow."
)
@click.option("--delta", type=Number(), help="The probability of a larger error.")
@json_option
def learn(
    files: tuple[Path, ...],
    out: Path,
    update: Path | None,
    abstraction: str | None,
    abstraction_out: Path | None,
    epsilon: float | None,
    delta: float | None,
    as_json: bool,
    **wish: Any,
) -> None:
    """Learn a Markov chain from traces: files, or folders of nothing but traces.

    It warns where the chain is no fair picture of the traces. With --epsilon and
    --delta it also says for each state how many visits it has and how many the
    guarantee needs.

    \b
    Examples:
      forewarn learn traces --scenario tiny-road --out model.json
      forewarn learn traces --scenario s3 --abstraction auto --out s3.json
    """
    from forewarn.abstractions.files import write_json
    from forewarn.cli import finding
    from forewarn.monitors.chains.formats.own import model_as_dict
    from forewarn.monitors.chains.model import load_model
    from forewarn.monitors.trust.pac import pac_reports

    if (epsilon is None) != (delta is None):
        raise click.UsageError("--epsilon and --delta come together")
    files = tuple(file for path in files for file in _files(path))
    earlier = load_model(update) if update else None
    auto = abstraction == finding.AUTO
    if abstraction_out is not None and not auto:
        raise click.UsageError("--abstraction-out goes with --abstraction auto")
    if auto and earlier is not None:
        raise click.UsageError("--update keeps the abstraction that the model has")
    given = Path(abstraction) if abstraction is not None and not auto else None
    asked = _Wish(abstraction=given, auto=auto, **wish)
    learner = _Learner(asked, earlier, str(update), files[0])
    choice = learner.find(files) if auto else None
    for path in progress(files, "files learned", len(files)):
        learner.add(path)
    with naming(files[0] if len(files) == 1 else f"{files[0]} and others"):
        model = learner.model()
    with naming("--law"):
        monitors = learner.monitors(model)
    fairness = learner.fairness(model, monitors)
    training = {**model.training, "fairness": fairness.as_dict()}
    if choice is not None:
        training["abstraction"] = choice.as_dict()
        beside = abstraction_out or Path(f"{_stem(out)}.abstraction.yaml")
        finding.write(choice, beside, len(files))
    reports: list[PacReport] = []
    if epsilon is not None and delta is not None:
        reports = pac_reports(model, epsilon, delta, learner.abstraction, monitors)
        training["pac"] = [_kept_facts(report) for report in reports]
    model = replace(model, training=training)
    write_json(out, model_as_dict(model))
    warnings = [
        *model.chain.warnings(),
        *learner.warnings(),
        *fairness.warnings(),
    ]
    payload = {
        "out": str(out),
        "states": model.chain.n,
        "transitions": model.chain.transitions,
        "unvisited": [model.chain.states[i] for i in model.unvisited],
        "training": dict(model.training),
        "pac": [report.as_dict() for report in reports],
        "warnings": warnings,
    }
    lines = [*_lines(model, out, reports, warnings), *fairness.advice()]
    if choice is not None:
        payload["abstraction"] = {**choice.as_dict(), "out": str(beside)}
        lines = [*choice.sentences(), f"{beside}: the abstraction taken", *lines]
    emit(as_json, payload, lines)


def _stem(model: Path) -> str:
    """A model's path without what says that it is one."""
    name = str(model)
    for ending in (".gz", ".json", ".model"):
        name = name.removesuffix(ending)
    return name


def _files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder by name."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] != ".")
    if not found:
        raise click.UsageError(f"{path} has no files")
    return found


class _Learner:
    """Turns the wishes, and perhaps an earlier model, into one training."""

    def __init__(
        self, wish: _Wish, earlier: Model | None, source: str, sample: Path
    ) -> None:
        from forewarn.monitors.laws.lawbook import find_laws
        from forewarn.monitors.trust.training import Training

        self.wish, self.earlier, self.source = wish, earlier, source
        self.scenario = self._scenario()
        self.vocabulary = self._vocabulary(sample)
        with naming("--law"):
            self.laws: list[Law] = [
                law
                for text in wish.laws or (earlier.laws if earlier else ())
                for law in find_laws(text, vocabulary=self.vocabulary)
            ]
        if self.scenario is not None:
            self.laws = list(self.scenario.laws)
        self.abstraction = self._abstraction()
        self.candidates = self._candidates()
        self.training: Training = Training()
        if earlier is not None:
            self.training = Training.of(earlier)

    def _scenario(self) -> Scenario | None:
        from forewarn.scenarios.schema import load_scenario

        wish = self.wish
        if wish.scenario is None:
            return None
        if wish.abstraction is not None or wish.laws or wish.vocabulary:
            raise click.UsageError(
                "--scenario names the abstraction and the laws by itself"
            )
        return load_scenario(wish.scenario)

    def _vocabulary(self, sample: Path) -> Vocabulary | None:
        """The one that was asked for, or else that of the model or the first trace."""
        from forewarn.abstractions.abstraction import Abstraction
        from forewarn.abstractions.readers import read_trace
        from forewarn.abstractions.vocabulary import load_vocabulary
        from forewarn.monitors.trust.training import holds_traces

        if self.wish.vocabulary:
            return load_vocabulary(self.wish.vocabulary)
        if self.scenario is not None:
            return self.scenario.abstraction.vocabulary
        if self.earlier is not None and self.earlier.abstraction is not None:
            content = dict(self.earlier.abstraction)
            return Abstraction.from_dict(content, self.source).vocabulary
        if not self.wish.laws or self.wish.format == "states":
            return None
        if self.wish.format == "auto" and not holds_traces(sample):
            return None
        return read_trace(sample, period_s=self.wish.period).vocabulary

    def _abstraction(self) -> Abstraction | None:
        from forewarn.abstractions.abstraction import Abstraction, load_abstraction
        from forewarn.abstractions.errors import InvalidInput
        from forewarn.monitors.trust.training import law_abstraction

        chosen = None if self.scenario is None else self.scenario.abstraction
        if self.wish.abstraction:
            chosen = load_abstraction(self.wish.abstraction, self.vocabulary)
        elif self.wish.laws:
            clocks = [law.clock_s for law in self.laws if law.clock_s]
            chosen = law_abstraction(
                [law.formula for law in self.laws],
                self.vocabulary or self.laws[0].vocabulary,
                self.wish.period or max(clocks, default=None),
            )
        if self.earlier is None:
            return chosen
        if self.earlier.abstraction is None:
            if chosen is not None:
                raise InvalidInput("its states have no predicates", source=self.source)
            return None
        known = Abstraction.from_dict(
            dict(self.earlier.abstraction), self.source, self.vocabulary
        )
        if chosen is not None and chosen.fingerprint() != known.fingerprint():
            raise InvalidInput(
                "it was learned with another abstraction", source=self.source
            )
        return known

    def find(self, files: Sequence[Path]) -> Choice:
        """Takes the abstraction that foretells best in traces left out."""
        from forewarn.cli import finding

        known = self.scenario
        choice = finding.find(
            files,
            self.laws,
            self.vocabulary,
            self.abstraction,
            self.wish.period,
            finding.HORIZON_S if known is None else known.horizon_s,
        )
        self.abstraction = choice.abstraction
        return choice

    def _candidates(self) -> Abstraction | None:
        from forewarn.abstractions.abstraction import Abstraction, Predicate
        from forewarn.abstractions.errors import InvalidInput
        from forewarn.abstractions.expression import parse_expression

        if not self.wish.candidates:
            return None
        if self.abstraction is None:
            raise click.UsageError("--candidate needs --abstraction or --law")
        vocabulary = self.abstraction.vocabulary
        try:
            return Abstraction(
                [
                    Predicate(parse_expression(text, vocabulary))
                    for text in self.wish.candidates
                ],
                name="candidates",
                vocabulary=vocabulary,
                period_s=self.abstraction.period_s,
            )
        except InvalidInput as error:
            raise error.within("--candidate") from None

    def add(self, path: Path) -> None:
        """Counts one file."""
        from forewarn.monitors.trust.training import holds_traces

        kind = self.wish.format
        if kind == "states" or (kind == "auto" and not holds_traces(path)):
            if self.candidates is not None:
                raise click.UsageError(f"{path} has no frames to try --candidate on")
            self.training.add_states(path, self.abstraction)
            return
        if self.abstraction is None:
            raise click.UsageError(
                f"{path} holds frames: give their predicates by --abstraction or --law"
            )
        self.training.add_trace(
            path,
            self.abstraction,
            self.vocabulary,
            self.wish.period,
            self.candidates,
        )

    def model(self) -> Model:
        """The model of all that was counted."""
        from forewarn.abstractions.errors import InvalidInput
        from forewarn.monitors.chains.learning import learn as learn_rows
        from forewarn.monitors.chains.rational import rational

        if not self.wish.mix_guarded:
            self.training.refuse_mixture()
        earlier, support = self.earlier, self._support()
        alpha = Fraction(0) if support.kind == "observed" else Fraction(1, 10)
        if self.wish.alpha is not None:
            try:
                alpha = rational(self.wish.alpha)
            except InvalidInput as error:
                raise error.within("--alpha") from None
        elif earlier is not None and earlier.alpha is not None:
            alpha = earlier.alpha
        model = learn_rows(
            self.training.tally,
            support,
            alpha,
            self.wish.end or (earlier.end if earlier else "absorb"),
            abstraction=self.abstraction.as_dict() if self.abstraction else None,
            period_s=self.training.period_s,
            laws=tuple(dict.fromkeys(repr(law.formula) for law in self.laws)),
            training=self.training.summary(),
        )
        if self.abstraction is None or not self.laws:
            return model
        laws = [law.formula for law in self.laws]
        broken = self.training.violations(model, self.abstraction, laws)
        return replace(model, training={**model.training, "violations": broken})

    def monitors(self, model: Model) -> dict[str, Automaton]:
        """The laws' monitors on the model's clock, where its states decide them."""
        from forewarn.monitors.risk.evidence import compile_for

        if self.abstraction is None:
            return {}
        return {
            law.name: compile_for(law.formula, self.abstraction, model.period_s)
            for law in self.laws
        }

    def fairness(self, model: Model, monitors: dict[str, Automaton]) -> FairnessReport:
        """Whether the model is a fair picture of the traces that were just counted."""
        from forewarn.monitors.trust.validation import assess_training

        unused = self.training.unused
        texts = self.candidates.texts if self.candidates else ()
        return assess_training(
            self.training.sequences,
            model,
            abstraction=self.abstraction,
            automata=monitors,
            candidates={
                text: [(states >> bit & 1).astype(bool) for states in unused]
                for bit, text in enumerate(texts)
            },
        )

    def _support(self) -> Support:
        from forewarn.abstractions.files import read_json
        from forewarn.monitors.chains.learning import Support

        kind = self.wish.support
        if kind is None:
            return Support.of(self.earlier) if self.earlier else Support("observed")
        if kind in ("observed", "all"):
            return Support(kind)
        if kind != "valid":
            return Support.declared(read_json(Path(kind)), kind)
        if self.abstraction is None:
            raise click.UsageError(
                "--support valid needs --abstraction or --law, which say what is valid"
            )
        return Support.valid(self.abstraction)

    def warnings(self) -> Iterator[str]:
        """What should be said of the training."""
        if names := self.training.repeated():
            yield f"counted more than once, byte for byte: {', '.join(names)}"
        if len(self.training.periods) > 1:
            yield "the traces have different periods, so a step has no fixed length"
        for name, times in self.training.gaps.items():
            yield f"{name} has {times} gaps; no step was counted over them"
        for name, gap in self.training.late.items():
            yield (
                f"{name} has a frame every {gap:.2g} s on average, fewer than one a "
                "step, so what is said in seconds is off: give a coarser clock, by "
                f"--period {gap:.2g} or the abstraction's period_s"
            )


def _kept_facts(report: PacReport) -> dict[str, Any]:
    return {
        "epsilon": report.epsilon,
        "delta": report.delta,
        "target": report.target,
        "holds": report.holds,
        "error": report.error,
    }


def _lines(
    model: Model, out: Path, reports: Sequence[PacReport], warnings: Sequence[str]
) -> Iterator[str]:
    facts, chain = model.training, model.chain
    yield (
        f"{out}: {chain.n} states and {chain.transitions} transitions, from "
        f"{facts['traces']} traces with {facts['frames']} frames"
    )
    if model.unvisited:
        names = ", ".join(chain.states[i] for i in model.unvisited[:5])
        more = ", …" if len(model.unvisited) > 5 else ""
        yield f"never left in any trace, so made uniform: {names}{more}"
    for warning in warnings:
        yield f"warning: {warning}"
    for report in reports:
        yield from report.sentences()
