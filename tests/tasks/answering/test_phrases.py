"""Phrases, by the engine that all others are compared with; the others find the same rows by the contract suite."""

import pyarrow as pa
import pytest

from schemas.evidence import EVIDENCE
from schemas.filters import Filters, Modality
from tasks.answering import retrievers
from tasks.answering.retrievers import holding
from tests.memory_index import MemoryIndex

TEXTS = [
    "Change the oil filter.",
    "The filter of the oil.",
    "OIL-\nFilter: see below",
    "Oil filters, oil. Filter housing",
    "the oil filter housing and the drain plug",
    "the drain plug",
]


def _index(texts: list[str]) -> MemoryIndex:
    plain: dict[str, object] = {
        name: "" if field.type == pa.string() else 0 if pa.types.is_integer(field.type) else []
        for name, field in zip(EVIDENCE.names, EVIDENCE, strict=True)
    }
    rows = [
        plain
        | {
            "evidence_id": str(number),
            "doc_id": f"d{number % 2}",
            "modality": Modality.TEXT.value,
            "text": text,
            "date": None,
        }
        | {"bbox": [0.0] * 4, "page": 1}
        for number, text in enumerate(texts)
    ]
    index = MemoryIndex()
    index.create(EVIDENCE, {}, ["text"])
    index.add(pa.Table.from_pylist(rows, schema=EVIDENCE).to_batches())
    index.finish()
    return index


@pytest.mark.parametrize(
    ("filters", "evidence_ids"),
    [
        (Filters(phrases=["oil filter"]), {"0", "2", "3", "4"}),
        (Filters(phrases=["Oil — FILTER!"]), {"0", "2", "3", "4"}),
        (Filters(phrases=["filter housing"]), {"3", "4"}),
        (Filters(phrases=["oil filter", "drain plug"]), {"4"}),
        (Filters(phrases=["oil filter"], documents=["d0"]), {"0", "2", "4"}),
        (Filters(phrases=["il filter"]), set()),
        (Filters(phrases=["filter oil"]), set()),
    ],
)
def test_rows_hold_a_phrase_word_for_word(filters: Filters, evidence_ids: set[str]) -> None:
    assert set(holding(_index(TEXTS), filters)) == evidence_ids


def test_rows_are_looked_through_until_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrievers, "_FIRST", 2)
    texts = [
        *(f"filter oil {'filter oil ' * number}" for number in range(30)),
        "in a long text, the oil filter " + "x " * 99,
    ]
    index = _index(texts)
    ranked = [name for name, _ in index.bm25("oil filter", 99, Filters(), {"text": 1.0})]
    assert ranked[-1] == "30"
    evidence_ids = holding(index, Filters(phrases=["oil filter"]))
    assert "30" in evidence_ids
    assert "0" not in evidence_ids


def test_of_very_many_rows_the_best_are_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrievers, "_FIRST", 2)
    monkeypatch.setattr(retrievers, "EXAMINED", 8)
    monkeypatch.setattr(retrievers, "HOLDERS", 5)
    assert len(holding(_index(["the oil filter"] * 40), Filters(phrases=["oil filter"]))) == 5
