"""Fixtures and settings for all tests: shared data, skips, reproducibility in CI."""

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

# Tests run in parallel, so each uses only one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test depends on the speed of the machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", unhurried, max_examples=40, derandomize=True, print_blob=True
)
# Each run tries other cases, so fewer of them are enough.
settings.register_profile("dev", unhurried, max_examples=20)
# A shell's background processes and their children ignore Ctrl-C by default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help="fail tests that are skipped because NAME is missing; repeatable; 'data' "
        "is the shared data",
    )


SHARED = "FOREWARN_TESTS_SHARED"
"""The environment variable with the folder that all test workers share."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[SHARED] = tempfile.mkdtemp(prefix="forewarn-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Makes garbage collections rare, without the objects that collection creates."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
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
    """Turns a skip into a failure if its reason is missing or names a requirement."""
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
    """Restores the logger after each test, because commands configure it."""
    log = logging.getLogger("forewarn")
    handlers, level = log.handlers[:], log.level
    yield
    log.handlers[:], log.propagate = handlers, True
    log.setLevel(level)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Returns the folder of shared data; if it is missing, skips and names the path."""
    folder = Path(os.environ.get("FOREWARN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set FOREWARN_DATA)")
    return folder
