"""The read side of a corpus: what is live, searched, answered and shown."""

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.checksums import damage
from pipeline.corpus.corpora import QuerySettings
from pipeline.corpus.models import text_embedder
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.tagged import tagged_copies
from pipeline.records.evidence import read_placements
from pipeline.records.inventory import check_index_files
from pipeline.records.ledger import read_ledger
from pipeline.records.publication import list_versions, manifest_name, read_manifest, read_pointer
from ray_jobs.draw_pages import Drawing, PageDrawer
from schemas.corpus import Corpus, TagOptions
from schemas.errors import (
    BadInputError,
    InsetError,
    MissingError,
    NotFoundError,
    TransientError,
    UnforeseenError,
    UserError,
)
from schemas.evidence import AnswerResult, CitedRegion, Filters, Hit, SearchResult
from schemas.overview import CorpusOverview, SearchMode
from schemas.ports import SearchIndex, TextEmbedder
from schemas.tags import TagTemplate
from schemas.versions import Counts, Pointer, Status, VersionList
from tasks.answering.answer import answer as compose_answer
from tasks.answering.localise import localise
from tasks.answering.modes import DEFAULT_MODE, MODES, mode_named
from tasks.answering.retrieve import POOL, retrieve
from tasks.enriching.spaces import TEXT

NO_FILTERS = Filters()

NEARNESS = TEXT
"""The space in which a passage must be near enough to a question to answer it."""

_VERSIONS_OPEN = 4
_SUGGESTIONS = 6
_SOURCES_LISTED = 500


@dataclass(frozen=True)
class OpenVersion:
    """One version, opened for reading; everything it says comes from this version alone.

    ``asked`` gives the settings that a question is put with: ranking and answers, which are no part of a version.
    """

    workspace: Workspace
    version: str
    index: SearchIndex
    asked: Callable[[], Corpus]
    embedders: Mapping[str, TextEmbedder]
    template: TagTemplate
    counts: Counts
    sources: dict[str, list[str]]
    tagged: dict[str, str] | None

    def search(self, query: str, *, mode: str, k: int, filters: Filters, offset: int = 0) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``."""
        chosen, ranking = mode_named(mode), self.asked().ranking
        ranked = retrieve(self.index, self.embedders, query, mode=chosen, k=offset + k, filters=filters, ranking=ranking)
        return SearchResult(version=self.version, mode=mode, hits=self._hits(ranked[offset:]))

    def answer(self, question: str, *, filters: Filters) -> AnswerResult:
        """Answer out of the best passages, or abstain where nothing is near enough to the question."""
        options = self.asked().answers
        vector = self.embedders[NEARNESS.name].embed_query(question)
        near = dict(self.index.dense(vector, POOL, filters, NEARNESS.name))
        best = max(near.values(), default=0.0)
        hits = []
        if best >= options.min_similarity:
            found = self.search(question, mode=DEFAULT_MODE.name, k=options.passages * 3, filters=filters).hits
            hits = [hit for hit in found if near.get(hit.evidence_id, 0.0) >= best - options.similarity_margin]
        return compose_answer(self.version, hits, self.template, passages=options.passages)

    def require(self, doc_id: str) -> list[str]:
        """Return the sources of a document.

        Raises:
            NotFoundError: The version doesn't hold it, whatever the store still has.
        """
        if doc_id not in self.sources:
            raise NotFoundError(f"{self._place} has no document {doc_id}")
        return self.sources[doc_id]

    def require_figure(self, figure_id: str) -> None:
        """Raise ``NotFoundError`` where the version doesn't hold a figure, whatever the store still has."""
        if figure_id not in self._figure_ids:
            raise NotFoundError(f"{self._place} has no figure {figure_id}")

    def tagged_name(self, doc_id: str) -> str:
        """Return the name of a document's tagged copy in the store.

        Raises:
            NotFoundError: There is none, with the reason.
        """
        sources = self.require(doc_id)
        name = self.workspace.corpus.name
        if self.tagged is None:
            todo = f"to have them in the next, set 'tags: {{pdf: true}}' in the corpus file and run: inset refresh {name}"
            raise NotFoundError(f"{self._place} was made without tagged copies; {todo}")
        if doc_id not in self.tagged:
            raise NotFoundError(f"{self._place} has no tagged copy of {sources[0]}; to see why: inset quarantine {name}")
        return self.tagged[doc_id]

    @property
    def _place(self) -> str:
        return f"corpus {self.workspace.corpus.name}: version {self.version}"

    @functools.cached_property
    def _figures(self) -> pa.Table:
        """The placements that have pixels."""
        columns = ["doc_id", "page", "order", "bbox", "figure_id", "number", "caption"]
        table = read_placements(self.workspace.store, self.version).select(columns)
        return table.filter(pc.is_valid(table.column("figure_id")))

    @functools.cached_property
    def _figure_ids(self) -> frozenset[Any]:
        return frozenset(self._figures.column("figure_id").to_pylist())

    def _hits(self, ranked: Sequence[tuple[str, float]]) -> list[Hit]:
        scores = dict(ranked)
        rows: list[dict[str, Any]] = self.index.fetch(list(scores))
        figures = sorted({figure_id for row in rows for figure_id in row["figure_refs"]})
        placements: list[dict[str, Any]] = []
        if figures:
            tagged = self._figures.filter(pc.is_valid(self._figures.column("number")))
            placements = tagged.filter(pc.is_in(tagged.column("figure_id"), pa.array(figures))).to_pylist()
        return [self._hit(row, scores[row["evidence_id"]], placements) for row in rows]

    def _hit(self, row: dict[str, Any], score: float, placements: Sequence[dict[str, Any]]) -> Hit:
        fields = {name: value for name, value in row.items() if name in Hit.model_fields}
        regions = [CitedRegion.model_validate(region) for region in row["regions"]]
        return Hit.model_validate(
            fields
            | {
                "score": score,
                "source": row["sources"][0],
                "tagged_pdf": self.tagged is not None and row["doc_id"] in self.tagged,
                "figures": localise(row["figure_refs"], row["doc_id"], regions, placements),
            }
        )


def open_version(workspace: Workspace, version: str, asked: Callable[[], Corpus] | None = None) -> OpenVersion:
    """Open a built version: as its manifest says, or where there is none yet, as the corpus file does.

    Args:
        workspace: The corpus.
        version: Which.
        asked: Gives the settings that questions are put with; those that the workspace was opened with where None.

    Raises:
        NotFoundError: There is no such version.
    """
    manifest = read_manifest(workspace.store, version)
    text_model, tags, counts = workspace.text_model, workspace.corpus.tags, Counts()
    if manifest is not None:
        counts = manifest.counts
        text_model, tags = manifest.models["text"], TagOptions.model_validate(manifest.parameters.get("tags", {}))
    try:
        ledger = read_ledger(workspace.store, version)
    except FileNotFoundError as error:
        if manifest is not None:  # it is damaged
            raise
        raise NotFoundError(f"corpus {workspace.corpus.name}: there is no version {version}") from error
    sources: dict[str, list[str]] = {}
    for row in ledger:
        if row.status is Status.INDEXED:
            sources.setdefault(row.doc_id, []).append(row.source)
    check_index_files(workspace, version, digests=True)
    return OpenVersion(
        workspace=workspace,
        version=version,
        index=workspace.index(version),
        asked=asked or (lambda: workspace.corpus),
        embedders={TEXT.name: text_embedder(text_model)},
        template=TagTemplate(tags.template),
        counts=counts,
        sources=sources,
        tagged=tagged_copies(workspace.store, version),
    )


class PublishedCorpus:
    """The read side of one corpus. Safe to call from several threads; the pointer is read once a call.

    Args:
        workspace: The corpus.
        drawer: Draws pages; several corpora may share one, and then the one who made it closes it.
    """

    def __init__(self, workspace: Workspace, drawer: PageDrawer | None = None) -> None:
        self._workspace = workspace
        self._asked = QuerySettings(workspace.file, workspace.corpus)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenVersion] = OrderedDict()
        self._was_live = False
        self._drawer = drawer or PageDrawer()
        self._closes_drawer = drawer is None

    @property
    def name(self) -> str:
        """The corpus's name."""
        return self._workspace.corpus.name

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        with self._reading():
            self._live()
            return list_versions(self._workspace.store, self.name)

    def search(
        self,
        query: str,
        *,
        mode: str = DEFAULT_MODE.name,
        k: int = 10,
        offset: int = 0,
        filters: Filters = NO_FILTERS,
        version: str | None = None,
    ) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``, of the live version or of ``version``."""
        with self._opened(version) as opened:
            return opened.search(query, mode=mode, k=k, offset=offset, filters=filters)

    def answer(self, question: str, *, filters: Filters = NO_FILTERS, version: str | None = None) -> AnswerResult:
        """Answer from the live version, or from ``version``."""
        with self._opened(version) as opened:
            return opened.answer(question, filters=filters)

    def figure(self, figure_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return a figure's bytes and their media type."""
        with self._opened(version) as opened:
            opened.require_figure(figure_id)
            return self._stored(f"figures/{figure_id}.png"), "image/png"

    def page_image(
        self,
        doc_id: str,
        page: int,
        *,
        highlight: Sequence[tuple[float, float, float, float]] = (),
        dpi: int = 110,
        version: str | None = None,
    ) -> "Future[bytes]":
        """Return what will be a page as PNG, the given boxes highlighted; cancel it where the caller goes."""
        with self._opened(version) as opened:
            opened.require(doc_id)
            store = self._workspace.store.root
            drawing = Drawing(store, _original(doc_id), page, dpi, tuple(highlight), passwords=self._passwords())
            return self._drawer.draw(drawing)

    def document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the original PDF and its file name."""
        with self._opened(version) as opened:
            source = opened.require(doc_id)[0]
            return self._stored(_original(doc_id)), source.rpartition("/")[2]

    def tagged_document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the copy of a PDF in which every figure's tag is written at its place, and its file name."""
        with self._opened(version) as opened:
            name = opened.tagged_name(doc_id)
            stem = opened.require(doc_id)[0].rpartition("/")[2].removesuffix(".pdf")
            return self._stored(name), f"{stem}.tagged.pdf"

    def overview(self) -> CorpusOverview:
        """Return what its live version holds."""
        with self._reading():
            pointer = self._live()
        if pointer is None:
            return CorpusOverview(name=self.name, problem=self._nothing_live())
        with self._opened(pointer) as opened:
            counts = opened.counts
            sources = sorted(source for named in opened.sources.values() for source in named)
        return CorpusOverview(
            name=self.name,
            version=pointer.version,
            since=pointer.since,
            documents=counts.documents,
            pages=counts.pages,
            figures=counts.figures,
            rows=counts.rows,
            suggestions=self._suggestions(),
            sources=sources[:_SOURCES_LISTED],
            modes=[
                SearchMode(name=mode.name, label=mode.label, sentence=mode.sentence)
                for mode in MODES.values()
                if opened.embedders.keys() >= set(mode.spaces)
            ],
        )

    def ready(self) -> None:
        """Raise where no version is live, or where it can't be searched: one question is put to it."""
        with self._opened(None) as opened:
            opened.search("ready", mode=DEFAULT_MODE.name, k=1, filters=NO_FILTERS)

    def close(self) -> None:
        """End the processes that draw pages, unless others share them."""
        if self._closes_drawer:
            self._drawer.close()

    def _stored(self, name: str) -> bytes:
        """Return an object that the opened version names."""
        try:
            return self._workspace.store.get(name)
        except FileNotFoundError as error:
            message = f"corpus {self.name}: the store has lost {name}; to have it made again: inset refresh {self.name}"
            raise TransientError(message) from error

    def _passwords(self) -> tuple[str, ...]:
        try:
            return tuple(self._workspace.passwords())
        except UserError:  # the variable isn't set where this runs: pages of encrypted documents say that they need one
            return ()

    def _suggestions(self) -> list[str]:
        from evaluation.questions import load_questions

        if self._workspace.corpus.questions is None:
            return []
        questions = [question for question in load_questions(self._workspace.corpus.questions) if question.answerable]
        with_figures = [question.question for question in questions if question.figures]
        return with_figures[:: max(1, len(with_figures) // _SUGGESTIONS)][:_SUGGESTIONS]

    def _nothing_live(self) -> str:
        return f"corpus {self.name}: nothing is published yet; run: inset refresh {self.name}"

    def _live(self) -> Pointer | None:
        """Return what is live; None where nothing has been, as far as this process knows.

        Raises:
            TransientError: Something was live: the store is away, or has lost its pointer.
        """
        pointer = read_pointer(self._workspace.store)
        if pointer is None and self._was_live:
            raise TransientError(
                f"corpus {self.name}: {self._workspace.store.root} has no live version any more; is the store away?"
            )
        self._was_live = pointer is not None
        return pointer

    @contextlib.contextmanager
    def _reading(self, version: str | None = None) -> Iterator[None]:
        """Turn what a damaged or absent store or index raises into one error that says so.

        Raises:
            NotFoundError: The version was removed meanwhile.
            TransientError: It can't be read now.
        """
        try:
            yield
        except (BadInputError, UserError):
            raise
        except (InsetError, OSError, RuntimeError, ValueError, pa.ArrowException) as error:
            if version is not None:
                with self._lock:
                    self._open.pop(version, None)  # what is opened anew may be whole
                if self._is_gone(version):
                    raise NotFoundError(f"corpus {self.name}: there is no version {version} any more") from error
            if isinstance(error, TransientError):
                raise
            reason = error.message if isinstance(error, InsetError) else _reason(error)
            raise UnforeseenError(
                f"corpus {self.name} can't be read now: {reason}; to see what is wrong: inset doctor {self.name}"
            ) from error

    @contextlib.contextmanager
    def _opened(self, wanted: str | Pointer | None) -> Iterator[OpenVersion]:
        """Open a version, the live one where None, for one call; errors as ``_reading`` has them."""
        if wanted is None:
            with self._reading():
                wanted = self._live()
            if wanted is None:
                raise NotFoundError(self._nothing_live())
        version = wanted.version if isinstance(wanted, Pointer) else wanted
        with self._reading(version):
            # What somebody named may have been removed while it was open here; what is live is not.
            if isinstance(wanted, str) and self._is_gone(version):
                raise NotFoundError(f"corpus {self.name}: there is no version {version}")
            yield self._open_once(version)

    def _is_gone(self, version: str) -> bool:
        with self._reading():
            if self._workspace.store.exists(manifest_name(version)):
                return False
            live = self._live()  # raises where the whole store is away
            if live is not None and live.version == version:
                raise self._no_manifest(version)
            return True

    def _open_once(self, version: str) -> OpenVersion:
        with self._lock:
            if version not in self._open:
                if not self._workspace.store.exists(manifest_name(version)):
                    raise self._no_manifest(version)
                self._open[version] = open_version(self._workspace, version, self._asked)
            self._open.move_to_end(version)
            while len(self._open) > _VERSIONS_OPEN:
                self._open.popitem(last=False)
            return self._open[version]

    def _no_manifest(self, version: str) -> MissingError:
        return damage(MissingError, self._workspace.store.root, manifest_name(version), "is missing")


def _original(doc_id: str) -> str:
    return f"documents/{doc_id}.pdf"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__


def open_published(name_or_path: str, drawer: PageDrawer | None = None) -> PublishedCorpus:
    """Open the read side of a corpus by name or file; ``drawer`` draws its pages, and is shared with others."""
    return PublishedCorpus(open_workspace(name_or_path), drawer)
