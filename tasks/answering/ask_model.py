"""Call a generative model for a step of a search; a failed call leaves a note and never ends the search."""

import functools
import re
from contextlib import closing
from importlib.resources import files
from string import Template

from schemas.models import Message, Reply, Request
from schemas.ports import StreamingModel
from tasks.answering.trace import StepRecord

_NUMBER = re.compile(r"\d+")
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
"""Reasoning before the answer."""


def reply(
    model: StreamingModel, prompt: str | tuple[Message, ...], record: StepRecord, picture: bytes | None = None
) -> str:
    """Return a model's reply without its reasoning; "" if there is none, with the reason in the step's note.

    ``prompt`` is a chat, or the text of one message, which ``picture``, an encoded image, goes with.
    """
    request = Request.of("prompt", prompt, picture) if isinstance(prompt, str) else Request("prompt", prompt)
    text = ""
    with closing(model.stream(request)) as events:
        for item in events:
            if isinstance(item, Reply):
                record.input_tokens += item.input_tokens
                record.output_tokens += item.output_tokens
                text = _THOUGHTS.sub("", item.text).strip()
            elif not isinstance(item, str):
                record.note = item.message
    return text


def filled(prompt: str, **values: str) -> str:
    """Return a packaged prompt with its placeholders filled in."""
    return _template(prompt).substitute(values)


def numbers_in(text: str, highest: int) -> list[int]:
    """Return the numbers from 1 to ``highest`` in a reply, in its order, each once."""
    numbers = (int(number) for number in _NUMBER.findall(text) if len(number) <= 9)
    return list(dict.fromkeys(number for number in numbers if 1 <= number <= highest))


@functools.cache
def _template(prompt: str) -> Template:
    return Template(files("tasks.answering.prompts").joinpath(f"{prompt}.md").read_text(encoding="utf-8"))
