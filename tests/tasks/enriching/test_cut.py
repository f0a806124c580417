"""Cutting texts and tables to the tokens that a chunk may hold."""

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.documents import CellSpan
from schemas.tags import placeholder, placeholders, strip
from tasks.enriching.cut import cut, cut_table, first_words

FIGURE = placeholder("ab" * 32)
ICON = placeholder("cd" * 32)


def _count(texts: Sequence[str]) -> list[int]:
    """Count as BERT's tokenizers do: signs and CJK one by one, words in parts of a few letters."""
    return [len(re.findall(r"[぀-ヿ一-鿿]|[^\W぀-ヿ一-鿿]{1,6}|[^\w\s]", strip(text))) for text in texts]


def _bare(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("先打开阀门然后等待。再关闭所有的阀门。最后检查压力。", "先打开阀门然后等待。再关闭所有的阀门。"),
        ("バルブを開いて待つ。「止まれ！」と言われたら止める。", "バルブを開いて待つ。「止まれ！」"),
        ("値は３．２です．次に弁を閉じてから圧力を見る．", "値は３．２です．"),
        ("वाल्व खोलें।फिर रुकें और देखें कि दबाव कितना है।", "वाल्व खोलें।"),
        ("It is approx. 3 mm. Then it moves on and it turns round.", "It is approx. 3 mm."),
        ('He said "Stop." Then it stopped and nothing moved again.', 'He said "Stop."'),
        ("先打开进水的阀门，再关闭排水的阀门然后检查系统压力", "先打开进水的阀门，"),
        ("turn the valve; then wait for the pressure to fall below", "turn the valve;"),
    ],
)
def test_a_text_is_cut_where_a_sentence_ends_or_else_a_clause(text: str, first: str) -> None:
    assert cut(text, _count, _count([first])[0] + 1)[0] == first


def test_without_marks_a_text_is_cut_between_words_or_else_between_characters() -> None:
    words = [f"w{number}" for number in range(100)]
    pieces = cut(" ".join(words), _count, 20)
    assert " ".join(pieces).split() == words
    assert len(pieces) <= 6
    for character in ("e\u0301", "👨\u200d👩\u200d👧", "<\u2060i", "が"):
        parts = cut(character * 50, lambda texts: list(map(len, texts)), 16)
        assert "".join(parts) == character * 50
        assert all(len(part) % len(character) == 0 and len(part) <= 16 for part in parts)


def test_a_placeholder_stays_whole() -> None:
    text = f"打开阀门{FIGURE}然后关闭阀门{ICON}检查"
    pieces = cut(text, _count, 3)
    assert placeholders("".join(pieces)) == ["ab" * 32, "cd" * 32]
    assert sum(map(len, map(placeholders, pieces))) == 2


def _letters(text: str) -> str:
    return re.sub(r"[\s\\|]", "", strip(text))


_PIECES = st.sampled_from([*"ab 。！,.打开バ\n<|\\“」؟।", "e\u0301", "👨\u200d👩", "<\u2060image", FIGURE, ICON])
_TEXTS = st.lists(_PIECES, max_size=80).map("".join)


@given(text=_TEXTS, limit=st.integers(8, 40))
def test_nothing_is_lost_and_no_piece_is_too_long(text: str, limit: int) -> None:
    pieces = cut(text, _count, limit)
    assert _bare("".join(pieces)) == _bare(text)
    assert [name for piece in pieces for name in placeholders(piece)] == placeholders(text)
    assert all(count <= limit for count in _count(pieces))


def test_a_text_begins_with_as_many_words_as_fit() -> None:
    first_part = first_words("ab " * 60, _count, 40).split()
    assert set(first_part) == {"ab"}
    assert 36 <= len(first_part) <= 40
    assert first_words("図1 安全弁の位置を示す正面図と側面図", _count, 9) == "図1 安全弁の位置を"
    assert first_words("short", _count, 9) == "short"


HEADER = ("No", "Description", "Torque")


def test_a_row_that_is_too_long_goes_on_under_the_same_header_and_name() -> None:
    words = " ".join(f"word{number}" for number in range(60))
    pieces = cut_table("Table 1: Parts", [HEADER, ("7", words, "9 Nm"), ("8", "short", "1 Nm")], _count, 60)
    assert len(pieces) > 2
    assert all(_count([piece.text])[0] <= 60 for piece in pieces)
    assert all(piece.text.startswith("Table 1: Parts\n| No | Description | Torque |\n| --- ") for piece in pieces)
    of_seven = [piece.text for piece in pieces if 1 in piece.rows]
    assert all("\n| 7 | " in text for text in of_seven)
    assert re.findall(r"word\d+", "".join(of_seven)) == words.split()
    assert sum(piece.text.count("9 Nm") for piece in pieces) == 1


def test_pictures_of_a_row_that_is_cut_stand_once() -> None:
    long = f"{'press ' * 30}{ICON} {'turn ' * 30}"
    pieces = cut_table("", [("No", f"Step {FIGURE}"), (f"1 {ICON}", long)], _count, 40)
    assert placeholders("".join(piece.text for piece in pieces)) == ["ab" * 32, "cd" * 32, "cd" * 32]


def test_a_table_too_wide_for_its_header_is_cut_into_strips_of_columns() -> None:
    header = ("Name", *(f"C{column}" for column in range(30)))
    rows = [(f"row{number}", *(f"v{number}x{column}" for column in range(30))) for number in range(4)]
    pieces = cut_table("Table 2", [header, *rows], _count, 80)
    assert all(_count([piece.text])[0] <= 80 for piece in pieces)
    text = "\n".join(piece.text for piece in pieces)
    assert all(text.count(f"| {cell} |") == 1 for row in rows for cell in row[1:])
    for piece in pieces:  # each value under the title of its column
        titles, _, *lines = ([cell.strip() for cell in line.split("|")] for line in piece.text.split("\n") if "|" in line)
        assert all(
            value.endswith(title[1:]) for line in lines for title, value in zip(titles, line, strict=True) if "x" in value
        )
        assert all(line[1].startswith("row") for line in lines)


def test_a_header_or_caption_longer_than_a_piece_is_cut_as_well() -> None:
    words = [f"head{number}" for number in range(90)]
    caption = [f"about{number}" for number in range(70)]
    pieces = cut_table(" ".join(caption), [("A", " ".join(words)), ("1", "value")], _count, 40)
    assert all(_count([piece.text])[0] <= 40 for piece in pieces)
    text = " ".join(piece.text for piece in pieces)
    assert re.findall(r"about\d+", text) == caption
    assert set(re.findall(r"head\d+", text)) == set(words)
    assert "value" in text


_CELLS = st.lists(_TEXTS | st.sampled_from(["7", "打开阀门" * 30, "word " * 40]), max_size=3).map("".join)


@given(
    rows=st.integers(1, 9).flatmap(
        lambda width: st.lists(st.lists(_CELLS, min_size=width, max_size=width), min_size=1, max_size=5)
    ),
    caption=st.sampled_from(["", "Table 1", "表1：" + "阀门的力矩。" * 20]),
    limit=st.integers(60, 120),
)
def test_whatever_a_table_holds_its_pieces_fit_and_hold_all_of_it(rows: list[list[str]], caption: str, limit: int) -> None:
    pieces = cut_table(caption, rows, _count, limit)
    assert all(_count([piece.text])[0] <= limit for piece in pieces)
    names = sorted(name for piece in pieces for name in placeholders(piece.text))
    assert names == sorted(name for row in rows for cell in row for name in placeholders(cell))
    piece_letters = _letters("".join(piece.text for piece in pieces))
    assert not Counter(_letters("".join([caption, *(cell for row in rows for cell in row)]))) - Counter(piece_letters)
    for cell in (cell for row in rows for cell in row):
        remaining = iter(piece_letters)
        assert all(letter in remaining for letter in _letters(cell))
    assert {number for piece in pieces for number in piece.rows} >= {
        at for at, row in enumerate(rows) if any(map(str.split, row))
    }


def test_each_piece_of_a_table_has_all_rows_of_its_header_and_its_own_spans() -> None:
    heads = [("Size", "Torque", ""), ("", "cold", "hot")]
    body = [(f"M{number}", f"{number} Nm", f"{number + 1} Nm") for number in range(20)]
    spans = [CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(9, 1, 1, 2)]
    pieces = cut_table("Table 1", [*heads, *body], _count, 90, spans)
    assert len(pieces) > 2
    assert all([tuple(row) for row in piece.cells[:2]] == heads for piece in pieces)
    assert all(piece.spans[:2] == tuple(spans[:2]) for piece in pieces)
    assert [tuple(row) for piece in pieces for row in piece.cells[2:]] == body
    (spanned_piece,) = [piece for piece in pieces if len(piece.spans) == 3]
    assert tuple(spanned_piece.cells[spanned_piece.spans[2].row]) == body[7]
