"""The outside world as steps see it. Implementations live in ``backends/``; steps take them as arguments."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.documents import LayoutRegion, Line, OutlineEntry, RecognisedLine
from schemas.drawings import Image, Letters, Mark, PageLine, Pixels, ReplacementText
from schemas.errors import BadInputError, TransientError
from schemas.evidence import Filters
from schemas.generation import Reply, Request, Usage
from schemas.geometry import BBox
from schemas.versions import SourceFile

Vector = NDArray[np.float32]

WHOLE_TEXT: Mapping[str, float] = MappingProxyType({"search_text": 1.0})
"""The weights of a lexical search that reads every row as one text."""


class ObjectStore(Protocol):
    """Immutable objects under slash-separated names, and a few mutable ones changed by compare-and-swap.

    Objects carry checksums that are checked when they are read: whatever reads one raises ``DamagedError`` where it isn't what
    was written, and that names the object and what to do.
    """

    @property
    def root(self) -> str:
        """Address of the store: a folder or ``s3://bucket/prefix``."""
        ...

    def get(self, name: str) -> bytes:
        """Return an object's bytes; raise ``MissingError``, a ``FileNotFoundError``, where there is none."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open an object's stored bytes to read a part of them, unchecked; raises as ``get`` does where there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object whole or not at all; same name means same bytes, so an existing one is kept unless it is damaged."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write an object whole or not at all, over an existing one."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder, sorted; [] where there is none."""
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the stored bytes of all objects below a folder, by name."""
        ...

    def listing(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the names and stored bytes of all objects below a folder, in no particular order, holding but a few."""
        ...

    def digest(self, name: str) -> str:
        """Return the SHA-256 of an object as it is stored, unchecked; raise ``MissingError`` where there is none."""
        ...

    def abandoned(self, prefix: str) -> list[str]:
        """Return the names of what writers that died have left half written below a folder; ``delete`` removes it."""
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

    def etag(self, name: str) -> str | None:
        """Return a mutable object's ETag, damaged or not; None where there is none."""
        ...

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write a mutable object if its ETag is still ``expected`` (None: if there is none yet). Return whether it was."""
        ...


class Spill(Protocol):
    """Rows put aside, outside memory, and given back by the value of one column."""

    def add(self, table: pa.Table) -> None:
        """Put rows aside."""
        ...

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, those that share a value in one table, in the order they came in; nothing can be added any more."""
        ...


class DocumentSource(Protocol):
    """Where PDFs come from."""

    def files(self) -> list[SourceFile]:
        """Return all the PDFs there, sorted by name, without reading them.

        Raises:
            UserError: There is no such place, or a part of it may not be listed.
            TransientError: It doesn't answer.
        """
        ...

    def digest(self, source: str) -> str:
        """Return the SHA-256 of a PDF, without holding all of it; errors as for ``read``."""
        ...

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes.

        Raises:
            FileNotFoundError: It went away.
            BadInputError: It can't be read; the others may be.
            TransientError: The source doesn't answer.
        """
        ...


class PdfImage(Protocol):
    """An image object of a PDF. Two are equal where the document draws one object twice: what was decoded once is known."""

    def pixels(self) -> Pixels:
        """Return the image as stored, its mask flattened on white.

        Raises:
            BadInputError: It declares more pixels than it may or can hold, or can't be decoded.
        """
        ...

    def stream(self) -> bytes | None:
        """Return the image's bytes as they are embedded; None where there are none, as for a gradient."""
        ...


class PdfPage(Protocol):
    """What a page draws, in points from the top left, crop box applied, at rotation 0."""

    @property
    def number(self) -> int:
        """The page, counted from 1."""
        ...

    @property
    def box(self) -> BBox:
        """The page as drawn, from (0, 0)."""
        ...

    @property
    def rotation(self) -> int:
        """How the page is shown, in degrees clockwise; no coordinate has it applied."""
        ...

    @property
    def lines(self) -> Sequence[PageLine]:
        """Lines with words, in the order of the page's content: one that runs from right to left may be in pieces."""
        ...

    @property
    def images(self) -> Sequence[Image]:
        """Images that a reader sees, in the order of the page's content."""
        ...

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Pieces of drawings, cut to what their clip shows; [] on a page larger than ``MAX_SIDE_PT``."""
        ...

    @property
    def frames(self) -> tuple[BBox, ...]:
        """The outermost clips smaller than the page."""
        ...

    def letters(self, line: Line) -> Letters | None:
        """Return where the letters of one of its lines stand; None where that is unknown. The first call takes long.

        Raises:
            BadInputError: The page can't be read.
        """
        ...

    def replacement_texts(self) -> list[ReplacementText]:
        """Return the words that images show, where the PDF gives them; they are in no line.

        Raises:
            BadInputError: The page can't be read.
        """
        ...

    def embedded(self, image: Image) -> PdfImage:
        """Return the image object that one of its images is made of."""
        ...

    def draw(self, box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
        """Return a part of the page as it is drawn, on white: the same pixels wherever on a page the same drawing stands.

        Args:
            box: Which part.
            dpi: Resolution.
            max_pixels: Pixels at most; a larger part is drawn at a lower resolution.

        Raises:
            BadInputError: It can't be drawn.
        """
        ...


class PdfDocument(Protocol):
    """An open PDF. What any of it raises on a bad file is ``BadInputError``, or ``MemoryError`` where memory is too short."""

    @property
    def page_count(self) -> int:
        """How many pages it has, at least 1."""
        ...

    @property
    def is_repaired(self) -> bool:
        """Whether its structure was damaged and had to be rebuilt; becomes true when the damage is met."""
        ...

    @property
    def title(self) -> str:
        """The title in its metadata; "" where there is none."""
        ...

    @property
    def dates(self) -> tuple[str, str]:
        """When its metadata says that it was changed last, and that it was made; "" where it doesn't say."""
        ...

    def page_labels(self) -> list[str]:
        """Return what it calls each of its pages, such as iv, "" for none; [] where it names no page, or its names are broken."""
        ...

    def read_page(self, number: int) -> PdfPage:
        """Read one page, counted from 1.

        Raises:
            BadInputError: The page can't be read.
        """
        ...

    def outline(self) -> list[OutlineEntry]:
        """Return its own outline; [] where it has none, or a broken one. Pages and heights may be outside the document."""
        ...

    def lost_content(self) -> list[str]:
        """Return the warnings since the last call that mean lost content, each once."""
        ...

    def free_memory(self) -> None:
        """Drop what is cached of pages read so far: memory is bounded by pages, not by the document."""
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
    """Finds figures, tables and words on the picture of a page."""

    name: str
    revision: str

    def detect(self, picture: bytes) -> list[LayoutRegion]:
        """Return the parts of an encoded picture, the surest first; [] where it has none.

        What is hardly likely is named too, and the same place may be named twice: the caller weighs them.

        Raises:
            BadInputError: The picture can't be decoded.
        """
        ...


class Embedder(Protocol):
    """Turns questions into vectors of unit length, in the space of whatever else it embeds."""

    name: str
    revision: str
    dimension: int

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``; of late interaction, its vectors, ``(n, dimension)``."""
        ...


class PictureEmbedder(Embedder, Protocol):
    """Turns pictures and texts into vectors of one space."""

    def embed_pictures(self, pictures: Sequence[bytes]) -> Vector:
        """Return one row an encoded picture; no row depends on the pictures beside it but for rounding.

        Raises:
            BadInputError: A picture can't be decoded.
            MemoryError: There is no room for so many at once.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one row a text; a long text is cut."""
        ...

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return what is searched by where a picture is the question; shape and errors as for the others."""
        ...


class PairEmbedder(Embedder, Protocol):
    """Turns a picture together with the words that describe it into one vector."""

    def embed_pairs(self, pictures: Sequence[bytes], texts: Sequence[str]) -> Vector:
        """Return one row a pair; errors as for ``PictureEmbedder.embed_pictures``."""
        ...

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return what is searched by where a picture is the question."""
        ...


class LateEmbedder(Embedder, Protocol):
    """Turns a picture, or a question, into many vectors, one a patch or a word: what late interaction compares."""

    def embed_pictures(self, pictures: Sequence[bytes]) -> list[Vector]:
        """Return the vectors of each encoded picture, shape ``(n, dimension)``, n > 0; none is of padding.

        Raises:
            BadInputError: A picture can't be decoded.
            MemoryError: There is no room for so many at once.
        """
        ...

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return what is searched by where a picture is the question."""
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

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        """Return one row a question: what ``embed_query`` returns of it, but for rounding."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``."""
        ...


class PassageScorer(Protocol):
    """Says how well passages answer a question."""

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score a passage, larger is better; they compare within one call only."""
        ...


class LanguageModel(Protocol):
    """A generative model: words, perhaps with a picture, to words. One caller at a time.

    ``usage`` is what all requests cost since it was loaded, those that came to nothing included. ``faults`` counts what went
    wrong meanwhile, by what it is called, also where another try succeeded: for whoever watches.
    """

    name: str
    revision: str
    usage: Usage
    faults: Counter[str]

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Reply | BadInputError | TransientError]]:
        """Yield what becomes of each request, by its id, as it comes: in any order, each exactly once.

        Requests are taken as there is room for them, so that whoever yields them can stop when enough was spent. An error
        that is yielded is of that one request: ``BadInputError`` says that the model will never answer it, ``TransientError``
        that it may another time, all retries being spent.

        Raises:
            UserError: The model can't be used as the corpus file names it; no request would succeed.
        """
        ...

    def stream(
        self, request: Request, *, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        """Yield the words of one reply as they come, then what became of the request, which is always the last thing.

        A call is tried again only while no word has come. Words that came before an error stand; the caller decides what they
        are worth. The call ends within a second when ``stopped`` returns true, or when the iterator is closed: then a
        ``TransientError`` is the last thing, or nothing.

        Args:
            request: What is asked.
            stopped: Whether nobody waits for the reply any more; called from any thread, several times a second.

        Raises:
            UserError: As for ``replies``.
        """
        ...


class Writer(Protocol):
    """A generative model as a question uses it: whoever asks decides when its calls end."""

    def stream(self, request: Request) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        """Yield the words of one reply as they come, then what became of the request, as ``LanguageModel.stream`` does."""
        ...


class LanguageDetector(Protocol):
    """Tells in which language a text is."""

    def probabilities(self, text: str) -> Mapping[str, float]:
        """Return how likely each language is that it knows, by its ISO 639 code, likeliest first; they sum to one."""
        ...


class SearchIndex(Protocol):
    """One version's rows in an engine: what engines must do; fusing, diversifying and stop words are ``tasks/``' for all.

    Scores: larger is better. Every ranking comes best first, ties by evidence id, so that engines page alike, and a short
    one is the beginning of a longer one. A column ``vector_<space>`` holds a space's vectors: a fixed-size list, or a list
    of those where a row has many (late interaction); null where a row has none, and then that space never finds it.

    Engines weigh words alike, not equally: each has its own way of splitting words and of counting the rows that hold one.
    """

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Make the physical collection, empty; whatever an earlier, unfinished build left of it is dropped first.

        Args:
            schema: Columns of the rows to come.
            dimensions: Length of a vector, by space.
            fields: Columns of text, or of lists of texts, that ``bm25`` may look in.

        Raises:
            ContractError: A field or a space has no such column.
        """
        ...

    def derive(self, earlier: "SearchIndex", schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Make the collection out of another version's, without the rows of some documents, for less than writing all rows.

        ``add`` and ``finish`` follow as after ``create``; then it answers as if all its rows had been written into a fresh one.

        Args:
            earlier: A finished collection, which stays as it is, and may be dropped at any time afterwards.
            schema: Columns, as for ``create``.
            fields: As for ``create``.
            without: Ids of documents.

        Returns:
            Whether it was made; False where the engine can't, or the other isn't made alike: use ``create`` then.

        Raises:
            DamagedError: The other can't be read.
        """
        ...

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows, none of them twice, and return how many; an error of ``batches`` comes through as it is."""
        ...

    def finish(self) -> None:
        """Build what searching needs and return when it is ready."""
        ...

    def count(self) -> int:
        """Return how many rows the engine itself says it holds.

        Raises:
            DamagedError: There is no such collection, or it can't be read.
        """
        ...

    def drop(self) -> None:
        """Remove the collection; nothing happens where there is none."""
        ...

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> list[tuple[str, float]]:
        """Return ``(evidence_id, score)`` by lexical match in weighted fields; [] where no term matches.

        Args:
            query: Words, in no order.
            k: Rows at most.
            filters: What the rows are narrowed to; globs, page ranges and phrases must be resolved.
            weights: Fields, with what each counts.
            every: Every word has to match as it is written, in one field; otherwise any, in any of its forms.

        Raises:
            RequestError: Filters look at what this collection has no column of.
            ContractError: The collection was made without one of the fields.
        """
        ...

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> list[tuple[str, float]]:
        """Return ``(evidence_id, cosine similarity)`` by vector.

        Raises:
            ContractError: There is no such space, or its vectors have another length.
        """
        ...

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> list[tuple[str, float]]:
        """Return ``(evidence_id, MaxSim)``: for each vector of the query, a row of ``vectors``, the best cosine, summed.

        Raises:
            ContractError: There is no such space of many vectors a row, or they have another length.

        Source:
            Khattab and Zaharia, "ColBERT", SIGIR 2020.
        """
        ...

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order, as plain values of the evidence schema; unknown ids are left out."""
        ...

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id, shape ``(dimension,)``; rows that are unknown or have none are left out."""
        ...
