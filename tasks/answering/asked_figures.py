"""Choose the figures that a question asks for, among all figures of the pages found."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.evidence import Hit
from schemas.text import caption_label, mentions

SHOWN_FROM = 0.02
"""Probability from which a figure is shown. On the development questions 0.01 shows 0.4 more figures an answer, and the right one
for 3 of 100 questions more; 0.08 shows 0.3 fewer, and the right one for 4 fewer."""

MOST_FIGURES = 3
"""Figures that an answer shows unfolded, a procedure's own apart. The right one is the best for 75 of 100 questions about
figures, among the best two for 82, among the best three for 84."""

A_PAGE = 612 * 792
"""Area of a page, in square points."""

_PICTURED = re.compile(
    r"\b(?:figures?|fig\.|charts?|graphs?|diagrams?|plots?|pictures?|pictured|images?|photos?|photographs?|illustrat\w+|drawings?|"
    r"maps?|screenshots?|logos?|icons?|depict\w*|shown|looks? like|colou?rs?|schematic|flow ?charts?|legend|pie|bars)\b",
    re.IGNORECASE,
)

Page = tuple[str, int]
"""A document's id and the number of a page."""


class Signals(NamedTuple):
    """What speaks for a figure, each 0 to 1 but for ``page_fit``, which is at most 0.

    ``cosine``: of question and figure's text. ``page_fit``: best score of a sentence on its page, less the best of all.
    ``size``: side of a square as large, by that of a page. ``label``: the question names its number. ``rank``: 1 / (1 + rank of
    its page). ``asked``: the question speaks of pictures.
    """

    cosine: float
    page_fit: float
    size: float
    label: float
    rank: float
    asked: float


WEIGHTS = Signals(cosine=3.1, page_fit=4.5, size=2.3, label=3.1, rank=0.7, asked=1.4)
BIAS = -4.6
"""Logistic regression over questions about figures of 38 documents, checked by folds of documents (decision 14). A seventh
signal, the caption's words, went: without it as many right figures are shown, and fewer others."""


def speaks_of_pictures(question: str) -> bool:
    """Return whether a question speaks of a picture: a figure, chart, photograph, screenshot, colour."""
    return _PICTURED.search(question) is not None


def asked_figures(
    question: str,
    figures: Sequence[Hit],
    cosines: Mapping[str, float],
    page_scores: Mapping[Page, float],
    page_ranks: Mapping[Page, int],
) -> list[tuple[Hit, float]]:
    """Return the figures that a question may ask for, each with its probability, best first.

    ``cosines`` are of question and figure, by evidence id; ``page_scores`` the best of a sentence on each page; ranks are from 0.
    """
    labels = {label for label in mentions(question) if label.number}
    asks_for_picture = float(speaks_of_pictures(question))
    best_page = max(page_scores.values(), default=0.0)
    probabilities: list[tuple[Hit, float]] = []
    for figure in figures:
        page = (figure.doc_id, figure.page)
        x0, y0, x1, y1 = figure.bbox
        signals = Signals(
            cosine=cosines.get(figure.evidence_id, 0.0),
            page_fit=page_scores.get(page, 0.0) - best_page,
            size=min(1.0, math.sqrt(max(0.0, (x1 - x0) * (y1 - y0)) / A_PAGE)),
            label=float(caption_label(figure.caption) in labels),
            rank=1 / (1 + page_ranks[page]) if page in page_ranks else 0.0,
            asked=asks_for_picture,
        )
        logit = BIAS + math.fsum(weight * signal for weight, signal in zip(WEIGHTS, signals, strict=True))
        probabilities.append((figure, 1 / (1 + math.exp(-logit))))
    return sorted(probabilities, key=lambda pair: (-pair[1], pair[0].evidence_id))
