"""What all tests share: the shared data, what may be missing, the same luck in CI."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# Tests run side by side: none takes the cores of the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test depends on how fast the machine is.
unhurried = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", unhurried, derandomize=True, print_blob=True)
settings.register_profile("dev", unhurried)
# What a shell starts in its background is deaf to Ctrl-C, and so is all it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help="a test skipped for want of NAME fails (may be given again; 'data' too)",
    )


SHARED = "FOREWARN_TESTS_SHARED"
"""The variable that names the folder in which all workers keep what they share."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[SHARED] = tempfile.mkdtemp(prefix="forewarn-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What all tests are made of stays: no search for garbage goes through it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for module in marker.args:
            if find_spec(module) is None and which(module) is None:
                pytest.skip(f"{module} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _judge_skip(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _judge_skip(report, collector.config)
    return report


def _judge_skip(report: Any, config: pytest.Config) -> None:
    """Fails a skip that gives no reason, or whose reason names what is required."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    words = set(re.findall(r"[\w-]+", reason.lower()))
    required = [name for name in config.getoption("--require") if name.lower() in words]
    if required:
        report.outcome = "failed"
        report.longrepr = f"--require {required[0]}, but: {reason}"
    elif reason in ("", "unconditional skip"):
        report.outcome = "failed"
        report.longrepr = "a skip must say what is missing"


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command that logs in this process leaves the next test's log as it was."""
    log = logging.getLogger("forewarn")
    handlers, level = log.handlers[:], log.level
    yield
    log.handlers[:], log.propagate = handlers, True
    log.setLevel(level)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared data files, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("FOREWARN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set FOREWARN_DATA)")
    return folder
