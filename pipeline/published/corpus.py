"""The read side of a corpus: what is live, searched, answered and shown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from backends.models.pictures import receive
from pipeline.corpus.answers import answer_preset_of, answers_of, lacking_for_answer
from pipeline.corpus.presets import default_preset, preset_of, presets_of
from pipeline.corpus.prompts import find_answer_prompt
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.answering import Question, answer_events
from pipeline.published.files import PublishedFiles
from pipeline.published.version import OpenVersion
from pipeline.published.versions import OpenVersions
from pipeline.records.looks import Looks
from pipeline.records.publication import list_versions
from ray_jobs.draw_pages import PageDrawer
from schemas.answer_presets import AnswerPreset, AnswerPresetInfo
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult
from schemas.corpus import Corpus
from schemas.errors import RequestError, TransientError
from schemas.evidence import NO_FILTERS, Filters, Modality, Resemblance, SearchResult, SimilarFigures
from schemas.overview import CorpusOverview, SearchPreset
from schemas.progress import Report, silent
from schemas.retrieval import Preset, PresetInfo
from schemas.versions import VersionList
from tasks.answering.answer_presets import answer_preset_info, with_settings
from tasks.answering.compose import answer_prompts
from tasks.answering.group import GroupBy
from tasks.answering.presets import NO_CHANGES, changed, preset_info
from tasks.answering.retrieve import compares_pictures, takes_pictures

K = 10
"""Hits of those who ask for no number, by a preset that names none."""

LOOKING_S = 3.0
"""How long somebody who asks for look-alikes waits, where hashes are still to be computed."""

QUERIES_AT_ONCE = 256

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
        self._looks = Looks(workspace.store)
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

        A picture without a preset is searched by the first preset that looks at pictures and of which the version lacks nothing,
        unless the default does.

        Raises:
            RequestError: No preset that the version can be searched by takes a picture; the message names the settings.
        """
        plan = self._plan(preset, steps)
        seen = None if picture is None else receive(picture)
        with self._versions.opened(version) as opened:
            if seen is not None and preset is None and not takes_pictures(plan):
                plan = self._plan(self._for_pictures(opened), steps)
            asked, most = opened.question(query, seen), k or plan.select.k or K
            return opened.search(
                asked,
                plan,
                k=most,
                offset=offset,
                filters=filters,
                group_by=group_by,
                highlight=highlight,
                traced=trace,
            )

    def similar(
        self,
        figure_id: str,
        *,
        by: Resemblance = "vector",
        k: int | None = None,
        version: str | None = None,
        wait_s: float = LOOKING_S,
        report: Report = silent,
    ) -> SimilarFigures:
        """Return the ``k`` figures most like one, of the live version or of ``version``.

        Of a version whose figures nobody compared before, hashes are computed, for ``wait_s`` seconds at most before
        ``TransientError`` says how far that is; ``report`` is called meanwhile.
        """
        with self._versions.opened(version) as opened:
            if by == "vector":
                return opened.similar(figure_id, k=k or K)
            figures, version = opened.comparable(figure_id), opened.version
        with self._versions.reading():
            hashes = self._looks.of(figures, wait_s=wait_s, report=report)
        if figure_id not in hashes:
            raise TransientError(
                f"corpus {self.name}: the store can't give figure {figure_id}; to see why: inset doctor {self.name}"
            )
        with self._versions.opened(version) as opened:
            return opened.look_alikes(figure_id, hashes, k=k or K)

    def search_each(
        self,
        queries: Sequence[tuple[str, Filters]],
        *,
        preset: str | None = None,
        steps: Mapping[str, Any] = NO_CHANGES,
        k: int,
        version: str | None = None,
    ) -> Iterator[SearchResult]:
        """Yield the best ``k`` rows for each query, all of one version: the live one, or ``version``.

        Queries are embedded together, some hundred at once.
        """
        plan = self._plan(preset, steps)
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            some = queries[start : start + QUERIES_AT_ONCE]
            with self._versions.opened(version) as opened:
                version = opened.version  # whatever is published meanwhile
                found = zip(opened.questions([query for query, _ in some], plan), some, strict=True)
                for asked, (_, filters) in found:
                    yield opened.search(asked, plan, k=k, filters=filters)

    def answer(self, question: str, **options: Any) -> AnswerResult:
        """Answer from one version: the result that ``answer_events`` ends with; arguments and errors as there."""
        *_, last = self.answer_events(question, **options)
        return cast(AnswerFinished, last).result

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
            preset: The retrieval preset; that of the answer preset, or else the corpus's default, where None.
            steps: Steps of the retrieval preset that are overridden.
            picture: An encoded picture that goes with the question, for retrieval presets that look at pictures.
            filters: What the answer is narrowed to.
            version: Which; the live one where None.
            trace: Whether the result has what each step did.
            stopped: Whether nobody waits any more: then calls of models end.
        """
        corpus = self._versions.asked()
        how = answer_preset_of(corpus.answer, answer)
        if settings.get("prompt", how.prompt) not in (
            how.prompt,
            *answer_prompts(),
        ):  # a path would read files of this machine
            raise RequestError(
                f"there is no prompt {settings['prompt']!r}; a request names a packaged one: {', '.join(answer_prompts())}"
            )
        how = with_settings(how, settings) if settings else how
        if absent := lacking_for_answer(how, corpus):
            raise RequestError(
                f"answer preset {how.name} needs {', '.join(absent)}; set {', '.join(absent.values())} in the corpus file, "
                "or use another answer preset"
            )
        prompt = None
        if how.model is not None:
            setting = f"{self._workspace.file}: answer.prompt"
            prompt = find_answer_prompt(how.prompt, self._workspace.file.parent, setting)
        seen = None if picture is None else receive(picture)
        with self._versions.opened(version) as opened:
            asked = Question(
                asked=opened.question(question, seen),
                preset=how,
                plan=self._plan(preset or how.retrieval, steps),
                fallback=self._plan(preset, steps),
                prompt=prompt,
                filters=filters,
            )
            yield from answer_events(opened, asked, traced=trace, stopped=stopped)

    def answer_presets(self, version: str | None = None) -> list[AnswerPresetInfo]:
        """Return every way to answer, the default first, and what the corpus file or the version lacks for it."""
        corpus = self._versions.asked()
        default = answer_preset_of(corpus.answer, None)
        with self._versions.opened(version) as opened:
            known = [default, *(one for name, one in answers_of(corpus.answer).items() if name != default.name)]
            return [self._answer_info(one, corpus, opened) for one in known]

    def _answer_info(self, how: AnswerPreset, corpus: Corpus, opened: OpenVersion) -> AnswerPresetInfo:
        plan = self._plan(how.retrieval, NO_CHANGES)
        needs = preset_info(plan).needs if how.context == "retrieved" else []
        missing = opened.lacks(plan) if how.context == "retrieved" else []
        if how.model is not None:
            needs = [*needs, f"a model {how.model} that writes"]
            missing = [*missing, *(f"{what} (set {setting})" for what, setting in lacking_for_answer(how, corpus).items())]
        return answer_preset_info(how, needs, missing)

    def presets(self, version: str | None = None) -> list[PresetInfo]:
        """Return every way to search, the default first, and what the live version or ``version`` lacks for it."""
        with self._versions.opened(version) as opened:
            return [preset_info(preset, opened.lacks(preset)) for preset in self._presets()]

    def _presets(self) -> list[Preset]:
        """Return all presets, the corpus's default first."""
        options = self._versions.asked().retrieval
        default = default_preset(options)
        return [default, *(preset for preset in presets_of(options).values() if preset.name != default.name)]

    def _plan(self, preset: str | None, steps: Mapping[str, Any]) -> Preset:
        options = self._versions.asked().retrieval
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
        """Return what its live version holds."""
        with self._versions.reading():
            pointer = self._versions.live()
        if pointer is None:
            return CorpusOverview(name=self.name, problem=self._versions.nothing_live)
        with self._versions.opened(pointer) as opened:
            counts = opened.counts
            sources = sorted(source for named in opened.sources.values() for source in named)
            presets = [preset for preset in self._presets() if not opened.lacks(preset)]
        return CorpusOverview(
            name=self.name,
            version=pointer.version,
            since=pointer.since,
            documents=counts.documents,
            pages=counts.pages,
            figures=counts.figures,
            rows=counts.rows,
            languages=counts.documents_by_language,
            modalities=[modality for modality in Modality if counts.rows_by_modality.get(modality)],
            suggestions=self._suggestions(),
            sources=sources[:_SOURCES_LISTED],
            presets=[_shown(preset) for preset in presets],
        )

    def ready(self) -> None:
        """Raise where no version is live, or where it can't be searched: one question is put to it."""
        with self._versions.opened(None) as opened:
            plan = default_preset(self._versions.asked().retrieval)
            opened.search(opened.question("ready"), plan, k=1, filters=NO_FILTERS)

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


def _shown(preset: Preset) -> SearchPreset:
    return SearchPreset(
        name=preset.name,
        label=preset.label,
        sentence=preset.sentence,
        source=preset.source,
        takes_picture=takes_pictures(preset),
    )


def open_published(name_or_path: str, drawer: PageDrawer | None = None) -> PublishedCorpus:
    """Open the read side of a corpus by name or file; ``drawer`` draws its pages, and is shared with others."""
    return PublishedCorpus(open_workspace(name_or_path), drawer)
