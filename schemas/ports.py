"""Ports: the interfaces of the outside world that steps take as arguments. Implementations live in ``backends/``."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.documents import Line, OutlineEntry, PageRegion
from schemas.drawings import Image, Letters, Mark, PageLine, Pixels, ReplacementText
from schemas.errors import BadInputError, TransientError
from schemas.filters import Filters
from schemas.geometry import BBox
from schemas.models import Reply, Request, Usage
from schemas.versions import SourceFile

Vector = NDArray[np.float32]

WHOLE_TEXT: Mapping[str, float] = MappingProxyType({"search_text": 1.0})
"""The weights of a lexical search that reads every row as one text."""


class ObjectStore(Protocol):
    """Immutable objects under slash-separated names, and a few mutable ones changed by compare-and-swap.

    Reads verify checksums and raise a ``TransientError`` that names the object, if they don't match.
    """

    @property
    def root(self) -> str:
        """Address of the store: a folder or ``s3://bucket/prefix``."""

    def remembering(self) -> AbstractContextManager[None]:
        """Read each object once during a block, in which nobody else writes them; a pointer once in each inner block."""

    def forget(self, name: str) -> None:
        """Read an object again, since another process may have written it."""

    def get(self, name: str) -> bytes:
        """Return an object's bytes; raise ``MissingError``, a ``FileNotFoundError``, if there is none."""

    def open(self, name: str) -> BinaryIO:
        """Open an object for partial reads, unverified; raise ``MissingError`` if there is none."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object atomically; an existing one is kept unless it is damaged, since the same name means the same bytes."""

    def replace(self, name: str, data: bytes) -> None:
        """Write an object whole or not at all, over an existing one."""

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder, sorted."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the stored bytes of all objects below a folder, by name."""

    def listing(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield names and stored bytes of all objects below a folder, in no order, in bounded memory."""

    def digest(self, name: str) -> str:
        """Return the SHA-256 of an object as stored, unverified; raise ``MissingError`` if there is none."""

    def abandoned(self, prefix: str) -> list[str]:
        """Return the names of incomplete writes below a folder; ``delete`` removes them."""

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the direct subfolders, sorted."""

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens if there is none."""

    def read_mutable(self, name: str, *, fresh: bool = True) -> tuple[bytes, str] | None:
        """Return a mutable object's bytes and ETag; None if there is none. Unless ``fresh``, it is read once a block."""

    def etag(self, name: str) -> str | None:
        """Return a mutable object's ETag, damaged or not; None if there is none."""

    def age_s(self, name: str) -> float | None:
        """Return the seconds since an object was written, by the store's clock alone; None if there is none."""

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write a mutable object if its ETag is ``expected`` (None: if it doesn't exist). Return whether it was written."""


class DocumentSource(Protocol):
    """Where PDFs come from."""

    def files(self) -> list[SourceFile]:
        """Return all PDFs, sorted by name, without reading them.

        Raises ``UserError`` if the location can't be listed, ``TransientError`` if it doesn't answer.
        """

    def digest(self, source: str) -> tuple[str, int]:
        """Return the SHA-256 of a PDF and its bytes, in bounded memory; errors as for ``read``."""

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes.

        Raises ``FileNotFoundError`` if it is gone, ``BadInputError`` if others may be readable, ``TransientError`` if the source
        doesn't answer.
        """


class PdfImage(Protocol):
    """An image object of a PDF; equal and hashable by object, so that its pixels are decoded once."""

    def pixels(self) -> Pixels:
        """Return the image as stored, its mask flattened on white."""

    def stream(self) -> bytes | None:
        """Return the embedded bytes; None if there are none, as for a gradient."""


class PdfPage(Protocol):
    """A page's content, in points from the top left, crop box applied, at rotation 0."""

    @property
    def number(self) -> int:
        """The page, counted from 1."""

    @property
    def box(self) -> BBox:
        """The page as drawn, from (0, 0)."""

    @property
    def rotation(self) -> int:
        """Clockwise rotation of the displayed page in degrees; not applied to coordinates."""

    @property
    def lines(self) -> Sequence[PageLine]:
        """Lines of text in content order; right-to-left lines may be in pieces."""

    @property
    def images(self) -> Sequence[Image]:
        """Visible images in content order."""

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Pieces of drawings, clipped; [] on a page larger than ``MAX_SIDE_PT``."""

    @property
    def frames(self) -> tuple[BBox, ...]:
        """The outermost clips smaller than the page."""

    def regions(self, rotation: int, *, is_scan: bool = False) -> list[PageRegion] | None:
        """Return the blocks that a layout model sees on the page turned by ``rotation`` degrees; None if it can't tell.

        On a scan it looks for pictures in the page's picture, too.
        """

    def letters(self, line: Line) -> Letters | None:
        """Return the positions of a line's letters; None if unknown. The first call is slow."""

    def replacement_texts(self) -> list[ReplacementText]:
        """Return the replacement texts of images; they are in no line."""

    def embedded(self, image: Image) -> PdfImage:
        """Return the image object behind an image."""

    def draw(self, box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
        """Render a part of the page on white, coarser above ``max_pixels``; equal drawings give equal pixels anywhere."""


class PdfDocument(Protocol):
    """An open PDF. On a bad file its members, and those of pages and images, raise ``BadInputError``, or ``MemoryError``."""

    @property
    def page_count(self) -> int:
        """Number of pages, at least 1."""

    @property
    def is_repaired(self) -> bool:
        """Whether its damaged structure was rebuilt; becomes true when the damage is found."""

    @property
    def title(self) -> str:
        """The title in its metadata; "" without one."""

    @property
    def dates(self) -> tuple[str, str]:
        """Modification and creation dates in its metadata; "" if missing."""

    def page_labels(self) -> list[str]:
        """Return the label of each page, such as iv, "" for none; [] if there are no labels, or they are broken."""

    def attachments(self) -> list[str]:
        """Return the names of the files inside it; [] if they are broken."""

    def read_page(self, number: int) -> PdfPage:
        """Read one page, counted from 1."""

    def outline(self) -> list[OutlineEntry]:
        """Return its own outline; [] if it has none, or a broken one. Pages and heights may be out of range."""

    def lost_content(self) -> list[str]:
        """Return the new warnings that mean lost content, each once."""

    def doubts(self) -> tuple[str, ...]:
        """Return why the file may be cut or damaged, by what was read so far; () where nothing says so."""

    def free_memory(self) -> None:
        """Drop caches of pages read so far."""


class Embedder(Protocol):
    """Embeds questions as unit vectors in the space of its documents."""

    name: str
    dimension: int

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``; for late interaction ``(n, dimension)``."""


class TextEmbedder(Embedder, Protocol):
    """Embeds texts as unit vectors."""

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one row a text, independent of the batch."""

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        """Return one row a question, as ``embed_query`` but for rounding."""


class PassageScorer(Protocol):
    """Scores how well passages answer a question."""

    sees_pictures: bool

    def scores(self, question: str, passages: Sequence[str], pictures: Sequence[bytes | None] = ()) -> list[float]:
        """Return a score a passage, larger is better; scores compare within one call only.

        ``pictures`` has each passage's, or None, if the model ``sees_pictures``; else it is empty.
        """


class LanguageModel(Protocol):
    """A generative model: text, perhaps with pictures, to text. One caller at a time.

    ``usage`` counts all requests since it was loaded, failed ones included. ``faults`` counts errors by name, retried ones
    included.
    """

    name: str
    usage: Usage
    faults: Counter[str]

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Reply | BadInputError | TransientError]]:
        """Yield the outcome of each request by its id, in any order, each exactly once.

        Requests are taken as capacity allows, so their producer can stop at a budget. A yielded ``BadInputError`` says that
        the model will never answer the request, a ``TransientError`` that all retries failed. Raises ``UserError`` if no request
        would succeed.
        """

    def stream(
        self, request: Request, *, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        """Yield the text of one reply as it comes, then the outcome, which is always last; errors as for ``replies``.

        A call is retried only before the first word. It ends within a second when ``stopped``, called from any thread,
        returns true or the iterator is closed: then a ``TransientError`` is last, or nothing.
        """


class StreamingModel(Protocol):
    """A generative model as searches and answers use it."""

    def stream(self, request: Request) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        """Yield the text of one reply as it comes, then the outcome, as ``LanguageModel.stream`` does."""


class LanguageDetector(Protocol):
    """Detects the language of a text."""

    def probabilities(self, text: str) -> Mapping[str, float]:
        """Return the probability of each known language by its ISO 639 code, most likely first; they sum to 1."""


class Lexicon(Protocol):
    """Knows the words of languages, by their ISO 639 codes."""

    def language_of(self, text: str) -> str | None:
        """Return the likeliest language of a text; None if its words aren't known."""

    def is_word(self, word: str, language: str) -> bool:
        """Return whether a language that ``language_of`` returned has a word, in lower case or with a capital."""


class ReadableIndex(Protocol):
    """One version's rows in an engine, for reading. Fusion, diversity and stop words are in ``tasks/``, for all engines.

    Larger scores are better. Rankings are best first, ties by evidence id, so that engines page alike, and a short one is
    the beginning of a longer one. A column ``vector_<space>`` is a fixed-size list, or a list of those for late
    interaction; a row with null is never found by that space. Engines differ in how they tokenise and weight words.
    """

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` by BM25 in fields with their weights.

        Filters are resolved: without globs, page ranges and phrases. With ``every``, all words must match unstemmed in one field;
        otherwise any, in any form. Raises ``RequestError`` if a column of the filters is missing, ``ContractError`` if a field.
        """

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> list[tuple[str, float]]:
        """Return ``(evidence_id, cosine similarity)``; raises ``ContractError`` for an unknown space or another length."""

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> list[tuple[str, float]]:
        """Return ``(evidence_id, MaxSim)`` for the query's vectors, one a row; errors as for ``dense``.

        Source:
            Khattab and Zaharia, "ColBERT", SIGIR 2020.
        """

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order, as plain values; unknown ids are left out."""

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id, shape ``(dimension,)``; rows without one are left out."""


class SearchIndex(ReadableIndex, Protocol):
    """One version's rows in an engine, for those who build it."""

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Create the collection, empty; leftovers of an unfinished build are dropped.

        ``dimensions`` are the lengths of vectors by space, ``fields`` the columns of text, or of lists of texts, that ``bm25``
        searches. Raises ``ContractError`` if one of either has no column.
        """

    def derive(self, earlier: "SearchIndex", schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Make the collection of a finished one without some documents, cheaper than writing all rows; False if that can't be.

        ``add`` and ``finish`` follow as after ``create``. The earlier collection stays unchanged and may be dropped afterwards;
        in a server's engine both are one collection, which is brought forward. Raises ``TransientError`` if it can't be read.
        """

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows, each once, and return their number; errors of ``batches`` propagate."""

    def finish(self) -> None:
        """Build the indexes and return when they are ready."""

    def count(self, doc_ids: Collection[str] | None = None) -> int:
        """Return the number of rows, of some documents if given; raises ``TransientError`` if the collection can't be read."""

    def drop(self) -> None:
        """Remove the collection, if there is one."""
