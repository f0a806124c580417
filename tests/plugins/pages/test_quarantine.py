"""The page of a corpus's quarantine."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from plugins.pages import corpus
from schemas.errors import FailureCode
from schemas.versions import RunOptions
from tests.pipeline.operations.corpora import version_name, write_corpus
from tests.pipeline.operations.sheets import failure, write_quarantine
from tests.plugins.pages.conftest import Rights

PAGE = "/inset/dags/refresh_pumps/quarantine"


def test_each_document_has_its_reason_its_remedy_and_its_page(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    broken = [failure("<b>.pdf", page=page, message="the page is damaged") for page in (4, 9)]
    unread = failure("gone.pdf", FailureCode.SOURCE_UNREADABLE, doc_id=None)
    write_quarantine(store, version_name(0), [*broken, unread], left_out=["gone.pdf"])
    page = client.get(PAGE).text
    assert "&lt;b&gt;.pdf" in page
    assert "Let the user of refreshes read the file" in page
    assert page.count("left out of the version") == page.count("the rest of it is indexed") == 1
    pictures = re.findall(r'<img src="([^"]+)"', page)
    assert pictures == [f"../../dags/refresh_pumps/pictures/pages/{broken[0].doc_id}/4.png?dpi=24"]
    assert re.findall(r'class="link" data-zoom="[^"]+/(\d+)\.png"', page) == ["4", "9"]


def test_the_form_starts_a_refresh_that_replays(client: TestClient, folder: Path, rights: Rights) -> None:
    write_corpus(folder, "pumps", versions=1)
    (form,) = re.findall(r'<dialog id="replay".*?</dialog>', client.get(PAGE).text, re.DOTALL)
    assert 'data-dag="refresh_pumps"' in form
    assert 'name="replay" value="true" data-json="1"' in form
    assert re.search(r'<textarea name="reason"[^>]* required', form)
    assert "replay" in RunOptions.model_fields
    assert 'data-open="replay" data-documents' in client.get(PAGE).text
    rights.starts = set()
    assert re.search(r'data-open="replay" [^>]*disabled', client.get(PAGE).text)


def test_documents_are_filtered_and_paged_and_the_pages_keep_the_filter(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    number = 2 * corpus.PER_PAGE + 1
    some = [failure(f"a & b/{index:03}.pdf", FailureCode.CRASHED) for index in range(number)]
    write_quarantine(store, version_name(0), [*some, failure("other.pdf")])
    filters = {"code": "crashed", "document": "A & B"}
    pages = [client.get(PAGE, params=filters | {"page": page}).text for page in (1, 3)]
    assert [page.count('scope="row"') for page in pages] == [corpus.PER_PAGE, 1]
    assert f"Page 3 of 3, {number} in all" in pages[1]
    assert 'href="?code=crashed&amp;document=A+%26+B&amp;page=2"' in pages[0]
    assert "other.pdf" not in "".join(pages)
    assert client.get(f"{PAGE}?code=").text.count('scope="row"') == corpus.PER_PAGE
    assert "No document fits" in client.get(f"{PAGE}?document=nothing").text


@pytest.mark.parametrize(("versions", "says"), [(0, "No refresh has finished yet"), (1, "no longer has the failures")])
def test_a_quarantine_that_isn_t_there_is_said(client: TestClient, folder: Path, versions: int, says: str) -> None:
    write_corpus(folder, "pumps", versions=versions)
    assert says in client.get(PAGE).text


def test_an_empty_quarantine_is_said(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_quarantine(store, version_name(0), [])
    assert "Nothing is in quarantine" in client.get(PAGE).text
