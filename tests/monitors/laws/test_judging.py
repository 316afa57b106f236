"""Laws over recorded traces: verdicts, clocks, latching, what no verdict is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidTrace, TooLarge
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Trace, TraceHeader
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.clocking import law_latches, regular_period, ticks_of
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.judging import Breach, Judgement, judge
from forewarn.monitors.laws.progression import normalise
from tests.monitors.laws.named import load_law


def _trace(
    rows: Sequence[dict[str, Any]],
    times: Sequence[float] | None = None,
    period_s: float | None = None,
    vocabulary: str | None = None,
) -> Trace:
    times = times if times is not None else [i / 10 for i in range(len(rows))]
    frames = [
        Frame(t, i, row) for i, (t, row) in enumerate(zip(times, rows, strict=True))
    ]
    provides = tuple(dict.fromkeys(key for row in rows for key in row))
    known = load_vocabulary(vocabulary) if vocabulary else None
    header = TraceHeader(vocabulary, provides, period_s, source="test")
    return Trace(header, tuple(frames), vocabulary=known)


def _bits(**columns: str) -> list[dict[str, bool]]:
    """`a="0110"` as the rows of a trace."""
    names, texts = list(columns), list(columns.values())
    return [
        dict(zip(names, (c == "1" for c in chars), strict=True))
        for chars in zip(*texts, strict=True)
    ]


def _judge(text: str, trace: Trace, **options: Any) -> Judgement:
    return judge(load_law(text, vocabulary=trace.vocabulary), trace, **options)


def test_a_deadline_is_exact() -> None:
    law = "always (a -> eventually[0, 0.3 s] b)"
    met = _judge(law, _trace(_bits(a="01000", b="00001")))
    assert met.verdict == "ok" and met.violations == ()
    late = _judge(law, _trace(_bits(a="010000", b="000001")), every=True)
    assert late.verdict == "violated"
    (breach,) = late.violations
    assert breach == Breach(4, 0.4, 0.1)
    assert late.frames == (
        "ok",
        "pending",
        "pending",
        "pending",
        "violated",
        "violated",
    )


def test_a_trace_that_ends_early_is_pending_with_the_time_left() -> None:
    judged = _judge(
        "always (a -> eventually[0, 0.5 s] b)", _trace(_bits(a="010", b="000"))
    )
    assert judged.verdict == "pending" and judged.left_s == pytest.approx(0.4)


def test_after_a_violation_the_monitor_starts_afresh() -> None:
    trace = _trace(_bits(a="1111111", b="0000000"))
    judged = _judge("always (a -> eventually[0, 2 steps] b)", trace)
    assert [v.frame for v in judged.violations] == [2, 5]
    assert [v.since_s for v in judged.violations] == pytest.approx([0.0, 0.3])


def brute_force(a: list[bool], b: list[bool], steps: int) -> list[tuple[int, int]]:
    """Violations of always(a -> eventually[0,steps] b), re-armed, from the meaning."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(a):
        broken = [
            (i + steps, i)
            for i in range(start, len(a) - steps)
            if a[i] and not any(b[i : i + steps + 1])
        ]
        if not broken:
            return found
        found.append(broken[0])
        start = broken[0][0] + 1
    return found


boolean_rows = st.lists(
    st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40
)


@given(boolean_rows, st.integers(0, 6))
def test_regular_traces_agree_with_the_meaning(
    rows: list[tuple[bool, bool]], steps: int
) -> None:
    trace = _trace([{"a": a, "b": b} for a, b in rows])
    judged = _judge(f"always (a -> eventually[0, {steps} steps] b)", trace, every=True)
    expected = brute_force([a for a, _ in rows], [b for _, b in rows], steps)
    assert [(v.frame, round(v.since_s * 10)) for v in judged.violations] == expected
    assert (judged.verdict == "violated") is bool(expected)
    for i, verdict in enumerate(judged.frames):
        assert (verdict == "violated") is bool(expected and i >= expected[0][0])


@given(boolean_rows, st.integers(0, 6))
def test_seconds_and_steps_are_the_same_on_a_regular_trace(
    rows: list[tuple[bool, bool]], steps: int
) -> None:
    trace = _trace([{"a": a, "b": b} for a, b in rows])
    one = _judge(f"always (a -> eventually[0, {steps} steps] b)", trace)
    two = _judge(f"always (a -> eventually[0, {steps / 10} s] b)", trace, period_s=0.1)
    assert (one.verdict, one.violations) == (two.verdict, two.violations)


@given(boolean_rows, st.integers(1, 6))
def test_frames_that_say_nothing_new_can_be_left_out(
    rows: list[tuple[bool, bool]], steps: int
) -> None:
    """A source that records only changes gives the same violations."""
    law = f"always (a -> eventually[0, {steps / 10} s] b)"
    whole = _trace([{"a": a, "b": b} for a, b in rows])
    kept = [
        frame
        for i, frame in enumerate(whole.frames)
        if i in (0, len(rows) - 1) or rows[i] != rows[i - 1]
    ]
    thin = Trace(whole.header, tuple(kept))
    one, two = (_judge(law, trace, period_s=0.1) for trace in (whole, thin))
    assert one.verdict == two.verdict or "vacuous" in (one.verdict, two.verdict)
    times = [[(v.time_s, v.since_s) for v in j.violations] for j in (one, two)]
    assert np.array(times[0]) == pytest.approx(np.array(times[1]))


def test_time_passes_while_no_frame_comes() -> None:
    trace = _trace(_bits(a="100", b="000"), times=[0.0, 0.2, 5.0])
    judged = _judge(
        "always (a -> eventually[0, 1 s] b)", trace, period_s=0.1, every=True
    )
    (breach,) = judged.violations
    assert (breach.frame, breach.since_s) == (2, 0.0)
    assert breach.time_s == pytest.approx(1.0)
    assert judged.frames == ("pending", "pending", "violated")


def test_values_between_two_ticks_count() -> None:
    brief = _trace(_bits(a="0001000000", b="0000000000"))
    law = "always (a -> eventually[0, 0.5 s] b)"
    assert _judge(law, brief, period_s=0.5).verdict == "pending"
    answered = _trace(_bits(a="1000000000", b="0010000000"))
    assert _judge(law, answered, period_s=0.5).verdict == "ok"
    assert _judge("always not a", brief, period_s=0.5).verdict == "violated"


def test_the_last_part_of_a_tick_is_seen_too() -> None:
    trace = _trace(_bits(a="00000000", b="00000001"))
    law = "always (eventually[0, 0.5 s] a or not b)"
    assert _judge(law, trace, period_s=0.5).verdict == "pending"
    law = "always (a -> eventually[0, 0.5 s] a) and always not b"
    assert _judge(law, trace, period_s=0.5, every=True).frames[-1] == "violated"


def test_a_tick_that_is_not_over_breaks_no_deadline() -> None:
    law = "always (a -> eventually[0, 0.5 s] b)"
    early = _trace(_bits(a="1000000", b="0000000"))
    judged = _judge(law, early, period_s=0.5, every=True)
    assert judged.verdict == "violated" and judged.violations[0].frame == 5
    late = _trace(_bits(a="0100000", b="0000000"))
    judged = _judge(law, late, period_s=0.5, every=True)
    assert (judged.verdict, judged.violations) == ("pending", ())
    assert judged.frames[-1] == "pending"


@pytest.mark.parametrize(
    ("text", "latches"),
    [
        ("always (a -> eventually[0, 2 s] b)", ("any", "any")),
        ("always not a", ("any",)),
        ("always a", ("all",)),
        ("always (a -> b)", ("all",)),
        ("always (a -> always[0, 2 s] b)", ("any", "all")),
        ("always (a -> eventually[0, 2 s] not b)", ("any", "all")),
        ("always (eventually[0, 1 s] a -> once[0, 1 s] b)", ("any", "any")),
        ("always (a -> b until[0, 2 s] c)", ("any", "all", "any")),
        ("always (a -> next a)", ("last",)),
    ],
)
def test_propositions_latch_as_their_position_demands(text: str, latches: Any) -> None:
    formula = parse_formula(text)
    assert law_latches(formula, normalise(formula, 1.0).propositions) == latches


@pytest.mark.parametrize(
    ("times", "period"),
    [
        ([0, 0.1, 0.2, 0.3], 0.1),
        ([7.0, 7.1003, 7.1998, 7.3], 0.1),
        ([0, 0.033, 0.067, 0.1], 1 / 30),
        ([0, 0.2, 0.3], None),
        ([0], None),
        ([0, 0.37, 0.74], 0.37),
    ],
)
def test_regular_times_have_a_period(times: list[float], period: float | None) -> None:
    assert regular_period(np.array(times)) == period


def test_jitter_does_not_drop_or_double_frames() -> None:
    times = [0.0, 0.0999, 0.2001, 0.2999, 0.4]
    trace = _trace(_bits(a="10000", b="00001"), times=times)
    for period in (None, 0.1):
        judged = _judge("always (a -> eventually[0, 0.3 s] b)", trace, period_s=period)
        assert [v.frame for v in judged.violations] == [3]


def test_a_law_of_seconds_needs_a_clock() -> None:
    trace = _trace(_bits(a="111", b="000"), times=[0, 0.1, 0.5])
    law = "always (a -> eventually[0, 1 s] b)"
    with pytest.raises(InvalidTrace, match="irregular.*for example --period 0.25"):
        _judge(law, trace)
    assert _judge(law, trace, period_s=0.1).verdict == "pending"
    assert _judge("always (a -> eventually[0, 1 steps] b)", trace).violations
    assert _judge("always not a", trace).violations


def test_a_trace_that_lasts_for_ever_is_refused() -> None:
    trace = _trace(_bits(a="11", b="00"), times=[0, 1e9])
    with pytest.raises(TooLarge, match="longer period"):
        _judge("always (a -> eventually[0, 1 s] b)", trace, period_s=0.1)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
    st.lists(st.integers(0, 3), min_size=30, max_size=30),
    st.sampled_from(["any", "all", "last"]),
    st.sampled_from(["any", "all", "last"]),
)
def test_ticks_are_those_of_a_clock_that_runs_along(
    gaps: list[int], letters: list[int], one: Any, two: Any
) -> None:
    times = np.cumsum([0, *gaps]) / 100
    bits = np.array(letters[: len(times)] + [0] * (len(times) - 30))
    ticks = ticks_of(bits, times, 0.1, (one, two))
    if ticks.times_s is times:
        return
    # One frame after the other, as a clock would see them.
    expected: list[tuple[int, int]] = []
    waiting: list[int] = []
    following = 0

    def latched(seen: list[int]) -> int:
        state = 0
        for bit, kind in enumerate((one, two)):
            held = [letter >> bit & 1 for letter in seen]
            value = {"any": any(held), "all": all(held), "last": held[-1]}[kind]
            state |= value << bit
        return state

    for i, (moment, letter) in enumerate(zip(times, bits.tolist(), strict=True)):
        reached = int(moment / 0.1 + 1e-6)
        if reached < following and i < len(times) - 1:
            waiting.append(letter)
            continue
        late = waiting or [int(bits[i - 1])]
        while following < reached:
            expected.append((latched(late), i))
            late = [int(bits[i - 1])]
            waiting = []
            following += 1
        expected.append((latched([*waiting, letter]), i))
        waiting, following = [], following + 1
    found = list(zip(ticks.letters.tolist(), ticks.frames.tolist(), strict=True))
    assert found == expected
    assert (np.diff(ticks.times_s) >= -1e-9).all()


# -- not applicable, vacuous -----------------------------------------------------------


def test_missing_signals_make_a_law_not_applicable() -> None:
    trace = _trace([{"speed": 10.0}, {"speed": 11.0}], vocabulary="driving")
    judged = judge(load_law("51_5"), trace, every=True)
    assert judged.verdict == "not applicable"
    assert "traffic_light, stop_line_distance" in judged.reason
    assert judged.frames == ("not applicable",) * 2
    hint = _judge("always (sped < 3)", _trace([{"speed": 10.0}])).reason
    assert "did you mean speed" in hint


def test_a_signal_that_is_missing_from_a_frame_is_refused() -> None:
    trace = _trace([{"a": True}, {}])
    with pytest.raises(
        InvalidTrace, match="frame 1: the signal a is listed in 'provides', but missing"
    ):
        _judge("always a", trace)


def test_a_trace_without_frames_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="no frames"):
        _judge("always a", _trace([]))


@pytest.mark.parametrize(
    ("text", "rows", "reason"),
    [
        (
            "always (a -> eventually[0,1 steps] b)",
            _bits(a="00", b="01"),
            "a is never true",
        ),
        ("always (a -> b)", _bits(a="00", b="01"), "a is never true"),
        (
            "always (a -> b -> c)",
            _bits(a="10", b="01", c="00"),
            "a and b is never true",
        ),
        (
            "always (a and b -> c)",
            _bits(a="10", b="01", c="00"),
            "a and b is never true",
        ),
        (
            "always (a and eventually[0, 1 steps] b -> c)",
            _bits(a="110", b="000", c="000"),
            "is never true",
        ),
        ("always (x < 50)", [{"x": 3.0}, {"x": 3.0}], "x never changes"),
        ("always (x < y)", [{"x": 1.0, "y": None}, {"x": 2.0, "y": None}], None),
        (
            "always not (x > y)",
            [{"x": 1.0, "y": None}, {"x": 2.0, "y": None}],
            "y is none in every frame",
        ),
        ("always (a -> b) and always (c -> b)", _bits(a="00", b="01", c="00"), "; c"),
    ],
)
def test_a_law_that_could_not_be_broken_is_vacuous(
    text: str, rows: list[dict[str, Any]], reason: str | None
) -> None:
    judged = _judge(text, _trace(rows))
    if reason is None:
        assert judged.verdict == "violated"
    else:
        assert judged.verdict == "vacuous" and reason in judged.reason


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("always not a", _bits(a="00")),
        ("always not (a and b)", _bits(a="00", b="00")),
        ("always (x < 50)", [{"x": 3.0}, {"x": 4.0}]),
        ("always (x < 50)", [{"x": 3.0}]),
        ("always not (a == 1)", [{"a": 0.0}, {"a": 0.0}]),
        ("always (a -> b) and always (c -> b)", _bits(a="01", b="01", c="00")),
        ("always (a -> eventually[0,1 steps] b)", _bits(a="10", b="01")),
        ("always (x < y)", [{"x": 3.0, "y": 50.0}, {"x": 4.0, "y": 50.0}]),
    ],
)
def test_a_law_that_was_kept_is_ok(text: str, rows: list[dict[str, Any]]) -> None:
    assert _judge(text, _trace(rows)).verdict == "ok"


@given(boolean_rows, st.integers(0, 4))
def test_a_law_is_never_ok_where_its_trigger_never_came(
    rows: list[tuple[bool, bool]], steps: int
) -> None:
    trace = _trace([{"a": False, "b": b} for _, b in rows])
    judged = _judge(f"always (a -> eventually[0, {steps} steps] b)", trace)
    assert judged.verdict == "vacuous"


def test_a_law_of_the_book_checks_what_free_columns_hold() -> None:
    row = {
        "traffic_light": "red", "stop_line_distance": 1.0, "junction_distance": None,
        "lead_distance": None, "speed": 30.0,
    }  # fmt: skip
    trace = _trace([row] * 30)
    assert judge(load_law("51_5"), trace).verdict == "violated"
    wrong = _trace([row | {"traffic_light": 1.0}] * 3)
    with pytest.raises(InvalidTrace, match="frame 0: traffic_light cannot be 1.0"):
        judge(load_law("51_5"), wrong)
