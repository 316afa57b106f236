"""The face: every public name is there, and nothing is loaded before it is used."""

import subprocess
import sys

import pytest

import forewarn


@pytest.mark.parametrize("name", forewarn.__all__)
def test_public_names_load(name: str) -> None:
    assert getattr(forewarn, name) is not None


def test_every_lazy_name_is_public() -> None:
    assert dir(forewarn) == forewarn.__all__


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gaurd'"):
        forewarn.Gaurd  # noqa: B018


def test_importing_it_loads_none_of_the_rooms() -> None:
    code = (
        "import sys, forewarn;"
        "print([m for m in sys.modules if m.startswith(('forewarn.', 'numpy'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
