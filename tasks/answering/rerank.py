"""Rerankers. Each returns a permutation of its input."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from schemas.models import Message
from schemas.ports import Vector
from schemas.retrieval import Judged, Nearness, Pages, Reranker, Scored, Seen
from tasks.answering.ask_model import filled, numbers_in, reply
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.search import NO_WORDS, STOP_WORDS, Ranked, Search, ids, shortened, without
from tasks.answering.trace import StepRecord
from tasks.enriching.spaces import RowText, searched_text


def reranked(search: Search, step: Reranker, query: EmbeddedQuery, ranked: Ranked) -> Ranked:
    """Return the candidates in another order; those beyond the step's pool keep theirs behind them."""
    with search.trace.step(f"rerank: {step.by}", query.words) as record:
        pool = ids(ranked[: step.pool])
        if query.has_no_words and not (isinstance(step, Nearness) and query.can_embed(step.space)):
            record.note = NO_WORDS
            return record.keep(ranked)
        match step:
            case Nearness(space=space):
                question, vectors = query.vector(space), search.index.vectors(pool, space)
                return record.keep(reordered(ranked, {name: cosine(question, vector) for name, vector in vectors.items()}))
            case Judged(model=model):
                return record.keep(
                    judged(
                        search,
                        model,
                        query,
                        ranked,
                        {name: _words_of(row) for name, row in search.rows(pool).items()},
                        record,
                    )
                )
            case Seen(model=model):
                return record.keep(seen(search, model, query, ranked, pool, record))
            case Scored():
                return record.keep(reordered(ranked, _scored(search, step.model or step.by, query, pool)))
            case Pages(words=words, further=further):
                rows = {
                    name: PageRow(
                        row["doc_id"], row["page"], searched_text(RowText(**{key: row[key] for key in _SEARCHED}))
                    )
                    for name, row in search.rows(pool).items()
                }
                question_words = without(query.words, STOP_WORDS)
                scores = judge_pages(question_words, ranked[: step.pool], rows, words=words, further=further)
                return record.keep(reordered(ranked, scores))
            case _:
                assert_never(step)


def judged(
    search: Search, model: str, query: EmbeddedQuery, ranked: Ranked, texts: Mapping[str, str], record: StepRecord
) -> Ranked:
    """Return candidates in the order that a generative model writes, of those ``texts``; unchanged, with a note, if it fails."""
    names = [name for name, _ in ranked if name in texts]
    candidates = "\n\n".join(f"[{number}] {shortened(texts[name])}" for number, name in enumerate(names, 1))
    prompt = filled("rerank", question=query.words, candidates=candidates)
    return _reorder_by_reply(ranked, names, reply(search.writer(model), prompt, record), record)


def seen(
    search: Search, model: str, query: EmbeddedQuery, ranked: Ranked, pool: Sequence[str], record: StepRecord
) -> Ranked:
    """Return candidates as ``judged`` does, by a model that also sees the pictures of those in ``pool``."""
    writer, rows = search.writer(model), search.rows(pool)
    names, lines, pictures = list(rows), list[str](), list[bytes]()
    for number, row in enumerate(rows.values(), 1):
        picture_note = ""
        if row["figure_id"] is not None:
            pictures.append(search.resources.picture(row["figure_id"]))
            picture_note = f"(picture {len(pictures)}) "
        lines.append(f"[{number}] {picture_note}{shortened(_words_of(row))}")
    prompt = filled("rerank-pictures", question=query.words, candidates="\n\n".join(lines))
    model_reply = reply(writer, (Message("user", prompt, tuple(pictures)),), record)
    return _reorder_by_reply(ranked, names, model_reply, record)


def _scored(search: Search, model: str, query: EmbeddedQuery, pool: Sequence[str]) -> dict[str, float]:
    """Return the scores of candidates by their words, and by their pictures where the model sees them."""
    scorer, rows = search.scorer(model), search.rows(pool)
    figures = [row["figure_id"] for row in rows.values()] if scorer.sees_pictures else []
    pictures = [None if figure is None else search.resources.picture(figure) for figure in figures]
    return dict(zip(rows, scorer.scores(query.words, [_words_of(row) for row in rows.values()], pictures), strict=True))


def _reorder_by_reply(ranked: Ranked, names: Sequence[str], model_reply: str, record: StepRecord) -> Ranked:
    """Return candidates in the order of their numbers in a reply; unchanged, with a note, if it has none."""
    order = numbers_in(model_reply, len(names))
    if not order:
        record.note = record.note or "the model named no candidate; they keep their order"
        return ranked
    return reordered(ranked, {names[number - 1]: float(len(order) - rank) for rank, number in enumerate(order)})


def reordered(ranked: Sequence[tuple[str, float]], scores: Mapping[str, float]) -> Ranked:
    """Put the scored rows first, best first; the others keep their order behind them, and scores never rise.

    ``scores`` may lack rows; unknown rows and scores that aren't finite are ignored.
    """
    finite_scores = {name: scores[name] for name, _ in ranked if np.isfinite(scores.get(name, np.nan))}
    ranks = {name: rank for rank, (name, _) in enumerate(ranked)}
    first = sorted(finite_scores.items(), key=lambda pair: (-pair[1], ranks[pair[0]]))
    lowest_score = min(finite_scores.values(), default=0.0)
    unscored = [name for name, _ in ranked if name not in finite_scores]
    return [*first, *((name, lowest_score - 1 - rank) for rank, name in enumerate(unscored))]


def cosine(query: Vector, vector: Vector) -> float:
    """Return the cosine of two vectors; for many vectors each, MaxSim."""
    query, vector = np.atleast_2d(query), np.atleast_2d(vector)
    cosines = (query / _lengths(query)) @ (vector / _lengths(vector)).T
    return float(cosines.max(axis=1).sum())


def _lengths(vectors: Vector) -> Vector:
    return np.asarray(np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


def _words_of(row: Mapping[str, Any]) -> str:
    titles = " › ".join(filter(None, (row["title"], *row["section_path"])))
    return "\n".join(filter(None, (titles, row["text"])))


K1, B = 1.2, 0.75
"""Parameters of BM25: saturation of term frequency, and weight of the page's length."""

_WORD = re.compile(r"\w+")
_SEARCHED = ("modality", "title", "section_path", "text", "description")


class PageRow(NamedTuple):
    """A row's document, page (from 1) and searched text."""

    doc_id: str
    number: int
    text: str


def judge_pages(
    question: str, ranked: Sequence[tuple[str, float]], rows: Mapping[str, PageRow], *, words: float, further: float
) -> dict[str, float]:
    """Return a score a row that ranks page by page: a page's best row first, its further rows later.

    A page's score is its best row's share of the best score, plus ``words`` (≥ 0) times the BM25 score of the question's words on
    it, relative to the best page's. BM25 is computed over the candidate pages alone, preferably without stop words. The n-th row
    of a page, from 0, gets ``further ** n`` of it (0 to 1). Rows that are missing in ``rows`` get no score.
    """
    best = max((score for _, score in ranked), default=0.0)
    pages: dict[tuple[str, int], list[str]] = {}
    shares: dict[tuple[str, int], float] = {}
    for name, score in ranked:
        if name in rows:
            page = rows[name][:2]
            pages.setdefault(page, []).append(name)
            # Rows come best first, so the first of a page gives the page's share.
            shares.setdefault(page, max(0.0, score / best) if best > 0 else 0.0)
    if words and pages:
        texts = [" ".join(rows[name].text for name in names) for names in pages.values()]
        weights = _bm25(sorted(set(_words(question))), [Counter(_words(text)) for text in texts])
        max_weight = float(weights.max())
        for page, weight in zip(pages, weights.tolist(), strict=True):
            shares[page] += words * weight / max_weight if max_weight else 0.0
    return {name: shares[page] * further**rank for page, names in pages.items() for rank, name in enumerate(names)}


def _bm25(terms: Sequence[str], pages: Sequence[Counter[str]]) -> NDArray[np.float64]:
    """Return the BM25 score of each page; ``pages`` are the counts of its words."""
    counts = np.array([[page[term] for term in terms] for page in pages], np.float64).reshape(len(pages), len(terms))
    lengths = np.array([page.total() for page in pages], np.float64)
    holding = (counts > 0).sum(axis=0)
    rarity = np.log(1 + (len(pages) - holding + 0.5) / (holding + 0.5))
    penalty = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
    weights: NDArray[np.float64] = (rarity * counts * (K1 + 1) / (counts + penalty[:, None])).sum(axis=1)
    return weights


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
