"""Logs that somebody made to harm whoever reads them: each is refused in a line."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.registry import make_world

MB = 1 << 20
LONG = b'{"x": 1.5, "y": "' + b"a" * (65 * MB) + b'"}'


def drive(path: Path) -> None:
    columns = {"/odom.x": "speed"}
    if path.suffix == ".parquet":
        columns = {}
    world: Any = make_world("log", {"files": str(path), "columns": columns})
    world.reset(0)


def mcap(path: Path, said: Iterable[bytes], packing: str = "ZSTD") -> Path:
    writing = pytest.importorskip("mcap.writer")
    kind = writing.CompressionType[packing]
    with path.open("wb") as out:
        writer = writing.Writer(out, compression=kind, chunk_size=1 << 30)
        writer.start()
        schema = writer.register_schema("any", "jsonschema", b"{}")
        channel = writer.register_channel("/odom", "json", schema)
        for n, data in enumerate(said):
            writer.add_message(channel, n * 10**8, data, n * 10**8)
        writer.finish()
    return path


def table(path: Path, values: Any, rows: int = 30) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    times = [0.1 * n for n in range(rows)]
    made = pa.table({"time_s": times, "speed": values})
    write_table(made, path, compression="zstd")
    return path


def words(text: str) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.DictionaryArray.from_arrays(pa.array([0] * 30), pa.array([text]))


MCAP: dict[str, tuple[Iterable[bytes], str]] = {
    "a chunk of zstd": ([LONG], "more than 67108864 bytes in a chunk"),
    "a message": ([b'{"x":[' + b"9," * MB + b"1]}"], "more than 1048576 bytes in a m"),
    "nested": ([b'{"x":' + b"[" * 99_999 + b"]" * 99_999 + b"}"], "nested too deeply"),
    "no number": ([b'{"x": NaN}'] * 3, "NaN is not a number"),
    "a large number": ([b'{"x": ' + b"9" * 400 + b"}"] * 3, "too large"),
    "an object": ([b'{"x": {"a": 1}}'] * 3, "not 'dict'"),
    "a list": ([b"[]"] * 3, "no field 'x'"),
    "no text": ([b'{"x": "\xff"}'] * 3, "can't decode"),
    "nothing": ([b""] * 3, "/odom: this is empty, but JSON is needed"),
}


@pytest.mark.parametrize("name", MCAP)
def test_an_mcap_file_is_held_to_what_it_may_unfold_to(
    name: str, tmp_path: Path
) -> None:
    said, problem = MCAP[name]
    with pytest.raises(InvalidInput, match=problem):
        drive(mcap(tmp_path / "x.mcap", said))


def test_lz4_is_unpacked_no_further_either(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="more than 67108864 bytes in a chunk"):
        drive(mcap(tmp_path / "x.mcap", [LONG], "LZ4"))


TABLES: dict[str, tuple[Callable[[], Any], str]] = {
    "lists": (lambda: [[1.0]] * 30, "has the type list<element: double>"),
    "objects": (lambda: [{"a": 1}] * 30, "which is not supported for signals"),
    "bytes": (lambda: [b"\xff"] * 30, "has the type binary"),
    "moments": (
        lambda: [datetime(2026, 1, 1, tzinfo=UTC)] * 30,
        "which is not supported for signals",
    ),
    "no numbers": (lambda: [float("nan")] * 30, "nan, not a finite number"),
    "a word of megabytes": (lambda: words("a" * (5 * MB)), "more than 4194304 bytes"),
    "a long text, again and again": (
        lambda: ["a" * (MB // 9)] * 30,
        "must be a number",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_held_to_what_signals_can_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.abstractions.readers.foreign.MAX_BYTES", 4 * MB)
    made, problem = TABLES[name]
    with pytest.raises(InvalidInput, match=problem):
        drive(table(tmp_path / "x.parquet", made()))


def test_a_table_of_too_many_rows_is_not_begun(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    with pytest.raises(InvalidInput, match="more than 300000 frames"):
        drive(table(tmp_path / "x.parquet", np.zeros(300_001), 300_001))


BAG = {
    "version": 5,
    "storage_identifier": "sqlite3",
    "relative_file_paths": ["../../etc/passwd"],
    "duration": {"nanoseconds": 1},
    "starting_time": {"nanoseconds_since_epoch": 1},
    "message_count": 1,
    "topics_with_message_count": [],
    "compression_format": "",
    "compression_mode": "",
    "files": [],
}


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ("[" * 9_000, "metadata.yaml: .*not YAML: brackets are nested too deeply"),
        ("a: &a [1]\nb: *a\n", "the alias"),
        ("rosbag2_bagfile_information: [1, 2]\n", "not a valid bag"),
        (json.dumps({"rosbag2_bagfile_information": BAG}), "valid bag.*are missing"),
        (
            json.dumps({"rosbag2_bagfile_information": BAG | {
                "compression_mode": "FILE", "compression_format": "zstd"}}),
            "compressed bags are not supported",
        ),
    ],
)  # fmt: skip
def test_a_bag_is_not_taken_at_its_word(
    metadata: str, problem: str, tmp_path: Path
) -> None:
    pytest.importorskip("rosbags")
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text(metadata)
    with pytest.raises(InvalidInput, match=problem):
        drive(tmp_path / "bag")


def test_a_bag_holds_tables_and_no_rows_without_end(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    metadata = {"rosbag2_bagfile_information": BAG | {"relative_file_paths": ["x.db3"]}}
    (tmp_path / "metadata.yaml").write_text(json.dumps(metadata))
    with closing(sqlite3.connect(tmp_path / "x.db3")) as db:
        db.execute(
            "CREATE VIEW messages AS WITH RECURSIVE c(x) AS"
            " (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"
        )
        db.commit()
    with pytest.raises(
        InvalidInput, match="the database contains views or virtual tables"
    ):
        drive(tmp_path / "x.db3")


def spoilt(data: bytes, luck: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(luck.choice((1, 2, 5))):
        at = luck.randrange(len(found))
        match luck.randrange(4):
            case 0:
                found[at] = luck.randrange(256)
            case 1:
                del found[at : at + luck.choice((1, 4, 30))]
            case 2:
                found[at:at] = bytes([luck.choice((0, 127, 255))]) * 8
            case _:
                found[at : at + 8] = b"\xff" * 7 + b"\x7f"
    return bytes(found)


def whole(folder: Path) -> Iterator[Path]:
    yield mcap(folder / "whole.mcap", [b'{"x": 1.5}'] * 30)
    yield table(folder / "whole.parquet", [1.0] * 30)


def test_a_log_that_was_spoilt_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    luck = random.Random(0)
    for path in whole(tmp_path):
        drive(path)
        data = path.read_bytes()
        for number in range(60):
            other = tmp_path / f"{number}{path.suffix}"
            other.write_bytes(spoilt(data, luck))
            try:
                drive(other)
            except InvalidInput as error:
                assert str(other.name) in str(error) or "no file" in str(error)
