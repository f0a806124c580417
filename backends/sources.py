"""Where PDFs come from: a folder, a glob or an S3 prefix."""

import os
from pathlib import Path

from backends.stores import read_object, s3_client, s3_errors
from schemas.errors import UserError
from schemas.ports import DocumentSource
from schemas.versions import SourceFile

_MAGIC = frozenset("*?[")


def open_source(address: str) -> DocumentSource:
    """Open a folder (every ``.pdf`` below it), a glob, or ``s3://bucket/prefix``."""
    if address.startswith("s3://"):
        return S3Source(address)
    if _MAGIC & set(address):
        return GlobSource(address)
    return FolderSource(Path(address))


def _listed(path: Path, base: Path) -> SourceFile:
    status = path.stat()
    # A name that isn't UTF-8 can't be stored as text: its odd bytes are shown as \xNN, and read() finds it by that.
    name = os.fsencode(path.relative_to(base).as_posix()).decode("utf-8", "backslashreplace")
    return SourceFile(source=name, size=status.st_size, stamp=str(status.st_mtime_ns))


class _FileSource:
    """Files below a base folder, by their path relative to it."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def _files(self) -> list[Path]:
        raise NotImplementedError

    def files(self) -> list[SourceFile]:
        """Return the PDFs, sorted by name, unread."""
        return sorted((_listed(path, self._base) for path in self._files()), key=lambda file: file.source)

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes."""
        path = self._base / source
        if not path.is_file():
            named = {_listed(path, self._base).source: path for path in self._files()}
            path = named.get(source, path)
        return path.read_bytes()


class FolderSource(_FileSource):
    """Every ``.pdf`` below a folder, in any letter case; hidden files are left out."""

    def _files(self) -> list[Path]:
        if not self._base.is_dir():
            raise UserError(
                f"source {self._base} is not a folder; put your PDFs there, or correct 'source' in the corpus file"
            )
        return [path for path in self._base.rglob("*") if _is_pdf(path, self._base)]


class GlobSource(_FileSource):
    """Files that match a glob; names count from the last folder before the first wildcard."""

    def __init__(self, pattern: str) -> None:
        parts = Path(pattern).parts
        fixed = next(index for index, part in enumerate(parts) if _MAGIC & set(part))
        super().__init__(Path(*parts[:fixed]))
        self._pattern = "/".join(parts[fixed:])

    def _files(self) -> list[Path]:
        if not self._base.is_dir():
            raise UserError(f"source {self._base} is not a folder; correct the glob in the corpus file")
        return [path for path in self._base.glob(self._pattern) if path.is_file()]


def _is_pdf(path: Path, base: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(base).parts)
    return path.suffix.lower() == ".pdf" and not hidden and path.is_file()


class S3Source:
    """Every ``.pdf`` below a prefix of a bucket."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._bucket, _, prefix = self._address.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = s3_client()

    def files(self) -> list[SourceFile]:
        """Return the PDFs, sorted by name, unread; the stamp is the ETag."""
        with s3_errors(self._address, ""):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            found = [
                SourceFile(source=item["Key"][len(self._prefix) :], size=item["Size"], stamp=item["ETag"])
                for page in pages
                for item in page.get("Contents", [])
                if item["Key"].lower().endswith(".pdf")
            ]
        return sorted(found, key=lambda file: file.source)

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes."""
        with s3_errors(self._address, source):
            return read_object(self._client, self._bucket, self._prefix + source)[0]
