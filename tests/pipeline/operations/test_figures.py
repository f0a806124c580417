"""The figures of a version: filtered, paged, with what is said of each."""

from collections import Counter
from pathlib import Path

import pytest

from backends.stores import object_store
from pipeline.operations.figures import FigureSheet, figure_sheet
from schemas.documents import Role
from schemas.ports import ObjectStore
from tests.pipeline.operations.corpora import version_name, write_corpus
from tests.pipeline.operations.sheets import described, document_id, placement, write_sheet


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A store whose files hold 5 rows."""
    monkeypatch.setattr("pipeline.records.row_parts.ROWS_A_PART", 5)
    return write_corpus(folder, "pumps", versions=1)


def sheet_of(store: ObjectStore) -> FigureSheet:
    return FigureSheet(store, version_name(0))


def test_figures_are_found_by_role_caption_and_document(store: ObjectStore) -> None:
    write_sheet(
        store,
        version_name(0),
        [
            placement(1, 0),
            placement(1, 1, caption=""),
            placement(1, 2, role="icon", caption=""),
            *(placement(2, order, role="decorative", caption="", figure_id=None) for order in range(4)),
            placement(11, 0),
        ],
    )
    sheet = sheet_of(store)
    assert sheet.roles == {Role.CONTENT: 3, Role.ICON: 1, Role.DECORATIVE: 4}
    assert sheet.find().tolist() == [*range(8)]
    assert sheet.find(role=Role.CONTENT).tolist() == [0, 1, 7]
    assert sheet.find(role=Role.CONTENT, captioned=True).tolist() == [0, 7]
    assert sheet.find(captioned=False, source="1.PDF").tolist() == [1, 2]
    assert sheet.find(source="manuals/2").tolist() == [3, 4, 5, 6]
    assert sheet.find(source="no such").tolist() == []
    found = sheet.figures([2, 6, 7])
    assert [(one.source, one.page, one.role, one.figure_id is None) for one in found] == [
        ("manuals/1.pdf", 3, Role.ICON, False),
        ("manuals/2.pdf", 4, Role.DECORATIVE, True),
        ("manuals/11.pdf", 1, Role.CONTENT, False),
    ]


def test_a_figure_has_its_description_and_its_flags(store: ObjectStore) -> None:
    same = placement(1, 0)["figure_id"]
    placed = [placement(1, 0), placement(1, 1, caption=""), placement(2, 0, figure_id=same)]
    rows = [
        described(placed[0], description="A pump.", described_by="vlm", flags=["markdown", "cut_off"]),
        *(described(placement(1, order), figure_id=f"{order:064x}") for order in range(1, 9)),
        described(placed[2]),
    ]
    write_sheet(store, version_name(0), placed, rows)
    first, second, third = sheet_of(store).figures([0, 1, 2])
    assert (first.description, first.described_by) == ("A pump.", "vlm")
    assert first.flags == ["markdown", "cut off", "placed 2 times"]
    assert (second.described_by, second.flags) == (None, ["no caption"])
    assert (third.description, third.described_by, third.flags) == (None, "context", ["placed 2 times"])


def test_a_version_without_figures_has_an_empty_sheet(store: ObjectStore) -> None:
    write_sheet(store, version_name(0), [])
    sheet = sheet_of(store)
    assert (sheet.roles, sheet.find(source="x").tolist(), sheet.figures([])) == ({}, [], [])


def test_a_page_of_many_documents_reads_only_its_own_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    placed = [placement(document, order) for document in range(2_500) for order in range(4)]
    write_sheet(store, version_name(0), placed, [described(row) for row in placed])
    reads = Counter[str]()
    read = object_store.FolderStore._read

    def counted(self: object_store.FolderStore, name: str) -> bytes:
        reads[name.rpartition("/")[0].rpartition("/")[2]] += 1
        return read(self, name)

    monkeypatch.setattr(object_store.FolderStore, "_read", counted)
    sheet = figure_sheet(store, version_name(0))
    assert reads["rows"] == 2, "the placements' parts"
    reads.clear()
    numbers = sheet.find(role=Role.CONTENT)[4_000:4_060].tolist()
    found = sheet.figures(numbers)
    assert [one.doc_id for one in found[:5]] == [document_id(1000)] * 4 + [document_id(1001)]
    assert {one.described_by for one in found} == {"context"}
    assert reads["rows"] <= 3
    assert figure_sheet(store, version_name(0)) is sheet
