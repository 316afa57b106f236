"""Traces: written and read back, columns, and what the readers refuse."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions import lines as limits
from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidInput,
    InvalidTrace,
    TooLarge,
)
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.readers.json_lines import keep_json_lines, stream_json_lines
from forewarn.abstractions.trace import (
    Kept,
    Note,
    Trace,
    TraceHeader,
    trace_writer,
    write_trace,
)
from forewarn.abstractions.vocabularies.vocabulary import (
    load_vocabulary,
    vocabulary_from,
)

HEADER = {
    "format": "forewarn.trace/1",
    "vocabulary": "driving",
    "provides": ["speed", "lead_distance", "traffic_light", "collision"],
    "period_s": 0.1,
}


def _line(sequence: int, time_s: float, **signals: Any) -> str:
    return json.dumps({"sequence": sequence, "time_s": time_s, "signals": signals})


def _file(folder: Path, *frames: str, **header: Any) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join([json.dumps(HEADER | header), *frames]) + "\n")
    return path


def test_a_trace_reads_with_its_none_and_absent_values(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        _line(0, 0.0, speed=12, lead_distance=None, traffic_light="red"),
        _line(1, 0.1, speed=12.5, collision=False),
    )
    trace = read_trace(path)
    assert trace.header.period_s == 0.1 and not trace.header.guarded
    first, second = trace.frames
    assert first.values == {
        "speed": 12.0, "lead_distance": None, "traffic_light": "red",
    }  # fmt: skip
    assert second == Frame(0.1, 1, {"speed": 12.5, "collision": False})


def test_columns_hold_none_as_nan_or_none(tmp_path: Path) -> None:
    frames = [
        _line(0, 0.0, speed=1, lead_distance=None, traffic_light="red", collision=True),
        _line(1, 0.1, speed=2, lead_distance=8, traffic_light=None, collision=False),
    ]
    columns = read_trace(_file(tmp_path, *frames)).columns()
    assert list(columns) == HEADER["provides"]
    assert columns["speed"].dtype == np.float64
    assert math.isnan(columns["lead_distance"][0]) and columns["lead_distance"][1] == 8
    assert columns["traffic_light"].tolist() == ["red", None]
    assert columns["collision"].dtype == bool


def test_a_number_that_is_always_none_is_a_column_of_nan(tmp_path: Path) -> None:
    trace = read_trace(_file(tmp_path, _line(0, 0.0, lead_distance=None)))
    column = trace.columns(["lead_distance"])["lead_distance"]
    assert column.dtype == np.float64 and np.isnan(column).all()


def test_a_column_with_a_gap_says_which_frame(tmp_path: Path) -> None:
    trace = read_trace(_file(tmp_path, _line(0, 0.0, speed=1), _line(1, 0.1)))
    with pytest.raises(
        InvalidTrace,
        match="frame 1: the signal speed is listed in 'provides', but missing",
    ):
        trace.columns(["speed"])


def test_household_facts_are_keyed_by_their_text(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        _line(0, 0.0, **{"is_inside(Fork,Microwave)": True, "is_open(Mug#2)": False}),
        vocabulary="household",
        provides=["is_inside", "is_open( Mug#2 )"],
    )
    (frame,) = read_trace(path).frames
    assert frame.values == {"is_inside(Fork, Microwave)": True, "is_open(Mug#2)": False}


def test_notes_stand_beside_the_frames(tmp_path: Path) -> None:
    frame = {
        "sequence": 0, "time_s": 0.0, "signals": {}, "proposal": {"verb": "open"},
        "executed": None, "tool_output": "done", "interventions": ["alert"],
        "label": "unsafe",
    }  # fmt: skip
    trace = read_trace(_file(tmp_path, json.dumps(frame), _line(1, 0.1)))
    note = Note({"verb": "open"}, None, "done", ("alert",), "unsafe")
    assert trace.notes == {0: note}


REFUSED = [
    ('{"sequence":1,"time_s":0.1,"signals":{"speed":1}', "truncated"),
    ('{"sequence":1,"time_s":0.1,"signals":{"sp', "truncated"),
    ('{"sequence":1,"time_s":0.1,"signals":{"speed":NaN}}', "NaN is not a number"),
    ('{"sequence":1,"time_s":0.1,"signals":{"speed":1e999}}', "1e999 is too large"),
    ('{"sequence":1,"time_s":Infinity,"signals":{}}', "Infinity is not a number"),
    ('{"sequence":1,"time_s":1e999,"signals":{}}', "1e999 is too large"),
    (_line(1, -0.5), "does not come after"),
    (_line(1, 0.0), "does not come after"),
    (_line(0, 0.1), "repeated"),
    (_line(-1, 0.1), "sequence"),
    ('{"sequence":true,"time_s":0.1,"signals":{}}', "sequence"),
    ('{"sequence":1,"time_s":"0.1","signals":{}}', "'time_s' must be a number"),
    ('{"sequence":1,"time_s":0.1,"signals":[]}', "'signals' must be an object"),
    ('{"sequence":1,"time_s":0.1,"signal":{}}', "did you mean signals"),
    ('{"sequence":1,"sequence":1,"time_s":0.1,"signals":{}}', "appears twice"),
    ('{"sequence":1,"time_s":0.1,"signals":{},"label":"bad"}', "label"),
    ('{"sequence":1,"time_s":0.1,"signals":{},"interventions":3}', "interventions"),
    (_line(1, 0.1, sped=1), "did you mean speed"),
    (_line(1, 0.1, throttle=1), "not listed in the header's 'provides'"),
    (_line(1, 0.1, speed=301), "above its range"),
    (_line(1, 0.1, traffic_light="rad"), "did you mean red"),
    ("7", "expected an object"),
    ("nonsense", "not JSON"),
    (_line(1, 10**400), "1e.300, which is too large"),
    (_line(1, True), "'time_s' must be a number"),
    (_line(1, 0.1, speed=10**400), "speed is not finite"),
    (_line(1, 0.1, speed=-(10**4000)), "speed is not finite"),
    (_line(1, 0.1, speed=True), "speed must be a number"),
    (_line(1, 0.1, speed="20"), "speed must be a number"),
    (_line(1, 0.1, speed="\ud800"), "contains an incomplete Unicode character"),
    ('{"sequence":1,"time_s":0.1,"signals":' + "[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_a_bad_line_is_refused_with_its_number(
    tmp_path: Path, line: str, said: str
) -> None:
    path = _file(tmp_path, _line(0, 0.0, speed=1), line)
    with pytest.raises(InvalidTrace, match=said) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: line 3: ")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"format": "forewarn.trace/2"}, "forewarn.trace/2"),
        ({"vocabulary": "drivng"}, "did you mean driving"),
        (
            {"vocabulary": "../lift.yaml"},
            "is outside the folder of the file that refers to it",
        ),
        ({"provides": ["spead"]}, "did you mean speed"),
        ({"provides": ["speed", "speed"]}, "twice"),
        ({"period_s": 0}, "greater than 0"),
        ({"guarded": "no"}, "guarded"),
        ({"sorce": "x"}, "did you mean source"),
    ],
)
def test_a_bad_header_is_refused(
    tmp_path: Path, header: dict[str, Any], said: str
) -> None:
    with pytest.raises(ForewarnError, match=said):
        read_trace(_file(tmp_path, _line(0, 0.0, speed=1), **header))


def test_a_trace_names_a_vocabulary_beside_it(tmp_path: Path) -> None:
    (tmp_path / "lift.yaml").write_text(
        "{format: forewarn.vocabulary/1, name: lift, signals: {height: {type: number}}}"
    )
    path = _file(
        tmp_path,
        _line(0, 0.0, height=3),
        vocabulary="lift.yaml",
        provides=["height"],
    )
    trace = read_trace(path)
    assert trace.vocabulary is not None and trace.header.vocabulary == "lift"


def test_a_vocabulary_given_by_the_caller_wins(tmp_path: Path) -> None:
    data = {
        "format": "forewarn.vocabulary/1",
        "name": "lift",
        "signals": {"height": {"type": "number", "range": [0, 4]}},
    }
    lift = vocabulary_from(data, "lift")
    path = _file(
        tmp_path, _line(0, 0.0, height=5), vocabulary="lift", provides=["height"]
    )
    with pytest.raises(
        InvalidInput, match=("t.jsonl: line 1: .*give the path of its YAML file")
    ):
        read_trace(path)
    with pytest.raises(InvalidTrace, match="line 2: height is 5, above its range"):
        read_trace(path, lift)


def test_a_trace_without_vocabulary_takes_any_name(tmp_path: Path) -> None:
    path = _file(
        tmp_path, _line(0, 0.0, a=1, b="x"), vocabulary=None, provides=["a", "b"]
    )
    assert read_trace(path).frames[0].values == {"a": 1, "b": "x"}


def test_frames_come_one_at_a_time(tmp_path: Path) -> None:
    path = _file(tmp_path, _line(0, 0.0, speed=1), "broken")
    _, _, frames = stream_json_lines(path)
    frame, note = next(frames)
    assert frame.values == {"speed": 1.0} and note is None
    with pytest.raises(InvalidTrace):
        next(frames)


def test_a_damaged_gzip_file_says_how_far_it_got(tmp_path: Path) -> None:
    lines = [json.dumps(HEADER), *(_line(i, i / 10, speed=i % 97) for i in range(5000))]
    packed = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(packed)
    assert len(read_trace(path).frames) == 5000
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InvalidTrace, match="after line .*truncated or damaged"):
        read_trace(path)
    path.write_bytes(b"\x1f\x8bnot gzip at all")
    with pytest.raises(InvalidTrace, match="truncated or damaged"):
        read_trace(path)


def test_files_that_are_no_traces_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for content, said in [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\x80\x04\x95", "pickle"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"a\x00b", "not a text file"),
        (b"{}", "the line has no 'format'"),
        (b'{"trace": 3}', "LawBreaker"),
        (b"{", "not JSON"),
        (b"[1]", "no column contains a signal|header row|no column 'time_s'"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InvalidTrace, match=said):
            read_trace(path)
    with pytest.raises(InvalidTrace, match="no such file"):
        read_trace(tmp_path / "absent.jsonl")
    with pytest.raises(InvalidTrace, match="is a directory"):
        read_trace(tmp_path)


def test_limits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, *(_line(i, i / 10, speed=1) for i in range(4)))
    monkeypatch.setattr(limits, "available_memory", lambda: 0)
    monkeypatch.setattr(limits, "MAX_FRAMES", 3)
    with pytest.raises(TooLarge, match="more than 3 frames"):
        read_trace(path)
    monkeypatch.setattr(limits, "MAX_FRAMES", 300)
    monkeypatch.setattr(limits, "MAX_LINES", 2)
    with pytest.raises(TooLarge, match="t.jsonl: the file has more than 2 lines"):
        read_trace(path)
    monkeypatch.setattr(limits, "MAX_LINES", 10)
    monkeypatch.setattr(limits, "MAX_BYTES", 200)
    with pytest.raises(TooLarge, match="line 3: the file contains more than 200 bytes"):
        read_trace(path)
    monkeypatch.setattr(limits, "MAX_LINE", 50)
    with pytest.raises(TooLarge, match="line 1: the line is longer"):
        list(limits.lines(path))


def test_memory_limits_uncompressed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "available_memory", lambda: 2 << 30)
    monkeypatch.setattr(limits, "MAX_FRAMES", 3)
    path = _file(tmp_path, *(_line(i, i / 10, speed=1) for i in range(6)))
    assert len(read_trace(path).frames) == 6
    table = tmp_path / "long.csv"
    table.write_text("time_s,speed\n" + "".join(f"{i},1\n" for i in range(7)))
    with pytest.raises(TooLarge, match="more than 6 frames"):
        read_trace(table)
    misnamed = tmp_path / "packed.csv"
    misnamed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(TooLarge, match="more than 3 frames"):
        read_trace(misnamed)


def test_a_large_file_may_hold_more_and_one_that_unpacks_to_much_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = (_line(i, i / 10, speed=1).ljust(1_000_000) for i in range(36))
    path = _file(tmp_path, *long)
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    monkeypatch.setattr(limits, "MAX_FRAMES", 30)
    assert len(read_trace(path).frames) == 36
    with pytest.raises(TooLarge, match="more than 30 frames"):
        read_trace(packed)


# -- writing ---------------------------------------------------------------------

keys = st.sampled_from("a b speed is_open(Mug)".split())
values = (
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
notes = st.builds(
    Note,
    proposal=st.none() | st.dictionaries(st.text(max_size=3), st.integers()),
    executed=st.none() | st.text(max_size=5),
    interventions=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    label=st.sampled_from(["safe", "unsafe", None]),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    count = draw(st.integers(0, 5))
    gaps = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    moments = [sum(gaps[: i + 1]) for i in range(count)]
    frames = [Frame(m / 8, m, draw(st.dictionaries(keys, values))) for m in moments]
    known = draw(st.dictionaries(st.integers(0, count - 1), notes)) if count else {}
    header = TraceHeader(
        provides=("a", "b", "speed", "is_open"),
        period_s=draw(st.none() | st.floats(1e-3, 1e3)),
        scenario=draw(st.text(max_size=5)),
        seed=draw(st.none() | st.integers()),
        guarded=draw(st.booleans()),
    )
    return Trace(header, tuple(frames), known)


@given(trace=traces(), packed=st.booleans())
def test_written_trace_reads_back(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("t") / ("t.jsonl.gz" if packed else "t.jsonl")
    write_trace(path, trace)
    assert read_trace(path) == trace


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = Trace(TraceHeader(provides=("a",)), (Frame(0.0, 0, {"a": 1.0}),))
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        write_trace(tmp_path / name, trace)
    one, two = (tmp_path / f"{name}.jsonl.gz" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (Frame(0.0, 5, {}), "repeated"),
        (Frame(9.0, 4, {}), "goes back"),
        (Frame(0.0, 6, {}), "does not come after"),
        (Frame(1.0, 6, {"b": 1.0}), "b is not listed"),
        (Frame(1.0, 6, {"a": math.nan}), "has an invalid value"),
        (Frame(1.0, 6, {"a": [1]}), "has an invalid value"),
    ],
)
def test_a_writer_that_fails_leaves_no_file(
    tmp_path: Path, frame: Frame, said: str
) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(ForewarnError, match=said):
        with trace_writer(path, TraceHeader(provides=("a",))) as writer:
            writer.write(Frame(0.0, 5, {"a": 1.0}))
            writer.write(frame)
    assert list(tmp_path.iterdir()) == []


def test_a_proposal_that_is_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTrace, match="not JSON"):
        with trace_writer(tmp_path / "t.jsonl", TraceHeader()) as writer:
            writer.write(Frame(0.0, 0, {}), Note(proposal=object()))


# -- CSV ---------------------------------------------------------------------------


def _csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_a_csv_of_our_names_is_typed_and_checked(tmp_path: Path) -> None:
    path = _csv(
        tmp_path,
        "time_s,sequence,speed,lead_distance,collision,traffic_light\n"
        "0.5,7,10,none,0,red\n"
        "0.6,8,11,,true,none\n",
    )
    trace = read_trace(path)
    assert trace.header.vocabulary == "driving"
    assert trace.header.provides == (
        "speed", "lead_distance", "collision", "traffic_light",
    )  # fmt: skip
    assert trace.frames == (
        Frame(0.5, 7, {
            "speed": 10.0, "lead_distance": None, "collision": False,
            "traffic_light": "red",
        }),
        Frame(0.6, 8, {"speed": 11.0, "collision": True, "traffic_light": None}),
    )  # fmt: skip


def test_a_csv_of_lawbreakers_names_is_converted(tmp_path: Path) -> None:
    path = _csv(
        tmp_path,
        "time_s,trafficLightAheadcolor,signalAhead,NPCAheadAhead,NPCAheadspeed,gear\n"
        "0,3,0,1000,0,1\n"
        "0.1,1,1,8,10,2\n",
    )
    one, two = (frame.values for frame in read_trace(path).frames)
    assert one == {
        "traffic_light": None, "signal_ahead": False, "lead_distance": None,
        "lead_speed": None, "gear": "drive",
    }  # fmt: skip
    assert two == {
        "traffic_light": "red", "signal_ahead": True, "lead_distance": 8.0,
        "lead_speed": 36.0, "gear": "reverse",
    }  # fmt: skip


def test_columns_of_other_names_are_kept_beside_known_ones(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,speed,collision,my_flag\n0,3,0,1\n")
    assert read_trace(path).frames[0].values == {
        "speed": 3.0, "collision": False, "my_flag": 1.0,
    }  # fmt: skip
    with pytest.raises(InvalidTrace, match="no signal 'my_flag'"):
        read_trace(path, load_vocabulary("driving"))


def test_a_csv_of_free_names_is_kept_as_it_is(tmp_path: Path) -> None:
    path = _csv(tmp_path, "a,b,speed\n1,True,-3\n0,false,x\n")
    trace = read_trace(path, period_s=0.5)
    assert trace.vocabulary is None and trace.header.period_s == 0.5
    assert trace.frames == (
        Frame(0.0, 0, {"a": 1.0, "b": True, "speed": -3.0}),
        Frame(0.5, 1, {"a": 0.0, "b": False, "speed": "x"}),
    )


def test_columns_can_be_renamed(tmp_path: Path) -> None:
    path = _csv(tmp_path, "time_s,v_kmh\n0,3\n")
    trace = read_trace(path, rename={"v_kmh": "speed"})
    assert trace.frames[0].values == {"speed": 3.0}
    with pytest.raises(InvalidTrace, match="did you mean v_kmh"):
        read_trace(path, rename={"v_km": "speed"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "line 1: the file has no column 'time_s' .*--period"),
        ("time_s,a\n0,1\n0,1\n", "line 3: the time 0 s does not come after"),
        ("time_s,a\n0,nan\n", "line 2: a is nan, not a finite number"),
        ("time_s,a\n0,-Infinity\n", "line 2: a is -Infinity"),
        ("time_s,a\n0,1e999\n", "line 2: a is 1e999"),
        ("time_s,a\n0,1,2\n", "line 2: the row has 3 cells, but there are 2 columns"),
        ("time_s,a\n0\n", "line 2: the row has only 1 cells, but there are 2 columns"),
        ("time_s,a\n,1\n", "line 2: 'time_s' must be a number"),
        ("time_s,a\nx,1\n", "line 2: 'time_s' must be a number"),
        ("time_s,sequence,a\n0,1.5,1\n", "line 2: 'sequence'"),
        ("time_s,a\n0,three four\n", "neither a number nor a name"),
        *(
            (f"time_s,a\n0,{odd}\n", "neither a number nor a name")
            for odd in ("1_0", "0x10", "=1+1", "100 km/h")
        ),
        ("time_s,speed\n0,TRUE\n", "speed must be a number"),
        (f"time_s,speed\n0,1{'0' * 5000}\n", "line 2: speed is"),
        ("time_s,a,a\n0,1,1\n", "line 1: the column 'a' appears twice"),
        ("time_s,a,\n0,1,1\n", "line 1: a column has no name"),
        ("0,1\n0.1,1\n", "line 1: there is no header row"),
        ("time_s;a\n0;1\n", "line 1: the columns must be separated by commas"),
        ("time_s\n0\n", "line 1: no column contains a signal"),
        ('time_s,a\n0,"1\n', "not CSV"),
        ("time_s,speed\n0,-1\n", "line 2: speed is -1 km/h, below its range"),
        ("time_s,gear\n0,9\n", "line 2: gear has no code 9"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidTrace, match=said):
        read_trace(_csv(tmp_path, text))


# -- LawBreaker ----------------------------------------------------------------------


def _recording(**changes: Any) -> dict[str, Any]:
    """A recording of two steps, made by hand in LawBreaker's shape."""
    ego = {
        "pose": {
            "linearAcceleration": {"x": 0.0, "y": -2.0, "z": 9.8},
            "heading": math.pi / 2,
        },
        "Chasis": {
            "lowBeamOn": True, "highBeamOn": False, "turnSignal": 2, "speed": 10.0,
            "hornOn": False, "engineOn": True, "gear": 1, "brake": 5.0,
            "error_code": 0,
        },
        "currentLane": {"turn": 1, "number": 3},
        "crosswalkAhead": 200, "junctionAhead": 0, "stopSignAhead": 200,
        "stoplineAhead": 4.5, "planning_of_turn": 1, "isTrafficJam": True,
        "isOverTaking": False, "isLaneChanging": False, "isTurningAround": False,
        "PriorityNPCAhead": True, "PriorityPedsAhead": False,
    }  # fmt: skip
    truth = {
        "obsList": [{"name": "npc1", "distToEgo": 7.0, "speed": 2.0}],
        "NPCAhead": "npc1", "NearestNPC": "npc1", "NPCOpposite": None,
        "PedAhead": None, "minDistToEgo": 7.0,
    }  # fmt: skip
    light = {"color": 1, "blink": False}
    lights = {"containLights": True, "trafficLightList": [light]}
    step = {"timestamp": 40, "ego": ego, "truth": truth, "traffic_lights": lights}
    second = step | {"timestamp": 43, "traffic_lights": {}, **changes}
    return {
        "time": {"hour": 20, "minute": 30},
        "weather": {"rain": 0.5, "fog": 0.0},
        "trace": [step, second],
    }


def _recorded(folder: Path, data: object) -> Path:
    path = folder / "r.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def test_a_recording_becomes_frames(tmp_path: Path) -> None:
    trace = read_trace(_recorded(tmp_path, _recording()))
    first, second = trace.frames
    assert (first.time_s, second.time_s) == (0.0, 0.3)
    expected = {
        "speed": 36.0, "acceleration": -2.0, "brake": 5.0, "gear": "drive",
        "turn_signal": "right", "direction": "left", "low_beam_on": True,
        "manual_control": False, "lane_count": 3.0, "lane_direction": "left",
        "crosswalk_distance": None, "junction_distance": 0.0, "in_junction": True,
        "stop_line_distance": 4.5, "traffic_jam": True, "priority_vehicle": True,
        "traffic_light": "red", "signal_ahead": True, "lead_distance": 7.0,
        "lead_speed": 7.2, "oncoming_distance": None, "collision": False,
        "rain": 0.5, "time_of_day": 20.5,
    }  # fmt: skip
    assert {key: first.values[key] for key in expected} == pytest.approx(expected)
    assert second.values["traffic_light"] is None
    assert second.values["signal_ahead"] is False


def test_what_lawbreaker_makes_up_is_not_provided(tmp_path: Path) -> None:
    provides = read_trace(_recorded(tmp_path, _recording())).header.provides
    made_up = {"speed_limit", "street_light_on", "visibility", "arrow_light", "snow"}
    assert not made_up & set(provides)


def test_acceleration_that_is_always_zero_is_not_provided(tmp_path: Path) -> None:
    data = _recording()
    for step in data["trace"]:
        step["ego"]["pose"]["linearAcceleration"] = {"x": 0.0, "y": 0.0, "z": 9.8}
    trace = read_trace(_recorded(tmp_path, data))
    assert "acceleration" not in trace.header.provides


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"timestamp": 40}, "trace.1: the time 0 s does not come after"),
        ({"timestamp": "x"}, "trace.1: the entry is not a valid step"),
        ({"timestamp": math.inf}, "trace.1: the time is inf"),
        ({"truth": {}}, "trace.1: .*lacks the key 'minDistToEgo'"),
        ({"ego": 3}, "not a valid step"),
        ({"traffic_lights": {"containLights": True}}, "trafficLightList"),
    ],
)
def test_a_bad_recording_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidTrace, match=said):
        read_trace(_recorded(tmp_path, _recording(**changes)))


def test_a_vehicle_that_is_not_in_the_list_is_refused(tmp_path: Path) -> None:
    data = _recording()
    data["trace"][1]["truth"] = data["trace"][1]["truth"] | {"NPCAhead": "npc9"}
    with pytest.raises(InvalidTrace, match="trace.1: 'NPCAhead' is 'npc9'"):
        read_trace(_recorded(tmp_path, data))


def test_the_published_recording_reads(shared_data: Path) -> None:
    path = shared_data / "driving" / "lawbreaker_example_trace.json"
    trace = read_trace(path)
    assert len(trace.frames) == 68
    assert trace.frames[-1].time_s == pytest.approx(35.7)
    assert "acceleration" not in trace.header.provides
    lights = set(trace.columns(["traffic_light"])["traffic_light"].tolist())
    assert lights == {None, "green", "yellow"}


# -- anything at all -------------------------------------------------------------------

fragments = st.sampled_from(
    [
        json.dumps(HEADER), _line(0, 0.0, speed=1), _line(1, 0.1, speed=2), "{", "}",
        "time_s,a", "0,1", "0.1,nan", '"', "\x00", "[[", "null", "\ufeff", ",,,",
        '{"trace": [{}]}', '{"trace": [], "time": 1}', "time_s,speed", "1e5,1",
    ]
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(fragments | st.text(max_size=20), max_size=6), st.sampled_from("\n, "))
def test_any_text_is_a_trace_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], glue: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_text(glue.join(parts), encoding="utf-8", errors="replace")
    try:
        assert isinstance(read_trace(path), Trace)
    except ForewarnError as error:
        assert str(path) in str(error)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trace_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(content)
    try:
        assert isinstance(read_trace(path), Trace)
    except ForewarnError as error:
        assert str(path) in str(error)


@given(st.data())
def test_a_recording_with_junk_inside_reads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    recording = json.loads(json.dumps(_recording()))
    here: Any = recording
    while isinstance(here, dict | list) and here:
        key = data.draw(
            st.sampled_from(list(here) if isinstance(here, dict) else range(len(here)))
        )
        if data.draw(st.booleans()) or not isinstance(here[key], dict | list):
            junk: Any = st.none() | st.integers() | st.text(max_size=3) | st.just([{}])
            here[key] = data.draw(junk | st.floats() | st.just(10**400))
            break
        here = here[key]
    path = tmp_path_factory.getbasetemp() / "recording.json"
    path.write_text(json.dumps(recording))
    try:
        assert isinstance(read_trace(path), Trace)
    except ForewarnError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize(
    ("name", "content", "mend"),
    [
        ("a.csv", "time_s;a\n0;1\n", "save the file with comma-separated columns"),
        ("a.csv", "0,1\n0.1,1\n", "add a first row with the names of the columns"),
        ("a.csv", "time_s,a,a\n0,1,1\n", "rename one of them"),
        ("a.csv", "time_s,a\n0,1,2\n", "in quotes"),
        ("a.csv", "time_s,a\n0,?\n", "leave the cell empty"),
        ("a.csv", "time_s,a\n0,1\n0,1\n", "sort the frames by time"),
        (
            "a.jsonl",
            '{"format": "forewarn.trace/9"}\n',
            "the first line must be the header",
        ),
    ],
)
def test_an_error_says_what_mends_it(
    name: str, content: str, mend: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InvalidTrace, match=mend):
        read_trace(path)


# -- by columns ----------------------------------------------------------------------


@pytest.mark.needs("orjson")
@given(
    trace=traces(),
    names=st.sets(st.sampled_from("a b speed".split())),
    said=st.sampled_from(
        [
            "",
            '{"sequence": 99, "time_s": 99, "signals": {"a": 1, "a": 2}}',
            '{"sequence": 99, "time_s": 99, "signals": {"a": "x\\":"}}',
            '{"sequence": 99, "time_s": 99, "signals": {"c": 1}}',
            '{"sequence": 99, "time_s": 99, "signals": {"a": NaN}}',
            '{"sequence": 0, "time_s": 99, "signals": {"a": 1}}',
            '{"sequence": 99, "time_s": 0, "signals": {"a": 1}}',
            '{"sequence": 99, "time_s": true, "signals": {"a": 1}}',
            '{"sequence": 99, "time_s": 99, "signals": {"a": 1}, "label": "odd"}',
            '{"sequence": 99, "time_s": 99, "signals": {"a": 1}, "more": 1}',
            '{"sequence": 99, "time_s": 99, "signals": {"a": 1',
            '["sequence"]',
        ]
    ),
)
def test_columns_and_frames_read_the_same_values(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, names: set[str], said: str
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    write_trace(path, trace)
    with path.open("a") as out:
        out.write(said)

    def outcome(read: Callable[[], Kept]) -> object:
        try:
            kept = read()
        except ForewarnError as error:
            return str(error)
        columns = {name: repr(column) for name, column in kept.signals.items()}
        return kept.header, kept.times_s.tolist(), columns

    wanted = sorted(names)
    one = outcome(lambda: Kept.of(read_trace(path), wanted))
    assert outcome(lambda: keep_json_lines(path, wanted)) == one
