"""One version, opened for reading."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.models import Embedders
from pipeline.corpus.workspace import Workspace
from pipeline.records.evidence import read_placements
from pipeline.records.inventory import check_index_files
from pipeline.records.ledger import read_ledger
from pipeline.records.publication import read_manifest
from pipeline.records.tagged import tagged_copies
from schemas.corpus import Corpus, TagOptions
from schemas.errors import NotFoundError
from schemas.evidence import AnswerResult, CitedRegion, Filters, Hit, SearchResult
from schemas.ports import Embedder, SearchIndex
from schemas.tags import TagTemplate
from schemas.versions import Counts, Status
from tasks.answering.answer import answer, least_similarity
from tasks.answering.localise import localise
from tasks.answering.modes import DEFAULT_MODE, mode_named
from tasks.answering.retrieve import POOL, retrieve
from tasks.enriching.spaces import TEXT

NEARNESS = TEXT
"""The space in which a passage must be near enough to a question to answer it."""


@dataclass(frozen=True)
class OpenVersion:
    """One version, opened for reading; everything it says comes from this version alone.

    ``asked`` gives the settings that a question is put with: ranking and answers, which are no part of a version.
    """

    workspace: Workspace
    version: str
    index: SearchIndex
    asked: Callable[[], Corpus]
    embedders: Mapping[str, Embedder]
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
        hits = []
        if (least := least_similarity(near.values(), options)) is not None:
            found = self.search(question, mode=DEFAULT_MODE.name, k=options.passages * 3, filters=filters).hits
            hits = [hit for hit in found if near.get(hit.evidence_id, 0.0) >= least]
        return answer(self.version, hits, self.template, passages=options.passages)

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
        cells = row.get("tagged_rows") or []
        regions = [CitedRegion.model_validate(region) for region in row["regions"]]
        return Hit.model_validate(
            fields
            | {
                "score": score,
                "rows": [[self.template.without(cell) for cell in line] for line in cells],
                "tagged_rows": cells,
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
    spaces, tags, counts = workspace.spaces, workspace.corpus.tags, Counts()
    if manifest is not None:
        counts = manifest.counts
        spaces, tags = manifest.spaces, TagOptions.model_validate(manifest.parameters.get("tags", {}))
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
        embedders=Embedders(spaces),
        template=TagTemplate(tags.template),
        counts=counts,
        sources=sources,
        tagged=tagged_copies(workspace.store, version),
    )
