"""Lines of a paragraph joined."""

import pymupdf
import pytest

from tests.tasks.reading.pages import structured


@pytest.mark.parametrize(
    ("lines", "font", "text"),
    [
        (
            ["先关闭进水阀门，然后检查系", "统的压力并等待五分钟，再打", "开阀门。"],
            "china-s",
            "先关闭进水阀门，然后检查系统的压力并等待五分钟，再打开阀门。",
        ),
        (
            ["弁を閉じてから圧力を確認し", "ます。その後、もう一度弁を", "開けます。"],
            "japan",
            "弁を閉じてから圧力を確認します。その後、もう一度弁を開けます。",
        ),
        (["请选择：", "用于安装系统的磁盘和分区表", "语言。"], "china-s", "请选择：\n用于安装系统的磁盘和分区表语言。"),
        (
            ["밸브를 닫고 압력을 확인하고", "나서 다시 밸브를 여십시오", "끝."],
            "korea",
            "밸브를 닫고 압력을 확인하고 나서 다시 밸브를 여십시오 끝.",
        ),
    ],
)
def test_wrapped_lines_of_a_script_without_spaces_are_joined_without_any(lines: list[str], font: str, text: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 200), lines, fontname=font, fontsize=11)
    assert "\n".join(block.text for block in structured(document).blocks) == text


def test_a_word_broken_at_the_end_of_a_line_is_whole_again() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 100),
        [
            "Before the cover comes off the mainte-",
            "nance switch is turned, and the Allen-",
            "Bradley drive is left to run down.",
        ],
        fontsize=11,
    )
    (block,) = structured(document).blocks
    assert "the maintenance switch is turned, and the Allen- Bradley drive is left" in block.text


@pytest.mark.parametrize(
    ("elsewhere", "joined_words"),
    [
        ("A real-time clock is built in.", "a real-time clock"),
        ("A Real-time clock is built in.", "a real-time clock"),
        ("Another clock is built in.", "a realtime clock"),
        ("The realtime of a real-time clock is realtime.", "a realtime clock"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_is_kept_where_the_document_has_the_word_with_it(
    elsewhere: str, joined_words: str
) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 100), ["Before the cover comes off, set a real-", "time clock to zero and start it."], fontsize=11
    )
    page.insert_text((72, 300), elsewhere, fontsize=11)
    first, _ = structured(document).blocks
    assert joined_words in first.text


def test_a_word_of_several_hyphens_keeps_them() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), ["This pump is the state-of-", "the-art, of any kind known."], fontsize=11)
    page.insert_text((72, 300), "Our state-of-the-art pump", fontsize=11)
    assert "the state-of-the-art, of any" in structured(document).blocks[0].text


def test_lines_that_end_early_keep_their_ends() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), ["G21", "G90 X10", "M30 and this is a long line that ends the block"], fontsize=11)
    lines = [line for block in structured(document).blocks for line in block.text.splitlines()]
    assert lines == ["G21", "G90 X10", "M30 and this is a long line that ends the block"]
