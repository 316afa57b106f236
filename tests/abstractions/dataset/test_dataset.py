"""Traces in columns: nothing is lost, and the bytes follow from the runs alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.dataset import layout, tables
from forewarn.abstractions.dataset.reading import Part, part_of
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import (
    PENDING,
    join,
    join_all,
    load_run,
    pend,
    save_run,
    write_part,
)
from forewarn.abstractions.errors import ForewarnError, InvalidTrace, TooLarge
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers.stored import (
    Stored,
    batches,
    files_in,
    stored_runs,
    to_columns,
    to_lines,
)
from forewarn.abstractions.trace import Kept, Note, Trace, TraceHeader, write_trace
from forewarn.abstractions.vocabularies.vocabulary import (
    Vocabulary,
    load_vocabulary,
    vocabulary_from,
)

pytestmark = pytest.mark.needs("pyarrow")

NAMES = ("a", "b", "run", "known.a", "signal.a", "is_open", "label")
keys = st.sampled_from([*NAMES[:-2], "is_open(Mug)", "label"])
values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)
notes = st.builds(
    Note,
    proposal=json_values,
    executed=json_values,
    tool_output=json_values,
    interventions=st.lists(json_values, max_size=2).map(tuple),
    label=st.sampled_from(["safe", "unsafe", None]),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    count = draw(st.integers(0, 7))
    gaps = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    moments = [sum(gaps[: i + 1]) for i in range(count)]
    one_kind = draw(st.booleans())
    shape = draw(st.lists(keys, unique=True))
    kinds = {name: draw(st.sampled_from([st.booleans(), st.text()])) for name in shape}
    frames = []
    for m in moments:
        if one_kind:
            held = {name: draw(st.none() | kinds[name]) for name in shape}
        else:
            held = draw(st.dictionaries(keys, values))
        frames.append(Frame(m / 8, m, held))
    known = draw(st.dictionaries(st.integers(0, count - 1), notes)) if count else {}
    header = TraceHeader(
        provides=NAMES,
        period_s=draw(st.none() | st.floats(1e-3, 1e3)),
        scenario=draw(st.text(max_size=5)),
        seed=draw(st.none() | st.integers()),
        source=draw(st.text(max_size=5)),
        guarded=draw(st.booleans()),
    )
    return Trace(header, tuple(frames), known)


def tabled(name: str, trace: Trace) -> RunTable:
    noted = ((f, trace.notes.get(i)) for i, f in enumerate(trace.frames))
    return run_table(name, trace.header, noted, trace.vocabulary)


def test_columns_are_written_without_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pyarrow.array` imports it, which takes longer than most commands."""
    import pyarrow

    monkeypatch.delattr(pyarrow, "array")
    frames = [Frame(i, i, {"a": a}) for i, a in enumerate((None, 1.5, 2))]
    frames += [Frame(i, i, {"a": None, "b": b}) for i, b in ((3, "x"), (4, True))]
    held = Trace(TraceHeader(provides=("a", "b"), period_s=1.0), tuple(frames))
    write_trace(tmp_path / "t.jsonl", held)
    lines = stored_runs(files_in(tmp_path))
    list(to_columns(lines, tmp_path / "columns"))
    (run,) = stored_runs(files_in(tmp_path / "columns"))
    assert run.trace() == lines[0].trace()


@settings(max_examples=30)
@given(runs=st.lists(traces(), min_size=1, max_size=3), rows=st.integers(1, 5))
def test_written_dataset_reads_back(
    tmp_path_factory: pytest.TempPathFactory, runs: Sequence[Trace], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("dataset")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROWS", rows)
        patch.setattr("forewarn.abstractions.dataset.writing.ROWS", rows)
        written = [tabled(f"run {i}", trace) for i, trace in enumerate(runs)]
    write_part(folder / "a.parquet", written)
    found = stored_runs([folder / "a.parquet"])
    assert [run.trace() for run in found] == list(runs)
    part = part_of(folder / "a.parquet")
    write_part(folder / "b.parquet", [part.run_table(run.run) for run in found])
    again = stored_runs([folder / "b.parquet"])
    assert [run.trace() for run in again] == list(runs)
    assert [run.digest for run in again] == [run.digest for run in found]


@settings(max_examples=15)
@given(runs=st.lists(traces(), min_size=1, max_size=3))
def test_both_formats_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, runs: Sequence[Trace]
) -> None:
    folder = tmp_path_factory.mktemp("both")
    for i, trace in enumerate(runs):
        write_trace(folder / f"{i}.jsonl", trace)
    lines = stored_runs(files_in(folder))
    list(to_columns(lines, folder / "columns"))
    columns = stored_runs(files_in(folder / "columns"))
    list(to_lines(columns, folder / "lines"))
    back = stored_runs(files_in(folder / "lines"))
    assert [r.trace() for r in lines] == [r.trace() for r in columns]
    assert [r.trace() for r in lines] == [r.trace() for r in back]
    list(to_columns(back, folder / "again"))
    again = stored_runs(files_in(folder / "again"))
    assert [r.digest for r in again] == [r.digest for r in columns]


def driving(count: int, seed: int = 3, **more: object) -> Trace:
    names = ("speed", "lead_distance", "collision", "traffic_light", *more)
    lights = ("red", None, "green")
    frames = tuple(
        Frame(
            i / 10,
            i,
            {
                "speed": float(i % 7),
                "lead_distance": None if i % 3 else 4.0,
                "collision": i == 8,
                "traffic_light": lights[i % 3],
                **more,
            },
        )
        for i in range(count)
    )
    header = TraceHeader("driving", names, 0.1, "road", seed, "here")
    return Trace(header, frames, vocabulary=load_vocabulary("driving"))


def test_columns_are_those_of_the_trace(tmp_path: Path) -> None:
    trace = driving(50)
    write_part(
        tmp_path / "a.parquet", [tabled("other", driving(9)), tabled("x", trace)]
    )
    kept = Stored(tmp_path / "a.parquet", "x").kept()
    wanted = Kept.of(trace, trace.header.provides)
    assert kept.header == trace.header and (kept.times_s == wanted.times_s).all()
    for name, column in wanted.signals.items():
        assert kept.signals[name].dtype == column.dtype
        assert np.array_equal(
            kept.signals[name], column, equal_nan=column.dtype.kind == "f"
        )
    assert list(Stored(tmp_path / "a.parquet", "x").kept(["speed"]).signals) == [
        "speed"
    ]


def test_runs_are_read_many_at_once_and_each_is_what_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.abstractions.dataset.writing.ROWS", 20)
    monkeypatch.setattr(tables, "ROWS", 20)
    sizes = (7, 9, 50, 3, 4, 1, 20)
    runs = [tabled(f"{i}", driving(count, i)) for i, count in enumerate(sizes)]
    write_part(tmp_path / "a.parquet", runs)
    stored = stored_runs([tmp_path / "a.parquet"])
    found = list(batches(stored, ["speed", "traffic_light"]))
    assert [len(batch.runs) for batch in found] == [2, 1, 3, 1]
    together = [kept for batch in found for kept in batch.apart()]
    for run, kept in zip(stored, together, strict=True):
        alone = run.kept(["speed", "traffic_light"])
        assert kept.header == alone.header == run.trace().header
        assert kept.times_s.tolist() == alone.times_s.tolist()
        for name, column in alone.signals.items():
            assert kept.signals[name].tolist() == column.tolist()
    (one, other) = batches([stored[4], stored[0], stored[1]], ["speed"])
    assert [run.name for run in (*one.runs, *other.runs)] == ["4", "0", "1"]


def test_signals_that_only_some_runs_have_stay_theirs(tmp_path: Path) -> None:
    two = [driving(4), driving(5, seed=4, rain=0.5)]
    write_part(tmp_path / "a.parquet", [tabled(f"{i}", t) for i, t in enumerate(two)])
    found = stored_runs([tmp_path / "a.parquet"])
    assert [run.trace() for run in found] == two
    assert "rain" not in found[0].kept(["rain", "speed"]).signals
    assert found[1].kept(["rain"]).signals["rain"].tolist() == [0.5] * 5


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"speed": 999.0}, "run x, frame 2: speed is 999 km/h, above its range"),
        ({"speed": None}, "run x, frame 2: speed cannot be none"),
        ({"traffic_light": "gren"}, "frame 2: traffic_light cannot be 'gren' .*green"),
        ({"collision": None}, "frame 2: collision cannot be none"),
        ({}, "frame 2: .* is listed in 'provides', but missing from this frame"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_frame(
    tmp_path: Path, values: dict[str, object], said: str
) -> None:
    trace = driving(5)
    held = {**trace.frames[2].values, **values} if values else {}
    bad = Frame(0.2, 2, held)
    trace = Trace(trace.header, (*trace.frames[:2], bad, *trace.frames[3:]))
    runs = [tabled("first", driving(3)), tabled("x", trace), tabled("z", driving(3))]
    write_part(tmp_path / "a.parquet", runs)
    with pytest.raises(InvalidTrace, match=f"a.parquet: .*{said}"):
        Stored(tmp_path / "a.parquet", "x").kept()
    # What is wrong with a run is no matter of the others, nor of other columns.
    for name in ("first", "z"):
        assert len(Stored(tmp_path / "a.parquet", name).kept())
    others = [n for n in trace.header.provides if n not in values]
    if values:
        assert len(Stored(tmp_path / "a.parquet", "x").kept(others)) == 5


def test_a_vocabulary_of_ones_own_goes_along(tmp_path: Path) -> None:
    data = {
        "format": "forewarn.vocabulary/1",
        "name": "lift",
        "signals": {"height": {"type": "number", "unit": "m", "range": [0, 4]}},
    }
    lift = vocabulary_from(data, "lift")
    header = TraceHeader("lift", ("height",), 0.5)
    trace = Trace(header, (Frame(0.0, 0, {"height": 3.0}),), vocabulary=lift)
    write_part(tmp_path / "a.parquet", [tabled("x", trace)])
    assert Stored(tmp_path / "a.parquet", "x").trace() == trace
    list(to_lines(stored_runs([tmp_path / "a.parquet"]), tmp_path / "lines"))
    assert Stored(tmp_path / "lines" / "x.jsonl.gz").trace() == trace


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (Frame(0.0, 5, {}), "repeated"),
        (Frame(9.0, 4, {}), "goes back"),
        (Frame(0.0, 6, {}), "does not come after"),
        (Frame(math.nan, 6, {}), "not a finite number"),
        (Frame(1.0, 2**60, {}), "too large"),
        (Frame(1.0, 6, {"b": 1.0}), "the signal b is not listed"),
        (Frame(1.0, 6, {"a": math.nan}), "the signal a has an invalid value: nan"),
        (Frame(1.0, 6, {"a": -math.inf}), "the signal a has an invalid value: -inf"),
        (Frame(1.0, 6, {"a": [1]}), "the signal a has an invalid value"),
    ],
)
def test_what_no_trace_may_hold_is_refused(frame: Frame, said: str) -> None:
    frames = [(Frame(0.0, 5, {"a": 1.0}), None), (frame, None)]
    with pytest.raises(ForewarnError, match=said):
        run_table("x", TraceHeader(provides=("a",)), frames)


# -- parts ---------------------------------------------------------------------------


def campaign(seeds: Sequence[int]) -> list[RunTable]:
    return [tabled(f"s-1f-{seed:06}", driving(2 + seed % 5, seed)) for seed in seeds]


@settings(max_examples=6)
@given(order=st.permutations(range(0, 600, 60)), cuts=st.sets(st.integers(0, 9)))
def test_parts_are_the_same_in_whatever_order_and_pieces_they_came(
    tmp_path_factory: pytest.TempPathFactory, order: Sequence[int], cuts: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    for number, run in enumerate(campaign(order)):
        pend(folder / "a", run)
        if number in cuts:
            join_all(folder / "a", "s-1f")
    join_all(folder / "a", "s-1f")
    for run in campaign(sorted(order)):
        pend(folder / "b", run)
    join_all(folder / "b", "s-1f")
    one, two = ({p.name: p.read_bytes() for p in files_in(folder / x)} for x in "ab")
    assert one == two and not (folder / "a" / PENDING).exists()
    assert sorted(one) == [
        "s-1f-000000-000240.parquet",
        "s-1f-000300-000480.parquet",
        "s-1f-000540-000540.parquet",
    ]


def test_process_killed_while_joining_leaves_no_duplicate_run(tmp_path: Path) -> None:
    for run in campaign(range(3)):
        pend(tmp_path, run)
    join(tmp_path, "s-1f", 0)
    (first,) = files_in(tmp_path)
    before = first.read_bytes()
    for run in campaign(range(3, 6)):
        pend(tmp_path, run)
    join(tmp_path, "s-1f", 0)
    first.write_bytes(before)
    assert len(files_in(tmp_path)) == 2
    assert len(stored_runs(files_in(tmp_path))) == 6
    join(tmp_path, "s-1f", 0)
    assert [p.name for p in files_in(tmp_path)] == ["s-1f-000000-000005.parquet"]


def test_whole_numbers_beside_fractions_have_the_same_digest(tmp_path: Path) -> None:
    header = TraceHeader(provides=("a",))
    whole = Trace(header, (Frame(0.0, 0, {"a": 3}), Frame(1.0, 1, {"a": None})))
    other = Trace(header, (Frame(0.0, 0, {"a": 0.5}),))
    write_part(tmp_path / "a.parquet", [tabled("x", whole), tabled("y", other)])
    trace = Stored(tmp_path / "a.parquet", "x").trace()
    assert trace == whole and isinstance(trace.frames[0].values["a"], float)
    assert tabled("x", trace).digest == tabled("x", whole).digest


def test_a_run_on_its_own_reads_back(tmp_path: Path) -> None:
    (run,) = campaign([7])
    save_run(tmp_path / "x.arrow", run)
    assert load_run(tmp_path / "x.arrow") == run


# -- files that are none -------------------------------------------------------------


def test_files_that_are_no_parts_are_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    with pytest.raises(InvalidTrace, match="a.parquet: no such file"):
        part_of(path)
    path.write_bytes(b"PAR1 and so on")
    with pytest.raises(
        InvalidTrace, match=("a.parquet: this is not a complete Parquet file")
    ):
        part_of(path)
    pq.write_table(pa.table({"speed": [1.0]}), path)
    with pytest.raises(
        InvalidTrace, match="does not identify the file as forewarn.traces/1"
    ):
        part_of(path)
    write_part(path, campaign([1]))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidTrace, match="this is not a complete Parquet file"):
        part_of(path)


@pytest.mark.parametrize("name", ["../x", "a/b", ".x", ""])
def test_a_run_cannot_be_called_like_another_place(tmp_path: Path, name: str) -> None:
    write_part(tmp_path / "a.parquet", [tabled(name, driving(2))])
    with pytest.raises(InvalidTrace, match="cannot be the name of a run"):
        Part(tmp_path / "a.parquet")


def test_metadata_that_do_not_fit_the_rows_are_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    write_part(path, campaign([1, 2]))
    facts = {layout.FORMAT: pq.read_metadata(path).metadata[layout.FORMAT.encode()]}
    table = pq.read_table(path).replace_schema_metadata(facts)
    pq.write_table(table.slice(1), path)
    with pytest.raises(
        InvalidTrace,
        match=("the file contains 6 frames, but the metadata of its runs declares 7"),
    ):
        part_of(path)
    broken = table.replace_schema_metadata({layout.FORMAT: b'{"format": 3}'})
    pq.write_table(broken, path)
    with pytest.raises(InvalidTrace, match="a.parquet: "):
        part_of(path)


def whole(path: Path) -> Any:
    """A part, with what it says of itself."""
    import pyarrow.parquet as pq

    write_part(path, campaign([1]))
    said = pq.read_metadata(path).metadata[layout.FORMAT.encode()]
    return pq.read_table(path).replace_schema_metadata({layout.FORMAT: said})


HOSTILE: dict[str, Any] = {
    "words": "x",
    "JSON that is none": "{",
    "JSON that nests": "[" * 5000,
    "a number of digits": "9" * 5000,
    "no number": math.nan,
    "nothing": None,
    "a truth": True,
    "bytes": b"x",
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_column_that_holds_something_else_is_read_or_refused(
    tmp_path: Path, value: Any
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = whole(tmp_path / "a.parquet")
    cells = pa.array([value] * len(table))
    for at, name in enumerate(table.column_names):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table.set_column(at, name, cells), path)
        for way in (Stored.trace, Stored.kept, lambda run: list(run.stream()[2])):
            with suppress(ForewarnError):
                way(stored_runs([path])[0])


@pytest.mark.parametrize("name", ["sequence", "time_s"])
def test_frames_have_a_number_and_a_time(tmp_path: Path, name: str) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(whole(path).drop_columns([name]), path)
    with pytest.raises(
        InvalidTrace, match=("the column 'sequence' or 'time_s' is missing")
    ):
        part_of(path)


@pytest.mark.parametrize("limit", ["MAX_ROWS", "MAX_BYTES"])
def test_a_group_of_rows_is_no_larger_than_we_hold(
    tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part(tmp_path / "a.parquet", campaign([1]))
    monkeypatch.setattr(f"forewarn.abstractions.dataset.reading.{limit}", 2)
    with pytest.raises(
        TooLarge, match=("a row group in the file exceeds the size limit")
    ):
        part_of(tmp_path / "a.parquet")


def test_of_many_signals_fewer_rows_make_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written can be read: a group holds so many values, not only rows."""
    import pyarrow.parquet as pq

    runs = campaign([1, 2])
    limit = runs[0].frames * (len(runs[0].chunks[0].schema) + 1) // 2
    monkeypatch.setattr("forewarn.abstractions.dataset.writing.VALUES", limit)
    write_part(tmp_path / "a.parquet", runs)
    file = pq.ParquetFile(tmp_path / "a.parquet").metadata
    assert file.num_row_groups > 2
    for number in range(file.num_row_groups):
        assert file.row_group(number).num_rows * file.num_columns <= limit
    read = [run.trace() for run in stored_runs([tmp_path / "a.parquet"])]
    monkeypatch.undo()
    write_part(tmp_path / "b.parquet", runs)
    assert read == [run.trace() for run in stored_runs([tmp_path / "b.parquet"])]


@pytest.mark.parametrize("kind", ["word", "json"])
def test_repeated_text_does_not_expand_in_memory(
    tmp_path: Path, kind: layout.Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary holds a long text once, in however many rows it stands."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, size = tmp_path / "a.parquet", 1 << 16
    table = whole(path)
    text = json.dumps(["x" * size] if kind == "json" else "x" * size)
    cells = pa.array([text] * len(table), layout.type_of(kind))
    at = table.column_names.index(layout.column_of("speed"))
    pq.write_table(table.set_column(at, layout.column_of("speed"), cells), path)
    limit = 2 * size + path.stat().st_size
    assert len(table) * size > limit
    monkeypatch.setattr("forewarn.abstractions.dataset.reading.MAX_BYTES", limit)
    for way in (Stored.trace, Stored.kept, lambda run: list(run.stream()[2])):
        with pytest.raises(
            TooLarge, match=("a row group in the file exceeds the size limit")
        ):
            way(stored_runs([path])[0])


def test_a_vocabulary_is_known_by_its_digest(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_part(tmp_path / "a.parquet", campaign([1]))
    held = pq.read_metadata(tmp_path / "a.parquet").metadata[layout.FORMAT.encode()]
    (digest,) = json.loads(held)["vocabulary_digests"].values()
    assert len(digest) == 64
    used: Vocabulary = load_vocabulary("driving")
    assert part_of(tmp_path / "a.parquet").vocabulary("driving") == used


def test_a_vocabulary_beside_the_runs_is_no_run(tmp_path: Path) -> None:
    for name in ("b.jsonl.gz", "a.jsonl", "words.yaml", "words.vocabulary.yml", ".x"):
        (tmp_path / name).touch()
    assert [path.name for path in files_in(tmp_path)] == ["a.jsonl", "b.jsonl.gz"]
