"""Sections budget and retention: limits on spending, and how many versions are kept."""

from pydantic import Field

from schemas.corpus.fields import Money, Section, Text


class Spend(Section):
    """Limits on calls of generative models, and in a refresh of embedding models at endpoints; none: no limit."""

    calls: int | None = Field(None, ge=0, le=1 << 40, description="Calls of models.")
    tokens: int | None = Field(None, ge=0, le=1 << 40, description="Tokens that they read and write.")
    money: Money | None = Field(None, description="Money, by the prices in captions.models and embeddings.")


class BudgetOptions(Spend):
    """Limits of one refresh, and of all refreshes together."""

    ocr_items: int | None = Field(
        None, ge=0, le=1 << 40, description="Figures and pages recognised in one refresh at most."
    )
    corpus: Spend = Field(Spend(), description="What all refreshes of the corpus together may spend on models.")


class RetentionOptions(Section):
    """How many versions are kept."""

    versions: int = Field(5, ge=2, le=100_000, description="Versions kept, the live one included.")
    pinned: list[Text] = Field([], description="Versions kept beyond that, for queries that name them.")
