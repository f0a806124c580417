"""What every packaged text embedder must do: the registry names them."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from backends.models.registry import TEXT_EMBEDDERS
from schemas.models import ModelName, TextModel
from schemas.ports import TextEmbedder

WORDS = ["the", "account", "register", "of", "your", "bank's", "balance", "straße", "中文", "don't", "3.5mm", "Ctrl+F4"]


def texts(count: int) -> list[str]:
    chance = random.Random(7)
    return [" ".join(chance.choices(WORDS, k=chance.choice((1, 3, 8, 20, 40, 70)))) for _ in range(count)]


@pytest.fixture(scope="module", params=[*TEXT_EMBEDDERS.modules])
def model(request: pytest.FixtureRequest) -> TextModel:
    return TEXT_EMBEDDERS.find(ModelName(request.param))


@pytest.fixture(scope="module")
def embedder(model: TextModel) -> TextEmbedder:
    return model.load(32)


def _same(embedder: TextEmbedder, some: Sequence[str]) -> bool:
    return bool(np.array_equal(embedder.embed_documents(some[::-1])[::-1], embedder.embed_documents(some)))


def test_it_is_what_its_card_says(model: TextModel, embedder: TextEmbedder) -> None:
    card = model.card()
    assert (embedder.name, embedder.dimension) == (card.name, card.dimension)
    assert embedder.embed_query("word").shape == (embedder.dimension,)


def test_questions_asked_together_are_what_each_is_alone(embedder: TextEmbedder) -> None:
    questions = texts(9)
    alone = np.stack([embedder.embed_query(question) for question in questions])
    assert np.allclose(embedder.embed_queries(questions), alone, atol=1e-6)


@pytest.mark.slow
def test_a_vector_does_not_depend_on_its_batch(model: TextModel, embedder: TextEmbedder) -> None:
    mixed = texts(33)
    alone = np.stack([embedder.embed_documents([text])[0] for text in mixed])
    assert np.array_equal(alone, embedder.embed_documents(mixed))
    assert _same(embedder, mixed)
    assert np.array_equal(alone, model.load(5).embed_documents(mixed))


def test_vectors_have_unit_length_even_without_words(embedder: TextEmbedder) -> None:
    vectors = embedder.embed_documents(["", " ", "\n", "word", "long " * 3000])
    assert vectors.shape == (5, embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def test_a_text_is_near_to_itself(embedder: TextEmbedder) -> None:
    some = ["How to fix a puncture in a bicycle wheel", "Quarterly earnings rose by 4 %"]
    assert [int(np.argmax(embedder.embed_documents(some) @ embedder.embed_query(text))) for text in some] == [0, 1]


def test_tokens_are_counted_by_the_tokenizer_alone_and_without_truncation(model: TextModel) -> None:
    assert model.token_counter()(["", "word", "word " * 1000]) == [0, 1, 1000]
