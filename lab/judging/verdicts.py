"""Ask a judge for YES or NO, and read what it replies."""

import re
from string import Template

from lab.model_replies import NoReplyError, objects_in, prompt, reply_of, without_thoughts
from lab.outcomes import Grade
from schemas.models import Message
from schemas.ports import StreamingModel

_GRADES = {"yes": 1.0, "y": 1.0, "true": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "false": 0.0, "0": 0.0}
_WORD = re.compile(r"\W*(yes|no|y|n)\W*", re.IGNORECASE)


def verdict(judge: StreamingModel, name: str, pictures: tuple[bytes, ...] = (), **values: str) -> Grade:
    """Return the grade that a judge gives, by a packaged prompt with ``values`` and pictures: 1 for YES and 0 for NO.

    A reply that can't be read is sent back once. If that doesn't help, or the judge fails, the grade is None with the reason.
    """
    request = Message("user", _prompt(name).substitute(values) + _prompt("grade").template, pictures)
    try:
        model_reply = reply_of(judge, (request,))
        grade = read_verdict(model_reply)
        if grade.value is None:
            repaired_reply = reply_of(
                judge, (request, Message("assistant", model_reply), Message("user", _prompt("repair").template))
            )
            grade = read_verdict(repaired_reply)
    except NoReplyError as error:
        return Grade(value=None, reason=str(error))
    return grade


def read_verdict(reply: str) -> Grade:
    """Read a judge's reply: an object with ``grade`` and ``reason`` in JSON or nearly so, or a single word."""
    text = without_thoughts(reply)
    if word := _WORD.fullmatch(text):
        return Grade(value=_GRADES[word[1].lower()])
    for json_object in objects_in(text):
        value = _GRADES.get(str(json_object.get("grade")).strip(" .").lower())
        if value is not None:
            reason = json_object.get("reason") or ""
            return Grade(value=value, reason=" ".join(map(str, reason)) if isinstance(reason, list) else str(reason))
    return Grade(value=None, reason=f"the judge's reply has no grade: {' '.join(text.split())[:200] or 'it is empty'}")


def _prompt(name: str) -> Template:
    return prompt("lab.judging.prompts", name)
