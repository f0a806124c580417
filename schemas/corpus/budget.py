"""Sections budget and retention: limits on spending, and how many versions are kept."""

from pydantic import Field

from schemas.corpus.fields import Money, Section, Text


class Spend(Section):
    """Limits on calls of generative models, and in a refresh of embedding models at endpoints; none: no limit."""

    calls: int | None = Field(None, ge=0, le=1 << 40, description="Calls of models.")
    tokens: int | None = Field(None, ge=0, le=1 << 40, description="Tokens that they read and write.")
    money: Money | None = Field(None, description="Money, by the prices in captions.models and embeddings.")


class ApproveAbove(Section):
    """Plans that Airflow asks a person about before anything is spent; see operations.approval_h."""

    money: Money | None = Field(None, description="Money above which a plan is dear; null: none is.")
    minutes: float | None = Field(None, ge=0, description="Minutes of reading and OCR, likewise.")
    first_run: bool = Field(True, description="Ask before the first version where models cost money.")


class BudgetOptions(Spend):
    """Limits of one refresh, and of all refreshes together."""

    ocr_items: int | None = Field(
        None, ge=0, le=1 << 40, description="Figures and pages recognised in one refresh at most."
    )
    approve_above: ApproveAbove = Field(
        ApproveAbove(), description="Plans that a person approves before they are carried out."
    )
    corpus: Spend = Field(Spend(), description="What all refreshes of the corpus together may spend on models.")


class RetentionOptions(Section):
    """How many versions are kept."""

    versions: int = Field(5, ge=2, le=100_000, description="Versions kept, the live one included.")
    pinned: list[Text] = Field([], description="Versions kept beyond that, for queries that name them.")
