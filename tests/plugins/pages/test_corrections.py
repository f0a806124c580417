"""What people corrected, and the page of a document on which they choose what to correct."""

import re

from fastapi.testclient import TestClient

from pipeline.corpus.workspace import Workspace
from pipeline.operations.corrections import LiveDocument, correct_part
from schemas.corrections import CorrectionKind
from tests.pipeline.conftest import published, refreshed_once
from tests.plugins.pages.conftest import Rights

__all__ = ["published", "refreshed_once"]

TAB = "/inset/dags/refresh_manuals/corrections"


def test_a_figure_or_block_is_chosen_on_the_page(client: TestClient, rights: Rights, published: Workspace) -> None:
    empty = client.get(TAB).text
    assert "Nothing was corrected yet." in empty
    assert '<option value="winch.pdf">' in empty
    document = LiveDocument(published.store, "manuals", "winch.pdf").parts(1)
    page = client.get(TAB, params={"source": "winch.pdf"}).text
    boxes = re.findall(r'<rect [^>]* data-open="correct" data-part="(\w+)" data-kind="(\w+)"', page)
    assert boxes == [(part.name, part.kinds[0]) for part in document.parts]
    assert 'viewBox="0 0 595.0 842.0"' in page
    openers = re.findall(r'<button [^>]*data-part="(\w+)" data-kind="(\w+)"', page)
    assert openers == [(part.name, kind) for part in document.parts for kind in part.kinds]
    figure = next(part for part in document.parts if CorrectionKind.CAPTION in part.kinds)
    correct_part(
        published.store, "manuals", "winch.pdf", 1, figure.name, CorrectionKind.CAPTION, "<b>The winch</b>", by="ada"
    )
    page = client.get(TAB).text
    assert "waits for a refresh" in page
    assert "&lt;b&gt;The winch&lt;/b&gt;" in page
    assert set(re.findall(r'<form data-dag="(\w+)"', page)) == {"inset_correct"}
    rights.starts = set()
    read_only = client.get(TAB, params={"source": "winch.pdf"}).text
    assert 'data-open="correct"' not in re.sub("<button.*?</button>", "", read_only)
    missing = client.get(TAB, params={"source": "winch.pdf", "number": 9})
    assert (missing.status_code, "its pages are 1 to 2" in missing.text) == (404, True)
