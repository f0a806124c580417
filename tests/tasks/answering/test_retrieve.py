"""Retrieval over the reference engine: modes, stop words, fusion and diversity."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.memory_index import MemoryIndex
from schemas.corpus import Ranking
from schemas.errors import UserError
from schemas.evidence import Filters
from schemas.ports import Vector
from tasks.answering.diversify import diversify
from tasks.answering.fuse import fuse_scores
from tasks.answering.modes import MODES, Dense, Lexical, Mode, mode_named
from tasks.answering.retrieve import STOP_WORDS, retrieve, without
from tasks.enriching.spaces import IMAGE, LATE, TEXT
from tests.contract.test_search_index import IMAGES, PAGES, ROWS, VECTORS, fill, ids, places


@dataclasses.dataclass
class Asked:
    """An embedder that knows one question's vector, or its vectors."""

    vector: Vector
    name, revision, dimension = "fixed", "1", 0

    def embed_query(self, text: str) -> Vector:
        return np.asarray(self.vector, np.float32)


EMBEDDERS = {TEXT.name: Asked(VECTORS[25]), IMAGE.name: Asked(IMAGES[25]), LATE.name: Asked(PAGES[25])}
SEARCHED = [name for name, mode in MODES.items() if EMBEDDERS.keys() >= set(mode.spaces)]


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    made = MemoryIndex()
    fill(made, ROWS, VECTORS)
    return made


def search(index: MemoryIndex, query: str, mode: str | Mode, k: int, **ranking: object) -> list[tuple[str, float]]:
    chosen = Ranking.model_validate(ranking)
    named = MODES[mode] if isinstance(mode, str) else mode
    return retrieve(index, EMBEDDERS, query, mode=named, k=k, filters=Filters(), ranking=chosen)


@pytest.mark.parametrize("mode", SEARCHED)
@pytest.mark.parametrize("ranking", [{}, {"fusion": "weighted", "alpha": 0.3}, {"diversity": 0.5}])
def test_pages_are_stable_in_every_mode(index: MemoryIndex, mode: str, ranking: dict[str, object]) -> None:
    longest = search(index, "the register of document 1", mode, 40, **ranking)
    assert longest == sorted(longest, key=lambda pair: -pair[1])
    assert all(search(index, "the register of document 1", mode, k, **ranking) == longest[:k] for k in (1, 7, 20))


def test_a_row_with_many_vectors_is_compared_by_all_of_them(index: MemoryIndex) -> None:
    found = search(index, "", "late", 60)
    assert places(found) == set(range(0, 60, 3))
    for name, score in found:
        (place,) = places([(name, score)])
        cosines = PAGES[25] @ PAGES[place][: place % 4 + 1].T  # they have length 1
        assert score == pytest.approx(float(cosines.max(axis=1).sum()), abs=1e-5)


def test_alpha_goes_from_words_to_meaning(index: MemoryIndex) -> None:
    words = search(index, "firmware", "hybrid", 6, fusion="weighted", alpha=0)
    meaning = search(index, "firmware", "hybrid", 6, fusion="weighted", alpha=1)
    assert places(words) == {3, 13, 23, 33, 43, 53}
    assert ids(meaning) == ids(search(index, "firmware", "dense", 6))


def test_near_copies_don_t_crowd_out_the_rest(index: MemoryIndex) -> None:
    assert places(search(index, "", "dense", 2)) == {25, 45}  # the same vector
    assert places(search(index, "", "dense", 2, diversity=0.6)) != {25, 45}


def test_stop_words_are_left_out_unless_they_are_all_there_is(index: MemoryIndex) -> None:
    assert len(search(index, "the firmware", "bm25", 60)) == 60
    assert places(search(index, "the firmware", "bm25", 60, stop_words="english")) == {3, 13, 23, 33, 43, 53}
    assert len(search(index, "The", "bm25", 60, stop_words=["THE"])) == 60
    assert without("If not, is it o'clock?", STOP_WORDS) == " ,   o'clock?"


@pytest.mark.parametrize("fusion", ["rrf", "weighted"])
def test_a_mode_is_what_it_asks_of_the_index(index: MemoryIndex, fusion: str) -> None:
    twice = Mode("twice", "Twice", "words, twice", (Lexical(), Lexical()))
    words = search(index, "firmware", "bm25", 6)
    assert ids(search(index, "firmware", twice, 6, fusion=fusion)) == ids(words)
    assert search(index, "", Mode("near", "", "", (Dense(TEXT),)), 5) == search(index, "", "dense", 5)


def test_the_share_of_meaning_is_shared_by_all_that_ask_for_it(index: MemoryIndex) -> None:
    thrice = Mode("thrice", "", "", (Dense(TEXT), Lexical(), Dense(TEXT)))
    found = search(index, "firmware", thrice, 6, fusion="weighted", alpha=0.3)
    assert dict(found) == pytest.approx(dict(search(index, "firmware", "hybrid", 6, fusion="weighted", alpha=0.3)))


def test_a_mode_over_vectors_that_a_version_has_not_is_the_callers_mistake(index: MemoryIndex) -> None:
    pixels = Mode("pixels", "Pixels", "by what is seen", (Dense(dataclasses.replace(TEXT, name="pixels")),))
    with pytest.raises(UserError, match="mode pixels needs vectors pixels"):
        search(index, "pump", pixels, 3)
    with pytest.raises(UserError, match="there is no mode 'magic'; use one of hybrid, dense, bm25"):
        mode_named("magic")


def test_every_mode_says_what_it_is() -> None:
    assert all(mode.retrievers and mode.label and mode.sentence for mode in MODES.values())
    assert all(name == mode.name for name, mode in MODES.items())


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
        found = diversify(query, ["a", "a2", "b", "c", "d"], vectors, k=5, relevance=0.5)
        # Nearest is a2; then a: (.981 - 1)/2, b: (.902 - .806)/2, c: (.196 - .010)/2, d: (-.981 + 1)/2.
        assert [name for name, _ in found][:2] == ["a2", "c"]
        assert [name for name, _ in diversify(query, list(vectors), vectors, k=3, relevance=1)] == ["a2", "a", "b"]

    def test_rows_without_a_vector_come_last(self) -> None:
        found = diversify(AXES["x"], ["p", "y", "q", "x"], AXES, k=4, relevance=0.7)
        assert [name for name, _ in found] == ["x", "y", "p", "q"]
        assert diversify(AXES["x"], ["p"], {}, k=4, relevance=0.7) == [("p", -1.0)]


SCORED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-5, 5).map(float), max_size=8).map(
    lambda scores: sorted(scores.items(), key=lambda pair: -pair[1])
)


@given(SCORED, SCORED, st.floats(0, 1))
def test_weighted_fusion_keeps_every_row_and_the_scale(
    one: list[tuple[str, float]], other: list[tuple[str, float]], alpha: float
) -> None:
    fused = fuse_scores([one, other], [1 - alpha, alpha])
    assert {name for name, _ in fused} == {name for name, _ in one + other}
    assert all(-1e-9 <= score <= 1 + 1e-9 for _, score in fused)
    assert [name for name, _ in fuse_scores([one], [1])] == ids(sorted(one, key=lambda pair: (-pair[1], pair[0])))


def test_a_hand_computed_weighted_fusion() -> None:
    fused = fuse_scores([[("a", 9.0), ("b", 4.0), ("c", -1.0)], [("b", 0.5)]], [0.4, 0.6])
    assert dict(fused) == pytest.approx({"b": 0.4 * 0.5 + 0.6, "a": 0.4, "c": 0.0})
