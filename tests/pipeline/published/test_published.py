"""The read side of a corpus: what a version holds, and nothing else; what can't be read is one line."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from fastapi.testclient import TestClient

from backends.stores.object_store import FolderStore
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.evidence import row_files
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from query_service.app import create_app
from schemas.answers import FigurePart, TablePart
from schemas.errors import BadInputError, DamagedError, NotFoundError, TransientError
from schemas.filters import Filters, Modality, PageRange
from schemas.retrieval import AnswerQuery, GroupBy, Query
from tests.manuals import write_long_table, write_manual
from tests.pipeline.conftest import write_corpus
from tests.published_files import document_of, figure_of, page_of

Open = Callable[[Workspace], PublishedCorpus]


@pytest.fixture
def opened() -> Iterator[Open]:
    with ExitStack() as stack:

        def open_it(workspace: Workspace) -> PublishedCorpus:
            corpus = PublishedCorpus(workspace)
            stack.callback(corpus.close)
            return corpus

        yield open_it


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def test_tags_are_read_as_the_version_spells_them_whatever_the_file_says_since(
    published: Workspace, tmp_path: Path, opened: Open
) -> None:
    file = write_corpus(tmp_path, 'tags: {template: "<image:{number}|{page}>"}\n')
    answer = opened(open_workspace(str(file))).answer(AnswerQuery("How many screws has the steel winch?"))
    figures = [part for part in answer.parts if isinstance(part, FigurePart)]
    assert figures
    assert not any("<image" in part.text for part in answer.parts if part.type == "text")


def test_a_figure_leads_to_its_own_page(published: Workspace, opened: Open) -> None:
    corpus = opened(published)
    answer = corpus.answer(AnswerQuery("How many screws has the steel winch?"))
    figures = [part for part in answer.parts if isinstance(part, FigurePart)]
    hits = corpus.search(Query("winch and pump", k=50, filters=Filters(modalities=[Modality.FIGURE]))).hits
    positions = {hit.figure_refs[0]: (hit.page, hit.bbox) for hit in hits}
    assert figures
    assert [(part.page, part.bbox) for part in figures] == [positions[part.figure_id] for part in figures]
    for hit in corpus.search(Query("screws", k=50)).hits:
        assert [figure.figure_id for figure in hit.figures] == hit.figure_refs


EVERY = {("pump.pdf", 1), ("pump.pdf", 2), ("winch.pdf", 1), ("winch.pdf", 2)}


@pytest.mark.parametrize("preset", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize(
    ("filters", "pages"),
    [
        (Filters(), EVERY),
        (Filters(sources=["p*.pdf"]), {("pump.pdf", 1), ("pump.pdf", 2)}),
        (Filters(sources=["*.pdf"]), EVERY),
        (Filters(sources=["p*"], documents=["winch.pdf"]), set()),
        (Filters(page_ranges=[PageRange(first=2)]), {("pump.pdf", 2), ("winch.pdf", 2)}),
        (Filters(page_ranges=[PageRange(first=2)], documents=["pump.pdf"]), {("pump.pdf", 2)}),
        (Filters(page_ranges=[PageRange(first=3, last=9)]), set()),
        (Filters(sections=["service of the STEEL winch, part 1"]), {("winch.pdf", 1)}),
        (Filters(since=date(2024, 3, 1)), {("winch.pdf", 1), ("winch.pdf", 2)}),
        (Filters(since=date(2024, 3, 2)), set()),
        (Filters(until=date(2024, 3, 1)), {("winch.pdf", 1), ("winch.pdf", 2)}),  # the other one names no day
        (Filters(phrases=["Steel winch — HAS 2 screws"]), {("winch.pdf", 2)}),
        (Filters(phrases=["winch steel"]), set()),
        (Filters(phrases=["has 2 screws"], sources=["pump*"]), {("pump.pdf", 2)}),
    ],
)
def test_a_search_is_narrowed(published: Workspace, opened: Open, preset: str, filters: Filters, pages: set[Any]) -> None:
    hits = opened(published).search(Query("service of the winch and the pump", preset=preset, k=50, filters=filters)).hits
    assert {(hit.source, hit.page) for hit in hits} == pages


def test_a_step_of_a_plan_is_narrowed_too(published: Workspace, opened: Open) -> None:
    corpus = opened(published)
    for filters in (
        {"sources": ["w*"]},
        {"phrases": ["the steel winch has"]},
        {"sources": ["w*"], "page_ranges": [{"last": 2}]},
    ):
        hits = corpus.search(Query("service", preset="bm25", steps={"retrieve": [{"by": "bm25", "filters": filters}]})).hits
        assert {hit.source for hit in hits} == {"winch.pdf"}
    assert (
        corpus.search(
            Query("service", preset="bm25", steps={"retrieve": [{"by": "bm25", "filters": {"phrases": ["no such"]}}]})
        ).hits
        == []
    )


def test_an_answer_is_narrowed(published: Workspace, opened: Open) -> None:
    corpus, question = opened(published), "How many screws has the steel winch?"
    assert not corpus.answer(AnswerQuery(question, filters=Filters(sources=["w*"]))).abstained
    assert corpus.answer(AnswerQuery(question, filters=Filters(phrases=["no such words"]))).abstained
    assert corpus.answer(AnswerQuery(question, filters=Filters(sources=["x*"]))).abstained


def test_a_result_says_whether_there_are_more_hits(published: Workspace, opened: Open) -> None:
    corpus = opened(published)
    for group in (None, GroupBy.PAGE):
        every = corpus.search(Query("steel", preset="dense", k=100, group=group))
        assert not every.more
        total = len(every.hits)
        ends = [
            Query("steel", preset="dense", k=total - 1, group=group),
            Query("steel", preset="dense", k=total, group=group),
        ]
        results = [corpus.search(query) for query in ends]
        assert [(result.more, len(result.hits)) for result in results] == [(True, total - 1), (False, total)]


def test_a_document_says_its_pages(published: Workspace, opened: Open) -> None:
    corpus = opened(published)
    doc_id = corpus.search(Query("winch", filters=Filters(documents=["winch.pdf"]))).hits[0].doc_id
    with corpus.opened() as version:
        info = version.contents.document(doc_id)
        assert (info.sources, info.pages) == (["winch.pdf"], 2)
        with pytest.raises(NotFoundError):
            version.contents.document("00" * 32)


def test_a_hit_says_what_matched(published: Workspace, opened: Open) -> None:
    corpus = opened(published)
    winch = Filters(documents=["winch.pdf"], modalities=[Modality.TEXT])
    (hit, *_) = corpus.search(Query("How many screws has the winch?", filters=winch)).hits
    assert hit.date == "2024-03-01"
    assert {hit.text[start:end].lower() for start, end in hit.highlights} >= {"winch", "screws"}
    assert hit.nearest_sentence is None
    narrowed = Filters(phrases=["winch has 1 screws"])
    unmarked = corpus.search(Query("How many screws?", filters=narrowed, highlight=False)).hits[0]
    assert (unmarked.highlights, unmarked.nearest_sentence) == ([], None)
    (hit, *_) = corpus.search(Query("How many screws?", filters=narrowed, highlight=True)).hits
    assert "winch has 1 screws" in [" ".join(hit.text[start:end].split()) for start, end in hit.highlights]
    assert hit.nearest_sentence is not None
    assert hit.text[slice(*hit.nearest_sentence)].endswith("the steel winch has 1 screws.")


@pytest.mark.parametrize("preset", ["bm25", "hybrid"])
@pytest.mark.parametrize("by", GroupBy)
def test_hits_are_grouped_and_pages_of_groups_follow_one_another(
    published: Workspace, opened: Open, by: GroupBy, preset: str
) -> None:
    corpus = opened(published)
    alone = corpus.search(Query("service of the winch", preset=preset, k=100)).hits
    grouped = corpus.search(Query("service of the winch", preset=preset, k=100, group=by)).hits
    names = [(hit.source, hit.page if by is GroupBy.PAGE else 0) for hit in alone]
    assert [(hit.source, hit.page if by is GroupBy.PAGE else 0) for hit in grouped] == list(dict.fromkeys(names))
    assert [hit.more + 1 for hit in grouped] == [names.count(name) for name in dict.fromkeys(names)]
    assert {hit.more for hit in alone} == {0}
    pages = [
        corpus.search(Query("service of the winch", preset=preset, k=1, offset=n, group=by)).hits
        for n in range(len(grouped))
    ]
    assert [hit for page in pages for hit in page] == grouped


def test_a_table_has_its_cells_from_the_page_to_the_answer(tmp_path: Path, opened: Open) -> None:
    write_long_table(tmp_path / "pdfs" / "screws.pdf")
    workspace = open_workspace(str(write_corpus(tmp_path)))
    assert refresh(workspace).published
    corpus = opened(workspace)
    (hit, *_) = corpus.search(Query("torque of screw 3", filters=Filters(modalities=[Modality.TABLE]))).hits
    assert hit.rows == [["Part", "Torque", "Sign"], *([f"Screw {n}", f"{n} Nm", ""] for n in range(8))]
    (figure,) = hit.figures
    assert hit.tagged_rows == [*hit.rows[:-1], ["Screw 7", "7 Nm", f"<image:{figure.number}.png>"]]
    parts = corpus.answer(AnswerQuery("What is the torque of screw 3?")).parts
    (table,) = [part for part in parts if isinstance(part, TablePart)]
    assert table.rows == hit.tagged_rows
    assert [(part.tag, part.figure_id) for part in table.figures] == [(table.rows[-1][-1], figure.figure_id)]


@pytest.mark.slow
def test_what_a_version_does_not_hold_is_not_served_from_it(
    published: Workspace, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, before = opened(published), _live(published)
    (pump, *_) = corpus.search(
        Query("water pump", filters=Filters(documents=["pump.pdf"], modalities=[Modality.FIGURE]))
    ).hits
    (tmp_path / "pdfs" / "pump.pdf").unlink()
    with pymupdf.open(write_manual(tmp_path / "plain.pdf", "gate", seed=3)) as pdf:
        pdf.save(tmp_path / "pdfs" / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="wombat")
    monkeypatch.setenv("PASSWORDS", "kiwi\nwombat")
    locked = open_workspace(str(write_corpus(tmp_path, "parse: {workers: 2, passwords_env: PASSWORDS}\n")))
    assert refresh(locked).published

    figure_id = pump.figure_refs[0]
    calls: list[Callable[[str | None], Any]] = [
        lambda version: document_of(corpus, pump.doc_id, version=version),
        lambda version: page_of(corpus, pump.doc_id, 1, dpi=36, version=version),
        lambda version: figure_of(corpus, figure_id, version=version),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match=rf"version {_live(published)} has no (document|figure) "):
            call(None)
        assert call(before)

    (locked_hit, *_) = corpus.search(Query("gate", filters=Filters(documents=["locked.pdf"]))).hits
    assert page_of(opened(locked), locked_hit.doc_id, 1, dpi=36).startswith(b"\x89PNG")
    monkeypatch.delenv("PASSWORDS")
    with pytest.raises(BadInputError, match="page 2 can't be drawn: the file needs a password"):
        page_of(opened(locked), locked_hit.doc_id, 2, dpi=36)

    assert corpus.search(Query("pump", version=before)).hits
    shutil.rmtree(Path(published.store.root) / "versions" / before)
    calls.append(lambda version: corpus.search(Query("pump", version=version)))
    for call in calls:
        with pytest.raises(NotFoundError, match=f"there is no version {before}"):
            call(before)
    assert corpus.search(Query("gate")).hits


def _placements(version: Path) -> Path:
    store = FolderStore(version.parent.parent)
    (part,) = row_files(store, version.name, "placements")
    return Path(store.root) / part


def _cut(*paths: Path) -> None:
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


ROUTES = {"", "/versions", "/search", "/answer", "/figure", "/page", "/document"}
VERSION = ROUTES - {"/versions"}
DAMAGE: dict[str, tuple[Callable[[Path, Path], object], set[str], set[str]]] = {
    "the store is away": (lambda root, _: shutil.move(root, root.with_name("elsewhere")), ROUTES, set()),
    "LIVE is missing": (lambda root, _: (root / "LIVE").unlink(), ROUTES, set()),
    "LIVE is empty": (lambda root, _: (root / "LIVE").write_bytes(b""), ROUTES, ROUTES),
    "LIVE is cut": (lambda root, _: _cut(root / "LIVE"), ROUTES, ROUTES),
    "manifest is missing": (lambda _, version: (version / "manifest.json").unlink(), set(), VERSION),
    "manifest is cut": (lambda _, version: _cut(version / "manifest.json"), set(), VERSION),
    "ledger is missing": (lambda _, version: (version / "ledger.parquet").unlink(), set(), VERSION),
    "ledger is cut": (lambda _, version: _cut(version / "ledger.parquet"), set(), VERSION),
    "placements are missing": (lambda _, version: _placements(version).unlink(), set(), {"/figure", "/search"}),
    "placements are cut": (lambda _, version: _cut(_placements(version)), set(), {"/figure", "/search"}),
    "the index's place is cut": (lambda _, version: _cut(version / "index.json"), set(), VERSION),
    "the index is missing": (lambda _, version: shutil.rmtree(version / "lance"), set(), {"/search", "/answer"}),
    "rows are missing": (
        lambda _, version: shutil.rmtree(next(version.glob("lance/*/data"))),
        set(),
        {"/search", "/answer"},
    ),
    "rows are cut": (lambda _, version: _cut(*version.glob("lance/*/data/*")), set(), {"/search", "/answer"}),
    "documents are missing": (lambda root, _: shutil.rmtree(root / "documents"), {"/page", "/document"}, set()),
    "documents are empty": (lambda root, _: _empty(root / "documents"), {"/page"}, set()),
    "figures are missing": (lambda root, _: shutil.rmtree(root / "figures"), {"/figure"}, set()),
}
"""What is done, the routes that can't be answered then by a service that runs, and those by one that starts afterwards."""


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"")


def _answers(client: TestClient, doc_id: str, figure_id: str) -> dict[str, Any]:
    base = "/v1/corpora/manuals"
    return {
        "": client.get(base),
        "/versions": client.get(f"{base}/versions"),
        "/search": client.post(f"{base}/search", json={"query": "winch"}),
        "/answer": client.post(f"{base}/answer", json={"question": "How many screws has the steel winch?"}),
        "/figure": client.get(f"{base}/figures/{figure_id}"),
        "/page": client.get(f"{base}/documents/{doc_id}/pages/1.png?dpi=36"),
        "/document": client.get(f"{base}/documents/{doc_id}.pdf"),
    }


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line_and_costs_what_needs_it(published: Workspace, opened: Open, damage: str) -> None:
    running, version = opened(published), _live(published)
    (hit,) = running.search(Query("steel winch", k=1, filters=Filters(modalities=[Modality.FIGURE]))).hits
    do, refused_running, refused_started = DAMAGE[damage]
    root = Path(published.store.root)
    do(root, root / "versions" / version)
    for corpus, refused in ((running, refused_running), (opened(published), refused_started)):
        if not refused:
            continue
        app = create_app({"manuals": corpus})
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
        answers = _answers(client, hit.doc_id, hit.figure_refs[0])
        codes = {route: answer.status_code for route, answer in answers.items()}
        assert set(codes.values()) <= {200, 422, 503}
        assert {route for route in refused if codes[route] == 200} == set()
        for answer in answers.values():
            if answer.status_code != 200:
                line = answer.json()["detail"]
                assert "\n" not in line
                assert line
        assert client.get("/healthz").status_code == 200
        (listed,) = client.get("/v1/corpora").json()
        assert bool(listed["problem"]) == (codes[""] != 200)
        assert (client.get("/readyz").status_code == 200) == (codes["/search"] == 200)


def test_a_lost_manifest_is_one_line_and_nothing_is_logged(
    published: Workspace, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(published.store.root) / "versions" / _live(published) / "manifest.json").unlink()
    with pytest.raises(DamagedError, match=r"/manifest.json is missing; to make it again: inset refresh manuals$"):
        opened(published).search(Query("winch"))
    assert caplog.records == [], "a command shows what is logged, with its traceback"


def test_a_store_that_comes_back_is_served_again(published: Workspace, opened: Open) -> None:
    corpus, root = opened(published), Path(published.store.root)
    corpus.ready()
    shutil.move(root, root.with_name("elsewhere"))
    with pytest.raises(TransientError, match="is the store away"):
        corpus.ready()
    shutil.move(root.with_name("elsewhere"), root)
    corpus.ready()
