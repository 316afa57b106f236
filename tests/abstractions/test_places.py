"""Paths and addresses: one way to open, list and write both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest

from forewarn.abstractions import places
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import (
    atomic_bytes,
    atomic_text,
    inside,
    read_bytes,
    read_text,
)
from forewarn.abstractions.places import Address, files_below, place, storage_said

pytestmark = [pytest.mark.needs("pyarrow"), pytest.mark.needs("fsspec")]


@pytest.fixture
def shelf(request: pytest.FixtureRequest) -> Path:
    """An empty folder in storage; `memory://` is fsspec's."""
    return place(f"memory://{request.node.name}")


def test_an_address_is_a_path_that_says_where_it_is() -> None:
    path = place("s3://runs/s3/a b?.parquet")
    assert isinstance(path, Address)
    assert str(path) == "s3://runs/s3/a b?.parquet"
    assert (path.suffix, path.name) == (".parquet", "a b?.parquet")
    assert str(path.parent / "x.json") == "s3://runs/s3/x.json"
    assert copy(path) == path and str(copy(path)) == str(path)
    assert place(path) is path and path != place("gs://runs/s3/a b?.parquet")


def test_local_path_stays_a_path(tmp_path: Path) -> None:
    for text in (str(tmp_path), f"file://{tmp_path}"):
        assert place(text) == tmp_path and type(place(text)) is type(tmp_path)
    assert place("file:///with%20space") == Path("/with space")


def test_written_file_is_read_and_listed(shelf: Path) -> None:
    with atomic_text(shelf / "b.txt") as out:
        out.write("two\n")
    with atomic_text(shelf / "a.txt.gz") as out:
        out.write("one\n")
    with atomic_bytes(shelf / "sub" / ".hidden") as raw:
        raw.write(b"three")
    assert read_text(shelf / "b.txt") == "two\n"
    # Packed once: a file system that goes by names would have done so again.
    assert read_text(shelf / "a.txt.gz") == "one\n"
    assert [path.name for path in files_below(shelf)] == ["a.txt.gz", "b.txt"]
    assert files_below(shelf / "sub") == [] and files_below(shelf / "no") == []
    assert shelf.is_dir() and (shelf / "b.txt").is_file()
    assert (shelf / "b.txt").stat().st_size == 4
    assert [path.name for path in shelf.glob("b*")] == ["b.txt"]
    (shelf / "b.txt").unlink()
    assert not (shelf / "b.txt").exists()
    (shelf / "b.txt").unlink(missing_ok=True)


def test_what_breaks_off_leaves_no_object(shelf: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_text(shelf / "a.txt") as out:
        out.write("half")
        raise KeyboardInterrupt
    assert not shelf.exists()


def test_limits_hold_for_objects_too(shelf: Path) -> None:
    with atomic_bytes(shelf / "large") as raw:
        raw.write(bytes(100))
    with pytest.raises(InvalidInput, match="larger than the limit of 99 bytes"):
        read_bytes(shelf / "large", 99)


def test_missing_place_is_reported_in_one_line(shelf: Path) -> None:
    with atomic_bytes(shelf / "runs.json") as raw:
        raw.write(b"{}")
    with pytest.raises(InvalidInput) as refused:
        read_text(shelf / "run.json")
    problem = "no such file or directory (did you mean runs.json?)"
    assert str(refused.value) == f"{shelf}/run.json: {problem}"


def test_an_address_is_never_looked_for_on_the_disk(shelf: Path) -> None:
    with pytest.raises(InvalidInput, match="use a file on a disk"):
        open(shelf / "x")
    with pytest.raises(InvalidInput, match=r"x: there is no file words.yaml"):
        inside(shelf, "words.yaml", "x")
    with pytest.raises(
        InvalidInput, match=("is outside the folder of the file that refers to it")
    ):
        inside(shelf, "../words.yaml", "x")


def test_credentials_stay_out_of_addresses() -> None:
    with pytest.raises(InvalidInput) as refused:
        place("s3://AKIA:hush@runs/s3")
    assert "hush" not in str(refused.value) and "environment" in str(refused.value)


def test_unknown_place_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="nowhere is not a supported storage scheme"):
        read_bytes(place("nowhere://runs/a"))


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (
            "When listing objects under key 'x/' in bucket 'b': AWS Error ACCESS_DENIED"
            " [code 15] during ListObjectsV2 operation: Access Denied (Request ID: 1)",
            "the storage reports access denied: Access Denied",
        ),
        (
            "google::cloud::Status(UNAVAILABLE: Retry policy exhausted,\nwith a",
            "the storage reports unavailable: Retry policy exhausted, with a",
        ),
        ("Couldn't deserialize thrift", ""),
    ],
)
def test_a_storage_is_quoted_in_few_words(message: str, short: str) -> None:
    assert storage_said(OSError(message)).strip() == short


@pytest.mark.parametrize("asked", ["stat", "list", "read", "write", "remove"])
def test_a_storage_that_never_answers_in_full_is_given_up(
    asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither one that lists without end, nor one that takes nothing in."""
    monkeypatch.setattr(places, "STORAGE_SECONDS", 0.1)
    monkeypatch.setattr(places, "left_running", [])
    gate = threading.Event()

    class Endless:
        def hang(self, *_: object, **__: object) -> None:
            gate.wait(10)

        get_file_info = open_input_file = open_output_stream = delete_file = hang

    monkeypatch.setattr(places, "_system", lambda *_: (Endless(), "bucket"))
    path = place("s3://bucket/runs/a")
    assert isinstance(path, Address)
    (tmp_path / "file").write_bytes(b"x")
    ways: dict[str, Callable[[], object]] = {
        "stat": path.stat,
        "list": lambda: list(path.iterdir()),
        "read": lambda: path.open("rb"),
        "write": lambda: path.put(tmp_path / "file"),
        "remove": path.unlink,
    }
    monkeypatch.setattr(Address, "exists", lambda _: True)
    try:
        with pytest.raises(
            OSError, match="did not send a complete response within 0.1 s"
        ):
            ways[asked]()
        assert places.left_running
    finally:
        gate.set()
