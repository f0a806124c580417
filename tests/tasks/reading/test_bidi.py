"""Lines that run from right to left are read as they are spoken, however their letters were written."""

import random

import pymupdf
import pytest

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import BlockKind, StructuredDocument
from tasks.reading.bidi import logical_order, runs_right_to_left
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.synthetic.art import HEBREW, Pen

# What is spoken, and how it stands from left to right.
LINES = [
    ("בתוך 15 דקות", "תוקד 15 ךותב"),
    ("ראו איור 1 להלן.", ".ןלהל 1 רויא ואר"),
    ("כמו 40 Nm ואת torque.", ".torque תאו Nm 40 ומכ"),
    ("התקן Windows 10 עכשיו", "וישכע Windows 10 ןקתה"),
    ("עלה ב-3.5% השנה", "הנשה 3.5%-ב הלע"),
    ("ראו (איור 3) כאן", "ןאכ )3 רויא( ואר"),
    ("يوضح الشكل ٢ طريقة", "ةقيرط ٢ لكشلا حضوي"),
    ("USB Type C וגם 12, 24", "24 ,12 םגו USB Type C"),
]


@pytest.mark.parametrize(("spoken", "visual_text"), LINES)
@pytest.mark.parametrize("seed", range(3))
def test_a_line_is_read_as_it_is_spoken(spoken: str, visual_text: str, seed: int) -> None:
    placed = [(letter, (10.0 * index, 0.0, 10.0 * index + 10, 12.0)) for index, letter in enumerate(visual_text)]
    random.Random(seed).shuffle(placed)
    text, boxes = logical_order("".join(letter for letter, _ in placed), [box for _, box in placed])
    assert text == spoken
    assert len(boxes) == len(text)


def test_marks_stay_on_their_letters() -> None:
    text, boxes = logical_order("שָׁלוֹם", [(80 - 10.0 * index, 0, 90 - 10.0 * index, 12) for index in (0, 0, 0, 1, 2, 2, 3)])
    assert text == "שָׁלוֹם"
    assert boxes[0] == boxes[1] == boxes[2]


def test_words_that_are_separate_are_two() -> None:
    text, _ = logical_order(
        "4גרוב", [(0, 0, 10, 12), *((30 + 10.0 * index, 0, 40 + 10.0 * index, 12) for index in range(4))]
    )
    assert text == "בורג 4"


def test_a_mark_in_a_form_of_its_own_stays_on_its_letter() -> None:
    text, _ = logical_order("\ufeb3\ufe76\ufee0", [(20, 0, 30, 12), (20, 0, 30, 12), (10, 0, 20, 12)])
    assert text == "س\u064eل"


def test_letters_of_a_ligature_keep_their_order() -> None:
    text, _ = logical_order("سلا", [(20, 0, 30, 12), (10, 0, 20, 12), (10, 0, 20, 12)])
    assert text == "سلا"


@pytest.mark.parametrize(
    ("visual_text", "width", "step", "spoken"),
    [("ןאכ (3 רויא) ואר", 10.0, 10.0, "ראו (איור 3) כאן"), ("םולש", 5.0, 9.0, "שלום"), ("ﻞﻜﺷ", 10.0, 10.0, "شكل")],
    ids=["brackets written as they look", "letters spread out", "final, medial and initial forms"],
)
def test_letters_side_by_side_are_the_words_one_types(visual_text: str, width: float, step: float, spoken: str) -> None:
    text, _ = logical_order(visual_text, [(step * index, 0, step * index + width, 12) for index in range(len(visual_text))])
    assert text == spoken


@pytest.mark.parametrize(
    ("text", "right_to_left"),
    [
        ("Figure 3", False),
        ("איור 3", True),
        ("שלום world, how are you", False),
        ("12", False),
        ("Größe", False),
        ("图 3", False),
    ],
)
def test_a_text_runs_the_way_most_of_its_letters_do(text: str, right_to_left: bool) -> None:
    assert runs_right_to_left(text) is right_to_left


TEXT = "בתוך 15 דקות ראו איור 1 (להלן) ואת torque. המשפט הבא ממשיך עד סוף העמודה וכולל עוד מספרים, כגון 24 V. ואז עוד אחד."


def _document(draw: "dict[tuple[float, float, float, float], str]", *, ruled: bool = False) -> StructuredDocument:
    """Return a page with words in boxes, set by MuPDF, which writes a right-to-left line in pieces."""
    document = pymupdf.open()
    page = document.new_page()
    for box, words in draw.items():
        page.insert_htmlbox(box, f"<p dir=rtl>{words}</p>")
    page.draw_circle((200, 400), 50, fill=(0.8, 0.2, 0.2))
    if ruled:
        for x in (72, 172, 272):
            page.draw_line((x, 500), (x, 590))
        for y in (500, 530, 560, 590):
            page.draw_line((72, y), (272, y))
    parsed = parse(open_document(document.tobytes()), "d", ParseOptions(), keep_figure=lambda _name, _data: None)
    return structure(parsed, {})


def test_a_paragraph_is_one_block_in_the_order_of_speech() -> None:
    blocks = _document({(72, 72, 300, 200): TEXT}).blocks
    assert [block.text for block in blocks if block.kind is BlockKind.TEXT] == [TEXT]


def test_a_figure_is_linked_to_its_caption_and_its_mention() -> None:
    structured = _document({(72, 72, 300, 200): TEXT, (72, 455, 300, 480): "איור 1: תרשים המשאבה"})
    figure = structured.figures[0]
    assert figure.caption == "איור 1: תרשים המשאבה"
    assert [block.mentions for block in structured.blocks if block.kind is BlockKind.TEXT] == [
        (figure.placement.figure_id,)
    ]


def test_the_first_column_of_a_table_is_its_right_one() -> None:
    words = [["חלק", "כמות"], ["בורג", "4"], ["אטם", "2"]]
    cells = {
        (174.0 - 100 * column, 503.0 + 30 * row, 270.0 - 100 * column, 528.0 + 30 * row): word
        for row, texts in enumerate(words)
        for column, word in enumerate(texts)
    }
    tables = [block for block in _document(cells, ruled=True).blocks if block.kind is BlockKind.TABLE]
    assert [table.rows for table in tables] == [tuple(map(tuple, words))]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_rotated_page_is_read_as_its_reader_sees_it(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=600, height=600)
    page.insert_htmlbox((100, 100, 400, 300), f"<p dir=rtl>{TEXT}</p>", rotate=rotation)
    page.set_rotation(rotation)
    parsed = parse(open_document(document.tobytes()), "d", ParseOptions(), keep_figure=lambda _name, _picture: None)
    assert " ".join(line.text.strip() for line in parsed.lines) == TEXT


def test_letters_too_small_to_see_do_no_harm() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_htmlbox((72, 72, 300, 90), "<p dir=rtl>שלום</p>")
    for left_x, word in ((100, "abc"), (300, "def")):
        page.insert_text((left_x, 200), word, fontsize=0.001)
    assert (
        parse(open_document(document.tobytes()), "d", ParseOptions(), keep_figure=lambda _name, _picture: None)
        .lines[0]
        .text.strip()
        == "שלום"
    )


def test_a_part_of_a_table_without_letters_is_rotated_like_the_rest_of_its_page() -> None:
    cells = {
        (174.0 - 100 * column, 503.0 + 30 * row, 270.0 - 100 * column, 528.0 + 30 * row): str(10 * row + column)
        for row in range(3)
        for column in range(2)
    }
    tables = [block for block in _document({(72, 72, 300, 200): TEXT} | cells, ruled=True).blocks if block.rows]
    assert [table.rows for table in tables] == [(("0", "1"), ("10", "11"), ("20", "21"))]


def test_a_label_far_beside_a_line_is_none_of_its_words() -> None:
    document = pymupdf.open()
    pen, words = Pen(document.new_page()), "יש להדק את המסנן"
    pen.text((520, 200), "M")
    pen.text((400, 200), words[::-1], font=HEBREW)
    pen.done()
    parsed = parse(open_document(document.tobytes()), "d", ParseOptions(), keep_figure=lambda _name, _picture: None)
    assert sorted(line.text.strip() for line in parsed.lines) == ["M", words]


def _set(glyphs: list[str], *, as_read: bool) -> pymupdf.Document:
    """Return a page with a line of glyphs, each of which is one or more letters.

    Args:
        glyphs: As they stand from left to right.
        as_read: Whether the content has the last one first, as producers write that place each glyph by itself.
    """
    document = pymupdf.open()
    page = document.new_page()
    codes = {glyph: code for code, glyph in enumerate(dict.fromkeys(glyphs), 65)}
    letters = "\n".join(f"<{code:02x}> <{glyph.encode('utf-16-be').hex()}>" for glyph, code in codes.items())
    box, meaning, font, content = (document.get_new_xref() for _ in range(4))
    for xref, stream in (
        (box, "1000 0 0 0 600 600 d1 0 0 600 600 re f"),
        (
            meaning,
            f"begincmap 1 begincodespacerange <00> <ff> endcodespacerange {len(codes)} beginbfchar {letters} endbfchar endcmap",
        ),
    ):
        document.update_object(xref, "<<>>")
        document.update_stream(xref, stream.encode())
    names = " ".join(f"/g{code}" for code in codes.values())
    document.update_object(
        font,
        f"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1000 1000] /FontMatrix [0.001 0 0 0.001 0 0] /Resources << >> "
        f"/CharProcs << {' '.join(f'/g{code} {box} 0 R' for code in codes.values())} >> "
        f"/Encoding << /Type /Encoding /Differences [65 {names}] >> /FirstChar 65 /LastChar {64 + len(codes)} "
        f"/Widths [{'1000 ' * len(codes)}] /ToUnicode {meaning} 0 R >>",
    )
    placed = [(100 + 10 * index, f"<{codes[glyph]:02x}>") for index, glyph in enumerate(glyphs)]
    if as_read:
        operators = " ".join(f"1 0 0 1 {x} 700 Tm {code} Tj" for x, code in reversed(placed))
    else:
        operators = f"1 0 0 1 100 700 Tm <{''.join(code.strip('<>') for _, code in placed)}> Tj"
    document.update_object(content, "<<>>")
    document.update_stream(content, f"BT /F 10 Tf {operators} ET".encode())
    document.xref_set_key(page.xref, "Resources", f"<< /Font << /F {font} 0 R >> >>")
    document.xref_set_key(page.xref, "Contents", f"{content} 0 R")
    return document


def _glyphs(visual_text: str, *ligatures: str) -> list[str]:
    """Return the glyphs of a line from left to right; a digit is a glyph of several letters."""
    return [ligatures["①②③".index(glyph)] if glyph in "①②③" else glyph for glyph in visual_text]


@pytest.mark.parametrize("as_read", [False, True], ids=["as it stands", "as it is read"])
@pytest.mark.parametrize(
    ("glyphs", "spoken"),
    [
        (_glyphs("كم①تسا", "لا"), "استلامك"),
        (_glyphs("ةلئس①ا ىلع ②ب", "لأ", "لا"), "بلا على الأسئلة"),
        (_glyphs("①ا رما", "لله"), "امر الله"),
        (_glyphs("①ا رما", "للَّه"), "امر اللَّه"),
        (_glyphs("①ا o②ce يف ③ب", "لأ", "ffi", "لا"), "بلا في office الأ"),
        (_glyphs("① ①م 12 ②ب", "لا", "لأ"), "بلأ 12 ملا لا"),
    ],
    ids=["lam-alef", "several", "of three letters", "with marks", "Latin", "numbers"],
)
def test_letters_of_one_glyph_are_read_in_order(glyphs: list[str], spoken: str, as_read: bool) -> None:
    parsed = parse(
        open_document(_set(glyphs, as_read=as_read).tobytes()),
        "d",
        ParseOptions(),
        keep_figure=lambda _name, _picture: None,
    )
    assert [line.text.strip() for line in parsed.lines] == [spoken]


def test_a_hamza_above_the_line_between_two_letters_stays_there() -> None:
    text, _ = logical_order("لءادم", [(40, 0, 50, 12), (40, 0, 40, 12), (30, 0, 40, 12), (20, 0, 30, 12), (10, 0, 20, 12)])
    assert text == "لءادم"


def test_a_glyph_that_begins_with_a_mark_is_no_blank() -> None:
    extents = [(40, 50), (37, 40), (37, 37), (37, 37), (31, 37)]  # MuPDF's, of a glyph for holam and vav
    text, boxes = logical_order("א ו\u05b9ר", [(x0, 0, x1, 12) for x0, x1 in extents])
    assert text == "או\u05b9ר"
    assert [box[:3:2] for box in boxes] == [(40, 50), (37, 40), (37, 40), (31, 37)]
