"""No text becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import clean
from forewarn.scenarios.report.drawing import Markup, joined, tag


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_text_comes_out_as_it_was_and_opens_no_tag(words: str, title: str) -> None:
    seen = _Seen()
    seen.feed(tag("p", words, title=title))
    seen.close()
    plain = clean(title).replace("\r\n", "\n").replace("\r", "\n")
    assert seen.tags == [("p", [("title", plain)])]
    assert seen.text == clean(words)


def test_attributes_are_left_out_or_stand_alone() -> None:
    made = tag("input", type="range", hidden=None, disabled=True, open_=False)
    assert made == '<input type="range" disabled>'
    assert tag("p", class_="a", data_t=3) == '<p class="a" data-t="3"></p>'
    assert joined("<", Markup("<br>"), None) == "&lt;<br>"
