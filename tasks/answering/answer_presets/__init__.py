"""Answer presets: each YAML file beside this module is one."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from schemas.answers import AnswerPreset, AnswerPresetInfo, AnswerSettings
from schemas.errors import RequestError
from tasks.answering.presets import mistake, read_named, read_packaged

Answer = TypeVar("Answer", bound=AnswerPreset)

EXTRACTIVE, WITH_A_MODEL = "extractive", "written"
"""The default answer presets: without a model, and with one."""


@functools.cache
def packaged_answers() -> Mapping[str, AnswerPreset]:
    """Return the packaged answer presets by name, the extractive one first."""
    return read_packaged(
        __name__, read_answer_preset, lambda preset: (preset.name != EXTRACTIVE, preset.source, preset.name)
    )


def read_answer_preset(name: str, contents: Mapping[Any, Any]) -> AnswerPreset:
    """Return the answer preset of a YAML mapping; arguments and errors as for ``read_preset``."""
    return read_named(name, contents, AnswerPreset.model_validate)


def with_settings(preset: Answer, settings: Mapping[str, Any]) -> Answer:
    """Return an answer preset with some settings changed; raises ``RequestError`` for an unknown or invalid one."""
    if unknown := sorted(set(settings) - set(AnswerSettings.model_fields)):
        raise RequestError(f"answers have no setting {unknown[0]!r}; use {', '.join(AnswerSettings.model_fields)}")
    try:
        return type(preset).model_validate({**preset.model_dump(), **settings})
    except ValueError as error:
        raise RequestError(f"settings: {mistake(error)}") from error


def answer_preset_info(preset: AnswerPreset, needs: Sequence[str], missing: Sequence[str] = ()) -> AnswerPresetInfo:
    """Return the listing of an answer preset."""
    settings = AnswerSettings.model_validate(preset.model_dump(include=set(AnswerSettings.model_fields)))
    identity = preset.model_dump(include={"name", "label", "sentence", "source"})
    return AnswerPresetInfo(**identity, needs=list(needs), missing=list(missing), settings=settings)
