"""Put the picture that somebody asks by into words, which are searched as if they had been asked."""

from schemas.errors import InsetError, RequestError, TransientError, UserError
from schemas.generation import Reply, Request
from schemas.ports import LanguageModel
from tasks.answering.asked import Asked
from tasks.answering.trace import Doing
from tasks.enriching.caption_quality import echoes, repeats, words_of
from tasks.enriching.refusals import refuses

PROMPT = """Describe this picture so that pages of technical documents about the same thing can be found by your words.
Say what kind of picture it is, what it shows, and what its parts are called; copy words and numbers that can be read in it.
Write plain sentences, 60 words at most, and nothing else."""

MOST_CHARS = 1000
"""Of a description; models of text read hardly more."""


def describe(asked: Asked, model: LanguageModel, doing: Doing, *, needed: bool) -> Asked:
    """Return a question whose words are followed by a description of its picture.

    Without a description that is fit for use it is the question as it was, and the trace says why.

    Args:
        asked: The question; it has a picture.
        model: What looks at it.
        doing: The step, which keeps what came of it.
        needed: Whether there is nothing else to search by.

    Raises:
        RequestError: The model can't describe it, and that is needed.
        UserError: The model can't be used now, and is needed.
    """
    reply = _reply(model, Request("picture", PROMPT, asked.picture))
    description, problem = "", "it replied nothing that describes a picture"
    if isinstance(reply, Reply):
        doing.input_tokens, doing.output_tokens = reply.input_tokens, reply.output_tokens
        description = _usable(reply.text)
    else:
        problem = reply.message
    doing.note = description or f"not described: {problem}"
    if not description and needed:
        if isinstance(
            reply, TransientError | UserError
        ):  # the caller can't correct it, and nothing is wrong with the index
            raise UserError(f"the picture can't be described now, and there are no words beside it: {problem}")
        raise RequestError(f"model {model.name} can't describe the picture, and there are no words beside it: {problem}")
    return asked.reworded("\n".join(filter(None, [asked.words, description])))


def _reply(model: LanguageModel, request: Request) -> Reply | InsetError:
    try:
        return dict(model.replies([request]))[request.id]
    except UserError as error:  # words beside the picture are searched all the same
        return error


def _usable(text: str) -> str:
    """Return a description on one line; "" for what is none."""
    words = words_of(text)
    if not words or refuses(text) or repeats(words) or echoes(text, words, PROMPT):
        return ""
    return " ".join(text.split())[:MOST_CHARS]
