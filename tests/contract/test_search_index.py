"""One behaviour suite for every engine: subclass nothing, add a factory."""

import pickle
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from backends.lancedb_index import LanceIndex
from backends.memory_index import MemoryIndex
from backends.stores import s3_client
from schemas.errors import ContractError
from schemas.evidence import EVIDENCE, Filters, Modality
from schemas.ports import SearchIndex, Vector

DIMENSION = 32
SCHEMA = EVIDENCE.append(pa.field("search_text", pa.string())).append(
    pa.field("vector_text", pa.list_(pa.float32(), DIMENSION))
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


def unit_vectors(count: int, seed: int = 3) -> Vector:
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors: Vector = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return vectors


def evidence_id(place: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(place)))


def row(place: int) -> dict[str, object]:
    """Sixty rows: three documents of twenty, the last with two sources; each row touches its page and the next."""
    document, order = divmod(place, 20)
    sources = [[QUOTED], [UNICODE], ["b/plain.pdf", "a/copy of plain.pdf"]][document]
    page = order // 2 + 1
    text = f"About the {SUBJECTS[order % 10]} of document {document}, part {order}."
    return {
        "evidence_id": evidence_id(place),
        "modality": [Modality.TEXT, Modality.TABLE, Modality.FIGURE, Modality.TEXT][place % 4].value,
        "doc_id": f"{document}" * 64,
        "sources": sources,
        "page": page,
        "bbox": [1.0, 2.0, 3.0, 4.5],
        "regions": [{"page": page + step, "bbox": [1.0, 2.0, 3.0, 4.5]} for step in (0, 1)],
        "order": order,
        "section_path": ["Straße", "§ 1"] if place % 2 else [],
        "title": "Manual",
        "text": text,
        "tagged_text": text + " <image:00000001.png>",
        "figure_refs": ["f" * 64] if place % 3 else [],
        "caption": "",
        "figure_id": "f" * 64 if place % 4 == 2 else None,
    }


ROWS = [row(place) for place in range(60)]
VECTORS = unit_vectors(60)
VECTORS[40:60] = VECTORS[20:40]  # the third document ties with the second


def table(rows: list[dict[str, object]], vectors: Vector) -> pa.Table:
    extended = [
        {**row, "search_text": row["text"], "vector_text": vector} for row, vector in zip(rows, vectors, strict=True)
    ]
    return pa.Table.from_pylist(extended, schema=SCHEMA)


def fill(index: SearchIndex, rows: list[dict[str, object]], vectors: Vector) -> None:
    index.create(SCHEMA, {"text": DIMENSION})
    assert index.add(table(rows, vectors).to_batches(max_chunksize=17)) == len(rows)
    index.finish()


def ids(found: list[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in found]


def places(found: list[tuple[str, float]]) -> set[int]:
    names = {str(row["evidence_id"]): place for place, row in enumerate(ROWS)}
    return {names[evidence_id] for evidence_id, _ in found}


Factory = Callable[[Path], SearchIndex]
ENGINES: dict[str, Factory] = {
    "memory": lambda _folder: MemoryIndex(),
    "lancedb": lambda folder: LanceIndex(str(folder / "versions" / "v1" / "lance"), "Corpus_v1"),
}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Factory:
    return ENGINES[request.param]


@pytest.fixture(scope="module")
def index(engine: Factory, tmp_path_factory: pytest.TempPathFactory) -> SearchIndex:
    """The sixty rows; tests of this fixture only read."""
    built = engine(tmp_path_factory.mktemp("index"))
    fill(built, ROWS, VECTORS)
    return built


@pytest.fixture
def empty(engine: Factory, tmp_path: Path) -> SearchIndex:
    return engine(tmp_path)


class TestWriting:
    def test_counts_are_read_back(self, index: SearchIndex) -> None:
        assert index.count() == 60

    def test_creating_again_drops_what_was_left(self, empty: SearchIndex) -> None:
        fill(empty, ROWS, VECTORS)
        fill(empty, ROWS[:5], VECTORS[:5])
        assert empty.count() == 5
        assert len(empty.dense(VECTORS[0], 60, ANY)) == 5
        assert ids(empty.bm25("register", 60, ANY)) == [evidence_id(0)]

    def test_dropping_twice_is_harmless(self, empty: SearchIndex) -> None:
        empty.drop()
        fill(empty, ROWS[:5], VECTORS[:5])
        empty.drop()
        empty.drop()
        with pytest.raises(ContractError):
            empty.count()

    def test_an_index_of_no_rows_answers(self, empty: SearchIndex) -> None:
        fill(empty, [], VECTORS[:0])
        assert empty.count() == 0
        assert empty.bm25("register", 5, ANY) == []
        assert empty.dense(VECTORS[0], 5, ANY) == []
        assert empty.fetch([evidence_id(1)]) == []
        assert empty.rows(ANY, 5) == []

    def test_an_error_of_the_rows_comes_through(self, empty: SearchIndex) -> None:
        def broken() -> Iterator[pa.RecordBatch]:
            yield from table(ROWS[:3], VECTORS[:3]).to_batches()
            raise ContractError("a row has no vector")

        empty.create(SCHEMA, {"text": DIMENSION})
        with pytest.raises(ContractError, match="a row has no vector"):
            empty.add(broken())

    def test_rows_added_in_two_calls_are_all_found(self, empty: SearchIndex) -> None:
        empty.create(SCHEMA, {"text": DIMENSION})
        empty.add(table(ROWS[:30], VECTORS[:30]).to_batches())
        empty.add(table(ROWS[30:], VECTORS[30:]).to_batches())
        empty.finish()
        assert empty.count() == 60
        assert len(empty.bm25("register", 60, ANY)) == 6


class TestLexical:
    def test_finds_the_rows_that_hold_a_term(self, index: SearchIndex) -> None:
        assert places(index.bm25("firmware", 60, ANY)) == {3, 13, 23, 33, 43, 53}

    def test_any_term_may_match_and_more_terms_rank_higher(self, index: SearchIndex) -> None:
        found = index.bm25("How do I update the firmware of document 2?", 60, ANY)
        assert places(found[:2]) == {43, 53}
        assert places(found) >= {3, 13, 23, 33, 43, 53}

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
        found = index.bm25("document register part", 60, ANY)
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
        assert len({score for _, score in found}) < len(found)

    def test_a_short_answer_begins_a_longer_one(self, index: SearchIndex) -> None:
        longest = index.bm25("about the document", 60, ANY)
        assert len(longest) == 60
        for k in (0, 1, 5, 10, 59):
            assert index.bm25("about the document", k, ANY) == longest[:k]


class TestDense:
    def test_scores_are_cosine_similarities_best_first(self, index: SearchIndex) -> None:
        found = index.dense(VECTORS[7], 60, ANY)
        assert found[0][0] == evidence_id(7)
        expected = VECTORS @ VECTORS[7]
        assert dict(found) == pytest.approx({evidence_id(place): float(expected[place]) for place in range(60)}, abs=1e-5)
        assert all(-1 <= score <= 1 for _, score in found)
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def test_the_length_of_the_question_does_not_matter(self, index: SearchIndex) -> None:
        assert ids(index.dense(VECTORS[7] * np.float32(4), 10, ANY)) == ids(index.dense(VECTORS[7], 10, ANY))

    def test_ties_go_by_id(self, index: SearchIndex) -> None:
        assert ids(index.dense(VECTORS[25], 2, ANY)) == sorted([evidence_id(25), evidence_id(45)])

    def test_a_short_answer_begins_a_longer_one(self, index: SearchIndex) -> None:
        longest = index.dense(VECTORS[30], 60, ANY)
        for k in (0, 1, 5, 10, 59, 600):
            assert index.dense(VECTORS[30], k, ANY) == longest[:k]

    def test_agrees_with_the_reference(self, empty: SearchIndex) -> None:
        vectors = unit_vectors(500, seed=5)
        rows = [{**ROWS[place % 60], "evidence_id": evidence_id(place)} for place in range(500)]
        fill(empty, rows, vectors)
        reference = MemoryIndex()
        fill(reference, rows, vectors)
        questions = unit_vectors(20, seed=6)
        shared = [
            len({*ids(empty.dense(question, 10, ANY))} & {*ids(reference.dense(question, 10, ANY))})
            for question in questions
        ]
        assert sum(shared) / 200 >= 0.99

    def test_other_spaces_and_lengths_are_refused(self, index: SearchIndex) -> None:
        with pytest.raises(ContractError, match="image"):
            index.dense(VECTORS[0], 5, ANY, space="image")
        with pytest.raises(ContractError, match="length 3"):
            index.dense(VECTORS[0][:3], 5, ANY)


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
        ],
    )
    def test_narrow_every_way_of_looking(self, index: SearchIndex, filters: Filters, expected: list[int]) -> None:
        assert places(index.dense(VECTORS[0], 60, filters)) == set(expected)
        assert places(index.bm25("about", 60, filters)) == set(expected)
        listed = [row["evidence_id"] for row in index.rows(filters, 60)]
        assert listed == [evidence_id(place) for place in expected]

    def test_narrow_before_ranking(self, index: SearchIndex) -> None:
        far = min(range(60), key=lambda place: float(VECTORS[place] @ VECTORS[0]))
        only = Filters(documents=[str(ROWS[far]["doc_id"])], pages=[int(str(ROWS[far]["page"]))])
        assert evidence_id(far) in ids(index.dense(VECTORS[0], 4, only))


class TestReading:
    def test_rows_come_back_as_they_went_in(self, index: SearchIndex) -> None:
        assert index.fetch([evidence_id(21)]) == [ROWS[21]]
        assert index.fetch([evidence_id(2)]) == [ROWS[2]]

    def test_order_is_kept_and_unknown_ids_left_out(self, index: SearchIndex) -> None:
        wanted = [evidence_id(place) for place in (9, 59, 3, 1000, 40)]
        found = index.fetch([*wanted, "'; --", ""])
        assert [row["evidence_id"] for row in found] == [evidence_id(place) for place in (9, 59, 3, 40)]
        assert index.fetch([]) == []

    def test_more_ids_than_one_query_takes(self, index: SearchIndex) -> None:
        found = index.fetch([evidence_id(place) for place in range(1999, -1, -1)])
        assert found == ROWS[::-1]

    def test_browsing_follows_the_document(self, index: SearchIndex) -> None:
        assert index.rows(ANY, 1000) == ROWS
        assert index.rows(ANY, 7) == ROWS[:7]
        assert index.rows(ANY, 0) == []


class TestLanceDB:
    """What only this engine has: files, an approximate index, other processes."""

    def test_reading_makes_no_folder(self, tmp_path: Path) -> None:
        index = LanceIndex(str(tmp_path / "absent"), "T")
        with pytest.raises(ContractError, match="build the version again"):
            index.count()
        index.drop()
        assert not (tmp_path / "absent").exists()

    def test_another_process_opens_what_was_built(self, tmp_path: Path) -> None:
        built = LanceIndex(str(tmp_path), "T")
        fill(built, ROWS[:5], VECTORS[:5])
        copied = pickle.loads(pickle.dumps(built))
        assert ids(copied.bm25("register", 5, ANY)) == [evidence_id(0)]

    def test_lives_in_a_bucket_too(self, s3_bucket: str) -> None:
        index = LanceIndex(f"s3://{s3_bucket}/versions/v1/lance", "T")
        with pytest.raises(ContractError, match="build the version again"):
            index.count()
        fill(index, ROWS[:30], VECTORS[:30])
        fill(index, ROWS[:5], VECTORS[:5])
        assert index.count() == 5
        assert ids(index.bm25("register", 5, ANY)) == [evidence_id(0)]
        assert index.dense(VECTORS[3], 1, ANY)[0][0] == evidence_id(3)
        index.drop()
        assert s3_client().list_objects_v2(Bucket=s3_bucket)["KeyCount"] == 0

    def test_many_rows_are_searched_through_an_index(self, tmp_path: Path) -> None:
        vectors = unit_vectors(4000, seed=8)
        rows = [{**ROWS[place % 60], "evidence_id": evidence_id(place)} for place in range(4000)]
        index = LanceIndex(str(tmp_path), "T", exact_below=1000)
        fill(index, rows, vectors)
        questions = unit_vectors(30, seed=9)
        exact = [{evidence_id(int(place)) for place in np.argsort(-(vectors @ question))[:10]} for question in questions]
        found = [index.dense(question, 10, ANY) for question in questions]
        assert (
            sum(len(best & {*ids(answer)}) for best, answer in zip(exact, found, strict=True)) / 300 >= 0.95
        )  # one bit each of 32
        assert [index.dense(question, 5, ANY) for question in questions] == [answer[:5] for answer in found]
        narrow = Filters(documents=["plain.pdf"], pages=[1])
        assert len(index.dense(questions[0], 20, narrow)) == 20
        assert (tmp_path / "T.lance" / "_indices").is_dir()

    def test_a_schema_without_what_search_needs_is_refused(self, tmp_path: Path) -> None:
        index = LanceIndex(str(tmp_path), "T")
        with pytest.raises(ContractError, match="search_text"):
            index.create(EVIDENCE, {})
        with pytest.raises(ContractError, match="vector_text"):
            index.create(SCHEMA, {"text": 384})
