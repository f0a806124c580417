"""Put a question into the words that documents use."""

from schemas.ports import Writer
from tasks.answering.ask_model import filled, reply
from tasks.answering.trace import Doing
from tasks.enriching.refusals import refuses

MOST_CHARS = 400
"""Characters of a rewritten question: a longer reply is an answer, not a query."""

MOST_LINES = 1


def rewritten(question: str, model: Writer, doing: Doing) -> str:
    """Return a question as a model words it; as it was where the reply is silence, a refusal or no query.

    Args:
        question: What somebody asks.
        model: Writes the query.
        doing: Gets a note where the question stays as it was.
    """
    said = reply(model, filled("rewrite", question=question), doing).strip("\"'`“”„ ")
    if not said:
        doing.note = doing.note or "the model wrote nothing; the question is used"
    elif len(said) > MOST_CHARS or len(said.splitlines()) > MOST_LINES:
        doing.note = "the model wrote no query; the question is used"
    elif refuses(said) or not any(character.isalnum() for character in said):
        doing.note = "the model refused; the question is used"
    else:
        return said
    return question
