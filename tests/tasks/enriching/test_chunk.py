"""Cutting documents into evidence."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.documents import (
    Block,
    BlockKind,
    FoundBy,
    Kind,
    Page,
    PlacedFigure,
    Placement,
    Region,
    Role,
    StructuredDocument,
    TableOnPage,
)
from schemas.geometry import BBox
from schemas.tags import placeholder, placeholders, strip
from schemas.text import split_fenced
from tasks.enriching.caption import describe
from tasks.enriching.chunk import chunk
from tasks.tables.mark_up import markdown

FIGURE = "ab" * 32
BOX = BBox(10, 10, 100, 50)


def _count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def _block(order: int, text: str, kind: BlockKind = BlockKind.TEXT, page: int = 1, **fields: object) -> Block:
    return Block(order=order, page=page, kind=kind, bbox=BOX, text=text, **fields)  # type: ignore[arg-type]


def _document(*blocks: Block, figures: tuple[PlacedFigure, ...] = ()) -> StructuredDocument:
    return StructuredDocument("d", "Manual", (Page(1, 595, 842, 0, 100),), blocks, figures)


def _words(count: int, word: str = "word") -> str:
    return " ".join([word] * count)


def test_a_section_begins_a_chunk() -> None:
    document = _document(
        _block(0, "Intro", BlockKind.HEADING, section_path=("Intro",)),
        _block(1, _words(5), section_path=("Intro",)),
        _block(2, "Setup", BlockKind.HEADING, section_path=("Setup",)),
        _block(3, _words(5), section_path=("Setup",)),
    )
    chunks = chunk(document, _count, max_tokens=50)
    assert [piece.section_path for piece in chunks] == [("Intro",), ("Setup",)]
    assert chunks[1].text.startswith("Setup\n")


def test_no_chunk_exceeds_its_tokens_and_no_word_is_lost() -> None:
    document = _document(_block(0, f"{_words(200, 'long')}. {_words(30, 'short')}."), _block(1, _words(45)))
    chunks = chunk(document, _count, max_tokens=50)
    assert all(len(piece.text.split()) <= 50 for piece in chunks)
    joined = " ".join(piece.text for piece in chunks).replace(".", "").split()
    assert (joined.count("long"), joined.count("short"), joined.count("word")) == (200, 30, 45)


def test_a_figure_and_its_caption_are_never_parted() -> None:
    placement = Placement(1, 0, BOX, FIGURE, Kind.RASTER, Role.CONTENT, "image")
    figure = PlacedFigure(placement, "Figure 1: The panel", ("Panel",), "START STOP", 1)
    document = _document(
        _block(0, _words(45)),
        _block(1, placeholder(FIGURE), BlockKind.FIGURE, placement=0),
        _block(2, "Figure 1: The panel", BlockKind.CAPTION, placement=0),
        _block(3, _words(45)),
        figures=(figure,),
    )
    chunks = chunk(document, _count, max_tokens=48)
    texts = [piece for piece in chunks if piece.modality == "text"]
    (holder,) = [piece for piece in texts if placeholders(piece.tagged_text)]
    assert "Figure 1: The panel" in holder.text
    assert holder.figure_refs == (FIGURE,)
    assert placeholder(FIGURE) not in holder.text
    assert "START" not in holder.tagged_text
    (row,) = [piece for piece in chunks if piece.modality == "figure"]
    assert (row.text, row.caption, row.figure_id) == ("", "Figure 1: The panel", FIGURE)


def test_margins_stay_out_and_mentions_go_into_figure_refs() -> None:
    document = _document(_block(0, "Page 7", BlockKind.MARGIN), _block(1, "see Figure 1", mentions=(FIGURE,)))
    (piece,) = chunk(document, _count, max_tokens=50)
    assert piece.text == "see Figure 1"
    assert piece.figure_refs == (FIGURE,)


def test_a_long_table_is_cut_at_its_rows_and_repeats_its_header() -> None:
    rows = (("No", "Name"), *((str(number), _words(6)) for number in range(20)))
    table = _block(0, f"Table 1: Parts\n{markdown(rows)}", BlockKind.TABLE, rows=rows)
    chunks = chunk(_document(table), _count, max_tokens=60)
    assert len(chunks) > 1
    assert all(piece.modality == "table" and "| No | Name |" in piece.text for piece in chunks)
    assert sum(piece.text.count("| 7 |") for piece in chunks) == 1


def test_the_cells_of_a_table_travel_with_its_text() -> None:
    rows = (("No", "Name"), *((str(number), f"{_words(6)} | {number}") for number in range(20)))
    table = _block(0, f"Table 1: Parts\n{markdown(rows)}", BlockKind.TABLE, rows=rows)
    (uncut_piece,) = chunk(_document(table), _count, max_tokens=1000)
    assert uncut_piece.rows == rows
    pieces = chunk(_document(table), _count, max_tokens=60)
    assert all(piece.rows[0] == rows[0] for piece in pieces)
    assert tuple(row for piece in pieces for row in piece.rows[1:]) == rows[1:]
    for piece in (uncut_piece, *pieces):
        assert piece.tagged_text == f"Table 1: Parts\n{markdown(piece.rows)}"
        assert piece.caption == "Table 1: Parts"
    (text,) = chunk(_document(_block(0, "| a | b |")), _count, max_tokens=60)
    assert text.rows == (), "words with bars are no table"


def test_a_chunk_over_two_pages_names_both() -> None:
    document = _document(_block(0, _words(5)), _block(1, _words(5), page=2))
    (piece,) = chunk(document, _count, max_tokens=50)
    assert [region.page for region in piece.regions] == [1, 2]


def _over_two_pages() -> Block:
    rows = (("Part", "Torque"), *((f"M{number}", _words(6)) for number in range(8)))
    parts = (TableOnPage(1, BOX, 5, FoundBy.RULED), TableOnPage(2, NEXT, 4, FoundBy.RULED))
    return _block(0, f"Table 1: Torques\n{markdown(rows)}", BlockKind.TABLE, rows=rows, parts=parts)


NEXT = BBox(20, 20, 120, 90)


def test_a_table_over_two_pages_names_both() -> None:
    (piece,) = chunk(_document(_over_two_pages()), _count, max_tokens=500)
    assert piece.regions == (Region(1, BOX), Region(2, NEXT))


def test_each_piece_of_a_table_names_the_pages_of_its_own_rows() -> None:
    pieces = chunk(_document(_over_two_pages()), _count, max_tokens=50)
    assert len(pieces) > 2
    for piece in pieces:
        screws = {int(line.split()[1][1:]) for line in piece.text.splitlines() if line.startswith("| M")}
        expected = ([Region(1, BOX)] if min(screws) < 4 else []) + ([Region(2, NEXT)] if max(screws) > 3 else [])
        assert list(piece.regions) == expected
    assert {region.page for piece in pieces for region in piece.regions} == {1, 2}


def _picture(order: int) -> Placement:
    return Placement(1, order, BOX, FIGURE, Kind.RASTER, Role.CONTENT, "image")


def test_a_figure_is_never_parted_from_the_step_that_it_stands_by() -> None:
    figures = (
        PlacedFigure(_picture(0), "", (), "", 1, _words(20, "first"), (0,)),
        PlacedFigure(_picture(1), "", (), "", 3, _words(20, "third"), (4,)),
    )
    document = _document(
        _block(0, _words(20, "first")),
        _block(1, placeholder(FIGURE), BlockKind.FIGURE, placement=0),
        _block(2, _words(20, "second")),
        _block(3, placeholder(FIGURE), BlockKind.FIGURE, placement=1),
        _block(4, _words(20, "third")),
        figures=figures,
    )
    texts = [piece for piece in chunk(document, _count, max_tokens=25) if piece.modality == "text"]
    assert [(piece.text.split()[0], len(placeholders(piece.tagged_text))) for piece in texts] == [
        ("first", 1),
        ("second", 0),
        ("third", 1),
    ]


def test_a_figures_row_holds_its_step() -> None:
    figure = PlacedFigure(_picture(0), "", ("Volume",), "VOL+", 1, "Press the upper button to turn the volume up.", (0,))
    document = _document(
        _block(0, "Press the upper button to turn the volume up."),
        _block(1, placeholder(FIGURE), BlockKind.FIGURE, placement=0),
        figures=(figure,),
    )
    (row,) = [piece for piece in chunk(document, _count, max_tokens=50) if piece.modality == "figure"]
    assert row.tagged_text == f"{placeholder(FIGURE)}\nPress the upper button to turn the volume up."
    assert row.placement == 0


def test_what_joins_two_paragraphs_counts_as_tokens() -> None:
    document = _document(_block(0, "a" * 24), _block(1, "b" * 24))
    assert [piece.text for piece in chunk(document, _signs, max_tokens=9)] == ["a" * 24, "b" * 24]
    assert len(chunk(document, _signs, max_tokens=10)) == 1


def test_chinese_is_cut_at_its_sentences() -> None:
    sentences = [f"第{number}步请先关闭进水阀门再检查系统的压力。" for number in range(40)]
    chunks = chunk(_document(_block(0, "".join(sentences))), _signs, max_tokens=100)
    assert len(chunks) > 5
    assert "".join(piece.text for piece in chunks) == "".join(sentences)
    assert all(piece.text.startswith("第") and piece.text.endswith("。") for piece in chunks)


def test_a_caption_longer_than_a_chunk_is_cut_and_its_figure_stays_with_its_beginning() -> None:
    caption = "Figure 1: " + " ".join(f"w{number}" for number in range(90))
    document = _document(
        _block(0, placeholder(FIGURE), BlockKind.FIGURE, placement=0),
        _block(1, caption, BlockKind.CAPTION, placement=0),
        figures=(PlacedFigure(_picture(0), caption, (), "", 0),),
    )
    chunks = chunk(document, _count, max_tokens=40)
    texts = [piece for piece in chunks if piece.modality == "text"]
    assert " ".join(piece.text for piece in texts).split() == caption.split()
    assert [placeholders(piece.tagged_text) for piece in texts] == [[FIGURE], [], []]
    assert all(_count([piece.text])[0] <= 40 for piece in chunks)


def _signs(texts: Sequence[str]) -> list[int]:
    """Count as tokenizers do that keep line ends: those, CJK and signs one by one, words in parts of a few letters."""
    return [len(re.findall(r"[぀-ヿ一-鿿]|[^\W぀-ヿ一-鿿]{1,6}|[^\w\s]|\n", text)) for text in texts]


def _icon(number: int) -> str:
    return placeholder(f"{number:064x}")


_WORDS = st.lists(
    st.sampled_from([*"ab。！,.打开バ\n<|", " ", "word ", "e\u0301", "打开阀门" * 30, "words " * 50]), max_size=8
)
_STRINGS = _WORDS.map("".join)


_KINDS = [kind for kind in BlockKind if kind is not BlockKind.FOOTNOTE]
"""Kinds of blocks whose order in a chunk is that of the document."""


@st.composite
def _documents(draw: st.DrawFn) -> StructuredDocument:
    blocks: list[Block] = []
    figures: list[PlacedFigure] = []
    for number in range(draw(st.integers(1, 6))):
        kind, page, order = draw(st.sampled_from(_KINDS)), 1 + number // 2, len(blocks)
        text = draw(_STRINGS) + draw(st.sampled_from(["", _icon(number)])) + draw(_STRINGS)
        if kind is BlockKind.TABLE:
            rows = ((text, draw(_STRINGS)), *draw(st.lists(st.tuples(_STRINGS, _STRINGS), max_size=4)))
            caption = draw(st.sampled_from(["", "Table 1: Torques\n", "Table 2: " + "long " * 60 + "\n"]))
            blocks.append(_block(order, f"{caption}{markdown(rows)}", kind, page, rows=rows))
        elif kind is BlockKind.FIGURE:
            placement = Placement(page, number, BOX, f"{number:064x}", Kind.RASTER, Role.CONTENT, "image")
            pair = [(_icon(number), kind), (f"Figure 1 {draw(_STRINGS)}", BlockKind.CAPTION)]
            for words, block_kind in draw(st.permutations(pair)):
                blocks.append(_block(len(blocks), words, block_kind, page, placement=number))
            stands_by = draw(st.sampled_from([(), (order - 1,)])) if order else ()
            figures.append(PlacedFigure(placement, pair[1][0], (), draw(_STRINGS), order, draw(_STRINGS), stands_by))
        else:
            blocks.append(_block(order, text, kind, page))
    return _document(*blocks, figures=tuple(figures))


def test_a_footnote_follows_the_paragraph_that_goes_on_over_the_page() -> None:
    document = _document(
        _block(0, "The rates¹ of 12³ pumps in the"),
        _block(1, "¹ Of 2019.", BlockKind.FOOTNOTE),
        _block(2, "north rise by 10⁴ m².", page=2),
    )
    (piece,) = chunk(document, _count, max_tokens=50)
    assert piece.tagged_text == "The rates¹ of 12³ pumps in the\n\nnorth rise by 10⁴ m².\n\n¹ Of 2019."
    assert piece.text.split() == "The rates ¹ of 12 ³ pumps in the north rise by 10 ⁴ m². ¹ Of 2019.".split()


def test_code_is_cut_between_its_lines_and_keeps_its_indents() -> None:
    lines = [f"{'    ' * (number % 2)}move axis {number} {'-' * 20}" for number in range(30)]
    document = _document(_block(0, "Write this:"), _block(1, "\n".join(lines), BlockKind.CODE), _block(2, "Then wait."))
    chunks = chunk(document, _count, max_tokens=40)
    assert len(chunks) > 2
    assert max(_count([piece.text for piece in chunks])) <= 40
    code = [part for piece in chunks for part, is_code in split_fenced(piece.tagged_text) if is_code]
    assert "\n".join(code).split("\n") == lines
    assert "`" not in "".join(piece.text for piece in chunks)
    assert "\n    move axis 1  …" in "".join(piece.text for piece in chunks)


def test_a_line_of_code_that_is_too_long_is_cut() -> None:
    document = _document(_block(0, f"short\n{_words(100)}\nend", BlockKind.CODE))
    chunks = chunk(document, _count, max_tokens=40)
    assert " ".join(piece.text for piece in chunks).split() == ["short", *["word"] * 100, "end"]
    assert max(_count([piece.text for piece in chunks])) <= 40


def _marks(texts: Sequence[str]) -> list[int]:
    """Count as a model's tokenizer does: a word is a token, and so is each mark."""
    return [len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]


@pytest.mark.parametrize(
    "leader",
    ["." * 60, ". " * 60, "\u2026" * 30, "\u2024" * 40, "\u00b7 " * 40, "\u30fb" * 40, "_" * 80, "-" * 70, "\u2500" * 50],
)
def test_a_leader_is_one_token_of_what_is_searched_and_stays_in_what_is_shown(leader: str) -> None:
    lines = [f"Fitting {word} {leader} {page}" for page, word in enumerate(["seals", "bearings", "hoses"], 4)]
    rows = (("Part", "Page"), *((f"Fitting {word} {leader}", "4") for word in ("seals", "bearings", "hoses")))
    document = _document(_block(0, "\n".join(lines)), _block(1, f"Table 1\n{markdown(rows)}", BlockKind.TABLE, rows=rows))
    text, table = chunk(document, _marks, max_tokens=60)
    assert text.text.split() == "Fitting seals … 4 Fitting bearings … 5 Fitting hoses … 6".split()
    assert text.tagged_text.count(leader.strip()) == 3
    assert table.text.count("Fitting") == table.text.count("…") == table.tagged_text.count(leader.strip()) == 3


@pytest.mark.parametrize("text", ["Wait... then go.", "1.2.3.4", "e.g. i.e. a.m. p.m.", "A -- B --- C", "| | | | |", "……"])
def test_what_is_no_leader_is_searched_as_it_is(text: str) -> None:
    (piece,) = chunk(_document(_block(0, text)), _marks, max_tokens=60)
    assert piece.text == piece.tagged_text == text


def test_whole_pages_are_grouped_up_to_a_number_of_tokens() -> None:
    lengths = [(1, 10), (1, 5), (2, 10), (3, 20), (4, 30), (4, 30), (5, 4), (6, 4)]
    blocks = [
        _block(order, _words(count, f"w{page}"), page=page, section_path=(f"s{order}",))
        for order, (page, count) in enumerate(lengths)
    ]
    chunks = chunk(_document(*blocks), _count, max_tokens=40, by="pages")
    pages = [[region.page for region in piece.regions] for piece in chunks]
    assert pages == [[1, 2], [3], [4], [4], [5, 6]]
    assert [len(piece.text.split()) for piece in chunks] == [25, 20, 30, 30, 8]


def test_a_table_ends_no_group_of_pages() -> None:
    table = _block(1, "| a | b |\n| --- | --- |\n| c | d |", BlockKind.TABLE, rows=(("a", "b"), ("c", "d")))
    document = _document(_block(0, "before"), table, _block(2, "after"), _block(3, "next", page=2))
    chunks = chunk(document, _count, max_tokens=40, by="pages")
    assert [(piece.modality, piece.text.split()[0]) for piece in chunks] == [("text", "before"), ("table", "|")]
    assert chunks[0].text.split() == ["before", "after", "next"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 60)), max_size=12), st.integers(10, 50))
def test_groups_of_pages_hold_everything_once_and_not_too_much(written: list[tuple[int, int]], limit: int) -> None:
    blocks = [_block(order, _words(count, f"w{order}"), page=page) for order, (page, count) in enumerate(sorted(written))]
    chunks = chunk(_document(*blocks), _count, max_tokens=limit, by="pages")
    assert " ".join(piece.text for piece in chunks).split() == " ".join(block.text for block in blocks).split()
    assert all(len(piece.text.split()) <= limit for piece in chunks)


@settings(max_examples=50)
@given(document=_documents(), limit=st.integers(50, 120))
def test_whatever_a_document_holds_its_chunks_fit_and_hold_all_of_it(document: StructuredDocument, limit: int) -> None:
    chunks = describe(chunk(document, _signs, max_tokens=limit), document.figures, {}, _signs, max_tokens=limit)
    assert all(piece.text for piece in chunks if piece.modality == "figure")
    assert all(count <= limit for count in _signs([piece.text for piece in chunks]))
    blocks = [block for block in document.blocks if block.kind not in (BlockKind.MARGIN, BlockKind.TABLE)]
    text = "".join(piece.tagged_text for piece in chunks if piece.modality == "text")
    assert _letters(text) == _letters("".join(block.text for block in blocks))
    assert placeholders(text) == placeholders("".join(block.text for block in blocks))
    for table in (block for block in document.blocks if block.kind is BlockKind.TABLE):
        table_text = "".join(
            piece.tagged_text for piece in chunks if piece.modality == "table" and piece.order == table.order
        )
        assert sorted(placeholders(table_text)) == sorted(placeholders(table.text))
        for cell in (cell for row in table.rows for cell in row):
            remaining = iter(_letters(table_text))
            assert all(letter in remaining for letter in _letters(cell))


def _letters(text: str) -> str:
    return re.sub(r"[\s\\|`-]", "", strip(text))
