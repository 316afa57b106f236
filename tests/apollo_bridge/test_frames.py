"""The frames of cyber_bridge: golden bytes, torn and glued in every way, and fuzz."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.apollo_bridge.frames import (
    AddReader,
    AddWriter,
    BrokenStream,
    Frame,
    Publish,
    Reassembly,
    Register,
    encode,
)

GOLDEN: list[tuple[Frame, bytes]] = [
    (
        AddWriter("/apollo/planning/pad", "apollo.planning.PadMessage"),
        b"\x03\x14\0\0\0/apollo/planning/pad\x1a\0\0\0apollo.planning.PadMessage",
    ),
    (
        AddReader("/apollo/canbus/chassis", "apollo.canbus.Chassis"),
        b"\x02\x16\0\0\0/apollo/canbus/chassis\x15\0\0\0apollo.canbus.Chassis",
    ),
    (Register((b"ab", b"")), b"\x01\x02\0\0\0\x02\0\0\0ab\0\0\0\0"),
    (Publish("/a", bytes.fromhex("1004")), b"\x04\x02\0\0\0/a\x02\0\0\0\x10\x04"),
]

names = st.text(min_size=1, max_size=20).filter(lambda t: t.encode(errors="replace"))
frames = st.one_of(
    st.lists(st.binary(max_size=30), max_size=4).map(lambda f: Register(tuple(f))),
    st.builds(AddReader, names, names),
    st.builds(AddWriter, names, names),
    st.builds(Publish, names, st.binary(max_size=100)),
)


@pytest.mark.parametrize(("frame", "data"), GOLDEN)
def test_each_frame_has_these_bytes(frame: Frame, data: bytes) -> None:
    assert encode(frame) == data
    assert Reassembly().feed(data) == [frame]


def test_frames_split_at_any_byte_are_decoded_alike() -> None:
    data = b"".join(data for _, data in GOLDEN)
    for cut in range(len(data) + 1):
        parts = Reassembly()
        came = parts.feed(data[:cut]) + parts.feed(data[cut:])
        assert came == [frame for frame, _ in GOLDEN]
    parts = Reassembly()
    single = [f for i in range(len(data)) for f in parts.feed(data[i : i + 1])]
    assert single == [frame for frame, _ in GOLDEN]


@given(st.lists(frames, max_size=6), st.data())
def test_frames_joined_and_split_at_random_are_decoded_alike(
    sent: list[Frame], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, sent))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    parts, came = Reassembly(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        came += parts.feed(stream[begin:end])
    assert came == sent


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_frames_or_an_invalid_stream(pieces: list[bytes]) -> None:
    parts = Reassembly(limit=1000)
    try:
        for piece in pieces:
            for frame in parts.feed(piece):
                # What was understood says again what came.
                assert encode(frame) in b"".join(pieces)
    except BrokenStream:
        pass


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x05", "the unknown operation 5"),
        (b"\x00", "the unknown operation 0"),
        (b"\x04\x00\0\0\0", "a name has 0 bytes"),
        (b"\x04\xff\xff\xff\xff", "a name has 4294967295 bytes"),
        (b"\x02\x02\0\0\0\xff\xfe", "not UTF-8"),
        (b"\x04\x01\0\0\0/\xff\xff\xff\x7f", "longer than"),
        (b"\x01\xff\xff\xff\xff", "4294967295 descriptors"),
    ],
)
def test_invalid_frame_ends_the_stream(data: bytes, why: str) -> None:
    with pytest.raises(BrokenStream, match=why):
        Reassembly().feed(data)


def test_a_large_frame_in_pieces_is_not_parsed_again_for_each_piece() -> None:
    frame = Publish("/apollo/planning", bytes(1 << 20))
    parts, looked = Reassembly(), 0
    whole = parts._frame

    def counted() -> Frame:
        nonlocal looked
        looked += 1
        return whole()

    parts._frame = counted  # type: ignore[method-assign]
    data = encode(frame)
    came = [
        f for i in range(0, len(data), 1024) for f in parts.feed(data[i : i + 1024])
    ]
    assert came == [frame]
    assert looked < 6


def test_the_total_size_of_descriptors_is_limited() -> None:
    with pytest.raises(BrokenStream, match="longer than 100 bytes"):
        Reassembly(limit=100).feed(encode(Register((bytes(60), bytes(60)))))
