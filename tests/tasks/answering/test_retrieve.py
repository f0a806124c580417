"""Retrieval over the reference engine: plans of every step, stop words, fusion and diversity."""

import dataclasses
import multiprocessing
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.index_rows import PAGES as PAGE_COLUMN
from backends.engines.index_rows import filtered
from schemas.errors import ContractError, UserError
from schemas.filters import Filters, Modality
from schemas.ports import Vector
from schemas.retrieval import Steps
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.fuse import fuse_shares
from tasks.answering.presets import alone, changed, packaged, preset_named
from tasks.answering.retrieve import diversify, retrieve
from tasks.answering.retrievers import STOP_WORDS, Search, without
from tasks.answering.trace import Trace
from tasks.enriching.spaces import IMAGE, LATE, TEXT
from tests.contract.test_search_index import (
    IMAGES,
    PAGES,
    ROWS,
    VECTORS,
    fill,
    ids,
    places,
)
from tests.memory_index import MemoryIndex
from tests.papers import PAPERS


@dataclasses.dataclass
class Fixed:
    """An embedder that knows one question's vector, or its vectors."""

    vector: Vector
    name, revision, dimension = "fixed", "1", 0

    def embed_query(self, text: str) -> Vector:
        return np.asarray(self.vector, np.float32)


EMBEDDERS = {TEXT.name: Fixed(VECTORS[25]), IMAGE.name: Fixed(IMAGES[25]), LATE.name: Fixed(PAGES[25])}
SEARCHED = [
    name
    for name, preset in packaged().items()
    if EMBEDDERS.keys() >= set(preset.spaces) and not preset.models and not preset.searches_only_pages
]


LONG_S = 20.0
"""Ends a test that would hang."""


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    memory_index = MemoryIndex()
    fill(memory_index, ROWS, VECTORS)
    return memory_index


def steps(**options: object) -> Steps:
    return Steps.model_validate(options)


def search(index: MemoryIndex, query: str, plan: str | Steps, k: int, **changes: object) -> list[tuple[str, float]]:
    plan = changed(packaged()[plan], changes) if isinstance(plan, str) else plan
    return retrieve(Search(index), EmbeddedQuery(EMBEDDERS, query), plan, k=k)


@pytest.mark.parametrize("mode", SEARCHED)
@pytest.mark.parametrize("changes", [{}, {"fuse": {"method": "shares"}}, {"select": {"diversity": 0.5}}])
def test_pages_are_stable_in_every_mode(index: MemoryIndex, mode: str, changes: dict[str, object]) -> None:
    longest = search(index, "the register of document 1", mode, 40, **changes)
    assert longest == sorted(longest, key=lambda pair: -pair[1])
    assert all(search(index, "the register of document 1", mode, k, **changes) == longest[:k] for k in (1, 7, 20))


def test_a_row_with_many_vectors_is_compared_by_all_of_them(index: MemoryIndex) -> None:
    hits = search(index, "", "late", 60)
    assert places(hits) == set(range(0, 60, 3))
    for name, score in hits:
        (number,) = places([(name, score)])
        cosines = PAGES[25] @ PAGES[number][: number % 4 + 1].T  # they have length 1
        assert score == pytest.approx(float(cosines.max(axis=1).sum()), abs=1e-5)


def test_near_copies_don_t_crowd_out_the_rest(index: MemoryIndex) -> None:
    assert places(search(index, "", "dense", 2)) == {25, 45}  # the same vector
    assert places(search(index, "", "dense", 2, select={"diversity": 0.6})) != {25, 45}


def test_rows_beyond_the_pool_of_diversity_keep_their_order_behind_it(index: MemoryIndex) -> None:
    plain = ids(search(index, "", "dense", 30))
    diverse = ids(search(index, "", steps(retrieve=[DENSE], select={"diversity": 0.6, "pool": 10}), 30))
    assert set(diverse[:10]) == set(plain[:10])
    assert diverse[:10] != plain[:10]
    assert diverse[10:] == plain[10:]


def test_stop_words_are_left_out_unless_they_are_all_there_is(index: MemoryIndex) -> None:
    assert len(search(index, "the firmware", "bm25", 60)) == 60
    english, own = (steps(retrieve=[{"by": "bm25", "stop_words": words}]) for words in ("english", ["THE"]))
    assert places(search(index, "the firmware", english, 60)) == {3, 13, 23, 33, 43, 53}
    assert len(search(index, "The", own, 60)) == 60
    assert without("If not, is it o'clock?", STOP_WORDS) == " ,   o'clock?"


BM25, DENSE = {"by": "bm25"}, {"by": "dense"}


@pytest.mark.parametrize("method", ["rrf", "shares"])
def test_a_plan_is_what_it_asks_of_the_index(index: MemoryIndex, method: str) -> None:
    twice = steps(retrieve=[BM25, BM25], fuse={"method": method})
    words = search(index, "firmware", "bm25", 6)
    assert ids(search(index, "firmware", twice, 6)) == ids(words)
    assert search(index, "", steps(retrieve=[{"by": "dense", "space": "image"}]), 5) == search(index, "", "image", 5)


def test_weights_of_a_fusion_say_what_each_retriever_counts(index: MemoryIndex) -> None:
    hardly = {"weights": [1, 1e-6]}
    words = search(index, "firmware", "bm25", 6)
    for method in ("rrf", "shares"):
        plan = steps(retrieve=[BM25, DENSE], fuse={"method": method, **hardly})
        assert places(search(index, "firmware", plan, 2)) == places(words[:2])
    with pytest.raises(ValueError, match=r"fuse\.weights has 2 numbers for 1 retrievers"):
        steps(retrieve=[BM25], fuse=hardly)


def test_one_ranking_stands_behind_the_other(index: MemoryIndex) -> None:
    """Two of the words, and two of the meaning: separate stores, as papers have them."""
    words, meaning = search(index, "firmware", "bm25", 2), search(index, "firmware", "dense", 2)
    apart = steps(retrieve=[{**BM25, "k": 2}, {**DENSE, "k": 2}], fuse={"method": "in_turn"})
    assert ids(search(index, "firmware", apart, 10)) == [*ids(words), *ids(meaning)]


def test_a_retriever_looks_at_its_own_rows_alone(index: MemoryIndex) -> None:
    tables = steps(retrieve=[{**DENSE, "filters": {"modalities": ["table"]}}])
    hits = search(index, "", tables, 60)
    assert {ROWS[number]["modality"] for number in places(hits)} == {"table"}
    narrowed = Filters(modalities=[Modality.TEXT])
    assert retrieve(Search(index), EmbeddedQuery(EMBEDDERS, ""), tables, k=9, filters=narrowed) == [], "nothing is both"


def test_a_question_that_names_a_place_is_answered_there_inside_documents_only(index: MemoryIndex) -> None:
    plan = steps(retrieve=[{"by": "places"}])
    query, document = EmbeddedQuery(EMBEDDERS, "What is drawn on page 4?"), Filters(documents=[str(ROWS[25]["doc_id"])])
    hits = retrieve(Search(index), query, plan, k=60, filters=document)
    assert places(hits) == {number for number in range(20, 40) if 4 in filtered(ROWS[number])[PAGE_COLUMN]}
    assert {score for _, score in hits} == {1.0}
    assert retrieve(Search(index), query, plan, k=60) == [], "page 4 of which document?"
    narrowed = document.model_copy(update={"pages": [9]})
    assert retrieve(Search(index), query, plan, k=60, filters=narrowed) == [], "nothing is both"


def test_a_figure_is_found_by_its_number() -> None:
    captions = {1: "Table 2. Registers", 2: "Figure 2: The register", 6: "Figure 21", 9: "Seen in Figure 2"}
    labelled = [
        row | ({"caption": captions[number], "text": captions[number]} if number in captions else {})
        for number, row in enumerate(ROWS)
    ]
    memory_index = MemoryIndex()
    fill(memory_index, labelled, VECTORS)
    document = Filters(documents=[str(ROWS[0]["doc_id"])])
    hits = retrieve(
        Search(memory_index),
        EmbeddedQuery(EMBEDDERS, "What does fig. 2 show?"),
        steps(retrieve=[{"by": "places"}]),
        k=9,
        filters=document,
    )
    assert places(hits) == {2}


def test_stop_words_of_a_retriever_win(index: MemoryIndex) -> None:
    plan = steps(retrieve=[{**BM25, "stop_words": "english"}])
    assert places(search(index, "the firmware", plan, 60)) == {3, 13, 23, 33, 43, 53}
    assert len(search(index, "the firmware", steps(retrieve=[{**BM25, "stop_words": []}]), 60, stop_words="english")) == 60


def test_pages_come_one_after_another(index: MemoryIndex) -> None:
    hits = search(index, "register of document 1", steps(retrieve=[BM25, DENSE], rerank=[{"by": "pages"}]), 60)
    assert sorted(ids(hits)) == sorted(ids(search(index, "register of document 1", "hybrid", 60)))
    best = [(ROWS[number]["doc_id"], ROWS[number]["page"]) for name, _ in hits[:3] for number in places([(name, 0.0)])]
    assert len(set(best)) == 3


def test_a_floor_leaves_out_what_is_below(index: MemoryIndex) -> None:
    every = search(index, "", "dense", 60)
    floor = every[9][1]
    at_least = [pair for pair in every if pair[1] >= floor]
    assert search(index, "", steps(retrieve=[{**DENSE, "floor": floor}]), 60) == at_least
    assert search(index, "", steps(retrieve=[DENSE], select={"floor": floor}), 60) == at_least
    assert search(index, "", steps(retrieve=[{**DENSE, "floor": 2.0}]), 60) == []


def test_documents_that_rank_best_are_looked_at(index: MemoryIndex) -> None:
    plan = steps(documents={"by": BM25, "k": 1}, retrieve=[DENSE])
    hits = search(index, "firmware", plan, 60)
    documents = {ROWS[number]["doc_id"] for number in places(hits)}
    assert len(documents) == 1
    votes: dict[str, float] = {}
    for rank, (name, _) in enumerate(search(index, "firmware", "bm25", 200), 1):
        (number,) = places([(name, 0.0)])
        votes[str(ROWS[number]["doc_id"])] = votes.get(str(ROWS[number]["doc_id"]), 0) + 1 / (60 + rank)
    assert documents == {max(sorted(votes), key=lambda name: votes[name])}


def test_evidence_found_first_is_what_the_next_retriever_asks_for(index: MemoryIndex) -> None:
    plan = steps(retrieve=[{**DENSE, "k": 1}, {**BM25, "asks": "evidence"}], fuse={"method": "in_turn"})
    trace = Trace()
    retrieve(Search(index, trace=trace), EmbeddedQuery(EMBEDDERS, "firmware"), plan, k=9)
    best = ROWS[min(places(search(index, "firmware", "dense", 1)))]
    assert trace.steps[1].asked == f"firmware\n{best['text']}"


def test_candidates_are_ranked_by_nearness_and_none_is_lost(index: MemoryIndex) -> None:
    words = search(index, "register", "bm25", 60)
    hits = search(index, "register", steps(retrieve=[BM25], rerank=[{"by": "nearness", "pool": 10}]), 60)
    assert sorted(ids(hits)) == sorted(ids(words))
    near = [name for name in ids(search(index, "", "dense", 60)) if name in set(ids(words)[:10])]
    assert (ids(hits)[:10], ids(hits)[10:]) == (near, ids(words)[10:])


def test_a_trace_holds_every_step(index: MemoryIndex) -> None:
    ticks = iter(range(100))
    trace = Trace(lambda: next(ticks))
    plan = steps(retrieve=[BM25, DENSE], rerank=[{"by": "nearness"}], select={"floor": 0.0})
    hits = retrieve(Search(index, trace=trace), EmbeddedQuery(EMBEDDERS, "firmware"), plan, k=3)
    assert [step.step for step in trace.steps] == [
        "retrieve: bm25",
        "retrieve: dense text",
        "fuse: rrf",
        "rerank: nearness",
        "select",
    ]
    assert all(step.seconds >= 1 for step in trace.steps)
    assert trace.steps[0].candidates == 6
    assert [(row.evidence_id, row.score) for row in trace.steps[-1].rows] == hits


def test_a_question_is_embedded_once(index: MemoryIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded_texts: list[str] = []

    def embed(text: str) -> Vector:
        embedded_texts.append(text)
        return np.asarray(VECTORS[25], np.float32)

    monkeypatch.setattr(EMBEDDERS["text"], "embed_query", embed)
    question = "firmware that nobody asked for before"
    search(index, question, steps(retrieve=[DENSE, DENSE], rerank=[{"by": "nearness"}], select={"diversity": 0.5}), 3)
    assert embedded_texts == [question]


class Awaiting(MemoryIndex):
    """An engine whose lexical search ends after a dense one has."""

    def __init__(self) -> None:
        super().__init__()
        self.dense_has_ended = threading.Event()

    def bm25(self, *args: Any, **kwargs: Any) -> list[tuple[str, float]]:
        assert self.dense_has_ended.wait(LONG_S), "the dense search waits for the lexical one"
        return super().bm25(*args, **kwargs)

    def dense(self, *args: Any, **kwargs: Any) -> list[tuple[str, float]]:
        hits = super().dense(*args, **kwargs)
        self.dense_has_ended.set()
        return hits


def test_retrievers_are_asked_at_once_and_traced_in_their_order() -> None:
    index, trace = Awaiting(), Trace()
    fill(index, ROWS, VECTORS)
    plan = steps(retrieve=[{"by": "bm25"}, DENSE, {"by": "dense", "asks": "evidence", "k": 2}])
    retrieve(Search(index, trace=trace), EmbeddedQuery(EMBEDDERS, "firmware"), plan, k=3)
    assert [step.step for step in trace.steps] == ["retrieve: bm25", *["retrieve: dense text"] * 2, "fuse: rrf"]
    assert [step.candidates for step in trace.steps][1:3] == [len(ROWS), 2]
    assert trace.steps[2].asked != trace.steps[0].asked == "firmware"


def test_a_forked_process_has_threads_of_its_own(index: MemoryIndex) -> None:
    hits = search(index, "firmware", "hybrid", 5)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=lambda: answers.put(search(index, "firmware", "hybrid", 5)))
    child.start()
    child.join(LONG_S)
    exit_code = child.exitcode
    child.kill()
    assert exit_code == 0, "the child waits for threads of its parent's"
    assert answers.get() == hits


def test_an_error_of_one_retriever_is_the_searchs() -> None:
    index = Awaiting()
    fill(index, ROWS, VECTORS)
    with pytest.raises(ContractError, match="no vectors"):
        retrieve(
            Search(index),
            EmbeddedQuery({TEXT.name: Fixed(np.ones(7, np.float32))}, "firmware"),
            steps(retrieve=[DENSE, DENSE]),
            k=3,
        )


def test_many_questions_are_embedded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def embed(texts: list[str]) -> Vector:
        calls.append(list(texts))
        return np.stack([np.full(3, len(text), np.float32) for text in texts])

    monkeypatch.setattr(EMBEDDERS["text"], "embed_queries", embed, raising=False)
    queries = EmbeddedQuery.embed_all(EMBEDDERS, ["a", "bb"], ["text", "late"])
    assert [float(query.vector("text")[0]) for query in queries] == [1, 2]
    assert calls == [["a", "bb"]]


def test_a_plan_over_vectors_that_a_version_has_not_is_the_callers_mistake(index: MemoryIndex) -> None:
    with pytest.raises(UserError, match=r"preset unified needs vectors unified, which .* or set embeddings.unified in the"):
        search(index, "pump", "unified", 3)
    with pytest.raises(UserError, match="this search needs vectors pixels"):
        search(index, "pump", steps(retrieve=[{"by": "dense", "space": "pixels"}]), 3)
    with pytest.raises(UserError, match="there is no preset 'magic'; use one of pages, bm25, dense, diverse, hybrid"):
        preset_named("magic", packaged())
    with pytest.raises(UserError, match="ask in words"):
        retrieve(Search(index), EmbeddedQuery(EMBEDDERS, "", b"picture"), packaged()["dense"], k=3)


def test_any_step_is_changed_for_one_request(index: MemoryIndex) -> None:
    hybrid = packaged()["hybrid"]
    diverse = changed(hybrid, {"select": {"diversity": 0.6}})
    assert search(index, "", diverse, 5) == search(index, "", "hybrid", 5, select={"diversity": 0.6})
    assert changed(diverse, {"select": {"k": 3}}).select.diversity == 0.6, "what a step leaves out stays"
    assert changed(hybrid, {"retrieve": [BM25]}).retrieve == packaged()["bm25"].retrieve
    assert changed(packaged()["pages"], {"retrieve": [BM25]}).fuse.weights is None, "they are those of other retrievers"
    with pytest.raises(
        UserError,
        match=r"no step 'rank'; its steps are describe, rewrite, documents, retrieve, fuse, rerank, select",
    ):
        changed(hybrid, {"rank": 3})
    with pytest.raises(UserError, match=r"steps: select.k: Input should be"):
        changed(hybrid, {"select": {"k": 0}})


def test_a_retriever_of_another_kind_is_taken_whole() -> None:
    few = changed(PAPERS.retrieval["omgqa-documents-dense"], {"documents": {"k": 2}})

    def documents(by: dict[str, Any]) -> dict[str, Any]:
        step: dict[str, Any] = changed(few, {"documents": {"by": by}}).model_dump(exclude_unset=True)["documents"]
        return step

    assert documents({"by": "bm25"}) == {"by": {"by": "bm25"}, "k": 2}
    assert documents({"by": "dense", "floor": 0.2}) == {"by": {"by": "dense", "space": "text", "floor": 0.2}, "k": 2}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"fuse": None, "retrieve": [BM25]}, "steps: fuse: write keys with values here"),
        ({"fuse": 5, "retrieve": [BM25]}, "steps: fuse: write keys with values here"),
        ({"fuse": {"weights": [1]}}, "steps: fuse.weights has 1 numbers for 2 retrievers"),
        ({"select": {"kk": 3}}, "steps: select.kk: unknown key; leave it out"),
        ({"documents": {"k": 1}}, "steps: documents.by: this key is required; add 'by: …'"),
        ({"retrieve": [{"by": "magic"}]}, "steps: retrieve.0: there is none 'magic'; use 'bm25', 'dense'"),
        ({"retrieve": [{"k": 3}]}, "steps: retrieve.0: say which, such as 'by: …'"),
        (
            {"retrieve": [{"by": "dense", "space": "pixels"}]},
            "steps: space: there are no vectors 'pixels'; use text, tables",
        ),
        (
            {"rerank": [{"by": "nearness", "space": "pixels"}]},
            "steps: space: there are no vectors 'pixels'; use text, tables",
        ),
    ],
)
def test_a_change_that_makes_no_plan_is_one_line_that_says_what_to_write(steps: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        changed(packaged()["hybrid"], steps)
    assert raised.value.message.startswith(message)


def test_a_preset_alone_is_each_of_its_retrievers(index: MemoryIndex) -> None:
    parts = {preset.name: preset for preset in alone(packaged()["hybrid"])}
    assert list(parts) == ["bm25", "dense"]
    assert all(search(index, "firmware", part, 9) == search(index, "firmware", name, 9) for name, part in parts.items())
    assert alone(packaged()["dense"]) == []
    assert [part.name for part in alone(PAPERS.retrieval["bt-summaries-separate"])] == ["dense", "descriptions"]
    twice = changed(packaged()["dense"], {"retrieve": [{"by": "dense"}, {"by": "dense"}]})
    assert [part.name for part in alone(twice)] == ["dense-1", "dense-2"], "none hides another"


AXES = {name: np.eye(3, dtype=np.float32)[place] for place, name in enumerate("xyz")}


class TestDiversify:
    def test_a_hand_computed_example(self) -> None:
        vectors = {
            "a": np.array([1, 0], np.float32),
            "a2": np.array([1, 0.01], np.float32),
            "b": np.array([0.8, 0.6], np.float32),
            "c": np.array([0, 1], np.float32),
            "d": np.array([-1, 0], np.float32),
        }
        query = np.array([1, 0.2], np.float32)
        diversified = diversify(query, ["a", "a2", "b", "c", "d"], vectors, k=5, relevance=0.5)
        # Nearest is a2; then a: (.981 - 1)/2, b: (.902 - .806)/2, c: (.196 - .010)/2, d: (-.981 + 1)/2.
        assert [name for name, _ in diversified][:2] == ["a2", "c"]
        assert [name for name, _ in diversify(query, list(vectors), vectors, k=3, relevance=1)] == ["a2", "a", "b"]

    def test_rows_without_a_vector_come_last(self) -> None:
        diversified = diversify(AXES["x"], ["p", "y", "q", "x"], AXES, k=4, relevance=0.7)
        assert [name for name, _ in diversified] == ["x", "y", "p", "q"]
        assert diversify(AXES["x"], ["p"], {}, k=4, relevance=0.7) == [("p", -1.0)]


SCORED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-5, 5).map(float), max_size=8).map(
    lambda scores: sorted(scores.items(), key=lambda pair: -pair[1])
)


def test_a_hand_computed_fusion_by_shares() -> None:
    first_ranking, second_ranking = [("a", 8.0), ("b", 4.0), ("c", -1.0)], [("b", 0.5), ("d", 0.4)]
    by_hand = {"a": 0.4, "b": 0.4 * 0.5 + 0.6, "c": 0.0, "d": 0.6 * 0.8}
    assert dict(fuse_shares([first_ranking, second_ranking], [0.4, 0.6], depth=4)) == pytest.approx(by_hand)
    # Of two rows asked for, the second ranking gave two: what it lacks may come right behind.
    behind = by_hand | {"a": 0.4 + 0.6 * 0.8, "c": 0.6 * 0.8}
    assert dict(fuse_shares([first_ranking, second_ranking], [0.4, 0.6], depth=2)) == pytest.approx(behind)
    assert dict(fuse_shares([[("a", 0.0)], []], [1, 1], depth=1)) == {"a": 0.0}


@given(SCORED, SCORED, st.floats(0, 1))
def test_fusion_by_shares_keeps_every_row_and_the_scale(
    one: list[tuple[str, float]], other: list[tuple[str, float]], alpha: float
) -> None:
    fused = fuse_shares([one, other], [1 - alpha, alpha], depth=3)
    assert {name for name, _ in fused} == {name for name, _ in one + other}
    assert all(-1e-9 <= score <= 1 + 1e-9 for _, score in fused)
