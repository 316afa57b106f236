"""The effect of a guard that intervenes: unguarded and guarded runs, paired by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.monitors.evaluation.evidence import LEVEL, Rate, Reference
from forewarn.monitors.evaluation.figures import rate
from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.guarding.certificate import deciding
from forewarn.monitors.guarding.decision import RANK
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.warrant import KEPT, WINDOWS, Warrant, refuted, told_of
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.tracker import HARD_BRAKE
from forewarn.scenarios.schema import Scenario

LONGER = 1.1
"""A clean run counts as prolonged if its duration with the guard exceeds the unguarded
duration by more than this factor.
"""


def compare(
    unguarded: Sequence[Episode], guarded: Sequence[Episode], scenario: Scenario
) -> dict[str, Any]:
    """Compares unguarded and guarded episodes, paired by seed.

    Pairs with a failed episode are left out. Durations are compared for pairs in which
    the guarded run is clean and a violation did not end the unguarded run early.
    """
    others = {episode.seed: episode for episode in guarded if not episode.failed}
    has_goal = scenario.goal is not None
    pairs = [
        (before, others[before.seed])
        for before in unguarded
        if not before.failed and before.seed in others
    ]
    laws = []
    for law in scenario.laws:
        broken = [(b.first(law.name), a.first(law.name)) for b, a in pairs]
        without = sum(before is not None for before, _ in broken)
        acting = sum(after is not None for _, after in broken)
        caused = sum(before is None and after is not None for before, after in broken)
        saved = [a for b, a in pairs if b.first(law.name) and not a.first(law.name)]
        laws.append(
            {
                "law": law.name,
                "violating_unguarded": without,
                "violating_guarded": acting,
                "violation_rate_unguarded": rate(without, len(pairs)),
                "violation_rate_guarded": rate(acting, len(pairs)),
                "caused": caused,
                "cut": None if not without else 1 - acting / without,
                "saved": len(saved),
                "saved_arrived": _arrived(saved, has_goal),
            }
        )
    clean = [(b, a) for b, a in pairs if not a.violations and _whole(b)]
    whole = [pair for pair in clean if not unfinished(*pair)]
    before_s = sum(before.duration_s for before, _ in whole)
    after_s = sum(after.duration_s for _, after in whole)
    kinds = [{each.kind for each in after.interventions} for _, after in pairs]
    return {
        "episodes": len(guarded),
        "failed": sum(episode.failed for episode in guarded),
        "pairs": len(pairs),
        "laws": laws,
        "episodes_with": {
            kind: sum(kind in found for found in kinds)
            for kind in sorted(set().union(*kinds))
        },
        "clean_pairs": len(clean),
        "prolonged": sum(prolonged(before, after) for before, after in clean),
        "unfinished": len(clean) - len(whole),
        "duration_ratio": after_s / before_s if before_s else None,
        "clean_stopped": sum(stopped(a) for b, a in pairs if not b.violations),
        "outcomes": {
            "unguarded": outcomes([b for b, _ in pairs], has_goal),
            "guarded": outcomes([a for _, a in pairs], has_goal),
        },
        "driving": _driving(pairs),
    }


def prolonged(before: Episode, after: Episode) -> bool:
    """Whether the guard prolonged a run: the guarded run took more than 10 % longer, or
    only the guarded run hit the time limit or was left unfinished.

    A run that hits the time limit has no known duration.
    """
    # Times are sums of periods and have rounding errors.
    longer = after.duration_s > LONGER * before.duration_s + 1e-9
    late = after.timed_out and not before.timed_out
    return longer or late or unfinished(before, after)


def unfinished(before: Episode, after: Episode) -> bool:
    """Whether only the guarded run ended before its task was complete."""
    return _is_done(before) and not _is_done(after) and not after.timed_out


def _is_done(run: Episode) -> bool:
    """Whether a run reached the scenario's goal, or the agent said that it was done."""
    return run.goal_s is not None or bool(run.facts.get("finished"))


def slowed(before: Episode, after: Episode) -> bool:
    """Whether the guarded run is clean, and takes more than 10 % longer than without
    the guard, hits the time limit or is not finished.
    """
    if after.violations:
        return False
    if _whole(before):
        return prolonged(before, after)
    return after.timed_out


def stopped(after: Episode) -> bool:
    """Whether the guard did more than alert in a run."""
    return any(RANK[each.kind] > RANK["alert"] for each in after.interventions)


def _whole(before: Episode) -> bool:
    """Whether an unguarded run's duration can be used for comparison: the run is clean,
    or no violation ended it early.
    """
    ended = before.timed_out or before.arrived or _is_done(before)
    return not before.violations or ended


def outcomes(runs: Sequence[Episode], has_goal: bool) -> dict[str, Any]:
    """Counts the outcomes of runs; None for those that the world does not report."""
    moving = any("stands" in each.facts for each in runs)
    standing = [each for each in runs if each.timed_out and each.facts.get("stands")]
    return {
        "runs": len(runs),
        "violating": sum(bool(each.violations) for each in runs),
        "arrived": _arrived(runs, has_goal),
        "arrived_means": _means(runs, has_goal),
        "timed_out": sum(each.timed_out for each in runs),
        "standing": len(standing) if moving else None,
        "stationary_s": sum(map(stationary_s, runs)) if moving else None,
    }


def _arrived(runs: Sequence[Episode], has_goal: bool) -> int | None:
    """Returns the number of runs that arrived; None if the world does not report it."""
    means = _means(runs, has_goal)
    if means is None:
        return None
    return sum(_is_done(r) if means == "finish" else r.arrived for r in runs)


def _means(runs: Sequence[Episode], has_goal: bool) -> str | None:
    """Returns the verb for successful runs, which depends on what the world reports;
    None if the world does not report success.
    """
    if any("destination_s" in each.facts for each in runs):
        return "arrive"
    if has_goal:
        return "reach the goal"
    return "finish" if any("finished" in each.facts for each in runs) else None


def saved(law: Mapping[str, Any]) -> str:
    """Returns "N of M": N of the M runs with a prevented violation arrived."""
    arrived, of = law["saved_arrived"], law["saved"]
    return "" if arrived is None or not of else f"{arrived} of {of}"


def stationary_s(run: Episode) -> float:
    """Returns how many seconds the vehicle stood still; 0 if the world does not report
    it.
    """
    return float(run.facts.get("stationary_s") or 0.0)


def finished(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields one sentence with the outcomes with and without the guard."""
    before, after = (facts["outcomes"][side] for side in ("unguarded", "guarded"))
    missed = " or do not finish" if facts.get("unfinished") else ""
    slowed = (
        f"{facts['prolonged']} of {facts['clean_pairs']} clean runs take more "
        f"than 10 % longer{missed}"
    )
    said = _outcomes_as_text(after, before, slowed)
    yield f"Of {after['runs']} runs with the guard, {said}."


def ended(runs: Sequence[Episode], has_goal: bool) -> Iterator[str]:
    """Yields one sentence with the outcomes of the guarded runs, if there are any.

    The sentence omits the number of slowed runs, which only a comparison with the same
    runs without the guard can show.

    Args:
        runs: The runs of one scenario.
        has_goal: Whether the scenario has a goal.
    """
    guarded = [each for each in runs if each.mode == "guarded" and not each.failed]
    if guarded:
        yield (
            f"Of {len(guarded)} runs with the guard, "
            f"{_outcomes_as_text(outcomes(guarded, has_goal))}. `forewarn measure` "
            "compares them with the same runs without the guard."
        )


def _outcomes_as_text(
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    slowed: str = "",
) -> str:
    """Lists the outcomes of runs with the guard, and of the same runs without it."""

    def told(key: str, what: str, note: str = "") -> str:
        without = "" if before is None else f" ({before[key]}{note})"
        return f"{after[key]} {what}{without}"

    said = [told("violating", "break a law", " without")]
    if after["arrived"] is not None:
        said.append(told("arrived", after.get("arrived_means", "arrive")))
    if slowed:
        said.append(slowed)
    if after["standing"] is not None:
        said.append(told("standing", "stand still until the time limit"))
    elif after["timed_out"] or (before and before["timed_out"]):
        said.append(told("timed_out", "reach the time limit"))
    return "; ".join(said)


_PER_RUN = {
    "collided": "Collisions per run",
    "hard_brakes": f"Hard braking events per run, above {HARD_BRAKE:g} m/s²",
    "others_collided": "Collisions between other vehicles per run",
}


def _driving(
    pairs: Sequence[tuple[Episode, Episode]],
) -> dict[str, Mapping[str, Any]]:
    """Compares driving measurements without and with a guard, paired by seed."""
    found: dict[str, Mapping[str, Any]] = {}
    for fact in _PER_RUN:
        both = _known(pairs, fact)
        if both:
            sums = [
                sum(float(value) for value in side) for side in zip(*both, strict=True)
            ]
            found[fact] = {
                "unguarded": sums[0] / len(both),
                "guarded": sums[1] / len(both),
            }
    arrived = _known(pairs, "destination_s")
    if any("destination_s" in before.facts for before, _ in pairs):
        before_s = sum(before for before, _ in arrived)
        after_s = sum(after for _, after in arrived)
        found["destination_s"] = {
            "pairs": len(arrived),
            "of": len(pairs),
            "arrived": {
                side: sum(each.facts.get("destination_s") is not None for each in runs)
                for side, runs in zip(
                    ("unguarded", "guarded"), zip(*pairs, strict=True), strict=True
                )
            },
            "unguarded": before_s / len(arrived) if arrived else None,
            "guarded": after_s / len(arrived) if arrived else None,
            "ratio": after_s / before_s if before_s else None,
        }
    return found


def _known(
    pairs: Sequence[tuple[Episode, Episode]], fact: str
) -> list[tuple[float, float]]:
    """Returns a fact's values, for the pairs in which both episodes report it."""
    values = [
        (before.facts.get(fact), after.facts.get(fact)) for before, after in pairs
    ]
    return [(a, b) for a, b in values if a is not None and b is not None]


def handled(driving: Mapping[str, Any]) -> Iterator[str]:
    """Yields sentences that compare the driving without and with the guard."""
    for fact, words in _PER_RUN.items():
        if both := driving.get(fact):
            yield (
                f"{words}: {both['unguarded']:.3f} without, {both['guarded']:.3f} with."
            )
    if "collided" in driving and "others_collided" not in driving:
        yield "The world does not report collisions between other vehicles."
    found = driving.get("destination_s")
    if found and found["pairs"]:
        yield (
            f"Time to the destination, if both runs arrived ({found['pairs']} "
            f"pairs): {found['unguarded']:.1f} s without, {found['guarded']:.1f} "
            "s with."
        )


# -- the guarantee about guarded runs ------------------------------------------------

SLOWED = "runs slowed by more than 10 %"


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy's guarantee in the light of guarded runs.

    Args:
        kept: The guarantee.
        applies: Whether it was certified for this scenario, pilot, model and policy.
        told: The rates that were tested and the evidence on each, as JSON.
        revoked: Why the guarantee no longer holds; empty if it does.
    """

    kept: Guarantee
    applies: bool
    told: Mapping[str, Any]
    revoked: str = ""

    def sentence(self) -> str:
        """The guarantee as text, or why it does not hold."""
        if not self.applies:
            return (
                "The policy's guarantee does not apply to these runs: it was certified "
                f"for {self.kept.scenario} with the pilot {self.kept.pilot}, but the "
                "scenario, the pilot, the model, the policy or the rules are "
                "different. `forewarn tune` with --at-most certifies it again."
            )
        if self.revoked:
            return (
                f"The policy's guarantee no longer holds: {self.revoked}. `forewarn "
                "tune` with --at-most certifies a policy again."
            )
        return self.kept.sentence()

    def as_dict(self) -> dict[str, Any]:
        """The guarantee's validity as JSON."""
        return {
            "applies": self.applies,
            "revoked": self.revoked or None,
            "evidence": self.told,
        }


def standing(
    policy: Policy,
    scenario: Scenario,
    model: Path,
    guarded: Iterable[Episode],
    unguarded: Iterable[Episode] = (),
    other_rules: bool = False,
) -> Standing | None:
    """Tests a policy's guarantee; None if the policy has none or does not intervene.

    In the folder of a certificate, the certificate's evidence decides.

    Args:
        policy: The policy.
        scenario: The scenario of the runs.
        model: The guard's model.
        guarded: The runs with the guard intervening.
        unguarded: The same seeds without it, to recognise runs that were slowed.
        other_rules: Whether rules were added to those of the scenario.
    """
    kept = policy.kept
    if kept is None or policy.shadow:
        return None
    decides = deciding(model, policy)
    drawn = (scenario.digest, scenario.former_digest)
    applies = any(kept.holds(each, decides, policy.digest) for each in drawn)
    if other_rules or not applies:
        return Standing(kept, False, {})
    warrant = Warrant.beside(model)
    if warrant is not None and warrant.certificate.covers(policy):
        return Standing(kept, True, warrant.told()["evidence"], warrant.revoked())
    rates = {
        name: Rate(Reference(most), LEVEL / 2, WINDOWS)
        for name, most in ((KEPT, kept.violating), (SLOWED, kept.slowed))
        if most < 1.0
    }
    before = {each.seed: each for each in unguarded if not each.failed}
    for run in guarded:
        if run.failed:
            continue
        if KEPT in rates:
            rates[KEPT].observe(bool(run.violations))
        if SLOWED in rates and run.seed in before:
            rates[SLOWED].observe(slowed(before[run.seed], run))
    return Standing(kept, True, told_of(rates), next(refuted(rates), ""))
