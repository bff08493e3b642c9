"""The page in a real browser: quiet, alone, for keyboards, in light and dark, on a phone and on paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.prefer("light")
    browser.resize(1280, 900)
    browser.open(page)
    return browser


def luminance(browser: Browser, selector: str, name: str) -> float:
    """Of a colour in the page, 0 to 255."""
    colour = browser.value(f"getComputedStyle(document.querySelector('{selector}')).{name}")
    red, green, blue = (int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_page__is_quiet_and_alone(opened: Browser, page: Path) -> None:
    opened.value("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert opened.complaints() == []
    assert opened.requested() == [page.resolve().as_uri()]
    assert opened.value("document.title").startswith("threepass report")  # and not what a label would have


def test_scripts_of_others__are_refused(opened: Browser) -> None:
    opened.value(
        "(() => { const made = document.createElement('script'); made.textContent = 'window.owned = 1';"
        " document.body.append(made); })()"
    )
    assert opened.value("typeof window.owned") == "undefined"


def test_search__by_keyboard(opened: Browser) -> None:
    rows = "document.querySelectorAll('#label-table tbody tr').length"
    assert opened.value(rows) == 25
    opened.press("/")
    assert opened.value("document.activeElement.id") == "query"
    for character in "LABEL5":
        opened.press(character)
    names = opened.value(
        "[...document.querySelectorAll('#label-table tbody th')].map(cell => cell.textContent)"
    )
    assert sorted(names) == sorted(f"label{i}" for i in range(60) if str(i).startswith("5") and i > 5)
    assert opened.value("document.getElementById('found').textContent") == "10 labels with “LABEL5”"
    opened.press("Escape")
    assert opened.value(rows) == 25
    for character in "<script":
        opened.press(character)
    assert opened.value(rows) == 1
    assert opened.complaints() == []


def test_more__by_keyboard(opened: Browser) -> None:
    opened.value("document.getElementById('more').focus()")
    for expected in (50, 60):
        opened.press("Enter")
        assert opened.value("document.querySelectorAll('#label-table tbody tr').length") == expected
    assert opened.value("document.getElementById('more').hidden")


def test_keyboard__skip_link_first_and_focus_is_seen(opened: Browser) -> None:
    opened.press("Tab")
    assert opened.value("document.activeElement.className") == "skip"
    assert opened.value("document.activeElement.getBoundingClientRect().top") >= 0
    opened.press("Enter")
    assert opened.value("location.hash") == "#content"
    opened.value("document.querySelector('nav a').focus()")
    opened.press("Tab")
    assert opened.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    # every stop has a name to be told by
    nameless = opened.value(
        "[...document.querySelectorAll('a, button, input, summary, [tabindex=\"0\"]')].filter(part =>"
        " !part.textContent.trim() && !part.ariaLabel && !(part.labels && part.labels.length)).length"
    )
    assert nameless == 0


def test_link_to_a_topic__opens_what_hides_it(opened: Browser) -> None:
    last = opened.value("[...document.querySelectorAll('.more-topics .card')].pop().id")
    assert not opened.value("document.querySelector('.more-topics').open")
    opened.value(f"document.querySelector('svg a[href=\"#{last}\"]').dispatchEvent(new MouseEvent('click'))")
    opened.value("new Promise(done => setTimeout(done, 100))")
    for _ in range(50):
        if opened.value("document.querySelector('.more-topics').open"):
            break
    assert opened.value("document.querySelector('.more-topics').open")
    assert opened.value("document.activeElement.id") == last


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_schemes__contrast(opened: Browser, scheme: str, is_dark: bool) -> None:
    opened.prefer(scheme)
    page, text = luminance(opened, "body", "backgroundColor"), luminance(opened, "body", "color")
    assert (page < 60) == is_dark
    assert (text > 180) == is_dark
    card = luminance(opened, ".card", "backgroundColor")
    for selector in (".card .quiet", ".card .label", "nav a", ".tile dt"):
        assert abs(luminance(opened, selector, "color") - card) > 90, selector


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow__nothing_sticks_out(opened: Browser, width: int) -> None:
    opened.resize(width, 844, mobile=True)
    opened.value("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert opened.value("document.documentElement.scrollWidth") <= width
    assert opened.value("document.body.scrollWidth") <= width


def test_paper(opened: Browser) -> None:
    opened.prefer("dark", media="print")
    assert luminance(opened, "body", "backgroundColor") == pytest.approx(255)
    for selector in ("nav", ".search", "#more"):
        assert opened.value(f"getComputedStyle(document.querySelector('{selector}')).display") == "none"
    assert opened.value("getComputedStyle(document.querySelector('.card')).breakInside") == "avoid"
    assert opened.pdf().startswith(b"%PDF-")


def test_screenshots(opened: Browser, tmp_path: Path) -> None:
    """They are kept where THREEPASS_SCREENSHOTS says, for people to look at."""
    folder = Path(os.environ.get("THREEPASS_SCREENSHOTS", tmp_path))
    sizes = []
    for name, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")):
        opened.prefer(scheme)
        opened.resize(width, 900, mobile=name == "phone")
        opened.screenshot(folder / f"{name}.png")
        sizes.append((folder / f"{name}.png").stat().st_size)
    assert min(sizes) > 20_000
