"""Checksums that stored objects carry, each where its format has room, so that any tool still reads them.

A document's name digests its bytes, and a figure's its pixels; a JSON object holds the digest of what stands before it, and a
Parquet file that of its other bytes (``schemas.parquet``); a tagged copy ends with a comment. What was written before there
were checksums carries none and is taken as it is.
"""

import io
import re
import warnings
from typing import TypeVar

from schemas.errors import DamagedError
from schemas.ids import figure_id, sha256
from schemas.parquet import check_parquet

_DOCUMENT = re.compile(r"(?:.*/)?documents/([0-9a-f]{64})\.pdf")
_FIGURE = re.compile(r"(?:.*/)?figures/([0-9a-f]{64})\.png")
_TAGGED = re.compile(r"(?:.*/)?tagged/.*\.pdf")

_KEY = b'"sha256":"'
_COMMENT = b"\n%inset-sha256 "
_COMMENT_BYTES = len(_COMMENT) + 65

_CHANGED = "isn't what was written: its bytes have another digest than it says"


def sealed(name: str, data: bytes) -> bytes:
    """Return an object's bytes with their checksum; as they are where the name says it all, or the format has no room."""
    if _TAGGED.fullmatch(name):
        return data + _COMMENT + sha256(data).encode() + b"\n"
    if _is_json(name) and data.endswith(b"}"):
        body = data[:-1].rstrip()
        comma = b"" if body == b"{" else b","
        return body + comma + _KEY + sha256(body).encode() + b'"}'
    return data


def unsealed(name: str, data: bytes) -> bytes:
    """Return what ``sealed`` was given.

    Raises:
        ValueError: The bytes aren't what was written; the message says what is wrong with them.
    """
    if not data and is_checked(name):
        raise ValueError("is empty")
    if found := _DOCUMENT.fullmatch(name):
        _expect(sha256(data) == found[1], "isn't what was written: its name is another digest than its bytes'")
    elif found := _FIGURE.fullmatch(name):
        _check_pixels(data, found[1])
    elif name.endswith(".parquet"):
        check_parquet(data)
    elif _TAGGED.fullmatch(name):
        return _unsealed_comment(data)
    elif _is_json(name):
        return _unsealed_json(data)
    return data


def is_checked(name: str) -> bool:
    """Return whether reading an object of that name finds out whether it is what was written."""
    known = (_DOCUMENT, _FIGURE, _TAGGED)
    return name.endswith(".parquet") or _is_json(name) or any(kind.fullmatch(name) for kind in known)


Fault = TypeVar("Fault", bound=DamagedError)


def damage(kind: type[Fault], root: str, name: str, fault: str) -> Fault:
    """Return the error that names a damaged object of a corpus's store, and the way back."""
    corpus = root.rstrip("/").rpartition("/")[2]
    remedy = f"to make it again: inset refresh {corpus}"
    if name == "LIVE":
        remedy = f"to restore it: inset refresh {corpus}, or choose a version: inset publish {corpus} VERSION"
    return kind(f"{root}/{name} {fault}; {remedy}", name)


def _is_json(name: str) -> bool:
    return name.endswith(".json") or name.rpartition("/")[2] in ("LIVE", "LIVE.copy", "LEASE")


def _expect(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)


# ---- JSON: a last member, over all that stands before it ----


def _unsealed_json(data: bytes) -> bytes:
    body, key, digest, end = data[:-76], data[-76:-66], data[-66:-2], data[-2:]
    body = body.removesuffix(b",")
    # Where the key itself was changed, what it names still is the digest: the member is one of ours all the same.
    if key != _KEY and digest != sha256(body).encode():
        _expect(data[:1] != b"{" or data.rstrip()[-1:] == b"}", "is cut short")
        return data
    _expect(key == _KEY and end == b'"}' and digest == sha256(body).encode(), _CHANGED)
    return body + b"}"


# ---- PDF: a comment behind the end ----


def _unsealed_comment(data: bytes) -> bytes:
    body, mark, digest = data[:-_COMMENT_BYTES], data[-_COMMENT_BYTES:-65], data[-65:-1]
    if mark != _COMMENT:
        _expect(data.rstrip().endswith(b"%%EOF"), "is cut short")
        return data
    _expect(sha256(body).encode() == digest, _CHANGED)
    return body


def _check_pixels(data: bytes, name: str) -> None:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Its pixels were bounded when the figure was stored; this is no upload.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                image.verify()  # the checksums of the parts, which decoding passes over
            with Image.open(io.BytesIO(data)) as image:
                found = figure_id(image.width, image.height, image.convert("RGB").tobytes())
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError("can't be decoded") from error
    _expect(found == name, "isn't what was written: its name is another digest than its pixels'")
