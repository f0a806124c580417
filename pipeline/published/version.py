"""One version, opened for reading."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import TypeAdapter

from backends.engines.analyser import query_terms, spans
from pipeline.corpus.models import Embedders, QueryModels, Record, stored_embedding_models
from pipeline.corpus.workspace import Workspace
from pipeline.published.contents import Catalogue, Contents, page_labels
from pipeline.published.own_fields import OwnFields
from pipeline.records.columns import read_documents_columns
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.evidence import DocumentRows, pictured_pages, read_placements
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import check_index_files, read_manifest
from pipeline.records.row_parts import read_parts
from pipeline.records.tagged_copies import tagged_copies
from schemas.corpus import Corpus, TagOptions
from schemas.corpus.documents import OwnField, Supersedes
from schemas.errors import NotFoundError, TransientError
from schemas.evidence import EVIDENCE, CitedRegion, Hit, SearchResult, Span
from schemas.filters import Filters, Modality
from schemas.geometry import Box
from schemas.ids import document_file, figure_file, original_file
from schemas.ports import Embedder, ObjectStore, ReadableIndex, TextEmbedder, Vector
from schemas.retrieval import GroupBy, Preset, Query
from schemas.tags import TagTemplate
from schemas.versions import Calibration, Counts, Status
from tasks.answering.cite import localise
from tasks.answering.confidence import NEARNESS, calibrated_hits, default_calibration
from tasks.answering.embedded_query import EmbeddedQuery, SentenceVectors
from tasks.answering.fuse import GROUPED, BestOfGroup, group
from tasks.answering.highlight import content_words, highlights, nearest_sentences
from tasks.answering.narrow import NOTHING, resolve, with_filters
from tasks.answering.passages import RowPosition
from tasks.answering.retrieve import lacking_models, lacking_rows, retrieve
from tasks.answering.retrievers import POOL, Search, holding, without_pages
from tasks.answering.trace import Trace
from workers.draw_pages import Drawing

DEFAULT_K = 10
"""Hits where neither query nor preset gives a number."""

DOCUMENTS_KEPT = 32
"""Documents of a version whose reading order is kept, some 300 bytes a row."""

WORDS_KEPT = 10_000
"""Words of questions whose best score is kept, some 500 bytes each."""

_OWN_FIELDS, _SUPERSEDES = TypeAdapter(dict[str, OwnField]), TypeAdapter(Supersedes | None)
_HIT_FIELDS = frozenset(Hit.model_fields)


Marker = Callable[[str, str | None], list[Span]]
"""Finds the matching spans of a text in a language."""


def _unmarked(_text: str, _language: str | None) -> list[Span]:
    return []


class VersionTables:
    """What is read of a version on first use, for all of its readers: views leave out what a reader may not see."""

    def __init__(
        self, store: ObjectStore, version: str, sources: Mapping[str, list[str]], pages: Mapping[str, int]
    ) -> None:
        self._store, self._version, self._sources, self._pages = store, version, sources, pages
        self.longest = max(pages.values(), default=0)
        """Pages of the longest document."""
        self.positions = functools.lru_cache(DOCUMENTS_KEPT)(self._positions)
        """Returns the rows of a document in reading order."""

    @functools.cached_property
    def document_rows(self) -> DocumentRows:
        """The rows, document by document."""
        return DocumentRows(self._store, self._version)

    @functools.cached_property
    def placed(self) -> pa.Table:
        """The placements that have pixels, by document and order."""
        columns = ["doc_id", "page", "order", "bbox", "role", "figure_id", "number", "tag", "caption", "width", "height"]
        table = read_placements(self._store, self._version).select(columns)
        return table.filter(pc.is_valid(table.column("figure_id")))

    @functools.cached_property
    def tagged(self) -> pa.Table:
        """The placements that have a tag, by document and order."""
        return self.placed.filter(pc.is_valid(self.placed.column("number"))).combine_chunks()

    @functools.cached_property
    def page_rows(self) -> pa.Table:
        """The rows of pages with their pictures."""
        return pictured_pages(self._store, self._version)

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The documents."""
        return Catalogue(self._store, self._version, self._sources, self._pages)

    def _positions(self, doc_id: str) -> list[RowPosition]:
        rows = self.document_rows.of(doc_id, ["evidence_id", "modality", "section_path", "page"]).to_pylist()
        return [RowPosition(row["evidence_id"], row["modality"], tuple(row["section_path"]), row["page"]) for row in rows]


@dataclass(frozen=True)
class OpenVersion:
    """One version, opened for reading.

    Attributes:
        settings: Returns the current settings of the corpus file, such as ranking, that belong to no version.
        embedders: Model of each space.
        template: How tags are written.
        sources: Sources by document id.
        pages: Number of pages by document id.
        tagged: Names of tagged copies by document id; None where the version was made without.
        converted: Names of the PDFs that documents in other formats were converted into, by document id.
        tables: What is read of its rows and placements on first use.
        sentence_vectors: Vectors of sentences in the space in which they are compared with questions.
        has_pages: Whether it has rows of whole pages.
        own_fields: The values of the corpus's own fields, by document.
        record: Wraps generative models, so that an experiment keeps their replies.
    """

    workspace: Workspace
    version: str
    index: ReadableIndex
    settings: Callable[[], Corpus]
    embedders: Mapping[str, Embedder]
    template: TagTemplate
    counts: Counts
    sources: Mapping[str, list[str]]
    pages: Mapping[str, int]
    tagged: Mapping[str, str] | None
    converted: Mapping[str, str]
    tables: VersionTables
    sentence_vectors: SentenceVectors
    has_pages: bool
    calibration: Calibration
    own_fields: OwnFields
    record: Record | None = None

    def search(
        self,
        query: Query,
        plan: Preset,
        question: EmbeddedQuery | None = None,
        trace: Trace | None = None,
        *,
        calibrated: bool = False,
    ) -> SearchResult:
        """Return the best rows of a query; of each group the best, where the query groups.

        The query's version, preset and steps are not read: ``plan`` has the steps. ``question`` is the query's text and
        picture, where they are embedded already. The next step of ``trace`` raises ``Stopped`` once nobody waits for the
        result any more. Scores of ``calibrated`` hits compare with those of other corpora, and may not fall with the rank.

        Raises:
            RequestError: The version lacks what the plan or the filters need.
        """
        trace = trace or Trace()
        search = self.searching(trace)
        question = question or self.question(query.query, query.picture, trace.stopped)
        last = query.offset + (query.k or plan.select.k or DEFAULT_K)
        depth = last + 1 if last < POOL else last  # one more, to know whether there is
        with trace.step("filters"):
            filters, other_counts = self.resolved(query.filters), dict[str, int]()
        if query.group is None:
            ranked = self.ranked(search, question, plan, depth, filters)
        else:
            ranked = self.ranked(search, question, plan, GROUPED, filters)
            with trace.step("group") as record:
                best = self._best_of_groups(ranked, query.group)[:depth]
                ranked = record.keep([(leader.evidence_id, leader.score) for leader in best])
                other_counts = {leader.evidence_id: leader.others for leader in best}
        with trace.step("hits"):
            terms = query_terms(content_words(query.query), self.counts.documents_by_language)
            phrases = query.filters.phrases

            def marked(text: str, language: str | None) -> list[Span]:
                return highlights(text, spans(text, language, terms), phrases)

            marker = _unmarked if query.highlight is False else marked
            hits = [
                hit.model_copy(update={"more": other_counts[hit.evidence_id]}) if other_counts else hit
                for hit in self.hits(ranked[query.offset : last], marker)
            ]
        if calibrated and query.query:
            with trace.step(f"calibrate: {NEARNESS.name}", query.query):
                hits = calibrated_hits(self.index, hits, question.vector(NEARNESS.name), self.calibration)
        if query.highlight and query.query:
            with trace.step(f"highlight: {NEARNESS.name}", query.query):
                hits = self._with_sentences(hits, question)
        return SearchResult(
            version=self.version,
            preset=plan.name,
            hits=hits,
            more=len(ranked) > last,
            trace=trace.steps if query.trace else None,
        )

    def question(
        self, words: str, picture: bytes | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> EmbeddedQuery:
        """Return a question that this version's models embed; once ``stopped`` returns true, the next step raises ``Stopped``."""
        return EmbeddedQuery(self.embedders, words, picture, stopped)

    def questions(self, questions: Sequence[str], plan: Preset) -> list[EmbeddedQuery]:
        """Return many questions, embedded in one batch in the spaces of a plan."""
        return EmbeddedQuery.embed_all(self.embedders, questions, plan.spaces)

    def lacks(self, plan: Preset) -> list[str]:
        """Return what a plan needs and this version lacks, each with the setting that adds it."""
        absent = lacking_rows(plan, self.embedders, has_pages=self.has_pages) | lacking_models(plan, self.models())
        return [f"{need} (set {option})" for need, option in absent.items()]

    def picture(self, figure_id: str) -> bytes:
        """Return the encoded picture of a figure."""
        return self.workspace.store.get(figure_file(figure_id))

    @functools.cached_property
    def contents(self) -> Contents:
        """Its documents, pages, rows, tables and figures, as lists."""
        return Contents(self)

    def figure(self, figure_id: str) -> bytes:
        """Return the PNG of a figure, only where this version holds it, even if the store has more."""
        self.require_figure(figure_id)
        return self._read_object(figure_file(figure_id))

    def document(self, doc_id: str) -> tuple[bytes, str]:
        """Return a document's PDF, the original or what it was converted into, and its file name."""
        name = self.require(doc_id)[0].rpartition("/")[2]
        return self._read_object(pdf_of(doc_id, self.converted)), f"{name}.pdf" if doc_id in self.converted else name

    def original(self, doc_id: str) -> tuple[bytes, str]:
        """Return a document's own bytes, and its file name."""
        name = self.require(doc_id)[0].rpartition("/")[2]
        return self._read_object(original_file(doc_id) if doc_id in self.converted else document_file(doc_id)), name

    def tagged_document(self, doc_id: str) -> tuple[bytes, str]:
        """Return the tagged copy of a PDF, and its file name; raise ``NotFoundError`` with the reason if there is none."""
        sources, corpus = self.require(doc_id), self.workspace.corpus.name
        if self.tagged is None:
            remedy = f"to have them, set 'tags: {{pdf: true}}' in the corpus file and run: inset refresh {corpus}"
            raise NotFoundError(f"{self.name} was made without tagged copies; {remedy}")
        if doc_id not in self.tagged:
            raise NotFoundError(f"{self.name} has no tagged copy of {sources[0]}; to see why: inset quarantine {corpus}")
        stem = sources[0].rpartition("/")[2].removesuffix(".pdf")
        return self._read_object(self.tagged[doc_id]), f"{stem}.tagged.pdf"

    def drawing(self, doc_id: str, page: int, highlight: Sequence[Box] = (), dpi: int = 110) -> Drawing:
        """Return what draws a page with highlighted boxes."""
        self.require(doc_id)
        passwords, store = self.workspace.passwords_set(), self.workspace.store.root
        return Drawing(store, pdf_of(doc_id, self.converted), page, dpi, tuple(highlight), passwords=passwords)

    def _read_object(self, name: str) -> bytes:
        try:
            return self.workspace.store.get(name)
        except FileNotFoundError as error:
            corpus = self.workspace.corpus.name
            remedy = f"inset doctor {corpus} --deep, then inset refresh {corpus}"
            message = f"corpus {corpus}: the store has lost {name}; to have it made again: {remedy}"
            raise TransientError(message) from error

    def models(self, stopped: Callable[[], bool] = lambda: False) -> QueryModels:
        """Return the models that one request uses."""
        return QueryModels(self.settings().models, self.embedders, stopped, self.record)

    def _contents(self, doc_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of documents for a table of contents, in the order of the documents."""
        columns = ["evidence_id", "doc_id", "title", "section_path", "modality"]
        rows = (row for doc_id in doc_ids for row in self.rows_of(doc_id, columns).to_pylist())
        return [row for row in rows if row["modality"] != Modality.PAGE]

    def resolved(self, filters: Filters) -> Filters:
        """Return equivalent filters that every engine understands: without globs, page ranges and phrases."""
        resolved_filters = resolve(
            filters, self.sources, self.tables.longest, self.own_fields.types, self.own_fields.newest
        )
        if not resolved_filters.phrases:
            return resolved_filters
        evidence_ids = holding(self.index, resolved_filters)
        return (
            resolved_filters.model_copy(update={"phrases": [], "evidence_ids": evidence_ids}) if evidence_ids else NOTHING
        )

    def resolved_without_pages(self, filters: Filters) -> Filters:
        """Return resolved filters that leave out rows of whole pages, which repeat other rows, unless modalities are given."""
        resolved_filters = self.resolved(filters)
        keeps = not self.has_pages or resolved_filters.modalities or resolved_filters == NOTHING
        return resolved_filters if keeps else without_pages(resolved_filters)

    def _best_of_groups(self, ranked: Sequence[tuple[str, float]], by: GroupBy) -> list[BestOfGroup]:
        rows = self.index.fetch([evidence_id for evidence_id, _ in ranked])
        names = {row["evidence_id"]: (row["doc_id"], row["page"] if by is GroupBy.PAGE else None) for row in rows}
        return group((evidence_id, score, names[evidence_id]) for evidence_id, score in ranked if evidence_id in names)

    def _with_sentences(self, hits: Sequence[Hit], question: EmbeddedQuery) -> list[Hit]:
        spans = nearest_sentences([hit.text for hit in hits], question.vector(NEARNESS.name), self.sentence_vectors)
        return [hit.model_copy(update={"nearest_sentence": span}) for hit, span in zip(hits, spans, strict=True)]

    def searching(self, trace: Trace, models: QueryModels | None = None) -> Search:
        """Return what the searches of one question use; ``models`` are for callers that count the cost of models."""
        models = models or self.models(trace.stopped)
        return Search(self.index, trace, models, self._contents, self.has_pages, self.picture)

    def ranked(
        self, search: Search, question: EmbeddedQuery, plan: Preset, k: int, filters: Filters
    ) -> list[tuple[str, float]]:
        """Return the best ``k`` rows under resolved filters; filters of the plan's steps are resolved here."""
        if filters == NOTHING:
            return []
        return retrieve(search, question, with_filters(plan, self.resolved), k=k, filters=filters)

    def require(self, doc_id: str) -> list[str]:
        """Return the sources of a document; raise ``NotFoundError`` if only the store, not the version, holds it."""
        if doc_id not in self.sources:
            raise NotFoundError(f"{self.name} has no document {doc_id}")
        return self.sources[doc_id]

    def require_figure(self, figure_id: str) -> None:
        """Raise ``NotFoundError`` where the version has no such figure or page picture, even if the store does."""
        placed = self.tables.placed
        placements = placed.filter(pc.equal(placed.column("figure_id"), pa.scalar(figure_id)))
        if any(doc_id in self.sources for doc_id in placements.column("doc_id").to_pylist()):
            return
        if self.has_pages:
            page_rows = self.tables.page_rows
            pages = page_rows.filter(pc.equal(page_rows.column("figure_id"), pa.scalar(figure_id)))
            if self.index.fetch(list(map(str, pages.column("evidence_id").to_pylist()))):
                return
        raise NotFoundError(f"{self.name} has no figure {figure_id}")

    @property
    def name(self) -> str:
        """Corpus and version, as messages name them."""
        return f"corpus {self.workspace.corpus.name}: version {self.version}"

    @property
    def placed_figures(self) -> pa.Table:
        """The placements that have pixels, by document and order."""
        return self.visible_part(self.tables.placed)

    @property
    def tagged_figures(self) -> pa.Table:
        """The placements that have a tag, by document and order."""
        return self.visible_part(self.tables.tagged)

    def visible_part(self, table: pa.Table) -> pa.Table:
        """Return the rows of documents that its reader may see."""
        return table

    @property
    def shown_counts(self) -> Counts:
        """Its contents in numbers."""
        return self.counts

    def are_visible(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return which documents its reader may see."""
        return np.ones(len(doc_ids), np.bool_)

    def rows_of(self, doc_id: str, columns: Sequence[str] = EVIDENCE.names) -> pa.Table:
        """Return a document's rows in reading order, or some columns of them; empty if the version lacks it."""
        return self.tables.document_rows.of(doc_id if doc_id in self.sources else "", columns)

    def reading_order(self, doc_id: str) -> list[RowPosition]:
        """Return the rows of a document in reading order."""
        return self.tables.positions(doc_id) if doc_id in self.sources else []

    @functools.cached_property
    def word_score(self) -> Callable[[str, Filters], float | None]:
        """Returns the best BM25 score of a word alone, under resolved filters; None where no row has it."""

        @functools.lru_cache(WORDS_KEPT)
        def score(word: str, filters: Filters) -> float | None:
            return next((best for _, best in self.index.bm25(word, 1, filters)), None)

        return score

    def hits(
        self,
        ranked: Sequence[tuple[str, float]],
        marker: Marker = _unmarked,
    ) -> list[Hit]:
        """Return a ranking as hits, best first."""
        scores = dict(ranked)
        return self.as_hits(self.index.fetch(list(scores)), scores, marker)

    def as_hits(
        self,
        rows: Sequence[dict[str, Any]],
        scores: Mapping[str, float],
        marker: Marker = _unmarked,
    ) -> list[Hit]:
        """Return rows of the version as hits."""
        figures = pa.array({figure_id for row in rows for figure_id in row["figure_refs"]}, pa.string())
        # One pass over all placements serves all rows.
        tagged = self.tables.tagged
        placements = tagged.filter(pc.is_in(tagged.column("figure_id"), figures)).to_pylist()
        return [
            self._hit(row, scores[row["evidence_id"]], placements, marker(row["text"], row.get("language"))) for row in rows
        ]

    def _hit(self, row: dict[str, Any], score: float, placements: Sequence[dict[str, Any]], marks: Sequence[Span]) -> Hit:
        cells = row.get("tagged_rows") or []
        labels = page_labels(row)
        regions = [CitedRegion(**region, label=labels[region["page"]]) for region in row["regions"]]
        return Hit.model_validate(
            {name: value for name, value in row.items() if name in _HIT_FIELDS}
            | {
                "score": score,
                "highlights": marks,
                "rows": [[self.template.without(cell) for cell in line] for line in cells],
                "tagged_rows": cells,
                "source": row["sources"][0],
                "regions": regions,
                "tagged_pdf": self.tagged is not None and row["doc_id"] in self.tagged,
                "fields": self.own_fields.of(row["doc_id"]),
                "superseded": self.own_fields.superseded(row["doc_id"], self.are_visible),
                "figures": localise(row["figure_refs"], row["doc_id"], regions, placements),
            }
        )


def open_version(workspace: Workspace, version: str, settings: Callable[[], Corpus] | None = None) -> OpenVersion:
    """Open a built version, with the parameters of its manifest, or of the corpus file where it has no manifest yet.

    ``settings`` returns the current corpus file; that of the workspace where None.

    Raises:
        NotFoundError: There is no such version.
    """
    manifest = read_manifest(workspace.store, version)
    settings = settings or (lambda: workspace.corpus)
    spaces, tags, embeddings, counts = workspace.spaces, workspace.corpus.tags, workspace.corpus.embedding_models, Counts()
    has_pages = workspace.keys.drawn is not None
    fields, supersedes = workspace.corpus.fields, workspace.corpus.supersedes
    if manifest is not None:
        counts = manifest.counts
        has_pages = counts.rows_by_modality.get(Modality.PAGE, 0) > 0
        spaces, tags = manifest.spaces, TagOptions.model_validate(manifest.parameters.get("tags", {}))
        fields = _OWN_FIELDS.validate_python(manifest.parameters.get("fields", {}))
        supersedes = _SUPERSEDES.validate_python(manifest.parameters.get("supersedes"))
    try:
        ledger = read_ledger(workspace.store, version)
    except FileNotFoundError as error:
        if manifest is not None:  # it is damaged
            raise
        raise NotFoundError(f"corpus {workspace.corpus.name}: there is no version {version}") from error
    sources: dict[str, list[str]] = {}
    pages: dict[str, int] = {}
    # The ledger also has documents in quarantine, which are no part of the version.
    for row in ledger:
        if row.status is Status.INDEXED:
            pages[row.doc_id] = row.pages
            sources.setdefault(row.doc_id, []).append(row.source)
    read_parts(workspace.store, version)  # raises for a version of release 0.2.0
    if manifest is not None:
        embeddings = stored_embedding_models(manifest.parameters)
    check_index_files(workspace, version, digests=True)
    embedders = Embedders(spaces, then=embeddings, now=lambda: settings().embedding_models)

    def sentence_vectors(texts: Sequence[str]) -> Vector:
        return cast(TextEmbedder, embedders[NEARNESS.name]).embed_documents(texts)

    return OpenVersion(
        workspace=workspace,
        version=version,
        index=workspace.index(version),
        settings=settings,
        embedders=embedders,
        template=TagTemplate(tags.template),
        counts=counts,
        sources=sources,
        pages=pages,
        tagged=tagged_copies(workspace.store, version),
        converted=read_converted(workspace.store, version),
        tables=VersionTables(workspace.store, version, sources, pages),
        sentence_vectors=SentenceVectors(sentence_vectors),
        has_pages=has_pages,
        own_fields=OwnFields(read_documents_columns(workspace.store, version), fields, supersedes, settings),
        calibration=(manifest and manifest.calibration) or default_calibration(spaces[NEARNESS.name].model.name),
    )
