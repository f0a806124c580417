"""Describe a question set, and a version of a corpus, as the papers describe theirs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import TextIO

from pydantic import Field

from evaluation.questions import Question
from pipeline.records.evidence import evidence_parts
from pipeline.records.ledger import indexed_pages, read_ledger
from schemas.base import Frozen
from schemas.filters import Modality
from schemas.ids import figure_file
from schemas.ports import ObjectStore


class Spread(Frozen):
    """Mean, median and largest of a number that each question has."""

    mean: float
    median: float
    largest: int


class QuestionStatistics(Frozen):
    """What a question set holds.

    Counts by document, document type and evidence type count a question once for each that it names; those that name none
    are under "". Those with answers, pages (the rest score nothing by page), regions, figures and evidence types are answerable
    ones; judged evidence is of a version. Lengths are in words, separated by spaces. What a question has none of isn't part of
    its spread.

    Source:
        Tables of MMLongBench-Doc (Ma et al., 2024), MMDocIR (Dong et al., 2025) and OMG-QA (Nan et al., 2024).
    """

    questions: int
    answerable: int
    with_answer: int
    with_pages: int
    with_regions: int
    with_figures: int
    with_judged_evidence: int
    across_pages: int
    across_documents: int
    documents: dict[str, int]
    doc_types: dict[str, int]
    evidence_types: dict[str, int]
    evidence_types_a_question: dict[int, int]
    documents_a_question: Spread | None
    pages_a_question: Spread | None
    judged_a_question: Spread | None
    question_words: Spread | None
    answer_words: Spread | None


def describe_questions(questions: Sequence[Question]) -> QuestionStatistics:
    """Return the statistics of a question set; its order makes no difference."""
    answerable = [question for question in questions if question.answerable]
    pages = [len({(page.doc, page.page) for page in question.pages}) for question in answerable]
    documents = [len(question.documents) for question in questions]
    judged_counts = [sum(grade > 0 for grade in question.evidence.values()) for question in questions]
    answers = [question.answer.split() for question in answerable if question.answer]
    return QuestionStatistics(
        questions=len(questions),
        answerable=len(answerable),
        with_answer=len(answers),
        with_pages=sum(count > 0 for count in pages),
        with_regions=sum(bool(question.regions or question.figures) for question in answerable),
        with_figures=sum(bool(question.figures) for question in answerable),
        with_judged_evidence=sum(bool(question.evidence) for question in questions),
        across_pages=sum(count > 1 for count in pages),
        across_documents=sum(count > 1 for count in documents),
        documents=_counts_by_name(question.documents for question in questions),
        doc_types=_counts_by_name(question.doc_types for question in questions),
        evidence_types=_counts_by_name(question.evidence_types for question in answerable),
        evidence_types_a_question=dict(
            sorted(Counter(len(set(question.evidence_types)) for question in answerable).items())
        ),
        documents_a_question=_spread(documents),
        pages_a_question=_spread(pages),
        judged_a_question=_spread(judged_counts),
        question_words=_spread([len(question.question.split()) for question in questions]),
        answer_words=_spread([len(answer) for answer in answers]),
    )


class CorpusStatistics(Frozen):
    """What a version of a corpus holds; each of the spreads is over all documents but the last, which is over texts.

    Source:
        Tables of "Beyond Text" (documents, texts, images), "Image Localization Tags" (documents by type, images) and OMG-QA
        (documents, texts, tables, images).
    """

    version: str
    documents: int
    doc_types: dict[str, int] = Field(description="Documents by type; those without one are under no name.")
    pages: int
    texts: int
    tables: int
    images: int = Field(description="Rows of figures.")
    described_images: int = Field(description="Those that a model or a person describes.")
    pages_a_document: Spread | None
    texts_a_document: Spread | None
    tables_a_document: Spread | None
    images_a_document: Spread | None
    words_a_text: Spread | None


def describe_corpus(store: ObjectStore, version: str, pairs: TextIO | None = None) -> CorpusStatistics:
    """Return the statistics of a version.

    ``pairs`` gets a line a figure: the name of its picture in the store, a tab, and its description, else its printed caption; a
    figure without either has an empty one. Baseline A of "Image Localization Tags" keeps captions so.
    """
    pages = indexed_pages(read_ledger(store, version))
    rows = {modality: Counter[str]() for modality in Modality}
    types: dict[str, str] = {}
    words, described = list[int](), 0
    columns = ["modality", "doc_id", "doc_type", "text", "figure_id", "description", "caption"]
    for part in evidence_parts(store, version):
        for row in part.select(columns).to_pylist():
            rows[Modality(row["modality"])][row["doc_id"]] += 1
            types[row["doc_id"]] = row["doc_type"] or ""
            if row["modality"] == Modality.TEXT:
                words.append(len(row["text"].split()))
            elif row["modality"] == Modality.FIGURE:
                described += bool(row["description"])
                if pairs is not None:
                    caption = " ".join((row["description"] or row["caption"]).split())
                    pairs.write(f"{figure_file(row['figure_id']).rpartition('/')[2]}\t{caption}\n")

    def spread(modality: Modality) -> Spread | None:
        return _spread_of([rows[modality][doc_id] for doc_id in pages])

    return CorpusStatistics(
        version=version,
        documents=len(pages),
        doc_types=_counts_by_name([types.get(doc_id, "")] for doc_id in pages),
        pages=sum(pages.values()),
        texts=rows[Modality.TEXT].total(),
        tables=rows[Modality.TABLE].total(),
        images=rows[Modality.FIGURE].total(),
        described_images=described,
        pages_a_document=_spread_of([*pages.values()]),
        texts_a_document=spread(Modality.TEXT),
        tables_a_document=spread(Modality.TABLE),
        images_a_document=spread(Modality.FIGURE),
        words_a_text=_spread_of(words),
    )


def _counts_by_name(name_lists: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return how many questions, or documents, have each name, most first."""
    counts = Counter(name for names in name_lists for name in set(names or [""]))
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _spread(counts: Iterable[int]) -> Spread | None:
    return _spread_of([count for count in counts if count])


def _spread_of(counts: Sequence[int]) -> Spread | None:
    return Spread(mean=fmean(counts), median=median(counts), largest=max(counts)) if counts else None
