"""The read side of a corpus: what is live, searched, answered and shown."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from backends.page_renderer import PageRenderer
from pipeline.evidence import read_placements
from pipeline.inventory import check_index_files
from pipeline.ledger import read_ledger
from pipeline.models import text_embedder
from pipeline.publication import list_versions, read_manifest, read_pointer
from pipeline.tagged import tagged_copies
from pipeline.workspace import Workspace, open_workspace
from schemas.corpus import Ranking
from schemas.errors import NotFoundError
from schemas.evidence import AnswerResult, Filters, Hit, Mode, SearchResult
from schemas.overview import CorpusOverview
from schemas.ports import SearchIndex, TextEmbedder
from schemas.tags import TagTemplate
from schemas.versions import ModelCard, Status, VersionList
from tasks.answer import answer as compose_answer
from tasks.retrieve import POOL, retrieve

NO_FILTERS = Filters()

_VERSIONS_OPEN = 4
_PICTURES_KEPT = 64
_SUGGESTIONS = 6
_SOURCES_LISTED = 500


@dataclass(frozen=True)
class OpenVersion:
    """One version, opened for reading; everything it says comes from this version alone."""

    workspace: Workspace
    version: str
    index: SearchIndex
    ranking: Ranking
    embedder: TextEmbedder
    sources: dict[str, list[str]]
    tagged: dict[str, str] | None

    def search(self, query: str, *, mode: Mode, k: int, filters: Filters, offset: int = 0) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``."""
        ranked = retrieve(self.index, self.embedder, query, mode=mode, k=offset + k, filters=filters, ranking=self.ranking)
        return SearchResult(version=self.version, mode=mode, hits=self._hits(ranked[offset:]))

    def answer(self, question: str, *, filters: Filters) -> AnswerResult:
        """Answer out of the best passages, or abstain where nothing is near enough to the question."""
        options = self.workspace.corpus.answers
        near = dict(self.index.dense(self.embedder.embed_query(question), POOL, filters))
        best = max(near.values(), default=0.0)
        hits = []
        if best >= options.min_similarity:
            found = self.search(question, mode="hybrid", k=options.passages * 3, filters=filters).hits
            hits = [hit for hit in found if near.get(hit.evidence_id, 0.0) >= best - options.similarity_margin]
        template = TagTemplate(self.workspace.corpus.tags.template)
        return compose_answer(self.version, hits, template, self._figures.get, passages=options.passages)

    @functools.cached_property
    def _figures(self) -> dict[str, tuple[str, str]]:
        """Tag number to figure id and caption."""
        columns = ["number", "figure_id", "caption"]
        table = read_placements(self.workspace.store, self.version).select(columns)
        rows = [row for row in table.to_pylist() if row["number"] is not None]
        # Where a figure stands twice, a caption beats none.
        return {row["number"]: (row["figure_id"], row["caption"]) for row in sorted(rows, key=_has_caption)}

    def _hits(self, ranked: Sequence[tuple[str, float]]) -> list[Hit]:
        scores = dict(ranked)
        return [self._hit(row, scores[str(row["evidence_id"])]) for row in self.index.fetch(list(scores))]

    def _hit(self, row: dict[str, object], score: float) -> Hit:
        fields = {name: value for name, value in row.items() if name in Hit.model_fields}
        has_tagged = self.tagged is not None and row["doc_id"] in self.tagged
        told = {"score": score, "source": row["sources"][0], "tagged_pdf": has_tagged}  # type: ignore[index]
        return Hit.model_validate(fields | told)


def _has_caption(row: dict[str, str]) -> bool:
    return bool(row["caption"])


def open_version(workspace: Workspace, version: str, text_model: ModelCard | None = None) -> OpenVersion:
    """Open a built version; ``text_model`` is the one its vectors were made by, the corpus file's where None.

    Raises:
        NotFoundError: There is no such version.
    """
    if text_model is None:
        manifest = read_manifest(workspace.store, version)
        text_model = manifest.models["text"] if manifest else workspace.text_model
    try:
        ledger = read_ledger(workspace.store, version)
    except FileNotFoundError as error:
        raise NotFoundError(f"corpus {workspace.corpus.name}: there is no version {version}") from error
    sources: dict[str, list[str]] = {}
    for row in ledger:
        if row.status is Status.INDEXED:
            sources.setdefault(row.doc_id, []).append(row.source)
    check_index_files(workspace, version, digests=True)
    ranking = workspace.index_options(version)
    tagged = tagged_copies(workspace.store, version)
    return OpenVersion(workspace, version, workspace.index(version), ranking, text_embedder(text_model), sources, tagged)


class PublishedCorpus:
    """The read side of one corpus. Safe to call from several threads; the pointer is read once a call."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenVersion] = OrderedDict()
        self._renderer = PageRenderer()
        self._pictures: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    @property
    def name(self) -> str:
        """The corpus's name."""
        return self._workspace.corpus.name

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        return list_versions(self._workspace.store, self.name)

    def search(
        self,
        query: str,
        *,
        mode: Mode = "hybrid",
        k: int = 10,
        offset: int = 0,
        filters: Filters = NO_FILTERS,
        version: str | None = None,
    ) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``, of the live version or of ``version``."""
        return self._opened(version).search(query, mode=mode, k=k, offset=offset, filters=filters)

    def answer(self, question: str, *, filters: Filters = NO_FILTERS, version: str | None = None) -> AnswerResult:
        """Answer from the live version, or from ``version``."""
        return self._opened(version).answer(question, filters=filters)

    def figure(self, figure_id: str) -> tuple[bytes, str]:
        """Return a figure's bytes and their media type."""
        try:
            return self._workspace.store.get(f"figures/{figure_id}.png"), "image/png"
        except FileNotFoundError as error:
            raise NotFoundError(f"corpus {self.name}: there is no figure {figure_id}") from error

    def page_image(
        self, doc_id: str, page: int, *, highlight: Sequence[tuple[float, float, float, float]] = (), dpi: int = 110
    ) -> bytes:
        """Return a page as PNG, the given boxes highlighted."""
        wanted = (doc_id, page, tuple(highlight), dpi)
        with self._lock:
            if wanted in self._pictures:
                self._pictures.move_to_end(wanted)
                return self._pictures[wanted]
        document, _ = self.document(doc_id)
        picture = self._renderer.render(document, page, highlight=highlight, dpi=dpi)
        with self._lock:
            self._pictures[wanted] = picture
            while len(self._pictures) > _PICTURES_KEPT:
                self._pictures.popitem(last=False)
        return picture

    def document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the original PDF and its file name."""
        try:
            data = self._workspace.store.get(f"documents/{doc_id}.pdf")
        except FileNotFoundError as error:
            raise NotFoundError(f"corpus {self.name}: there is no document {doc_id}") from error
        sources = self._opened(version).sources.get(doc_id, [f"{doc_id[:12]}.pdf"])
        return data, sources[0].rpartition("/")[2]

    def tagged_document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the copy of a PDF in which every figure's tag is written at its place, and its file name."""
        opened = self._opened(version)
        place = f"corpus {self.name}: version {opened.version}"
        if doc_id not in opened.sources:
            raise NotFoundError(f"{place} has no document {doc_id}")
        source = opened.sources[doc_id][0]
        if opened.tagged is None:
            todo = (
                f"to have them in the next, set 'tags: {{pdf: true}}' in the corpus file and run: inset refresh {self.name}"
            )
            raise NotFoundError(f"{place} was made without tagged copies; {todo}")
        if doc_id not in opened.tagged:
            raise NotFoundError(f"{place} has no tagged copy of {source}; to see why: inset quarantine {self.name}")
        name = source.rpartition("/")[2].removesuffix(".pdf")
        return self._workspace.store.get(opened.tagged[doc_id]), f"{name}.tagged.pdf"

    def overview(self) -> CorpusOverview:
        """Return what its live version holds."""
        pointer = read_pointer(self._workspace.store)
        manifest = read_manifest(self._workspace.store, pointer.version) if pointer else None
        if pointer is None or manifest is None:
            return CorpusOverview(name=self.name, problem=self._nothing_live())
        counts = manifest.counts
        sources = sorted(source for named in self._opened(pointer.version).sources.values() for source in named)
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
        )

    def ready(self) -> None:
        """Raise where no version is live."""
        self._opened(None)

    def close(self) -> None:
        """End the process that draws pages."""
        self._renderer.close()

    def _suggestions(self) -> list[str]:
        from evaluation.questions import load_questions

        if self._workspace.corpus.questions is None:
            return []
        questions = [question for question in load_questions(self._workspace.corpus.questions) if question.answerable]
        with_figures = [question.question for question in questions if question.figures]
        return with_figures[:: max(1, len(with_figures) // _SUGGESTIONS)][:_SUGGESTIONS]

    def _nothing_live(self) -> str:
        return f"corpus {self.name}: nothing is published yet; run: inset refresh {self.name}"

    def _opened(self, version: str | None) -> OpenVersion:
        if version is None:
            pointer = read_pointer(self._workspace.store)
            if pointer is None:
                raise NotFoundError(self._nothing_live())
            version = pointer.version
        with self._lock:
            if version not in self._open:
                if read_manifest(self._workspace.store, version) is None:
                    raise NotFoundError(f"corpus {self.name}: there is no version {version}")
                self._open[version] = open_version(self._workspace, version)
            self._open.move_to_end(version)
            while len(self._open) > _VERSIONS_OPEN:
                self._open.popitem(last=False)
            return self._open[version]


def open_published(name_or_path: str) -> PublishedCorpus:
    """Open the read side of a corpus by name or file."""
    return PublishedCorpus(open_workspace(name_or_path))
