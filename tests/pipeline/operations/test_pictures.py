"""Thumbnails of figures, and pages of stored documents, those in quarantine too."""

import dataclasses
import io
from pathlib import Path

import pytest
from PIL import Image

from pipeline.operations.pictures import figure_picture, page_picture
from pipeline.records.ledger import write_ledger
from schemas.errors import BadInputError, DamagedError, FailureCode, NotFoundError
from schemas.ids import document_file, figure_file, sha256
from schemas.parquet import Rows
from schemas.versions import LedgerRow, Status
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import version_name, write_corpus
from tests.pipeline.operations.sheets import write_pixels


def test_a_figure_is_made_small(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    name = write_pixels(store, width=600, height=300)
    with Image.open(io.BytesIO(figure_picture(store, name, 240))) as picture:
        assert (picture.format, picture.size) == ("WEBP", (240, 120))
    with Image.open(io.BytesIO(figure_picture(store, name, 1200))) as picture:
        assert picture.size == (600, 300), "nothing is enlarged"


def test_a_figure_that_is_lost_or_broken_is_said(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    with pytest.raises(NotFoundError, match="the store has no figure"):
        figure_picture(store, "0" * 64, 240)
    store.replace(figure_file("1" * 64), b"no picture")
    with pytest.raises(DamagedError, match="can't be decoded"):
        figure_picture(store, "1" * 64, 240)


def test_a_page_of_a_document_that_no_version_holds_is_drawn(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    data = write_manual(folder / "pump.pdf", "water pump", pages=1).read_bytes()
    store.replace(document_file(sha256(data)), data)
    file = str(folder / "corpora" / "pumps.yaml")
    with Image.open(io.BytesIO(page_picture(file, sha256(data), 1, dpi=36))) as picture:
        assert picture.size == (298, 421)
    with pytest.raises(NotFoundError, match="there is no page 2"):
        page_picture(file, sha256(data), 2, dpi=36)
    with pytest.raises(NotFoundError, match="neither the store nor the last refresh has a document"):
        page_picture(file, "0" * 64, 1, dpi=36)


def test_a_document_that_cannot_be_drawn_is_said(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    store.replace(document_file(sha256(b"no PDF")), b"no PDF")
    with pytest.raises(BadInputError, match="page 1 can't be drawn: the file isn't a PDF"):
        page_picture(str(folder / "corpora" / "pumps.yaml"), sha256(b"no PDF"), 1, dpi=36)


def test_a_document_that_never_reached_the_store_is_drawn_from_the_source(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    pdf = write_manual(folder / "pdfs" / "sub" / "pump.pdf", "water pump", pages=1)
    name = sha256(pdf.read_bytes())
    row = LedgerRow("sub/pump.pdf", name, 1, "1", Status.QUARANTINED, "a", code=FailureCode.PAGE_LIMIT)
    write_ledger(store, version_name(0), Rows.of(LedgerRow, [row]))
    file = str(folder / "corpora" / "pumps.yaml")
    assert page_picture(file, name, 1, dpi=36).startswith(b"\x89PNG")
    write_manual(pdf, "steel winch", pages=1)
    with pytest.raises(BadInputError, match="another file in the document's place"):
        page_picture(file, name, 1, dpi=37)
    now = sha256(pdf.read_bytes())
    write_ledger(store, version_name(0), Rows.of(LedgerRow, [dataclasses.replace(row, doc_id=now)]))
    assert page_picture(file, now, 1, dpi=37).startswith(b"\x89PNG")
    pdf.unlink()
    with pytest.raises(BadInputError, match="no longer in the source"):
        page_picture(file, now, 1, dpi=38)
