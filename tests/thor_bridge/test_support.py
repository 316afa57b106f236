"""What is said to be here, and what keeps the real build from starting."""

from __future__ import annotations

from pathlib import Path

from forewarn.thor_bridge.support import examine


def test_a_machine_without_a_display_is_reported(tmp_path: Path) -> None:
    found = examine({"HOME": str(tmp_path)}, system="Linux", machine="x86_64")
    assert not found.unity
    assert any("DISPLAY is not set" in line for line in found.missing)


def test_an_unsupported_platform_is_reported(tmp_path: Path) -> None:
    found = examine({"HOME": str(tmp_path)}, system="Windows", machine="AMD64")
    assert "there is no Unity build for Windows on AMD64" in found.missing


def test_a_home_folder_without_write_permission_is_reported() -> None:
    found = examine(
        {"HOME": "/no/such", "DISPLAY": ":0"}, system="Linux", machine="x86_64"
    )
    assert any("/no/such, which is not writable" in line for line in found.missing)


def test_a_complete_machine_passes_every_check(tmp_path: Path) -> None:
    (tmp_path / ".ai2thor" / "releases" / "thor-Linux64").mkdir(parents=True)
    environment = {"HOME": str(tmp_path), "DISPLAY": ":0"}
    found = examine(environment, system="Linux", machine="x86_64")
    wanting = [line for line in found.missing if "is not installed" not in line]
    assert wanting == []
    assert found.unity == (None not in found.versions.values())
