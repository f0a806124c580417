"""Prompts of captioners, and what of the document fills their placeholders.

Files have YAML front matter between lines of ``---``, and placeholders of ``string.Template``.
"""

import functools
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Annotated, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from schemas.corpus.models import EntryKind
from schemas.documents import Chunk, PlacedFigure
from schemas.filters import Modality
from schemas.ids import sha256
from schemas.models import Subject
from schemas.tags import placeholder, strip
from tasks.enriching.chunk import PageWords

PROMPT_VERSION = "1"
"""Goes up when ``render`` or ``surroundings`` changes the words of the same prompt and document: all replies become obsolete."""

OF_THE_DOCUMENT = "that of the document's own words"
"""The default of ``$language``."""

_FENCE = "---"
_DEFAULTS: dict[Subject, str] = {"figure": "figure", "page": "page", "text": "text-summary"}
_DEFAULTS_OF_WORDS: dict[Subject, str] = {"figure": "ocr-caption", "text": "text-summary"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The document's context of a figure, page or text; "" is unknown.

    ``section`` has the titles of its sections, ``words`` those recognised in it (of a text, itself), ``page`` the number as
    printed if known, ``language`` that of the reply, "" for the document's.
    """

    caption: str = ""
    section: str = ""
    before: str = ""
    after: str = ""
    words: str = ""
    title: str = ""
    page: str = ""
    language: str = ""


PLACEHOLDERS = tuple(Surroundings.__dataclass_fields__)
"""Placeholders of a prompt, each written with a ``$``."""


class PromptError(ValueError):
    """A file isn't a prompt; the message doesn't name the file."""


class FrontMatter(BaseModel):
    """The front matter of a prompt's file; ``source`` is the paper or page that it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: Annotated[str, BeforeValidator(str)] = ""


Front = TypeVar("Front", bound=FrontMatter)


class CaptionFrontMatter(FrontMatter):
    """The front matter of a captioner's prompt.

    ``subject`` is None for anything; ``picture``: it needs a model that sees; ``words`` are the minimum and maximum of a reply;
    ``bullets``: replies may have lines that begin with "- ".
    """

    subject: Subject | None = None
    picture: bool = False
    words: Annotated[list[Annotated[int, Field(ge=0, le=100_000)]], Field(min_length=2, max_length=2)] | None = None
    bullets: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.words is not None and self.words[0] > self.words[1]:
            raise ValueError("words is the least and the most, such as [5, 400]")
        return self


class Prompt(CaptionFrontMatter):
    """A prompt, and the expectations on its replies; ``body`` has placeholders. It pickles."""

    name: str
    body: str

    @property
    def digest(self) -> str:
        """Part of the key of replies, without the expectations."""
        return sha256(f"{PROMPT_VERSION}\n{self.body}".encode())

    @property
    def expected(self) -> dict[str, object]:
        """The expectations: part of the key of rows, so that changing them calls no model again."""
        return {"words": self.words, "bullets": self.bullets}

    @property
    def instructions(self) -> str:
        """The lines without a placeholder, which a reply must not repeat."""
        return "\n".join(line for line in self.body.splitlines() if not _names(line))

    @property
    def names(self) -> tuple[str, ...]:
        """Its placeholders."""
        return tuple(name for name in PLACEHOLDERS if name in _names(self.body))

    def render(self, around: Surroundings) -> str:
        """Return the prompt for one figure, page or text.

        Lines with an empty placeholder are dropped; values are put on one line, without placeholders of figures.
        """
        values = {name: " ".join(strip(value).split()) for name, value in asdict(around).items()}
        values["language"] = values["language"] or OF_THE_DOCUMENT
        return substituted(self.body, values, all)


def substituted(body: str, values: Mapping[str, str], needed: Callable[[Iterable[object]], bool]) -> str:
    """Fill in a template, without lines of which ``all`` or ``any`` placeholders are ``needed`` and empty."""
    by_line = ((line, [values[name] for name in _names(line)]) for line in body.splitlines())
    filled = (string.Template(line).substitute(values).rstrip() for line, held in by_line if not held or needed(held))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(filled)).strip()


def _names(text: str) -> list[str]:
    return string.Template(text).get_identifiers()


def read_prompt(name: str, text: str) -> Prompt:
    """Read a prompt's file, or raise ``PromptError``."""
    front, body = split_front_matter(text, CaptionFrontMatter)
    check_placeholders(body, PLACEHOLDERS)
    if not body.strip():
        raise PromptError("it asks for nothing: it has no text")
    return Prompt(**dict(front), name=name, body=body.strip())


def check_placeholders(body: str, placeholders: Sequence[str]) -> None:
    """Raise ``PromptError`` if a ``$`` of a prompt begins no known placeholder."""
    template = string.Template(body)
    if not template.is_valid():
        raise PromptError("a $ stands before something that isn't a placeholder; write $$ where a $ is meant")
    if unknown := sorted(set(template.get_identifiers()) - set(placeholders)):
        raise PromptError(f"there is no placeholder ${unknown[0]}; known are ${', $'.join(placeholders)}")


def split_front_matter(text: str, model: type[Front]) -> tuple[Front, str]:
    """Return front matter and body of a prompt's file; raises ``PromptError`` if it has no end, isn't YAML, or doesn't fit."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, following_text = text.partition("\n")
    if first.rstrip() != _FENCE:
        return model(), text
    lines = following_text.split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if end is None:
        raise PromptError(f"its front matter has no end; write {_FENCE} on a line of its own behind it")
    try:
        front_matter = yaml.safe_load("\n".join(lines[:end])) or {}
        return model.model_validate(front_matter), "\n".join(lines[end + 1 :])
    except ValidationError as error:
        mistake = error.errors()[0]
        key_path = ".".join(str(part) for part in mistake["loc"]) or "front matter"
        known_keys = f"; known are {', '.join(model.model_fields)}" if mistake["type"] == "extra_forbidden" else ""
        raise PromptError(f"{key_path}: {mistake['msg'].removeprefix('Value error, ')}{known_keys}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # invalid dates, numbers of thousands of digits
        raise PromptError("its front matter is not YAML") from error


@functools.cache
def presets() -> dict[str, Prompt]:
    """Return the prompts that come with Inset, by name."""
    folder = files("tasks.enriching.prompts")
    texts = {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}
    return {name: read_prompt(name, texts[name].read_text(encoding="utf-8")) for name in sorted(texts)}


def default_prompt(subject: Subject, kind: EntryKind) -> Prompt | None:
    """Return the default prompt of a subject and a kind of captioner; None if such a captioner can't describe it."""
    name = (_DEFAULTS if kind.sees else _DEFAULTS_OF_WORDS).get(subject)
    return presets()[name] if name is not None else None


AROUND_CHARACTERS = 600
"""Maximum characters of text on either side of a figure: some 150 tokens."""


def surroundings(title: str, figure: PlacedFigure, chunks: Iterable[Chunk], *, language: str = "") -> Surroundings:
    """Return the context of one placement of a figure, from the document's rows in order."""
    before, after = _neighbouring_text(figure, chunks)
    return Surroundings(
        caption=figure.caption or figure.step,
        section=" > ".join(figure.section_path),
        before=before[-AROUND_CHARACTERS:],
        after=after[:AROUND_CHARACTERS],
        words=figure.inner_text,
        title=title,
        page=str(figure.placement.page),
        language=language,
    )


def surroundings_of_page(title: str, page: PageWords, *, language: str = "") -> Surroundings:
    """Return the context of a page."""
    section = " > ".join(page.section_path)
    return Surroundings(section=section, words=page.text, title=title, page=page.printed, language=language)


def surroundings_of_text(title: str, piece: Chunk, *, language: str = "") -> Surroundings:
    """Return a row of text or table with its context."""
    section, page = " > ".join(piece.section_path), str(piece.regions[0].page) if piece.regions else ""
    return Surroundings(caption=piece.caption, section=section, words=piece.text, title=title, page=page, language=language)


def _neighbouring_text(figure: PlacedFigure, chunks: Iterable[Chunk]) -> tuple[str, str]:
    """Return the text before and after a figure in its row; if it is in several, in the row on its page."""
    mark, page = placeholder(figure.placement.figure_id or ""), figure.placement.page
    holding = [piece for piece in chunks if piece.modality == Modality.TEXT and mark in piece.tagged_text]
    on_page = (piece for piece in holding if any(part.page == page for part in piece.regions))
    nearest = next(on_page, holding[0] if holding else None)
    before, _, after = nearest.tagged_text.partition(mark) if nearest else ("", "", "")
    return " ".join(strip(before).split()), " ".join(strip(after).split())
