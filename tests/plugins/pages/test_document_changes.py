"""What changed inside a document, page by page."""

from pathlib import Path

import pymupdf
import pytest
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.operations.document_changes import document_changes
from pipeline.run import refresh
from schemas.errors import NotFoundError
from tests.manuals import write_manual

pytestmark = pytest.mark.slow


def _edit(file: Path) -> None:
    """Insert a page in front, and replace the figure of what was page 2 by a line of text."""
    with pymupdf.open(file) as document:
        document.new_page(0).insert_text((72, 90), "Read the safety notes before the first start.", fontsize=11)
        page = document[2]
        page.delete_image(page.get_images()[0][0])
        page.insert_text((72, 600), "The second picture was withdrawn for good.", fontsize=11)
        edited = document.tobytes(garbage=3)
    file.write_bytes(edited)


def test_pages_are_compared_side_by_side(client: TestClient, folder: Path) -> None:
    pump = write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    corpus = folder / "corpora" / "pumps.yaml"
    corpus.parent.mkdir(exist_ok=True)
    corpus.write_text("name: pumps\nsource: ../pdfs\ncaptions: {ocr: none}\n")
    workspace = open_workspace(str(corpus))
    first = refresh(workspace).version
    _edit(pump)
    second = refresh(workspace).version
    assert first is not None
    assert second is not None

    changed = document_changes(workspace.store, first, second, "pump.pdf")
    inserted, edited = changed.pages
    assert (inserted.before, inserted.now) == (None, 1)
    assert [(row.change, row.text) for row in inserted.rows] == [("came", "Read the safety notes before the first start.")]
    assert (edited.before, edited.now) == (2, 3)
    assert {(row.change, str(row.modality)) for row in edited.rows} >= {("went", "figure"), ("came", "text")}
    assert document_changes(workspace.store, second, second, "pump.pdf").pages == []
    with pytest.raises(NotFoundError, match="neither version indexes"):
        document_changes(workspace.store, first, second, "valve.pdf")

    tab = "/inset/dags/refresh_pumps"
    versions = f"base={first}&version={second}"
    assert "<option>pump.pdf</option>" in client.get(f"{tab}/changes?{versions}").text
    page = client.get(f"{tab}/changes/document?{versions}&source=pump.pdf").text
    assert "Page 2, now 3" in page
    assert "Page 1, which is new" in page
    for doc_id, number in ((changed.doc_before, 2), (changed.doc_now, 3)):
        assert f"pictures/pages/{doc_id}/{number}.png" in page
        assert client.get(f"{tab}/pictures/pages/{doc_id}/{number}.png?dpi=36").headers["content-type"] == "image/png"
