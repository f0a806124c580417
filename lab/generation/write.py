"""A model writes a question from a material; what it writes is checked, and sent back once."""

from collections.abc import Mapping
from string import Template

from evaluation.questions import Question
from lab.generation.materials import Material
from lab.model_replies import objects_in, prompt, reply_of
from schemas.models import Message
from schemas.ports import StreamingModel

MOST_CHARACTERS = 500
"""Length of a question; a longer one is several, or an answer."""

_LISTED = ', "evidence": ["S1", "T2"]'


class UnusableError(Exception):
    """A reply that isn't a question; the message says why."""


def write_question(model: StreamingModel, material: Material, picture: bytes | None = None) -> Question:
    """Return the question that a model writes from a material.

    Raises ``UnusableError`` if neither the reply nor its repair can be used, ``NoReplyError`` without a reply.
    """
    draft = _write(model, material, material.prompt, material.values, picture)
    if material.revise is None:
        return draft
    revision_values = {**material.revise.values, "question": draft.question, "answer": draft.answer or ""}
    return _write(model, material.revise, material.revise.prompt, revision_values, None)


def _write(
    model: StreamingModel, material: Material, name: str, values: Mapping[str, str], picture: bytes | None
) -> Question:
    reply = _prompt("reply").substitute(evidence=_LISTED if material.chooses else "")
    request = Message("user", _prompt(name).substitute(values) + reply, (picture,) if picture else ())
    model_reply = reply_of(model, (request,))
    try:
        return _read(model_reply, material)
    except UnusableError as error:
        repair = Message("user", _prompt("repair").substitute(reason=error))
        return _read(reply_of(model, (request, Message("assistant", model_reply), repair)), material)


def _read(reply: str, material: Material) -> Question:
    fields = next((json_object for json_object in objects_in(reply) if "question" in json_object), None)
    if fields is None:
        raise UnusableError("the reply has no question")
    words, answer = (" ".join(str(fields.get(name) or "").split()) for name in ("question", "answer"))
    if not any(map(str.isalpha, words)) or len(words) > MOST_CHARACTERS:
        raise UnusableError(f"the question is empty, or longer than {MOST_CHARACTERS} characters")
    if not answer:
        raise UnusableError("there is no answer")
    used_labels = list(material.parts)
    if material.chooses:
        evidence = fields.get("evidence")
        names = evidence if isinstance(evidence, list) else [evidence]
        used_labels = list(dict.fromkeys([*material.required, *(str(name).strip("[] ") for name in names if name)]))
        if unknown := [name for name in used_labels if name not in material.parts]:
            raise UnusableError(f"there is no part {unknown[0]}")
        if not material.required and len({material.parts[name].modality for name in used_labels}) < 2:
            raise UnusableError("the evidence is of one kind; two are wanted")
    return material.question(words, answer, used_labels)


def _prompt(name: str) -> Template:
    return prompt("lab.generation.prompts", name)
