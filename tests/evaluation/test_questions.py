"""Files of golden questions, and what a search scores on them."""

import math
from pathlib import Path

import pytest

from evaluation.gold import Gold
from evaluation.golden import ask
from evaluation.questions import Question, load_questions
from schemas.errors import UserError
from schemas.evidence import CitedRegion
from tests.query_service.fake_corpus import HIT


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (b'{"id": "a", "question": "b"}\nnot JSON', "line 2 is not JSON"),
        (b'{"id": "a"}', "line 1: question: Field required"),
        (b'{"id": "a", "question": " "}', "line 1: question: String should have at least 1 character"),
        (b'{"id": "a", "question": "\\ud800"}', "line 1: question: .*unicode"),
        (b"caf\xe9", "not UTF-8"),
        (b"[" * 100_000, "line 1"),
        (b'{"id": ' + b"9" * 5000 + b"}", "line 1"),
    ],
)
def test_a_mistake_in_questions_is_one_line(tmp_path: Path, text: bytes, pattern: str) -> None:
    (tmp_path / "q.jsonl").write_bytes(text)
    with pytest.raises(UserError, match=pattern) as caught:
        load_questions(str(tmp_path / "q.jsonl"))
    assert len(caught.value.message.splitlines()) == 1


def test_questions_that_are_not_there_are_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't read the questions"):
        load_questions(str(tmp_path))


def test_ndcg_at_10_reads_ten_hits() -> None:
    """The only right page is the seventh hit."""
    gold = Gold(Question.model_validate({"id": "q", "question": "?", "doc": "pump.pdf", "pages": [7]}))
    regions = [[CitedRegion(page=number, bbox=HIT.bbox)] for number in range(1, 11)]
    hits = [HIT.model_copy(update={"page": cited_regions[0].page, "regions": cited_regions}) for cited_regions in regions]
    report = ask([gold], lambda _question, k: hits[:k], "pages")
    assert report.ndcg_at_10 == pytest.approx(1 / math.log2(8))
    assert report.reciprocal_rank == pytest.approx(1 / 7)
