"""Figures like a figure: by vectors, and by perceptual hashes, which are computed once."""

import io
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from backends.models.perceptual_hash import perceptual_hash
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.picture_hashes import PictureHashes, hash_cache
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from pipeline.upkeep.prune import prune
from schemas.errors import NotFoundError, TransientError
from schemas.evidence import Filters, Modality
from schemas.ids import figure_file, figure_id
from schemas.retrieval import Query
from tests.manuals import picture
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


def _hash(workspace: Workspace, figure: str) -> int:
    return perceptual_hash(workspace.store.get(figure_file(figure)))


def test_without_vectors_of_pictures_figures_are_alike_by_what_is_said_of_them(
    published: Workspace, corpus: PublishedCorpus
) -> None:
    (pump,) = [
        hit
        for hit in corpus.search(Query("pump seen from side 1", k=50, filters=Filters(modalities=[Modality.FIGURE]))).hits
        if "water pump seen from side 1" in hit.text
    ]
    found = corpus.similar(str(pump.figure_id))
    assert (found.by, found.space, found.figure_id) == ("vector", "text", pump.figure_id)
    assert "water pump seen from side 2" in found.hits[0].text, "the other manual's are of a winch"
    assert sorted(str(hit.figure_id) for hit in found.hits) == [
        name for name in _figures(published) if name != pump.figure_id
    ]
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert corpus.similar(str(pump.figure_id), k=1).hits == found.hits[:1]


def test_by_hash_the_least_different_come_first(published: Workspace, corpus: PublishedCorpus) -> None:
    figures = _figures(published)
    hashes = {name: _hash(published, name) for name in figures}
    for figure in figures:
        found = corpus.similar(figure, by="hash", wait_s=math.inf)
        assert (found.by, found.space) == ("hash", None)
        equal = {name: 1 - (hashes[name] ^ hashes[figure]).bit_count() / 64 for name in figures if name != figure}
        assert {str(hit.figure_id): hit.score for hit in found.hits} == equal
        assert [hit.score for hit in found.hits] == sorted(equal.values(), reverse=True)


def test_a_picture_that_hardly_differs_comes_first_and_each_figure_once(published: Workspace) -> None:
    """Another manual has a figure of the pump's in another colour, and a figure of the winch's twice."""
    folder = published.file.parent.parent / "pdfs"
    shaded = Image.open(io.BytesIO(picture(101))).convert("L").convert("RGB")
    _write_beside(folder, shaded, Image.open(io.BytesIO(picture(201))).convert("RGB"))
    workspace = open_workspace(str(published.file))
    assert refresh(workspace).published
    pump, winch = (_id(Image.open(io.BytesIO(picture(seed))).convert("RGB")) for seed in (101, 201))
    with closing(PublishedCorpus(workspace)) as corpus:
        best = corpus.similar(pump, by="hash", k=1, wait_s=math.inf).hits[0]
        assert best.figure_id == _id(shaded)
        for by in ("hash", "vector"):
            found = corpus.similar(winch, by=by, wait_s=math.inf).hits
            names = [hit.figure_id for hit in found]
            assert winch not in names
            assert len(names) == len(set(names)) == len(_figures(workspace)) - 1


def test_hashes_are_computed_once_and_kept(
    published: Workspace, corpus: PublishedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = _figures(published)[0]
    found = corpus.similar(figure, by="hash", wait_s=math.inf)
    assert hash_cache(published.store).ids() == set(_figures(published))

    def compute(_picture: bytes) -> int:
        raise AssertionError("it is not called")

    monkeypatch.setattr("pipeline.records.picture_hashes.perceptual_hash", compute)
    assert corpus.similar(figure, by="hash", wait_s=math.inf) == found
    with closing(PublishedCorpus(published)) as another:
        assert another.similar(figure, by="hash", wait_s=math.inf) == found
    prune(published, dry_run=False)
    with closing(PublishedCorpus(published)) as another:
        assert another.similar(figure, by="hash", wait_s=math.inf) == found, "pruning leaves them"


def test_whoever_comes_first_does_not_wait_for_long(published: Workspace, corpus: PublishedCorpus) -> None:
    figure = _figures(published)[0]
    with pytest.raises(TransientError, match=r"figures are being hashed, \d of 4 are done; try again"):
        corpus.similar(figure, by="hash", wait_s=0)
    assert corpus.similar(figure, by="hash", wait_s=math.inf).hits, "it went on behind"


def test_a_store_that_can_not_be_written_to_is_compared_all_the_same(
    published: Workspace, corpus: PublishedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(_name: str, _data: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(published.store, "put", put)
    figure = _figures(published)[0]
    assert len(corpus.similar(figure, by="hash", wait_s=math.inf).hits) == 3
    assert not hash_cache(published.store).ids()


def test_a_figure_that_can_not_be_read_is_left_out(published: Workspace, corpus: PublishedCorpus) -> None:
    lost, *others = _figures(published)
    published.store.replace(figure_file(lost), b"no picture")
    found = corpus.similar(others[0], by="hash", wait_s=math.inf)
    assert sorted(str(hit.figure_id) for hit in found.hits) == others[1:]
    with pytest.raises(TransientError, match=f"the store can't give figure {lost}; to see why: inset doctor manuals"):
        corpus.similar(lost, by="hash", wait_s=math.inf)


def test_a_store_that_is_away_is_said_to_be(published: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(_prefix: str) -> list[str]:
        raise TransientError("the store does not answer")

    monkeypatch.setattr(published.store, "names", names)
    with pytest.raises(TransientError, match="the store does not answer"):
        PictureHashes(published.store).of(["f" * 64], wait_s=math.inf)


@pytest.mark.parametrize("by", ["vector", "hash"])
def test_a_figure_that_the_version_has_not_is_not_found(corpus: PublishedCorpus, by: str) -> None:
    with pytest.raises(NotFoundError, match=f"no figure {'0' * 64}"):
        corpus.similar("0" * 64, by=by)  # type: ignore[arg-type]


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
