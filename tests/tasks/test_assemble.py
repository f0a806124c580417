"""Rows of a version: which placement a tag in running text speaks of."""

from schemas.documents import Chunk, Figure, Kind, Placement, Region, Role
from schemas.evidence import Modality
from schemas.geometry import BBox
from schemas.tags import TagTemplate, placeholder
from tasks.assemble import DocumentPieces, assemble

ICON = "ab" * 32
TEMPLATE = TagTemplate("<image:{number}.{ext}|{doc}|{title}|{page}|{bbox}|{kind}|{role}|{width}x{height}>")
FIGURE = Figure(ICON, f"{42:040x}", 16, 12, "png")


def _placement(order: int, page: int, left: float) -> Placement:
    return Placement(page, order, BBox(left, 100.4, left + 10, 110), ICON, Kind.RASTER, Role.ICON, "stands in a line")


def _chunk(order: int, modality: Modality, page: int, box: BBox, icons: int) -> Chunk:
    text = "Press " + " then ".join([placeholder(ICON)] * icons)
    return Chunk(order, modality, (Region(page, box),), (), "Press", text, (ICON,))


def _tag(page: int, left: int) -> str:
    return f"<image:00000042.png|d0d0d0d0d0d0|Pump%20P-200|{page}|{left},100,{left + 10},110|raster|icon|16x12>"


def test_a_tag_tells_the_placement_it_stands_for() -> None:
    document = DocumentPieces(
        doc_id="d0" * 32,
        title="Pump P-200",
        sources=("pump.pdf",),
        chunks=[
            _chunk(0, Modality.TEXT, 1, BBox(0, 90, 300, 120), 2),
            _chunk(1, Modality.TABLE, 2, BBox(0, 90, 300, 120), 1),
            _chunk(2, Modality.FIGURE, 1, BBox(50, 100.4, 60, 110), 1),
        ],
        figures=[FIGURE],
        placements=[_placement(0, 1, 20), _placement(1, 1, 50), _placement(2, 2, 20)],
        captions={},
    )
    made = assemble([document], TEMPLATE, 8)
    assert made.evidence.column("tagged_text").to_pylist() == [
        f"Press {_tag(1, 20)} then {_tag(1, 50)}",
        f"Press {_tag(2, 20)}",
        f"Press {_tag(1, 50)}",
    ]
    assert made.placements.column("tag").to_pylist() == [_tag(1, 20), _tag(1, 50), _tag(2, 20)]
