"""Image Localization Tags: the one grammar that names a figure inside text.

Text lives in three forms. While a document is processed, figures stand in it as *placeholders* by ``figure_id``, because
a tag's number depends on the other figures of the version. ``assemble`` writes *tags*. What BM25 and the embedder see
carries neither. Text of a PDF that merely looks like a tag or a placeholder is *escaped* on the way in, so that no
document can forge a figure.

Source: "RAG Beyond Text" (image localization tags); decision 0004.
"""

import re
from collections.abc import Callable

CANONICAL = "<image:{number}.{ext}>"
PAPER = "<image: filename({number}.{ext})>"

DIGITS_DEFAULT = 8
DIGITS_MOST = 48  # a SHA-1 has 49 decimal digits

_PLACEHOLDER = re.compile("\ue000([0-9a-f]{64})\ue001")
_PRIVATE = re.compile("[\ue000\ue001]")
# Whatever starts like a tag, in any case and spacing, is a look-alike when it comes out of a PDF.
_OPENING = r"(?=\s*i\s*m\s*a\s*g\s*e\s*:)"
_LOOKALIKE = re.compile(f"<{_OPENING}", re.IGNORECASE)
_ESCAPED = re.compile(f"<\u2060{_OPENING}", re.IGNORECASE)


def placeholder(figure_id: str) -> str:
    """Return the stand-in of a figure in text that is not yet assembled."""
    return f"\ue000{figure_id}\ue001"


def placeholders(text: str) -> list[str]:
    """Return the figure ids that stand in ``text``, in order, repeats included."""
    return _PLACEHOLDER.findall(text)


def fill(text: str, write: Callable[[str], str]) -> str:
    """Replace each placeholder by ``write(figure_id)``."""
    return _PLACEHOLDER.sub(lambda found: write(found[1]), text)


def strip(text: str) -> str:
    """Return ``text`` without placeholders, the white space they leave behind closed up."""
    lines = (
        line for line in text.split("\n") if not (_PLACEHOLDER.search(line) and not _PLACEHOLDER.sub("", line).strip())
    )
    return re.sub(r"[ \t]{2,}", " ", _PLACEHOLDER.sub("", "\n".join(lines))).strip()


def escape(text: str) -> str:
    """Disarm text of a document that looks like a tag or a placeholder; ``restore`` undoes it.

    A WORD JOINER (U+2060, invisible and of no width) is set behind the angle bracket. Private-use marks of the
    placeholder are replaced by U+FFFD, since no font shows them anyway.
    """
    return _LOOKALIKE.sub("<\u2060", _PRIVATE.sub("\ufffd", text))


def restore(text: str) -> str:
    """Undo ``escape`` on look-alike tags, for showing a document's own words to a person."""
    return _ESCAPED.sub("<", text)


class TagTemplate:
    """Writes and reads tags by one template, such as ``<image:{number}.{ext}>``.

    The writer never varies; the reader forgives white space and line breaks between any two characters that aren't
    both digits, and between digits too, because PDF text breaks lines anywhere.

    Args:
        template: Must hold ``{number}`` exactly once and start with ``<image:``; may hold ``{ext}``.

    Raises:
        ValueError: The template holds an unknown field, or no number.
    """

    def __init__(self, template: str = CANONICAL) -> None:
        fields = re.findall(r"\{(\w*)\}", template)
        if fields.count("number") != 1 or set(fields) - {"number", "ext"} or fields.count("ext") > 1:
            raise ValueError("a tag template holds {number} once, may hold {ext} once, and nothing else in braces")
        if not template.startswith("<image:") or not template.endswith(">") or "<" in template[1:] or ">" in template[:-1]:
            raise ValueError("a tag template starts with <image: and ends with its only >")
        self.template = template
        self._pattern = re.compile(self._forgiving(template), re.IGNORECASE)

    @staticmethod
    def _forgiving(template: str) -> str:
        pieces: list[str] = []
        for part in re.split(r"(\{number\}|\{ext\})", template):
            if part == "{number}":
                pieces.append(r"(?P<number>\d(?:\s*\d)*)")
            elif part == "{ext}":
                pieces.append(r"[a-z](?:\s*[a-z0-9])*")
            else:
                pieces.extend(re.escape(character) for character in part if not character.isspace())
        return r"\s*".join(pieces)

    def write(self, number: str, ext: str = "png") -> str:
        """Return the tag of ``number``, digits with their leading zeros."""
        return self.template.format(number=number, ext=ext)

    def numbers(self, text: str) -> list[str]:
        """Return the numbers of the tags in ``text``, in order, repeats included."""
        return [self._number(found) for found in self._pattern.finditer(text)]

    def split(self, text: str) -> list[tuple[str, str | None]]:
        """Cut ``text`` at its tags.

        Returns:
            ``(words, None)`` for text and ``(tag as written in the text, number)`` for tags, in order; no empty words.
        """
        parts: list[tuple[str, str | None]] = []
        end = 0
        for found in self._pattern.finditer(text):
            if words := text[end : found.start()]:
                parts.append((words, None))
            parts.append((found[0], self._number(found)))
            end = found.end()
        if words := text[end:]:
            parts.append((words, None))
        return parts

    @staticmethod
    def _number(found: re.Match[str]) -> str:
        return re.sub(r"\s", "", found["number"])
