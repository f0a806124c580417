"""What the steps of a search share, and retrievers: by words, vectors, contents, page and figure numbers, phrases."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from schemas.errors import RequestError
from schemas.filters import MOST_NAMED, Filters, Modality
from schemas.ports import PassageScorer, ReadableIndex, StreamingModel
from schemas.retrieval import MOST_ROWS, Places, Retriever, Sections, Vectors, Words
from schemas.text import CaptionLabel, caption_label, folded, mentions, words
from tasks.answering.ask_model import filled, numbers_in, reply
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.narrow import both
from tasks.answering.trace import StepRecord, Trace
from tasks.enriching.spaces import DEFAULT, SPACES

Ranked = list[tuple[str, float]]
"""``(evidence_id, score)``, best first."""

POOL = 200
"""Minimum number of rows from each retriever if rankings are fused, reranked or diversified."""

NO_WORDS = "there are no words to search by"
"""A trace's note on a step that needs words, for a picture alone."""

SHOWN_CHARS = 600
"""Maximum characters of a text shown to a model or searched for as evidence: some 150 tokens."""

_WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
        "to was will with"
    )
)
"""Lucene's English ones."""


@dataclass(frozen=True)
class Search:
    """What the steps of one search use: the version's index and rows, the models and the trace.

    ``models`` are generative models and scorers by their names in the corpus file, loaded on access; ``contents`` returns the
    rows of documents (id, document, title and section path), by document and in reading order; ``picture`` returns a figure's
    encoded image.
    """

    index: ReadableIndex
    trace: Trace = field(default_factory=Trace)
    models: Mapping[str, Any] = field(default_factory=dict)
    contents: Callable[[Sequence[str]], Iterable[Mapping[str, Any]]] = lambda _documents: ()
    has_pages: bool = False
    picture: Callable[[str], bytes] = dict[str, bytes]().__getitem__

    def writer(self, name: str) -> StreamingModel:
        """Return a generative model; raises ``RequestError`` if it only scores, ``UserError`` if it can't be used."""
        model: StreamingModel = self._model(name, "stream", "writes: name one of kind llm or vlm")
        return model

    def scorer(self, name: str) -> PassageScorer:
        """Return a model that scores passages; errors as for ``writer``."""
        model: PassageScorer = self._model(name, "scores", "scores passages: name one of kind cross_encoder or late")
        return model

    def _model(self, name: str, does: str, needed: str) -> Any:
        model = self.models[name]
        if not hasattr(model, does):
            raise RequestError(f"models.{name} is of another kind than this search needs, which is one that {needed}")
        return model

    def nearest(self, query: EmbeddedQuery, k: int, filters: Filters) -> Ranked:
        """Return the rows nearest to the query's words."""
        return self.index.dense(query.vector(DEFAULT.name), k, filters, DEFAULT.name)

    def rows(self, evidence_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return rows by id, in that order; unknown ones are left out."""
        return {str(row["evidence_id"]): row for row in self.index.fetch(evidence_ids)}


def ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """Return the rows of a ranking."""
    return [evidence_id for evidence_id, _ in ranked]


def shortened(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def searched(query: str, stop_words: Literal["english"] | Sequence[str]) -> str:
    """Return the words that BM25 searches for."""
    stopped = STOP_WORDS if stop_words == "english" else {word.lower() for word in stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; unchanged if it has no other words."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query


DOCUMENTS_READ = 5
"""Maximum number of documents whose contents a model picks sections from."""

MOST_SECTIONS = 400
"""Maximum lines of the contents shown to a model: some 6,000 tokens."""


def ask_index(search: Search, retriever: Retriever, query: EmbeddedQuery, depth: int, filters: Filters) -> Ranked:
    """Return a retriever's rows, ``depth`` of them unless it sets a number."""
    k = min(depth, retriever.k or depth)
    with search.trace.step(f"retrieve: {retriever.title}", query.words) as record:
        joined_filters = both(filters, retriever.filters)
        if joined_filters is None:
            return record.keep([])
        # Only a retriever that compares pictures finds rows of whole pages by default.
        if not any(SPACES[space].sees for space in retriever.spaces):
            if query.has_no_words:
                record.note = NO_WORDS
                return record.keep([])
            if search.has_pages and not joined_filters.modalities:
                joined_filters = without_pages(joined_filters)
        match retriever:
            case Words(weights=weights, stop_words=stop_words):
                ranking = search.index.bm25(searched(query.words, stop_words), k, joined_filters, weights)
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


# Pages, figures and tables that a question names by number

MOST_PAGES = 30
"""Maximum length of a range of pages; a longer one, as in "pages 1 to 300", is ignored."""

_PICTURED = Filters(modalities=[Modality.FIGURE, Modality.TABLE])
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBERED = re.compile(
    r"\b(?:pages?|slides?|pp?\.)\s*(?:no\.?\s*|number\s*)?(\d{1,4})"
    r"(?:\s*(?:-|–|to|through|and)\s*(?:pages?\s*|slides?\s*)?(\d{1,4}))?\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"\b({'|'.join(_ORDINALS)}|\d{{1,4}}(?:st|nd|rd|th))\s+(?:page|slide)\b", re.IGNORECASE)


def _at_places(search: Search, query: EmbeddedQuery, k: int, filters: Filters) -> Ranked:
    """Return rows on the pages, and of the figures and tables, that the question names; [] unless documents are given."""
    if not filters.documents:
        return []
    evidence_ids: list[str] = []
    if (pages := pages_named(query.words)) and (
        page_filters := both(Filters(pages=sorted(pages)[:MOST_NAMED]), filters)
    ) is not None:
        evidence_ids += ids(search.nearest(query, k, page_filters))
    labels = {label for label in mentions(query.words) if label.number}
    if labels and (picture_filters := both(filters, _PICTURED)) is not None:
        evidence_ids += _labelled(search, labels, picture_filters)
    return [(name, 1.0) for name in sorted(set(evidence_ids))][:k]


def _labelled(search: Search, labels: Collection[CaptionLabel], filters: Filters) -> list[str]:
    label_words = " ".join(sorted(f"{label.kind} {label.number}" for label in labels))
    # BM25 also finds captions that only mention the label: a caption's own label is at its start.
    rows = search.rows(ids(search.index.bm25(label_words, POOL, filters)))
    return [name for name, row in rows.items() if caption_label(row["caption"]) in labels]


def pages_named(question: str) -> set[int]:
    """Return the pages that a question names: "page 14", "slides 3 to 5", "the second page"; from 1."""
    pages: set[int] = set()
    for match in _NUMBERED.finditer(question):
        first, last = int(match[1]), int(match[2] or match[1])
        pages |= set(range(first, last + 1)) if first <= last < first + MOST_PAGES else {first, last}
    for match in _COUNTED.finditer(question):
        word = match[1].lower()
        pages.add(_ORDINALS.index(word) + 1 if word in _ORDINALS else int(word[:-2]))
    return pages - {0}


# Sections that a generative model picks from the table of contents: the generative retriever of "OMG-QA: Building Open-Domain
# Multi-Modal Generative Question Answering Systems"


@dataclass(slots=True)
class SectionEntry:
    """A document (depth 0) or one of its sections; ``rows`` are those directly in it, in reading order."""

    number: int
    path: tuple[str, ...]
    title: str
    rows: list[str] = field(default_factory=list)


def _in_sections(
    search: Search, step: Sections, query: EmbeddedQuery, k: int, filters: Filters, record: StepRecord
) -> Ranked:
    """Return rows of the sections that a model picks; the nearest rows if it picks none."""
    nearest = search.nearest(query, MOST_ROWS, filters)
    documents = list(dict.fromkeys(str(row["doc_id"]) for row in search.index.fetch(ids(nearest[:POOL]))))
    entries = contents_of(search.contents(documents[:DOCUMENTS_READ]))
    prompt = filled("sections", question=query.words, contents=printed(entries))
    model_reply = reply(search.writer(step.model), prompt, record)
    scores = dict(nearest)
    under = rows_under(entries, numbers_in(model_reply, min(len(entries), MOST_SECTIONS)))
    # Rows that the filters exclude, or that are far away, aren't among the nearest.
    scored_rows = [(row, scores[row]) for row in under if row in scores]
    if not scored_rows:
        record.note = record.note or "the model picked no section; the nearest rows are given"
        return nearest[:k]
    if step.order == "nearness":
        return sorted(scored_rows, key=lambda pair: (-pair[1], pair[0]))[:k]
    return [(row, 1 / rank) for rank, (row, _) in enumerate(scored_rows, 1)][:k]


def contents_of(rows: Iterable[Mapping[str, Any]]) -> list[SectionEntry]:
    """Return the contents of documents, numbered from 1, from their rows by document and in reading order."""
    entries: dict[tuple[str, ...], SectionEntry] = {}
    for row in rows:
        path = (row["doc_id"], *row["section_path"])
        # Sections around a row's are entries too, though no row may be directly in them.
        for depth in range(1, len(path) + 1):
            title = path[depth - 1] if depth > 1 else row["title"]
            entries.setdefault(path[:depth], SectionEntry(len(entries) + 1, path[:depth], title))
        entries[path].rows.append(row["evidence_id"])
    return list(entries.values())


def printed(entries: Sequence[SectionEntry]) -> str:
    """Return the first ``MOST_SECTIONS`` entries as indented lines."""
    return "\n".join(
        f"{'  ' * (len(entry.path) - 1)}- {entry.title or 'untitled'} [{entry.number}]" for entry in entries[:MOST_SECTIONS]
    )


def rows_under(entries: Sequence[SectionEntry], numbers: Sequence[int]) -> list[str]:
    """Return the rows of chosen sections, in the order of choice and then in reading order, each once.

    A section is skipped if one inside it is chosen too.
    """
    paths_by_number = {entry.number: entry.path for entry in entries}
    paths = [paths_by_number[number] for number in numbers if number in paths_by_number]
    smallest = [path for path in paths if not any(_is_within(inner, path) and inner != path for inner in paths)]
    rows = (row for path in smallest for entry in entries if _is_within(entry.path, path) for row in entry.rows)
    return list(dict.fromkeys(rows))


def _is_within(path: tuple[str, ...], around: tuple[str, ...]) -> bool:
    return path[: len(around)] == around


# Phrases: candidates by BM25, word order by their text

EXAMINED = 8_000
"""Maximum number of rows whose text is read; 5,000 take a tenth of a second."""

HOLDERS = 1_000
"""Maximum number of rows returned."""

_FIRST = 500


def holding(index: ReadableIndex, filters: Filters) -> list[str]:
    """Return the ids of the rows that hold all phrases of the filters, best first; the other filters apply too.

    A phrase is its words in sequence in ``text``, ignoring case, punctuation and white space. Rows with all words are examined,
    best first, up to ``EXAMINED`` or until ``HOLDERS`` are found.

    Raises:
        RequestError: The version can't be filtered so.
    """
    # Spaces at both ends let a phrase match whole words alone.
    padded_phrases = [f" {folded(phrase)} " for phrase in filters.phrases]
    # What signs join is one term of an engine as well as several, and a phrase is compared without signs.
    query_words = " ".join(phrase[word.start : word.end] for phrase in filters.phrases for word in words(phrase))
    plain_filters = filters.model_copy(update={"phrases": []})
    evidence_ids: list[str] = []
    examined, limit = 0, _FIRST
    while True:
        ranked = ids(index.bm25(query_words, limit, plain_filters, {"text": 1.0}, every=True))
        for row in index.fetch(ranked[examined:]):
            text = f" {folded(str(row['text']))} "
            if all(phrase in text for phrase in padded_phrases):
                evidence_ids.append(str(row["evidence_id"]))
        if len(ranked) < limit or limit == EXAMINED or len(evidence_ids) >= HOLDERS:
            return evidence_ids[:HOLDERS]
        # The shorter answer is the beginning of the longer one, so its rows aren't examined twice.
        examined, limit = limit, min(limit * 4, EXAMINED)
