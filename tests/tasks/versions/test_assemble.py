"""Rows of a version: which placement a tag in running text speaks of, and what of them an earlier version had already."""

from collections.abc import Set
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from schemas.documents import Chunk, Figure, Kind, Node, NodeKind, Placement, Region, Role
from schemas.evidence import VersionRows
from schemas.filters import Modality
from schemas.geometry import BBox
from schemas.parquet import from_parquet, to_parquet
from schemas.tags import TagTemplate, placeholder
from tasks.versions.assemble import DocumentChunks
from tests.versions import assemble, number

ICON = "ab" * 32
TEMPLATE = TagTemplate("<image:{number}.{ext}|{doc}|{title}|{page}|{bbox}|{kind}|{role}|{width}x{height}>")
FIGURE = Figure(ICON, f"{42:040x}", 16, 12, "png")


def _placement(order: int, page: int, left_x: float) -> Placement:
    return Placement(page, order, BBox(left_x, 100.4, left_x + 10, 110), ICON, Kind.RASTER, Role.ICON, "stands in a line")


def _chunk(order: int, modality: Modality, page: int, box: BBox, icons: int) -> Chunk:
    text = "Press " + " then ".join([placeholder(ICON)] * icons)
    return Chunk(order, modality, (Region(page, box),), (), "Press", text, (ICON,))


def _tag(page: int, left_x: int) -> str:
    return f"<image:00000042.png|d0d0d0d0d0d0|Pump%20P-200|{page}|{left_x},100,{left_x + 10},110|raster|icon|16x12>"


def test_a_tag_tells_the_placement_it_stands_for() -> None:
    document = DocumentChunks(
        doc_id="d0" * 32,
        title="Pump P-200",
        sources=("pump.pdf",),
        chunks=[
            _chunk(0, Modality.TEXT, 1, BBox(0, 90, 300, 120), 2),
            _chunk(1, Modality.TABLE, 2, BBox(0, 90, 300, 120), 1),
            replace(_chunk(2, Modality.FIGURE, 1, BBox(50, 100.4, 60, 110), 1), placement=1),
        ],
        figures=[FIGURE],
        placements=[_placement(0, 1, 20), _placement(1, 1, 50), _placement(2, 2, 20)],
        captions={},
    )
    assembled = assemble([document], TEMPLATE, 8)
    assert assembled.evidence.column("tagged_text").to_pylist() == [
        f"Press {_tag(1, 20)} then {_tag(1, 50)}",
        f"Press {_tag(2, 20)}",
        f"Press {_tag(1, 50)}",
    ]
    assert assembled.placements.column("tag").to_pylist() == [_tag(1, 20), _tag(1, 50), _tag(2, 20)]


def test_cells_have_the_tags_of_the_text_that_they_are_of() -> None:
    cell = f"turn {placeholder(ICON)}"
    table = Chunk(
        order=0,
        modality=Modality.TABLE,
        regions=(Region(1, BBox(0, 90, 300, 120)),),
        section_path=(),
        text="",
        tagged_text=f"Keys {placeholder(ICON)}\n| Key | {cell} |\n| --- | --- |\n| {cell} | |",
        figure_refs=(ICON,),
        rows=(("Key", cell), (cell, "")),
    )
    document = DocumentChunks(
        doc_id="d0" * 32,
        title="Pump P-200",
        sources=("pump.pdf",),
        chunks=[table, _chunk(1, Modality.TEXT, 2, BBox(0, 90, 300, 120), 1)],
        figures=[FIGURE],
        placements=[_placement(0, 1, 20), _placement(1, 1, 50), _placement(2, 1, 80), _placement(3, 2, 20)],
        captions={},
    )
    rows = assemble([document], TEMPLATE, 8).evidence
    assert rows.column("tagged_rows").to_pylist() == [
        [["Key", f"turn {_tag(1, 50)}"], [f"turn {_tag(1, 80)}", ""]],
        None,
    ]


def test_no_two_rows_share_an_id_though_they_say_the_same() -> None:
    box = BBox(0, 90, 300, 120)
    document = DocumentChunks(
        doc_id="d0" * 32,
        title="Pump P-200",
        sources=("pump.pdf",),
        # Two parts of one table that hold pictures alone, and the rows of both pictures, which stand in one cell.
        chunks=[
            _chunk(0, Modality.TABLE, 1, box, 1),
            _chunk(0, Modality.TABLE, 1, box, 1),
            replace(_chunk(0, Modality.FIGURE, 1, box, 1), placement=0),
            replace(_chunk(0, Modality.FIGURE, 1, box, 1), placement=1),
        ],
        figures=[FIGURE],
        placements=[_placement(0, 1, 20), _placement(1, 1, 50)],
        captions={},
    )
    rows = assemble([document], TEMPLATE, 8).evidence
    assert len(set(rows.column("evidence_id").to_pylist())) == 4
    assert rows.column("tagged_text").to_pylist()[2:] == [f"Press {_tag(1, 20)}", f"Press {_tag(1, 50)}"]


DIGITS = 4
SHA1 = (1, 10_001, 20_001, 110_001, 2, 3)
"""Of figures that share their number, by four digits or five, with some of the others, or with none."""


def _document(number: int, figures: tuple[int, ...]) -> DocumentChunks:
    names = [f"{figure:064x}" for figure in figures]
    return DocumentChunks(
        doc_id=f"{number:064x}",
        title=f"Manual {number}",
        sources=(f"{number}.pdf",),
        chunks=[
            Chunk(order, Modality.TEXT, (Region(1, BBox(0, 0, 9, 9)),), (), f"Part {order}", placeholder(name), (name,))
            for order, name in enumerate(names)
        ],
        figures=[Figure(name, f"{SHA1[figure]:040x}", 16, 12, "png") for name, figure in zip(names, figures, strict=True)],
        placements=[
            Placement(1, order, BBox(order, 0, order + 1, 1), name, Kind.RASTER, Role.CONTENT, "")
            for order, name in enumerate(names)
        ],
        captions={},
    )


def _kept(table: pa.Table, doc_ids: list[str]) -> pa.Table:
    table = from_parquet(to_parquet(table)).cast(table.schema)
    return table.filter(pc.is_in(table.column("doc_id"), pa.array(doc_ids, pa.string())))


def _bytes(assembled: VersionRows) -> tuple[bytes, bytes]:
    return to_parquet(assembled.evidence), to_parquet(assembled.placements)


_FIGURES = st.lists(st.integers(0, len(SHA1) - 1), unique=True, max_size=3).map(tuple)


@given(st.lists(st.tuples(_FIGURES, st.sampled_from(["before", "now", "both"])), max_size=6))
def test_taking_over_rows_gives_what_making_all_of_them_gives(
    drawn: list[tuple[tuple[int, ...], str]],
) -> None:
    documents = [_document(number, figures) for number, (figures, _) in enumerate(drawn)]
    whens = [moment for _, moment in drawn]
    before = assemble(
        [document for document, moment in zip(documents, whens, strict=True) if moment != "now"], TagTemplate(), DIGITS
    )
    in_both = {document.doc_id: document for document, moment in zip(documents, whens, strict=True) if moment == "both"}
    new_documents = [document for document, moment in zip(documents, whens, strict=True) if moment == "now"]
    # In two parts, so that documents come before, between and behind what is taken over.
    halves = [doc_id for doc_id in in_both if doc_id <= f"{2:064x}"], [doc_id for doc_id in in_both if doc_id > f"{2:064x}"]
    earlier = [VersionRows(_kept(before.evidence, half), _kept(before.placements, half)) for half in halves]
    taken_over = assemble(new_documents, TagTemplate(), DIGITS, earlier, in_both)
    assert _bytes(taken_over) == _bytes(assemble([*new_documents, *in_both.values()], TagTemplate(), DIGITS))


def test_only_documents_with_a_figure_of_another_number_are_made_again() -> None:
    first, second, third = _document(1, (0,)), _document(2, (1,)), _document(3, (3,))
    before = assemble([first, second], TagTemplate(), DIGITS)

    def again(*fresh: DocumentChunks) -> Set[str]:
        pictures = {document.doc_id: (document.figures, document.placements) for document in (first, second, *fresh)}
        return number([document.doc_id for document in fresh], [before], pictures, DIGITS)[1]

    assert before.placements.column("number").to_pylist() == ["00001", "10001"]
    assert again() == set(), "they share a number, and did before"
    assert again(_document(4, (4,))) == set()
    assert again(third) == {second.doc_id}, "10001 and 110001 share five digits"


def test_rows_that_are_taken_over_name_the_sources_and_the_type_of_now() -> None:
    document = replace(_document(1, (0,)), doc_type="draft")
    assembled = assemble([document], TagTemplate(), DIGITS)
    assert assembled.evidence.column("doc_type").to_pylist() == ["draft"]
    moved = {document.doc_id: replace(document, sources=("new/1.pdf", "old/1.pdf"), doc_type="manual")}
    rows = assemble([], TagTemplate(), DIGITS, [assembled], moved).evidence.to_pylist()
    assert [(row["sources"], row["doc_type"]) for row in rows] == [(["new/1.pdf", "old/1.pdf"], "manual")]


def test_rows_name_their_leaf_in_the_evidence_tree_and_its_section() -> None:
    box = BBox(0, 90, 300, 120)
    tree = [
        Node(1, None, NodeKind.SECTION, "Pumps", 1, box, 0),
        Node(2, 1, NodeKind.SECTION, "Filters", 1, box, 1),
        Node(3, 2, NodeKind.TEXT, "", 1, box, 2),
        Node(4, 2, NodeKind.IMAGE, "Fig. 1", 1, box, 4, ICON),
        Node(5, 2, NodeKind.TABLE, "", 1, box, 5),
        Node(6, 1, NodeKind.SECTION, "Hoses", 1, box, 6),
        Node(7, 6, NodeKind.TABLE, "", 1, box, 7),
    ]
    chunks = [
        _chunk(0, Modality.TEXT, 1, box, 0),
        _chunk(4, Modality.TEXT, 1, box, 1),
        replace(_chunk(4, Modality.FIGURE, 1, box, 1), placement=0, figure_id=ICON),
        _chunk(5, Modality.TABLE, 1, box, 0),
        _chunk(6, Modality.TEXT, 1, box, 0),
        replace(_chunk(0, Modality.PAGE, 1, box, 0), figure_id="f0" * 32),
    ]
    document = DocumentChunks("d0" * 32, "Pump", ("p.pdf",), chunks, [FIGURE], [_placement(0, 1, 20)], {}, tree=tree)
    rows = assemble([document], TEMPLATE, 8).evidence.to_pylist()
    assert [(row["node_id"], row["parent_id"]) for row in rows] == [(3, 2), (4, 2), (4, 2), (5, 2), (6, 1), (None, None)]
