"""The size of columns, by their pages and not by the footer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from forewarn.abstractions.dataset.pages import unpacked_bytes  # noqa: E402


def test_the_pages_add_up_to_what_an_honest_footer_says(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({
        "number": list(range(20_000)),
        "text": ["A" * 4_000] * 10_000 + ["b"] * 10_000,
        "list": [[1.0]] * 20_000,
    })  # fmt: skip
    ways: list[dict[str, Any]] = [
        {}, {"use_dictionary": False}, {"data_page_version": "2.0"},
        {"compression": "zstd", "write_page_index": True},
    ]  # fmt: skip
    for way in ways:
        pq.write_table(table, path, **way)
        facts = pq.ParquetFile(path).metadata
        with path.open("rb") as raw:
            whole = unpacked_bytes(raw, facts, 0, table.column_names)
            some = unpacked_bytes(raw, facts, 0, ["number"])
        assert whole == pytest.approx(facts.row_group(0).total_byte_size, rel=0.05)
        assert 0 < some < whole


@pytest.mark.parametrize("junk", [b"", b"\xff" * 99, b"\x1c" * 99, b"\x00" * 99])
def test_invalid_page_is_rejected(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0]}), path)
    facts = pq.ParquetFile(path).metadata
    (tmp_path / "junk").write_bytes(junk)
    with (tmp_path / "junk").open("rb") as raw, pytest.raises(ValueError, match="page"):
        unpacked_bytes(raw, facts, 0, ["a"])
