"""Describe a question set as the papers describe theirs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from evaluation.questions import Question
from schemas.frozen import Frozen


class Spread(Frozen):
    """Mean and largest of a number that each question has."""

    mean: float
    largest: int


class QuestionStatistics(Frozen):
    """What a question set holds.

    Counts by document, document type and evidence type count a question once for each that it names; those that name none
    are under "". Lengths are in words, separated by spaces. What a question has none of is no part of its spread.

    Attributes:
        questions: All questions.
        answerable: Those that the corpus answers.
        with_answer: Answerable ones whose answer is known.
        with_pages: Answerable ones with gold pages; the rest score nothing by page.
        with_regions: Answerable ones with gold regions or figures.
        with_figures: Answerable ones whose answer shows figures.
        with_judged_evidence: Those with judged rows of a version.
        across_pages: Those with gold pages beyond one.
        across_documents: Those of several documents.
        documents: Questions by document.
        doc_types: Questions by type of document.
        evidence_types: Answerable questions by type of evidence.
        evidence_types_a_question: Answerable questions by how many types of evidence they need.
        documents_a_question: Over those with documents.
        pages_a_question: Over those with gold pages.
        judged_a_question: Relevant rows, over those with any.
        question_words: Over all.
        answer_words: Over those with an answer.

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
        documents=_count_questions(question.documents for question in questions),
        doc_types=_count_questions(question.doc_types for question in questions),
        evidence_types=_count_questions(question.evidence_types for question in answerable),
        evidence_types_a_question=dict(
            sorted(Counter(len(set(question.evidence_types)) for question in answerable).items())
        ),
        documents_a_question=_spread(documents),
        pages_a_question=_spread(pages),
        judged_a_question=_spread(judged_counts),
        question_words=_spread([len(question.question.split()) for question in questions]),
        answer_words=_spread([len(answer) for answer in answers]),
    )


def _count_questions(name_lists: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return how many questions have each name, most first."""
    counts = Counter(name for names in name_lists for name in set(names or [""]))
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _spread(counts: Iterable[int]) -> Spread | None:
    positive_counts = [count for count in counts if count]
    return Spread(mean=fmean(positive_counts), largest=max(positive_counts)) if positive_counts else None
