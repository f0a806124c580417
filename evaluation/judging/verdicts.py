"""Ask a judge for YES or NO, and read what it replies."""

import re
from contextlib import closing
from functools import cache
from importlib.resources import files
from string import Template

import yaml

from evaluation.outcomes import Grade
from schemas.errors import UserError
from schemas.generation import Message, Reply, Request
from schemas.ports import Writer

_GRADES = {"yes": 1.0, "y": 1.0, "true": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "false": 0.0, "0": 0.0}
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_OBJECT = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
_WORD = re.compile(r"\W*(yes|no|y|n)\W*", re.IGNORECASE)


def verdict(judge: Writer, prompt: str, pictures: tuple[bytes, ...] = (), **values: str) -> Grade:
    """Return the grade that a judge gives, 1 for YES and 0 for NO.

    A reply that can't be read is sent back once. If that doesn't help, or the judge fails, the grade is None with the reason.

    Args:
        judge: The model.
        prompt: Name of the packaged prompt.
        pictures: Encoded pictures that the judge looks at.
        values: Values of the prompt's placeholders.
    """
    asked = Message("user", _template(prompt).substitute(values) + _text("grade"), pictures)
    said = _reply(judge, (asked,))
    if isinstance(said, Grade):
        return said
    grade = read_verdict(said)
    if grade.value is None:
        again = _reply(judge, (asked, Message("assistant", said), Message("user", _text("repair"))))
        grade = again if isinstance(again, Grade) else read_verdict(again)
    return grade


def read_verdict(reply: str) -> Grade:
    """Read a judge's reply: an object with ``grade`` and ``reason`` in JSON or nearly so, or a single word."""
    said = _THOUGHTS.sub("", reply).strip()
    if word := _WORD.fullmatch(said):
        return Grade(value=_GRADES[word[1].lower()])
    for found in reversed(_OBJECT.findall(said)):
        try:
            read = yaml.load(found, yaml.BaseLoader)  # takes single quotes and bare words, too  # noqa: S506  makes strings only
        except (yaml.YAMLError, RecursionError):
            continue
        value = _GRADES.get(str(read.get("grade")).strip(" .").lower())
        if value is not None:
            reason = read.get("reason") or ""
            return Grade(value=value, reason=" ".join(map(str, reason)) if isinstance(reason, list) else str(reason))
    return Grade(value=None, reason=f"the judge's reply has no grade: {' '.join(said.split())[:200] or 'it is empty'}")


def _reply(judge: Writer, chat: tuple[Message, ...]) -> str | Grade:
    text = ""
    try:
        with closing(judge.stream(Request("judge", chat))) as said:
            for item in said:
                if isinstance(item, Reply):
                    text = item.text
                elif not isinstance(item, str):
                    return Grade(value=None, reason=item.message)
    except UserError as error:  # the model isn't as the corpus file says
        return Grade(value=None, reason=error.message)
    return text


@cache
def _template(prompt: str) -> Template:
    return Template(_text(prompt))


def _text(prompt: str) -> str:
    return files("evaluation.judging.prompts").joinpath(f"{prompt}.md").read_text(encoding="utf-8")
