"""Every way in has every capability of a guard, or says in one line why not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from tests.plugins.capabilities import COLUMNS, PAGE, Way, page, ways


@pytest.mark.parametrize("way", ways(), ids=lambda way: way.name)
@pytest.mark.parametrize("column", COLUMNS)
def test_each_capability_works_or_is_rejected_with_a_reason(
    way: type[Way], column: str, tmp_path: Path
) -> None:
    if way.needs and find_spec(way.needs) is None:
        pytest.skip(f"{way.needs} is not installed")
    why = way.without.get(column)
    if not way().asks(column):
        assert why is not None and why.startswith("rejected")
        return
    if why is not None and why.startswith("rejected"):
        with pytest.raises(InvalidInput) as error:
            COLUMNS[column](way(), tmp_path)
        assert "\n" not in str(error.value)
        return
    assert COLUMNS[column](way(), tmp_path) == (why is None), why


def test_the_page_shows_what_was_found() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.plugins.capabilities"
