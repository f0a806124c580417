"""One behaviour suite for every engine: subclass nothing, add a factory."""

import contextlib
import functools
import http.server
import itertools
import json
import os
import pickle
import random
import shutil
import threading
import types
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import bm25s
import numpy as np
import pyarrow as pa
import pytest

from backends.engines.analyser import terms
from backends.engines.index_rows import FILTERED
from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from backends.stores.s3_store import s3_client
from schemas.access import Allowed
from schemas.errors import ContractError, DamagedError, TransientError, UserError
from schemas.evidence import EVIDENCE
from schemas.filters import ACCESS, Filters, Modality, PageRange, ReaderFilters
from schemas.ports import SearchIndex, Vector
from tasks.answering.retrievers import holding
from tests.memory_index import MemoryIndex
from tests.waiting import wait_for
from tests.weaviate_server import StartedServer

DIMENSION = 32
DIMENSIONS = {"text": DIMENSION, "image": 8, "late": 16}
FIELDS = ("search_text", "title", "section_path")
OWN = (
    pa.field("superseded", pa.bool_()),
    pa.field("field_product", pa.list_(pa.string())),
    pa.field("field_revision", pa.float64()),
    pa.field("field_valid_from", pa.string()),
    pa.field("field_internal", pa.bool_()),
)
FACTS: dict[str, tuple[object, ...]] = {
    "0": (False, ["PX-4's", "PX 4"], 7.5, "2024-03-31", True),
    "1": (True, ["T1"], 0.0, "2023-01-01", False),
    "2": (False, None, None, None, None),
    "9": (False, [], None, None, None),
}
"""What documents say in fields of their own."""

SCHEMA = pa.schema(
    [
        *EVIDENCE,
        pa.field("search_text", pa.string()),
        pa.field(ACCESS, pa.list_(pa.string())),
        *OWN,
        pa.field("vector_text", pa.list_(pa.float32(), DIMENSION)),
        pa.field("vector_image", pa.list_(pa.float32(), 8)),
        pa.field("vector_late", pa.list_(pa.list_(pa.float32(), 16))),
    ]
)
ANY = Filters()

SUBJECTS = ["register", "split", "printer", "firmware", "battery", "straße", "文書", "ledger", "o'clock", "C++"]
QUOTED = "manuals/o'brien.pdf"
UNICODE = "handbücher/Übersicht – 中文.pdf"
AWKWARD = [
    'What\'s the "register" for?',
    "register AND (split OR",
    "title:register^2 ~1 *",
    'register + - && || ! ( ) { } [ ] ^ " ~ * ? : \\ /',
    "'; DROP TABLE rows; --register",
    "\\register\\",
    "register \ud800 \x00",
    "register " * 2000,
]


def unit_vectors(count: int, seed: int = 3, dimension: int = DIMENSION) -> Vector:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    vectors: Vector = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return vectors


def evidence_id(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def row(number: int) -> dict[str, object]:
    """Sixty rows: three documents of twenty, the last with two sources; each row touches its page and the next."""
    document, order = divmod(number, 20)
    sources = [[QUOTED], [UNICODE], ["b/plain.pdf", "a/copy of plain.pdf"]][document]
    page = order // 2 + 1
    text = f"About the {SUBJECTS[order % 10]} of document {document}, part {order}."
    return {
        "evidence_id": evidence_id(number),
        "modality": [Modality.TEXT, Modality.TABLE, Modality.FIGURE, Modality.TEXT][number % 4].value,
        "doc_id": f"{document}" * 64,
        "sources": sources,
        "page": page,
        "bbox": [1.0, 2.0, 3.0, 4.5],
        "regions": [{"page": page + step, "bbox": [1.0, 2.0, 3.0, 4.5]} for step in (0, 1)],
        "order": order,
        "section_path": ["Straße", "§ 1"] if number % 2 else ["2.1 Filters", "O-rings"] if order == 4 else [],
        "title": "Register manual" if number % 20 == 3 else "Manual",
        "text": text,
        "tagged_text": text + " <image:00000001.png>",
        "figure_refs": ["f" * 64] if number % 3 else [],
        "caption": "",
        "figure_id": "f" * 64 if number % 4 == 2 else None,
        "tagged_rows": [["Part", "Torque"], [f"M{number}\n<image:00000001.png>", ""]] if number % 4 == 1 else None,
        "spans": [{"row": 0, "column": 0, "rowspan": 1, "colspan": 2}] if number % 4 == 1 else None,
        "description": "A panel seen from above." if number % 8 == 2 else None,
        "described_by": ["vlm", "context"][number // 4 % 2] if number % 4 == 2 else None,
        "flags": ["not_described"] if number % 8 == 6 else [] if number % 4 == 2 else None,
        "date": ["2023-12-31", "2024-03-01", None][document],
        "language": [None, "en", "de"][document],
        "page_labels": [None, ["iv", "v"], ["", "1"]][document],
        "doc_type": [None, "paper", "o'manual"][document],
        "node_id": None if order % 5 == 4 else order + 1,
        "parent_id": None if order < 5 else 1,
    }


RIGHTS = {"0" * 64: ["everyone", "group:o'brien"], "1" * 64: ["group:Süd, x"], "2" * 64: []}
"""Who may read each document; the last one nobody."""

ROWS = [row(place) for place in range(60)]
VECTORS = unit_vectors(60)
VECTORS[40:60] = VECTORS[20:40]  # the third document ties with the second


IMAGES = unit_vectors(4000, seed=11, dimension=8)
PAGES = unit_vectors(16000, seed=12, dimension=16).reshape(4000, 4, 16)


def table(rows: list[dict[str, object]], vectors: Vector) -> pa.Table:
    """Figures have an image vector; every third row has one to four late vectors."""
    extended = [
        {
            **row,
            "search_text": row["text"],
            ACCESS: RIGHTS.get(str(row["doc_id"])),
            **dict(zip((column.name for column in OWN), FACTS.get(str(row["doc_id"])[0], FACTS["9"]), strict=True)),
            "vector_text": vector,
            "vector_image": IMAGES[number].tolist() if row["modality"] == Modality.FIGURE else None,
            "vector_late": PAGES[number][: number % 4 + 1].tolist() if number % 3 == 0 else None,
        }
        for number, (row, vector) in enumerate(zip(rows, vectors, strict=True))
    ]
    return pa.Table.from_pylist(extended, schema=SCHEMA)


def many_rows() -> tuple[list[dict[str, object]], Vector]:
    rows = [{**ROWS[number % 60], "evidence_id": evidence_id(number)} for number in range(4000)]
    return rows, unit_vectors(4000, seed=8)


def fill(index: SearchIndex, rows: list[dict[str, object]], vectors: Vector, schema: pa.Schema = SCHEMA) -> None:
    index.create(schema, DIMENSIONS, FIELDS)
    assert index.add(table(rows, vectors).select(schema.names).to_batches(max_chunksize=17)) == len(rows)
    index.finish()


def ids(hits: list[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in hits]


def places(hits: list[tuple[str, float]]) -> set[int]:
    names = {str(row["evidence_id"]): number for number, row in enumerate(ROWS)}
    return {names[evidence_id] for evidence_id, _ in hits}


def assert_alike(hits: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    assert ids(hits) == ids(expected)
    assert [score for _, score in hits] == pytest.approx([score for _, score in expected], abs=1e-4)


def recall_at_10(index: SearchIndex, reference: SearchIndex, questions: Sequence[Vector], space: str = "text") -> float:
    """Share of the reference's ten best; questions of a ``late`` space have a row a vector."""

    def best(engine: SearchIndex, question: Vector) -> set[str]:
        return {*ids((engine.late if space == "late" else engine.dense)(question, 10, ANY, space))}

    return sum(len(best(index, query) & best(reference, query)) for query in questions) / (10 * len(questions))


class Factory(Protocol):
    def __call__(self, folder: Path, /, languages: Sequence[str] = ()) -> SearchIndex: ...


names = itertools.count()


def _weaviate(request: pytest.FixtureRequest) -> Factory:
    server: WeaviateServer = request.getfixturevalue("weaviate")
    return lambda _folder, languages=(): WeaviateIndex(server, f"Contract_{os.getpid()}_{next(names)}", languages=languages)


ENGINES: dict[str, Callable[[pytest.FixtureRequest], Factory]] = {
    "memory": lambda _request: lambda _folder, languages=(): MemoryIndex(languages),
    "lancedb": lambda _request: (
        lambda folder, languages=(): LanceIndex(str(folder / "versions" / "v1" / "lance"), "Corpus_v1", languages=languages)
    ),
    "weaviate": _weaviate,
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.live if "weaviate" in name else ()) for name in ENGINES],
)
def engine(request: pytest.FixtureRequest) -> Factory:
    return ENGINES[request.param](request)


@pytest.fixture(scope="module")
def index(engine: Factory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    """The sixty rows; tests of this fixture only read."""
    built = engine(tmp_path_factory.mktemp("index"))
    fill(built, ROWS, VECTORS)
    yield built
    built.drop()


@pytest.fixture
def empty(engine: Factory, tmp_path: Path) -> Iterator[SearchIndex]:
    empty_index = engine(tmp_path)
    yield empty_index
    empty_index.drop()


@pytest.fixture(scope="module")
def reference() -> SearchIndex:
    """The same rows in the engine that the others are compared with."""
    memory_index = MemoryIndex()
    fill(memory_index, ROWS, VECTORS)
    return memory_index


class TestWriting:
    def test_counts_are_read_back(self, index: SearchIndex) -> None:
        assert index.count() == 60

    def test_creating_again_drops_what_was_left(self, empty: SearchIndex) -> None:
        fill(empty, ROWS, VECTORS)
        fill(empty, ROWS[:5], VECTORS[:5])
        assert empty.count() == 5
        assert len(empty.dense(VECTORS[0], 60, ANY, "text")) == 5
        assert ids(empty.bm25("register", 60, ANY)) == [evidence_id(0)]

    def test_dropping_twice_is_harmless(self, empty: SearchIndex) -> None:
        empty.drop()
        fill(empty, ROWS[:5], VECTORS[:5])
        empty.drop()
        empty.drop()
        with pytest.raises(DamagedError):
            empty.count()

    def test_an_index_of_no_rows_answers(self, empty: SearchIndex) -> None:
        fill(empty, [], VECTORS[:0])
        assert empty.count() == 0
        assert empty.bm25("register", 5, ANY) == []
        assert empty.dense(VECTORS[0], 5, ANY, "text") == []
        assert empty.late(PAGES[0], 5, ANY, "late") == []
        assert empty.fetch([evidence_id(1)]) == []
        assert empty.vectors([evidence_id(1)], "text") == {}

    def test_an_error_of_the_rows_comes_through(self, empty: SearchIndex) -> None:
        def broken() -> Iterator[pa.RecordBatch]:
            yield from table(ROWS[:3], VECTORS[:3]).to_batches()
            raise ContractError("a row has no vector")

        empty.create(SCHEMA, DIMENSIONS, FIELDS)
        with pytest.raises(ContractError, match="a row has no vector"):
            empty.add(broken())

    def test_rows_added_in_two_calls_are_all_found(self, empty: SearchIndex) -> None:
        empty.create(SCHEMA, DIMENSIONS, FIELDS)
        empty.add(table(ROWS[:30], VECTORS[:30]).to_batches())
        empty.add(table(ROWS[30:], VECTORS[30:]).to_batches())
        empty.finish()
        assert empty.count() == 60
        assert len(empty.bm25("register", 60, ANY)) == 6

    def test_a_schema_without_what_search_needs_is_refused(self, empty: SearchIndex) -> None:
        with pytest.raises(ContractError, match="search_text"):
            empty.create(EVIDENCE, {})
        with pytest.raises(ContractError, match="vector_text"):
            empty.create(SCHEMA, {"text": 384})
        with pytest.raises(ContractError, match="vector_unified"):
            empty.create(SCHEMA, {"unified": 8})

    def test_another_process_opens_what_was_built(self, empty: SearchIndex, engine: Factory) -> None:
        if isinstance(empty, MemoryIndex):
            pytest.skip("memory is not shared")
        fill(empty, ROWS[:5], VECTORS[:5])
        copied = pickle.loads(pickle.dumps(empty))
        assert ids(copied.bm25("register", 5, ANY)) == [evidence_id(0)]


def derived(engine: Factory, folder: Path, without: Sequence[str], rows: list[dict[str, object]]) -> SearchIndex | None:
    """Derive a collection from one of the sixty rows, which is dropped then; None where the engine can't."""
    earlier, index = engine(folder / "earlier"), engine(folder / "derived")
    fill(earlier, ROWS, VECTORS)
    fill(index, ROWS[:5], VECTORS[:5])  # what a killed build left
    try:
        if not index.derive(earlier, SCHEMA, FIELDS, without):
            return None
        if rows:
            assert index.add(table(rows, VECTORS[: len(rows)]).to_batches(max_chunksize=3)) == len(rows)
        index.finish()
        assert earlier.count() == 60
        assert len(earlier.bm25("register", 60, ANY)) == 6
    finally:
        earlier.drop()
    return index


NEW_WORDS = [
    {
        **ROWS[place],
        "evidence_id": evidence_id(place + 100),
        "doc_id": "9" * 64,
        "text": f"The register of part {place}, again.",
    }
    for place in range(7)
]


class TestDeriving:
    @pytest.mark.parametrize(
        ("without", "rows"),
        [
            pytest.param(["1" * 64], NEW_WORDS, id="changed"),
            pytest.param(["1" * 64, "2" * 64], [], id="deleted"),
            pytest.param([], NEW_WORDS, id="added"),
            pytest.param([], [], id="nothing"),
            pytest.param(["0" * 64, "1" * 64, "2" * 64], NEW_WORDS, id="all changed"),
            pytest.param(["0" * 64, "1" * 64, "2" * 64], [], id="all deleted"),
        ],
    )
    def test_it_answers_as_a_fresh_one(
        self, engine: Factory, tmp_path: Path, without: list[str], rows: list[dict[str, object]]
    ) -> None:
        index = derived(engine, tmp_path, without, rows)
        if index is None:
            pytest.skip("this engine fills a collection of its own for every version")
        rebuilt = engine(tmp_path / "fresh")
        numbers = [number for number in range(60) if ROWS[number]["doc_id"] not in without]
        expected_rows = [ROWS[number] for number in numbers] + rows
        fill(rebuilt, expected_rows, np.concatenate([VECTORS[numbers], VECTORS[: len(rows)]]))
        names = [str(row["evidence_id"]) for row in expected_rows]
        assert index.count() == len(expected_rows)
        assert index.fetch(names) == rebuilt.fetch(names) == expected_rows
        assert index.vectors(names, "text").keys() == rebuilt.vectors(names, "text").keys()
        for words in (*SUBJECTS, "register of the manual", "about part 3"):
            for weights in ({"search_text": 1.0}, {"title": 2.0, "section_path": 0.5}):
                assert_alike(index.bm25(words, 60, ANY, weights), rebuilt.bm25(words, 60, ANY, weights))
        for vector in VECTORS[:9]:
            assert_alike(index.dense(vector, 60, ANY, "text"), rebuilt.dense(vector, 60, ANY, "text"))
        narrow = Filters(documents=[QUOTED], pages=[2])
        assert_alike(index.bm25("register split", 60, narrow), rebuilt.bm25("register split", 60, narrow))
        for search_index in (index, rebuilt):
            search_index.drop()

    def test_what_is_made_otherwise_is_no_base(self, engine: Factory, tmp_path: Path) -> None:
        earlier, index = engine(tmp_path / "earlier"), engine(tmp_path / "derived")
        fill(earlier, ROWS[:5], VECTORS[:5])
        assert not index.derive(earlier, SCHEMA, (*FIELDS, "caption"), [])
        assert not index.derive(earlier, SCHEMA.remove(SCHEMA.get_field_index("vector_image")), FIELDS, [])
        foreign_index = LanceIndex(str(tmp_path / "other"), "T") if isinstance(index, MemoryIndex) else MemoryIndex()
        fill(foreign_index, ROWS[:5], VECTORS[:5])
        assert not index.derive(foreign_index, SCHEMA, FIELDS, [])
        fill(index, ROWS[:5], VECTORS[:5])
        assert index.count() == 5
        for search_index in (index, earlier):
            search_index.drop()


class TestLexical:
    def test_finds_the_rows_that_hold_a_term(self, index: SearchIndex) -> None:
        assert places(index.bm25("firmware", 60, ANY)) == {3, 13, 23, 33, 43, 53}

    def test_any_term_may_match_and_more_terms_rank_higher(self, index: SearchIndex) -> None:
        hits = index.bm25("How do I update the firmware of document 2?", 60, ANY)
        assert places(hits[:2]) == {43, 53}
        assert places(hits) >= {3, 13, 23, 33, 43, 53}

    @pytest.mark.parametrize("query", AWKWARD)
    def test_no_character_of_a_query_is_syntax(self, index: SearchIndex, query: str) -> None:
        assert {0, 10, 20, 30, 40, 50} <= places(index.bm25(query, 60, ANY))

    @pytest.mark.parametrize("query", ["", " \n\t", "?", "—", "qqqqqq", "\x00"])
    def test_nothing_matches_nothing(self, index: SearchIndex, query: str) -> None:
        assert index.bm25(query, 10, ANY) == []

    @pytest.mark.parametrize("query", ["straße", "STRASSE".replace("SS", "ß"), "文書"])
    def test_terms_beyond_ascii(self, index: SearchIndex, query: str) -> None:
        assert len(index.bm25(query, 60, ANY)) == 6

    def test_scores_descend_and_ties_go_by_id(self, index: SearchIndex) -> None:
        hits = index.bm25("document register part", 60, ANY)
        assert hits == sorted(hits, key=lambda pair: (-pair[1], pair[0]))
        assert len({score for _, score in hits}) < len(hits)

    def test_a_short_answer_begins_a_longer_one(self, index: SearchIndex) -> None:
        longest = index.bm25("about the document", 60, ANY)
        assert len(longest) == 60
        for k in (0, 1, 5, 10, 59):
            assert index.bm25("about the document", k, ANY) == longest[:k]

    @pytest.mark.parametrize("query", ["firmware", "the ledger of document 1", "battery part 14", "printer straße"])
    def test_finds_what_the_reference_finds(self, index: SearchIndex, reference: SearchIndex, query: str) -> None:
        """Engines count words each in their own way: the same rows, the same best ones, no two scores alike."""
        hits, expected = index.bm25(query, 60, ANY), reference.bm25(query, 60, ANY)
        assert places(hits) == places(expected)
        best = {name for name, score in expected if score == expected[0][1]}
        assert {*ids(hits[: len(best)])} == best

    def test_ranks_rows_as_the_textbook_does(self, empty: SearchIndex) -> None:
        """By bm25s, whose formula others wrote, on the same terms: 200 texts of words as rare as words are."""
        drawn = random.Random(5)
        words = [
            f"{head}{two}" for head in ("ba", "co", "du", "fe", "gi") for two in ("lam", "ren", "sot", "vuk", "zin", "pom")
        ]
        rarity = [1 / rank for rank in range(1, len(words) + 1)]
        texts = [" ".join(drawn.choices(words, rarity, k=drawn.randrange(3, 60))) for _ in range(200)]
        rows = [{**ROWS[0], "evidence_id": evidence_id(number), "text": text} for number, text in enumerate(texts)]
        fill(empty, rows, unit_vectors(200))
        numbers = {evidence_id(number): number for number in range(200)}
        textbook = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
        textbook.index([terms(text, None).split() for text in texts], show_progress=False)
        for query in ("balam", words[-1], "colam gipom", "fevuk balam dusot", " ".join(words[::4])):
            scores = textbook.get_scores(query.split())
            expected = sorted((float(score) for score in scores if score), reverse=True)[:10]
            best_scores = [float(scores[numbers[name]]) for name, _ in empty.bm25(query, 10, ANY)]
            assert best_scores == pytest.approx(expected, rel=1e-3), query

    def test_fields_are_weighted(self, index: SearchIndex) -> None:
        titled, mentioned = {3, 23, 43}, {0, 10, 20, 30, 40, 50}
        assert places(index.bm25("register", 60, ANY, {"title": 1.0})) == titled
        assert places(index.bm25("straße", 60, ANY, {"section_path": 1.0})) == set(range(1, 60, 2))
        for weights in ({"title": 9.0, "search_text": 0.1}, {"title": 0.01, "search_text": 9.0}):
            hits = index.bm25("register", 60, ANY, weights)
            assert places(hits) == titled | mentioned
            assert places(hits[:3]) <= (titled if weights["title"] > 1 else mentioned)

    def test_a_field_that_was_not_indexed_is_refused(self, index: SearchIndex) -> None:
        with pytest.raises(ContractError, match="caption"):
            index.bm25("register", 5, ANY, {"caption": 1.0})

    def test_every_term_may_have_to_match(self, index: SearchIndex) -> None:
        assert places(index.bm25("register document 2", 60, ANY, every=True)) == {40, 50}
        assert index.bm25("register firmware", 60, ANY, every=True) == []
        assert places(index.bm25("manual register", 60, ANY, {"title": 1.0, "search_text": 1.0}, every=True)) == {3, 23, 43}
        assert index.bm25("register qqqqqq", 60, ANY, every=True) == []


TEXTS = {
    "en": "Pumps WCP-3200-B are installed with screws M3×12; see /etc/fstab and release 4.7.2 of max_open_files in C++.",
    "de": "Die Druckerwarteschlangen leeren und die Sicherheitsventile prüfen. Straßen vermeiden.",
    "fr": "L’élément chauffant doit être réglé avant l’arrêt d’urgence des chevaux.",
    "ru": "Установка программного обеспечения на жёсткие диски.",
    "ar": "تثبيت البرامج على الأقراص الصلبة مع المستخدمين",
    "zh": "请在更换冷却水泵之前关闭电源，连接USB接口 interrupts。",
    "ja": "プリンターの設定を変更するには電源ケーブルを抜いてください。",
    "ko": "프린터를 설치하기 전에 전원을 끄십시오.",
    "th": "กรุณาปิดเครื่องพิมพ์ก่อนเปลี่ยนตลับหมึก",
}


@pytest.fixture(scope="module")
def languages(engine: Factory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    """A row a language, and one whose language isn't known."""
    built = engine(tmp_path_factory.mktemp("languages"), languages=[*TEXTS])
    rows = [{**ROWS[number], "text": text, "language": code} for number, (code, text) in enumerate(TEXTS.items())]
    fill(built, [*rows, {**ROWS[20], "text": "A pump, 4.7.3.", "language": None}], VECTORS[: len(rows) + 1])
    yield built
    built.drop()


class TestLanguages:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            pytest.param("installing a screw", "en", id="stems"),
            pytest.param("wcp-3200-b", "en", id="identifier"),
            pytest.param("3200", "en", id="part of an identifier"),
            pytest.param("WCP3200B", "en", id="identifier without hyphens"),
            pytest.param("M3x12", "en", id="measures"),
            pytest.param("etc/fstab", "en", id="path"),
            pytest.param("fstab", "en", id="part of a path"),
            pytest.param("max_open_files", "en", id="snake case"),
            pytest.param("4.7.2", "en", id="release"),
            pytest.param("C++", "en", id="signs"),
            pytest.param("Warteschlange", "de", id="compound"),
            pytest.param("Drucker", "de", id="first part"),
            pytest.param("Ventil", "de", id="part in the plural"),
            pytest.param("Sicherheitsventil", "de", id="plural"),
            pytest.param("STRASSE", "de", id="capital ß"),
            pytest.param("prufen", "de", id="no umlaut"),
            pytest.param("éléments", "fr", id="elision"),
            pytest.param("element regle", "fr", id="no accents"),
            pytest.param("urgences", "fr", id="typographic apostrophe"),
            pytest.param("установки", "ru", id="case"),
            pytest.param("жесткий диск", "ru", id="no ё"),
            pytest.param("برنامج قرص الاقراص", "ar", id="no hamza"),
            pytest.param("مستخدم", "ar", id="article"),
            pytest.param("冷却水", "zh", id="within a run"),
            pytest.param("水泵", "zh", id="end of a word"),
            pytest.param("泵", "zh", id="one character"),
            pytest.param("interrupt", "zh", id="English in Chinese"),
            pytest.param("usb", "zh", id="letters beside characters"),
            pytest.param("電源ケーブル", "ja", id="kanji and kana"),
            pytest.param("設定変更", "ja", id="other order"),
            pytest.param("ﾌﾟﾘﾝﾀｰ", "ja", id="half width"),
            pytest.param("프린터", "ko", id="particle"),
            pytest.param("เครื่องพิมพ์", "th", id="Thai"),
        ],
    )
    def test_words_are_found_as_their_language_inflects_them(
        self, languages: SearchIndex, query: str, expected: str
    ) -> None:
        assert ids(languages.bm25(query, 1, ANY)) == [evidence_id([*TEXTS].index(expected))]

    def test_characters_in_another_order_are_not_found(self, languages: SearchIndex) -> None:
        assert languages.bm25("泵水", 5, ANY) == []

    def test_what_is_written_ranks_above_another_form_of_it(self, engine: Factory, tmp_path: Path) -> None:
        index = engine(tmp_path, languages=["en"])
        forms = ["installed", "installing", "installs", "install", "reinstall"]
        rows = [{**ROWS[20 + number], "text": f"{form} it"} for number, form in enumerate(forms)]
        fill(index, rows, VECTORS[: len(rows)])
        for number, form in enumerate(forms):
            hits = index.bm25(form, 5, ANY)
            assert hits[0][0] == evidence_id(20 + number)
            assert len(hits) == (1 if form == "reinstall" else 4)
        index.drop()

    def test_a_word_that_is_asked_twice_counts_once(self, languages: SearchIndex) -> None:
        assert languages.bm25("ventil Ventile Ventil", 5, ANY)[0][1] == pytest.approx(
            languages.bm25("Ventile", 5, ANY)[0][1], rel=1e-3
        )


class TestDense:
    def test_scores_are_cosine_similarities_best_first(self, index: SearchIndex) -> None:
        hits = index.dense(VECTORS[7], 60, ANY, "text")
        assert hits[0][0] == evidence_id(7)
        expected = VECTORS @ VECTORS[7]
        assert dict(hits) == pytest.approx({evidence_id(number): float(expected[number]) for number in range(60)}, abs=1e-5)
        assert all(-1 <= score <= 1 for _, score in hits)
        assert hits == sorted(hits, key=lambda pair: (-pair[1], pair[0]))

    def test_the_length_of_the_question_does_not_matter(self, index: SearchIndex) -> None:
        assert ids(index.dense(VECTORS[7] * np.float32(4), 10, ANY, "text")) == ids(
            index.dense(VECTORS[7], 10, ANY, "text")
        )

    def test_ties_go_by_id(self, index: SearchIndex) -> None:
        assert ids(index.dense(VECTORS[25], 2, ANY, "text")) == sorted([evidence_id(25), evidence_id(45)])

    def test_a_short_answer_begins_a_longer_one(self, index: SearchIndex) -> None:
        longest = index.dense(VECTORS[30], 60, ANY, "text")
        for k in (0, 1, 5, 10, 59, 600, 20_000):
            assert index.dense(VECTORS[30], k, ANY, "text") == longest[:k]

    def test_agrees_with_the_reference(self, empty: SearchIndex) -> None:
        vectors = unit_vectors(500, seed=5)
        rows = [{**ROWS[number % 60], "evidence_id": evidence_id(number)} for number in range(500)]
        fill(empty, rows, vectors)
        exact_index = MemoryIndex()
        fill(exact_index, rows, vectors)
        assert recall_at_10(empty, exact_index, list(unit_vectors(20, seed=6))) >= 0.99

    def test_a_space_finds_only_rows_that_have_a_vector_there(self, index: SearchIndex, reference: SearchIndex) -> None:
        hits = index.dense(IMAGES[6], 60, ANY, space="image")
        assert_alike(hits, reference.dense(IMAGES[6], 60, ANY, "image"))
        assert places(hits) == set(range(2, 60, 4))

    def test_other_spaces_and_lengths_are_refused(self, index: SearchIndex) -> None:
        with pytest.raises(ContractError, match="unified"):
            index.dense(VECTORS[0], 5, ANY, space="unified")
        with pytest.raises(ContractError, match="length 3"):
            index.dense(VECTORS[0][:3], 5, ANY, "text")
        with pytest.raises(ContractError, match="late"):
            index.dense(PAGES[0][0], 5, ANY, space="late")


class TestLate:
    def test_scores_are_the_sums_of_the_best_cosines(self, index: SearchIndex) -> None:
        query_vectors = PAGES[9][:2] * np.float32(3)
        hits = index.late(query_vectors, 60, ANY, "late")
        expected = {
            evidence_id(number): float((PAGES[9][:2] @ PAGES[number][: number % 4 + 1].T).max(axis=1).sum())
            for number in range(0, 60, 3)
        }
        assert dict(hits) == pytest.approx(expected, abs=1e-4)
        assert hits[0][0] == evidence_id(9)
        assert hits == sorted(hits, key=lambda pair: (-pair[1], pair[0]))

    def test_agrees_with_the_reference_under_filters(self, index: SearchIndex, reference: SearchIndex) -> None:
        only = Filters(documents=["plain.pdf"], pages=[1, 2, 3, 4])
        query_vectors = unit_vectors(5, seed=21, dimension=16)
        assert_alike(index.late(query_vectors, 3, only, "late"), reference.late(query_vectors, 3, only, "late"))

    def test_other_spaces_and_lengths_are_refused(self, index: SearchIndex) -> None:
        with pytest.raises(ContractError, match="text"):
            index.late(VECTORS[:2], 5, ANY, space="text")
        with pytest.raises(ContractError, match="length 3"):
            index.late(PAGES[0][:, :3], 5, ANY, "late")


class TestFilters:
    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (Filters(documents=["o'brien.pdf"]), range(20)),
            (Filters(documents=[QUOTED]), range(20)),
            (Filters(documents=["1" * 64]), range(20, 40)),
            (Filters(documents=["Übersicht – 中文.pdf"]), range(20, 40)),
            (Filters(documents=["plain.pdf"]), range(40, 60)),
            (Filters(documents=["a/copy of plain.pdf"]), range(40, 60)),
            (Filters(documents=["o'brien.pdf", "plain.pdf", "absent.pdf"]), [*range(20), *range(40, 60)]),
            (Filters(documents=["brien.pdf"]), []),
            (Filters(documents=["manuals"]), []),
            (Filters(documents=["x') OR ('1'='1"]), []),
            (Filters(documents=["o'brien.pdf') OR 1=1 --"]), []),
            (Filters(documents=["\\", "\\'", "%", "_", "", "\ud800"]), []),
            (Filters(modalities=[Modality.FIGURE]), range(2, 60, 4)),
            (Filters(modalities=[Modality.FIGURE, Modality.TABLE]), [p for p in range(60) if p % 4 in (1, 2)]),
            (Filters(documents=["plain.pdf"], pages=[1]), [40, 41]),
            (Filters(documents=["plain.pdf"], pages=[2]), [40, 41, 42, 43]),
            (Filters(pages=[10, 99]), [16, 17, 18, 19, 36, 37, 38, 39, 56, 57, 58, 59]),
            (Filters(documents=["o'brien.pdf"], pages=[1, 2], modalities=[Modality.TABLE]), [1]),
            (Filters(documents=["manuals/"]), range(20)),
            (Filters(documents=["b/", "handbücher/"]), range(20, 60)),
            (Filters(sections=["STRASSE"]), range(1, 60, 2)),
            (Filters(sections=["straße › § 1"]), range(1, 60, 2)),
            (Filters(sections=["Strass"]), []),
            (Filters(sections=["filters", "2.1", "o'rings' --"]), [4, 24, 44]),
            (Filters(sections=["2.1 filters > O rings"], documents=["plain.pdf"]), [44]),
            (Filters(sections=["O-rings"]), [4, 24, 44]),
            (Filters(sections=["2.1 O-rings", "??", "\ud800"]), []),
            (Filters(has_figure=True), [p for p in range(60) if p % 3 or p % 4 == 2]),
            (Filters(has_figure=False), [p for p in range(60) if not p % 3 and p % 4 != 2]),
            (Filters(since=date(2024, 1, 1)), range(20, 40)),
            (Filters(since=date(2023, 12, 31)), range(40)),
            (Filters(until=date(2024, 2, 29)), range(20)),
            (Filters(since=date(2024, 3, 1), until=date(2024, 3, 1)), range(20, 40)),
            (Filters(evidence_ids=[evidence_id(7), evidence_id(41), evidence_id(99)]), [7, 41]),
            (Filters(evidence_ids=["'; --", "absent"]), []),
            (Filters(languages=["de"]), range(40, 60)),
            (Filters(languages=["en", "de", "x' OR"]), range(20, 60)),
            (Filters(languages=["fr"]), []),
            (Filters(doc_types=["o'manual"]), range(40, 60)),
            (Filters(doc_types=["paper", "o'manual", "\ud800"]), range(20, 60)),
            (Filters(doc_types=["Paper"]), []),
            (Filters(page_labels=["iv"]), range(20, 40)),
            (Filters(page_labels=["1"]), [0, 1, *range(40, 60)]),  # the first document's pages have only numbers
            (Filters(page_labels=["IV", "o'", ""]), []),
            (Filters(where={"product": ["PX-4's"]}), range(20)),
            (Filters(where={"product": ["PX 4", "T1"]}), range(40)),
            (Filters(where={"product": ["x') OR ('1'='1", "\ud800"]}), []),
            (Filters(where={"revision": {">=": 0.0, "<=": 7.4}}), range(20, 40)),
            (Filters(where={"revision": [7.5, -1.0]}), range(20)),
            (Filters(where={"valid_from": {">=": "2023-01-02"}}), range(20)),
            (Filters(where={"internal": False}), range(20, 40)),
            (Filters(where={"internal": True, "revision": {">=": 8.0}}), []),
            (Filters(superseded="exclude"), [*range(20), *range(40, 60)]),
            (ReaderFilters.of(Filters(superseded="exclude"), Allowed(("group:o'brien",)), ["1" * 64]), range(20)),
            (Filters(evidence_ids=[evidence_id(7), evidence_id(41)], has_figure=True, sections=["Straße"]), [7, 41]),
        ],
    )
    def test_narrow_every_way_of_looking(self, index: SearchIndex, filters: Filters, expected: list[int]) -> None:
        assert places(index.dense(VECTORS[0], 60, filters, "text")) == set(expected)
        assert places(index.bm25("about", 60, filters)) == set(expected)

    @pytest.mark.parametrize(
        "filters", [Filters(sources=["*"]), Filters(page_ranges=[PageRange(first=2)]), Filters(phrases=["the register"])]
    )
    def test_what_an_engine_can_not_do_is_resolved_before(self, index: SearchIndex, filters: Filters) -> None:
        with pytest.raises(ContractError, match="resolved"):
            index.bm25("about", 5, filters)
        with pytest.raises(ContractError, match="resolved"):
            index.dense(VECTORS[0], 5, filters, "text")

    @pytest.mark.parametrize(
        ("allowed", "expected"),
        [
            (Allowed(("everyone",)), range(20)),
            (Allowed(("everyone", "group:Süd, x")), range(40)),
            (Allowed(("group:o'brien",)), range(20)),
            (Allowed(("user:') OR 1=1 --", "user:\ud800")), []),
            (Allowed(("everyone",), ("0" * 64,)), []),  # withdrawn since
            (Allowed(("everyone",), ("0" * 64, "2" * 64), ("2" * 64,)), range(40, 60)),
            (Allowed(("group:Süd, x",), ("2" * 64,), ("2" * 64,)), range(20, 60)),
            (Allowed((), (), ("1" * 64,)), range(20, 40)),
            (Allowed(()), []),
        ],
    )
    def test_leave_out_what_a_reader_may_not_see(
        self, index: SearchIndex, allowed: Allowed, expected: Sequence[int]
    ) -> None:
        filters = ReaderFilters.of(ANY, allowed)
        assert places(index.dense(VECTORS[0], 60, filters, "text")) == set(expected)
        assert places(index.bm25("about", 60, filters)) == set(expected)
        figures = ReaderFilters.of(Filters(modalities=[Modality.FIGURE]), allowed)
        assert places(index.dense(VECTORS[0], 60, figures, "text")) == {number for number in expected if number % 4 == 2}

    def test_rights_need_rows_that_carry_them(self, engine: Factory, tmp_path: Path) -> None:
        index = engine(tmp_path)
        fill(index, ROWS[:3], VECTORS[:3], pa.schema([column for column in SCHEMA if column.name != ACCESS]))
        with pytest.raises(ContractError, match="carry no rights"):
            index.bm25("about", 5, ReaderFilters.of(ANY, Allowed(("everyone",))))
        assert places(index.bm25("about", 5, ReaderFilters.of(ANY, Allowed((), (), ("0" * 64,))))) == {0, 1, 2}
        index.drop()

    def test_narrow_before_ranking(self, index: SearchIndex) -> None:
        far = min(range(60), key=lambda place: float(VECTORS[place] @ VECTORS[0]))
        only = Filters(documents=[str(ROWS[far]["doc_id"])], pages=[int(str(ROWS[far]["page"]))])
        assert evidence_id(far) in ids(index.dense(VECTORS[0], 4, only, "text"))


class TestPhrases:
    """What ``holding`` makes of an engine's words is the same on each."""

    def test_rows_hold_a_phrase_word_for_word(self, engine: Factory, tmp_path: Path) -> None:
        texts = {
            "en": "Clean the oil\n filters: OIL-filters of max_open_files (4.7.2) are installed.",
            "de": "Die Sicherheitsventile der Straße prüfen.",
            "zh": "请在更换冷却水泵之前关闭电源。",
            None: "filters, oil; filter oil",
        }
        index = engine(tmp_path, languages=["de", "en", "zh"])
        index.create(SCHEMA, DIMENSIONS, (*FIELDS, "text"))
        rows = [{**ROWS[number], "text": text, "language": code} for number, (code, text) in enumerate(texts.items())]
        index.add(table(rows, VECTORS[: len(rows)]).to_batches())
        index.finish()
        expected = {
            "oil filters": {0},
            "OIL — FILTERS!": {0},
            "oil-filters": {0},
            "oil filter": {3},  # as it is written, not as it is inflected; over a semicolon
            "filters oil": {0, 3},
            "max_open_files (4.7.2)": {0},
            "4 7 2 are installed": {0},
            "sicherheitsventile der STRASSE": {1},
            "冷却水泵": {2},
            "水泵之前": {2},
            "泵水": set(),
            "qqqqqq": set(),
        }
        matches = {
            phrase: places([(name, 0.0) for name in holding(index, Filters(phrases=[phrase]))]) for phrase in expected
        }
        index.drop()
        assert matches == expected


class TestReading:
    def test_rows_come_back_as_they_went_in(self, index: SearchIndex) -> None:
        assert index.fetch([evidence_id(21)]) == [ROWS[21]]
        assert index.fetch([evidence_id(2)]) == [ROWS[2]]

    def test_order_is_kept_and_unknown_ids_left_out(self, index: SearchIndex) -> None:
        evidence_ids = [evidence_id(number) for number in (9, 59, 3, 1000, 40)]
        rows = index.fetch([*evidence_ids, "'; --", ""])
        assert [row["evidence_id"] for row in rows] == [evidence_id(number) for number in (9, 59, 3, 40)]
        assert index.fetch([]) == []

    def test_more_ids_than_one_query_takes(self, index: SearchIndex) -> None:
        rows = index.fetch([evidence_id(number) for number in range(1999, -1, -1)])
        assert rows == ROWS[::-1]

    def test_vectors_come_back_as_they_went_in(self, index: SearchIndex) -> None:
        evidence_ids = [evidence_id(number) for number in (6, 7, 1000)]
        assert {name: vector.tolist() for name, vector in index.vectors(evidence_ids, "text").items()} == {
            evidence_id(number): pytest.approx(VECTORS[number].tolist(), abs=1e-6) for number in (6, 7)
        }
        assert index.vectors(evidence_ids, "image").keys() == {evidence_id(6)}


class TestLanceDB:
    """What only this engine has: files, an approximate index, other processes."""

    def test_reading_makes_no_folder(self, tmp_path: Path) -> None:
        index = LanceIndex(str(tmp_path / "absent"), "T")
        with pytest.raises(DamagedError, match="build it again: inset refresh"):
            index.count()
        index.drop()
        assert not (tmp_path / "absent").exists()

    def test_lives_in_a_bucket_too(self, s3_bucket: str) -> None:
        index = LanceIndex(f"s3://{s3_bucket}/versions/v1/lance", "T")
        with pytest.raises(DamagedError, match="build it again: inset refresh"):
            index.count()
        fill(index, ROWS[:30], VECTORS[:30])
        fill(index, ROWS[:5], VECTORS[:5])
        assert index.count() == 5
        assert ids(index.bm25("register", 5, ANY)) == [evidence_id(0)]
        assert index.dense(VECTORS[3], 1, ANY, "text")[0][0] == evidence_id(3)
        index.drop()
        assert s3_client().list_objects_v2(Bucket=s3_bucket)["KeyCount"] == 0

    def test_is_derived_within_a_bucket(self, s3_bucket: str) -> None:
        earlier, index, rebuilt = (
            LanceIndex(f"s3://{s3_bucket}/versions/{name}/lance", f"T_{name}") for name in ("v1", "v2", "v3")
        )
        fill(earlier, ROWS, VECTORS)
        assert not index.derive(LanceIndex("/nowhere", "T"), SCHEMA, FIELDS, [])
        assert index.derive(earlier, SCHEMA, FIELDS, ["1" * 64])
        assert index.add(table(NEW_WORDS, VECTORS[: len(NEW_WORDS)]).to_batches()) == len(NEW_WORDS)
        index.finish()
        numbers = [number for number in range(60) if ROWS[number]["doc_id"] != "1" * 64]
        fill(rebuilt, [ROWS[number] for number in numbers] + NEW_WORDS, np.concatenate([VECTORS[numbers], VECTORS[:7]]))
        assert (earlier.count(), index.count(), index.count(["9" * 64, "1" * 64])) == (60, len(numbers) + 7, 7)
        earlier.drop()
        assert_alike(index.bm25("register", 60, ANY), rebuilt.bm25("register", 60, ANY))
        assert_alike(index.dense(VECTORS[3], 60, ANY, "text"), rebuilt.dense(VECTORS[3], 60, ANY, "text"))

    @pytest.mark.slow
    def test_many_rows_are_searched_through_an_index(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("backends.engines.lancedb_index.EXACT_BELOW_ROWS", 1000)
        index, reference = LanceIndex(str(tmp_path), "T"), MemoryIndex()
        for search_index in (index, reference):
            fill(search_index, *many_rows())
        questions = unit_vectors(20, seed=9)
        assert recall_at_10(index, reference, list(questions)) >= 0.95  # by one bit each of 32, then refined
        assert recall_at_10(index, reference, list(unit_vectors(20, seed=9, dimension=8)), "image") >= 0.95
        assert (
            recall_at_10(index, reference, list(unit_vectors(20, seed=9, dimension=16).reshape(5, 4, 16)), "late") >= 0.99
        )
        answers = [index.dense(question, 10, ANY, "text") for question in questions]
        assert [index.dense(question, 5, ANY, "text") for question in questions] == [answer[:5] for answer in answers]
        narrow = Filters(documents=["plain.pdf"], pages=[1])
        for question in questions:  # of few rows all vectors are compared
            nearest = index.dense(question, 20, narrow, "text")
            assert_alike(nearest, reference.dense(question, 20, narrow, "text"))
        assert len(nearest) == 20
        assert (tmp_path / "T.lance" / "_indices").is_dir()

    def test_versions_that_are_derived_one_from_another_share_files_and_keep_none_that_is_stale(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("backends.engines.lancedb_index.EXACT_BELOW_ROWS", 1000)
        rows, vectors = many_rows()
        rows, vectors = rows[:3900], vectors[:3900]
        index, rebuilt = LanceIndex(str(tmp_path / "0"), "T0"), LanceIndex(str(tmp_path / "fresh"), "F")
        fill(index, rows, vectors)
        for turn in (1, 2, 3):
            earlier, index = index, LanceIndex(str(tmp_path / f"{turn}"), f"T{turn}")
            assert index.derive(earlier, SCHEMA, FIELDS, [f"new {turn - 1}"])
            added_rows = [
                {**row, "evidence_id": f"{turn} {row['evidence_id']}", "doc_id": f"new {turn}"} for row in rows[:40]
            ]
            index.add(table(added_rows, unit_vectors(40, seed=turn)).to_batches())
            index.finish()
            earlier.drop()
        fill(rebuilt, rows + added_rows, np.concatenate([vectors, unit_vectors(40, seed=3)]))
        assert recall_at_10(index, rebuilt, list(unit_vectors(20, seed=9))) >= 0.95
        assert_alike(index.bm25("register", 50, ANY), rebuilt.bm25("register", 50, ANY))
        # One folder a field, and a segment a turn of each of the two spaces that are indexed.
        assert len([*(tmp_path / "3" / "T3.lance" / "_indices").iterdir()]) <= len(FIELDS) + 2 * (1 + 3)

    def test_a_table_of_other_terms_is_no_base(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        earlier, index = LanceIndex(str(tmp_path / "1"), "T1"), LanceIndex(str(tmp_path / "2"), "T2")
        with monkeypatch.context() as before:
            before.setattr("backends.engines.lancedb_index._LAYOUT_VERSION", b"3, terms 0")
            fill(earlier, ROWS[:5], VECTORS[:5])
        assert not index.derive(earlier, SCHEMA, FIELDS, [])

    def test_a_space_in_which_no_row_has_a_vector_is_built_all_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("backends.engines.lancedb_index.EXACT_BELOW_ROWS", 10)
        index = LanceIndex(str(tmp_path), "T")
        words = [row for row in ROWS if row["modality"] != Modality.FIGURE]
        fill(index, words, VECTORS[: len(words)])
        assert index.dense(IMAGES[0], 5, ANY, "image") == []
        assert len(index.dense(VECTORS[0], 5, ANY, "text")) == 5


@pytest.fixture
def make_index(weaviate: WeaviateServer) -> Iterator[Callable[..., WeaviateIndex]]:
    """Make collections that are dropped in the end."""
    indexes: list[WeaviateIndex] = []

    def make() -> WeaviateIndex:
        indexes.append(WeaviateIndex(weaviate, f"Contract_{os.getpid()}_{next(names)}"))
        return indexes[-1]

    yield make
    for index in indexes:
        index.drop()


@pytest.mark.live
class TestWeaviate:
    """What only this engine has: a server, an approximate index from the first row on, an alias."""

    def test_many_rows(self, make_index: Callable[..., WeaviateIndex]) -> None:
        index, reference = make_index(), MemoryIndex()
        for search_index in (index, reference):
            fill(search_index, *many_rows())
        questions = unit_vectors(20, seed=9)
        assert index.count() == 4000
        assert recall_at_10(index, reference, list(questions)) >= 0.95
        assert recall_at_10(index, reference, list(unit_vectors(20, seed=9, dimension=8)), "image") >= 0.95
        assert (
            recall_at_10(index, reference, list(unit_vectors(20, seed=9, dimension=16).reshape(5, 4, 16)), "late") >= 0.95
        )
        hits = index.dense(questions[0], 300, ANY, "text")
        assert len(hits) == 300
        assert all(index.dense(questions[0], k, ANY, "text") == hits[:k] for k in (1, 10, 128, 200))

    def test_a_row_written_again_replaces_what_it_was(self, make_index: Callable[..., WeaviateIndex]) -> None:
        index = make_index()
        fill(index, ROWS[:5], VECTORS[:5])
        changed = [{**ROWS[0], "text": "nothing of the kind"}]
        index.add(table(changed, VECTORS[9:10]).to_batches())
        index.finish()
        assert index.count() == 5
        assert index.bm25("register", 5, ANY) == []
        assert index.dense(VECTORS[9], 1, ANY, "text")[0][0] == evidence_id(0)

    def test_refused_rows_are_told(self, make_index: Callable[..., WeaviateIndex], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("backends.engines.weaviate_index.TRIES", 2)
        index = make_index()
        fill(index, ROWS[:5], VECTORS[:5])
        short = table(ROWS[5:9], VECTORS[5:9]).drop_columns(["vector_text"])
        short = short.append_column("vector_text", pa.array(VECTORS[5:9, :3].tolist(), pa.list_(pa.float32(), 3)))
        with pytest.raises(ContractError, match="refuses 4 rows"):
            index.add(short.to_batches())
        assert index.count() == 5

    def test_what_fails_once_is_sent_again(
        self, make_index: Callable[..., WeaviateIndex], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from weaviate.collections.classes.batch import ErrorObject
        from weaviate.collections.data import _DataCollection

        insert_many = _DataCollection.insert_many
        sent: list[int] = []

        def fails_at_first(self: object, objects: list[Any]) -> Any:
            sent.append(len(objects))
            if len(sent) > 1:
                return insert_many(self, objects)
            reply = insert_many(self, objects[2:])
            reply.errors = {position: ErrorObject(message="busy", object_=objects[position]) for position in (0, 1)}
            return reply

        index = make_index()
        index.create(SCHEMA, DIMENSIONS, FIELDS)
        monkeypatch.setattr(_DataCollection, "insert_many", fails_at_first)
        assert index.add(table(ROWS[:9], VECTORS[:9]).to_batches()) == 9
        assert (sent, index.count()) == ([9, 2], 9)

    def test_the_schema_is_ours_alone(self, make_index: Callable[..., WeaviateIndex], weaviate: WeaviateServer) -> None:
        index = make_index()
        fill(index, ROWS[:5], VECTORS[:5])
        properties = weaviate.client().collections.use(index.collection).config.get().properties
        kinds = {
            schema_property.name: (
                schema_property.data_type.value,
                schema_property.index_searchable,
                schema_property.index_filterable,
            )
            for schema_property in properties
        }
        assert kinds["terms_search_text"] == ("text", True, False)
        assert kinds["title"] == ("text", False, False)
        assert kinds["filter_names"] == ("text[]", False, True)
        assert kinds["bbox"] == ("number[]", False, False)
        added = {*(field.name for field in FILTERED), "terms_search_text", "terms_title", "terms_section_path"}
        of_documents = {ACCESS, *(column.name for column in OWN)}
        assert set(kinds) == {*EVIDENCE.names, *added, *of_documents}
        assert all(kinds[name][1:] == (False, True) for name in of_documents)
        assert {
            schema_property.tokenization.value for schema_property in properties if schema_property.index_searchable
        } == {"whitespace"}

    def test_is_brought_forward_in_place(self, make_index: Callable[..., WeaviateIndex]) -> None:
        index = make_index()
        fill(index, ROWS, VECTORS)
        assert not index.derive(make_index(), SCHEMA, FIELDS, []), "another collection"
        assert not index.derive(index, SCHEMA, (*FIELDS, "caption"), []), "another schema"
        assert index.derive(index, SCHEMA, FIELDS, ["1" * 64])
        assert index.add(table(NEW_WORDS, VECTORS[: len(NEW_WORDS)]).to_batches()) == len(NEW_WORDS)
        index.finish()
        kept_rows = [row for row in ROWS if row["doc_id"] != "1" * 64]
        assert (index.count(), index.count(["9" * 64, "1" * 64])) == (len(kept_rows) + 7, 7)
        names = [str(row["evidence_id"]) for row in [*kept_rows, *NEW_WORDS]]
        assert index.fetch(names) == [*kept_rows, *NEW_WORDS]

    def test_an_alias_is_made_and_moved(self, make_index: Callable[..., WeaviateIndex], weaviate: WeaviateServer) -> None:
        old, newer = make_index(), make_index()
        for index in (old, newer):
            index.create(SCHEMA, DIMENSIONS, FIELDS)
        name = f"Alias_{os.getpid()}"
        assert weaviate.alias(name) is None
        for index in (old, newer, newer, old):
            weaviate.point(name, index.collection)
            wait_for(functools.partial(_names, weaviate, name, index.collection), "the alias")
        weaviate.client().alias.delete(alias_name=name)


def _names(weaviate: WeaviateServer, alias: str, collection: str) -> bool:
    return weaviate.alias(alias) == collection


class TestServer:
    """What is said where there is no server, or the wrong one."""

    def test_no_server_is_worth_another_try_and_says_what_to_do(self) -> None:
        index = WeaviateIndex(WeaviateServer("http://127.0.0.1:9", 8), "T")
        with pytest.raises(TransientError, match=r"Weaviate at http://127.0.0.1:9 .* doesn't answer; start it") as caught:
            index.count()
        assert "\n" not in caught.value.message

    def test_a_server_without_its_grpc_port_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        again = types.SimpleNamespace(sleep=lambda _seconds: pytest.fail("the client tries again and again"))
        monkeypatch.setattr("weaviate.retry.time", again)
        with _meta("1.38.11") as url:
            server = WeaviateServer(url, 9)
            with pytest.raises(TransientError, match=r"\(gRPC port 9\) doesn't answer; start it"):
                WeaviateIndex(server, "T").count()
            server.close()

    @pytest.mark.live
    def test_a_server_that_was_away_answers_the_next_question(self, tmp_path: Path) -> None:
        if (binary := shutil.which("weaviate")) is None:
            pytest.skip("NO WEAVIATE: no 'weaviate' on PATH, so a restart of it goes untested here")
        started = StartedServer(binary, tmp_path)
        index = WeaviateIndex(started.server, "T")
        try:
            started.start()
            index.create(SCHEMA, DIMENSIONS, FIELDS)
            assert index.count() == 0
            started.stop()
            for _ in range(2):
                with pytest.raises(TransientError, match="doesn't answer; start it"):
                    index.count()
            started.start()
            assert index.count() == 0
        finally:
            started.server.close()
            started.stop()

    @pytest.mark.parametrize(("release", "fits"), [("1.35.9", False), ("1.36.0", True), ("2.0.0-rc.1", True)])
    def test_the_floor(self, release: str, fits: bool) -> None:
        with _meta(release) as url:
            server = WeaviateServer(url, 9)
            if fits:
                server.client()
                server.close()
            else:
                with pytest.raises(UserError, match=f"is {release}; at least 1.36 is needed"):
                    server.client()

    def test_an_api_key_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_SUCH_KEY", raising=False)
        with pytest.raises(UserError, match="NO_SUCH_KEY, which is not set"):
            WeaviateServer("http://127.0.0.1:9", 8, "NO_SUCH_KEY").client()


@contextlib.contextmanager
def _meta(release: str) -> Iterator[str]:
    """A server that can only say its release."""

    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"version": release}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
