"""Kept replies of generative models, and what they cost: the corpus's budget counts them."""

from dataclasses import dataclass

from backends.models.registry import language_model_card
from pipeline.records.cache import RecordCache
from schemas.corpus.models import ModelConfig
from schemas.ids import key
from schemas.parquet import rows_of, schema_of
from schemas.ports import ObjectStore
from schemas.versions import Spent

_REPLY_OPTIONS = {"kind", "temperature", "top_p", "max_tokens", "max_side_px"}
"""Options that a reply depends on; connection and price don't count."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as it was given; ``id`` digests the request."""

    id: str
    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    complete: bool
    money: float
    seconds: float

    @property
    def spent(self) -> Spent:
        """What it cost when it was given."""
        return Spent(calls=self.calls, input_tokens=self.input_tokens, output_tokens=self.output_tokens, money=self.money)


def open_replies(store: ObjectStore, options: ModelConfig) -> RecordCache:
    """Open the replies of one model."""
    name = key(model=language_model_card(options).model_dump(), asked=options.model_dump(include=_REPLY_OPTIONS))
    return RecordCache(store, f"replies/{name}", schema_of(StoredReply))


def spent_on_replies(store: ObjectStore) -> Spent:
    """Return what all stored replies cost."""
    total = Spent()
    for folder in store.folders("replies"):
        for shard in RecordCache(store, f"replies/{folder}", schema_of(StoredReply)).shards():
            for reply in rows_of(StoredReply, shard):
                total += reply.spent
    return total
