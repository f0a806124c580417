"""Sources of documents: a folder, a glob or an S3 prefix.

A listing is complete or an error, since documents missing from it leave the index. An unreadable file is listed with the reason.
"""

import contextlib
import errno
import fnmatch
import hashlib
import io
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from backends.stores.s3_store import S3Store, read_object, s3_errors
from schemas.base import addresses_of
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.formats import FORMATS, ending, sorted_documents
from schemas.ids import sha256
from schemas.ports import DocumentSource
from schemas.versions import SourceFile

_MAGIC = frozenset("*?[")


def open_source(address: str) -> DocumentSource:
    """Open a folder (every document below it), a glob, ``s3://bucket/prefix``, another address of ``open_place``, or several.

    An existing folder's name isn't a glob.
    """
    if addresses := addresses_of(address):
        return CombinedSource({name: open_source(part) for name, part in addresses.items()})
    if address.startswith("s3://"):
        return S3Source(address)
    if "://" in address and not address.startswith("file://"):
        from backends.stores.places import open_place  # few corpora need it

        return open_place(address)
    if _MAGIC & set(address) and not _is_folder(Path(address)):
        return GlobSource(address)
    return FolderSource(Path(address))


def overlaps(source: str, store: str) -> bool:
    """Return whether a source lies in a store, or would list stored files; hidden folders aren't listed."""
    if addresses := addresses_of(source):
        return any(overlaps(part, store) for part in addresses.values())
    if "://" in source.removeprefix("file://") or store.startswith("s3://"):
        source_prefix, store_prefix = (f"{address.rstrip('/')}/" for address in (source, store))
        return source_prefix.startswith(store_prefix) or store_prefix.startswith(source_prefix)
    # A glob such as ``/data/**/*.pdf`` may list stored originals, for which a path in some corpus stands.
    files, store_folder = open_source(source), _resolved_links(Path(store.removeprefix("file://")))
    return isinstance(files, _FileSource) and (
        _resolved_links(files.base).is_relative_to(store_folder)
        or files.lists(store_folder / "corpus" / "documents" / "document.pdf")
    )


class CombinedSource:
    """Several sources, by name: the name of a document begins with that of its source."""

    def __init__(self, sources: Mapping[str, DocumentSource]) -> None:
        self._sources = sources

    def files(self) -> list[SourceFile]:
        """Return the documents of all sources, sorted by name; errors are those of any of them."""
        return sorted_documents(
            replace(file, source=f"{name}/{file.source}")
            for name, source in self._sources.items()
            for file in source.files()
        )

    def digest(self, source: str) -> tuple[str, int]:
        """Return the SHA-256 of a document, and its size."""
        part, name = self._part_of(source)
        return part.digest(name)

    def read(self, source: str) -> bytes:
        """Return a document's bytes."""
        part, name = self._part_of(source)
        return part.read(name)

    def _part_of(self, source: str) -> tuple[DocumentSource, str]:
        name, _, below = source.partition("/")
        if name not in self._sources:
            raise FileNotFoundError(f"there is no source {name} any more")
        return self._sources[name], below


def _is_folder(path: Path | os.DirEntry[str]) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a loop of links, or no permission
        return False


def _resolved_links(path: Path) -> Path:
    """Resolve links; unlike ``Path.resolve``, loops don't raise."""
    return Path(os.path.realpath(path))


class _FileSource:
    r"""Files below a base folder that match a pattern, by relative path.

    ``**`` matches any folders except links. Bytes of a name that aren't UTF-8 become ``\xNN``, and so does a backslash that
    looks like such an escape. ``base`` is the folder that names are relative to.
    """

    def __init__(self, base: Path, pattern: tuple[str, ...], *, hidden: bool) -> None:
        self.base, self._pattern, self._hidden = base, pattern, hidden

    def files(self) -> list[SourceFile]:
        """Return the PDFs, sorted by name, without reading them.

        Raises ``UserError`` where a folder is missing or can't be read, ``TransientError`` where one changed meanwhile or
        its disk doesn't answer.
        """
        return sorted_documents(self._listed())

    def lists(self, path: Path) -> bool:
        """Return whether ``files`` would include a file at this path, links resolved."""
        try:
            parts = path.relative_to(_resolved_links(self.base)).parts
        except ValueError:
            return False
        states = {self._pattern}
        for name in parts[:-1]:
            states = self._below(states, name, is_folder=True)
        return self._is_wanted(states, parts[-1]) if parts else False

    def name_of(self, path: Path) -> str:
        """Return the name of a file directly in the base folder."""
        return _as_text(path.name)

    def digest(self, source: str) -> tuple[str, int]:
        """Return the SHA-256 of a PDF, and its size."""
        with self._opened(source) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes."""
        with self._opened(source) as file:
            return file.read()

    def _listed(self) -> Iterator[SourceFile]:
        # Each folder is listed once, with the ends of the pattern that may still match below it: ``**`` leaves several.
        waiting = [("", {self._pattern})]
        while waiting:
            below, states = waiting.pop()
            with self._listing_errors(below), os.scandir(self.base / below) as folder:
                entries = list(folder)
            for entry in entries:
                name = f"{below}{entry.name}"
                with self._listing_errors(below):
                    is_link = entry.is_symlink()
                    is_folder = _is_folder(entry) if is_link else entry.is_dir()
                if is_folder:
                    inner = self._below(states, entry.name, is_folder=not is_link)
                    if inner:
                        waiting.append((f"{name}/", inner))
                elif self._is_wanted(states, entry.name):
                    with self._listing_errors(below):
                        source_file = _source_file(entry, is_link, _as_text(name))
                    if source_file is not None:
                        yield source_file

    @contextlib.contextmanager
    def _listing_errors(self, below: str) -> Iterator[None]:
        """Fail the whole listing where a folder can't be listed."""
        folder = self.base / below
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            if below:
                raise TransientError(f"source folder {folder} went away while it was listed; refresh again") from error
            raise UserError(
                f"source {folder} is not a folder; put your PDFs there, or correct 'source' in the corpus file"
            ) from error
        except PermissionError as error:
            raise UserError(
                f"source folder {folder} can't be listed: {error.strerror}; without it, removed documents can't be told "
                f"from unreadable ones, so make it readable for this user, or move it elsewhere"
            ) from error
        except OSError as error:
            raise TransientError(f"source folder {folder} can't be listed: {error.strerror}; refresh again") from error

    def _below(self, states: set[tuple[str, ...]], name: str, *, is_folder: bool) -> set[tuple[str, ...]]:
        """Return the remaining pattern states in a folder; ``is_folder`` is False for a link, which ``**`` skips."""
        if name.startswith(".") and not self._hidden:
            return set()
        inner = {
            pattern[1:] for pattern in _matchable(states) if len(pattern) > 1 and fnmatch.fnmatchcase(name, pattern[0])
        }
        return inner | ({pattern for pattern in states if pattern[0] == "**"} if is_folder else set())

    def _is_wanted(self, states: set[tuple[str, ...]], name: str) -> bool:
        if name.startswith(".") and not self._hidden:
            return False
        return any(len(pattern) == 1 and fnmatch.fnmatchcase(name, pattern[0]) for pattern in _matchable(states))

    @contextlib.contextmanager
    def _opened(self, source: str) -> Iterator[io.BufferedReader]:
        path = self.base / _as_name(source)
        try:
            # Opening a FIFO would block until there is a writer.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                kind = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(kind):
                    raise BadInputError(_not_a_file(kind), FailureCode.SOURCE_UNREADABLE)
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(errno.ENOENT, "it went away", source) from error
        except IsADirectoryError as error:
            raise BadInputError(_not_a_file(stat.S_IFDIR), FailureCode.SOURCE_UNREADABLE) from error
        except OSError as error:
            raise BadInputError(_unreadable(error), FailureCode.SOURCE_UNREADABLE) from error


class FolderSource(_FileSource):
    """Every document below a folder, by the ending of its name in any letter case, except hidden files and folders."""

    def __init__(self, base: Path) -> None:
        super().__init__(base, ("**", "*"), hidden=False)

    def _is_wanted(self, states: set[tuple[str, ...]], name: str) -> bool:
        return ending(name) in FORMATS and super()._is_wanted(states, name)


class GlobSource(_FileSource):
    """Files that match a glob, relative to the last folder before the first wildcard."""

    def __init__(self, pattern: str) -> None:
        parts = Path(pattern).parts
        magic = [index for index, part in enumerate(parts) if _MAGIC & set(part)]
        # A part with a wildcard may be the name of a folder, such as ``manuals [2024]``.
        fixed = next((index for index in magic if not _is_folder(Path(*parts[: index + 1]))), len(parts) - 1)
        super().__init__(Path(*parts[:fixed]), parts[fixed:], hidden=True)


def _matchable(states: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return the patterns to match names with: a ``**`` may match no folder."""
    return {tuple(itertools.dropwhile(lambda part: part == "**", pattern)) for pattern in states} - {()}


def _source_file(entry: os.DirEntry[str], is_link: bool, name: str) -> SourceFile | None:
    """Return a file's listing; None if it disappeared meanwhile."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return SourceFile(name, 0, "", "it is a link to a file that isn't there") if is_link else None
    except PermissionError as error:
        if not is_link:
            raise  # the folder allows listing names and nothing else
        return SourceFile(name, 0, "", _unreadable(error))
    except OSError as error:
        return SourceFile(name, 0, "", _unreadable(error))
    if not stat.S_ISREG(status.st_mode):
        return SourceFile(name, 0, "", _not_a_file(status.st_mode))
    # A copy may keep the size and the modification time of the file that it replaces, never the change time.
    return SourceFile(name, status.st_size, f"{status.st_mtime_ns} {status.st_ctime_ns}")


def _unreadable(error: OSError) -> str:
    return f"the file can't be read: {error.strerror or error}; make it readable for this user, or move it elsewhere"


def _not_a_file(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return f"it is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file; move it elsewhere"


_BYTE = re.compile(r"\\x([0-9a-f]{2})")


def _as_text(name: str) -> str:
    r"""Return a file's name as text; unique, since a backslash that looks like an escape is escaped itself: \x5c."""
    return _BYTE.sub(r"\\x5cx\1", name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _as_name(text: str) -> str:
    parts = _BYTE.split(text)
    data = [bytes([int(part, 16)]) if index % 2 else part.encode() for index, part in enumerate(parts)]
    return os.fsdecode(b"".join(data))


class S3Source:
    """Every document below a prefix of a bucket, by the ending of its name."""

    def __init__(self, address: str) -> None:
        self._store = S3Store(address)

    def files(self) -> list[SourceFile]:
        """Return the PDFs, sorted by name, without reading them; the stamp is the ETag.

        Raises ``UserError`` where S3 refuses the listing, ``TransientError`` if it doesn't answer or breaks off.
        """
        return sorted_documents(
            SourceFile(name, entry["Size"], entry["ETag"])
            for name, entry in self._store.objects("")
            if ending(name) in FORMATS
        )

    def digest(self, source: str) -> tuple[str, int]:
        """Return the SHA-256 of a PDF, and its size."""
        data = self.read(source)
        return sha256(data), len(data)

    def read(self, source: str) -> bytes:
        """Return a PDF's bytes."""
        store = self._store
        with s3_errors(store.root, source), _object_errors():
            return read_object(store.client, store.bucket, store.prefix + source)[0]


@contextlib.contextmanager
def _object_errors() -> Iterator[None]:
    """Turn a refusal of one object into its failure, since the bucket itself can be listed."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code not in ("AccessDenied", "403", "InvalidObjectState"):
            raise
        message = f"S3 refuses the object ({code}); give these credentials access, or restore it from its archive"
        raise BadInputError(message, FailureCode.SOURCE_UNREADABLE) from error
