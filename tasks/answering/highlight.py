"""Highlights of a row: the question's words in it, and its sentence nearest to the question."""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from schemas.evidence import Span
from schemas.ports import Vector
from schemas.text import Word, folded, with_joined_dimensions, words

_ASKING = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by can could did do does for from had has have how i if in into is it its me my not of on or "
        "our should so such that the their them then there these they this to was we were what when where which who why will "
        "with would you your",
    )
)
"""English words without content; kept in a question that has no others."""

_ABBREVIATIONS = re.findall(r"\S+", "al cf e.g i.e vs Fig Figs Eq Eqs Sec No Nos Dr Mr Mrs Ms St U.S")
_END = re.compile(
    r"(?=[.!?…])(?<!\A\w)(?<!\A\d\d)(?<!\n\w)(?<!\n\d\d)(?<![.!?…])"
    + "".join(rf"(?<!\b{re.escape(word)})" for word in _ABBREVIATIONS)
    + r"[.!?…]++[)\]\"'”’»]*(?=\s+[^\sa-z])"
    r"|[。！？]+|\n\s*\n|\n(?=\s*(?:[-•*–]|\d+[.)])\s)"
)
"""The end of a sentence; not after an abbreviation or the marker of a list item. Only its marks are looked behind."""


def content_words(query: str) -> str:
    """Return a question without function words; unchanged if it has no others."""
    query = with_joined_dimensions(query)
    query_words = list(words(query))
    asking = [word for word in query_words if word.folded in _ASKING]
    if len(asking) == len(query_words):
        return query
    ends = [0, *(word.end for word in asking)]
    return "".join(query[start:stop] for start, stop in zip(ends, [*(word.start for word in asking), None], strict=True))


def highlights(text: str, matched: Iterable[Span], phrases: Sequence[str] = ()) -> list[Span]:
    """Return the spans of matched words and whole phrases: ``[start, end)`` in characters, in order, not overlapping."""
    text_words = list(words(text)) if phrases else []
    return _merge_overlapping(
        [*matched, *(span for phrase in phrases for span in _phrase_spans(text_words, folded(phrase).split(" ")))]
    )


def _phrase_spans(text_words: Sequence[Word], phrase: Sequence[str]) -> Iterable[Span]:
    length = len(phrase)
    for position in range(len(text_words) - length + 1):
        run = text_words[position : position + length]
        if [word.folded for word in run] == list(phrase):
            yield run[0].start, run[-1].end


def _merge_overlapping(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def excerpt(length: int, spans: Sequence[Span], max_chars: int) -> Span:
    """Return the part of a text of some length to show in ``max_chars`` characters: from shortly before its first mark."""
    first = min((start for start, _ in spans), default=0)
    start = 0 if first < max_chars // 2 else min(first - max_chars // 6, max(length - max_chars, 0))
    return start, min(start + max_chars, length)


def sentences(text: str) -> list[Span]:
    """Return the sentences of a text: ``[start, end)`` in characters, in order.

    A sentence ends at a full stop, question or exclamation mark before white space and no small letter, at a CJK full stop, at
    an empty line, and before a list item.
    """
    ends = [*(match.end() for match in _END.finditer(text)), len(text)]
    spans = []
    for start, end in zip([0, *ends], ends, strict=False):
        piece = text[start:end]
        if next(words(piece), None):
            spans.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
    return spans


def nearest_sentences(
    texts: Sequence[str], question: Vector, vectors: Callable[[Sequence[str]], Vector]
) -> list[Span | None]:
    """Return for each text the sentence whose unit vector, by one call of ``vectors``, is nearest to the question's, if any."""
    spans = [sentences(text) for text in texts]
    pieces = [
        text[start:end]
        for text, text_spans in zip(texts, spans, strict=True)
        if len(text_spans) > 1
        for start, end in text_spans
    ]
    # A text of one sentence needs no vector, and takes nothing from the iterator.
    similarities = iter(vectors(pieces) @ question if pieces else [])
    nearest_spans: list[Span | None] = []
    for text_spans in spans:
        scores = [next(similarities) for _ in text_spans] if len(text_spans) > 1 else [0.0] * len(text_spans)
        nearest_spans.append(text_spans[int(np.argmax(scores))] if text_spans else None)
    return nearest_spans
