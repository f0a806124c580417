"""The read side of a corpus: what is live, searched, answered and shown."""

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.files import PublishedFiles
from pipeline.published.versions import OpenVersions
from pipeline.records.publication import list_versions
from ray_jobs.draw_pages import PageDrawer
from schemas.evidence import NO_FILTERS, AnswerResult, Filters, Modality, SearchResult
from schemas.overview import CorpusOverview, SearchMode
from schemas.versions import VersionList
from tasks.answering.modes import DEFAULT_MODE, MODES

_SUGGESTIONS = 6
_SOURCES_LISTED = 500


class PublishedCorpus:
    """The read side of one corpus. Safe to call from several threads; the pointer is read once a call.

    Args:
        workspace: The corpus.
        drawer: Draws pages; several corpora may share one, and then the one who made it closes it.
    """

    def __init__(self, workspace: Workspace, drawer: PageDrawer | None = None) -> None:
        self._workspace = workspace
        self._versions = OpenVersions(workspace)
        self._drawer = drawer or PageDrawer()
        self._closes_drawer = drawer is None
        self.files = PublishedFiles(workspace, self._versions, self._drawer)

    @property
    def name(self) -> str:
        """The corpus's name."""
        return self._workspace.corpus.name

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        with self._versions.reading():
            self._versions.live()
            return list_versions(self._workspace.store, self.name)

    def search(
        self,
        query: str,
        *,
        mode: str = DEFAULT_MODE.name,
        k: int = 10,
        offset: int = 0,
        filters: Filters = NO_FILTERS,
        version: str | None = None,
    ) -> SearchResult:
        """Return the best ``k`` rows behind the first ``offset``, of the live version or of ``version``."""
        with self._versions.opened(version) as opened:
            return opened.search(query, mode=mode, k=k, offset=offset, filters=filters)

    def answer(self, question: str, *, filters: Filters = NO_FILTERS, version: str | None = None) -> AnswerResult:
        """Answer from the live version, or from ``version``."""
        with self._versions.opened(version) as opened:
            return opened.answer(question, filters=filters)

    def overview(self) -> CorpusOverview:
        """Return what its live version holds."""
        with self._versions.reading():
            pointer = self._versions.live()
        if pointer is None:
            return CorpusOverview(name=self.name, problem=self._versions.nothing_live)
        with self._versions.opened(pointer) as opened:
            counts = opened.counts
            sources = sorted(source for named in opened.sources.values() for source in named)
            modes = [mode for mode in MODES.values() if opened.embedders.keys() >= set(mode.spaces)]
        return CorpusOverview(
            name=self.name,
            version=pointer.version,
            since=pointer.since,
            documents=counts.documents,
            pages=counts.pages,
            figures=counts.figures,
            rows=counts.rows,
            modalities=[modality for modality in Modality if counts.rows_by_modality.get(modality)],
            suggestions=self._suggestions(),
            sources=sources[:_SOURCES_LISTED],
            modes=[SearchMode(name=mode.name, label=mode.label, sentence=mode.sentence) for mode in modes],
        )

    def ready(self) -> None:
        """Raise where no version is live, or where it can't be searched: one question is put to it."""
        with self._versions.opened(None) as opened:
            opened.search("ready", mode=DEFAULT_MODE.name, k=1, filters=NO_FILTERS)

    def close(self) -> None:
        """End the processes that draw pages, unless others share them."""
        if self._closes_drawer:
            self._drawer.close()

    def _suggestions(self) -> list[str]:
        from evaluation.questions import load_questions

        if self._workspace.corpus.questions is None:
            return []
        questions = [question for question in load_questions(self._workspace.corpus.questions) if question.answerable]
        with_figures = [question.question for question in questions if question.figures]
        return with_figures[:: max(1, len(with_figures) // _SUGGESTIONS)][:_SUGGESTIONS]


def open_published(name_or_path: str, drawer: PageDrawer | None = None) -> PublishedCorpus:
    """Open the read side of a corpus by name or file; ``drawer`` draws its pages, and is shared with others."""
    return PublishedCorpus(open_workspace(name_or_path), drawer)
