"""What a version's diff says is read from what both versions left in the store."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from backends.stores.object_store import open_store
from pipeline.records import differences
from pipeline.records.differences import write_diff
from pipeline.records.ledger import write_ledger
from pipeline.records.manifests import manifest_name
from schemas.evidence import PLACEMENTS
from schemas.ids import sha256, version_file
from schemas.parquet import Rows
from schemas.ports import ObjectStore
from schemas.reports import VersionDiff
from schemas.versions import Counts, LedgerRow, Manifest, Status
from tests.versions import write_version

FIRST, SECOND = "20260101T000000Z-00000000", "20260102T000000Z-00000000"
A, B, C = sorted(sha256(name) for name in (b"a", b"b", b"c"))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """Return an empty store."""
    return open_store(str(tmp_path))


def _version(
    store: ObjectStore, version: str, parent: str | None, sources: dict[str, str], figures: Iterable[tuple[str, str, int]]
) -> Manifest:
    """Write a version of sources by name, and of figures by document and page."""
    ledger = [LedgerRow(name, doc_id, 1, "1", Status.INDEXED, "k", 1) for name, doc_id in sorted(sources.items())]
    write_ledger(store, version, Rows.of(LedgerRow, ledger))
    rows = [
        {
            "doc_id": doc_id,
            "page": page,
            "order": order,
            "bbox": [0, 0, 1, 1],
            "figure_id": figure,
            "number": "7",
            "tag": f"<image:{figure}>",
            "kind": "raster",
            "role": "content",
            "reason": "",
            "caption": "",
        }
        for order, (figure, doc_id, page) in enumerate(figures)
    ]
    write_version(store, version, placements=pa.Table.from_pylist(rows, schema=PLACEMENTS).sort_by("doc_id"))
    manifest = Manifest(
        version=version,
        corpus="manuals",
        fingerprint="f",
        parent=parent,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        run_id="r",
        code_version="1",
        keys={},
        models={},
        spaces={},
        parameters={},
        counts=Counts(),
        collection="c",
    )
    store.put(manifest_name(version), manifest.model_dump_json().encode())
    return manifest


def _diff(store: ObjectStore, manifest: Manifest) -> VersionDiff:
    write_diff(store, manifest)
    return VersionDiff.model_validate_json(store.get(version_file(manifest.version, "diff.json")))


def test_a_figure_is_named_by_the_first_source_of_the_document_that_it_stands_in_first(store: ObjectStore) -> None:
    _version(store, FIRST, None, {"a.pdf": A, "copy.pdf": B, "b.pdf": B}, [("kept", A, 1), ("gone", B, 2)])
    figures = [("kept", A, 1), ("new", B, 3), ("new", C, 1), ("strange", "f" * 64, 9)]
    difference = _diff(store, _version(store, SECOND, FIRST, {"z.pdf": B, "c.pdf": C, "y.pdf": B, "a.pdf": A}, figures))
    gained = [(figure.figure_id, figure.source, figure.page) for figure in difference.figures_gained]
    assert gained == [("strange", "f" * 64, 9), ("new", "y.pdf", 3)]
    assert [(figure.figure_id, figure.source) for figure in difference.figures_lost] == [("gone", "b.pdf")]
    assert (difference.documents.added, difference.documents.removed) == (
        ["c.pdf", "y.pdf", "z.pdf"],
        ["b.pdf", "copy.pdf"],
    )


def test_of_very_many_figures_the_first_are_named(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "FIGURES_NAMED", 2)
    figures = [("last", A, 9), ("again", A, 2), ("again", B, 1), ("first", A, 1)]
    difference = _diff(store, _version(store, FIRST, None, {"a.pdf": A, "b.pdf": B}, figures))
    named = [(figure.figure_id, figure.source, figure.page) for figure in difference.figures_gained]
    assert (named, difference.more_figures_gained) == ([("first", "a.pdf", 1), ("again", "a.pdf", 2)], 1)


def test_versions_without_figures_differ_in_documents(store: ObjectStore) -> None:
    _version(store, FIRST, None, {"a.pdf": A}, [])
    difference = _diff(store, _version(store, SECOND, FIRST, {"a.pdf": B}, []))
    assert (difference.documents.changed, difference.figures_gained, difference.figures_lost) == (["a.pdf"], [], [])


def test_where_the_parent_can_not_be_read_all_is_new(store: ObjectStore) -> None:
    _version(store, FIRST, None, {"a.pdf": A}, [("kept", A, 1)])
    store.delete(version_file(FIRST, "ledger.parquet"))
    difference = _diff(store, _version(store, SECOND, FIRST, {"a.pdf": A}, [("kept", A, 1)]))
    assert (difference.base, difference.documents.added, len(difference.figures_gained)) == (None, ["a.pdf"], 1)
