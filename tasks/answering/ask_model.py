"""Ask a generative model one thing, and make sure that it can't break a search: what it doesn't say, nobody waits for."""

import functools
import re
from contextlib import closing
from importlib.resources import files
from string import Template

from schemas.generation import Message, Reply, Request
from schemas.ports import Writer
from tasks.answering.trace import StepRecord

_NUMBER = re.compile(r"\d+")
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
"""What reasoning models write before their answer."""


def reply(model: Writer, asked: str | tuple[Message, ...], record: StepRecord, picture: bytes | None = None) -> str:
    """Return a model's reply without what it thought aloud; "" where there is none, and the step's note says why.

    Args:
        model: The model.
        asked: The messages of a chat, or the words of one message.
        record: Gets the tokens, and why there is no reply.
        picture: An encoded picture that goes with the words.
    """
    request = Request.of("asked", asked, picture) if isinstance(asked, str) else Request("asked", asked)
    text = ""
    with closing(model.stream(request)) as said:
        for item in said:
            if isinstance(item, Reply):
                record.input_tokens += item.input_tokens
                record.output_tokens += item.output_tokens
                text = _THOUGHTS.sub("", item.text).strip()
            elif not isinstance(item, str):
                record.note = item.message
    return text


def filled(prompt: str, **values: str) -> str:
    """Return a prompt with its placeholders filled in; it is a file beside ``tasks.answering.prompts``."""
    return _template(prompt).substitute(values)


def numbers_in(text: str, most: int) -> list[int]:
    """Return the numbers from 1 to ``most`` that a reply names, in its order, each once; [] where it names none."""
    found = (int(number) for number in _NUMBER.findall(text) if len(number) <= 9)
    return list(dict.fromkeys(number for number in found if 1 <= number <= most))


@functools.cache
def _template(prompt: str) -> Template:
    return Template(files("tasks.answering.prompts").joinpath(f"{prompt}.md").read_text(encoding="utf-8"))
