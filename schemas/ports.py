"""The outside world as steps see it. Implementations live in ``backends/``; steps take them as arguments."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.documents import LayoutRegion, RecognisedLine
from schemas.evidence import Filters
from schemas.versions import SourceFile

Vector = NDArray[np.float32]


class ObjectStore(Protocol):
    """Immutable objects under slash-separated names, and a few mutable ones changed by compare-and-swap."""

    @property
    def root(self) -> str:
        """Address of the store: a folder or ``s3://bucket/prefix``."""
        ...

    def get(self, name: str) -> bytes:
        """Return an object's bytes; raise ``FileNotFoundError`` where there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole or not at all; same name means same bytes, so an existing one may be kept."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write an object whole or not at all, over an existing one."""
        ...

    def exists(self, name: str) -> bool:
        """Say whether there is an object of that name."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder, sorted; [] where there is none."""
        ...

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below a folder, sorted; [] where there is none."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none."""
        ...

    def read_mutable(self, name: str) -> tuple[bytes, str] | None:
        """Return a mutable object's bytes and its ETag; None where there is none."""
        ...

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write a mutable object if its ETag is still ``expected`` (None: if there is none yet). Say whether it was."""
        ...


class DocumentSource(Protocol):
    """Where PDFs come from."""

    def files(self) -> list[SourceFile]:
        """Return the PDFs there, sorted by name, without reading them; raise ``UserError`` where there is no such place."""
        ...

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes; raise ``FileNotFoundError`` where it went away."""
        ...


class Recogniser(Protocol):
    """Reads words off pixels."""

    name: str
    revision: str

    def recognise(self, picture: bytes) -> list[RecognisedLine]:
        """Return the lines of an encoded picture in reading order; [] where it has no words.

        Raises:
            BadInputError: The picture can't be decoded.
        """
        ...


class LayoutDetector(Protocol):
    """Finds figures and tables on the picture of a page."""

    name: str
    revision: str

    def detect(self, picture: bytes) -> list[LayoutRegion]:
        """Return the figures and tables of an encoded picture, the surest first; [] where it has none.

        Raises:
            BadInputError: The picture can't be decoded.
        """
        ...


class TextEmbedder(Protocol):
    """Turns text into vectors of unit length."""

    name: str
    revision: str
    dimension: int
    max_tokens: int

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many of its tokens each text has, special ones left out."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one row a text; a row never depends on the texts beside it."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``."""
        ...


class SearchIndex(Protocol):
    """One version's rows in an engine. Scores: larger is better.

    Every list comes best first, ties by evidence id, so that engines page alike.
    """

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int]) -> None:
        """Make the physical collection, empty; whatever an earlier, unfinished build left of it is dropped first."""
        ...

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows with a fixed-size-list column ``vector_<space>`` for each space; return how many."""
        ...

    def finish(self) -> None:
        """Build what searching needs and return when it is ready."""
        ...

    def count(self) -> int:
        """Return how many rows the engine itself says it holds."""
        ...

    def drop(self) -> None:
        """Remove the collection; nothing happens where there is none."""
        ...

    def bm25(self, query: str, k: int, filters: Filters) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` by lexical match; [] where no term matches."""
        ...

    def dense(self, vector: Vector, k: int, filters: Filters, space: str = "text") -> list[tuple[str, float]]:
        """Return ``(evidence_id, cosine similarity)`` by vector."""
        ...

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order, as plain values of the evidence schema; unknown ids are left out."""
        ...

    def rows(self, filters: Filters, limit: int) -> list[dict[str, object]]:
        """Return rows in document order, for browsing."""
        ...
