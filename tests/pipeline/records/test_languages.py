"""Languages of documents: found, kept with their rows, searched by, and compared with what the text model knows."""

from dataclasses import replace

import pymupdf
import pytest

from pipeline.corpus.languages import unknown_languages
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.doctor import diagnose
from schemas.corpus.models import EntryKind, ModelEntry
from schemas.retrieval import Query
from schemas.versions import Counts
from tests.pipeline.conftest import write_corpus
from tests.versions import read_evidence

PAGES = {
    "de.pdf": [
        "Die Druckerwarteschlangen werden vor der Wartung geleert. Danach wird das Gerät vom Stromnetz getrennt.",
        "Die Sicherheitsventile sind einmal im Jahr zu prüfen. Undichte Ventile werden ersetzt und nicht repariert.",
    ],
    "zh.pdf": [
        "请在更换冷却水泵之前关闭电源。更换完成后，请检查管道是否漏水，并记录更换日期。",
        "如果警报灯闪烁，请立即停止机器，并通知维护人员。不要自行打开控制柜。",
    ],
    "en.pdf": [
        "The pumps are installed before the filters, and every filter is replaced once a year by the operator.",
        "Release 4.7.2 of the controller reads its settings from /etc/pump.conf when it is started.",
    ],
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A corpus of three documents in three languages, its first version live."""
    folder = tmp_path_factory.mktemp("languages")
    (folder / "pdfs").mkdir()
    for name, texts in PAGES.items():
        with pymupdf.open() as pdf:
            for text in texts:
                page = pdf.new_page()
                font = "china-s" if name == "zh.pdf" else "helv"
                page.insert_textbox((72, 72, 500, 300), text, fontname=font, fontsize=11)
            pdf.save(folder / "pdfs" / name)
    opened = open_workspace(str(write_corpus(folder)))
    assert refresh(opened).published
    return opened


@pytest.fixture(scope="module")
def version(workspace: Workspace) -> str:
    (name,) = workspace.store.folders("versions")
    return name


def test_each_row_has_the_language_of_its_document(workspace: Workspace, version: str) -> None:
    rows = read_evidence(workspace.store, version).to_pylist()
    assert {row["language"] + ".pdf" == row["sources"][0] for row in rows} == {True}
    manifest = read_manifest(workspace.store, version)
    assert manifest is not None
    assert manifest.counts.documents_by_language == {"de": 1, "en": 1, "zh": 1}
    with_overview = PublishedCorpus(workspace)
    assert with_overview.overview().languages == manifest.counts.documents_by_language
    with_overview.close()


@pytest.mark.parametrize(
    ("question", "source"),
    [("Warteschlange", "de.pdf"), ("冷却水", "zh.pdf"), ("installing a pump", "en.pdf"), ("4.7.2", "en.pdf")],
)
def test_words_are_found_by_the_languages_of_the_version(workspace: Workspace, question: str, source: str) -> None:
    corpus = PublishedCorpus(workspace)
    try:
        assert corpus.search(Query(question, preset="bm25", k=1)).hits[0].source == source
    finally:
        corpus.close()


def test_a_corpus_that_its_text_model_does_not_know_is_pointed_out(workspace: Workspace, version: str) -> None:
    message = "in languages that the text model 'minilm' doesn't know: 1 in de, 1 in zh; it knows only en"
    (advice,) = plan(workspace, "plan").summary.advice
    assert message in advice
    assert "set embeddings.text to multilingual, which is packaged" in advice
    (finding,) = [
        candidate for candidate in diagnose([str(workspace.file)]).findings if candidate.subject.endswith(" languages")
    ]
    assert message in finding.message


@pytest.mark.parametrize(
    ("model", "by_language", "is_reported"),
    [
        ("minilm", {"en": 9}, False),
        ("minilm", {"en": 9, "fr": 1}, False),
        ("minilm", {"en": 8, "fr": 1, "ru": 1}, True),
        ("minilm", {}, False),
        ("all-MiniLM-L6-v2", {"ja": 10}, True),
        ("intfloat/multilingual-e5-small", {"ja": 10}, False),
        ("multilingual", {"ja": 10}, False),
    ],
)
def test_only_what_is_known_is_said(
    workspace: Workspace, model: str, by_language: dict[str, int], is_reported: bool
) -> None:
    options = workspace.corpus.embeddings.model_copy(update={"text": "named"})
    models = {"named": ModelEntry(kind=EntryKind.TEXT_EMBEDDER, model=model, revision="1")}
    configured = replace(workspace, corpus=workspace.corpus.model_copy(update={"embeddings": options, "models": models}))
    counts = Counts(documents=10, documents_by_language=by_language)
    assert (unknown_languages(configured, counts) is not None) is is_reported
