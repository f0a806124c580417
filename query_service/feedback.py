"""The route by which readers say whether an answer helped, and what is wrong with it."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from query_service.access import caller_of, too_many
from query_service.requests import (
    A_VERSION,
    DIGEST,
    QUESTION_ERRORS,
    Corpus,
    PresetName,
    Question,
    VersionName,
    example,
)
from query_service.telemetry import metrics_of
from schemas.feedback import Reason
from schemas.filters import EvidenceId
from schemas.ids import sha256

PER_MINUTE = 30
"""Entries that a key, user or address may send in a minute: a person writes fewer."""

MOST_REGIONS = 50
"""Rows, and figures, that an entry may name."""

COMMENT_LIMIT = 1000
"""Maximum characters of a comment."""

router = APIRouter(prefix="/v1/corpora/{corpus}", responses=QUESTION_ERRORS, tags=["questions"])


class FeedbackRequest(BaseModel):
    """What a reader says of an answer."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "question": "How is the oil filter replaced?",
                    "helpful": False,
                    "reason": "wrong_figure",
                    "version": A_VERSION,
                }
            ]
        },
    )

    question: Question
    helpful: bool = Field(strict=True, description="Thumbs up, or down.")
    reason: Reason | None = Field(None, description="What is wrong.")
    comment: Annotated[str, StringConstraints(max_length=COMMENT_LIMIT), AfterValidator(str.strip)] = Field(
        "", description="In the reader's own words."
    )
    version: VersionName | None = Field(None, description="The version that answered; the live one by default.")
    evidence_ids: list[EvidenceId] = Field(
        [], max_length=MOST_REGIONS, description="Rows that the answer cited or the search returned."
    )
    figure_ids: list[Annotated[str, StringConstraints(pattern=DIGEST)]] = Field(
        [], max_length=MOST_REGIONS, description="Figures that the answer showed."
    )
    answer: str | None = Field(None, max_length=50_000, description="The answer's text, of which a digest is kept.")
    preset: PresetName | None = Field(None, description="The answer preset.")


class FeedbackReceived(BaseModel):
    """What was stored."""

    id: str = Field(description="Names the entry in inset feedback.")


@router.post(
    "/feedback",
    status_code=201,
    responses={201: example({"id": "1a2b3c4d"})[200]},
)
async def feedback(request: Request, corpus: Corpus, body: FeedbackRequest) -> FeedbackReceived:
    """Say whether an answer helped, and what is wrong with it; the corpus's operators read it.

    404: a row or figure isn't there for the caller. 429: too many entries in a minute, or of the version.
    """
    caller, access = caller_of(request.scope), request.app.state.access
    sender = caller.name or access.client(request.scope) or ""
    if wait_s := await access.limits.wait_s(f"feedback {sender}", PER_MINUTE):
        raise too_many(f"{PER_MINUTE} entries of feedback a minute are taken", wait_s)
    entry_id = await run_in_threadpool(
        corpus.add_feedback,
        body.version,
        body.evidence_ids,
        body.figure_ids,
        by=caller.name,
        answer=sha256(body.answer.encode()) if body.answer else None,
        **body.model_dump(include={"question", "helpful", "reason", "comment", "preset"}),
    )
    if entry_id is None:
        raise HTTPException(429, "this version has all the feedback that it takes")
    metrics_of(request).count("inset_feedback", corpus.name, str(body.helpful).lower(), body.reason or "")
    return FeedbackReceived(id=entry_id)
