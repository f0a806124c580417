"""A version written out for other tools."""

import io
from pathlib import Path

import pyarrow.parquet as pq
import pymupdf
import pytest
from PIL import Image

from lab.pages import export_pages
from lab.paginate import BEYOND_TEXT, DROPS, UNIQUE_TEXTS, ImageFilter
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from schemas.errors import NotFoundError, UserError
from tests.manuals import picture


def _add(corpus_file: Path) -> None:
    """Add a manual with an alpha image, a small one and an empty page, and a copy of it under another name."""
    document = pymupdf.open()
    document.set_metadata({"title": "Valve manual", "subject": "Service\n guide"})
    page = document.new_page()
    page.insert_text((72, 100), "The valve takes 40 Nm.")
    transparent = Image.effect_noise((90, 60), 80).convert("RGBA")
    transparent.paste((0, 0, 0, 0), (0, 0, 30, 30))
    sink = io.BytesIO()
    transparent.save(sink, "PNG")
    page.insert_image((100, 200, 280, 320), stream=sink.getvalue())
    page.insert_image((100, 400, 160, 440), stream=picture(5, 45, 30))
    document.new_page()
    pdfs = corpus_file.parent.parent / "pdfs"
    (pdfs / "copy").mkdir()
    document.save(pdfs / "valve.pdf")
    (pdfs / "copy" / "valve.pdf").write_bytes((pdfs / "valve.pdf").read_bytes())


def test_a_version_as_the_parquet_of_the_paper(corpus_file: Path, tmp_path: Path) -> None:
    _add(corpus_file)
    workspace = open_workspace(str(corpus_file))
    with pytest.raises(NotFoundError, match="nothing is published yet"):
        export_pages(workspace, tmp_path / "pages.parquet")
    version = refresh(workspace).version
    exported = export_pages(workspace, tmp_path / "out" / "pages.parquet")
    table = pq.read_table(exported.file)
    assert table.schema.equals(BEYOND_TEXT)
    assert (exported.version, exported.rows, exported.pages, exported.images) == (version, table.num_rows, 8, 2)
    assert table.column("index").to_pylist() == list(range(8))
    rows = {(row["url"]): row for row in table.to_pylist()}
    pages = [f"{name}.pdf#page={page}" for name in ("copy/valve", "pump", "valve", "winch") for page in (1, 2)]
    assert list(rows) == pages
    valve = rows["valve.pdf#page=1"]
    assert (valve["doc_title"], valve["text"]) == ("Valve manual - Service guide", "The valve takes 40 Nm.")
    image = Image.open(io.BytesIO(valve["image_bytes"]))
    assert (image.format, image.mode, image.getpixel((5, 5))) == ("PNG", "RGB", (255, 255, 255))
    assert not rows["valve.pdf#page=2"]["has_image"]
    drops = pq.read_table(exported.drops)
    assert drops.schema.equals(DROPS)
    reasons = {row["url"]: row["reason"] for row in drops.to_pylist()}
    assert (
        reasons["valve.pdf#page=1"] == reasons["copy/valve.pdf#page=1"] == "is 45 x 30 px; its shorter side must exceed 50"
    )
    assert (drops.num_rows, exported.dropped) == (6, 6), "those of the other manuals have too few bytes"
    everything = pq.read_table(export_pages(workspace, tmp_path / "all.parquet", images=ImageFilter.NONE).file)
    assert (everything.num_rows, everything.column("has_image").to_pylist().count(True)) == (10, 8)

    unique = export_pages(workspace, tmp_path / "unique.parquet", unique=True)
    texts = pq.read_table(unique.file)
    assert texts.schema.equals(UNIQUE_TEXTS)
    assert (unique.rows, texts.num_rows) == (6, 6)
    urls_by_text = {row["text"]: [page["url"] for page in row["provenance"]] for row in texts.to_pylist()}
    assert urls_by_text["The valve takes 40 Nm."] == ["copy/valve.pdf#page=1", "valve.pdf#page=1"]

    with pytest.raises(UserError, match="no version 2"):
        export_pages(workspace, tmp_path / "pages.parquet", version="20200101T000000Z-00000000")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write"):
        export_pages(workspace, tmp_path / "file" / "pages.parquet")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["pages.drops.parquet", "pages.parquet"]
