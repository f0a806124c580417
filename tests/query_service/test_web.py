import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from query_service.app import WEB

PAGES = sorted(WEB.glob("*.html"))


FILES = [f"/static/{file.relative_to(WEB)}" for file in WEB.rglob("*") if file.is_file()]


@pytest.mark.parametrize("path", ["/", *FILES])
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


def test_the_reference_may_style_itself_and_no_more(client: TestClient) -> None:
    policy = client.get("/api").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy
    assert policy.count("unsafe") == 1
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "frame-ancestors 'none'" in policy


class _Page(HTMLParser):
    """What a page is made of, as a browser reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.named: set[str] = set()
        self.of_its_own: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.named |= {attributes[name] or "" for name in ("for", "list", "aria-labelledby") if name in attributes}
        if (
            tag == "style"
            or (tag == "script" and "src" not in attributes)
            or any(name == "style" or name.startswith("on") for name in attributes)
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


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node on PATH")
@pytest.mark.parametrize("script", sorted(WEB.glob("*.js")), ids=lambda script: script.name)
def test_scripts_are_well_formed(script: Path, tmp_path: Path) -> None:
    module = tmp_path / f"{script.stem}.mjs"
    module.write_bytes(script.read_bytes())
    checked = subprocess.run(["node", "--check", module], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
