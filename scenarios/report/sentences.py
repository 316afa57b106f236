"""Sentences that summarise a run, compare two runs, and explain wide confidence
bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forewarn.monitors.guarding.decision import KIND_WORDS, RANK, Risk
from forewarn.scenarios.report.film import first_alarm
from forewarn.scenarios.report.runs import LawStory, RecordedRun

WIDE = 0.4
"""The minimum width of confidence bounds that are explained."""

OFTEN = 100
"""A state with fewer visits in training counts as rare."""


def verdict(run: RecordedRun) -> Iterator[str]:
    """Yields the summary of a run, mostly one sentence per law."""
    calm = []
    for law in run.laws:
        alarm = first_alarm(law, run)
        if law.broken:
            yield _broken(law, alarm)
        elif alarm is not None:
            done = "intervened" if run.mode == "guarded" else "warned"
            yield f"The guard {done} at {alarm:g} s; {law.name} was not broken."
        else:
            calm.append(law.name)
    if not calm:
        return
    if len(calm) > 2:
        yield (
            f"{len(calm)} laws were not broken, and the guard did not intervene for "
            "them."
        )
        return
    for name in calm:
        yield f"{name} was not broken, and there was no warning."


def _broken(law: LawStory, alarm: float | None) -> str:
    time_s, since_s = law.broken[0]
    if alarm is None:
        return f"{law.name} was broken at {time_s:g} s. There was no warning."
    if alarm >= since_s:
        late = f"The first warning, at {alarm:g} s, came too late."
        return f"{law.name} was broken at {time_s:g} s. {late}"
    ahead = f"{time_s - alarm:.1f} s before"
    if since_s < time_s:
        ahead += f" and {since_s - alarm:.1f} s before its trigger"
    return f"{law.name} was broken at {time_s:g} s; the guard warned {ahead}."


def compared(
    first: RecordedRun, second: RecordedRun, sides: Sequence[str]
) -> Iterator[str]:
    """Yields a sentence per run about the law that was broken first in either run.

    Args:
        first: The first run, such as one without a guard.
        second: The second run, such as one with a guard.
        sides: The names of the two runs.
    """
    broken = [
        (law.broken[0][0], law.name)
        for run in (first, second)
        for law in run.laws
        if law.broken
    ]
    if not broken:
        for side, run in zip(sides, (first, second), strict=True):
            yield f"{side}: {' '.join(verdict(run))}"
        return
    time_s, name = min(broken)
    for side, run in zip(sides, (first, second), strict=True):
        law = next((each for each in run.laws if each.name == name), None)
        yield f"{side}, {_became(name, law, run, time_s)}"


def _became(name: str, law: LawStory | None, run: RecordedRun, other_s: float) -> str:
    if law is None:
        return f"{name} was not watched."
    alarm = first_alarm(law, run)
    fate = f"{name} was broken at {law.broken[0][0]:g} s" if law.broken else ""
    if alarm is None or run.mode != "guarded":
        return f"{fate or f'{name} was not broken'}."
    kinds = [
        kind
        for time_s, kind in zip(run.times_s, run.decisions, strict=True)
        if time_s >= alarm
    ]
    worst = max(kinds, key=RANK.__getitem__)
    done = KIND_WORDS[worst].became if worst in KIND_WORDS else ""
    ahead = f", {other_s - alarm:.1f} s earlier" if alarm < other_s else ""
    end = fate or f"{name} was not broken"
    return f"a warning came at {alarm:g} s{ahead}; {done}, and {end}."


# -- evidence -------------------------------------------------------------------------


def moment_of(run: RecordedRun) -> int:
    """Returns the index of the frame with the first warning, or else the first
    violation, or else the highest risk.
    """
    alarms = [a for law in run.laws if (a := first_alarm(law, run)) is not None]
    breaches = [law.broken[0][0] for law in run.laws if law.broken]
    times = alarms or breaches
    if times:
        return min(
            range(len(run.times_s)), key=lambda i: abs(run.times_s[i] - min(times))
        )
    return max(range(len(run.times_s)), key=lambda i: _worst(run, i)[1])


def _worst(run: RecordedRun, i: int) -> tuple[str, float, Risk | None]:
    known = [(law.name, law.risks[i]) for law in run.laws]
    told = [(name, risk.point, risk) for name, risk in known if risk is not None]
    return max(told, key=lambda each: each[1], default=("", 0.0, None))


def bounds(run: RecordedRun) -> str | None:
    """Explains wide confidence bounds at the frame of `moment_of`; None if they are
    narrow.
    """
    i = moment_of(run)
    _, _, risk = _worst(run, i)
    if risk is None or risk.high - risk.low < WIDE:
        return None
    said = (
        f"At {run.times_s[i]:g} s the risk is {risk.point:.2f}, with confidence bounds"
        f" {risk.low:.2f} and {risk.high:.2f}. They are valid for any distribution of"
        " training runs and allow for transitions that were never seen"
    )
    visits = None if run.chain is None else run.chain.model.visits
    state = run.visits[i] if run.visits else None
    if visits is not None and state is not None:
        count = int(visits[state])
        came = f"training runs visited this state {count:,} time{'s' * (count != 1)}"
        more = ", but its successors less often" if count >= OFTEN else ""
        said += f": {came}{more}"
    elif run.visits and state is None:
        said += ": no training run visited this state"
    if risk.likely is not None:
        low, high = risk.likely
        said += f". The dotted lines show its likely range, {low:.2f} to {high:.2f}"
    return f"{said}."


def evidence(run: RecordedRun, i: int) -> tuple[str, ...]:
    """Returns the predicates that are true at a frame; empty if it has no known
    state.
    """
    chain, state = run.chain, run.visits[i] if run.visits else None
    if chain is None or state is None:
        return ()
    bits = chain.abstraction.bits(chain.model.chain.states[state])
    return chain.abstraction.holding(bits)
