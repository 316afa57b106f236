"""The live page in a real browser: joins, leaves, reloads, and what it shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.monitors.evaluation.evidence import Outcome
from forewarn.monitors.evaluation.figures import Promise
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.scenarios.live.feed import Feed, Line
from tests.accessible import complaints
from tests.browser import Browser, Page, chromium
from tests.pictures import assert_like
from tests.scenarios.live.serving import Served, run, serving

pytestmark = pytest.mark.needs("chromium", "axe_core_python")

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
FRAMES = "Number(document.documentElement?.dataset.frames || 0)"
PICTURES = Path(__file__).parent / "pictures"
STATE = "document.documentElement?.dataset.state"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with two runs that are over, one of them broke a law perhaps."""
    with serving() as found:
        for seed in (9000, 9001):
            run(tmp_path_factory.mktemp("run"), found.feed, seed)
        yield found


def opened(browser: Browser, served: Served, width: int = 1280, **how: bool) -> Page:
    page = browser.open(served.url, width, **how)
    page.wait_for(f"{STATE} === 'live'")
    return page


def assert_quiet(page: Page, served: Served) -> None:
    assert page.errors == []
    own = served.url.partition("#")[0]
    assert {url for url in page.requests if not url.startswith(own)} == set()


def test_late_viewer_sees_the_past(browser: Browser, served: Served) -> None:
    page = opened(browser, served)
    page.wait_for(f"{FRAMES} > 60")
    assert page.evaluate("document.querySelector('#name').textContent").startswith(
        "tiny-road, seed 900"
    )
    page.wait_for("document.querySelector('.curves svg') !== null")
    assert page.evaluate("document.querySelectorAll('.tile').length") == 2
    page.wait_for("document.querySelector('#focus canvas').width > 300")
    page.evaluate("document.querySelectorAll('.tile')[0].click()")
    page.wait_for("document.querySelector('#name').textContent.endsWith('9000')")
    assert "s" in page.evaluate("document.querySelector('#focus .hud').textContent")
    assert_quiet(page, served)
    browser.close(page)


def test_before_the_first_frame_it_says_that_it_waits(
    browser: Browser, tmp_path: Path
) -> None:
    with serving() as served:
        page = opened(browser, served)
        said = "document.querySelector('#status').textContent"
        assert page.evaluate(said) == "Connected. Waiting for the first frame …"
        run(tmp_path, served.feed, 9000)
        page.wait_for(f"{said} === 'Connected.'")
        browser.close(page)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_accessible_and_readable(
    browser: Browser, served: Served, width: int, dark: bool
) -> None:
    page = opened(browser, served, width, dark=dark)
    page.wait_for(f"{FRAMES} > 60 && document.querySelector('.curves svg') !== null")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert complaints(page) == []
    browser.close(page)


@pytest.mark.parametrize(
    ("device", "width", "height"), [("desktop", 1280, 900), ("phone", 390, 844)]
)
@pytest.mark.parametrize("dark", [False, True])
def test_it_looks_as_it_did(
    browser: Browser, served: Served, device: str, width: int, height: int, dark: bool
) -> None:
    page = browser.open(served.url, width, height, dark=dark, calm=True)
    page.wait_for(f"{STATE} === 'live' && {FRAMES} > 60")
    page.wait_for("document.querySelectorAll('.tile').length === 2")
    page.evaluate("document.querySelectorAll('.tile')[1].click()")
    page.wait_for("document.querySelector('#name').textContent.endsWith('9001')")
    page.wait_for("document.querySelector('.curves svg') !== null")
    page.wait_for("document.querySelector('#focus canvas').width > 300")
    name = f"live-{device}-{'dark' if dark else 'light'}.png"
    assert_like(page, PICTURES / name, width, height)
    browser.close(page)


def test_viewers_come_go_and_reload_while_it_goes_on(
    browser: Browser, tmp_path: Path
) -> None:
    with serving() as served:
        going = threading.Thread(target=run, args=(tmp_path, served.feed, 9000, 1.0))
        going.start()
        first = opened(browser, served)
        first.wait_for(f"{FRAMES} > 3")
        second = opened(browser, served)
        second.wait_for(f"{FRAMES} > 5")
        browser.close(first)
        second.command("Page.reload")
        second.wait_for(f"{STATE} === 'live' && {FRAMES} > 8")
        # The moments from before the reload are there again.
        first_time = "document.querySelector('.curves svg') !== null"
        second.wait_for(first_time)
        before = second.evaluate(FRAMES)
        second.wait_for(f"{FRAMES} > {before + 5}")
        assert_quiet(second, served)
        browser.close(second)
        going.join()


def test_it_shows_the_evidence_of_drift_and_what_was_examined(
    browser: Browser,
) -> None:
    promise = Promise(
        false_alarms=0.1, missed=0.2, confidence=0.95, clean=90, alarmed=5,
        violating=10, undetected=1,
    )  # fmt: skip
    policy = Policy(rules={EVIL: (Step("alert", 0.5),)}, promises={EVIL: promise})
    drift = Drift(policy, [EVIL])
    for _ in range(30):
        drift.observe({EVIL: Outcome(True, False)})
    with serving() as served:
        page = opened(browser, served)
        assert page.evaluate("document.querySelector('#drift').hidden")
        served.feed.drift(drift)
        page.wait_for("!document.querySelector('#drift').hidden")
        said = page.evaluate("document.querySelector('#drift summary').textContent")
        assert said == f"After {drift.found_at} runs {drift.note}."
        lines = page.evaluate("document.querySelector('#drift ul').textContent")
        assert f"violations of {EVIL} in 30 of 30 runs (training: 10 of 100)" in lines
        assert f"not tested: calibration of {EVIL}" in lines
        kind = page.evaluate("document.querySelector('#drift').className")
        assert kind == "fold found"
        assert_quiet(page, served)
        browser.close(page)


def test_a_page_that_loses_its_server_keeps_what_it_has(
    browser: Browser, tmp_path: Path
) -> None:
    with serving() as served:
        run(tmp_path, served.feed)
        page = opened(browser, served)
        page.wait_for(f"{FRAMES} > 30")
    page.wait_for(f"{STATE} === 'lost'")
    assert page.evaluate(FRAMES) > 30
    assert "the data received so far" in page.evaluate(
        "document.querySelector('#status').textContent"
    )
    browser.close(page)


def test_without_its_token_the_page_says_so(browser: Browser, served: Served) -> None:
    for address, words in (
        (served.url.partition("#")[0], "contains no token"),
        (served.url[:-1] + "!", "is not valid"),
    ):
        page = browser.open(address, 1280)
        page.wait_for(f"{STATE} === 'refused'")
        status = page.evaluate("document.querySelector('#status').textContent")
        assert words in status and page.evaluate(FRAMES) == 0
        browser.close(page)


def test_names_that_mean_harm_do_none(browser: Browser) -> None:
    about = {
        "name": EVIL, "shadow": False, "horizon_s": 3.0, "concern": [EVIL],
        "laws": [{"name": EVIL, "text": EVIL, "steps": [["stop", 0.5]]}],
        "predicates": [EVIL], "units": {"speed": EVIL},
    }  # fmt: skip
    risk = (0.1, 0.6, 0.9, None, None, 1.5)
    with serving() as served:
        feed = Feed(served.feed)
        feed._line = Line(served.feed)
        feed._must("begin", about)
        feed._must("ground", [["floor", 0.0, [[0, 0], [4, 0], [4, 3], [0, 3]]]])
        feed._must("told", ["speed", "traffic_light"])
        signals = [EVIL, EVIL]
        thing = [EVIL, "furniture", 1.0, 1.0, 0.0, 1.0, 1.0, EVIL, 1.0, EVIL]
        for i in range(5):
            feed._must(
                "frame", float(i), True, EVIL, EVIL, 1.5, [risk], "1", True, signals
            )
            feed._must("scene", float(i), [thing])
        feed._must("event", 3.0, "violated", EVIL)
        page = opened(browser, served)
        page.wait_for(f"{FRAMES} > 4 && document.querySelector('#events li') !== null")
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        assert page.evaluate("document.querySelectorAll('body script').length") == 1
        assert EVIL in page.evaluate("document.querySelector('#events').textContent")
        assert EVIL in page.evaluate("document.querySelector('#holds').textContent")
        assert_quiet(page, served)
        browser.close(page)
        feed.ended({"ended": "enough"})


@pytest.mark.soak
def test_a_thousand_frames_a_second_for_a_minute_take_no_more_memory(
    browser: Browser, tmp_path: Path
) -> None:
    """Of the server and of the page, once both hold a minute."""
    heap = "performance.memory.usedJSHeapSize / 1e6"
    with serving() as served:
        feed = Feed(served.feed)
        feed._line = line = Line(served.feed)
        law = {"name": "law", "text": "", "steps": [["stop", 0.5]]}
        about = {
            "name": "fast", "shadow": False, "horizon_s": 3.0, "concern": [],
            "laws": [law], "predicates": ["p"] * 20, "units": {},
        }  # fmt: skip
        feed._must("begin", about)
        feed._must("told", ["speed"])
        page = opened(browser, served)
        began_s, sent = time.monotonic(), 0
        sizes: list[tuple[float, float]] = []
        while (now_s := time.monotonic() - began_s) < 130.0:
            while sent < 1000 * now_s:
                point = (sent % 700) / 1000
                risks = [(0.1 * point, point, 0.9, None, None, None)]
                feed._send(
                    ("frame", sent / 1000, sent % 500 == 0, "proceed", "", None, risks,
                     "f", False, [30.0])
                )  # fmt: skip
                sent += 1
            time.sleep(0.002)
            if now_s > 65.0 + 15.0 * len(sizes):
                page.command("HeapProfiler.collectGarbage")
                sizes.append((served.memory_kb / 1e3, page.evaluate(heap)))
        feed.ended({"ended": "enough"})
        assert line.dropped < 0.01 * sent
        # The page is told at most so often as a screen shows it.
        assert page.evaluate(FRAMES) <= 60 * 60, "a minute, and no more than is seen"
        server, heaps = zip(*sizes, strict=True)
        assert max(server) - server[0] < 8.0 and max(heaps) - heaps[0] < 12.0, sizes
        assert_quiet(page, served)
