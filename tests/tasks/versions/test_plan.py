"""Comparing a source with a ledger."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FailureCode
from schemas.versions import LedgerRow, SourceFile, Status
from tasks.versions.plan import compare, cut_shards


def _row(source: str, doc_id: str, *, stamp: str = "1", status: Status = Status.INDEXED) -> LedgerRow:
    code = FailureCode.NEEDS_PASSWORD if status is Status.QUARANTINED else None
    return LedgerRow(source=source, doc_id=doc_id, size=10, stamp=stamp, status=status, attempt="k1", code=code)


def _file(source: str, stamp: str = "1") -> SourceFile:
    return SourceFile(source=source, size=10, stamp=stamp)


def _never(source: str) -> tuple[str, int]:
    raise AssertionError(f"{source} was read")


def test_an_unchanged_source_is_not_read() -> None:
    comparison = compare([_file("a.pdf")], [_row("a.pdf", "A")], attempt="k1", digest=_never)
    assert comparison.kept == ["a.pdf"]
    assert [document.doc_id for document in comparison.documents] == ["A"]


def test_new_changed_touched_and_gone_sources_are_told_apart() -> None:
    listed = [_file("changed.pdf", "2"), _file("new.pdf"), _file("touched.pdf", "2")]
    ledger = [_row("changed.pdf", "old"), _row("gone.pdf", "G"), _row("touched.pdf", "T")]
    digests = {"changed.pdf": ("C", 9), "new.pdf": ("N", 9), "touched.pdf": ("T", 10)}
    comparison = compare(listed, ledger, attempt="k1", digest=digests.__getitem__)
    assert (comparison.new, comparison.changed, comparison.gone, comparison.kept) == (
        ["new.pdf"],
        ["changed.pdf"],
        ["gone.pdf"],
        ["touched.pdf"],
    )


def test_a_listing_without_sizes_is_believed_by_its_stamps() -> None:
    listed = [SourceFile("new.html", None, "2024-03-31"), SourceFile("old.html", None, "1")]
    comparison = compare(listed, [_row("old.html", "O")], attempt="k1", digest={"new.html": ("N", 7)}.__getitem__)
    assert [(document.source, document.size) for document in comparison.documents] == [("new.html", 7), ("old.html", 10)]


def test_a_quarantined_document_is_tried_again_only_when_something_changed() -> None:
    ledger = [_row("a.pdf", "A", status=Status.QUARANTINED)]
    listed = [_file("a.pdf")]
    assert compare(listed, ledger, attempt="k1", digest=_never).carried[0].doc_id == "A"
    assert compare(listed, ledger, attempt="k2", digest=_never).carried == []
    assert compare(listed, ledger, attempt="k1", digest=_never, retry=frozenset("A")).carried == []
    assert compare([_file("a.pdf", "2")], ledger, attempt="k1", digest=lambda _: ("B", 10)).carried == []


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 10_000), max_size=50), st.integers(1, 5_000))
def test_shards_hold_every_document_once_and_are_balanced(sizes: dict[str, int], shard_bytes: int) -> None:
    shards = cut_shards(sizes, shard_bytes)
    assert sorted(doc_id for shard in shards for doc_id in shard) == sorted(sizes)
    assert shards == cut_shards(dict(reversed(sizes.items())), shard_bytes)
    loads = [sum(sizes[doc_id] for doc_id in shard) for shard in shards]
    assert not loads or max(loads) - min(loads) <= max(sizes.values())
