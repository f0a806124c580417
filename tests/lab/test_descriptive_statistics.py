"""Statistics of a question set, counted by hand, and of a version."""

import io
import sys
from pathlib import Path

import pytest

from cli import main
from evaluation.questions import GoldPage, GoldRegion, Question
from lab.descriptive_statistics import Spread, describe_corpus, describe_questions
from pipeline.corpus.workspace import Workspace
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import read_pointer
from tests.versions import read_evidence

REGION = GoldRegion(doc="pump.pdf", page=1, bbox=(0, 0, 9, 9))
QUESTIONS = [
    Question(
        id="a",
        question="Which seal fits?",
        answer="A3",
        documents=["pump.pdf"],
        pages=[GoldPage(doc="pump.pdf", page=1), GoldPage(doc="pump.pdf", page=2), GoldPage(doc="pump.pdf", page=2)],
        regions=[REGION],
        evidence_types=["text", "table"],
        doc_types=["manual"],
    ),
    Question(
        id="b",
        question="Which is heavier, pump or winch?",
        answer="the winch is",
        documents=["pump.pdf", "winch.pdf"],
        pages=[GoldPage(doc="pump.pdf", page=1)],
        figures=[REGION],
        evidence={"x": 2, "y": 0, "z": 1},
        evidence_types=["table"],
        doc_types=["manual"],
    ),
    Question(id="c", question="Why?"),
    Question(
        id="d", question="Who sings?", answer="nobody", documents=["pump.pdf"], evidence_types=["text"], answerable=False
    ),
]


def test_statistics_are_as_counted_by_hand() -> None:
    statistics = describe_questions(QUESTIONS)
    assert (statistics.questions, statistics.answerable, statistics.with_answer, statistics.with_pages) == (4, 3, 2, 2)
    assert (statistics.with_regions, statistics.with_figures, statistics.with_judged_evidence) == (2, 1, 1)
    assert (statistics.across_pages, statistics.across_documents) == (1, 1)
    assert list(statistics.documents.items()) == [("pump.pdf", 3), ("", 1), ("winch.pdf", 1)]
    assert statistics.doc_types == {"manual": 2, "": 2}
    assert statistics.evidence_types == {"table": 2, "text": 1, "": 1}, "unanswerable ones need none"
    assert statistics.evidence_types_a_question == {0: 1, 1: 1, 2: 1}
    assert statistics.documents_a_question == Spread(mean=4 / 3, median=1, largest=2)
    assert statistics.pages_a_question == Spread(mean=1.5, median=1.5, largest=2)
    assert statistics.judged_a_question == Spread(mean=2, median=2, largest=2)
    assert statistics.question_words is not None
    assert (statistics.question_words.mean, statistics.question_words.largest) == (3, 6)
    assert statistics.answer_words == Spread(mean=2, median=2, largest=3)


def test_the_order_of_questions_makes_no_difference() -> None:
    forward, backward = describe_questions(QUESTIONS), describe_questions(QUESTIONS[::-1])
    assert forward.model_dump_json() == backward.model_dump_json()


def test_no_questions_have_no_means() -> None:
    statistics = describe_questions([])
    assert (statistics.questions, statistics.documents, statistics.question_words) == (0, {}, None)


def test_a_corpus_is_described_as_its_manifest_counts_it_and_has_a_pair_a_figure(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pointer, pairs = read_pointer(published.store), io.StringIO()
    assert pointer is not None
    statistics = describe_corpus(published.store, pointer.version, pairs)
    manifest = read_manifest(published.store, pointer.version)
    assert manifest is not None
    counts = manifest.counts
    assert (statistics.documents, statistics.pages, statistics.doc_types) == (
        counts.documents,
        counts.pages,
        {"": counts.documents},
    )
    assert {"text": statistics.texts, "figure": statistics.images} | (
        {"table": statistics.tables} if statistics.tables else {}
    ) == (counts.rows_by_modality)
    pages = counts.pages / counts.documents
    assert statistics.pages_a_document == Spread(mean=pages, median=pages, largest=statistics.pages // statistics.documents)
    assert statistics.images_a_document is not None
    assert statistics.images_a_document.mean == statistics.images / statistics.documents
    figures = [row for row in read_evidence(published.store, pointer.version).to_pylist() if row["modality"] == "figure"]
    assert sorted(pairs.getvalue().splitlines()) == sorted(f"{row['figure_id']}.png\t{row['caption']}" for row in figures)
    assert statistics.described_images == 0

    file = tmp_path / "captions.tsv"
    monkeypatch.setattr(sys, "argv", ["inset", "questions", "corpus", str(published.file), "--pairs", str(file)])
    with pytest.raises(SystemExit) as raised:
        main.main()
    assert not raised.value.code
    assert file.read_text() == pairs.getvalue()
    printed_rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["images", str(statistics.images)] in printed_rows
    assert ["(none", "named)", str(statistics.documents), "100.0%"] in printed_rows
