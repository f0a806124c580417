"""Text embedders made of a tokenizer and a model that pools tokens; the model is whatever runs it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from schemas.errors import UserError
from schemas.ports import Vector
from schemas.versions import ModelCard

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Pool = Callable[[Sequence[Sequence[int]]], Vector]
"""Takes the token ids of texts; returns a vector of any length above zero for each, ``(texts, dimension)``.

No row may depend on the texts beside it, on their order or on the number of threads.
"""


class TokenCounter:
    """Counts a model's tokens with its tokenizer alone; neither a runtime nor the weights are loaded.

    Args:
        tokenizer_file: The model's ``tokenizer.json``.
    """

    def __init__(self, tokenizer_file: Path) -> None:
        self.tokenizer = load_tokenizer(tokenizer_file)

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones left out."""
        return [len(found) for found in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def load_tokenizer(file: Path) -> "Tokenizer":
    """Read a ``tokenizer.json``; what it says of truncation and padding is set aside.

    Raises:
        UserError: The file isn't there or is no tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise UserError(f"embeddings.text: can't read the tokenizer {file}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class SentenceEmbedder:
    """A ``TextEmbedder`` over a tokenizer and a model.

    Args:
        card: The model's name, revision and dimension.
        counter: Counts, and cuts texts into, the model's tokens.
        pool: The model.
        longest: Tokens of the longest text the model takes, special ones included; longer texts are cut.
        prompts: What the model wants before a document and before a question.
    """

    def __init__(
        self, card: ModelCard, counter: TokenCounter, pool: Pool, *, longest: int, prompts: tuple[str, str] = ("", "")
    ) -> None:
        self.name = card.name
        self.revision = card.revision
        self.dimension = card.dimension or 0
        self.max_tokens = longest - counter.tokenizer.num_special_tokens_to_add(is_pair=False)
        self.count_tokens = counter
        self._pool = pool
        self._document_prompt, self._query_prompt = prompts
        # A tokenizer of its own: the counter's must not truncate.
        self._tokenizer = type(counter.tokenizer).from_str(counter.tokenizer.to_str())
        self._tokenizer.enable_truncation(longest)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a text, shape ``(texts, dimension)``; a row never depends on the texts beside it."""
        return self._embed([self._document_prompt + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a question, shape ``(texts, dimension)``."""
        return self._embed([self._query_prompt + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, shape ``(dimension,)``."""
        row: Vector = self.embed_queries([text])[0]
        return row

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self._tokenizer.encode_batch_fast(list(texts))]

    def _embed(self, texts: list[str]) -> Vector:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        pooled = self._pool(self._tokens(texts))
        vectors: Vector = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors
