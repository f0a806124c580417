"""Captions and mentions."""

import pytest

from schemas.text import CaptionLabel, LabelKind, caption_label, mentions


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Figure 3-2: The panel", "3-2"),
        ("Fig. 4. Overview", "4"),
        ("FIG. 12", "12"),
        ("Figure A.1: Layout", "a-1"),
        ("Abb. 7: Aufbau", "7"),
        ("Abbildung 2.3 Aufbau", "2-3"),
        ("图 3-1 系统结构", "3-1"),
        ("图：主轴的剖面", ""),
        ("図5 構成", "5"),
        ("Рис. 2. Схема", "2"),
        ("그림 3. 펌프의 구조", "3"),
        ("<그림 2-1> 펌프", "2-1"),
        ("【图3】水泵", "3"),
        ("איור 4: תרשים המשאבה", "4"),
        ("شكل ٢: المضخة", "2"),
        ("Şekil 5. Pompa", "5"),
        ("FİG. 5: Pompa", "5"),
        ("Figuur 6: De pomp", "6"),
        ("Σχήμα 7: Αντλία", "7"),
        ("Figure 3.", "3"),
        ("FIGURE XIV. The axis", "xiv"),
        ("Figure 5 The axis", "5"),
        ("Figure 6 (continued)", "6"),
        ("Fig. 6 (cont.): The axis", "6"),
    ],
)
def test_captions_are_known(line: str, number: str) -> None:
    assert caption_label(line) == CaptionLabel(LabelKind.FIGURE, number)


@pytest.mark.parametrize(
    "line",
    [
        "FIGURE CIVIL, seen from above",
        "Table ILL: none",
        "Figure 6 (left) shows the axis",
        "(그림 3 참조)",
        "<그림 3>은 펌프의 구조를 보여준다.",
        "[표 1]과 같이",
        "【図3】に示す",
        "[图 3 所示]",
        "Fig. 3], which",
        "Figure 3 shows the panel",
        "as Figure 3: says",
        "Figures are nice",
        "Configure 3: x",
        "Figure 2 (left)",
    ],
)
def test_sentences_are_not_captions(line: str) -> None:
    assert caption_label(line) is None


def test_tables_are_told_apart() -> None:
    assert caption_label("Table 2: Parts") == CaptionLabel(LabelKind.TABLE, "2")
    assert caption_label("表 1 部件") == CaptionLabel(LabelKind.TABLE, "1")
    assert caption_label("[표 1] 부품") == CaptionLabel(LabelKind.TABLE, "1")
    assert caption_label("جدول 1: القطع") == CaptionLabel(LabelKind.TABLE, "1")


def test_mentions_are_found_anywhere() -> None:
    assert [label.number for label in mentions("그림 3은 목표 4를 보인다. ראו באיור 7, انظر الشكل 8. На рисунке 9")] == [
        "3",
        "7",
        "8",
        "9",
    ]
    labels = mentions("See Figure 3-2 and (fig. 4), or Table A.1; configure 5 is none.")
    assert [(label.kind.value, label.number) for label in labels] == [("figure", "3-2"), ("figure", "4"), ("table", "a-1")]
