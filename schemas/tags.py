"""Image Localization Tags: the grammar that names a figure inside text.

Text has three forms. During processing figures are *placeholders* by ``figure_id``, since a tag's number depends on the
version's other figures. ``assemble`` writes *tags*. BM25 and the embedder see neither. Text of a PDF that looks like a tag
or placeholder is *escaped*, so that no document can forge a figure.

Source: "RAG Beyond Text" (image localization tags); decision 4.
"""

import itertools
import re
import string
from collections.abc import Callable
from typing import Any, NamedTuple, Required, TypedDict, Unpack
from urllib.parse import quote, unquote

CANONICAL = "<image:{number}.{ext}>"
PAPER = "<image: filename({number}.{ext})>"
NAMED_TEMPLATES = {"canonical": CANONICAL, "paper": PAPER}

DIGITS_DEFAULT = 8
DIGITS_MOST = 49  # no SHA-1 has more decimal digits

_PLACEHOLDER = re.compile("\ue000([0-9a-f]{64})\ue001")
_PLACED = re.compile(f"{_PLACEHOLDER.pattern}|<image:[^>]*>")  # escaping leaves no other text that begins like a tag
_PRIVATE = re.compile("[\ue000\ue001]")
# Whatever starts like a tag, in any case and spacing, is a look-alike when it comes out of a PDF. White space is taken whole
# or not at all (possessive): a document may hold a million blanks in a row, and giving them back one by one takes hours.
_OPENING = r"(?=\s*+i\s*+m\s*+a\s*+g\s*+e\s*+:)"
# Lines are escaped one by one and joined later, hyphens dropped: what a line's end begins, the next line may complete.
_OPENING_CUT = r"(?=\s*+(?:i\s*+(?:m\s*+(?:a\s*+(?:g\s*+(?:e\s*+)?+)?+)?+)?+)?+[-\u00ad\u2010]?+\s*+$)"
_ARMED = re.compile(f"<{_OPENING}", re.IGNORECASE)
_LOOKALIKE = re.compile(f"<(?:{_OPENING}|{_OPENING_CUT})", re.IGNORECASE)
_ESCAPED = "<\u2060"


def placeholder(figure_id: str) -> str:
    """Return the stand-in of a figure in text that is not yet assembled."""
    return f"\ue000{figure_id}\ue001"


def placeholders(text: str) -> list[str]:
    """Return the figure ids of the placeholders in ``text``, in order, with repeats."""
    return _PLACEHOLDER.findall(text)


def fill(text: str, write: Callable[[str], str]) -> str:
    """Replace each placeholder by ``write(figure_id)``."""
    return _PLACEHOLDER.sub(lambda found: write(found[1]), text)


def with_ordinals(text: str) -> str:
    """Replace each placeholder, or tag of any template, by a canonical tag with its place in the text as its number, from 1.

    So text has the same tags before and after ``assemble`` numbers figures.
    """
    ordinals = itertools.count(1)
    return _PLACED.sub(lambda _: CANONICAL.format(number=f"{next(ordinals):0{DIGITS_DEFAULT}d}", ext="png"), text)


def strip(text: str) -> str:
    """Return ``text`` without placeholders and the white space around them."""
    lines = (
        line for line in text.split("\n") if not (_PLACEHOLDER.search(line) and not _PLACEHOLDER.sub("", line).strip())
    )
    return re.sub(r"[ \t]{2,}", " ", _PLACEHOLDER.sub("", "\n".join(lines))).strip()


def escape(text: str) -> str:
    """Disarm text that looks like a tag or placeholder; ``restore`` undoes it.

    A WORD JOINER (U+2060, invisible) is put after the angle bracket, also of a look-alike cut off by the end of the text.
    Every template starts alike, so this covers all of them. Private-use marks of placeholders become U+FFFD.
    """
    return _LOOKALIKE.sub(_ESCAPED, _PRIVATE.sub("\ufffd", text))


def is_disarmed(text: str) -> bool:
    """Return whether text that was joined and cut after escaping holds no beginning of a tag."""
    return not (_ARMED.search(text) or _PRIVATE.search(text))


def restore(text: str) -> str:
    """Undo ``escape``, to show a document's own words."""
    return text.replace(_ESCAPED, "<")


class Details(TypedDict, total=False):
    """Values of a template beside number and file type.

    All are fixed once a version is assembled: ``width`` and ``height`` in pixels; ``kind`` and ``role`` of the placement;
    ``doc``, the first digits of the document's digest, and its ``title``; ``page`` from 1; ``bbox`` in whole points.
    Captions may come from models, and file names aren't part of a document.
    """

    width: int
    height: int
    kind: str
    role: str
    doc: str
    title: str
    page: int
    bbox: tuple[int, int, int, int]


class Tag(Details, total=False):
    """A tag taken apart: the fields that its template holds."""

    number: Required[str]
    ext: str


DOC_DIGITS = 12
"""Digits of a document's digest that ``{doc}`` shows."""


class _Field(NamedTuple):
    """The syntax of a field: its characters, the regex that reads it, and its conversion."""

    alphabet: str
    pattern: str
    decode: Callable[[str], Any] = str
    encode: Callable[[Any], str] = str


def _run(characters: str) -> str:
    return rf"[{characters}](?:\s*+[{characters}])*"


_WHOLE = _Field(string.digits, _run("0-9"), int)
_WORD = _Field(string.ascii_letters + "_", _run("a-z_"), str.lower)
# What a title is quoted to: no white space, no brackets, nothing but ASCII.
_QUOTED = string.ascii_letters + string.digits + "_.~%-"
_FIELDS = {
    "number": _Field(string.digits, _run("0-9")),
    "ext": _Field(string.ascii_letters + string.digits, r"[a-z](?:\s*+[a-z0-9])*", str.lower),
    "width": _WHOLE,
    "height": _WHOLE,
    "kind": _WORD,
    "role": _WORD,
    "doc": _Field(string.hexdigits, _run("0-9a-f"), str.lower),
    "title": _Field(_QUOTED, rf"(?:{_run('A-Za-z0-9_.~%-')})?", unquote, lambda title: quote(title, safe="")),
    "page": _WHOLE,
    "bbox": _Field(
        string.digits + ",",
        r"\s*+,\s*+".join([_run("0-9")] * 4),
        lambda written: tuple(map(int, written.split(","))),
        lambda box: ",".join(map(str, box)),
    ),
}


class TagTemplate:
    """Writes and reads tags of one template, such as ``<image:{number}.{ext}>``; raises ``ValueError`` if it breaks a rule.

    A template is printable ASCII that starts with ``<image:``, ends with its only ``>`` and holds ``{number}``; it may hold
    ``{ext}`` and the fields of ``Details``, each once, separated by a character that neither neighbour can have. The reader
    accepts white space and line breaks between any two characters, since PDF text breaks lines anywhere.
    """

    def __init__(self, template: str = CANONICAL) -> None:
        parts = re.split(r"\{(\w*)\}", template)
        literals, fields = parts[::2], parts[1::2]
        known_once = set(fields) <= _FIELDS.keys() and len(set(fields)) == len(fields)
        if "number" not in fields or not known_once or re.search("[{}]", "".join(literals)):
            field_list = ", ".join(f"{{{name}}}" for name in _FIELDS if name != "number")
            raise ValueError(
                f"a tag template holds {{number}}, may hold {field_list}, each once, and nothing else in braces"
            )
        if not template.startswith("<image:") or not template.endswith(">") or re.search("[<>]", "".join(literals)[1:-1]):
            raise ValueError("a tag template starts with <image: and ends with its only >")
        if not (template.isascii() and template.isprintable()):
            raise ValueError("a tag template is printable ASCII, so that any font can show its tags")
        for before, between, after in zip(fields, literals[1:-1], fields[1:], strict=False):
            alphabets = (_FIELDS[before].alphabet + _FIELDS[after].alphabet).lower() + " "
            if not set(between.lower()) - set(alphabets):
                raise ValueError(
                    f"a tag template needs a character between {{{before}}} and {{{after}}} that neither can have, such as |"
                )
        self.template = template
        self.fields = tuple(fields)
        self._pattern = re.compile(self._forgiving(parts), re.IGNORECASE)

    @staticmethod
    def _forgiving(parts: list[str]) -> str:
        pieces: list[str] = []
        for index, part in enumerate(parts):
            if index % 2:
                pieces.append(f"(?P<{part}>{_FIELDS[part].pattern})")
            else:
                pieces.extend(re.escape(character) for character in part if not character.isspace())
        return r"\s*+".join(pieces)

    def write(self, number: str, ext: str = "png", **details: Unpack[Details]) -> str:
        """Return the tag of ``number``, digits with leading zeros; raises ``ValueError`` if a detail is missing."""
        values: dict[str, Any] = {"number": number, "ext": ext, **details}
        if absent := [name for name in self.fields if name not in values]:
            raise ValueError(f"the tag template {self.template} needs {', '.join(absent)}")
        return self.template.format(**{name: _FIELDS[name].encode(values[name]) for name in self.fields})

    def read(self, text: str) -> list[Tag]:
        """Return the fields of the tags in ``text``, in order, with repeats."""
        return [
            Tag(**{name: _FIELDS[name].decode(_tight(field_text)) for name, field_text in tag_match.groupdict().items()})  # type: ignore[typeddict-item]
            for tag_match in self._pattern.finditer(text)
        ]

    def numbers(self, text: str) -> list[str]:
        """Return the numbers of the tags in ``text``, in order, with repeats."""
        return [_tight(tag_match["number"]) for tag_match in self._pattern.finditer(text)]

    def without(self, text: str) -> str:
        """Return ``text`` without its tags and the white space around them."""
        return strip(self._pattern.sub(placeholder("0" * 64), text))

    def split(self, text: str) -> list[tuple[str, str | None]]:
        """Split ``text``, in order, into ``(words, None)``, never empty, and its tags: ``(tag as written, number)``."""
        parts: list[tuple[str, str | None]] = []
        end = 0
        for tag_match in self._pattern.finditer(text):
            if words := text[end : tag_match.start()]:
                parts.append((words, None))
            parts.append((tag_match[0], _tight(tag_match["number"])))
            end = tag_match.end()
        if words := text[end:]:
            parts.append((words, None))
        return parts


def _tight(text: str) -> str:
    return "".join(text.split())
