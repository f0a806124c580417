"""A picture that is searched by: embedded, or described by a model and searched as words."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from backends.models.registry import language_model
from schemas.corpus.models import EndpointOptions, ModelEntry
from schemas.errors import RequestError
from schemas.ports import Vector
from schemas.retrieval import Steps
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.presets import packaged
from tasks.answering.retrieve import retrieve
from tasks.answering.retrievers import Ranked, Search
from tasks.answering.trace import Trace
from tests.contract.test_search_index import IMAGES, PAGES, ROWS, VECTORS, fill
from tests.endpoint_server import EndpointServer, answer, status
from tests.memory_index import MemoryIndex
from tests.tiny_models import draw

PICTURE = draw(3)
DENSE, IMAGE, LATE = {"by": "dense"}, {"by": "dense", "space": "image"}, {"by": "dense", "space": "late"}


@dataclasses.dataclass
class Recording:
    """An embedder that keeps what it was asked."""

    of_words: Vector
    of_picture: Vector
    asked: list[str | bytes] = dataclasses.field(default_factory=list)
    name, revision, dimension = "recording", "1", 0

    def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return np.asarray(self.of_words, np.float32)

    def embed_query_picture(self, picture: bytes) -> Vector:
        self.asked.append(picture)
        return np.asarray(self.of_picture, np.float32)


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    memory_index = MemoryIndex()
    fill(memory_index, ROWS, VECTORS)
    return memory_index


@pytest.fixture
def embedders() -> dict[str, Recording]:
    return {
        "text": Recording(VECTORS[25], VECTORS[25]),
        "image": Recording(IMAGES[10], IMAGES[20]),
        "late": Recording(PAGES[10], PAGES[20]),
    }


class Searching:
    """Searches by a picture, with a model behind an endpoint where a plan wants one."""

    def __init__(self, index: MemoryIndex, embedders: dict[str, Recording], endpoint: EndpointServer) -> None:
        self._index, self._embedders, self.trace = index, embedders, Trace()
        model_entry = {
            "kind": "vlm",
            "model": "tiny",
            "revision": "r1",
            "endpoint": EndpointOptions(url=endpoint.url, retries=0),
        }
        self.models = {"vlm": language_model("models.vlm", ModelEntry.model_validate(model_entry)).load(1)}

    def __call__(self, words: str, picture: bytes | None = PICTURE, **plan: Any) -> Ranked:
        steps = Steps.model_validate({"retrieve": [DENSE], **plan})
        query = EmbeddedQuery(self._embedders, words, picture)
        return retrieve(Search(self._index, trace=self.trace, models=self.models), query, steps, k=5)

    @property
    def note(self) -> str:
        (step,) = [step for step in self.trace.steps if step.step == "describe"]
        return step.note


@pytest.fixture
def search(index: MemoryIndex, embedders: dict[str, Recording], endpoint: EndpointServer) -> Searching:
    return Searching(index, embedders, endpoint)


@pytest.mark.parametrize(("words", "before"), [("the pump", "the pump\n"), ("", "")])
def test_what_is_embedded_is_the_words_and_the_description(
    search: Searching, embedders: dict[str, Recording], endpoint: EndpointServer, words: str, before: str
) -> None:
    """Requirement D-04 (b)."""
    endpoint.replies = lambda _: "A centrifugal pump\nwith 8 bolts."
    hits = search(words, describe={}, retrieve=[{"by": "bm25"}, DENSE])
    assert embedders["text"].asked == [f"{before}A centrifugal pump with 8 bolts."]
    assert endpoint.pictures == [PICTURE]
    assert hits == search(f"{before}A centrifugal pump with 8 bolts.", None, retrieve=[{"by": "bm25"}, DENSE])
    described = search.trace.steps[0]
    assert (described.step, described.asked, described.note) == ("describe", words, "")
    assert described.input_tokens > 100, "the picture's are counted"


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't describe this image.",
        "pump " * 200,
        "Describe this picture so that pages of technical documents about the same thing are found by your words.",
        "...",
        status(500, "busy"),
        answer(None, refusal="no"),
    ],
    ids=["refusal", "loop", "echo", "dots", "fault", "rejected"],
)
def test_without_a_description_the_words_alone_are_searched(
    search: Searching, embedders: dict[str, Recording], endpoint: EndpointServer, reply: Any
) -> None:
    endpoint.replies = lambda _: reply
    hits = search("the pump", describe={})
    assert embedders["text"].asked == ["the pump"]
    assert search.note
    assert hits == search("the pump", None)
    with pytest.raises(RequestError, match="the picture can't be described, so ask in words, too: "):
        search("", describe={})
    assert search("", describe={}, retrieve=[IMAGE]) == search("", retrieve=[IMAGE]), "the picture itself is searched by"


def test_a_question_in_words_needs_no_description(search: Searching, endpoint: EndpointServer) -> None:
    search("the pump", None, describe={})
    assert endpoint.calls == []


def test_a_model_that_the_corpus_file_does_not_name_is_the_callers_mistake(search: Searching) -> None:
    with pytest.raises(RequestError, match=r"needs a model eyes; .* name it as models\.eyes"):
        search("the pump", describe={"model": "eyes"})


def test_words_and_picture_are_embedded_jointly(search: Searching, embedders: dict[str, Recording]) -> None:
    """Requirement D-04 (a)."""
    hits = search("the pump", retrieve=[IMAGE])
    middle = (IMAGES[10] + IMAGES[20]) / np.linalg.norm(IMAGES[10] + IMAGES[20])
    embedders["image"].of_words = middle
    assert hits == search("the pump", None, retrieve=[IMAGE])
    hits = search("the pump", retrieve=[LATE])
    embedders["late"].of_words = np.concatenate([PAGES[10], PAGES[20]])
    assert hits == search("the pump", None, retrieve=[LATE])


@pytest.mark.parametrize("words", ["", "the pump"])
@pytest.mark.parametrize("preset", ["hybrid", "dense", "bm25", "tables"])
def test_a_preset_that_looks_at_no_picture_says_so(
    index: MemoryIndex, embedders: dict[str, Recording], preset: str, words: str
) -> None:
    embedders["tables"] = embedders["text"]
    with pytest.raises(RequestError, match=f"preset {preset} looks at no picture: ask in words alone"):
        retrieve(Search(index), EmbeddedQuery(embedders, words, PICTURE), packaged()[preset], k=3)


def test_a_picture_alone_leaves_out_what_looks_at_words(search: Searching, embedders: dict[str, Recording]) -> None:
    alone = search("", retrieve=[IMAGE])
    rerank = [{"by": "nearness"}, {"by": "llm", "model": "vlm"}]
    hits = search("", rewrite={"model": "vlm"}, retrieve=[{"by": "bm25"}, DENSE, IMAGE], rerank=rerank)
    assert [name for name, _ in hits] == [name for name, _ in alone]
    assert embedders["text"].asked == []
    notes = [step.note for step in search.trace.steps if step.note]
    assert notes == ["there are no words to search by"] * 4
    assert search("", retrieve=[LATE], select={"diversity": 0.5}), "of many vectors a row, none says how alike two rows are"
    assert len(search("", retrieve=[IMAGE], select={"diversity": 0.5})) == 5
