"""The judging page: a row at a time beside its page in the PDF, or an answer with its figures in place.

A judgement is appended to the person's file at once.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field, StringConstraints
from starlette.requests import Request

from evaluation.questions import read_records
from lab.outcomes import figures_in
from lab.pooling import Candidate, Correction, Judgement, corrections_file, judgements_file
from pipeline.published.corpus import PublishedCorpus
from query_service.guard import LOOPBACK, TrustedHosts
from schemas.errors import BadInputError, InsetError, NotFoundError

_WEB = Path(__file__).parent / "web"
_DPI = 90


class GradeRequest(BaseModel):
    """A person's judgement of the row at a place of the pool."""

    place: int = Field(ge=0)
    grade: int = Field(ge=0, le=1)


class CorrectionRequest(BaseModel):
    """A person's words for the question of the row at a place of the pool, and its answer."""

    place: int = Field(ge=0)
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)]


class _Judging:
    """What one person judged and corrected, kept in two files."""

    def __init__(self, pooled: Path, person: str) -> None:
        self._person, self._lock = person, threading.Lock()
        self._judgements_file, self._corrections_file = judgements_file(pooled, person), corrections_file(pooled, person)
        judgements = read_records(self._judgements_file, Judgement, "judgements") if self._judgements_file.exists() else []
        corrections = (
            read_records(self._corrections_file, Correction, "corrections") if self._corrections_file.exists() else []
        )
        self.grades = {record.row: record.grade for record in judgements}
        self.texts = {record.question_id: (record.question, record.answer) for record in corrections}

    def grade(self, candidate: Candidate, grade: int) -> None:
        question_id, evidence_id = candidate.row
        with self._lock:
            _append(
                self._judgements_file,
                Judgement(question_id=question_id, evidence_id=evidence_id, by=self._person, grade=grade),
            )
            self.grades[candidate.row] = grade

    def correct(self, candidate: Candidate, question: str, answer: str | None) -> None:
        with self._lock:
            _append(
                self._corrections_file,
                Correction(question_id=candidate.question_id, question=question, answer=answer, by=self._person),
            )
            self.texts[candidate.question_id] = question, answer


def _append(file: Path, row: Judgement | Correction) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(f"{row.model_dump_json()}\n")


def create_judging_app(corpus: PublishedCorpus, pooled: Path, person: str) -> FastAPI:
    """Return the page of one person, whose judgements go to a file beside the pool; raises ``UserError`` if one can't be read."""
    candidates: Sequence[Candidate] = read_records(pooled, Candidate, "rows")
    judging = _Judging(pooled, person)
    app = FastAPI(openapi_url=None)

    @app.exception_handler(InsetError)
    def failed(_request: Request, error: InsetError) -> Response:
        return JSONResponse({"detail": error.message}, status_code=422 if isinstance(error, BadInputError) else 404)

    @app.get("/rows/{place}")
    def row(place: int) -> dict[str, Any]:
        """Return a row; -1 is the first without a judgement, or the last row."""
        unjudged = (index for index, candidate in enumerate(candidates) if candidate.row not in judging.grades)
        index = next(unjudged, len(candidates) - 1) if place < 0 else min(place, len(candidates) - 1)
        candidate = candidates[index]
        fields = candidate.model_dump(mode="json", exclude={"ranks"})  # who found it would sway the judgement
        question, answer = judging.texts.get(candidate.question_id, (candidate.question, candidate.answer))
        fields |= {"question": question, "answer": answer}
        grade = judging.grades.get(candidate.row)
        counts = {"rows": len(candidates), "judged": len(judging.grades), "person": person}
        return {"place": index, "grade": grade, "pages": candidate.pages, **counts, **fields}

    @app.get("/rows/{place}/pages/{page}.png")
    def page_image(place: int, page: int) -> Response:
        candidate = _candidate_at(candidates, place)
        boxes = [region.bbox for region in candidate.regions if region.page == page]
        with corpus.opened(candidate.version) as opened:
            picture = corpus.drawer.draw(opened.drawing(candidate.doc_id, page, boxes, _DPI))
        return Response(picture, media_type="image/png")

    @app.get("/rows/{place}/figures/{figure_id}")
    def figure_image(place: int, figure_id: str) -> Response:
        candidate = _candidate_at(candidates, place)
        if figure_id not in figures_in(candidate.parts):
            raise NotFoundError(f"the answer of row {place} shows no figure {figure_id}")
        with corpus.opened(candidate.version) as opened:
            return Response(opened.figure(figure_id), media_type="image/png")

    @app.post("/grades")
    def grade(request: GradeRequest) -> dict[str, int]:
        judging.grade(_candidate_at(candidates, request.place), request.grade)
        return {"judged": len(judging.grades)}

    @app.post("/corrections")
    def correct(request: CorrectionRequest) -> dict[str, int]:
        judging.correct(_candidate_at(candidates, request.place), request.question, request.answer or None)
        return {"corrected": len(judging.texts)}

    app.mount("/", StaticFiles(directory=_WEB, html=True))
    app.add_middleware(TrustedHosts, names=[*LOOPBACK])
    return app


def _candidate_at(candidates: Sequence[Candidate], row_number: int) -> Candidate:
    if not 0 <= row_number < len(candidates):
        raise NotFoundError(f"the pool has {len(candidates)} rows, and no row {row_number}")
    return candidates[row_number]
