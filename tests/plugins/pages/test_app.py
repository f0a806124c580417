"""What every page must keep: a login, and a policy that lets nothing in from elsewhere."""

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from plugins.pages.plugin import InsetPlugin, create_app
from plugins.pages.rendering import WEB

ROUTES = [route for route in create_app().routes if isinstance(route, APIRoute)]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_no_page_is_shown_without_a_login(visitor: TestClient, route: APIRoute) -> None:
    path = re.sub(r"\{.*?\}", "refresh_pumps", route.path)
    assert route.methods == {"GET"}, "pages change nothing"
    assert visitor.get(f"/inset{path}").status_code == 401


def test_files_of_the_pages_name_no_other_host() -> None:
    for file in [*WEB.iterdir(), *(WEB.parent / "templates").iterdir()]:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, file.name


def test_templates_hold_no_script_and_no_style_that_the_policy_forbids() -> None:
    for file in (WEB.parent / "templates").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=)", text), file.name


def test_the_plugin_adds_a_page_tabs_and_a_card_at_relative_addresses(visitor: TestClient, app: FastAPI) -> None:
    views = InsetPlugin.external_views
    assert [view["destination"] for view in views] == ["nav", "dag", "dag_run"]
    addresses = [view[key] for view in views for key in ("href", "icon", "icon_dark_mode")]
    addresses += [card["bundle_url"] for card in InsetPlugin.react_apps]
    for address in addresses:
        assert address.startswith("inset/")
        if "static" in address:
            assert visitor.get(f"/{address}").status_code == 200


def test_every_page_carries_the_policy(client: TestClient, folder: Path) -> None:
    reply = client.get("/inset/")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"
