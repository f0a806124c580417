"""Text embedders made of a tokenizer and a pooled model."""

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
"""Token ids of texts to pooled vectors, ``(texts, dimension)``, of any length above zero.

No row may depend on the batch, the order or the number of threads.
"""


class TokenCounter:
    """Counts tokens with the model's tokenizer alone."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self.tokenizer = tokenizer

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones left out."""
        return [len(encoding) for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def load_tokenizer(file: Path) -> "Tokenizer":
    """Read a ``tokenizer.json`` without its truncation and padding; raise ``UserError`` if it is missing or invalid."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise UserError(f"embeddings.text: can't read the tokenizer {file}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class PromptedEmbedder:
    """What text embedders have in common: ``prompts`` stand before documents and before questions."""

    def __init__(self, name: str, dimension: int, prompts: tuple[str, str]) -> None:
        self.name, self.dimension = name, dimension
        self._document_prompt, self._query_prompt = prompts

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a text, shape ``(texts, dimension)``, independent of the batch."""
        return self._embed([self._document_prompt + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a question, shape ``(texts, dimension)``."""
        return self._embed([self._query_prompt + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, shape ``(dimension,)``."""
        row: Vector = self.embed_queries([text])[0]
        return row

    def _embed(self, texts: list[str]) -> Vector:
        raise NotImplementedError


class SentenceEmbedder(PromptedEmbedder):
    """A ``TextEmbedder`` made of a tokenizer and a model.

    Texts are truncated to ``longest`` tokens, special ones included.
    """

    def __init__(
        self, card: ModelCard, counter: TokenCounter, pool: Pool, *, longest: int, prompts: tuple[str, str] = ("", "")
    ) -> None:
        super().__init__(card.name, card.dimension or 0, prompts)
        self._pool = pool
        # A tokenizer of its own: the counter's must not truncate.
        self._tokenizer = type(counter.tokenizer).from_str(counter.tokenizer.to_str())
        self._tokenizer.enable_truncation(longest)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def _embed(self, texts: list[str]) -> Vector:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        pooled = self._pool(self._tokens(texts))
        vectors: Vector = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors
