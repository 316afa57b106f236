"""Files are read within limits, refused in one short line, and written whole or not."""

from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput, TooLarge
from forewarn.abstractions.files import (
    MAX_YAML_CHARACTERS,
    atomic_text,
    inside,
    parse_json,
    parse_yaml,
    read_bytes,
    read_text,
    write_json,
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN is not a number"),
        ("[1e999]", "the number 1e999 is too large"),
        ("[-1e999]", "the number -1e999 is too large"),
        ("9" * 5000, "an integer has thousands of digits"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ', "line 1 column 7: not JSON"),
    ],
)
def test_json_is_read_as_its_standard_has_it(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_json(text, "a.json")
    assert str(refused.value).startswith("a.json: ")
    assert said in str(refused.value)


def test_json_keeps_every_finite_number() -> None:
    assert parse_json("[1e308, -4.9e-324, 12]", "") == [1e308, -4.9e-324, 12]


LAUGHS = "\n".join(
    ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            LAUGHS,
            "line 2 column 10: not YAML: the alias *a0 is not supported: write out "
            "its content",
        ),
        ("a: &a [*a]", "the alias *a is not supported: write out its content"),
        (
            "a: !!timestamp x",
            "the tag tag:yaml.org,2002:timestamp is not supported: leave it out",
        ),
        ("a: !!bool x", "is not supported: leave it out"),
        ("a: !!int ''", "is not supported: leave it out"),
        ("a: {!!set {b}: 1}", "is not supported: leave it out"),
        ("a: !!python/object:os.system []", "is not supported: leave it out"),
        ("a: 2001-99-99", "not YAML: month must be in"),
        ("a: 1\na: 2", "line 2 column 1: not YAML: the key 'a' appears twice"),
        ("a: 0x" + "f" * 5000, "an integer has thousands of digits"),
        ("a: \x00", "not YAML"),
        ("a: \x1b[31m", "not YAML"),
        ("[" * 2000, "not YAML"),
    ],
)
def test_yaml_says_what_json_can_say_and_no_more(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_yaml(text, "a.yaml")
    assert str(refused.value).startswith("a.yaml: ")
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 20_000, "- " * 40_000])
def test_yaml_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^a.yaml: .*nested too deeply"):
        parse_yaml(text, "a.yaml")


def test_yaml_longer_than_people_write_is_refused_at_once() -> None:
    with pytest.raises(TooLarge, match="a.yaml: the YAML is longer than"):
        parse_yaml("#" * (MAX_YAML_CHARACTERS + 1), "a.yaml")


def test_a_refusal_is_short_whatever_the_file_holds() -> None:
    long = "x" * 100_000
    error = InvalidInput(long, source="a.json", place=long, mend=long)
    assert len(str(error)) < 1_000
    assert str(error).startswith("a.json: x")
    assert len(str(error.within("b", "c"))) < 1_000


def test_a_refusal_is_one_line_that_commands_no_terminal() -> None:
    error = InvalidInput("a\nb\u2028c", source="a.json", place="\x1b[2Jkey", mend="d\r")
    assert str(error) == "a.json: key: a bc (d)"


def test_half_a_character_is_no_text() -> None:
    for parse, text in (
        (parse_json, '{"a": ["\\ud800"]}'),
        (parse_json, '{"\\udc00": 1}'),
        (parse_yaml, 'a: "\\ud800"'),
        (parse_yaml, 'a: "\\U0000DFFF"'),
    ):
        with pytest.raises(
            InvalidInput, match=("a.file: .* contains an incomplete Unicode character")
        ):
            parse(text, "a.file")
    assert (
        parse_json('"\\ud83d\\ude00 \\u00e9 \\\\ud800"', "") == "\U0001f600 é \\ud800"
    )
    assert parse_yaml('"\\U0001F600 \\u00e9"', "") == "\U0001f600 é"


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    whole = gzip.compress(b"[1, 2, 3]" * 100, mtime=0)
    for at in range(10, len(whole) - 8, 3):
        for damaged in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(InvalidInput, match="a.json.gz"):
                read_bytes(path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"0" * 1_000_000, mtime=0))
    with pytest.raises(TooLarge, match="larger than the limit of 999999 bytes"):
        read_text(path, limit=999_999)
    assert len(read_text(path, limit=1_000_000)) == 1_000_000


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000])
def test_a_path_that_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="f.yaml: .* cannot be the name of a file"):
        inside(tmp_path, name, "f.yaml")


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "b/../../a", "link"])
def test_a_path_in_a_file_stays_inside_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput, match="f.yaml: the .* outside"):
        inside(tmp_path, name, "f.yaml")
    (tmp_path / "b").mkdir()
    with pytest.raises(InvalidInput, match=r"f.yaml: there is no file b/a"):
        inside(tmp_path, "b/a", "f.yaml")
    (tmp_path / "b/a").touch()
    assert inside(tmp_path, "b/a", "f.yaml") == tmp_path.resolve() / "b" / "a"


def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / ("long" * 63)
    with (
        pytest.raises(OSError, match="File name too long") as caught,
        atomic_text(path),
    ):
        pass
    assert caught.value.filename == str(path)


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left") as caught, atomic_text(path):
        raise full
    assert caught.value.filename == str(path)
    elsewhere = OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    with pytest.raises(OSError, match="reset") as caught, atomic_text(path):
        raise elsewhere
    assert caught.value.filename is None
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), atomic_text(path) as out:
        out.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    with pytest.raises(ZeroDivisionError), atomic_text(tmp_path / "b" / "c" / "d.txt"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_json(pipe, {"a": 1})
        assert os.read(reading, 100) == b'{\n "a": 1\n}\n'
    finally:
        os.close(reading)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]
