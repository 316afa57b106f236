"""From files to a tally: encoding, latching, and what is remembered."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import (
    Abstraction,
    Predicate,
    from_expressions,
)
from forewarn.abstractions.encoding import Score
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, TooLarge
from forewarn.abstractions.expression import parse_expression, parse_score
from forewarn.abstractions.expression.tree import Compare, Name, Number
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.abstractions.readers.stored import Stored
from forewarn.abstractions.trace import Trace, TraceHeader, write_trace
from forewarn.monitors.chains.learning import Support, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.trust import training as training_module
from forewarn.monitors.trust.encoding import encode_trace, encode_traces, tick_times
from forewarn.monitors.trust.training import (
    Training,
    holds_traces,
    law_abstraction,
    read_sequences,
)


def trace(values: list[float], period: float = 0.1, **head: object) -> Trace:
    header = TraceHeader(provides=("x",), **head)  # type: ignore[arg-type]
    frames = (Frame(i * period, i, {"x": value}) for i, value in enumerate(values))
    return Trace(header, tuple(frames))


def predicates(abstraction: Abstraction) -> dict[str, str]:
    return {repr(p): p.latch for p in abstraction.predicates}


# predicates from laws


def test_the_atoms_of_a_law_are_its_predicates() -> None:
    laws = [
        "always (x > 1 and not (y or x < 0) -> eventually[0, 2 s] z == red)",
        "always (once[0, 1 s] y -> true)",
    ]
    found = law_abstraction([parse_formula(law) for law in laws])
    assert predicates(found) == {
        "x > 1": "last", "y": "last", "x < 0": "last", "z == red": "last",
    }  # fmt: skip
    assert found.period_s is None


def test_a_slower_clock_latches_what_could_break_the_law() -> None:
    law = parse_formula("always (a and not b -> eventually[0, 4 s] c)")
    assert predicates(law_abstraction([law], period_s=1.0)) == {
        "a": "any", "b": "all", "c": "any", "a and not b": "any",
    }  # fmt: skip
    both = parse_formula("always (a -> not a)")
    assert predicates(law_abstraction([both], period_s=1.0)) == {
        "a": "any", "a -> not a": "all",
    }  # fmt: skip


def test_a_law_without_atoms_is_refused() -> None:
    with pytest.raises(
        InvalidInput,
        match=("the laws contain no conditions, so there are no predicates"),
    ):
        law_abstraction([parse_formula("always true")])


# encoding

latches = st.lists(st.sampled_from(["any", "all", "last"]), min_size=2, max_size=2)


@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=20),
    latches,
    st.sampled_from([None, 0.1, 0.3]),
)
def test_a_trace_is_encoded_as_frames_are(
    values: list[float], kinds: list[str], period: float | None
) -> None:
    texts = ["x > 0.5", "x > 1.5"]
    abstraction = Abstraction(
        [Predicate(parse_expression(t), k) for t, k in zip(texts, kinds, strict=True)],  # type: ignore[arg-type]
        period_s=period,
    )
    recorded = trace(values)
    wanted = [abstraction.encode(frame.values) for frame in recorded.frames]
    if period is not None:
        latcher = Latcher(period, kinds)  # type: ignore[arg-type]
        ticks = (
            latcher.frame(frame.time_s, bits)
            for frame, bits in zip(recorded.frames, wanted, strict=True)
        )
        wanted = [state for state in ticks if state is not None]
    assert encode_trace(recorded, abstraction).tolist() == wanted


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=9),
        min_size=1, max_size=6,
    ),
    st.sampled_from([None, 0.1, 0.3]),
    st.sampled_from(["x", "most(x, 0.2 s)"]),
)  # fmt: skip
def test_traces_are_encoded_together_as_each_alone(
    several: list[list[float]], period: float | None, text: str
) -> None:
    lag_s = 0.0 if period is None else 2 * period
    score = Score("danger", parse_score(text))
    node = Compare(">=", Name("danger"), Number(1.0))
    abstraction = Abstraction(
        [Predicate(node), *([Predicate(node, lag_s=lag_s)] if lag_s else [])],
        period_s=period,
        scores=[score],
    )
    # The last knows no numbers, and cannot be looked at as one with the others.
    runs = [*map(trace, several), trace([None])]  # type: ignore[list-item]
    for run, found in zip(runs, encode_traces(runs, abstraction), strict=True):
        assert found.states.tolist() == encode_trace(run, abstraction).tolist()
        assert found.times_s.tolist() == tick_times(run, abstraction).tolist()


def test_a_signal_that_the_trace_cannot_know() -> None:
    with pytest.raises(InvalidTrace, match="the trace does not provide y"):
        encode_trace(trace([1.0]), from_expressions(["y > 1"]))


# files


def test_traces_and_sequences_are_distinguished(tmp_path: Path) -> None:
    for name, content, frames in [
        ("a.txt", "a b\nc\n", False),
        ("b.txt", "\n  a\n", False),
        ("t.jsonl", '{"format": "forewarn.trace/1"}\n', True),
        ("t.csv", "time_s,x\n0,1\n", True),
    ]:
        (tmp_path / name).write_text(content)
        assert holds_traces(tmp_path / name) is frames
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(content.encode()))
        assert holds_traces(packed) is frames


def test_sequences_pass_over_comments_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    path.write_text("# two runs\n\na  b\ta\r\n   # nothing\nb")
    assert read_sequences(path) == [["a", "b", "a"], ["b"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no sequence"),
        (b"# a b\n", "no sequence"),
        (b"a,b,c\nb,a\n", "separate the states with spaces, not commas"),
        (b"a\0b\n", "not a text file"),
        (b"a b\na " + b"b" * 1001, "line 2: a name is longer than 1000 characters"),
        (b"a b\n#7 a\n", "line 2: a line cannot begin with '#7'"),
        (b"\xff\n", "not UTF-8"),
        (b"\x80\x04pickle", "this is a pickle"),
    ],
)
def test_what_is_no_file_of_sequences(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "runs"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as refusal:
        read_sequences(path)
    assert str(path) in str(refusal.value)


def test_sequences_are_as_long_as_there_is_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs"
    path.write_text("a b " * 200_000)
    assert len(read_sequences(path)[0]) == 400_000
    monkeypatch.setattr(training_module, "available_memory", lambda: 20_000_000)
    with pytest.raises(
        TooLarge,
        match=("runs: more than 100,000 states, too many for the available memory"),
    ):
        read_sequences(path)


def test_a_small_packed_file_holds_no_endless_sequences(tmp_path: Path) -> None:
    path = tmp_path / "runs.gz"
    path.write_bytes(gzip.compress(b"a b\n" * 200_000))
    assert len(read_sequences(path)) == 200_000
    path.write_bytes(gzip.compress(b"a\n" * 2**19) * 20)
    with pytest.raises(TooLarge, match="runs.gz: the file is larger than the limit"):
        read_sequences(path)


def test_what_is_remembered_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_trace(path, trace([0.0, 1.0, 2.0], scenario="rain", guarded=True))
    training = Training()
    training.add_traces([Stored(path)], from_expressions(["x > 0.5"]))
    (entry,) = training.facts["files"]
    assert entry == {
        "name": "t.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "traces": 1,
        "frames": 3,
        "guarded": True,
        "scenario": "rain",
    }
    assert training.summary()["transitions"] == 2
    assert training.sequences() == [["0", "1", "1"]]
    assert training.period_s == 0.1


def test_a_trace_without_frames_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"format": "forewarn.trace/1", "provides": []}) + "\n")
    with pytest.raises(InvalidTrace, match="no frames"):
        Training().add_traces([Stored(path)], from_expressions(["x > 0.5"]))


def test_irregular_frames_have_no_period(tmp_path: Path) -> None:
    frames = tuple(Frame(t, i, {"x": 1.0}) for i, t in enumerate([0.0, 0.1, 0.5]))
    path = tmp_path / "t.jsonl"
    write_trace(path, Trace(TraceHeader(provides=("x",)), frames))
    training = Training()
    training.add_traces([Stored(path)], from_expressions(["x > 0.5"]))
    assert training.period_s is None


def test_frames_later_than_their_period_are_reported(tmp_path: Path) -> None:
    training = Training()
    for name, gap in (("kept", 0.1), ("late", 0.5)):
        frames = tuple(Frame(gap * i, i, {"x": 1.0}) for i in range(5))
        header = TraceHeader(provides=("x",), period_s=0.1)
        write_trace(tmp_path / name, Trace(header, frames))
        training.add_traces([Stored(tmp_path / name)], from_expressions(["x > 0.5"]))
    assert training.late == {"late": pytest.approx(0.5)}


def test_rounded_times_keep_their_period(tmp_path: Path) -> None:
    frames = tuple(Frame(round(i / 30, 3), i, {"x": 1.0}) for i in range(30))
    path = tmp_path / "t.jsonl"
    write_trace(path, Trace(TraceHeader(provides=("x",)), frames))
    training = Training()
    training.add_traces([Stored(path)], from_expressions(["x > 0.5"]))
    assert training.period_s == pytest.approx(1 / 30, rel=1e-2)


def test_a_slower_clock_sees_what_held_at_one_moment(tmp_path: Path) -> None:
    """Two halves of a trigger in one tick, but never in one frame, are no trigger."""
    law = parse_formula("always (x > 1.5 and y > 1.5 -> eventually[0, 1 s] x > 9)")
    abstraction = law_abstraction([law], period_s=1.0)
    truth = abstraction.decides(parse_expression("x > 1.5 and y > 1.5"))
    met = []
    for values in (
        [(0, 0), (2, 0), (0, 2)],
        [(0, 0), (2, 2), (0, 0)],
    ):
        frames = tuple(
            Frame(0.5 * i, i, {"x": float(x), "y": float(y)})
            for i, (x, y) in enumerate(values)
        )
        header = TraceHeader(provides=("x", "y"), period_s=0.5)
        states = encode_trace(Trace(header, frames), abstraction)
        met.append([truth(state) for state in states.tolist()])
    assert met == [[False, False], [False, True]]


def test_violations_add_up_over_updates(tmp_path: Path) -> None:
    law = parse_formula("always (x > 1.5 -> next (x < 0.5))")
    abstraction = from_expressions(["x > 1.5", "x < 0.5"])
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    write_trace(first, trace([0.0, 2.0, 1.0, 2.0, 0.0]))
    write_trace(second, trace([2.0, 2.0, 0.0]))
    training = Training()
    training.add_traces([Stored(first)], abstraction)
    model = learned(training)
    found = training.violations(model, abstraction, [law])
    assert found == {repr(law): {"00": 1}}
    model = replace(model, training={**model.training, "violations": found})
    training = Training.of(model)
    training.add_traces([Stored(second)], abstraction)
    found = training.violations(learned(training), abstraction, [law])
    assert found == {repr(law): {"00": 1, "10": 1}}


def learned(training: Training) -> Model:
    facts = training.summary()
    return learn(
        training.tally, Support("observed"), Fraction(0), "ignore", training=facts
    )


def test_no_step_is_counted_over_a_gap(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.2, 0.9, 1.0, 1.1]
    frames = tuple(
        Frame(time_s, i, {"x": float(i >= 3)}) for i, time_s in enumerate(times)
    )
    path = tmp_path / "gap.jsonl"
    header = TraceHeader(provides=("x",), period_s=0.1)
    write_trace(path, Trace(header, frames))
    high = Abstraction([Predicate(parse_expression("x > 0"))], period_s=0.1)
    training = Training()
    training.add_traces([Stored(path)], high)
    assert training.tally.seen == {"0": {"0": 2}, "1": {"1": 2}}
    assert (training.tally.starts, training.tally.ends) == ({"0": 1}, {"1": 1})
    assert training.gaps == {"gap.jsonl": 1}
    # Frames that are all late are another matter, and told of as such.
    late = tuple(replace(frame, time_s=0.25 * i) for i, frame in enumerate(frames))
    write_trace(path, Trace(header, late))
    training = Training()
    training.add_traces([Stored(path)], high)
    assert training.gaps == {} and training.late == {"gap.jsonl": 0.25}
    assert training.tally.seen["0"] == {"0": 2, "1": 1}
