"""Read a published corpus: search it, answer from it, show its files."""

import contextlib
import copy
import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from backends.models.pictures import receive
from backends.stores.objects import damage
from pipeline.corpus.answers import answer_preset_of, answers_of, lacking_for_answer
from pipeline.corpus.corpora import QuerySettings
from pipeline.corpus.presets import default_preset, preset_of, presets_of
from pipeline.corpus.prompts import find_answer_prompt
from pipeline.corpus.schedules import corpus_schedules
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.answering import AnswerPlan, answer_events
from pipeline.published.pinned import PinnedQuestions
from pipeline.published.readers import READERS_KEPT, ReaderVersion, RightsReader
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.feedback import add_feedback, write_asked
from pipeline.records.manifests import manifest_name
from pipeline.records.publication import list_versions, nothing_live, read_pointer, resolve_version
from schemas.access import Principals
from schemas.answers import AnswerEvent, AnswerFinished, AnswerPreset, AnswerPresetInfo, AnswerResult
from schemas.asked import AskedOfDay
from schemas.corpus import Corpus
from schemas.corpus.operations import OperationOptions
from schemas.errors import (
    BadInputError,
    InsetError,
    MissingError,
    NotFoundError,
    RequestError,
    TransientError,
    UnforeseenError,
    UserError,
)
from schemas.evidence import SearchResult
from schemas.feedback import Feedback, FeedbackRegion
from schemas.filters import Modality
from schemas.reports import CorpusOverview, SearchPreset, VersionList
from schemas.retrieval import AnswerQuery, Preset, PresetInfo, Query
from schemas.rights import Rights
from schemas.versions import Pointer
from tasks.answering.answer_presets import answer_preset_info, with_settings
from tasks.answering.compose import answer_prompts
from tasks.answering.confidence import NEARNESS
from tasks.answering.presets import changed, preset_info
from tasks.answering.retrieve import compares_pictures, takes_pictures
from tasks.answering.rewrite import with_synonyms
from tasks.answering.trace import Trace
from workers.draw_pages import PageDrawer

_logger = logging.getLogger("inset.query_service")

VERSIONS_OPEN = 4
"""Most open versions of a corpus: some 500 bytes a document, and a byte a row."""

Asked = TypeVar("Asked", Query, AnswerQuery)

_SOURCES_LISTED = 500


@dataclass
class _LastSeen:
    """What was last seen of a corpus: whether a version was live, and when documents were deleted from versions."""

    was_live: bool = False
    forgotten: datetime | None = None


class _Views:
    """An open version, and how readers see it by the rights that hold now. Thread-safe."""

    def __init__(self, whole: OpenVersion) -> None:
        self.whole = whole
        self._rights: Rights | None = None
        self._of_principals: Callable[[Principals], ReaderVersion]

    def of_reader(self, rights: Rights, principals: Principals) -> ReaderVersion:
        # Views by earlier rights go with them, since each keeps the rights of all documents in memory.
        if rights is not self._rights:
            self._of_principals = functools.lru_cache(READERS_KEPT)(functools.partial(ReaderVersion.of, self.whole, rights))
            self._rights = rights
        view = self._of_principals(principals)
        # Another thread may have brought other rights meanwhile.
        return view if view.rights is rights else ReaderVersion.of(self.whole, rights, principals)


class PublishedCorpus:
    """The published versions of one corpus. Thread-safe.

    ``version`` is the live one where None. Methods raise ``NotFoundError`` for what the version doesn't hold,
    ``RequestError`` for other mistakes of the caller, ``TransientError`` where the engine or the store doesn't answer or is
    damaged, and other ``UserError``s for mistakes in the configuration.

    A ``drawer`` that is given is shared and closed by whoever made it.
    It shows every document, whoever may see it; ``for_reader`` narrows it.
    """

    _principals: Principals | None = None

    def __init__(self, workspace: Workspace, drawer: PageDrawer | None = None) -> None:
        self._workspace = workspace
        self.drawer = drawer or PageDrawer()
        self._owns_drawer = drawer is None
        self._settings = QuerySettings(workspace.file, workspace.corpus)
        self._lock = threading.Lock()
        self._rights = RightsReader(workspace.store)
        self._open: OrderedDict[str, _Views] = OrderedDict()
        self._last_seen = _LastSeen()
        self._pinned = PinnedQuestions()

    def for_reader(self, principals: Principals | None) -> "PublishedCorpus":
        """Return the corpus as a reader with some principals sees it, if it limits its readers; None sees all.

        What a reader may not see isn't there: methods answer as if the documents weren't in the version.
        """
        corpus = copy.copy(self)
        corpus._principals = principals
        return corpus

    @property
    def has_rights(self) -> bool:
        """Whether the corpus file says who may read which document."""
        return self._settings().access is not None

    @property
    def is_limited(self) -> bool:
        """Whether it shows a reader only what the reader may see."""
        return self._principals is not None and self.has_rights

    @property
    def name(self) -> str:
        """The corpus's name."""
        return self._workspace.corpus.name

    @property
    def versions_open(self) -> int:
        """Versions that are open now."""
        return len(self._open)

    def live(self) -> Pointer | None:
        """Return the live version; None where this process has seen none.

        Raises:
            TransientError: A version was live before: the store is unavailable, or lost its pointer.
        """
        pointer = read_pointer(self._workspace.store)
        if pointer is None and self._last_seen.was_live:
            raise TransientError(
                f"corpus {self.name}: {self._workspace.store.root} has no live version any more; is the store away?"
            )
        self._last_seen.was_live = pointer is not None
        return pointer

    @contextlib.contextmanager
    def reading(self, version: str | None = None) -> Iterator[None]:
        """Translate errors of a damaged or unavailable store or index.

        Raises:
            NotFoundError: The version was removed meanwhile.
            TransientError: It can't be read now.
        """
        try:
            yield
        except (BadInputError, UserError):
            raise
        except (InsetError, OSError, RuntimeError, ValueError, pa.ArrowException) as error:
            if version is not None:
                with self._lock:
                    self._open.pop(version, None)  # opened again, it may be whole
                if self._is_gone(version):
                    raise NotFoundError(f"corpus {self.name}: there is no version {version} any more") from error
            if isinstance(error, TransientError):
                raise
            reason = error.message if isinstance(error, InsetError) else _reason(error)
            raise UnforeseenError(
                f"corpus {self.name} can't be read now: {reason}; to see what is wrong: inset doctor {self.name}"
            ) from error

    @contextlib.contextmanager
    def opened(self, requested: str | Pointer | None = None) -> Iterator[OpenVersion]:
        """Open a version, the live one where None, by ``resolve_version``; errors are translated as by ``reading``."""
        with self.reading():
            # Read even if a version is named: documents may have been deleted since it was opened.
            pointer = requested if isinstance(requested, Pointer) else self.live()
            self._let_go(pointer)
            if requested is None:
                requested = pointer
                if requested is None:
                    raise NotFoundError(nothing_live(self._workspace.store, self.name))
            elif isinstance(requested, str):
                requested = resolve_version(self._workspace.store, self.name, requested)
            reader = None if not self.is_limited else (self._rights(), self._principals or frozenset())
        version = requested.version if isinstance(requested, Pointer) else requested
        with self.reading(version):
            # A named version may have been removed while it was open here; the live one is never removed.
            if isinstance(requested, str) and ("/" in requested or self._is_gone(version)):
                raise NotFoundError(f"corpus {self.name}: there is no version {version}")
            if isinstance(requested, str) and self._workspace.is_taken(version):
                raise NotFoundError(
                    f"corpus {self.name}: the rows of {version} aren't in the index now; an operator brings them back by: "
                    f"inset rollback {self.name} {version} --prepare"
                )
            views = self._open_once(version)
            yield views.whole if reader is None else views.of_reader(*reader)

    def _is_gone(self, version: str) -> bool:
        with self.reading():
            if self._workspace.store.exists(manifest_name(version)):
                return False
            live = self.live()  # raises where the whole store is away
            # The live version is never removed: without a manifest it is damaged.
            if live is not None and live.version == version:
                raise self._no_manifest(version)
            return True

    def _let_go(self, pointer: Pointer | None) -> None:
        """Close all versions, and remove kept pictures, where documents were deleted since they were opened."""
        forgotten = pointer.forgotten if pointer is not None else None
        with self._lock:
            if forgotten != self._last_seen.forgotten:
                self._open.clear()
                # Kept pictures of pages may show documents that are deleted by now.
                if forgotten is not None:
                    self.drawer.clear()
                self._last_seen.forgotten = forgotten

    def _open_once(self, version: str) -> "_Views":
        with self._lock:
            # The lock is held while a version is opened, so that requests that come together open it once.
            if version not in self._open:
                if not self._workspace.store.exists(manifest_name(version)):
                    raise self._no_manifest(version)
                self._open[version] = _Views(open_version(self._workspace, version, self._settings))
            self._open.move_to_end(version)
            while len(self._open) > VERSIONS_OPEN:
                self._open.popitem(last=False)
            return self._open[version]

    def _no_manifest(self, version: str) -> MissingError:
        return damage(MissingError, self._workspace.store.root, manifest_name(version), "is missing")

    def versions(self) -> VersionList:
        """Return its versions, newest first."""
        with self.reading():
            self.live()
            versions = list_versions(self._workspace.store, self.name)
        # Numbers and refusals of a version tell of all its documents.
        hidden = {"documents": 0, "quarantined": 0, "rows": 0, "refusals": []} if self.is_limited else {}
        return versions.model_copy(update={"versions": [row.model_copy(update=hidden) for row in versions.versions]})

    def plan(self, query: Query | AnswerQuery) -> Preset:
        """Return the plan of a request; raise ``RequestError`` if the preset is unknown, or doesn't take the steps."""
        preset = query.preset
        if preset is None and isinstance(query, AnswerQuery):
            preset = query.settings.get("retrieval", answer_preset_of(self._settings(), query.answer).retrieval)
        return self._plan(preset, query.steps)

    def is_written(self, query: AnswerQuery) -> bool:
        """Return whether a generative model writes the answer."""
        return answer_preset_of(self._settings(), query.answer).model is not None

    def applicable(self, query: Asked) -> tuple[Asked, list[str]]:
        """Return a request without conditions on fields that the live version doesn't have, and their names."""
        if not query.filters.where:
            return query, []
        with self.opened() as opened:
            fields = opened.own_fields.types
        known_tests = {name: test for name, test in query.filters.where.items() if name in fields}
        ignored = [name for name in query.filters.where if name not in fields]
        return replace(query, filters=query.filters.model_copy(update={"where": known_tests})), ignored

    def search(
        self, query: Query, stopped: Callable[[], bool] = lambda: False, *, calibrated: bool = False
    ) -> SearchResult:
        """Return the best rows; ``calibrated`` as of ``OpenVersion.search``.

        A query with a picture and no preset uses the default preset, or else the first that takes pictures;
        ``RequestError`` names the settings if none does. Once ``stopped`` returns true, the next step raises ``Stopped``.
        """
        trace, plan = Trace(stopped=stopped), self._plan(query.preset, query.steps)
        if query.picture is not None:
            query = replace(query, picture=receive(query.picture))
        with contextlib.ExitStack() as reading:
            with trace.step("open"):
                opened = reading.enter_context(self.opened(query.version))
            if query.picture is not None and query.preset is None and not takes_pictures(plan):
                plan = self._plan(self._picture_preset(opened), query.steps)
            query = replace(query, query=self._with_synonyms(query.query, trace))
            return opened.search(query, plan, trace=trace, calibrated=calibrated)

    def answer(self, query: AnswerQuery) -> AnswerResult:
        """Return the result that ``answer_events`` ends with."""
        *_, last = self.answer_events(query)
        return cast(AnswerFinished, last).result

    def answer_events(self, query: AnswerQuery, stopped: Callable[[], bool] = lambda: False) -> Iterator[AnswerEvent]:
        """Yield an answer as it is written; the last event is the whole answer.

        Once ``stopped`` returns true, nobody waits for the answer any more: steps and calls of models end.
        """
        corpus = self._settings()
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
            setting = f"{self._workspace.file}: answer preset {preset.name}: prompt"
            prompt = find_answer_prompt(preset.prompt, self._workspace.file.parent, setting)
        picture, trace = None if query.picture is None else receive(query.picture), Trace(stopped=stopped)
        with contextlib.ExitStack() as reading:
            with trace.step("open"):
                opened = reading.enter_context(self.opened(query.version))
            plan = AnswerPlan(
                question=opened.question(self._with_synonyms(query.question, trace), picture, stopped),
                preset=preset,
                retrieval=self._plan(query.preset or preset.retrieval, query.steps),
                fallback=self._plan(query.preset, query.steps),
                prompt=prompt,
                filters=query.filters,
                history=query.history,
                is_traced=query.trace,
            )
            yield from self._pinned.events(opened, corpus.answers, query, preset.name) or answer_events(opened, plan, trace)

    @property
    def operations(self) -> OperationOptions:
        """What the corpus file says of its operation."""
        return self._settings().operations

    def add_feedback(
        self,
        version: str | None,
        evidence_ids: Sequence[str],
        figure_ids: Sequence[str],
        *,
        by: str | None,
        **entry_fields: Any,
    ) -> str | None:
        """Store what a reader says of an answer, the fields of ``Feedback``; return its id, None where a version has too many.

        Raises ``NotFoundError`` for rows and figures that the reader may not see.
        """
        with self.opened(version) as opened:
            regions = _regions(opened, evidence_ids, figure_ids)
            caller = by if self.operations.feedback_names else None
            entry = Feedback(at=datetime.now(UTC), version=opened.version, regions=regions, by=caller, **entry_fields)
            return add_feedback(self._workspace.store, entry)

    def keep_asked(self, process: str, asked_of_day: AskedOfDay) -> None:
        """Store what a process has counted of a day, with the vectors of unanswered questions."""
        with self.opened(asked_of_day.version) as opened:
            questions = [
                question.model_copy(
                    update={"vector": opened.question(question.text).vector(NEARNESS.name).round(4).tolist()}
                )
                for question in asked_of_day.unanswered
            ]
            write_asked(self._workspace.store, process, asked_of_day.model_copy(update={"unanswered": questions}))

    def answer_presets(self, version: str | None = None) -> list[AnswerPresetInfo]:
        """Return all answer presets, the default first, with what the corpus file or the version lacks for each."""
        corpus = self._settings()
        default = answer_preset_of(corpus, None)
        with self.opened(version) as opened:
            presets = [default, *(preset for name, preset in answers_of(corpus).items() if name != default.name)]
            return [self._answer_info(preset, corpus, opened) for preset in presets]

    def _answer_info(self, preset: AnswerPreset, corpus: Corpus, opened: OpenVersion) -> AnswerPresetInfo:
        plan = self._plan(preset.retrieval, {})
        needs = preset_info(plan).needs if preset.context == "retrieved" else []
        missing = opened.lacks(plan) if preset.context == "retrieved" else []
        if preset.model is not None:
            needs = [*needs, f"a model {preset.model} that writes"]
            missing = [
                *missing,
                *(f"{need} (set {setting})" for need, setting in lacking_for_answer(preset, corpus).items()),
            ]
        return answer_preset_info(preset, needs, missing)

    def presets(self, version: str | None = None) -> list[PresetInfo]:
        """Return all retrieval presets, the default first, with what the version lacks for each."""
        with self.opened(version) as opened:
            return [preset_info(preset, opened.lacks(preset)) for preset in self._presets()]

    def _presets(self) -> list[Preset]:
        options = self._settings().retrieval
        default = default_preset(options)
        return [default, *(preset for preset in presets_of(options).values() if preset.name != default.name)]

    def _plan(self, preset: str | None, steps: Mapping[str, Any]) -> Preset:
        options = self._settings().retrieval
        plan = preset_of(options, preset) if preset else default_preset(options)
        return changed(plan, steps) if steps else plan

    def _with_synonyms(self, question: str, trace: Trace) -> str:
        synonyms = self._settings().retrieval.synonyms
        if not question or (expanded := with_synonyms(question, synonyms)) == question:
            return question
        with trace.step("synonyms", question) as record:
            record.note = f"read as: {expanded}"
        return expanded

    def _picture_preset(self, opened: OpenVersion) -> str:
        picture_presets = [preset for preset in self._presets() if takes_pictures(preset) and not opened.lacks(preset)]
        if not picture_presets:
            raise RequestError(
                "this version can't be searched by a picture: name a model of pictures as embeddings.image in the corpus file "
                "and refresh, or a vision-language model that describes the picture as models.vlm"
            )
        # A description takes a call of a generative model, and says less than what it describes.
        return min(picture_presets, key=lambda preset: not compares_pictures(preset)).name

    def overview(self) -> CorpusOverview:
        """Return a summary of the live version."""
        with self.reading():
            pointer = self.live()
            if pointer is None:
                return CorpusOverview(name=self.name, problem=nothing_live(self._workspace.store, self.name))
        with self.opened(pointer) as opened:
            counts, facets = opened.shown_counts, opened.own_fields.facets(opened.are_visible)
            sources = sorted(source for names in opened.sources.values() for source in names)
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
            fields=facets,
            modalities=[modality for modality in Modality if counts.rows_by_modality.get(modality)],
            sources=sources[:_SOURCES_LISTED],
            presets=[
                SearchPreset(
                    **preset.model_dump(include={"name", "label", "sentence", "source"}),
                    takes_picture=takes_pictures(preset),
                )
                for preset in presets
            ],
        )

    def ready(self) -> None:
        """Run one search; raise an ``InsetError`` if no version is live, or it or the rights can't be read."""
        if self.has_rights:
            with self.reading():
                self._rights()
        self.search(Query("ready", k=1))

    def close(self) -> None:
        """End the processes that draw pages, unless they are shared."""
        if self._owns_drawer:
            self.drawer.close()


def _regions(opened: OpenVersion, evidence_ids: Sequence[str], figure_ids: Sequence[str]) -> list[FeedbackRegion]:
    """Return the regions of rows and figures; a figure's is in a document of the rows where it stands in one.

    Raises ``NotFoundError`` where the version, as its reader sees it, has no such row or figure.
    """
    rows = {str(row["evidence_id"]): row for row in opened.index.fetch(list(dict.fromkeys(evidence_ids)))}
    named_rows: list[tuple[str, Mapping[str, Any]]] = []
    for evidence_id in evidence_ids:
        if evidence_id not in rows:
            raise NotFoundError(f"{opened.name} has no row {evidence_id}")
        named_rows.append(("evidence_id", rows[evidence_id]))
    doc_ids, placed = {row["doc_id"] for _, row in named_rows}, opened.placed_figures
    for figure_id in figure_ids:
        placements = placed.filter(pc.equal(placed.column("figure_id"), pa.scalar(figure_id))).to_pylist()
        if not placements:
            raise NotFoundError(f"{opened.name} has no figure {figure_id}")
        named_rows.append(("figure_id", min(placements, key=lambda placement: placement["doc_id"] not in doc_ids)))
    return [
        FeedbackRegion(
            **{field: row[field] for field in ("doc_id", "page", "bbox", name)}, source=opened.sources[row["doc_id"]][0]
        )
        for name, row in named_rows
    ]


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__


def open_published(name_or_path: str, drawer: PageDrawer | None = None) -> PublishedCorpus:
    """Open a published corpus by name or file; a ``drawer`` is shared with others."""
    return PublishedCorpus(open_workspace(name_or_path), drawer)


def every_published(drawer: PageDrawer) -> Iterator[PublishedCorpus]:
    """Open the corpora of the corpora folder; those with a wrong file are left out and logged."""
    for scheduled in corpus_schedules(notifiers=False):
        problem = scheduled.problem
        if not problem:
            try:
                yield open_published(str(scheduled.file), drawer)
            except UserError as error:
                problem = error.message
        for line in problem.splitlines():
            _logger.error("not served: %s", line)
