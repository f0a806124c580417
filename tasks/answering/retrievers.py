"""Retrievers: by words, by vectors, by the table of contents, by page and figure numbers."""

from collections.abc import Collection
from typing import assert_never

from schemas.filters import MOST_NAMED, Filters, Modality
from schemas.retrieval import MOST_ROWS, Places, Retriever, Sections, Vectors, Words
from tasks.answering.ask_model import filled, numbers_in, reply
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.locators import Label, label_of, labels_named, pages_named
from tasks.answering.narrow import both
from tasks.answering.search import NO_WORDS, POOL, Ranked, Search, ids, searched
from tasks.answering.sections import MOST_SECTIONS, contents_of, printed, rows_under
from tasks.answering.trace import StepRecord
from tasks.enriching.spaces import SPACES

DOCUMENTS_READ = 5
"""Maximum number of documents whose contents a model picks sections from."""


def ask_index(search: Search, retriever: Retriever, query: EmbeddedQuery, depth: int, filters: Filters) -> Ranked:
    """Return a retriever's rows, ``depth`` of them unless it sets a number."""
    k = min(depth, retriever.k or depth)
    with search.trace.step(f"retrieve: {retriever.title}", query.words) as record:
        joined_filters = both(filters, retriever.filters)
        if joined_filters is None:
            return record.keep([])
        if search.resources.has_pages and not joined_filters.modalities and not _sees_pictures(retriever):
            joined_filters = without_pages(joined_filters)
        if query.has_no_words and not _sees_pictures(retriever):
            record.note = NO_WORDS
            return record.keep([])
        match retriever:
            case Words(weights=weights, stop_words=stop_words):
                words = searched(query.words, search.ranking.stop_words if stop_words is None else stop_words)
                ranking = search.index.bm25(words, k, joined_filters, weights or search.ranking.weights)
            case Vectors(space=space):
                compare = search.index.late if SPACES[space].late else search.index.dense
                ranking = compare(query.vector(space), k, joined_filters, space)
            case Sections():
                ranking = _in_sections(search, retriever, query, k, joined_filters, record)
            case Places():
                ranking = _at_places(search, query, k, joined_filters)
            case _:
                assert_never(retriever)
        return record.keep(above(ranking, retriever.floor))


def above(ranked: Ranked, floor: float | None) -> Ranked:
    """Return the rows that score at least a floor."""
    return ranked if floor is None else [pair for pair in ranked if pair[1] >= floor]


def without_pages(filters: Filters) -> Filters:
    """Exclude rows of whole pages: they repeat the text of other rows."""
    return filters.model_copy(update={"modalities": [modality for modality in Modality if modality is not Modality.PAGE]})


def _sees_pictures(retriever: Retriever) -> bool:
    """Return whether a retriever compares pictures; only such a one finds rows of whole pages by default."""
    return any(SPACES[space].sees for space in retriever.spaces)


def _at_places(search: Search, query: EmbeddedQuery, k: int, filters: Filters) -> Ranked:
    """Return rows on the pages, and of the figures and tables, that the question names; [] unless documents are given."""
    if not filters.documents:
        return []
    evidence_ids: list[str] = []
    if (pages := pages_named(query.words)) and (
        page_filters := both(Filters(pages=sorted(pages)[:MOST_NAMED]), filters)
    ) is not None:
        evidence_ids += ids(search.nearest(query, k, page_filters))
    if (labels := labels_named(query.words)) and (picture_filters := both(filters, _PICTURED)) is not None:
        evidence_ids += _labelled(search, labels, picture_filters)
    return [(name, 1.0) for name in sorted(set(evidence_ids))][:k]


_PICTURED = Filters(modalities=[Modality.FIGURE, Modality.TABLE])


def _labelled(search: Search, labels: Collection[Label], filters: Filters) -> list[str]:
    label_words = " ".join(f"{kind} {number}" for kind, number in sorted(labels))
    rows = search.rows(ids(search.index.bm25(label_words, POOL, filters)))
    return [name for name, row in rows.items() if label_of(str(row["caption"])) in labels]


def _in_sections(
    search: Search, step: Sections, query: EmbeddedQuery, k: int, filters: Filters, record: StepRecord
) -> Ranked:
    """Return rows of the sections that a model picks; the nearest rows if it picks none."""
    nearest = search.nearest(query, MOST_ROWS, filters)
    documents = list(dict.fromkeys(str(row["doc_id"]) for row in search.index.fetch(ids(nearest[:POOL]))))
    entries = contents_of(search.resources.contents(documents[:DOCUMENTS_READ]))
    prompt = filled("sections", question=query.words, contents=printed(entries))
    model_reply = reply(search.writer(step.model), prompt, record)
    scores = dict(nearest)
    under = rows_under(entries, numbers_in(model_reply, min(len(entries), MOST_SECTIONS)))
    scored_rows = [(row, scores[row]) for row in under if row in scores]
    if not scored_rows:
        record.note = record.note or "the model picked no section; the nearest rows are given"
        return nearest[:k]
    if step.order == "nearness":
        return sorted(scored_rows, key=lambda pair: (-pair[1], pair[0]))[:k]
    return [(row, 1 / rank) for rank, (row, _) in enumerate(scored_rows, 1)][:k]
