"""A version's rows in memory: read, assembled, and held to laws, as the stages do it with files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records.evidence import evidence_parts
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.ports import ObjectStore
from schemas.tags import TagTemplate
from schemas.violations import GateVerdict
from tasks.versions import check
from tasks.versions.assemble import DocumentChunks, make_rows, merge, number_version, taken_from

ALWAYS = ["pages", "hybrid", "dense", "bm25"]
"""The modes that every version can be searched in."""


def read_evidence(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's evidence as one table; raises as ``evidence_parts`` does."""
    return pa.concat_tables([EVIDENCE.empty_table(), *evidence_parts(store, version)])


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
    fresh, known = list(documents), load or {}
    aside = InMemory()
    aside.add(
        pa.table({"ending": [], "figure_id": [], "number": []}, schema=pa.schema([(name, pa.string()) for name in _NAMES]))
    )
    numbers, again = number_version(
        ((one.figures, one.placements) for one in fresh),
        lambda: (rows.placements for rows in earlier),
        lambda doc_id: (known[doc_id].figures, known[doc_id].placements),
        digits,
        aside,
    )
    ordered = sorted([*fresh, *(known[doc_id] for doc_id in again)], key=lambda one: one.doc_id)
    sources = {doc_id: one.sources for doc_id, one in known.items()}
    doc_types = {one.sources: one.doc_type for one in known.values()}
    taken = taken_from(earlier, sources, again, lambda named: doc_types[tuple(named)])
    parts = list(merge(make_rows(ordered, numbers, template), taken))
    return VersionRows(
        pa.concat_tables([EVIDENCE.empty_table(), *(part.evidence for part in parts)]).combine_chunks(),
        pa.concat_tables([PLACEMENTS.empty_table(), *(part.placements for part in parts)]).combine_chunks(),
    )


_NAMES = ("ending", "figure_id", "number")


def content_conserved(
    documents: Iterable[check.DocumentContent], evidence: pa.Table, placements: pa.Table, names: check.Names
) -> list[GateVerdict]:
    law = check.ContentConserved()
    law.look(documents, VersionRows(evidence, placements))
    return law.verdicts(names)


def taken_over(
    earlier_evidence: pa.Table, earlier_placements: pa.Table, evidence: pa.Table, placements: pa.Table, names: check.Names
) -> GateVerdict:
    law = check.ReusedRows()
    law.expect(VersionRows(earlier_evidence, earlier_placements))
    law.look(VersionRows(evidence, placements))
    return law.verdict(names)


def tags_are_placements(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    law = check.TagsArePlacements(template)
    law.look(VersionRows(evidence, placements))
    return law.verdict(names)


def tags_resolve(evidence: pa.Table, placements: pa.Table, template: TagTemplate, names: check.Names) -> GateVerdict:
    law = check.TagsResolve(template)
    law.look(VersionRows(evidence, placements))
    return law.verdict(names)


def one_figure_a_number(placements: pa.Table, names: check.Names) -> GateVerdict:
    by_figure = check.placed_figures(placements, ())
    by_number = by_figure.filter(pc.is_valid(by_figure.column("number")))
    return check.one_figure_a_number([by_number], [by_figure], names)


def figures_are_their_names(
    placements: pa.Table, load: Callable[[str], bytes], names: check.Names, *, verified: Collection[str] | Set[str] = ()
) -> GateVerdict:
    """Judge; ``verified`` are documents whose figures were looked at before."""
    return check.figures_are_their_names([check.placed_figures(placements, verified)], load, names)
