"""A version's rows in memory: read, assembled, and held to laws, as the stages do it with files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa

from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.evidence import evidence_parts
from pipeline.records.row_parts import Facts, VersionParts, by_document, new_rows, write_version_rows
from pipeline.stages.assemble import number_all
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.gates import GateVerdict
from schemas.ports import ObjectStore
from schemas.tags import TagTemplate
from tasks.versions import check
from tasks.versions.assemble import DocumentChunks, Pictures, TagNumbers, make_rows, numbered_figures, with_sources

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


def assemble(
    documents: Iterable[DocumentChunks],
    template: TagTemplate,
    digits: int,
    earlier: Sequence[VersionRows] = (),
    load: Mapping[str, DocumentChunks] | None = None,
) -> VersionRows:
    """Return the rows of a version; ``earlier`` has those of further documents, which are in ``load``."""
    new_documents, loaded = list(documents), load or {}
    pictures = {document.doc_id: (document.figures, document.placements) for document in (*new_documents, *loaded.values())}
    numbers, again = number([document.doc_id for document in new_documents], earlier, pictures, digits)
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


def number(
    new: Iterable[str], earlier: Iterable[VersionRows], pictures: Mapping[str, Pictures], digits: int
) -> tuple[TagNumbers, Set[str]]:
    """Number the figures of ``new`` documents and ``earlier`` rows; ``pictures`` has those of all documents."""
    figures = (numbered_figures([pictures[doc_id]]) for doc_id in new)
    with TemporaryTables() as tables:
        return number_all(tables, figures, lambda: (rows.placements for rows in earlier), pictures.__getitem__, digits)


def content_conserved(
    documents: Iterable[check.DocumentContent], evidence: pa.Table, placements: pa.Table, names: check.Names
) -> list[GateVerdict]:
    tally, rows = check.Tally(), VersionRows(evidence, placements)
    for document in documents:
        tally.look_at_content(document, rows.of([document.doc_id]))
    return [tally.verdict(law, names) for law in (check.PAGES, check.FIGURES)]


def tags_are_placements(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    tally = check.Tally()
    tally.look_at_tags(VersionRows(evidence, placements), template)
    return tally.verdict(check.PLACED_TAGS, names)


def tags_resolve(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    tally = check.Tally()
    tally.look_at_tags(VersionRows(evidence, placements), template)
    return tally.verdict(check.RESOLVED_TAGS, names)


def one_figure_a_number(placements: pa.Table, names: check.Names) -> GateVerdict:
    rows = [row for row in placements.to_pylist() if row["number"] is not None]

    def contradictory(key: str, counted: str) -> list[dict[str, Any]]:
        pairs = Counter(name for name, _ in {(row[key], row[counted]) for row in rows})
        return [row for row in rows if pairs[row[key]] > 1]

    named_twice, numbered_twice = contradictory("number", "figure_id"), contradictory("figure_id", "number")
    return check.one_figure_a_number(0, named_twice, 0, numbered_twice, names)


def figures_are_their_names(placements: pa.Table, faults: Mapping[str, str | None], names: check.Names) -> GateVerdict:
    rows = [row | {"fault": faults[row["figure_id"]]} for row in placements.to_pylist() if faults.get(row["figure_id"])]
    return check.figures_are_their_names(len(faults), rows, names)
