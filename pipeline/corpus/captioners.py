"""The captioners of a corpus, as its file names them."""

from dataclasses import dataclass, replace
from pathlib import Path

from backends.models.registry import language_model_card
from pipeline.corpus.prompts import find_prompt
from schemas.corpus import Corpus
from schemas.corpus.models import CONTEXT, ModelCaptioner
from schemas.ids import key
from schemas.models import Subject
from schemas.versions import Captions
from tasks.enriching.prompts import PROMPT_VERSION, Prompt


@dataclass(frozen=True)
class CaptionerInUse:
    """A model that describes a subject of the corpus, with its prompt and its cache key.

    ``name`` is the model's in the corpus file; one model may describe several subjects with different prompts.
    """

    name: str
    options: ModelCaptioner
    prompt: Prompt
    captions: Captions

    @property
    def subject(self) -> Subject:
        """What it describes."""
        return self.captions.subject


def captioners_of(corpus: Corpus, file: Path) -> dict[str, CaptionerInUse]:
    """Return the captioners of a corpus, by label."""
    options = corpus.captions
    names_by_subject: list[tuple[Subject, set[str | None]]] = [
        ("figure", {options.captioner, *options.by_source.values()}),
        ("page", {options.pages}),
        ("text", {options.summaries}),
    ]
    return {
        label(name, subject): _captioner(name, options.models[name], subject, file)
        for subject, names in names_by_subject
        for name in sorted(captioner_name for captioner_name in names if captioner_name not in (None, CONTEXT))
    }


def label(name: str, subject: Subject) -> str:
    """Return the label of a model for a subject."""
    return name if subject == "figure" else f"{name} ({subject}s)"


def _captioner(name: str, options: ModelCaptioner, subject: Subject, file: Path) -> CaptionerInUse:
    setting = f"{file}: captions.models.{name}.prompt"
    stored_prompt = find_prompt(options.prompt, file.parent, subject=subject, kind=options.kind, setting=setting)
    prompt = replace(stored_prompt, subject=subject)
    card = language_model_card(options)
    captions_key = key(
        model=card.model_dump(),
        asked=options.model_dump(include=_REPLY_OPTIONS),
        prompt=prompt.digest,
        step=PROMPT_VERSION,
    )
    return CaptionerInUse(name, options, prompt, Captions(model=card, key=captions_key, subject=subject))


_REPLY_OPTIONS = {"kind", "temperature", "top_p", "max_tokens", "max_side_px", "language"}
"""Options that a reply depends on; connection and price don't count."""
