"""Outcomes whose grades are known, by which a judge is admitted."""

import io
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import yaml
from PIL import Image, ImageDraw, ImageFont

from evaluation.questions import Question
from lab.outcomes import Outcome
from schemas.answers import AnswerResult, Citation, TextPart
from schemas.base import Frozen
from schemas.evidence import Hit
from schemas.filters import Modality

Fault = Literal["wrong answer", "other answer", "other context", "no citation"]
"""What makes an outcome bad: an answer that the context contradicts, another question's answer or context, or no citation."""

_BBOX = (0.0, 0.0, 400.0, 300.0)


class Pair(NamedTuple):
    """A question with an outcome that deserves a good grade and one that deserves a bad grade."""

    question: Question
    good: Outcome
    bad: Outcome


class _Example(Frozen):
    question: str
    right: str
    wrong: str
    text: str
    picture: list[str]


def pairs(fault: Fault) -> Iterator[Pair]:
    """Yield every known pair whose bad outcome has a fault."""
    examples = _examples()
    for number, example in enumerate(examples):
        next_number = (number + 1) % len(examples)
        right_outcome = _outcome(number, example.right)
        outcome_by_fault = {
            "wrong answer": _outcome(number, example.wrong),
            "other answer": _outcome(number, examples[next_number].right),
            "other context": _outcome(next_number, example.right),
            "no citation": _outcome(number, example.right, cites=False),
        }
        yield Pair(
            Question(id=str(number), question=example.question, answer=example.right),
            right_outcome,
            outcome_by_fault[fault],
        )


@cache
def picture(figure_id: str) -> bytes:
    """Draw the picture of a known outcome: its labels in boxes, as PNG."""
    labels = _examples()[int(figure_id)].picture
    image = Image.new("RGB", (640, 120 * len(labels)), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(32)
    for row, label in enumerate(labels):
        draw.rectangle((20, 120 * row + 15, 620, 120 * row + 105), outline="black", width=3)
        draw.text((320, 120 * row + 60), label, fill="black", font=font, anchor="mm")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@cache
def _examples() -> tuple[_Example, ...]:
    records = yaml.safe_load(files("lab.judging").joinpath("known_pairs.yaml").read_text(encoding="utf-8"))
    return tuple(_Example.model_validate(record) for record in records)


def _outcome(context: int, answer: str, *, cites: bool = True) -> Outcome:
    hit = _hit(context)
    citation = Citation(
        n=1,
        evidence_id=hit.evidence_id,
        source=hit.source,
        page=1,
        bbox=_BBOX,
        doc_id=hit.doc_id,
        section_path=[],
        regions=[],
    )
    answer_result = AnswerResult(
        version="known",
        abstained=False,
        parts=[TextPart(text=answer, citations=[1] if cites else [])],
        citations=[citation] if cites else [],
    )
    return Outcome(
        question_id=str(context),
        hits=[hit],
        context=[hit],
        words=[hit.evidence_id],
        pictures=[str(context)],
        answer=answer_result,
    )


def _hit(number: int) -> Hit:
    text = _examples()[number].text
    return Hit(
        evidence_id=f"known-{number}",
        score=1.0,
        modality=Modality.TEXT,
        doc_id="known",
        title="Handbook",
        source="handbook.pdf",
        page=1,
        bbox=_BBOX,
        regions=[],
        section_path=[],
        text=text,
        tagged_text=text,
        figure_refs=[],
        caption="",
    )
