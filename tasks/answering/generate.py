"""Have a language model write an answer, and read it part by part while it is written."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from schemas.answers import AnswerCounts, FigurePart, Part, PartFinished, TextDelta
from schemas.errors import BadInputError, TransientError
from schemas.generation import Message, Request
from schemas.ports import StreamingModel
from tasks.answering.compose import ModelInput
from tasks.answering.read_reply import ReplyReader
from tasks.answering.support import with_support

FROM_THOUGHT = "the model wrote no answer behind its reasoning; these are the sentences of it that the passages support"
CUT_OFF = "the model stopped at its limit of tokens, so the answer may end early"
NO_ANSWER_WRITTEN = "the model wrote no answer"
NO_SENTENCE = "the model wrote no sentence"

ASK_AGAIN = "Now write the answer alone, without any reasoning, in at most three sentences."
"""What a model is told once, if its reply has no answer: small models end inside a thought, or copy a figure's name alone."""

MOST_REPEATED = 2_000
"""Maximum characters of a reply without an answer that a model is sent with ``ASK_AGAIN``."""

_THINKING = re.compile(r"</?think>", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer written by a model; ``failure`` says why the reply is incomplete, ``note`` is for readers."""

    parts: list[Part] = field(default_factory=list)
    counts: AnswerCounts = field(default_factory=AnswerCounts)
    says_no_answer: bool = False
    failure: str = ""
    note: str = ""


def write(
    model: StreamingModel, model_input: ModelInput, may_ask_again: Callable[[], bool]
) -> Iterator[TextDelta | PartFinished | WrittenAnswer]:
    """Yield the events of an answer while the model writes, then the whole answer.

    A reply without a sentence is read for sentences of its reasoning that a passage supports. If there are none, the model is
    asked once more, for the answer alone.

    Args:
        model: The model.
        model_input: What it is sent.
        may_ask_again: Returns whether the budget allows a second call.

    Raises:
        UserError: The model can't be used as configured.
    """
    answer, reply = yield from _read(model, model_input)
    if answer.failure in (NO_ANSWER_WRITTEN, NO_SENTENCE):
        thoughts = _supported_thoughts(reply, model_input)
        if thoughts:
            answer = WrittenAnswer(thoughts, note=FROM_THOUGHT)
        elif may_ask_again():
            messages = (
                *model_input.messages,
                Message("assistant", reply[-MOST_REPEATED:] or "…"),
                Message("user", ASK_AGAIN),
            )
            answer, _ = yield from _read(model, replace(model_input, messages=messages))
    yield answer


def _read(
    model: StreamingModel, model_input: ModelInput
) -> Generator[TextDelta | PartFinished, None, tuple[WrittenAnswer, str]]:
    """Yield the events of one reply; return the answer, and the reply without marks of reasoning."""
    reader, failure, note = ReplyReader(model_input), "", ""
    pieces: list[str] = []
    with closing(model.stream(Request("answer", model_input.messages))) as reply:
        for item in reply:
            if isinstance(item, str):
                pieces.append(item)
                yield from reader.feed(item)
            elif isinstance(item, BadInputError | TransientError):
                failure = item.message
            elif not item.complete:
                note = CUT_OFF
    yield from reader.close()
    if not (failure or reader.says_no_answer):
        if not reader.parts:
            failure = NO_ANSWER_WRITTEN
        elif all(isinstance(part, FigurePart) for part in reader.parts):
            failure = NO_SENTENCE
    answer = WrittenAnswer(reader.parts, reader.counts, reader.says_no_answer, failure, note)
    return answer, _THINKING.sub("", "".join(pieces)).strip()


def _supported_thoughts(thought: str, model_input: ModelInput) -> list[Part]:
    """Return the sentences of a model's reasoning that a passage supports, with the figures behind them."""
    reader = ReplyReader(model_input)
    reader.feed(thought)
    reader.close()
    parts, _ = with_support(reader.parts, [hit.text for hit in model_input.passages], "")
    return (
        [part for part in parts if part.citations] if any(part.type == "text" and part.citations for part in parts) else []
    )
