"""Ask generative models by packaged prompts, and read what they reply: objects in JSON, or nearly so."""

import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from schemas.errors import UserError
from schemas.models import Message, Reply, Request
from schemas.ports import StreamingModel

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_OBJECT = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")


@cache
def prompt(package: str, name: str) -> Template:
    """Return a packaged prompt with placeholders such as ``$question``."""
    return Template(files(package).joinpath(f"{name}.md").read_text(encoding="utf-8"))


class NoReplyError(Exception):
    """A model gave no reply; the message says why."""


def reply_of(model: StreamingModel, chat: tuple[Message, ...]) -> str:
    """Return a model's words; raises ``NoReplyError`` if the call failed, or the model isn't as the corpus file says."""
    text = ""
    try:
        with closing(model.stream(Request("evaluation", chat))) as events:
            for item in events:
                if isinstance(item, Reply):
                    text = item.text
                elif not isinstance(item, str):
                    raise NoReplyError(item.message)
    except UserError as error:
        raise NoReplyError(error.message) from error
    return text


def without_thoughts(reply: str) -> str:
    """Return a reply without what the model thinks before it."""
    return _THOUGHTS.sub("", reply).strip()


def objects_in(reply: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a reply, the last first; single quotes and bare words are read too. Values are strings or lists."""
    for object_text in reversed(_OBJECT.findall(without_thoughts(reply))):
        try:
            parsed = yaml.load(object_text, yaml.BaseLoader)  # noqa: S506  makes strings only
        except (yaml.YAMLError, RecursionError):
            continue
        if isinstance(parsed, dict):
            yield parsed
