"""Untrusted text made safe for a terminal, a log or a page.

File names and text of PDFs may hold newlines, escape sequences and direction overrides; addresses may hold secrets.
"""

import re
from collections.abc import Sequence

_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f"  # control characters, those of eight bits too
    r"\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates of direction
    r"\u2028\u2029\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # separators of lines, marks within lines, tags
    r"\ud800-\udfff"  # bytes that aren't text
)
_LINE = re.compile(f"[{_UNSEEN}]")
_LINES = re.compile(f"(?![\n\t])[{_UNSEEN}]")
_IN_JSON = re.compile(f"(?![\n])[{_UNSEEN}]")
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")


def line(text: str) -> str:
    r"""Return a text as one line, with invisible characters as ``\n``, ``\x1b`` or ``\u202e``."""
    return _LINE.sub(_shown, text)


def lines(text: str) -> str:
    """Return a text with newlines and tabs kept; the rest as ``line``."""
    return _LINES.sub(_shown, text)


def json_text(text: str) -> str:
    """Return equivalent JSON without characters that a terminal interprets."""
    return _IN_JSON.sub(_json_escape, text)


def markdown_line(text: str) -> str:
    """Return a text as one line of Markdown that shows it as it is."""
    return re.sub(r"([\\`*<>\[\]|~]|(?<!\w)_|_(?!\w))", r"\\\1", line(text))


def listed(names: Sequence[str], most: int) -> str:
    """Return names in a line: the first ones, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def without_secrets(text: str) -> str:
    """Return a text whose addresses have no user info and no query."""
    return _QUERY.sub(r"\1?…", _USER_INFO.sub("…@", text))


def is_plain(text: str) -> bool:
    """Return whether a text is one line of visible characters."""
    return _LINE.search(text) is None


def _shown(char_match: re.Match[str]) -> str:
    return char_match[0].encode("unicode_escape").decode()


def _json_escape(char_match: re.Match[str]) -> str:
    digits = char_match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{digits[start : start + 4]}" for start in range(0, len(digits), 4))
