"""A published corpus without an index: it records calls and returns fixed replies."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from pipeline.published.contents import Contents
from pipeline.published.corpus import PublishedCorpus
from pipeline.published.version import OpenVersion
from schemas.answers import (
    AnswerEvent,
    AnswerFinished,
    AnswerPresetInfo,
    AnswerResult,
    AnswerStarted,
    Citation,
    FigurePart,
    Part,
    PartFinished,
    TablePart,
    TextPart,
)
from schemas.corpus.operations import OperationOptions
from schemas.documents import Role
from schemas.errors import (
    BadInputError,
    FailureCode,
    NotFoundError,
    RequestError,
    TransientError,
    UnforeseenError,
    UserError,
)
from schemas.evidence import CitedFigure, CitedRegion, Hit, SearchResult
from schemas.filters import Modality
from schemas.geometry import Box
from schemas.reports import (
    CorpusOverview,
    DocumentInfo,
    FigureContext,
    Listing,
    ListPart,
    OutlineSection,
    SearchPreset,
    VersionList,
    VersionRow,
)
from schemas.retrieval import AnswerQuery, Preset, PresetInfo, Query
from schemas.text import fenced
from schemas.versions import Pointer
from tasks.answering.answer_presets import answer_preset_info, packaged_answers
from tasks.answering.presets import changed, packaged, preset_info
from workers.draw_pages import Drawing, PageDrawer

LIVE = "20260301T061502Z-1a2b3c4d"
DOC_ID = "d0" * 32
FIGURE_ID = "f1" * 32
FILE_NAME = 'pümp "7"\r\nX-Evil: 1.pdf'

HIT = Hit(
    evidence_id="e1",
    score=0.5,
    modality=Modality.TEXT,
    doc_id=DOC_ID,
    source="manuals/pump.pdf",
    page=3,
    bbox=(1.0, 2.0, 3.0, 4.0),
    regions=[CitedRegion(page=3, bbox=(1.0, 2.0, 3.0, 4.0)), CitedRegion(page=4, bbox=(1.0, 2.0, 3.0, 4.0))],
    section_path=["Service"],
    text="<b>Turn</b> the valve.",
    tagged_text="<b>Turn</b> the valve. <image:12345678.png>",
    figure_refs=[FIGURE_ID],
    figures=[CitedFigure(figure_id=FIGURE_ID, number="12345678", caption="Figure 1", page=4, bbox=(5.0, 6.0, 7.0, 8.0))],
    caption="",
    tagged_pdf=True,
)
OTHER_ID = "f2" * 32
LIKE = HIT.model_copy(
    update={
        "evidence_id": "e2",
        "modality": Modality.FIGURE,
        "figure_id": OTHER_ID,
        "figure_refs": [OTHER_ID],
        "figures": [
            CitedFigure(figure_id=OTHER_ID, number="87654321", caption="Figure <2>", page=5, bbox=(5.0, 6.0, 7.0, 8.0))
        ],
    }
)
CITATION = Citation(
    n=1,
    evidence_id="e1",
    source=HIT.source,
    page=3,
    bbox=HIT.bbox,
    doc_id=DOC_ID,
    section_path=HIT.section_path,
    regions=HIT.regions,
    tagged_pdf=True,
)


def client_of(app: FastAPI) -> TestClient:
    """Return a client that calls the service by a name of loopback."""
    return TestClient(app, base_url="http://localhost")


class Released:
    """Events of an answer that wait for ``release``, one at a time; ``has_stopped`` is set where the client leaves first."""

    def __init__(self, *events: AnswerEvent | Exception) -> None:
        self._events = events
        self._released = threading.Semaphore(0)
        self.has_stopped = threading.Event()

    def release(self) -> None:
        self._released.release()

    def __call__(self, stopped: Callable[[], bool]) -> Iterator[AnswerEvent]:
        for event in self._events:
            while not self._released.acquire(timeout=0.01):
                if stopped():
                    self.has_stopped.set()
                    return
            if isinstance(event, Exception):
                raise event
            yield event


class FakeDrawer(PageDrawer):
    """Draws every page alike, but 7 (it fails), 8 (too many wait) and 9 (never drawn)."""

    def __init__(self) -> None:
        self.has_stopped = threading.Event()

    def draw(self, drawing: Drawing, stopped: Callable[[], bool] = lambda: False) -> bytes:
        match drawing.page:
            case 7:
                raise BadInputError("page 7 can't be drawn", FailureCode.PAGE_UNREADABLE, 7)
            case 8:
                raise TransientError("too many pages are waiting")
            case 9:
                while not stopped():
                    time.sleep(0.01)
                self.has_stopped.set()
        return b"page"


class FakeContents(Contents):
    def __init__(self, version: str) -> None:
        self.version = version

    def document(self, doc_id: str) -> DocumentInfo:
        if doc_id != DOC_ID:
            raise NotFoundError(f"there is no document {doc_id}")
        return DocumentInfo(version=self.version, doc_id=doc_id, sources=[HIT.source], pages=4)

    def outline(self, part: ListPart, doc_id: str) -> Listing[OutlineSection]:
        section = OutlineSection(path=["Service"], title="Service", level=1, page=3, rows=1)
        return Listing(version=self.version, total=1, items=[section])

    def context(self, part: ListPart, figure_id: str, *, around: int = 2) -> Listing[FigureContext]:
        placement = FigureContext(
            **HIT.figures[0].model_dump(),
            role=Role.CONTENT,
            doc_id=DOC_ID,
            source=HIT.source,
            width=10,
            height=10,
            row=None,
            before=[],
            after=[],
        )
        return Listing(version=self.version, total=1, items=[placement])


class FakeVersion(OpenVersion):
    """The live version, or the one that is named."""

    def __init__(self, corpus: "FakeCorpus", named: str | None) -> None:
        version = named or LIVE
        self.__dict__ |= {"version": version, "contents": FakeContents(version), "corpus": corpus, "named": named}

    def _record(self, **call: object) -> None:
        self.__dict__["corpus"].calls.append({**call, "version": self.__dict__["named"]})

    def figure(self, figure_id: str) -> bytes:
        self._record(figure=figure_id)
        if figure_id not in (FIGURE_ID, OTHER_ID):
            raise NotFoundError(f"there is no figure {figure_id}")
        return bytes(self.__dict__["corpus"].pixels)

    def drawing(self, doc_id: str, page: int, highlight: Sequence[Box] = (), dpi: int = 110) -> Drawing:
        self._record(doc_id=doc_id, page=page, highlight=list(highlight), dpi=dpi)
        return Drawing("store", doc_id, page)

    def document(self, doc_id: str) -> tuple[bytes, str]:
        self._record(doc_id=doc_id)
        return b"%PDF-1.7", FILE_NAME

    def original(self, doc_id: str) -> tuple[bytes, str]:
        self._record(original=doc_id)
        return b"PK", FILE_NAME

    def tagged_document(self, doc_id: str) -> tuple[bytes, str]:
        self._record(tagged=doc_id)
        if doc_id != DOC_ID:
            raise NotFoundError("the corpus keeps no tagged copies")
        return b"%PDF-1.7 tagged", "pump.tagged.pdf"


class FakeCorpus(PublishedCorpus):
    has_rights = False
    operations = OperationOptions()

    def __init__(
        self,
        name: str,
        live: bool = True,
        tagged: bool = True,
        table: bool = False,
        text: str = "",
        labels: Sequence[str | None] = (),
    ) -> None:
        self._name = name
        self._live = live
        regions = [
            region.model_copy(update={"label": label})
            for region, label in zip(HIT.regions, labels or (None, None), strict=True)
        ]
        self._tagged = {"tagged_pdf": tagged, "regions": regions}
        self._table = table
        self._text = text
        self.code = ""
        self.rows = [["Key", "Does | says"], ["7", "<i>turns</i>"]]
        self.drawer: FakeDrawer = FakeDrawer()
        self.calls: list[dict[str, object]] = []
        self.pixels = b"pixels"
        self.queries: list[Query] = []
        self.stops: list[Callable[[], bool]] = []
        self.answer_queries: list[AnswerQuery] = []
        self.languages: dict[str, int] = {}
        self.doc_types: dict[str, int] = {}
        self.search_presets: list[SearchPreset] = []
        self.streams: dict[str, Callable[[Callable[[], bool]], Iterator[AnswerEvent]]] = {}
        self.lacking: list[str] = []
        self.older: list[str] = []
        self.documents = 1
        self.feedback: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def versions_open(self) -> int:
        return 1

    @contextlib.contextmanager
    def opened(self, wanted: str | Pointer | None = None) -> Iterator[OpenVersion]:
        assert not isinstance(wanted, Pointer)
        yield FakeVersion(self, wanted)

    def add_feedback(
        self, version: str | None, evidence_ids: Sequence[str], figure_ids: Sequence[str], *, by: str | None, **said: Any
    ) -> str | None:
        self.feedback.append({"version": version, "figure_ids": [*figure_ids], "by": by, **said})
        return "1a2b3c4d"

    def versions(self) -> VersionList:
        row = VersionRow(
            version=LIVE,
            state="live",
            created=datetime(2026, 3, 1, tzinfo=UTC),
            parent=None,
            documents=1,
            quarantined=0,
            rows=1,
        )
        older = [row.model_copy(update={"version": version, "state": "ready"}) for version in self.older]
        return VersionList(corpus=self._name, live=LIVE, held=False, versions=[row, *older])

    def plan(self, query: Query | AnswerQuery) -> Preset:
        presets = packaged()
        return changed(presets.get(query.preset or "", presets["hybrid"]), query.steps)

    def is_written(self, query: AnswerQuery) -> bool:
        return query.answer == "generated"

    def search(
        self, query: Query, stopped: Callable[[], bool] = lambda: False, *, calibrated: bool = False
    ) -> SearchResult:
        self.queries.append(query)
        self.stops.append(stopped)
        match query.query:
            case "busy":
                raise TransientError("the index does not answer")
            case "secret address":
                raise TransientError("http://bob:hunter2@index.example:8080/?key=hunter2 and s3://bucket/a@b do not answer")
            case "unforeseen":
                raise UnforeseenError("the corpus can't be read now") from RuntimeError("a cause")
            case "mistake":
                raise RequestError("no document of this version", "is named 'x.pdf'")
            case "misconfigured":
                raise UserError("index.api_key_env names KEY, which is not set")
            case "bug":
                raise ZeroDivisionError("a secret")
        cells = {"rows": self.rows} if self._table else {}
        hit = HIT.model_copy(update=self._tagged | cells)
        if self._text:
            # Stars surround the match; the nearest sentence ends with it.
            before, match, after = self._text.split("*")
            hit = hit.model_copy(
                update={
                    "text": before + match + after,
                    "tagged_text": (before + match + after).replace(self.code, fenced(self.code)) if self.code else "",
                    "highlights": [(len(before), len(before + match))],
                    "nearest_sentence": (0, len(before + match)) if query.highlight else None,
                    "more": 2 if query.group else 0,
                }
            )
        takes = [preset.name for preset in self.search_presets if preset.takes_picture == (query.picture is not None)]
        if self.search_presets and not takes:
            raise RequestError("this version can't be searched by a picture: name a model of pictures as embeddings.image")
        return SearchResult(version=query.version or LIVE, preset=query.preset or next(iter(takes), "hybrid"), hits=[hit])

    def answer_events(self, query: AnswerQuery, stopped: Callable[[], bool] = lambda: False) -> Iterator[AnswerEvent]:
        self.answer_queries.append(query)
        if query.version not in {None, LIVE, *self.older}:
            raise NotFoundError(f"there is no version {query.version}")
        if query.question in self.streams:
            yield from self.streams[query.question](stopped)
            return
        figure = FigurePart(
            figure_id=FIGURE_ID,
            tag="<image:12345678.png>",
            caption="Figure 1",
            page=4,
            bbox=(5.0, 6.0, 7.0, 8.0),
            citations=[1],
        )
        parts: list[Part] = [TextPart(text="Turn the valve.", citations=[1])]
        if self._table:
            rows = [["Key", "Does"], ["Press <image:12345678.png> twice", "<b>runs</b>"]]
            parts.append(TablePart(rows=rows, figures=[figure], citations=[1]))
        else:
            parts.append(figure)
        citations = [CITATION.model_copy(update=self._tagged)]
        yield AnswerStarted(version=LIVE, preset="extractive", citations=citations)
        yield from (PartFinished(part=number, value=part) for number, part in enumerate(parts))
        yield AnswerFinished(result=AnswerResult(version=LIVE, abstained=False, parts=parts, citations=citations))

    def answer_presets(self, version: str | None = None) -> list[AnswerPresetInfo]:
        return [
            answer_preset_info(preset, [], self.lacking if preset.model else []) for preset in packaged_answers().values()
        ]

    def presets(self, version: str | None = None) -> list[PresetInfo]:
        return [preset_info(preset) for preset in packaged().values()]

    def overview(self) -> CorpusOverview:
        if not self._live:
            raise UserError("nothing is published yet")
        return CorpusOverview(
            name=self._name,
            version=LIVE,
            since=datetime(2026, 3, 1, tzinfo=UTC),
            documents=self.documents,
            languages=self.languages,
            doc_types=self.doc_types,
            presets=self.search_presets,
        )

    def ready(self) -> None:
        if not self._live:
            raise UserError("nothing is published yet;", "run: inset refresh")
