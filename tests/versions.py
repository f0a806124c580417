"""A version's rows in memory: read, assembled, and held to laws, as the stages do it with files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.evidence import evidence_parts
from pipeline.records.row_parts import Facts, VersionParts, by_document, new_rows, write_version_rows
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.gates import GateVerdict
from schemas.ports import ObjectStore
from schemas.tags import TagTemplate
from tasks.versions import check
from tasks.versions.assemble import DocumentChunks, make_rows, number_version, numbered_figures, with_sources

ALWAYS = ["pages", "hybrid", "dense", "bm25"]
"""The modes that every version can be searched in."""


def read_evidence(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's evidence as one table; raises as ``evidence_parts`` does."""
    return pa.concat_tables([EVIDENCE.empty_table(), *evidence_parts(store, version)])


def write_version(
    store: ObjectStore, version: str, evidence: pa.Table | None = None, placements: pa.Table | None = None
) -> dict[str, int]:
    """Write the rows of a version, and return its counts."""
    rows = VersionRows(
        EVIDENCE.empty_table() if evidence is None else evidence,
        PLACEMENTS.empty_table() if placements is None else placements,
    )
    with TemporaryTables() as tables:
        facts = Facts(store, VersionParts(), tables)
        return write_version_rows(store, version, VersionParts(), {}, set(), [new_rows(by_document(rows))], facts)


class InMemory:
    """Rows put aside in memory, all in one table."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)

    def tables(self) -> Iterator[pa.Table]:
        yield pa.concat_tables(self._tables) if self._tables else pa.table({})


def assemble(
    documents: Iterable[DocumentChunks],
    template: TagTemplate,
    digits: int,
    earlier: Sequence[VersionRows] = (),
    load: Mapping[str, DocumentChunks] | None = None,
) -> VersionRows:
    """Return the rows of a version; ``earlier`` has those of further documents, which are in ``load``."""
    new_documents, loaded = list(documents), load or {}
    aside = InMemory()
    aside.add(
        pa.table({"ending": [], "figure_id": [], "number": []}, schema=pa.schema([(name, pa.string()) for name in _NAMES]))
    )
    numbers, again = number_version(
        (numbered_figures([(one.figures, one.placements)], digits) for one in new_documents),
        lambda _endings: (rows.placements for rows in earlier),
        lambda doc_id: (loaded[doc_id].figures, loaded[doc_id].placements),
        digits,
        aside,
    )
    ordered = sorted([*new_documents, *(loaded[doc_id] for doc_id in again)], key=lambda one: one.doc_id)
    reused_rows = [
        (doc_id, with_sources(document_rows, loaded[doc_id].sources, loaded[doc_id].doc_type))
        for rows in earlier
        for doc_id, document_rows in by_document(rows.without(again))
    ]
    assembled_rows = [(document.doc_id, make_rows(document, numbers, template)) for document in ordered]
    parts = [rows for _, rows in sorted([*assembled_rows, *reused_rows], key=lambda pair: pair[0])]
    return VersionRows(
        pa.concat_tables([EVIDENCE.empty_table(), *(part.evidence for part in parts)]).combine_chunks(),
        pa.concat_tables([PLACEMENTS.empty_table(), *(part.placements for part in parts)]).combine_chunks(),
    )


_NAMES = ("ending", "figure_id", "number")


def content_conserved(
    documents: Iterable[check.DocumentContent], evidence: pa.Table, placements: pa.Table, names: check.Names
) -> list[GateVerdict]:
    law = check.ContentConserved()
    rows = VersionRows(evidence, placements)
    for document in documents:
        law.look(document, rows.of([document.doc_id]))
    return law.verdicts(names)


def tags_are_placements(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    law = check.TagsArePlacements(template)
    law.look(VersionRows(evidence, placements))
    return law.verdict(names)


def tags_resolve(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    law = check.TagsResolve(template)
    law.look(VersionRows(evidence, placements))
    return law.verdict(names)


def one_figure_a_number(placements: pa.Table, names: check.Names) -> GateVerdict:
    by_figure = check.placed_figures(placements)
    by_number = by_figure.filter(pc.is_valid(by_figure.column("number")))
    return check.one_figure_a_number([by_number], [by_figure], names)


def figures_are_their_names(placements: pa.Table, faults: Mapping[str, str | None], names: check.Names) -> GateVerdict:
    placed = check.placed_figures(placements)
    return check.figures_are_their_names([placed], lambda figures: {name: faults[name] for name in figures}, names)
