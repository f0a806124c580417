"""Rows of the index, and results of a search."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field

from schemas.base import Frozen
from schemas.documents import BBOX, CellSpan
from schemas.filters import Modality
from schemas.geometry import Box
from schemas.parquet import optional, required

STRING, INT = pa.string(), pa.int32()
_STRINGS = pa.list_(STRING)

EVIDENCE = pa.schema(
    (
        *required(
            evidence_id=STRING,
            modality=STRING,
            doc_id=STRING,
            sources=_STRINGS,
            page=INT,
            bbox=BBOX,
            regions=pa.list_(pa.struct([("page", INT), ("bbox", BBOX)])),
            order=INT,
            section_path=_STRINGS,
            title=STRING,
            text=STRING,
            tagged_text=STRING,
            figure_refs=_STRINGS,
            caption=STRING,
        ),
        *optional(
            figure_id=STRING,
            tagged_rows=pa.list_(_STRINGS),
            description=STRING,
            described_by=STRING,
            flags=_STRINGS,
            date=STRING,
            language=STRING,
            page_labels=_STRINGS,
            doc_type=STRING,
            node_id=INT,
            parent_id=INT,
            spans=pa.list_(pa.struct([(name, INT) for name in ("row", "column", "rowspan", "colspan")])),
        ),
    )
)
"""A row of the index without its vectors.

``page`` and ``bbox`` are those of the first of ``regions``, ``page_labels`` are null if a document's pages are labelled by
number. ``figure_id`` is the picture of a figure's or page's row. ``tagged_rows`` are a table's cells, header first,
``spans`` those over several columns or rows; null for none. ``description`` is a model's or person's description of a
figure or page, or a model's summary, searched in place of ``text``; ``described_by`` is its author, or ``context``,
``flags`` its doubts. ``date`` is the document's modification or creation date, such as 2024-03-31; ``language`` is ISO
639-1, else 639-3. ``doc_type`` is what ``doc_types`` of the corpus file calls the document. ``node_id`` is the row's first
leaf in the document's evidence tree (the section, for a row of headings alone), ``parent_id`` the section around it; a page
has neither.
"""


PLACEMENTS = pa.schema(
    (
        *required(
            doc_id=STRING,
            page=INT,
            order=INT,
            bbox=BBOX,
        ),
        *optional(
            figure_id=STRING,
            number=STRING,
            tag=STRING,
            ext=STRING,
            width=INT,
            height=INT,
        ),
        *required(
            kind=STRING,
            role=STRING,
            reason=STRING,
            caption=STRING,
        ),
    )
)
"""Every placement of a version, with the reason of its role."""


@dataclass(frozen=True)
class VersionRows:
    """Rows of some whole documents of a version, by document id and reading order."""

    evidence: pa.Table
    placements: pa.Table

    @classmethod
    def joined(cls, parts: "Iterable[VersionRows]") -> "VersionRows":
        """Return the rows of several, in their order; a column is one chunk, since each chunk costs where tables are sent."""
        evidence, placements = [EVIDENCE.empty_table()], [PLACEMENTS.empty_table()]
        for part in parts:
            evidence.append(part.evidence)
            placements.append(part.placements)
        return cls(pa.concat_tables(evidence).combine_chunks(), pa.concat_tables(placements).combine_chunks())

    @property
    def first(self) -> str | None:
        """The first document; None if there are no rows."""
        return min(self._at(0), default=None)

    @property
    def last(self) -> str | None:
        """The last document; None if there are no rows."""
        return max(self._at(-1), default=None)

    def _at(self, row: int) -> list[str]:
        tables = (self.evidence, self.placements)
        return [str(table.column("doc_id")[row].as_py()) for table in tables if table.num_rows]

    def split(self, doc_id: str) -> "tuple[VersionRows, VersionRows]":
        """Return the rows of the documents before one, and of all others."""
        cuts = [(table, rows_before(table, doc_id)) for table in (self.evidence, self.placements)]
        return VersionRows(*(table.slice(0, cut) for table, cut in cuts)), VersionRows(
            *(table.slice(cut) for table, cut in cuts)
        )

    def of(self, doc_ids: Iterable[str]) -> "VersionRows":
        """Return the rows of some documents."""
        id_array = pa.array(sorted(doc_ids), STRING)
        tables = (self.evidence, self.placements)
        return VersionRows(*(table.filter(pc.is_in(table.column("doc_id"), id_array)) for table in tables))

    def without(self, doc_ids: Iterable[str]) -> "VersionRows":
        """Return the rows of all other documents."""
        id_array = pa.array(sorted(doc_ids), STRING)
        tables = (self.evidence, self.placements)
        return VersionRows(*(table.filter(pc.invert(pc.is_in(table.column("doc_id"), id_array))) for table in tables))


def rows_before(table: pa.Table, doc_id: str) -> int:
    """Return the number of rows, sorted by document id, before those of one document."""
    return int(pc.less(table.column("doc_id"), pa.scalar(doc_id)).to_numpy().sum())


Links = Annotated[dict[str, str], Field(description="Paths of what belongs to it, by name.")]

HasTaggedPdf = Annotated[bool, Field(description="Whether the version has a copy of the document with its figures' tags.")]


class CitedRegion(Frozen):
    """A part of a page; ``bbox`` in points from its top left."""

    page: int
    bbox: Box
    label: str | None = Field(
        None, description="What is printed on the page, or what the PDF calls it: iv; null if that is its number."
    )

    @property
    def page_name(self) -> str:
        """How a reader finds the page: "page 6", or "page iv (PDF page 6)"."""
        return f"page {self.page}" if self.label is None else f"page {self.label} (PDF page {self.page})"


class CitedFigure(Frozen):
    """A figure of a hit at its placement, which may be pages away from the text."""

    figure_id: str
    number: str = Field(description="The number of its tag, as tagged_text has it if the figure stands there.")
    caption: str
    page: int
    bbox: Box


FieldValue = bool | float | str | list[str]

OwnFieldValues = Annotated[
    dict[str, FieldValue], Field(description="The shown fields of the corpus's own, by name, of this document.")
]

Superseded = Annotated[
    str, Field(description='"Revision 7, superseded by 9" where a newer revision replaces the document; else "".')
]

Span = tuple[int, int]


CellSpans = Annotated[
    list[CellSpan],
    Field(description="Cells over several columns or rows: where each has its text in rows, counted from 0."),
    BeforeValidator(lambda spans: spans or []),
]


InCorpus = Annotated[str, Field(description="Its corpus, where several were asked; else empty.")]


class AskedCorpus(Frozen):
    """A corpus of several that were asked: its version and preset, or the problem for which it is left out.

    ``ignored`` are fields of ``where`` that it doesn't have: it was asked without these conditions.
    """

    name: str
    version: str | None = None
    preset: str = ""
    problem: str = ""
    ignored: list[str] = []


AskedCorpora = Annotated[
    list[AskedCorpus], Field(description="Where several corpora were asked: each of them. Versions are theirs then.")
]


class Hit(Frozen):
    """A row found by a search.

    ``score``: larger is better; comparable within one answer only. ``page`` and ``bbox`` are the first of ``regions``.
    ``figures`` are those of ``figure_refs``.
    """

    evidence_id: str
    corpus: InCorpus = ""
    version: str = Field("", description="Its version, where several corpora were asked; else that of the reply.")
    score: float
    modality: Modality
    doc_id: str
    title: str = Field("", description="The document's title.")
    source: str
    page: int
    bbox: Box
    regions: list[CitedRegion]
    section_path: list[str]
    text: str
    tagged_text: str
    rows: list[list[str]] = Field(
        [], description="A table's cells as text has them, its header first; [] for what isn't a table."
    )
    tagged_rows: list[list[str]] = Field([], description="The same cells as tagged_text has them.")
    spans: CellSpans = []
    figure_refs: list[str]
    figures: list[CitedFigure] = []
    figure_id: str | None = Field(None, description="The picture that the row of a figure or page shows; null for others.")
    caption: str
    tagged_pdf: HasTaggedPdf = False
    date: str | None = Field(None, description="The day in the PDF: when it was changed last, or else made.")
    doc_type: str | None = Field(
        None, description="The document's type, as doc_types of the corpus file names it; null if none fits."
    )
    fields: OwnFieldValues = {}
    superseded: Superseded = ""
    highlights: list[Span] = Field(
        [],
        description="Where words of the question, or its phrases, stand in text: [start, end) in characters; none where the "
        "request has highlight false.",
    )
    nearest_sentence: Span | None = Field(
        None, description="The sentence of text that is nearest in meaning, if the request has highlight; [start, end)."
    )
    more: int = Field(0, description="If the request groups: further hits of the same page or document.")
    links: Links = {}

    @property
    def pages(self) -> list[int]:
        """The pages that the row stands on, in order."""
        return [region.page for region in self.regions]


class TracedRow(Frozen):
    """A row as a step ranked it."""

    evidence_id: str
    score: float


class TraceStep(Frozen):
    """One step of a search."""

    step: str = Field(description="Its name, such as retrieve: bm25.")
    asked: str = Field("", description="What it was asked: the words that it looked for.")
    candidates: int = Field(0, description="Rows, or documents, that it gave.")
    rows: list[TracedRow] = Field([], description="The best of them, best first.")
    note: str = Field("", description="What was out of the ordinary, such as a reply that couldn't be used.")
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class SearchResult(Frozen):
    """Hits, best first, and the version that they all come from."""

    version: str
    preset: str = Field(description="The name of the preset that was searched by.")
    hits: list[Hit]
    more: bool = Field(
        False, description="Whether a greater offset returns further hits; false at 200, where hits end in any case."
    )
    trace: list[TraceStep] | None = Field(None, description="What each step did, if the request asks for it.")
    corpora: AskedCorpora = []
