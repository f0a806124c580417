"""Find the prompts and captioners that a corpus file names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backends.models.registry import language_model_card
from schemas.corpus import Corpus
from schemas.corpus.models import CONTEXT, EntryKind, ModelEntry
from schemas.errors import UserError
from schemas.ids import key
from schemas.models import Subject
from schemas.versions import Captions
from tasks.answering.compose import AnswerPrompt, answer_prompts, read_answer_prompt
from tasks.enriching.prompts import (
    PROMPT_VERSION,
    Prompt,
    PromptError,
    default_prompt,
    presets,
    read_prompt,
)

_MOST_BYTES = 64 << 10


def find_prompt(
    name_or_file: str | None,
    folder: Path | None = None,
    *,
    subject: Subject,
    kind: EntryKind,
    setting: str = "prompt",
) -> Prompt:
    """Return a preset prompt, or one from a file.

    Args:
        name_or_file: A preset's name, or a path, which contains a slash or a dot; None means the preset for subject and kind.
        folder: Base of a relative path; None means the working folder.
        subject: What is described.
        kind: Kind of the captioner.
        setting: The setting that names the prompt, for messages, such as ``corpora/x.yaml: models.vlm.prompt``.

    Raises:
        UserError: There is no such prompt, it is invalid, or it doesn't fit the subject or captioner.
    """
    if name_or_file is None:
        prompt = default_prompt(subject, kind)
        if prompt is None:
            raise UserError(
                f"{setting}: '{kind}' sees no picture, so it can't describe a {subject}; name a model that does"
            )
        return prompt
    prompt = _find(name_or_file, folder or Path(), setting, presets(), read_prompt)
    if prompt.subject not in (None, subject):
        raise UserError(
            f"{setting}: {prompt.name} asks for a {prompt.subject}, not for a {subject}; {_fitting_presets(subject, kind)}"
        )
    if prompt.picture and not kind.sees:
        raise UserError(
            f"{setting}: {prompt.name} asks about the picture, which '{kind}' doesn't see; {_fitting_presets(subject, kind)}"
        )
    return prompt


def find_answer_prompt(name_or_file: str, folder: Path, setting: str) -> AnswerPrompt:
    """Return a packaged answer prompt, or one from a file; arguments and errors as for ``find_prompt``."""
    return _find(name_or_file, folder, setting, answer_prompts(), read_answer_prompt)


def _fitting_presets(subject: Subject, kind: EntryKind) -> str:
    names = [name for name, prompt in presets().items() if prompt.subject == subject and (kind.sees or not prompt.picture)]
    return f"presets that fit: {', '.join(names)}" if names else "no preset fits"


Read = TypeVar("Read")


def _find(
    name_or_file: str, folder: Path, setting: str, packaged: Mapping[str, Read], read: Callable[[str, str], Read]
) -> Read:
    path, names = folder / name_or_file, ", ".join(packaged)
    if "/" not in name_or_file and "." not in name_or_file:
        if name_or_file not in packaged:
            advice = f"use {names}, or a file such as prompts/{name_or_file}.md"
            raise UserError(f"{setting}: there is no prompt '{name_or_file}'; {advice}")
        return packaged[name_or_file]
    try:
        if not path.is_file():
            raise UserError(f"{setting}: there is no file {path}; presets are {names}")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UserError(f"{setting}: {path} is not a prompt: it has more than {_MOST_BYTES >> 10} KiB")
        return read(path.name, data.decode("utf-8"))
    except OSError as error:
        raise UserError(f"{setting}: {path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{setting}: {path} is not text in UTF-8") from error
    except PromptError as error:
        raise UserError(f"{setting}: {path}: {error}") from error


@dataclass(frozen=True)
class CaptionerInUse:
    """A model that describes a subject of the corpus, with its prompt and its cache key.

    ``name`` is the model's in the corpus file; one model may describe several subjects with different prompts.
    """

    name: str
    options: ModelEntry
    prompt: Prompt
    captions: Captions

    @property
    def subject(self) -> Subject:
        """What it describes."""
        return self.captions.subject


def captioners_of(corpus: Corpus, file: Path) -> dict[str, CaptionerInUse]:
    """Return the captioners of a corpus, by label."""
    options = corpus.captions
    names: dict[Subject, str | None] = {"figure": options.captioner, "page": options.pages, "text": options.summaries}
    return {
        label(name, subject): _captioner(name, corpus.models[name], subject, file)
        for subject, name in names.items()
        if name is not None and name != CONTEXT
    }


def label(name: str, subject: Subject) -> str:
    """Return the label of a model for a subject."""
    return name if subject == "figure" else f"{name} ({subject}s)"


def _captioner(name: str, options: ModelEntry, subject: Subject, file: Path) -> CaptionerInUse:
    setting = f"{file}: models.{name}.prompt"
    stored_prompt = find_prompt(options.prompt, file.parent, subject=subject, kind=options.kind, setting=setting)
    prompt = stored_prompt.model_copy(update={"subject": subject})
    card = language_model_card(options)
    captions_key = key(
        model=card.model_dump(),
        asked=options.model_dump(include=_REPLY_OPTIONS) | {"kind": _KIND_IN_KEYS.get(options.kind, options.kind)},
        prompt=prompt.digest,
        step=PROMPT_VERSION,
    )
    return CaptionerInUse(name, options, prompt, Captions(model=card, key=captions_key, subject=subject))


_KIND_IN_KEYS = {EntryKind.LLM: "ocr_llm"}
"""How release 0.2.0 spelled it, so that finished descriptions count."""

_REPLY_OPTIONS = {"temperature", "top_p", "max_tokens", "max_side_px", "language"}
"""Options that a reply depends on; connection and price don't count."""
