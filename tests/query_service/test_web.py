import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from query_service.app import WEB

PAGES = sorted(WEB.glob("*.html"))
STYLE = (WEB / "style.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["/", "/api", *(f"/static/{file.name}" for file in WEB.iterdir())])
def test_every_file_is_served_with_a_strict_policy(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    # No script can make markup of a text, whatever it tries: innerHTML and its like throw.
    assert "require-trusted-types-for 'script'" in policy
    assert "trusted-types 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"


class _Page(HTMLParser):
    """What a page is made of, as a browser reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.named: set[str] = set()
        self.of_its_own: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.named |= {given[name] or "" for name in ("for", "list", "aria-labelledby") if name in given}
        if (
            tag == "style"
            or (tag == "script" and "src" not in given)
            or any(name == "style" or name.startswith("on") for name in given)
        ):
            self.of_its_own.append(tag)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_hold_no_script_or_style_of_their_own_and_name_what_is_there(page: Path) -> None:
    """The policy would not let a browser run or draw what a page holds itself."""
    read = _Page()
    read.feed(page.read_text(encoding="utf-8"))
    assert read.of_its_own == []
    assert read.ids
    assert len(read.ids) == len(set(read.ids))
    assert read.named <= set(read.ids)


def _tokens(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


LIGHT = _tokens(STYLE[: STYLE.index("@media (prefers-color-scheme: dark)")])
DARK = LIGHT | _tokens(STYLE[STYLE.index("@media (prefers-color-scheme: dark)") : STYLE.index("*, *::before")])


def _luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[start : start + 2], 16)) for start in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_controls_can_be_told_from_their_ground(theme: dict[str, str]) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what bounds a control."""
    grounds = ["paper", "sheet", "sunk"]
    pairs = [(ink, ground) for ink in ("ink", "muted", "accent", "accent-deep") for ground in grounds]
    pairs += [("on-accent", "accent"), ("on-accent", "accent-deep"), ("on-marker", "marker"), ("on-marker", "marker-deep")]
    pairs += [("wrong", "wrong-soft"), ("ink", "wrong-soft")]
    contrasts = {pair: _contrast(theme[pair[0]], theme[pair[1]]) for pair in pairs}
    assert {pair: contrast for pair, contrast in contrasts.items() if contrast < 4.5} == {}
    assert all(_contrast(theme["edge"], theme[ground]) >= 3 for ground in ("paper", "sheet"))
