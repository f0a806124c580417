"""What the service needs of a corpus; ``pipeline.published.corpus.PublishedCorpus`` provides it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from schemas.answer_presets import AnswerPresetInfo
from schemas.answers import AnswerEvent
from schemas.evidence import NO_FILTERS, Filters, Resemblance, SearchResult, SimilarFigures
from schemas.overview import CorpusOverview
from schemas.retrieval import PresetInfo
from schemas.versions import VersionList
from tasks.answering.group import GroupBy
from tasks.answering.presets import NO_CHANGES

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in PDF points, top-left origin."""


class PublishedFiles(Protocol):
    """The files of one corpus; called, and raising, as ``PublishedCorpus`` is."""

    def figure(self, figure_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return a figure's bytes and their media type."""
        ...

    def page_image(
        self, doc_id: str, page: int, *, highlight: Sequence[Box] = (), dpi: int = 110, version: str | None = None
    ) -> "Future[bytes]":
        """Return what will be a page as PNG, the given boxes highlighted; the caller cancels it where nobody waits any more.

        The future may raise ``BadInputError`` too: the page can't be drawn.
        """
        ...

    def document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the original PDF and its file name."""
        ...

    def tagged_document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the copy of a PDF in which every figure's tag is written at its place, and its file name."""
        ...


class PublishedCorpus(Protocol):
    """The read side of one corpus. Called from several threads at once.

    Every method raises ``NotFoundError`` for what does not exist, ``RequestError`` for other mistakes of the caller, and
    ``TransientError`` where the outside world (engine, store) does not answer now, or what it holds is damaged; any other
    ``UserError`` is a mistake of those who set the service up. What a version doesn't hold is not found, whatever is still
    stored; the version is the live one where None.
    """

    @property
    def name(self) -> str:
        """The corpus's name."""
        ...

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        ...

    def search(
        self,
        query: str,
        *,
        picture: bytes | None = None,
        preset: str | None = None,
        steps: Mapping[str, Any] = NO_CHANGES,
        k: int | None = None,
        offset: int = 0,
        filters: Filters = NO_FILTERS,
        version: str | None = None,
        group_by: GroupBy | None = None,
        highlight: bool = False,
        trace: bool = False,
    ) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``, of the live version or of ``version``.

        Args:
            query: What is looked for; "" where a picture is all there is.
            picture: An encoded picture, for presets that look at pictures.
            preset: How to search; the corpus's default where None.
            steps: What is otherwise than in the preset.
            k: Rows at most; as the preset says where None.
            offset: Rows to leave out at the beginning.
            filters: What the search is narrowed to.
            version: Which; the live one where None.
            group_by: What rows are grouped by; then the best of each group comes, and ``k`` and ``offset`` count groups.
            highlight: Whether each hit is to say which of its sentences is nearest to the question.
            trace: Whether to return what each step did.
        """
        ...

    def similar(
        self, figure_id: str, *, by: Resemblance = "vector", k: int | None = None, version: str | None = None
    ) -> SimilarFigures:
        """Return the ``k`` figures most like one, of the live version or of ``version``."""
        ...

    def answer_events(
        self,
        question: str,
        *,
        answer: str | None = None,
        settings: Mapping[str, Any] = NO_CHANGES,
        preset: str | None = None,
        steps: Mapping[str, Any] = NO_CHANGES,
        picture: bytes | None = None,
        filters: Filters = NO_FILTERS,
        version: str | None = None,
        trace: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[AnswerEvent]:
        """Yield an answer from the live version, or from ``version``, as it comes into being; the last event is all of it.

        Args:
            question: In plain words.
            answer: The answer preset; the corpus's default where None.
            settings: Settings of the answer preset that are overridden.
            preset: The retrieval preset; as the answer preset says where None.
            steps: Steps of the retrieval preset that are overridden.
            picture: An encoded picture that goes with the question.
            filters: What the answer is narrowed to.
            version: Which; the live one where None.
            trace: Whether the result has what each step did.
            stopped: Whether nobody waits any more: then calls of models end.
        """
        ...

    def answer_presets(self, version: str | None = None) -> list[AnswerPresetInfo]:
        """Return every way to answer, the default first, and what the corpus file or the version lacks for it."""
        ...

    def presets(self, version: str | None = None) -> list[PresetInfo]:
        """Return every way to search, the default first, and what the live version or ``version`` lacks for it."""
        ...

    @property
    def files(self) -> PublishedFiles:
        """Its figures, pages and documents."""
        ...

    def overview(self) -> CorpusOverview:
        """Return what its live version holds."""
        ...

    def ready(self) -> None:
        """Raise an ``InsetError`` that says why the corpus can't be searched now, such as that no version is live."""
        ...
