"""Run a plan: find evidence in one version's index."""

import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from schemas.errors import RequestError
from schemas.filters import NO_FILTERS, Filters
from schemas.models import Message
from schemas.ports import StreamingModel, Vector
from schemas.retrieval import DocumentStep, Judged, Nearness, Pages, Preset, Reranker, Retriever, Scored, Seen, Steps
from tasks.answering.ask_model import filled, numbers_in, reply
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.fuse import fuse, fuse_shares, in_turn, summed
from tasks.answering.retrievers import (
    NO_WORDS,
    POOL,
    SHOWN_CHARS,
    STOP_WORDS,
    Ranked,
    Search,
    above,
    ask_index,
    ids,
    shortened,
    without,
)
from tasks.answering.rewrite import rewritten
from tasks.answering.trace import StepRecord
from tasks.enriching.caption_quality import echoes, refuses, repeats, words_of
from tasks.enriching.spaces import DEFAULT, SPACES, RowText, searched_text

THREADS = 32
"""Maximum number of retrievers that a process runs in threads."""

MOST_JUDGED = 20
"""Maximum number of documents that a generative model orders."""


def retrieve(search: Search, query: EmbeddedQuery, plan: Steps, *, k: int, filters: Filters = NO_FILTERS) -> Ranked:
    """Return the best ``k`` rows for a query. Up to ``POOL``, a smaller ``k`` gives the beginning of the same ranking.

    Scores compare within one call only.

    Raises:
        RequestError: The version lacks vectors, or the corpus file a model, that the plan needs; a model is of the wrong kind; or
            the plan can't use the query's picture, or describe it where there are no words.
        UserError: A model can't be used as configured.
    """
    _check(search, plan, query)
    if plan.describe is not None and query.picture is not None:
        with search.trace.step("describe", query.words) as record:
            query = described(
                query, search.writer(plan.describe.model), record, needed=not (query.words or compares_pictures(plan))
            )
    if plan.rewrite is not None and not query.has_no_words:
        with search.trace.step("rewrite", query.words) as record:
            query = query.reworded(rewritten(query.words, search.writer(plan.rewrite.model), record))
    if plan.documents is not None:
        filters = _in_documents(search, plan.documents, query, filters)
    # Steps that choose among rows need more of them than they return.
    chooses = len(plan.retrieve) > 1 or plan.rerank or plan.select.diversity
    depth = max(POOL, k) if chooses else k
    ranked = _fused(search, plan, _rankings(search, plan.retrieve, query, depth, filters), depth)
    for step in plan.rerank:
        ranked = reranked(search, step, query, ranked)
    return _selected(search, plan, query, ranked, k)


def _check(search: Search, plan: Steps, query: EmbeddedQuery) -> None:
    """Check that version, corpus file and query have what the plan needs; errors as for ``retrieve``."""
    name = f"preset {plan.name}" if isinstance(plan, Preset) else "this search"
    if absent := lacking_rows(plan, query.embedders, has_pages=search.has_pages):
        raise RequestError(
            f"{name} needs {', '.join(absent)}, which this version has not; use another preset, or set "
            f"{', '.join(dict.fromkeys(absent.values()))} in the corpus file and refresh"
        )
    if absent := lacking_models(plan, search.models):
        raise RequestError(
            f"{name} needs {', '.join(absent)}; use another preset, or name it as {', '.join(absent.values())} in the corpus file"
        )
    if query.picture is not None and not takes_pictures(plan):
        raise RequestError(
            f"{name} looks at no picture: ask in words alone, or by a preset of vectors of pictures, or of a model that "
            f"describes them"
        )


def takes_pictures(plan: Steps) -> bool:
    """Return whether a plan accepts a query picture: it embeds or describes it."""
    return compares_pictures(plan) or plan.describe is not None


def compares_pictures(plan: Steps) -> bool:
    """Return whether a plan compares vectors of pictures."""
    return any(SPACES[space].sees for space in plan.spaces)


def lacking_rows(plan: Steps, spaces: Iterable[str], *, has_pages: bool) -> dict[str, str]:
    """Return the missing vectors, such as ``vectors image``, and kinds of rows, with the options that add them."""
    lacking = {
        f"vectors {name}": SPACES[name].option if name in SPACES else name
        for name in plan.spaces
        if name not in set(spaces)
    }
    return lacking | ({"rows of pages": "captions.pages"} if plan.searches_only_pages and not has_pages else {})


def lacking_models(plan: Steps, available: Iterable[str]) -> dict[str, str]:
    """Return the missing models, such as ``a model llm``, with the option that adds them."""
    return {f"a model {name}": f"models.{name}" for name in plan.models if name not in set(available)}


def _in_documents(search: Search, step: DocumentStep, query: EmbeddedQuery, filters: Filters) -> Filters:
    """Restrict the filters to the documents whose rows rank best; rows vote with their rank-fusion scores."""
    rows = ids(ask_index(search, step.by, query, POOL, filters))
    with search.trace.step("documents", query.words) as record:
        rows_by_id = search.rows(rows)
        votes = fuse([rows])
        ranked = summed([(rows_by_id[row]["doc_id"], vote)] for row, vote in votes if row in rows_by_id)
        if step.reranked_by is not None and not query.has_no_words:
            document_names = {row["doc_id"]: f"{row['title']} ({row['sources'][0]})" for row in rows_by_id.values()}
            ranked = judged(search, step.reranked_by, query, ranked[:MOST_JUDGED], document_names, record)
        best = record.keep(ranked[: step.k])
    return filters.model_copy(update={"documents": ids(best)}) if best else filters


def _rankings(
    search: Search, retrievers: Sequence[Retriever], query: EmbeddedQuery, depth: int, filters: Filters
) -> list[Ranked]:
    """Run the retrievers, those that search for the question itself in parallel, since engines search without Python's lock."""
    traces = [search.trace.branch() for _ in retrievers]

    def ask(number: int, query: EmbeddedQuery) -> Ranked:
        return ask_index(replace(search, trace=traces[number]), retrievers[number], query, depth, filters)

    asking = {
        number: _threads(os.getpid()).submit(copy_context().run, ask, number, query)
        for number, retriever in enumerate(retrievers)
        if len(retrievers) > 1 and retriever.runs_in_thread and retriever.asks == "question"
    }
    rankings: list[Ranked] = []
    for number, retriever in enumerate(retrievers):
        if number in asking:
            rankings.append(asking[number].result())
        else:
            asked = query if retriever.asks == "question" else _with_evidence(search, query, rankings)
            rankings.append(ask(number, asked))
    search.trace.join(traces)
    return rankings


@functools.lru_cache(maxsize=1)
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return threads, kept since an engine's client pays more for a new one than for a search; a forked process needs its own."""
    return ThreadPoolExecutor(THREADS, "retriever")


def _with_evidence(search: Search, query: EmbeddedQuery, earlier_rankings: Sequence[Ranked]) -> EmbeddedQuery:
    best = [ranking[0][0] for ranking in earlier_rankings if ranking][:1]
    texts = [row["text"][:SHOWN_CHARS] for row in search.rows(best).values()]
    return query.reworded("\n".join([query.words, *texts]).strip())


def _fused(search: Search, plan: Steps, rankings: Sequence[Ranked], depth: int) -> Ranked:
    if len(rankings) == 1:
        return rankings[0]
    with search.trace.step(f"fuse: {plan.fuse.method}") as record:
        match plan.fuse.method:
            case "in_turn":
                return record.keep(in_turn(rankings))
            case "rrf":
                return record.keep(fuse([*map(ids, rankings)], k=plan.fuse.rrf_k, weights=plan.fuse.weights))
            case "shares":
                weights = plan.fuse.weights or [1 / len(rankings)] * len(rankings)
                return record.keep(fuse_shares(rankings, weights, depth=depth))


def _selected(search: Search, plan: Steps, query: EmbeddedQuery, ranked: Ranked, k: int) -> Ranked:
    select = plan.select
    if not select.diversity and select.floor is None:
        return ranked[:k]
    with search.trace.step("select") as record:
        ranked = above(ranked, select.floor)
        if select.diversity:
            pool = ids(ranked[: select.pool])
            # Late-interaction vectors give no similarity of two rows.
            single = (name for name in (*plan.spaces, DEFAULT.name) if not SPACES[name].late)
            if space := next(filter(query.can_embed, single), None):
                vectors = search.index.vectors(pool, space)
                selected = diversify(
                    query.vector(space), pool, vectors, k=min(k, len(pool)), relevance=1 - select.diversity
                )
                lowest_score = selected[-1][1] if selected else 0.0
                ranked = [
                    *selected,
                    *((name, lowest_score - rank) for rank, name in enumerate(ids(ranked[len(pool) :]), 1)),
                ]
            else:
                record.note = "there are no words to compare rows by, so none is kept back for being like another"
        return record.keep(ranked[:k])


MOST_CHARS = 1000
"""Maximum characters of a description; text models read hardly more."""


def described(query: EmbeddedQuery, model: StreamingModel, record: StepRecord, *, needed: bool) -> EmbeddedQuery:
    """Return the query with a description of its picture added; unchanged, with a note, if the description isn't usable.

    Raises ``RequestError`` if it is ``needed``, and ``UserError`` if the model can't be used as configured.
    """
    prompt = filled("describe")
    model_reply = reply(model, prompt, record, query.picture)
    words = words_of(model_reply)
    if words and not (refuses(model_reply) or repeats(words) or echoes(model_reply, words, prompt)):
        description = " ".join(model_reply.split())[:MOST_CHARS]
        return query.reworded("\n".join(filter(None, [query.words, description])))
    record.note = record.note or "the model wrote nothing that describes the picture"
    if needed:
        raise RequestError(f"the picture can't be described, so ask in words, too: {record.note}")
    return query


def diversify(
    query: Vector, ranked: Sequence[str], vectors: Mapping[str, Vector], *, k: int, relevance: float
) -> list[tuple[str, float]]:
    """Choose ``k`` rows one by one, each near to the query and far from those chosen before: maximal marginal relevance.

    ``relevance``, 0 to 1, is the weight of nearness to the query. Scores never rise; rows without a vector come last, with -1.

    Source:
        Carbonell and Goldstein, "The Use of MMR", SIGIR 1998.
    """
    candidates = [name for name in ranked if name in vectors]
    selected: list[tuple[str, float]] = []
    if candidates:
        matrix = np.stack([_unit(vectors[name]) for name in candidates])
        gains = relevance * (matrix @ _unit(query))
        similarity = np.zeros(len(candidates), np.float32)
        while len(selected) < min(k, len(candidates)):
            marginal = gains - (1 - relevance) * similarity
            best = int(np.argmax(marginal))  # ties go to the better ranked
            selected.append((candidates[best], float(min(marginal[best], selected[-1][1] if selected else np.inf))))
            similarity_to_best = matrix @ matrix[best]
            similarity = np.maximum(similarity, similarity_to_best) if len(selected) > 1 else similarity_to_best
            gains[best] = -np.inf
    return [*selected, *((name, -1.0) for name in ranked if name not in vectors)][:k]


def _unit(vector: Vector) -> Vector:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


# Rerankers: each returns a permutation of its input


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
                ranked = reordered(ranked, {name: cosine(question, vector) for name, vector in vectors.items()})
            case Judged(model=model):
                texts = {name: _words_of(row) for name, row in search.rows(pool).items()}
                ranked = judged(search, model, query, ranked, texts, record)
            case Seen(model=model):
                ranked = seen(search, model, query, ranked, pool, record)
            case Scored():
                ranked = reordered(ranked, _scored(search, step.model or step.by, query, pool))
            case Pages(words=words, further=further):
                rows = {
                    name: PageRow(
                        row["doc_id"], row["page"], searched_text(RowText(**{key: row[key] for key in _SEARCHED}))
                    )
                    for name, row in search.rows(pool).items()
                }
                question_words = without(query.words, STOP_WORDS)
                scores = judge_pages(question_words, ranked[: step.pool], rows, words=words, further=further)
                ranked = reordered(ranked, scores)
            case _:
                assert_never(step)
        return record.keep(ranked)


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
            pictures.append(search.picture(row["figure_id"]))
            picture_note = f"(picture {len(pictures)}) "
        lines.append(f"[{number}] {picture_note}{shortened(_words_of(row))}")
    prompt = filled("rerank-pictures", question=query.words, candidates="\n\n".join(lines))
    model_reply = reply(writer, (Message("user", prompt, tuple(pictures)),), record)
    return _reorder_by_reply(ranked, names, model_reply, record)


def _scored(search: Search, model: str, query: EmbeddedQuery, pool: Sequence[str]) -> dict[str, float]:
    """Return the scores of candidates by their words, and by their pictures where the model sees them."""
    scorer, rows = search.scorer(model), search.rows(pool)
    figures = [row["figure_id"] for row in rows.values()] if scorer.sees_pictures else []
    pictures = [None if figure is None else search.picture(figure) for figure in figures]
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
