"""Have a language model write an answer, and read it part by part while it is written."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from schemas.answers import AnswerCounts, Part, PartFinished, TextDelta
from schemas.errors import BadInputError, TransientError
from schemas.generation import Request
from schemas.ports import StreamingModel
from tasks.answering.compose import ModelInput
from tasks.answering.read_reply import ReplyReader
from tasks.answering.support import with_support

FROM_THOUGHT = "the model wrote no answer behind its reasoning; these are the sentences of it that the passages support"
CUT_OFF = "the model stopped at its limit of tokens, so the answer may end early"

_THINKING = re.compile(r"</?think>", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer written by a model; ``failure`` says why the reply is incomplete, ``note`` is for readers."""

    parts: list[Part] = field(default_factory=list)
    counts: AnswerCounts = field(default_factory=AnswerCounts)
    says_no_answer: bool = False
    failure: str = ""
    note: str = ""


def write(model: StreamingModel, model_input: ModelInput) -> Iterator[TextDelta | PartFinished | WrittenAnswer]:
    """Yield the events of an answer while the model writes, then the whole answer.

    Raises:
        UserError: The model can't be used as configured.
    """
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
    thought = _THINKING.sub("", "".join(pieces)).strip()
    if not (failure or reader.parts or reader.says_no_answer) and thought:
        supported_parts = _supported_thoughts(thought, model_input)
        if supported_parts:
            yield WrittenAnswer(supported_parts, note=FROM_THOUGHT)
            return
    if not (failure or reader.parts or reader.says_no_answer):
        failure = "the model wrote no answer"
    yield WrittenAnswer(reader.parts, reader.counts, reader.says_no_answer, failure, note)


def _supported_thoughts(thought: str, model_input: ModelInput) -> list[Part]:
    """Return the sentences of a model's reasoning that a passage supports, with the figures behind them."""
    reader = ReplyReader(model_input)
    reader.feed(thought)
    reader.close()
    parts, _ = with_support(reader.parts, [hit.text for hit in model_input.passages], "")
    return (
        [part for part in parts if part.citations] if any(part.type == "text" and part.citations for part in parts) else []
    )
