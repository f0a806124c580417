"""Reading tables that are hard to read, of each style and several seeds."""

import functools
import random

import pytest

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import StructuredDocument
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.synthetic.hard_tables import STYLES, HardTables, neighbours_f1

SEEDS = range(4)
LEAST = {"rotated, rules at head and end": 0.8}
"""Minimum F1 of neighbouring cells, over all tables of a style; 0.95 for the others."""


@functools.cache
def _made(style: str, seed: int) -> tuple[HardTables, StructuredDocument]:
    hard_tables = STYLES[style](random.Random(seed))
    parsed = parse(open_document(hard_tables.pdf), "m", ParseOptions(), keep_figure=lambda _name, _data: None)
    assert parsed.failures == ()
    return hard_tables, structure(parsed, {})


@pytest.mark.parametrize("style", [style for style in STYLES if style != "monospace"])  # which is read as code
def test_cells_of_hard_tables_are_kept_and_none_is_made_up(style: str) -> None:
    scores: list[float] = []
    for seed in SEEDS:
        hard_tables, document = _made(style, seed)
        tables = [block for block in document.blocks if block.rows]
        assert [table.page for table in tables] == [table.page for table in hard_tables.tables]
        assert not document.figures
        scores += [
            neighbours_f1(read_table.rows, true.rows) for read_table, true in zip(tables, hard_tables.tables, strict=True)
        ]
    assert sum(scores) / len(scores) >= LEAST.get(style, 0.95)


@pytest.mark.parametrize("style", ["grouped, ruled, labels over rows", "over pages", "rules between rows"])
def test_spans_are_those_that_rules_draw(style: str) -> None:
    for seed in SEEDS:
        hard_tables, document = _made(style, seed)
        (table,) = (block for block in document.blocks if block.rows)
        assert sorted(map(repr, table.spans)) == sorted(map(repr, hard_tables.tables[0].spans))


def test_a_sentence_between_two_tables_stays_there() -> None:
    hard_tables, document = _made("stacked", 1)
    words = [" ".join(block.text.split()) for block in document.blocks]
    first, second = (number for number, block in enumerate(document.blocks) if block.rows)
    assert words[first + 1 : second] == [hard_tables.between]
