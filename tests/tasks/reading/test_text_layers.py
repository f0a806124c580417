"""Text layers of scans that OCR replaces, or not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.models.languages import Simplemma
from backends.stores.object_store import open_store
from ray_jobs.enrich import structure_with
from schemas.documents import FoundBy, Kind, Line, ParsedDocument, Placement, Recognised, RecognisedLine, Role, TableRegion
from schemas.geometry import BBox
from schemas.ids import figure_file
from tasks.figures.render import encode
from tasks.reading.text_layers import layered_pages, pictures_to_compare, reason_to_replace_layer, without_layer
from tests.tasks.reading.pages import scanned

LEXICON = Simplemma()
ENGLISH = (
    "The pump is stopped before the valve is opened, and the filter is taken out last of all by the operator of the plant. "
    "Then the water is let out, the seal is cleaned, and the motor is started again for three minutes without any pressure. "
) * 4
JARGON = (
    "The gstreamer pipeline of the xvimagesink needs a udev rule, and the systemd unit of pulseaudio restarts alsa. " * 6
)
RUSSIAN = (
    "Перед открытием клапана насос останавливается, а фильтр вынимается оператором в последнюю очередь. Установите dpkg. "
) * 8
CHINESE = "在打开阀门之前应先停泵，最后由操作员取出过滤器。" * 20

MISREAD = str.maketrans({"m": "rn", "l": "1", "e": "c", "o": "0", "h": "b"})
"""Letters that OCR confuses."""


def layer(*texts: str, role: Role = Role.BACKGROUND) -> ParsedDocument:
    """Return a document of scanned pages with a text layer, a line of some words each."""
    scan = scanned(role=role)
    return replace(
        scan,
        pages=tuple(replace(scan.pages[0], page=page, characters=len(text)) for page, text in enumerate(texts, 1)),
        figures=tuple(replace(scan.figures[0], figure_id=_picture(page)) for page, _ in enumerate(texts, 1)),
        placements=tuple(
            replace(scan.placements[0], page=page, order=page - 1, figure_id=_picture(page))
            for page, _ in enumerate(texts, 1)
        ),
        lines=tuple(
            Line(page, 0, BBox(50, 20 + 12 * row, 350, 30 + 12 * row), words, 9, bold=False)
            for page, text in enumerate(texts, 1)
            for row, words in enumerate(_rows(text))
        ),
    )


def ocr(*texts: str) -> dict[str, Sequence[RecognisedLine]]:
    """Return what OCR reads on the pictures of the pages."""
    return {
        _picture(page): [
            RecognisedLine(BBox(100, 40 + 24 * row, 700, 60 + 24 * row), words, 0.9)
            for row, words in enumerate(_rows(text))
        ]
        for page, text in enumerate(texts, 1)
    }


def fault(document: ParsedDocument, read: Mapping[str, Sequence[RecognisedLine]]) -> str | None:
    return reason_to_replace_layer(layered_pages(document.placements), document.lines, read, LEXICON)


def compared(document: ParsedDocument) -> list[str]:
    return pictures_to_compare(layered_pages(document.placements), document.lines, LEXICON)


def _picture(page: int) -> str:
    return f"{page:064x}"


def _rows(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[at : at + 10]) for at in range(0, len(words), 10)]


@pytest.mark.parametrize(
    "poor",
    [
        ENGLISH.translate(MISREAD),
        "".join(chr(ord(letter) + 29) if letter.isalpha() else letter for letter in ENGLISH),
        "".join(chr(0xE000 + ord(letter)) if letter.isalpha() else letter for letter in ENGLISH),
        ENGLISH.replace(" the ", "the").replace(" is ", "is"),
    ],
    ids=["confused letters", "another alphabet", "no alphabet", "words joined"],
)
def test_ocr_replaces_a_poor_layer(poor: str) -> None:
    document = layer(poor)
    assert compared(document) == [_picture(1)]
    why = fault(document, ocr(ENGLISH))
    assert why is not None
    assert "100% of those that OCR reads" in why
    unlayered = without_layer(document, [_picture(1)], why)
    assert unlayered.lines == ()
    assert [(placement.role, placement.reason) for placement in unlayered.placements] == [(Role.PAGE_SCAN, why)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (JARGON, JARGON),
        (JARGON, JARGON.replace("the", "tne")),
        (RUSSIAN, "dpkg " * 20 + ENGLISH[:500]),
        (CHINESE, CHINESE),
        (ENGLISH.translate(MISREAD), ""),
        (ENGLISH.translate(MISREAD)[:300], ENGLISH[:300]),
    ],
    ids=["jargon", "OCR is worse", "OCR lacks the script", "no list of words", "OCR reads nothing", "too few words"],
)
def test_a_layer_stays_unless_ocr_is_surer(text: str, read: str) -> None:
    assert fault(layer(text), ocr(read)) is None


def test_a_layer_of_known_words_costs_no_ocr() -> None:
    assert compared(layer(ENGLISH)) == []


def test_a_few_pages_from_all_over_the_document_are_compared() -> None:
    assert compared(layer(*[JARGON] * 12)) == [_picture(3), _picture(7), _picture(11)]
    assert compared(layer(JARGON, JARGON)) == [_picture(1), _picture(2)]


@pytest.mark.parametrize("role", [Role.PAGE_SCAN, Role.CONTENT])
def test_only_pictures_behind_text_are_compared(role: Role) -> None:
    document = layer(JARGON, role=role)
    assert compared(document) == []


def test_a_page_that_ocr_cant_read_keeps_its_layer() -> None:
    poor = ENGLISH.translate(MISREAD)
    document = layer(poor, poor, poor)
    tables = tuple(TableRegion(page, BBox(50, 50, 200, 200), (("purnp",),), FoundBy.RULED) for page in (1, 2))
    document = replace(document, tables=tables)
    unlayered = without_layer(document, [_picture(1), _picture(3)], "why")
    assert {line.page for line in unlayered.lines} == {2}
    assert unlayered.tables == tables[1:]
    assert [placement.role for placement in unlayered.placements] == [Role.PAGE_SCAN, Role.BACKGROUND, Role.PAGE_SCAN]


@pytest.mark.parametrize(("why", "expected"), [(None, JARGON), ("why", ENGLISH)])
def test_a_page_has_words_of_its_layer_or_of_ocr(tmp_path: Path, why: str | None, expected: str) -> None:
    figure, picture = encode(np.full((1200, 800, 3), 255, np.uint8))
    store = open_store(str(tmp_path))
    store.put(figure_file(figure.figure_id), picture)
    document = layer(JARGON)
    placement = replace(document.placements[0], figure_id=figure.figure_id)
    (read,) = ocr(ENGLISH).values()
    structured = structure_with(
        replace(document, figures=(figure,), placements=(placement,)),
        [Recognised(figure.figure_id, tuple(read))],
        store,
        fault_of_layer=why,
    )
    assert " ".join(" ".join(block.text for block in structured.blocks).split()) == expected.strip()


def test_a_page_with_two_pictures_behind_its_text_is_read_once() -> None:
    document = layer(ENGLISH.translate(MISREAD))
    second = Placement(1, 1, BBox(0, 0, 400, 600), _picture(9), Kind.SCAN, Role.BACKGROUND, "")
    document = replace(document, placements=(*document.placements, second))
    assert compared(document) == [_picture(1)]
    unlayered = without_layer(document, [_picture(1), _picture(9)], "why")
    assert [placement.role for placement in unlayered.placements] == [Role.PAGE_SCAN, Role.BACKGROUND]
