"""The contact sheet, and the pictures on it."""

import re
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from plugins.pages import figures
from schemas.ids import document_file, sha256
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.pipeline.operations.sheets import described, placement, write_pixels, write_sheet

DAG = "/inset/dags/refresh_pumps"
PAGE = f"{DAG}/figures"


def test_each_figure_has_picture_role_caption_tag_and_flags(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    placed = [
        placement(1, 0, caption="A <pump>"),
        placement(1, 1, caption=""),
        placement(1, 2, figure_id=None, role="decorative"),
    ]
    write_sheet(store, version_name(0), placed, [described(placed[0], description="Seen.", flags=["cut_off"])])
    page = client.get(PAGE).text
    tiles = re.findall(r"<li>.*?</li>", page, re.DOTALL)
    assert len(tiles) == 3
    assert f'src="../../dags/refresh_pumps/pictures/figures/{placed[0]["figure_id"]}.webp" loading="lazy"' in tiles[0]
    assert "A &lt;pump&gt;" in tiles[0]
    assert "&lt;image:1-0.png&gt;" in tiles[0]
    assert "cut off" in tiles[0]
    assert "Seen." in tiles[0]
    assert f"/pictures/pages/{placed[0]['doc_id']}/1.png?box=10.0,20.0,110.0,90.0" in tiles[0]
    assert "no caption" in tiles[1]
    assert "<img" not in tiles[2]
    assert "decorative" in tiles[2]


def test_figures_are_filtered_and_paged_and_the_pages_keep_the_filter(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    some = [placement(1, order, caption="") for order in range(2 * figures.PER_PAGE + 1)]
    write_sheet(store, version_name(0), [*some, placement(2, 0, caption=""), placement(3, 0)])
    asked = {"role": "content", "caption": "without", "document": "manuals/1"}
    pages = [client.get(PAGE, params=asked | {"page": page}).text for page in (1, 3)]
    assert [page.count("<li>") for page in pages] == [figures.PER_PAGE, 1]
    assert "Page 3 of 3, 121 in all" in pages[1]
    kept = f"version={version_name(0)}&amp;role=content&amp;caption=without&amp;document=manuals%2F1"
    assert kept.replace("%2F", "/") + "&amp;page=2" in pages[0].replace("%2F", "/")
    assert "1 figure," in client.get(PAGE, params={"caption": "with", "role": "", "document": ""}).text


def test_any_version_is_shown_a_refused_one_too(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    refused = write_version(store, "pumps", 1, gates=[REFUSES])
    write_sheet(store, version_name(0), [placement(1, 0)])
    write_sheet(store, refused, [placement(1, 0), placement(1, 1)])
    assert client.get(PAGE).text.count("<li>") == 1
    page = client.get(f"{PAGE}?version={refused}").text
    assert page.count("<li>") == 2
    assert f'<option value="{refused}" selected>' in page
    assert f"{version_name(0)} (live)" in page


def test_a_first_version_that_was_refused_is_shown(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    write_sheet(store, write_version(store, "pumps", 0, gates=[REFUSES]), [placement(1, 0)])
    store.replace(f"versions/{version_name(1)}/plan.json", b"{}")
    assert client.get(PAGE).text.count("<li>") == 1


def test_a_page_of_many_figures_takes_less_than_a_second(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    placed = [placement(document, order) for document in range(500) for order in range(20)]
    write_sheet(store, version_name(0), placed, [described(row) for row in placed])
    client.get(PAGE)
    began = time.perf_counter()
    assert client.get(f"{PAGE}?role=content&document=manuals/1&page=9").text.count("<li>") == figures.PER_PAGE
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        (f"{PAGE}?version={version_name(7)}", 404, "there is no version"),
        (f"{PAGE}?role=portrait", 422, "role"),
        ("/inset/dags/refresh_empty/figures", 404, "no refresh has finished yet"),
        ("/inset/dags/refresh_broken/figures", 404, "did you mean"),
        (f"{DAG}/pictures/figures/{'0' * 64}.webp", 404, "the store has no figure"),
        (f"{DAG}/pictures/figures/..%2F..%2FLIVE.webp", 404, ""),
        (f"{DAG}/pictures/pages/{'0' * 64}/1.png", 404, "neither the store nor the last refresh has a document"),
        (f"{DAG}/pictures/pages/{'0' * 64}/1.png?box=1,2,3", 422, "box"),
        (f"{DAG}/pictures/pages/{sha256(b'no PDF')}/1.png", 422, "page 1 can&#39;t be drawn: the file isn&#39;t a PDF"),
    ],
)
def test_what_cannot_be_shown_is_said(client: TestClient, folder: Path, address: str, status: int, says: str) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_sheet(store, version_name(0), [])
    store.replace(document_file(sha256(b"no PDF")), b"no PDF")
    write_corpus(folder, "empty")
    (folder / "corpora" / "broken.yaml").write_text("name: broken\nsourc: x\n")
    reply = client.get(address)
    assert reply.status_code == status
    assert says in reply.text


def test_pictures_may_be_kept_by_the_browser_of_the_user(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    name = write_pixels(store)
    data = write_manual(folder / "pump.pdf", "water pump", pages=1).read_bytes()
    store.replace(document_file(sha256(data)), data)
    small = client.get(f"{DAG}/pictures/figures/{name}.webp")
    large = client.get(f"{DAG}/pictures/figures/{name}.webp?large=true")
    page = client.get(f"{DAG}/pictures/pages/{sha256(data)}/1.png?dpi=24&box=1,2,30.5,40")
    assert [one.headers["content-type"] for one in (small, large, page)] == ["image/webp", "image/webp", "image/png"]
    assert len(small.content) < len(large.content)
    assert page.content.startswith(b"\x89PNG")
    for one in (small, large, page):
        assert one.headers["cache-control"].startswith("private")
        assert one.headers["x-content-type-options"] == "nosniff"
