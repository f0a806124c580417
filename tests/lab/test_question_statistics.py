"""Statistics of a question set, counted by hand."""

from evaluation.questions import GoldPage, GoldRegion, Question
from lab.question_statistics import Spread, describe_questions

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
    found = describe_questions(QUESTIONS)
    assert (found.questions, found.answerable, found.with_answer, found.with_pages) == (4, 3, 2, 2)
    assert (found.with_regions, found.with_figures, found.with_judged_evidence) == (2, 1, 1)
    assert (found.across_pages, found.across_documents) == (1, 1)
    assert list(found.documents.items()) == [("pump.pdf", 3), ("", 1), ("winch.pdf", 1)]
    assert found.doc_types == {"manual": 2, "": 2}
    assert found.evidence_types == {"table": 2, "text": 1, "": 1}, "unanswerable ones need none"
    assert found.evidence_types_a_question == {0: 1, 1: 1, 2: 1}
    assert found.documents_a_question == Spread(mean=4 / 3, largest=2)
    assert found.pages_a_question == Spread(mean=1.5, largest=2)
    assert found.judged_a_question == Spread(mean=2, largest=2)
    assert found.question_words == Spread(mean=3, largest=6)
    assert found.answer_words == Spread(mean=2, largest=3)


def test_the_order_of_questions_makes_no_difference() -> None:
    forward, backward = describe_questions(QUESTIONS), describe_questions(QUESTIONS[::-1])
    assert forward.model_dump_json() == backward.model_dump_json()


def test_no_questions_have_no_means() -> None:
    found = describe_questions([])
    assert (found.questions, found.documents, found.question_words) == (0, {}, None)
