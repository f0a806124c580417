"""What changed inside a document from one version to another, page by page."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal, NamedTuple

from pipeline.records.evidence import DocumentRows
from pipeline.records.ledger import document_of, indexed_sources, read_ledger
from pipeline.records.row_parts import read_digests
from schemas.base import Frozen
from schemas.errors import NotFoundError
from schemas.filters import Modality
from schemas.ports import ObjectStore


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


_Pair = tuple[int | None, int | None]
"""A page before and now; None where there is none."""


class _Row(NamedTuple):
    page: int
    modality: str
    text: str
    figure_id: str | None

    @property
    def content(self) -> tuple[str, str]:
        return self.modality, self.figure_id or self.text


_Pages = Mapping[int, list[_Row]]
"""The rows of a document by page, in reading order."""


def document_changes(store: ObjectStore, base: str, version: str, source: str) -> DocumentChanges:
    """Return what changed in a source from version ``base`` to ``version``.

    Raises:
        NotFoundError: Neither version has the source.
        TransientError: A version can't be read.
    """
    doc_before, doc_now = (document_of(source, indexed_sources(read_ledger(store, name))) for name in (base, version))
    if doc_before is None and doc_now is None:
        raise NotFoundError(f"neither version indexes {source}")
    digest_before, digest_now = (read_digests(store, name).get(doc_now or "") for name in (base, version))
    if doc_before == doc_now and digest_before == digest_now:
        return DocumentChanges(doc_before=doc_before, doc_now=doc_now, pages=[])
    pages = _changed_pages(_pages(store, base, doc_before), _pages(store, version, doc_now))
    return DocumentChanges(doc_before=doc_before, doc_now=doc_now, pages=pages)


def _pages(store: ObjectStore, version: str, doc_id: str | None) -> dict[int, list[_Row]]:
    """Return a document's rows by page, in reading order, without those of whole pages, which repeat the others."""
    pages: dict[int, list[_Row]] = {}
    for row in DocumentRows(store, version).of(doc_id, _Row._fields).to_pylist() if doc_id is not None else ():
        if row["modality"] != Modality.PAGE:
            pages.setdefault(row["page"], []).append(_Row(**row))
    return pages


def _changed_pages(pages_before: _Pages, pages_now: _Pages) -> list[ChangedPage]:
    went: list[tuple[_Pair, _Row]] = []
    came: list[tuple[_Pair, _Row]] = []
    pairs = _page_pairs(pages_before, pages_now)
    for pair in pairs:
        rows_before, rows_now = pages_before.get(pair[0] or 0, []), pages_now.get(pair[1] or 0, [])
        for before, now in _differing(_contents(rows_before), _contents(rows_now)):
            went += [(pair, row) for row in rows_before[before]]
            came += [(pair, row) for row in rows_now[now]]
    moved = Counter(row.content for _, row in went) & Counter(row.content for _, row in came)
    changes: dict[_Pair, list[ChangedRow]] = {pair: [] for pair in pairs}
    remaining = moved.copy()
    for pair, row in went:
        if remaining[row.content]:
            remaining[row.content] -= 1  # named where it stands now
        else:
            changes[pair].append(_changed(row, "went"))
    for pair, row in came:
        change: Literal["came", "moved"] = "moved" if moved[row.content] else "came"
        moved[row.content] -= change == "moved"
        changes[pair].append(_changed(row, change))
    return [ChangedPage(before=before, now=now, rows=rows) for (before, now), rows in changes.items() if rows]


def _page_pairs(pages_before: _Pages, pages_now: _Pages) -> list[_Pair]:
    """Return each page that differs with the page now in its place: between equal pages, they are paired in order."""
    contents_before, contents_now = ([_contents(rows) for rows in pages.values()] for pages in (pages_before, pages_now))
    numbers_before, numbers_now = [*pages_before], [*pages_now]
    return [
        pair
        for before, now in _differing(contents_before, contents_now)
        for pair in zip_longest(numbers_before[before], numbers_now[now])
    ]


def _contents(rows: Sequence[_Row]) -> tuple[tuple[str, str], ...]:
    return tuple(row.content for row in rows)


def _differing(before: Sequence[Hashable], now: Sequence[Hashable]) -> list[tuple[slice, slice]]:
    """Return where two sequences differ."""
    blocks = SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
    return [(slice(start, stop), slice(*of_now)) for kind, start, stop, *of_now in blocks if kind != "equal"]


def _changed(row: _Row, change: Literal["came", "went", "moved"]) -> ChangedRow:
    return ChangedRow(change=change, modality=Modality(row.modality), text=row.text, figure_id=row.figure_id)
