"""Which passages answer a question, and whether any does: the policy of whoever answers, people or golden questions."""

from collections.abc import Callable, Iterable, Sequence

from schemas.corpus import AnswerOptions
from schemas.evidence import Filters, Hit
from schemas.ports import SearchIndex
from tasks.answering.asked import Asked
from tasks.answering.retrievers import without_pages
from tasks.answering.search import POOL
from tasks.answering.trace import Trace
from tasks.enriching.spaces import DEFAULT

NEARNESS = DEFAULT
"""The space in which a passage must be near enough to a question to answer it."""

RANKED = 3
"""Rows that are ranked for each passage of an answer: some are too far from the question, or show what another shows."""


def passages_that_answer(
    asked: Asked,
    index: SearchIndex,
    options: AnswerOptions,
    find: Callable[[int, Filters], Sequence[Hit]],
    *,
    filters: Filters,
    has_pages: bool,
    trace: Trace,
) -> list[Hit]:
    """Return the passages that are near enough to a question to answer it, best first; [] where none is: abstain.

    Rows of whole pages are left out unless they are asked for: they repeat the words of others.

    Args:
        asked: The question.
        index: The version to search.
        options: The corpus's floor and margin of similarity, and how many passages an answer has.
        find: Gives the best rows by number and filters, as the preset ranks them; isn't called where nothing is near enough.
        filters: What the answer is narrowed to, resolved.
        has_pages: Whether the version has rows of whole pages.
        trace: Keeps what was near.
    """
    if has_pages and not filters.modalities:
        filters = without_pages(filters)
    with trace.step(f"nearness: {NEARNESS.name}", asked.words) as doing:
        near = dict(doing.gave(index.dense(asked.vector(NEARNESS.name), POOL, filters, NEARNESS.name)))
    least = least_similarity(near.values(), options)
    if least is None:
        return []
    return [hit for hit in find(options.passages * RANKED, filters) if near.get(hit.evidence_id, 0.0) >= least]


def least_similarity(similarities: Iterable[float], options: AnswerOptions) -> float | None:
    """Return how similar a passage has to be to its question to answer it; None where none is similar enough: abstain.

    Args:
        similarities: Cosine similarity of the passages nearest to the question.
        options: The corpus's floor, and how far behind the nearest passage another may lie.
    """
    best = max(similarities, default=0.0)
    return best - 0.2 if best >= 0.45 else None
