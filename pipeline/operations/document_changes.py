"""What changed inside a document from one version to another, page by page."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records.evidence import DocumentRows
from pipeline.records.ledger import read_fates
from pipeline.records.row_parts import read_documents
from schemas.base import Frozen
from schemas.errors import NotFoundError
from schemas.filters import Modality
from schemas.ports import ObjectStore
from schemas.versions import Status


class ChangedRow(Frozen):
    """A text, table or figure that came, went, or moved to another place of the document."""

    change: Literal["came", "went", "moved"]
    modality: Modality
    text: str
    figure_id: str | None = None


class ChangedPage(Frozen):
    """A page that changed: its number before and now, None where the document has no such page, and what changed on it."""

    before: int | None
    now: int | None
    rows: list[ChangedRow]


class DocumentChanges(Frozen):
    """The changed pages of a source, and the documents that it held; None where a version lacks it."""

    doc_before: str | None
    doc_now: str | None
    pages: list[ChangedPage]


class _Row(NamedTuple):
    page: int
    modality: str
    text: str
    figure_id: str | None

    @property
    def content(self) -> tuple[str, str]:
        return self.modality, self.figure_id or self.text


def document_changes(store: ObjectStore, base: str, version: str, source: str) -> DocumentChanges:
    """Return what changed in a source from version ``base`` to ``version``.

    Raises:
        NotFoundError: Neither version has the source.
        TransientError: A version can't be read.
    """
    doc_before, doc_now = (_document_of(store, name, source) for name in (base, version))
    if doc_before is None and doc_now is None:
        raise NotFoundError(f"neither version indexes {source}")
    facts_before, facts_now = (
        read_documents(store, base).get(doc_before or ""),
        read_documents(store, version).get(doc_now or ""),
    )
    if facts_before and facts_now and facts_before.digest == facts_now.digest and doc_before == doc_now:
        return DocumentChanges(doc_before=doc_before, doc_now=doc_now, pages=[])
    rows_before, rows_now = _differing(_rows(store, base, doc_before), _rows(store, version, doc_now))
    return DocumentChanges(doc_before=doc_before, doc_now=doc_now, pages=_changed_pages(rows_before, rows_now))


def _document_of(store: ObjectStore, version: str, source: str) -> str | None:
    fates = read_fates(store, version)
    is_source = pc.equal(fates.column("source"), pa.scalar(source))
    is_indexed = pc.equal(fates.column("status"), pa.scalar(str(Status.INDEXED)))
    doc_ids = fates.filter(pc.and_(is_source, is_indexed)).column("doc_id").to_pylist()
    return doc_ids[0] if doc_ids else None


def _rows(store: ObjectStore, version: str, doc_id: str | None) -> list[_Row]:
    """Return a document's rows in reading order, without those of whole pages, which repeat the others."""
    if doc_id is None:
        return []
    rows = DocumentRows(store, version).of(doc_id, _Row._fields).to_pylist()
    return [_Row(**row) for row in rows if row["modality"] != Modality.PAGE]


def _differing(rows_before: Sequence[_Row], rows_now: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Return the rows from the first page that differs to the last one."""
    pages_before, pages_now = (
        [[*rows] for _, rows in groupby(each, attrgetter("page"))] for each in (rows_before, rows_now)
    )
    for last in (0, -1):
        while pages_before and pages_now and _contents(pages_before[last]) == _contents(pages_now[last]):
            pages_before.pop(last)
            pages_now.pop(last)
    return [*chain(*pages_before)], [*chain(*pages_now)]


def _contents(rows: Sequence[_Row]) -> list[tuple[str, str]]:
    return [row.content for row in rows]


def _changed_pages(rows_before: Sequence[_Row], rows_now: Sequence[_Row]) -> list[ChangedPage]:
    contents_before, contents_now = _contents(rows_before), _contents(rows_now)
    blocks = SequenceMatcher(None, contents_before, contents_now, autojunk=False).get_opcodes()
    pairs = _page_pairs(rows_before, rows_now, blocks)
    partners = {now: before for before, now in pairs.items() if before is not None and now is not None}
    went = [row for kind, start, stop, _, _ in blocks if kind != "equal" for row in rows_before[start:stop]]
    came = [row for kind, _, _, start, stop in blocks if kind != "equal" for row in rows_now[start:stop]]
    moved = Counter(row.content for row in went) & Counter(row.content for row in came)
    changes: dict[tuple[int | None, int | None], list[ChangedRow]] = {}
    remaining = moved.copy()
    for row in went:
        if remaining[row.content]:
            remaining[row.content] -= 1  # named where it stands now
        else:
            changes.setdefault((row.page, pairs.get(row.page)), []).append(_changed(row, "went"))
    for row in came:
        change: Literal["came", "moved"] = "moved" if moved[row.content] else "came"
        moved[row.content] -= change == "moved"
        changes.setdefault((partners.get(row.page), row.page), []).append(_changed(row, change))
    order = sorted(changes, key=lambda pages: (pages[1] or pages[0] or 0, pages[0] or 0))
    return [ChangedPage(before=before, now=now, rows=changes[before, now]) for before, now in order]


def _page_pairs(
    rows_before: Sequence[_Row], rows_now: Sequence[_Row], blocks: Sequence[tuple[str, int, int, int, int]]
) -> dict[int, int | None]:
    """Return the page now of each page before: the one with most of its rows, else the next one without a page before."""
    shared: Counter[tuple[int, int]] = Counter()
    for kind, start, stop, start_now, stop_now in blocks:
        if kind == "equal":
            rows = zip(rows_before[start:stop], rows_now[start_now:stop_now], strict=True)
            shared.update((before.page, now.page) for before, now in rows)
    pairs: dict[int, int | None] = {}
    for (before, now), _ in shared.most_common():
        if before not in pairs and now not in pairs.values():
            pairs[before] = now
    for kind, start, stop, start_now, stop_now in blocks:
        if kind == "replace":
            pages_before = [page for page in _pages(rows_before[start:stop]) if page not in pairs]
            pages_now = [page for page in _pages(rows_now[start_now:stop_now]) if page not in pairs.values()]
            pairs |= {before: now for before, now in zip_longest(pages_before, pages_now) if before is not None}
    return pairs


def _pages(rows: Sequence[_Row]) -> list[int]:
    return list(dict.fromkeys(row.page for row in rows))


def _changed(row: _Row, change: Literal["came", "went", "moved"]) -> ChangedRow:
    return ChangedRow(change=change, modality=Modality(row.modality), text=row.text, figure_id=row.figure_id)
