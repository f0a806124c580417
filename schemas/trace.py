"""The trace of a search."""

from pydantic import Field

from schemas.frozen import Frozen


class TracedRow(Frozen):
    """A row as a step ranked it."""

    evidence_id: str
    score: float


class TraceStep(Frozen):
    """One step of a search."""

    step: str = Field(description="Its name, such as retrieve: bm25.")
    asked: str = Field("", description="What it was asked: the words that it looked for.")
    candidates: int = Field(0, description="Rows, or documents, that it gave.")
    rows: list[TracedRow] = Field([], description="The best of them, best first.")
    note: str = Field("", description="What was out of the ordinary, such as a reply that couldn't be used.")
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
