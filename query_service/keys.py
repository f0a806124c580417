"""API keys in a file: one JSON object a line, as ``inset key`` prints it; empty lines and comments (``#``) are ignored.

The file is read again when it has changed. One that is missing or wrong then, such as a half-written one, leaves the keys as
they were. A key is 256 random bits, so one SHA-256 of it is enough: slow password hashes are for what a dictionary may hold.
"""

import hashlib
import hmac
import json
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field, ValidationError
from pydantic.functional_validators import AfterValidator

from schemas.access import principal
from schemas.base import Frozen
from schemas.errors import UserError

EVERY = "*"
"""The scope of a key for all corpora."""

KEY_PREFIX = "inset_"
"""Lets scanners of repositories recognise a key."""

PER_MINUTE = 6_000
CONCURRENT = 64
"""Default requests a minute, and at once, of a key, a user, or an address other than loopback: more than pages and clients of
one person or program send, and less than what keeps others waiting."""

NAME_LIMIT = 100
"""Maximum characters of a name."""

_logger = logging.getLogger("inset.query_service")


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("a name has printable characters only, and no space at either end")
    return name


def _as(name: str) -> str:
    return name if name == EVERY else principal(name)


class Key(Frozen):
    """A line of the key file."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT), AfterValidator(_printable)]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the key, in hexadecimal.")
    corpora: tuple[str, ...] = Field((), description="Corpora that it may see; * for all.")
    principals: tuple[Annotated[str, AfterValidator(_as)], ...] | None = Field(
        None,
        description="As whom it reads corpora that limit their readers, such as group:service; * sees every document. null: "
        "as the user whom a proxy names, or else what everyone may see.",
    )
    expires: AwareDatetime | None = Field(None, description="From when it is refused; null: never.")
    metrics: bool = Field(False, strict=True, description="Whether it may read /metrics.")
    per_minute: int | None = Field(None, strict=True, gt=0, description=f"Requests a minute; null: {PER_MINUTE}.")
    concurrent: int | None = Field(None, strict=True, gt=0, description=f"Requests at once; null: {CONCURRENT}.")


def new_key() -> str:
    """Return a new key: 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """Return what the key file keeps of a key."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


class KeyFile:
    """The keys of a file, read again when it has changed; raises as ``read_keys`` does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._keys = read_keys(path)

    def keys(self) -> Sequence[Key]:
        """Return the keys as the file has them, or had them when it was last whole."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp  # before reading, so that a change meanwhile is seen the next time
            try:
                self._keys = read_keys(self._path)
                _logger.info("the key file has changed: %d keys", len(self._keys))
            except UserError as error:
                _logger.error("%s; the keys stay as they were", error.message)
        return self._keys

    def find(self, key: str) -> Key | None:
        """Return the entry of a key, expired or not."""
        key_digest, matching = digest(key), None
        for entry in self.keys():  # all of them, so that the time doesn't depend on which matches
            if hmac.compare_digest(entry.sha256, key_digest):
                matching = entry
        return matching


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file.

    Raises:
        UserError: It is missing or wrong. The message quotes nothing of it, since someone may have put a key there.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise UserError(f"key file {path}: {error.strerror}; make a key with: inset key NAME --corpora CORPUS") from error
    except UnicodeDecodeError as error:
        raise UserError(f"key file {path} is not UTF-8") from error
    keys: list[Key] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            keys.append(_parse(line, f"key file {path}, line {number}"))
    times = Counter(key.sha256 for key in keys)
    if repeated_names := {key.name for key in keys if times[key.sha256] > 1}:
        names = ", ".join(sorted(repeated_names))
        raise UserError(f"key file {path}: the same key is there twice ({names}); remove one of the lines")
    return keys


def _parse(line: str, line_name: str) -> Key:
    try:
        return Key.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        # A field's name may be a key that was written there by mistake.
        mistake = (
            f"{field}: {first['msg']}" if field.partition(".")[0] in Key.model_fields else first["type"].replace("_", " ")
        )
        raise UserError(f"{line_name}: {mistake}; write the line that inset key prints") from None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def key_line(key: Key) -> str:
    """Return a key's line of the key file."""
    return json.dumps(key.model_dump(mode="json", exclude_defaults=True))
