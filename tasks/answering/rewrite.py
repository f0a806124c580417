"""Put a question into the words that documents use."""

from schemas.ports import StreamingModel
from tasks.answering.ask_model import filled, reply
from tasks.answering.trace import StepRecord
from tasks.enriching.refusals import refuses

MOST_CHARS = 400
"""Maximum characters of a rewritten question; a longer reply is an answer."""

MOST_LINES = 1


def rewritten(question: str, model: StreamingModel, record: StepRecord) -> str:
    """Return a question in a model's words; unchanged, with a note, if the reply is empty, a refusal or no query."""
    return query_from(model, filled("rewrite", question=question), record) or question


def query_from(model: StreamingModel, prompt: str, record: StepRecord) -> str:
    """Return the one-line query that a model writes; "", with a note, if the reply is empty, a refusal or no query."""
    query = reply(model, prompt, record).strip("\"'`“”„ ")
    if not query:
        record.note = record.note or "the model wrote nothing; the question is used"
    elif len(query) > MOST_CHARS or len(query.splitlines()) > MOST_LINES:
        record.note = "the model wrote no query; the question is used"
    elif refuses(query) or not any(character.isalnum() for character in query):
        record.note = "the model refused; the question is used"
    else:
        return query
    return ""
