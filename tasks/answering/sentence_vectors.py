"""Vectors of sentences that answers and highlights compare with questions."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from schemas.ports import Vector

SENTENCES_KEPT = 10_000
"""Sentences whose vectors are kept, some 10 MB for vectors of 384 numbers."""


class SentenceVectors:
    """Unit vectors of sentences by ``embed``, shape ``(texts, dimension)``; those used last are kept, in 16 bits. Thread-safe."""

    def __init__(self, embed: Callable[[Sequence[str]], Vector], max_sentences: int = SENTENCES_KEPT) -> None:
        self._embed, self._max_sentences = embed, max_sentences
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, Vector] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> Vector:
        """Return one vector a text, the same whether it was kept or not; distinct new texts are embedded in one call."""
        with self._lock:
            vectors_by_text = {text: self._cached[text] for text in texts if text in self._cached}
        absent = [text for text in dict.fromkeys(texts) if text not in vectors_by_text]
        if absent:
            vectors_by_text |= zip(absent, self._embed(absent).astype(np.float16), strict=True)
        with self._lock:
            self._cached |= vectors_by_text
            for text in vectors_by_text:
                self._cached.move_to_end(text)
            while len(self._cached) > self._max_sentences:
                self._cached.popitem(last=False)
        return np.stack([vectors_by_text[text] for text in texts]).astype(np.float32)
