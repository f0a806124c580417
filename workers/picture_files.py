"""Keep pictures of pages in a folder of bounded size, which several processes may share."""

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from schemas.ids import sha256

MOST_BYTES = 1 << 30
"""Default bytes of all pictures, some 5,000 pages at 110 dpi."""

_KEPT = 0.9
"""Share of the bytes that is left when there are too many."""
_COUNTED = 0.02
"""Share of the bytes that this process writes before it counts again what all processes wrote."""
_DIGEST = 64
_SUFFIX = ".page"
_logger = logging.getLogger("inset.pages")


class PictureFiles:
    """Pictures by key; the least recently used are removed first. Thread-safe, and safe among processes.

    ``folder`` is made if it is missing, readable by this user alone. If it can't be read or written, pictures aren't kept,
    and the log says so once. ``most_bytes`` are those of all pictures.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._lock = threading.Lock()
        self._written = float("inf")  # so that the first picture counts what is there
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """Return a picture; None if there is none, or a damaged one, which is removed."""
        file = self._file(key)
        with self._failing():
            try:
                file_bytes = file.read_bytes()
            except FileNotFoundError:
                return None
            digest, picture = file_bytes[:_DIGEST], file_bytes[_DIGEST:]
            if sha256(picture).encode() == digest:
                # The time of the last use decides which pictures go first.
                os.utime(file)
                return picture
            file.unlink(missing_ok=True)
        return None

    def put(self, key: str, picture: bytes) -> None:
        """Keep a picture."""
        file = self._file(key)
        with self._failing():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(_SUFFIX, dir=file.parent)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(sha256(picture).encode() + picture)
                Path(name).replace(file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._bound(len(picture))

    def remove_older(self, moment: datetime) -> None:
        """Remove the pictures that were last used before a moment."""
        with self._failing():
            for file in self._folder.glob(f"??/*{_SUFFIX}"):
                with contextlib.suppress(FileNotFoundError):  # another process has removed it
                    if file.stat().st_mtime < moment.timestamp():
                        file.unlink()

    def _bound(self, added_bytes: int) -> None:
        with self._lock:
            self._written += added_bytes
            if self._written <= self._most_bytes * _COUNTED:
                return
            self._written = 0
        files_by_age = []
        for file in self._folder.glob(f"??/*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                about = file.stat()
                files_by_age.append((about.st_mtime_ns, about.st_size, file))
        total = sum(size for _, size, _ in files_by_age)
        if total <= self._most_bytes:
            return
        for _, size, file in sorted(files_by_age):
            file.unlink(missing_ok=True)
            total -= size
            if total <= self._most_bytes * _KEPT:
                return

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._warned:
                self._warned = True
                _logger.warning("pictures of pages aren't kept in %s: %s", self._folder, error.strerror or error)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}{_SUFFIX}"
