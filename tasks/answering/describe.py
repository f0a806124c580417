"""Describe a query picture in words, which are searched like a question."""

from schemas.errors import RequestError
from schemas.ports import StreamingModel
from tasks.answering.ask_model import filled, reply
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.trace import StepRecord
from tasks.enriching.caption_quality import echoes, repeats, words_of
from tasks.enriching.refusals import refuses

MOST_CHARS = 1000
"""Maximum characters of a description; text models read hardly more."""


def described(query: EmbeddedQuery, model: StreamingModel, record: StepRecord, *, needed: bool) -> EmbeddedQuery:
    """Return the query with a description of its picture added; unchanged, with a note, if the description isn't usable.

    Raises:
        RequestError: There is no description, and it is ``needed``.
        UserError: The model can't be used as configured.
    """
    prompt = filled("describe")
    model_reply = reply(model, prompt, record, query.picture)
    description = _usable(model_reply, prompt)
    if description:
        return query.reworded("\n".join(filter(None, [query.words, description])))
    record.note = record.note or "the model wrote nothing that describes the picture"
    if needed:
        raise RequestError(f"the picture can't be described, so ask in words, too: {record.note}")
    return query


def _usable(model_reply: str, prompt: str) -> str:
    """Return a description on one line; "" if it isn't usable."""
    words = words_of(model_reply)
    if not words or refuses(model_reply) or repeats(words) or echoes(model_reply, words, prompt):
        return ""
    return " ".join(model_reply.split())[:MOST_CHARS]
