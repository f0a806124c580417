"""Open an object store; the one in a folder."""

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import tenacity

from backends.stores.checked_store import CheckedStore, checked_name
from backends.stores.objects import damage, sealed
from backends.stores.s3_store import S3Store
from schemas.errors import DamagedError, MissingError, TransientError, UserError
from schemas.ids import sha256
from schemas.ports import ObjectStore

_PARTIAL = ".part-"


def open_store(address: str) -> ObjectStore:
    """Open the store at a folder, a ``file://`` address or ``s3://bucket/prefix``; nothing is created."""
    if address.startswith("s3://"):
        return S3Store(address)
    return FolderStore(Path(address.removeprefix("file://")))


class FolderStore(CheckedStore):
    """Objects as files, written atomically and synced; swaps hold a file lock."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def __reduce__(self) -> tuple[type["FolderStore"], tuple[Path]]:
        return FolderStore, (self._root,)

    @property
    def root(self) -> str:
        """The folder."""
        return str(self._root)

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)

    def open(self, name: str) -> BinaryIO:
        """Open a file for partial reads."""
        if (stored := self._remembered(name)) is not None:
            return io.BytesIO(stored)
        try:
            return self._path(name).open("rb")
        except OSError as error:
            raise self._read_error(name, error) from error

    def replace(self, name: str, data: bytes) -> None:
        """Write an object over an existing one."""
        self.forget(name)
        self._write(self._path(name), sealed(name, data))
        self._remember(name, data)

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        with _folder_errors(self._path(name)):
            return self._remembered(name) is not None or self._path(name).is_file()

    def listing(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield names and sizes of all files below a folder; raises ``UserError`` if one below can't be read."""
        for name, entry in self._walk(prefix):
            if not entry.name.startswith(_PARTIAL):
                try:
                    size = entry.stat().st_size
                except FileNotFoundError:
                    continue
                yield name, size

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file."""
        if (stored := self._remembered(name)) is not None:
            return sha256(stored)
        try:
            with self._path(name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise self._read_error(name, error) from error

    def abandoned(self, prefix: str) -> list[str]:
        """Return the partial files of dead writers below a folder."""
        partial = (name for name, entry in self._walk(prefix) if entry.name.startswith(_PARTIAL))
        return sorted(name for name in partial if _is_abandoned(self._root / name))

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below a folder."""
        try:
            with _folder_errors(self._path(prefix)), os.scandir(self._path(prefix)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, name: str) -> None:
        """Delete an object, and folders that become empty."""
        self.forget(name)
        path = self._path(name)
        with _folder_errors(path):
            path.unlink(missing_ok=True)
        # Up to the first folder that holds something else, and never the root.
        for parent in path.relative_to(self._root).parents[:-1]:
            try:
                (self._root / parent).rmdir()
            except OSError:
                return

    def etag(self, name: str) -> str | None:
        """Return the digest of a mutable object's file."""
        try:
            return sha256(self._read(name))
        except FileNotFoundError:
            return None

    def age_s(self, name: str) -> float | None:
        """Return the seconds between the writing of a file and that of a temporary one beside it."""
        path = self._path(name)
        try:
            with _folder_errors(path), tempfile.TemporaryFile(dir=path.parent) as file:
                return os.fstat(file.fileno()).st_mtime - path.stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write under a file lock if the ETag is still the expected one."""
        self.forget(name)
        with self._locked(name):
            if self.etag(name) != expected:
                return False
            self._write(self._path(name), sealed(name, data))
            return True

    def _read(self, name: str) -> bytes:
        try:
            return self._path(name).read_bytes()
        except OSError as error:
            raise self._read_error(name, error) from error

    def _read_with_etag(self, name: str) -> tuple[bytes, str]:
        stored = self._read(name)
        return stored, sha256(stored)

    def _read_error(self, name: str, error: OSError) -> DamagedError:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return damage(MissingError, self.root, name, "is missing")
        if isinstance(error, PermissionError):
            return DamagedError(
                f"{self.root}/{name} can't be read: permission denied; make it readable for this user", name
            )
        return damage(DamagedError, self.root, name, f"can't be read: {error.strerror}")

    def _walk(self, prefix: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
        """Yield every file below a folder with its name; files that disappear meanwhile are skipped."""
        folder = self._path(prefix)
        below = "" if folder == self._root else f"{folder.relative_to(self._root).as_posix()}/"
        try:
            with _folder_errors(folder), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._walk(f"{below}{entry.name}")
                    elif entry.is_file():
                        yield f"{below}{entry.name}", entry
        except (FileNotFoundError, NotADirectoryError):
            return

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        path = self._path(f"{name}.lock")
        _make_folder(path.parent)
        with _folder_errors(path):
            file = path.open("a")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        try:
            _write_once(path, data)
        except FileNotFoundError as error:
            raise TransientError(
                f"can't write {path}: its folder is removed again and again; trying again may help"
            ) from error


# Deleting the last object of a folder deletes the folder, maybe between two steps of a write.
@tenacity.retry(
    retry=tenacity.retry_if_exception_type(FileNotFoundError), stop=tenacity.stop_after_attempt(5), reraise=True
)
def _write_once(path: Path, data: bytes) -> None:
    _make_folder(path.parent)
    with _folder_errors(path):
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                # A dead process holds no lock, which marks its partial file as abandoned.
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(data)
                # On the disk before it has its name, so that not even a power failure leaves the name with a part of
                # the bytes.
                file.flush()
                os.fsync(file.fileno())
                Path(partial).replace(path)
            _sync(path.parent)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _folder_errors(path: Path) -> Iterator[None]:
    """Translate file system errors: the user's mistake, or transient. Missing files stay ``FileNotFoundError``."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except PermissionError as error:
        raise UserError(
            f"{path}: permission denied; give this user the right to read and write there, or choose another store"
        ) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise TransientError(
                f"{path}: the file system is read-only; make it writable, or choose another store"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TransientError(f"can't write {path}: {error.strerror}; make room there, then try again") from error
        raise TransientError(f"{path}: {error.strerror or error}; trying again may help") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and sync its name to the disk."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for missing_folder in reversed(missing):
        try:
            with _folder_errors(missing_folder):
                missing_folder.mkdir(exist_ok=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(
                f"{missing_folder}: this folder does not exist and cannot be created; choose another store"
            ) from error
        _sync(missing_folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_abandoned(partial: Path) -> bool:
    try:
        with partial.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its writer holds the lock, or has just finished
        return False
    return True
