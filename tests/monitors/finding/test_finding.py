"""Found predicates: what they say, that they exclude each other, and how they fare."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.files import parse_yaml
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.evaluation.foretold import skill
from forewarn.monitors.finding.choice import (
    Choice,
    Evidence,
    best_first,
    choose,
)
from forewarn.monitors.finding.corpus import PENDING_WEIGHT, Corpus
from forewarn.monitors.finding.score import Scored, score_names
from forewarn.monitors.finding.terms import FAR, Family, Feature, families_of
from forewarn.monitors.finding.tree import TreeRecipe
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import (
    Found,
    Judge,
    Recipe,
    dealt,
    out_of_fold,
)

pytestmark = pytest.mark.needs("sklearn")

PERIOD_S = 0.1
LAWS = find_laws("ram := always not collision")


def drive(seed: int) -> Trace:
    """A car comes near something; where it does not brake in time it hits it."""
    luck = random.Random(seed)
    speed, distance, heeds = luck.uniform(6, 14), 40.0, luck.random() < 0.7
    frames: list[Frame] = []
    for i in range(80):
        asked = speed**2 / (2 * max(distance, 0.1))
        brakes = heeds and asked > 2.0
        ahead: float | None = round(distance, 2) if distance < 35 else None
        values: dict[str, Any] = {
            "collision": distance <= 0 and speed > 0,
            "speed": round(3.6 * speed, 3),
            "lead_distance": ahead,
            "braking": brakes,
            "seed": float(seed),
        }
        frames.append(Frame(i * PERIOD_S, i, values))
        if values["collision"] or speed <= 0:
            break
        speed = max(0.0, speed - (1.3 * asked * PERIOD_S if brakes else 0.0))
        distance -= speed * PERIOD_S
    header = TraceHeader(
        None, tuple(frames[0].values), PERIOD_S, "drive", seed, "made up"
    )
    return Trace(header, tuple(frames))


def corpus(count: int = 60) -> Corpus:
    traces = [drive(seed) for seed in range(count)]
    runs = [Kept.of(trace, trace.header.provides) for trace in traces]
    return Corpus(runs, LAWS, None, PERIOD_S)


RUNS = corpus()
ALL = range(len(RUNS.runs))


def tree(**changes: Any) -> TreeRecipe:
    options = {"least": 10, "leaves": 8, **changes}
    return TreeRecipe(RUNS, RUNS.families()[0], 2.0, **options)


def test_constant_signals_are_left_out() -> None:
    (family,) = RUNS.families()
    assert family.signals == ("collision", "speed", "lead_distance", "braking")


def test_moments_are_those_before_the_violation() -> None:
    moments = RUNS.moments(1.0)
    for number, run in enumerate(RUNS.runs):
        here = moments.run == number
        broken = bool(run.signals["collision"][-1])
        assert here.sum() == len(run) - broken
        doomed = moments.doomed[here]
        assert doomed.sum() == (min(10, len(run) - 1) if broken else 0)
        assert not broken or doomed[-10:].all()
    some = moments.of([3, 5])
    assert set(some.run.tolist()) == {3, 5}


@pytest.mark.parametrize("every", [1, 4, 7])
def test_thinned_moments_stand_for_all(every: int) -> None:
    moments = RUNS.moments(1.0)
    thinned = moments.thinned(every)
    assert (np.diff(thinned.row) > 0).all()
    told = moments.row[moments.doomed]
    assert thinned.row[thinned.doomed].tolist() == told.tolist()
    for doomed in (True, False):
        whole = moments.weight[moments.doomed == doomed].sum()
        kept = thinned.weight[thinned.doomed == doomed].sum()
        assert kept == pytest.approx(whole, rel=0.0 if every == 1 or doomed else 0.05)
    clean = (~moments.doomed).sum() / every
    assert (~thinned.doomed).sum() == pytest.approx(clean, rel=0.05)


def test_already_pending_obligations_count_less_unless_they_prevail() -> None:
    def waiting(share: float) -> Corpus:
        laws = find_laws("go := always (red -> eventually[0, 1 s] moves)")
        runs = []
        for seed in range(20):
            red = seed < share * 20
            frames = tuple(
                Frame(i * 0.1, i, {"red": red and i < 3, "moves": i >= 6})
                for i in range(12)
            )
            header = TraceHeader(None, ("red", "moves"), 0.1, "wait", seed)
            runs.append(Kept.of(Trace(header, frames), ("red", "moves")))
        return Corpus(runs, laws, None, 0.1)

    few, most = waiting(0.3), waiting(0.9)
    assert not few.harmless and most.harmless
    assert set(few.moments(1.0).weight.tolist()) == {PENDING_WEIGHT, 1.0}
    assert set(most.moments(1.0).weight.tolist()) == {1.0}


def test_leaves_exclude_each_other_and_are_remembered() -> None:
    found, leaves = tree().grown(ALL)
    assert 2 <= len(leaves) <= 7
    basis = len(RUNS.basis.predicates)
    now = sum(1 << i for i, p in enumerate(found.predicates) if i >= basis
              and not p.lag_s)  # fmt: skip
    then = sum(1 << i for i, p in enumerate(found.predicates) if p.lag_s == 0.5)
    assert now.bit_count() == then.bit_count() == len(leaves)
    for run in RUNS.runs:
        states = encode_trace(run, found).tolist()
        for i, state in enumerate(states):
            assert (state & now).bit_count() <= 1
            assert (state & then) == (states[max(0, i - 5)] & now) << 1


def test_the_same_runs_give_the_same_text_and_a_file_that_is_read_again() -> None:
    found, leaves = tree().grown(ALL)
    again = TreeRecipe(corpus(), RUNS.families()[0], 2.0, 10, 8)
    assert again.grown(ALL)[0].as_dict() == found.as_dict()
    from forewarn.monitors.finding.tree import tree_text

    text = tree_text(found, leaves, "Made up.\nTwo lines.")
    assert text.startswith("# Made up.\n# Two lines.\nformat:")
    assert text.count("a violation followed") == len(leaves)
    read = Abstraction.from_dict(parse_yaml(text, "x"), "x")
    assert read.fingerprint() == found.fingerprint()


@pytest.mark.parametrize("low", [False, True])
def test_none_is_below_or_above_every_cut(low: bool) -> None:
    feature = Feature("gap", low=low)
    column = np.array([1.0, 2.0, np.nan, 3.0])
    values = feature.values(column)
    assert values[2] == (-FAR if low else FAR)
    assert feature.values(np.array([None, None])).tolist() == [values[2]] * 2
    texts = feature.above(2.0), feature.below(2.0), feature.between(1.5, 2.0)
    found = from_expressions(texts).encode_arrays({"gap": column}, 4).tolist()
    above, below = values > 2.0, values <= 2.0
    between = (values > 1.5) & below
    assert found == (above + 2 * below + 4 * between).tolist()


def test_no_cut_is_finer_than_what_is_measured() -> None:
    """What a computer leaves beside nothing parts runs, and means nothing."""

    def kept(seed: int) -> Kept:
        trace = drive(seed)
        noise = 6.9e-6 if trace.frames[-1].values["collision"] else 0.0
        frames = tuple(
            replace(f, values={**f.values, "lateral_offset": noise * f.sequence})
            for f in trace.frames
        )
        header = replace(trace.header, provides=tuple(frames[0].values))
        return Kept.of(Trace(header, frames), header.provides)

    runs = Corpus([kept(seed) for seed in range(40)], LAWS, None, PERIOD_S)
    signals = ("collision", "lateral_offset")
    recipe = TreeRecipe(runs, Family("beside nothing", signals), 2.0, least=4)
    texts = recipe(range(40)).abstraction.texts
    assert any("lateral_offset" in text for text in texts)
    assert not [text for text in texts if re.search(r"e-\d|0\.000\d", text)]


def test_words_and_truths_are_conditions_too() -> None:
    assert Feature("light", "red").above(0.5) == "light == red"
    assert Feature("light", "red").below(0.5) == "not (light == red)"
    assert Feature("wet", truth=True).below(0.5) == "not wet"
    words = np.array(["red", None, "green"], object)
    assert Feature("light", "red").values(words).tolist() == [1, 0, 0]


def test_found_predicates_foretell_what_the_laws_own_cannot() -> None:
    def fares(recipe: Recipe) -> float:
        folds = out_of_fold(RUNS.runs, recipe, LAWS, [2.0], dealt(ALL, 4))
        return skill([each for fold in folds for each in fold["ram"]], 2.0, idle=True)

    blind = fares(lambda _: Found(RUNS.basis))
    assert fares(tree()) > blind + 0.2


@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=40))
def test_no_group_lies_in_two_folds(groups: list[str]) -> None:
    fold_of = dealt(groups, 5)
    assert set(fold_of) == set(range(max(fold_of) + 1)) and max(fold_of) < 5
    if len(set(groups)) > 1:
        assert len(set(zip(groups, fold_of, strict=True))) == len(set(groups))
        assert max(fold_of) > 0
    alone = dealt(range(len(groups)), 5)
    assert alone == sorted(alone)
    if len(groups) >= 5:
        sizes = np.bincount(alone)
        assert len(sizes) == 5 and sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("count", [2, 3])
def test_two_groups_are_split_among_folds_and_three_are_not(count: int) -> None:
    runs = RUNS.runs[:30]
    groups = [number % count for number in range(len(runs))]
    found = Corpus(runs, LAWS, None, PERIOD_S, groups).folds(range(len(runs)))
    assert len(set(found)) == (5 if count == 2 else 3)
    whole = len(set(zip(groups, found, strict=True))) == count
    assert whole == (count == 3)


@pytest.mark.parametrize("room", [27, 9])
def test_bands_of_a_score_tell_the_few_clean_runs_apart_that_climb_highest(
    room: int,
) -> None:
    luck = np.random.default_rng(3)
    runs, moments = 300, 40
    outside = luck.normal(size=(runs, moments))
    doomed = np.zeros((runs, moments), bool)
    doomed[:60, -10:] = True
    outside[doomed] += 4.0
    run = np.repeat(np.arange(runs), moments)
    scored = Scored("danger", None, (), outside.ravel(), run, doomed.ravel())  # type: ignore[arg-type]
    cuts = scored.edges(room)
    assert len(cuts) <= room and cuts == sorted(cuts)
    tops = outside[60:].max(axis=1)
    alarmed = [float((tops >= cut).mean()) for cut in cuts]
    few = [each for each in alarmed if each < 0.12]
    assert few[-1] == 0.0 and len(set(few)) >= (7 if room == 27 else 2)
    # Those that break the law are told apart as well, and none of them crowd a band.
    highest = np.searchsorted(cuts, outside[:60].max(axis=1))
    assert np.bincount(highest).max() <= (9 if room == 27 else 20)


@pytest.mark.parametrize("falls", [True, False])
def test_bands_above_which_violations_are_rarer_are_merged(falls: bool) -> None:
    """The runs with the highest scores keep the law, or break it like the next."""
    luck = np.random.default_rng(4)
    top = np.repeat([0.0, 4.0, 6.0], 60)
    outside = luck.random((180, 20)) + np.linspace(0.0, 1.0, 20) * top[:, None]
    doomed = outside >= 4.0
    doomed[120:] &= not falls
    run = np.repeat(np.arange(180), 20)
    scored = Scored("danger", None, (), outside.ravel(), run, doomed.ravel())  # type: ignore[arg-type]
    edges = scored.edges(27)
    assert any(3.5 < edge < 4.5 for edge in edges)
    assert any(4.6 < edge < 6.5 for edge in edges) == (not falls)


def test_the_score_of_each_law_has_a_name_of_its_own() -> None:
    texts = ["always speed <= 60", "ram := always not collision", "always speed <= 50"]
    laws = [law for text in texts for law in find_laws(text)]
    assert score_names(laws) == ["danger", "danger_of_ram", "danger_3"]


def test_the_choice_shows_its_evidence_the_best_first() -> None:
    hand = from_expressions(["collision", "speed > 20"], period_s=PERIOD_S)
    counted: list[int] = []

    def shown(items: Any, what: str, total: int) -> Iterator[Any]:
        counted.append(total)
        yield from items

    choice = choose(RUNS, hand, 2.0, progress=shown)
    assert counted == [len(choice.evidence)]  # "of 7", and 7 they are
    worths = [each.worth for each in choice.evidence]
    assert worths == sorted(worths, reverse=True)
    kinds = {each.kind for each in choice.evidence}
    assert kinds == {"hand-made", "learned", "scored"}
    assert choice.kind != "hand-made"
    assert choice.as_dict()["chosen"] == choice.kind
    assert len(list(choice.sentences())) == 1 + 2 * len(choice.evidence)
    again = choice.recipe(ALL).abstraction
    assert choice.abstraction.as_dict() == again.as_dict()


def test_without_clean_runs_the_best_mean_is_chosen() -> None:
    broken = [run for run in corpus(120).runs if run.signals["collision"][-1]]
    hand = from_expressions(["collision", "speed > 20"], period_s=PERIOD_S)
    choice = choose(Corpus(broken, LAWS, None, PERIOD_S), hand, 2.0)
    best = choice.evidence[0]
    assert best.leads == {} and "with a warning" not in list(choice.sentences())[1]
    assert best.mean == max(each.mean for each in choice.evidence)
    assert any("no run keeps ram" in each for each in choice.warnings())


def told(many: int, of: int, early_s: float = 1.0) -> Any:
    """The first of some violations were warned of, so early."""
    return np.array([[early_s if i < many else np.nan for i in range(of)]])


def tried(kind: Any, name: str, skill: float = 0.5, **early_s: Any) -> Evidence:
    return Evidence(kind, name, dict.fromkeys(early_s, skill), early_s)


@pytest.mark.parametrize(
    ("hand", "score", "taken"),
    [
        (told(30, 40), told(40, 40), "scored"),
        (told(40, 40), told(39, 40), "hand-made"),
        (told(40, 40), told(40, 40, early_s=1.4), "scored"),  # its skill
        (told(40, 40), told(39, 40, early_s=9.0), "hand-made"),
        (told(40, 40, early_s=0.3), told(13, 40), "scored"),
        (told(13, 40), told(40, 40, early_s=0.3), "hand-made"),
        (
            told(40, 40, early_s=0.5),
            told(39, 40, early_s=0.6),
            "scored",
        ),  # it is earlier
    ],
)
def test_a_short_lead_time_has_a_proportional_value(
    hand: Any, score: Any, taken: str
) -> None:
    tree = tried("learned", "tree", ram=told(0, hand.size))
    scored = tried("scored", "score", 0.9, ram=score)
    ordered = best_first([tree, tried("hand-made", "own", 0.3, ram=hand), scored])
    assert ordered[0].kind == taken
    assert ordered[-1] is tree


def test_mean_lead_time_is_stored_with_the_median_and_the_share_a_second_ahead() -> (
    None
):
    early_s = np.array([[0.2, 0.4, 3.0, np.nan]])
    facts = tried("learned", "tree", ram=early_s, calm=told(0, 4)).as_dict()
    assert facts["warned"] == {"ram": 0.75, "calm": 0.0}
    assert facts["ahead_s"] == {"ram": 1.2, "calm": 0.0}
    assert facts["median_s"] == {"ram": 0.4}
    assert facts["second_ahead"] == {"ram": 0.25, "calm": 0.0}


def test_a_law_whose_risk_tops_out_low_is_named() -> None:
    tree = replace(tried("learned", "tree", ram=told(2, 10)), top={"ram": 0.12})
    choice = Choice(Found(RUNS.basis), lambda _: Found(RUNS.basis), (tree,))
    (said,) = choice.warnings()
    assert said.startswith("the risk of ram never exceeds 0.12 before violations")
    high = replace(tree, top={"ram": 0.9})
    assert not list(Choice(choice.found, choice.recipe, (high,)).warnings())


def test_event_that_never_happens_cannot_be_predicted() -> None:
    calm = [run for run in RUNS.runs if not run.signals["collision"].any()]
    with pytest.raises(InvalidInput, match="nothing can be learned"):
        recipe = TreeRecipe(Corpus(calm, LAWS, None, 0.1), tree().family, 2.0, 10)
        recipe(range(len(calm)))


def test_missing_scikit_learn_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(MissingDependency, match="scikit-learn"):
        tree()(ALL)


def test_a_law_belongs_to_the_first_family_that_it_reads() -> None:
    driving = load_vocabulary("driving")

    def names(*texts: str) -> list[str]:
        laws = [law for text in texts for law in find_laws(text, vocabulary=driving)]
        parts = [part for law in laws for part in law.parts or (law,)]
        return [family.name for family in families_of(parts, driving)]

    both = ["collision with a vehicle", "collision with a person"]
    assert names("no_collision") == both
    assert names("51_5") == ["light"]
    assert names("38_1") == ["response to a light"]
    assert names("53") == ["jam"]
    assert names("45") == ["speed"]
    assert names("always (lane_changing -> not priority_vehicle)") == ["lanes"]
    waits = "always (priority_vehicle -> eventually[0, 2 s] speed < 1 km/h)"
    assert names(waits, "no_collision") == ["giving way", *both]
    assert names("always not (lead_distance < 3 m)") == ["following"]
    for family in families_of(list(LAWS), driving):
        assert all(name in driving.signals for name in family.signals)
    assert families_of(list(LAWS), None) == []


def test_a_family_of_one_word_signals_is_enough() -> None:
    family = Family("brakes", ("braking", "speed"))
    found = TreeRecipe(RUNS, family, 2.0, 10, 4)(ALL).abstraction
    assert set(found.signals) <= {"collision", "braking", "speed"}


def test_judge_repeats_pending_obligations_at_the_end() -> None:
    laws = find_laws("go := always (red -> eventually[0, 1 s] moves)")
    frames = tuple(Frame(i * 0.1, i, {"red": i == 3, "moves": False}) for i in range(6))
    header = TraceHeader(None, ("red", "moves"), 0.1, "wait", 1)
    run = Kept.of(Trace(header, frames), ("red", "moves"))
    basis = Corpus([run], laws, None, 0.1).basis
    judge = Judge.learn([run], basis, laws, [1.0])
    ((_, told),) = judge.look(0, run)
    assert told.broken is not None
    assert told.broken.time_s == pytest.approx(1.3)
    assert told.broken.since_s == pytest.approx(0.3)
    assert len(told.times_s) == 6 and not told.unknown.any()
