"""Text from outside, fit for people: for a terminal, a log, a page.

Names of files and the text of PDFs are anybody's: a newline in them would forge a line, an escape sequence would move the cursor,
and a direction override would turn a name around. What else may hold a secret is an address.
"""

import re

_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f"  # control characters, those of eight bits too
    r"\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates of direction
    r"\u2028\u2029\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # separators of lines, marks within lines, tags
    r"\ud800-\udfff"  # bytes that are no text
)
_LINE = re.compile(f"[{_UNSEEN}]")
_LINES = re.compile(f"(?![\n\t])[{_UNSEEN}]")
_IN_JSON = re.compile(f"(?![\n])[{_UNSEEN}]")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")


def line(text: str) -> str:
    r"""Return a text as one line that shows all it holds: what can't be seen comes as ``\n``, ``\x1b`` or ``\u202e``."""
    return _LINE.sub(_shown, text)


def lines(text: str) -> str:
    """Return a text of several lines, its newlines and tabs kept; all else as ``line`` does."""
    return _LINES.sub(_shown, text)


def json_text(text: str) -> str:
    """Return JSON, indented or not, that means the same and holds nothing that a terminal would act on."""
    return _IN_JSON.sub(_json_escape, text)


def markdown_line(text: str) -> str:
    """Return a text as one line of Markdown that shows it as it is."""
    return re.sub(r"([\\`*<>\[\]|~]|(?<!\w)_|_(?!\w))", r"\\\1", line(text))


def without_secrets(text: str) -> str:
    """Return a text whose addresses have neither user-info nor query: both may hold a password or a key."""
    return _QUERY.sub(r"\1?…", _USER_INFO.sub("…@", text))


def is_plain(text: str) -> bool:
    """Return whether a text is one line that is what it seems."""
    return _LINE.search(text) is None


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _ESCAPES.get(char) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def _json_escape(found: re.Match[str]) -> str:
    return "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in _utf16(found[0]))


def _utf16(char: str) -> list[bytes]:
    data = char.encode("utf-16-be", "surrogatepass")
    return [data[place : place + 2] for place in range(0, len(data), 2)]
