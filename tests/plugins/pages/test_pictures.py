"""The pictures that pages show."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from schemas.ids import document_file, sha256
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import version_name, write_corpus
from tests.pipeline.operations.sheets import write_left_out, write_pixels

DAG = "/inset/dags/refresh_pumps"


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        (f"/inset/dags/refresh_broken/pictures/pages/{'0' * 64}/1.png", 404, "did you mean"),
        (f"{DAG}/pictures/figures/{'0' * 64}.webp", 404, "the store has no figure"),
        (f"{DAG}/pictures/figures/..%2F..%2FLIVE.webp", 404, ""),
        (f"{DAG}/pictures/pages/{'0' * 64}/1.png", 404, "neither the store nor the last refresh has a document"),
        (f"{DAG}/pictures/pages/{sha256(b'no PDF')}/1.png", 422, "page 1 can&#39;t be drawn: the file isn&#39;t a PDF"),
    ],
)
def test_what_cannot_be_shown_is_said(client: TestClient, folder: Path, address: str, status: int, says: str) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_left_out(store, version_name(0))
    store.replace(document_file(sha256(b"no PDF")), b"no PDF")
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
    page = client.get(f"{DAG}/pictures/pages/{sha256(data)}/1.png?dpi=24")
    assert [response.headers["content-type"] for response in (small, large, page)] == [
        "image/webp",
        "image/webp",
        "image/png",
    ]
    assert len(small.content) < len(large.content)
    assert page.content.startswith(b"\x89PNG")
    for response in (small, large, page):
        assert response.headers["cache-control"].startswith("private")
        assert response.headers["x-content-type-options"] == "nosniff"
