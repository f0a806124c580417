"""Compare what a model wrote with the passages that it was sent: citations come from the passages, not from the model's word."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from schemas.answers import Part, TextPart
from schemas.evidence import CitedFigure, Hit
from schemas.tags import TagTemplate
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words, sentences
from tasks.answering.passages import read_passage

ALIKE = 0.7
"""Minimum share of a text's words in a passage's sentence that supports it."""

_MARKER = re.compile(r"\s*(?:[-*•]|\(?\w{1,2}[.)])\s+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z]\w{2,}|\w*[a-z0-9]_\w+|\b[A-Z]{2,}\d*\b")
_WORD = re.compile(r"\w+")
_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had)\b", re.IGNORECASE
)
_NEGATION = re.compile(r"\b(?:not|never|no|none|without|cannot)\b|n['’]t\b", re.IGNORECASE)


def with_support(parts: Sequence[Part], passages: Sequence[str], question: str) -> tuple[list[Part], int]:
    """Return an answer's parts with the citations that the passages support, and how many texts no passage supports.

    A text with a number or name that neither its passages nor the question have, that negates what a passage says, or that
    only restates the question, loses its citations. One without citations gets that of a passage with a sentence like it.

    Args:
        parts: What a model wrote.
        passages: Texts of the passages sent; citation 1 is the first.
        question: Its words.
    """
    passage_sentences = [[text[start:end] for start, end in sentences(text)] for text in passages]
    checked: list[Part] = []
    unsupported = 0
    for part in (sentence for written_part in parts for sentence in _sentences(written_part)):
        if not isinstance(part, TextPart) or part.style not in ("prose", "item"):
            checked.append(part)
            continue
        claim = _MARKER.sub("", part.text, count=1)
        details = _details(claim) - {*_NUMBER.findall(question), *_WORD.findall(question.casefold())}
        if not details and _restates(claim, question):
            checked.append(part.model_copy(update={"citations": []}))
            continue
        fitting = [
            n
            for n, text in enumerate(passages, 1)
            if details <= {*_NUMBER.findall(text), *_WORD.findall(text.casefold())}
            and not _contradicts(claim, passage_sentences[n - 1])
        ]
        citations = [n for n in part.citations if n in fitting]
        if not citations:
            citations = [
                n
                for n in fitting
                if (details or not part.citations) and _likeness(claim, passage_sentences[n - 1], question)[0] >= ALIKE
            ][:1]
        unsupported += bool(part.citations or details) and not citations
        checked.append(part.model_copy(update={"citations": citations}))
    return checked, unsupported


def figures_beside(claim: str, hit: Hit, template: TagTemplate) -> list[CitedFigure]:
    """Return the figures that a passage has in, or directly below, the block with the sentence that supports a claim."""
    if hit.figure_id is not None:
        return [figure for figure in hit.figures if figure.figure_id == hit.figure_id]
    blocks = read_passage([hit], {hit.evidence_id: 0}, template).blocks
    likeness = [
        _likeness(claim, [template.without(block.text[start:end]) for start, end in block.sentences])[0] for block in blocks
    ]
    best = max(range(len(blocks)), key=likeness.__getitem__, default=0)
    if not blocks or likeness[best] < ALIKE:
        return []
    after = takewhile(lambda block: block.style == "figure", blocks[best + 1 :])
    tagged = " ".join(block.text for block in (blocks[best], *after))
    numbers = dict.fromkeys(number for _, number in template.split(tagged) if number is not None)
    figures = {figure.number: figure for figure in hit.figures}
    return [figures[number] for number in numbers if number in figures]


def _sentences(part: Part) -> Iterator[Part]:
    """Yield the sentences of a text that cites nothing, each as a part; any other part as it is."""
    spans = sentences(part.text) if isinstance(part, TextPart) and not part.citations and part.style == "prose" else []
    if len(spans) < 2 or not isinstance(part, TextPart):
        yield part
        return
    for index, (start, end) in enumerate(spans):
        between = part.text[spans[index - 1][1] : start] if index else ""
        continues = "\n\n" not in between if index else part.continues
        yield part.model_copy(update={"text": part.text[start:end], "continues": continues})


def _details(text: str) -> set[str]:
    """Return the numbers and names of a text."""
    return {word.casefold() for word in (*_NUMBER.findall(text), *_NAME.findall(text))}


def _likeness(claim: str, passage_sentences: Sequence[str], question: str = "") -> tuple[float, str]:
    """Return the largest share of a claim's words that one sentence has, and that sentence.

    Words of the question, which an answer repeats, don't count, unless the claim has no others.
    """
    words = stems(content_words(claim))
    words = words - stems(question) or words
    return max(
        ((len(words & stems(sentence)) / max(1, len(words)), sentence) for sentence in passage_sentences), default=(0.0, "")
    )


def _restates(claim: str, question: str) -> bool:
    """Return whether a claim says nothing beyond a question that asks for more than yes or no."""
    words = stems(content_words(claim))
    return bool(words) and words <= stems(question) and _YES_OR_NO.match(question) is None


def _contradicts(claim: str, passage_sentences: Sequence[str]) -> bool:
    """Return whether the sentence most like a claim says the opposite: one of the two is negated."""
    likeness, sentence = _likeness(claim, passage_sentences)
    return likeness >= ALIKE and (_NEGATION.search(claim) is None) != (_NEGATION.search(sentence) is None)
