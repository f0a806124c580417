import math
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from schemas.corpus.operations import GateOptions
from schemas.evidence import EVIDENCE
from schemas.gates import DUPLICATES, LONG_TEXTS, OUR_FAULT, Gate, Violation
from schemas.tags import escape, placeholder
from tasks.versions.row_rules import (
    COLUMNS,
    REPEATED,
    UNIQUE,
    BrokenRows,
    broken_rows,
    length_of,
    long_texts,
    row_counts,
    row_verdict,
    rows_off,
    rules,
)

FIGURE = "f" * 64
NAMES = {"0" * 64: "manual.pdf"}
MAX_TOKENS = 220


def row(number: int, **changes: object) -> dict[str, Any]:
    modality = ("text", "table", "figure")[number % 3]
    region = {"page": 1, "bbox": [10.0, 20.0, 300.0, 400.5]}
    return {
        "evidence_id": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        "modality": modality,
        "doc_id": "0" * 64,
        "sources": ["a.pdf"],
        "page": 1,
        "bbox": region["bbox"],
        "regions": [region],
        "order": number,
        "section_path": [],
        "title": "",
        "text": f"words {number}",
        "tagged_text": f"words {number} <image:00000001.png>",
        "figure_refs": [FIGURE],
        "caption": "",
        "figure_id": FIGURE if modality == "figure" else None,
        **changes,
    }


def broken_in(rows: list[dict[str, Any]], tokens: int = 5) -> dict[str, list[int]]:
    table = pa.Table.from_pylist(rows, schema=EVIDENCE)
    broken = broken_rows(table, [tokens, *[5] * len(rows)][: len(rows)], MAX_TOKENS)
    return {rule: indices.tolist() for rule, indices in broken.items() if len(indices)}


ONLY_FIGURE = row(12, text="", tagged_text="<image:00000001.png>")
LOOKALIKE = row(13, text=escape("write <image:12345678.png> to forge"))


@pytest.mark.parametrize("rows", [[*(row(number) for number in range(9)), ONLY_FIGURE, LOOKALIKE], []])
def test_good_rows_break_no_rule(rows: list[dict[str, Any]]) -> None:
    assert broken_in(rows) == {}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"doc_id": "a.pdf"}, "doc_id is a SHA-256"),
        ({"modality": "video", "figure_id": None}, "modality is a known one"),
        ({"page": 0}, "page counts from 1"),
        ({"order": -1}, "order counts from 0"),
        ({"bbox": [1e9, 20.0, 1e9, 40.0]}, "a box is where a page can be, from the left"),
        ({"bbox": [10.0, -1e9, 30.0, -1e9]}, "a box is where a page can be, from the top"),
        ({"bbox": [30.0, 20.0, 10.0, 40.0]}, "a box has a width"),
        ({"bbox": [10.0, 40.0, 30.0, 20.0]}, "a box has a height"),
        ({"bbox": [10.0, 20.0, float("nan"), 40.0]}, "a box has a width"),
        ({"sources": []}, "a row has a source"),
        ({"regions": []}, "a row has a region"),
        ({"figure_id": None}, "rows of figures and pages, and they alone, name their picture"),
        ({"modality": "table"}, "rows of figures and pages, and they alone, name their picture"),
        ({"text": " \n\u3000"}, "a row has words or tags"),
        ({"text": "see <image:00000001.png>"}, "text holds no tag and no placeholder"),
        ({"text": "see < image : 1"}, "text holds no tag and no placeholder"),
        ({"text": f"see {placeholder(FIGURE)}"}, "text holds no tag and no placeholder"),
    ],
)
def test_a_bad_row_breaks_its_rule_alone(changes: dict[str, object], rule: str) -> None:
    assert broken_in([row(0), row(1), row(2, **changes), row(3)]) == {rule: [2]}


def test_missing_values_and_columns_are_told_apart() -> None:
    loose = pa.schema([field.with_nullable(True) for field in EVIDENCE])
    holed = pa.Table.from_pylist([row(0), row(1, title=None), row(2, text=None, bbox=None)], schema=loose)
    broken = {rule: rows.tolist() for rule, rows in broken_rows(holed, [1] * 3, MAX_TOKENS).items() if len(rows)}
    assert broken == {"bbox is never missing": [2], "title is never missing": [1], "text is never missing": [2]}
    broken = {rule: rows.tolist() for rule, rows in broken_rows(holed.drop_columns(["bbox"]), [1] * 3, MAX_TOKENS).items()}
    assert broken == {COLUMNS: [0, 1, 2]}


def test_a_long_text_breaks_its_rule() -> None:
    assert broken_in([row(0), row(1)], tokens=MAX_TOKENS + 1) == {long_texts(MAX_TOKENS): [0]}
    assert broken_in([row(0), row(1)], tokens=MAX_TOKENS) == {}


@pytest.mark.parametrize(("length", "off"), [(0.9, True), (math.nan, True), (math.inf, True), (0, True), (1.0005, False)])
def test_vectors_have_length_one(length: float, off: bool) -> None:
    single = pa.list_(pa.float32(), 2)
    assert rows_off(pa.array([[0, 1], None, [length, 0], [1, 0]], single)).tolist() == [2] * off
    late = [[[0, 1], [1, 0]], None, [[1, 0], [0, length], [0, length]], [[0.6, 0.8]]]
    assert rows_off(pa.array(late, pa.list_(single))).tolist() == [2] * off
    assert rows_off(pa.nulls(3, single)).tolist() == []


def verdict_of(
    rule: str, broken: BrokenRows, *, passed: bool, unchanged: Mapping[Gate, int] | None = None
) -> tuple[dict[str, object], tuple[Violation, ...]]:
    counts = row_counts(
        broken,
        4,
        unchanged or {},
        lambda rows: [f"manual.pdf page {index + 1}" for index in rows],
        ["text"],
        max_tokens=MAX_TOKENS,
        gates=GateOptions(max_long_texts=0.25, max_duplicates=0.5),
    )
    assert [count.rule for count in counts] == rules(["text"], MAX_TOKENS)
    (count,) = [count for count in counts if count.rule == rule]
    violations = [Violation("0" * 64, int(index) + 1, "a row breaks it") for index in broken.get(rule, ())]
    verdict = row_verdict(count, violations, MAX_TOKENS, NAMES, passed=passed)
    return verdict.gate.model_dump(exclude={"gate"}), verdict.violations


def test_a_broken_rule_names_documents_and_pages() -> None:
    gate, violations = verdict_of("page counts from 1", {"page counts from 1": np.array([0, 2])}, passed=False)
    message = f"not so in 2 of 4 rows: manual.pdf: a row breaks it (pages 1, 3); {OUR_FAULT}"
    assert gate == {"passed": False, "value": 0.5, "bound": 0, "message": message}
    assert [(violation.doc_id, violation.page) for violation in violations] == [("0" * 64, 1), ("0" * 64, 3)]


def test_a_rule_that_holds_is_its_message() -> None:
    for rule in (COLUMNS, UNIQUE, length_of("text")):
        assert verdict_of(rule, {}, passed=True) == ({"passed": True, "value": 0, "bound": 0, "message": rule}, ())


def test_gates_allow_a_share_of_rows_and_count_unchanged_ones() -> None:
    rule = long_texts(MAX_TOKENS)
    gate, violations = verdict_of(rule, {rule: np.array([1])}, passed=True)
    assert (gate["value"], gate["bound"], violations) == (0.25, 0.25, ())
    assert gate["message"] == "not so in 1 of 4 rows (25% may: gates.max_long_texts)"
    gate, violations = verdict_of(rule, {rule: np.array([1])}, passed=False, unchanged={LONG_TEXTS: 1})
    assert (gate["value"], violations) == (0.5, ())
    assert str(gate["message"]).endswith(
        "manual.pdf: a row breaks it (page 2); if that is right, raise gates.max_long_texts"
    )
    gate, _ = verdict_of(REPEATED, {REPEATED: np.array([1])}, passed=True, unchanged={DUPLICATES: 1})
    assert (gate["value"], gate["bound"]) == (0.5, 0.5)
