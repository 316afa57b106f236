"""The report's page, looked at in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.listening import Run
from forewarn.plugins.contracts import Shape, Source, Thing
from forewarn.scenarios.report.page import write_report
from forewarn.scenarios.running.scenery import SceneLog, scene_file
from tests import film
from tests.accessible import complaints
from tests.browser import Browser, Page, chromium
from tests.pictures import assert_like
from tests.scenarios import learned
from tests.scenarios.learned import forewarn
from tests.scenarios.report.test_page import EVIL, broken_one, rewritten
from tests.scenarios.test_scene import Camera

pytestmark = pytest.mark.needs("chromium")

READY = "document.documentElement.dataset.ready === 'yes'"
PICTURES = Path(__file__).parent / "pictures"
TIME = "document.querySelector('input[type=range]').value"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two campaigns, a measurement, and names that mean harm."""
    folder = tmp_path_factory.mktemp("report")
    road, kitchen = folder / "road", folder / "kitchen"
    models = {name: learned.model(name) for name in ("tiny-road", "tiny-kitchen")}
    forewarn(
        "run", "tiny-road", "--model", models["tiny-road"], "--shadow",
        "--episodes", "40", "--seed", "9000", "--out", road,
    )  # fmt: skip
    forewarn(
        "run", "tiny-kitchen", "--model", models["tiny-kitchen"], "--intervene",
        "reflect", "--threshold", "0.3", "--episodes", "9", "--seed", "9000",
        "--out", kitchen,
    )  # fmt: skip
    measured = folder / "measured.json"
    measured.write_text(
        forewarn(
            "measure", "tiny-road", "--model", models["tiny-road"], "--episodes", "30",
            "--thresholds", "0.1,0.3,0.6", "--no-guarded", "--json",
        )
    )  # fmt: skip
    evil = rewritten(broken_one(kitchen, False), folder, _spoil)
    _draw(evil)
    out = folder / "report.html"
    write_report([evil, road, kitchen, measured], out)
    return out


def _spoil(line: dict[str, object]) -> None:
    if isinstance(signals := line.get("signals"), dict):
        signals["holding"] = EVIL
    if isinstance(scenario := line.get("scenario"), dict):
        scenario["text"] = f"title: {EVIL}"


def _draw(record: Path) -> None:
    """A room whose things are named by someone who means harm."""

    class Room:
        def ground(self) -> list[Shape]:
            return [Shape("floor", ((0.0, 0.0), (4.0, 0.0), (4.0, 3.0), (0.0, 3.0)))]

        def things(self) -> list[Thing]:
            robot = Thing("robot", "ego", 1.0, 1.0, 45.0, 0.4, 0.4)
            thing = Thing("x", "furniture", 2.0, 2.0, 0.0, 1.0, 1.0, EVIL, 1.0, EVIL)
            return [robot, thing]

    lines = record.read_text().splitlines()
    header = json.loads(lines[0])
    name, seed = header["scenario"]["name"], header["seed"]
    log = SceneLog(scene_file(record), Room(), name, seed)
    log.began(Run("room", Source("room", "household", ("holding",), 1.0)))
    frames = sum('"decision":{' in line for line in lines)
    for i in range(frames):
        log.frame(Frame(float(i), i, {}), None, None)
    log.close()


def opened(browser: Browser, report: Path, width: int, **how: bool) -> Page:
    page = browser.open(report, width, **how)
    page.wait_for(READY)
    return page


@pytest.mark.parametrize(
    ("device", "width", "height"), [("desktop", 1280, 900), ("phone", 390, 844)]
)
@pytest.mark.parametrize("dark", [False, True])
def test_it_looks_as_it_did(
    browser: Browser, report: Path, device: str, width: int, height: int, dark: bool
) -> None:
    page = browser.open(report, width, height, dark=dark, calm=True)
    page.wait_for(READY)
    name = f"report-{device}-{'dark' if dark else 'light'}.png"
    assert_like(page, PICTURES / name, width, height)
    browser.close(page)


def test_another_picture_is_noticed(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "report.png"
    kept.write_bytes((PICTURES / "report-desktop-light.png").read_bytes())
    page = browser.open(report, 1280, 900, dark=True, calm=True)
    page.wait_for(READY)
    with pytest.raises(AssertionError, match="of the pixels differ"):
        assert_like(page, kept, 1280, 900)
    browser.close(page)


def test_what_a_world_rendered_is_shown(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    kitchen = report.parent / "kitchen"
    record = rewritten(broken_one(kitchen, False), tmp_path, lambda line: None)
    header, *_ = map(json.loads, record.read_text().splitlines())
    log = SceneLog(
        scene_file(record), Camera((60, 80, 3)), "tiny-kitchen", header["seed"]
    )
    log.began(Run("a kitchen", Source("kitchen", "household", (), 1.0)))
    for i in range(3):
        log.frame(Frame(float(i), i, {}), None, None)
    log.close()
    out = tmp_path / "report.html"
    write_report([record], out)
    page = browser.open(out, 1280, calm=True)
    grey = """(() => {
        const canvas = document.querySelector('canvas');
        return canvas.getContext('2d').getImageData(canvas.width / 2, 9, 1, 1).data[0];
    })()"""
    page.wait_for(f"{grey} === 17")
    page.evaluate("document.querySelector('.stage').focus()")
    page.press("ArrowRight")
    page.wait_for(f"{grey} === 34")
    assert page.requests == []


@pytest.mark.needs("PIL")
def test_a_report_can_be_filmed(report: Path, tmp_path: Path) -> None:
    from PIL import Image

    film.film(report, tmp_path / "film.webp", most=2)
    with Image.open(tmp_path / "film.webp") as picture:
        assert getattr(picture, "n_frames", 1) == 2


def assert_quiet(page: Page) -> None:
    assert page.errors == [] and page.requests == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_readable_at_any_width(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    page = opened(browser, report, width, dark=dark)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide == width == page.evaluate("innerWidth"), "nothing sticks out"
    # What is wider than the page stands in a box of its own that scrolls.
    outside = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(e => !e.closest('svg') &&
        e.getBoundingClientRect().right > innerWidth + 1 &&
        !e.closest('.scroll, .wide')).map(e => e.outerHTML.slice(0, 90))"""
    )
    assert outside == []
    small = page.evaluate(
        """[...document.querySelectorAll('p, li, td, th, button, text')].filter(e =>
        e.textContent && parseFloat(getComputedStyle(e).fontSize) < 12).length"""
    )
    assert small == 0
    assert_quiet(page)


def test_names_that_mean_harm_do_none(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 1280)
    assert page.evaluate("document.title").startswith("</script>") or EVIL in (
        page.evaluate("document.body.textContent")
    )
    assert (
        page.evaluate("document.querySelectorAll('img[src=x], body script').length")
        == 2
    )
    shown = page.evaluate(
        """[...document.querySelectorAll('.signals td')].map(e => e.textContent)"""
    )
    assert any(text.startswith("</script><script>alert") for text in shown)
    assert_quiet(page)


def test_the_picture_is_drawn_and_moves(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 1280)
    picture = "document.querySelectorAll('canvas')[1].toDataURL()"
    colors = """(() => {
        const canvas = document.querySelectorAll('canvas')[1];
        const copy = document.createElement('canvas');
        copy.width = canvas.width;
        copy.height = canvas.height;
        const pen = copy.getContext('2d', { willReadFrequently: true });
        pen.drawImage(canvas, 0, 0);
        const { data } = pen.getImageData(0, 0, copy.width, copy.height);
        return new Set(new Uint32Array(data.buffer)).size;
    })()"""
    before = page.evaluate(picture)
    assert page.evaluate(colors) > 5, "ground, road, cars, a light"
    page.evaluate(
        """(() => {
        const slider = document.querySelectorAll('input[type=range]')[1];
        slider.value = slider.max;
        slider.dispatchEvent(new Event('input'));
        })()"""
    )
    assert page.evaluate(picture) != before
    assert_quiet(page)


def test_the_keyboard_plays_and_steps(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 1280)
    page.evaluate("document.querySelector('.stage').focus()")
    assert page.evaluate("document.querySelector('.play').textContent") == "Pause"
    page.press("ArrowRight")  # what plays by itself rests as soon as it is touched
    before = float(page.evaluate(TIME))
    page.press("ArrowRight")
    assert float(page.evaluate(TIME)) == pytest.approx(before + 1.0)
    page.press(" ")
    assert page.evaluate("document.querySelector('.play').textContent") == "Pause"
    page.wait_for(f"Number({TIME}) > {before + 1.05}")
    page.press(" ")
    assert page.evaluate("document.querySelector('.play').textContent") == "Play"
    assert_quiet(page)


def test_reduced_motion_is_respected(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 1280, calm=True)
    # Two paints later: whatever would move by itself had its chance.
    frames = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
    before = page.evaluate(TIME)
    page.evaluate(frames)
    assert page.evaluate(TIME) == before, "nothing plays by itself"
    moved = page.evaluate(
        """new Promise(done => {
        const slider = document.querySelectorAll('input[type=range]')[1];
        const seen = [];
        document.querySelectorAll('.play')[1].click();
        const look = () => {
            if (seen[seen.length - 1] !== slider.value) seen.push(slider.value);
            if (seen.length > 2) done(seen.map(Number));
            else requestAnimationFrame(look);
        };
        look();
        })"""
    )
    assert moved[2] - moved[1] >= 0.5, "it jumps, it does not glide"
    assert_quiet(page)


def test_a_moment_of_the_story_is_shown_when_it_is_asked_for(
    browser: Browser, report: Path
) -> None:
    page = opened(browser, report, 1280)
    asked, shown = page.evaluate(
        """(() => {
        const run = document.getElementById('run-2');
        const button = run.querySelector('.story .violated').closest('li')
            .querySelector('button');
        button.click();
        return [button.dataset.t, run.querySelector('input[type=range]').value];
        })()"""
    )
    assert float(asked) == float(shown)
    words = page.evaluate("document.querySelector('#run-2 .hud').textContent")
    assert words.endswith("law broken")
    assert_quiet(page)


@pytest.mark.needs("axe_core_python")
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_serious_keeps_anybody_from_reading_it(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    page = opened(browser, report, width, dark=dark, calm=True)
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert complaints(page) == []


def test_a_card_is_played_large_and_put_away(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 1280)
    for _ in range(2):
        page.evaluate("document.querySelector('.card').click()")
        assert page.evaluate("document.querySelector('dialog').open")
        slider = "Number(document.querySelector('dialog input').value)"
        before = page.evaluate(slider)
        page.wait_for(f"{slider} > {before}")
        page.evaluate("document.querySelector('dialog .close').click()")
        assert not page.evaluate("document.querySelector('dialog').open")
    assert_quiet(page)


def test_on_a_phone_play_is_beneath_the_picture(browser: Browser, report: Path) -> None:
    page = opened(browser, report, 400)
    view, play, curves = page.evaluate(
        """['.view', '.controls', '.curves'].map(it =>
        document.querySelector('#run-1 ' + it).getBoundingClientRect().top)"""
    )
    assert view < play < curves
    height = page.evaluate(
        "document.querySelector('#run-1 .play').getBoundingClientRect().height"
    )
    assert height >= 24, "a finger finds it"


def test_marks_on_the_time_line_do_not_lie_on_each_other(
    browser: Browser, report: Path
) -> None:
    for width in (1280, 400):
        page = opened(browser, report, width)
        overlaps = page.evaluate(
            """[...document.querySelectorAll('.happened')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('text.mark')].map(
                it => it.getBoundingClientRect());
            return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
                a.left < b.right && b.left < a.right && a.top + 1 < b.bottom &&
                b.top + 1 < a.bottom));
            }).length"""
        )
        assert overlaps == 0
        browser.close(page)
