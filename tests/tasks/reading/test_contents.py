"""The evidence tree, and its printed form."""

from schemas.documents import (
    Block,
    BlockKind,
    FoundBy,
    Kind,
    Node,
    NodeKind,
    Page,
    PlacedFigure,
    Placement,
    Role,
    StructuredDocument,
    TableOnPage,
)
from schemas.geometry import BBox
from schemas.parquet import from_parquet, rows_of, table_of, to_parquet
from schemas.tags import escape, placeholder
from tasks.reading.contents import build_tree, print_contents

BOX = BBox(10, 10, 100, 50)
FIGURE = "ab" * 32


def _block(order: int, text: str, kind: BlockKind = BlockKind.TEXT, path: str = "", **fields: object) -> Block:
    section = tuple(path.split("/")) if path else ()
    return Block(order=order, page=1, kind=kind, bbox=BOX, text=text, section_path=section, **fields)  # type: ignore[arg-type]


def _figure(order: int, block: int, caption: str, role: Role = Role.CONTENT) -> PlacedFigure:
    return PlacedFigure(Placement(1, order, BOX, FIGURE, Kind.RASTER, role, ""), caption, (), "", block)


def _heading(order: int, path: str) -> Block:
    return _block(order, path.rsplit("/", maxsplit=1)[-1], BlockKind.HEADING, path)


def _document(*blocks: Block, figures: tuple[PlacedFigure, ...] = ()) -> StructuredDocument:
    return StructuredDocument("d", "Manual", (Page(1, 595, 842, 0, 100),), blocks, figures)


def _manual() -> StructuredDocument:
    table = "Table 1: Torques\n| Part | Nm |\n| --- | --- |\n| Cover | 40 |"
    rows = (("Part", "Nm"), ("Cover", "40"))
    return _document(
        _block(0, "P-200 manual", BlockKind.MARGIN),
        _block(1, "Before everything."),
        _heading(2, "Service"),
        _block(3, "Stop the pump.", path="Service"),
        _heading(4, "Service/Filter"),
        _block(5, placeholder(FIGURE), BlockKind.FIGURE, "Service/Filter", placement=0),
        _block(6, "Figure 1: The\nfilter", BlockKind.CAPTION, "Service/Filter", placement=0),
        _block(7, table, BlockKind.TABLE, "Service/Filter", rows=rows, parts=(TableOnPage(1, BOX, 2, FoundBy.RULED),)),
        _heading(8, "Storage"),
        _block(9, placeholder(FIGURE), BlockKind.FIGURE, "Storage", placement=1),
        figures=(_figure(0, 5, "Figure 1: The\nfilter"), _figure(1, 9, "")),
    )


def test_the_contents_are_indented_and_name_tables_images_and_nodes() -> None:
    assert print_contents(build_tree(_manual())).splitlines() == [
        "- Service [2]",
        "  - Filter [4]",
        "    - [image] Figure 1: The filter [5]",
        "    - [table] Table 1: Torques [6]",
        "- Storage [7]",
        "  - [image] without a caption, page 1 [8]",
    ]


def test_leaves_are_in_reading_order_below_their_sections() -> None:
    tree = build_tree(_manual())
    leaves = [(node.kind, node.block, node.parent_id) for node in tree if node.kind is not NodeKind.SECTION]
    assert leaves == [
        (NodeKind.TEXT, 1, None),
        (NodeKind.TEXT, 3, 2),
        (NodeKind.IMAGE, 5, 4),
        (NodeKind.TABLE, 7, 4),
        (NodeKind.IMAGE, 9, 7),
    ]
    assert [node.node_id for node in tree] == list(range(1, 9))
    assert tree[4].figure_id == FIGURE


def test_the_tree_survives_parquet() -> None:
    tree = tuple(build_tree(_manual()))
    assert rows_of(Node, from_parquet(to_parquet(table_of(Node, tree)))) == tree


def test_sections_of_the_same_name_are_two() -> None:
    document = _document(
        _heading(0, "Service"),
        _heading(1, "Service/Note"),
        _block(2, "One.", path="Service/Note"),
        _heading(3, "Service/Note"),
        _block(4, "Two.", path="Service/Note"),
    )
    tree = build_tree(document)
    assert print_contents(tree).splitlines() == ["- Service [1]", "  - Note [2]", "  - Note [4]"]
    assert [node.parent_id for node in tree if node.kind is NodeKind.TEXT] == [2, 4]


def test_a_heading_in_two_pieces_opens_one_section() -> None:
    document = _document(
        _block(0, "2", BlockKind.HEADING, "2 Filter"),
        _block(1, "Filter", BlockKind.HEADING, "2 Filter"),
        _block(2, "Take it out.", path="2 Filter"),
    )
    assert print_contents(build_tree(document)) == "- 2 Filter [1]"


def test_a_section_without_a_heading_on_the_page_is_there_too() -> None:
    tree = build_tree(_document(_block(0, "Take it out.", path="Service/Filter")))
    assert print_contents(tree).splitlines() == ["- Service [1]", "  - Filter [2]"]


def test_a_picture_in_a_table_is_a_leaf_and_an_icon_in_a_line_is_none() -> None:
    rows = (("Sign", "Means"), (placeholder(FIGURE), "Hot"))
    document = _document(
        _block(0, f"Press {placeholder(FIGURE)} twice."),
        _block(1, "| … |", BlockKind.TABLE, rows=rows, parts=(TableOnPage(1, BOX, 2, FoundBy.RULED),)),
        figures=(_figure(0, 0, "", Role.ICON), _figure(1, 1, "")),
    )
    assert [node.kind for node in build_tree(document)] == [NodeKind.TEXT, NodeKind.TABLE, NodeKind.IMAGE]


def test_titles_show_the_documents_own_words_and_no_tag() -> None:
    title = escape("Write <image:12345678.png>")
    document = _document(_block(0, title, BlockKind.HEADING, title), _heading(1, f"Press {placeholder(FIGURE)} now"))
    assert print_contents(build_tree(document)).splitlines() == ["- Write <image:12345678.png> [1]", "- Press now [2]"]
