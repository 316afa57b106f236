"""Risk of every product state, against Storm's build and check of the same product."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring import Row, installed, seconds

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.tables import guard_risk, violation_ever, violation_within

HORIZON = 50


def rows(quick: bool) -> Iterator[Row]:
    for n, steps, ever_bar, within_bar in (
        (35, 100, 0.002, 0.005),
        (67, 1000, 0.040, 0.120),
    ):
        case = Case(n, steps)
        resting = "" if installed("stormpy") else "Storm: not installed"
        if quick and steps == 1000:
            resting = "Storm: not with --quick"
        yield against_storm(
            f"risk of all pairs, ever: {n} states, K = {steps}",
            ever_bar,
            case,
            None,
            resting,
        )
        yield against_storm(
            f"the same, violated within {HORIZON} steps",
            within_bar,
            case,
            HORIZON,
            resting,
        )
        yield Row(
            f"the same, guard's risk within {HORIZON} steps",
            seconds(case.guard),
            within_bar,
            "Storm: has no such query",
        )


def against_storm(
    what: str, bar: float, case: Case, within: int | None, resting: str
) -> Row:
    ask = case.ever if within is None else case.within
    measured = seconds(ask)
    if resting:
        return Row(what, measured, bar, resting)
    theirs, answer = case.storm(within)
    ours = ask()[case.start]
    assert abs(ours - answer) < 1e-5, f"Storm says {answer}, we say {ours}"
    return Row(what, measured, bar, "Storm", theirs, 100)


class Case:
    """A chain as it is learned from driving, and a bounded response of K steps.

    States stay where they are 997 times in 1000; smoothing gave every state every
    other one as a successor; the last two are absorbing.
    """

    def __init__(self, n: int, steps: int) -> None:
        rng = np.random.default_rng(n)
        counts = 1.0 + rng.integers(0, 30, (n, n)) * (rng.random((n, n)) < 0.1)
        counts += np.diag(rng.integers(1_000, 40_000, n))
        counts[-2:] = np.eye(n)[-2:]
        matrix = counts / counts.sum(axis=1, keepdims=True)
        self.chain = Chain.from_dense([str(i) for i in range(n)], matrix, initial=0)
        self.steps = steps
        self.law: Automaton = compile_law(
            parse_formula(f"always (a -> eventually[0, {steps} steps] b)")
        )
        self.trigger = rng.random(n) < 0.2
        self.target = (rng.random(n) < 0.4) & ~self.trigger
        self.trigger[-2:] = self.target[-2:] = False
        self.letters = np.where(self.target, 2, np.where(self.trigger, 1, 0))
        self.start = int(self.law.step[0, self.letters[0]]), 0

    def ever(self) -> np.ndarray:
        return violation_ever(self.chain, self.letters, self.law)

    def within(self) -> np.ndarray:
        return violation_within(self.chain, self.letters, self.law, HORIZON)

    def guard(self) -> np.ndarray:
        return guard_risk(self.chain, self.letters, self.law, HORIZON)

    def storm(self, within: int | None) -> tuple[float, float]:
        """Storm's time for one such question, and its answer where the chain starts."""
        import stormpy

        bound = "" if within is None else f"<={within}"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "product.prism"
            file.write_text(self.prism())
            program = stormpy.parse_prism_program(str(file))
        (question,) = stormpy.parse_properties(f'P=? [F{bound} "violated"]', program)
        times, answer = [], 0.0
        for _ in range(3 if self.steps <= 100 else 1):
            start = time.perf_counter()
            model = stormpy.build_model(program, [question])
            result = stormpy.model_checking(model, question)
            times.append(time.perf_counter() - start)
            answer = result.get_value(model.initial_states[0])
        return sorted(times)[len(times) // 2], answer

    def prism(self) -> str:
        """The product as Storm likes it best: two variables, not one big table."""
        violated, k = self.steps + 1, self.steps
        count_down = f"(q>1 ? q-1 : {violated})"
        kept = f"q={violated} ? {violated} : "
        after = [
            f"({kept}0)"
            if met
            else f"({kept}(q=0 ? {k if asked else 0} : {count_down}))"
            for asked, met in zip(self.trigger, self.target, strict=True)
        ]
        commands = "\n".join(
            f"  [] s={s} -> "
            + " + ".join(
                f"{p!r} : (s'={j})&(q'={after[j]})"
                for j, p in self.chain.row(s).items()
            )
            + ";"
            for s in range(self.chain.n)
        )
        return (
            "dtmc\nmodule product\n"
            f"  s : [0..{self.chain.n - 1}] init 0;\n"
            f"  q : [0..{violated}] init {k if self.trigger[0] else 0};\n"
            f'{commands}\nendmodule\nlabel "violated" = q={violated};\n'
        )
