"""Figures like a figure, by vectors."""

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from schemas.errors import NotFoundError
from schemas.filters import Filters, Modality
from schemas.ids import figure_id
from schemas.retrieval import Query
from tests.manuals import picture
from tests.published_files import similar_to
from tests.versions import read_evidence


@pytest.fixture
def corpus(published: Workspace) -> Iterator[PublishedCorpus]:
    with closing(PublishedCorpus(published)) as opened:
        yield opened


def _figures(workspace: Workspace) -> list[str]:
    """Return the figures of the live version."""
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    rows = read_evidence(workspace.store, pointer.version).to_pylist()
    return sorted({str(row["figure_id"]) for row in rows if row["modality"] == "figure"})


def test_without_vectors_of_pictures_figures_are_alike_by_what_is_said_of_them(
    published: Workspace, corpus: PublishedCorpus
) -> None:
    (pump,) = [
        hit
        for hit in corpus.search(Query("pump seen from side 1", k=50, filters=Filters(modalities=[Modality.FIGURE]))).hits
        if "water pump seen from side 1" in hit.text
    ]
    similar = similar_to(corpus, str(pump.figure_id))
    assert (similar.space, similar.figure_id) == ("text", pump.figure_id)
    assert "water pump seen from side 2" in similar.hits[0].text, "the other manual's are of a winch"
    assert sorted(str(hit.figure_id) for hit in similar.hits) == [
        name for name in _figures(published) if name != pump.figure_id
    ]
    scores = [hit.score for hit in similar.hits]
    assert scores == sorted(scores, reverse=True)
    assert similar_to(corpus, str(pump.figure_id), k=1).hits == similar.hits[:1]


def test_each_figure_is_returned_once_wherever_it_stands(published: Workspace) -> None:
    """Another manual has a figure of the pump's in another colour, and a figure of the winch's twice."""
    folder = published.file.parent.parent / "pdfs"
    shaded = Image.open(io.BytesIO(picture(101))).convert("L").convert("RGB")
    _write_beside(folder, shaded, Image.open(io.BytesIO(picture(201))).convert("RGB"))
    workspace = open_workspace(str(published.file))
    assert refresh(workspace).published
    pump, winch = (_id(Image.open(io.BytesIO(picture(seed))).convert("RGB")) for seed in (101, 201))
    with closing(PublishedCorpus(workspace)) as corpus:
        assert _id(shaded) in {hit.figure_id for hit in similar_to(corpus, pump).hits}
        names = [hit.figure_id for hit in similar_to(corpus, winch).hits]
        assert winch not in names
        assert len(names) == len(set(names)) == len(_figures(workspace)) - 1


def test_a_figure_that_the_version_has_not_is_not_found(corpus: PublishedCorpus) -> None:
    with pytest.raises(NotFoundError, match=f"no figure {'0' * 64}"):
        similar_to(corpus, "0" * 64)


def _write_beside(folder: Path, *images: Image.Image) -> None:
    """Write a manual with these pictures, the last of them twice."""
    document = pymupdf.open()
    for number, image in enumerate([*images, images[-1]], 1):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 90), f"{number} Other views", fontsize=18, fontname="hebo")
        data = io.BytesIO()
        image.save(data, "png")
        page.insert_image((180, 300, 420, 460), stream=data.getvalue())
        page.insert_text((200, 478), f"Figure {number}: View {number}", fontsize=10)
    document.save(folder / "views.pdf")
    document.close()


def _id(image: Image.Image) -> str:
    return figure_id(image.width, image.height, image.tobytes())
