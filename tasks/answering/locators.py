"""Pages, figures and tables that a question names by number."""

import re

Label = tuple[str, str]
"""Kind, such as ``figure``, and number as printed, such as ``3-2``."""

MOST_PAGES = 30
"""Maximum length of a range of pages; a longer one, as in "pages 1 to 300", is ignored."""

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_KINDS = {
    "fig": "figure",
    "figure": "figure",
    "table": "table",
    "chart": "chart",
    "exhibit": "exhibit",
    "diagram": "diagram",
}

_NUMBERED = re.compile(
    r"\b(?:pages?|slides?|pp?\.)\s*(?:no\.?\s*|number\s*)?(\d{1,4})"
    r"(?:\s*(?:-|–|to|through|and)\s*(?:pages?\s*|slides?\s*)?(\d{1,4}))?\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"\b({'|'.join(_ORDINALS)}|\d{{1,4}}(?:st|nd|rd|th))\s+(?:page|slide)\b", re.IGNORECASE)
_LABEL = re.compile(rf"\b({'|'.join(_KINDS)})s?\b\.?\s*([A-Z]?\d+(?:[.-]\d+)*)\b", re.IGNORECASE)


def pages_named(question: str) -> set[int]:
    """Return the pages that a question names: "page 14", "slides 3 to 5", "the second page"; from 1."""
    pages: set[int] = set()
    for match in _NUMBERED.finditer(question):
        first, last = int(match[1]), int(match[2] or match[1])
        pages |= set(range(first, last + 1)) if first <= last < first + MOST_PAGES else {first, last}
    for match in _COUNTED.finditer(question):
        word = match[1].lower()
        pages.add(_ORDINALS.index(word) + 1 if word in _ORDINALS else int(word[:-2]))
    return pages - {0}


def labels_named(question: str) -> set[Label]:
    """Return the figures and tables that a question names by number: "Figure 3-2", "table 4"."""
    return {_label(match) for match in _LABEL.finditer(question)}


def label_of(caption: str) -> Label | None:
    """Return the label at the start of a caption; None without one."""
    match = _LABEL.match(caption.lstrip())
    return _label(match) if match else None


def _label(match: re.Match[str]) -> Label:
    return _KINDS[match[1].lower()], match[2].lower()
