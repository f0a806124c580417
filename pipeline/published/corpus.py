"""Read a published corpus: search it, answer from it, show its files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from backends.models.pictures import receive
from pipeline.corpus.answers import answer_preset_of, answers_of, lacking_for_answer
from pipeline.corpus.presets import default_preset, preset_of, presets_of
from pipeline.corpus.prompts import find_answer_prompt
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.answering import AnswerPlan, answer_events
from pipeline.published.contents import PublishedContents
from pipeline.published.files import PublishedFiles
from pipeline.published.version import DEFAULT_K, OpenVersion
from pipeline.published.versions import VERSIONS_OPEN, OpenVersions
from pipeline.records.publication import list_versions
from schemas.answer_presets import AnswerPreset, AnswerPresetInfo
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult
from schemas.corpus import Corpus
from schemas.errors import RequestError
from schemas.evidence import Filters, Modality, SearchResult, SimilarFigures
from schemas.overview import CorpusOverview, SearchPreset
from schemas.retrieval import AnswerQuery, Preset, PresetInfo, Query
from schemas.versions import VersionList
from tasks.answering.answer_presets import answer_preset_info, with_settings
from tasks.answering.compose import answer_prompts
from tasks.answering.presets import changed, preset_info
from tasks.answering.retrieve import compares_pictures, takes_pictures
from workers.draw_pages import PageDrawer

EMBED_BATCH = 256

_SUGGESTIONS = 6
_SOURCES_LISTED = 500


class PublishedCorpus:
    """The published versions of one corpus. Thread-safe.

    ``version`` is the live one where None. Methods raise ``NotFoundError`` for what the version doesn't hold, ``RequestError``
    for other mistakes of the caller, ``TransientError`` where the engine or the store doesn't answer or is damaged, and other
    ``UserError``s for mistakes in the configuration.

    Args:
        workspace: The corpus.
        drawer: Draws pages; a shared one is closed by whoever made it.
        versions_open: Most versions that are open at once.
    """

    def __init__(
        self, workspace: Workspace, drawer: PageDrawer | None = None, *, versions_open: int = VERSIONS_OPEN
    ) -> None:
        self._workspace = workspace
        self._drawer = drawer or PageDrawer()
        self._versions = OpenVersions(workspace, versions_open, self._drawer.remove_older)
        self._owns_drawer = drawer is None
        self.files = PublishedFiles(workspace, self._versions, self._drawer)
        self.contents = PublishedContents(workspace.store, self._versions)

    @property
    def name(self) -> str:
        """The corpus's name."""
        return self._workspace.corpus.name

    @property
    def versions_open(self) -> int:
        """Versions that are open now."""
        return len(self._versions)

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        with self._versions.reading():
            self._versions.live()
            return list_versions(self._workspace.store, self.name)

    def plan(self, query: Query | AnswerQuery) -> Preset:
        """Return the plan of a request.

        Raises:
            RequestError: The preset is unknown, or its steps can't be changed so.
        """
        preset = query.preset
        if preset is None and isinstance(query, AnswerQuery):
            preset = query.settings.get("retrieval", answer_preset_of(self._versions.settings(), query.answer).retrieval)
        return self._plan(preset, query.steps)

    def is_written(self, query: AnswerQuery) -> bool:
        """Return whether a generative model writes the answer."""
        return answer_preset_of(self._versions.settings(), query.answer).model is not None

    def search(self, query: Query, stopped: Callable[[], bool] = lambda: False) -> SearchResult:
        """Return the best rows.

        A query with a picture and no preset uses the default preset, or else the first that takes pictures. Once ``stopped``
        returns true, the next step raises ``Stopped``.

        Raises:
            RequestError: The version has no preset that takes a picture; the message names the settings.
        """
        plan = self._plan(query.preset, query.steps)
        if query.picture is not None:
            query = replace(query, picture=receive(query.picture))
        with self._versions.opened(query.version) as opened:
            if query.picture is not None and query.preset is None and not takes_pictures(plan):
                plan = self._plan(self._for_pictures(opened), query.steps)
            return opened.search(query, plan, stopped=stopped)

    def search_each(self, shared: Query, questions: Sequence[tuple[str, Filters]]) -> Iterator[SearchResult]:
        """Yield the result of each question, all from one version; questions are embedded in batches.

        Args:
            shared: The query apart from text and filters.
            questions: Texts and filters.
        """
        plan, version = self._plan(shared.preset, shared.steps), shared.version
        for start in range(0, len(questions), EMBED_BATCH):
            batch = questions[start : start + EMBED_BATCH]
            with self._versions.opened(version) as opened:
                version = opened.version  # even if another is published meanwhile
                embedded = opened.questions([text for text, _ in batch], plan)
                for (text, filters), question in zip(batch, embedded, strict=True):
                    yield opened.search(replace(shared, text=text, filters=filters), plan, question)

    def similar(self, figure_id: str, *, k: int | None = None, version: str | None = None) -> SimilarFigures:
        """Return the ``k`` figures most like one."""
        with self._versions.opened(version) as opened:
            return opened.similar(figure_id, k=k or DEFAULT_K)

    def answer(self, query: AnswerQuery) -> AnswerResult:
        """Return the result that ``answer_events`` ends with."""
        *_, last = self.answer_events(query)
        return cast(AnswerFinished, last).result

    def answer_events(self, query: AnswerQuery, stopped: Callable[[], bool] = lambda: False) -> Iterator[AnswerEvent]:
        """Yield an answer as it is written; the last event is the whole answer.

        Args:
            query: The question.
            stopped: Returns true when nobody waits for the answer any more; steps and calls of models then end.
        """
        corpus = self._versions.settings()
        preset = answer_preset_of(corpus, query.answer)
        # A request never names a file of this machine.
        if query.settings.get("prompt", preset.prompt) not in (preset.prompt, *answer_prompts()):
            raise RequestError(
                f"there is no prompt {query.settings['prompt']!r}; "
                f"a request names a packaged one: {', '.join(answer_prompts())}"
            )
        preset = with_settings(preset, query.settings) if query.settings else preset
        if absent := lacking_for_answer(preset, corpus):
            raise RequestError(
                f"answer preset {preset.name} needs {', '.join(absent)}; set {', '.join(absent.values())} in the corpus file, "
                "or use another answer preset"
            )
        prompt = None
        if preset.model is not None:
            setting = f"{self._workspace.file}: answer.prompt"
            prompt = find_answer_prompt(preset.prompt, self._workspace.file.parent, setting)
        picture = None if query.picture is None else receive(query.picture)
        with self._versions.opened(query.version) as opened:
            plan = AnswerPlan(
                question=opened.question(query.text, picture, stopped),
                preset=preset,
                retrieval=self._plan(query.preset or preset.retrieval, query.steps),
                fallback=self._plan(query.preset, query.steps),
                prompt=prompt,
                filters=query.filters,
            )
            yield from answer_events(opened, plan, traced=query.trace, stopped=stopped)

    def answer_presets(self, version: str | None = None) -> list[AnswerPresetInfo]:
        """Return all answer presets, the default first, with what the corpus file or the version lacks for each."""
        corpus = self._versions.settings()
        default = answer_preset_of(corpus, None)
        with self._versions.opened(version) as opened:
            known = [default, *(one for name, one in answers_of(corpus).items() if name != default.name)]
            return [self._answer_info(one, corpus, opened) for one in known]

    def _answer_info(self, preset: AnswerPreset, corpus: Corpus, opened: OpenVersion) -> AnswerPresetInfo:
        plan = self._plan(preset.retrieval, {})
        needs = preset_info(plan).needs if preset.context == "retrieved" else []
        missing = opened.lacks(plan) if preset.context == "retrieved" else []
        if preset.model is not None:
            needs = [*needs, f"a model {preset.model} that writes"]
            missing = [
                *missing,
                *(f"{what} (set {setting})" for what, setting in lacking_for_answer(preset, corpus).items()),
            ]
        return answer_preset_info(preset, needs, missing)

    def presets(self, version: str | None = None) -> list[PresetInfo]:
        """Return all retrieval presets, the default first, with what the version lacks for each."""
        with self._versions.opened(version) as opened:
            return [preset_info(preset, opened.lacks(preset)) for preset in self._presets()]

    def _presets(self) -> list[Preset]:
        options = self._versions.settings().retrieval
        default = default_preset(options)
        return [default, *(preset for preset in presets_of(options).values() if preset.name != default.name)]

    def _plan(self, preset: str | None, steps: Mapping[str, Any]) -> Preset:
        options = self._versions.settings().retrieval
        named = preset_of(options, preset) if preset else default_preset(options)
        return changed(named, steps) if steps else named

    def _for_pictures(self, opened: OpenVersion) -> str:
        able = [preset for preset in self._presets() if takes_pictures(preset) and not opened.lacks(preset)]
        if not able:
            raise RequestError(
                "this version can't be searched by a picture: name a model of pictures as embeddings.image in the corpus file "
                "and refresh, or a vision-language model that describes the picture as retrieval.models.vlm"
            )
        # A description takes a call of a generative model, and says less than what it describes.
        return min(able, key=lambda preset: not compares_pictures(preset)).name

    def overview(self) -> CorpusOverview:
        """Return a summary of the live version."""
        with self._versions.reading():
            pointer = self._versions.live()
            if pointer is None:
                return CorpusOverview(name=self.name, problem=self._versions.nothing_live())
        with self._versions.opened(pointer) as opened:
            counts = opened.counts
            sources = sorted(source for named in opened.sources.values() for source in named)
            presets = [preset for preset in self._presets() if not opened.lacks(preset)]
        return CorpusOverview(
            name=self.name,
            version=pointer.version,
            since=pointer.since,
            documents=counts.documents,
            partly_read=counts.partly_read,
            pages=counts.pages,
            figures=counts.figures,
            rows=counts.rows,
            languages=counts.documents_by_language,
            doc_types=counts.documents_by_type,
            modalities=[modality for modality in Modality if counts.rows_by_modality.get(modality)],
            suggestions=self._suggestions(),
            sources=sources[:_SOURCES_LISTED],
            presets=[_shown(preset) for preset in presets],
        )

    def ready(self) -> None:
        """Run one search; raise an ``InsetError`` where no version is live, or it can't be searched."""
        self.search(Query("ready", k=1))

    def close(self) -> None:
        """End the processes that draw pages, unless they are shared."""
        if self._owns_drawer:
            self._drawer.close()

    def _suggestions(self) -> list[str]:
        from evaluation.questions import load_questions

        if self._workspace.corpus.questions is None:
            return []
        questions = [question for question in load_questions(self._workspace.corpus.questions) if question.answerable]
        with_figures = [question.question for question in questions if question.figures]
        return with_figures[:: max(1, len(with_figures) // _SUGGESTIONS)][:_SUGGESTIONS]


def _shown(preset: Preset) -> SearchPreset:
    return SearchPreset(
        name=preset.name,
        label=preset.label,
        sentence=preset.sentence,
        source=preset.source,
        takes_picture=takes_pictures(preset),
    )


def open_published(
    name_or_path: str, drawer: PageDrawer | None = None, *, versions_open: int = VERSIONS_OPEN
) -> PublishedCorpus:
    """Open a published corpus by name or file; a ``drawer`` is shared with others."""
    return PublishedCorpus(open_workspace(name_or_path), drawer, versions_open=versions_open)
