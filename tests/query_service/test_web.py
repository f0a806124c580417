import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from query_service.app import WEB

PAGES = sorted(WEB.glob("*.html"))
SCRIPTS = sorted(WEB.glob("*.js"))
STYLE = (WEB / "style.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["/", "/api", *(f"/static/{file.name}" for file in WEB.iterdir())])
def test_every_file_is_served_with_a_strict_policy(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("file", sorted(WEB.iterdir()), ids=lambda file: file.name)
def test_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|//[a-z]+\.|url\(", text.replace("``", ""))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_hold_no_script_or_style_of_their_own(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", html) == []
    assert "<style" not in html
    assert not re.search(r"\s(style|on\w+)=", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:for|list|aria-labelledby)="([^"]+)"', html):
        assert target in ids


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_document_text_never_becomes_markup(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser", text
    )


def test_every_element_that_a_script_names_exists() -> None:
    for page, scripts in {"index.html": ["app.js", "viewer.js"], "api.html": ["api.js"]}.items():
        ids = set(re.findall(r'\bid="([^"]+)"', (WEB / page).read_text(encoding="utf-8")))
        for script in scripts:
            named = set(re.findall(r'\$\("([^"]+)"\)', (WEB / script).read_text(encoding="utf-8")))
            assert named <= ids


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
