"""Object stores: what they have in common, and a folder; a store in S3 is in ``s3_store``."""

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import re
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import tenacity

from backends.stores.objects import check_content, damage, sealed, unsealed
from schemas.errors import ContractError, DamagedError, MissingError, TransientError, UserError
from schemas.ids import sha256
from schemas.ports import ObjectStore

_PARTIAL = ".part-"
# The engine writes ``lance/``, and people write overrides and rejections without the lease.
_REMEMBERED = re.compile(
    r"versions/[^/]+/(?!lance/|override\.json|rejection\.json).+|(rows|parsed|structured|quarantine|vectors)/.+|FORGOTTEN\.json"
)
"""Objects that only the holder of the lease writes, or whose content never changes."""

_REMEMBERED_BYTES, _MOST_BYTES_OF_ONE = 64 << 20, 4 << 20


def open_store(address: str) -> ObjectStore:
    """Open the store at a folder, a ``file://`` address or ``s3://bucket/prefix``; nothing is created."""
    if address.startswith("s3://"):
        from backends.stores.s3_store import S3Store  # it builds on this module

        return S3Store(address)
    return FolderStore(Path(address.removeprefix("file://")))


def join(address: str, name: str) -> str:
    """Return the address of ``name`` below a store's address."""
    return f"{address.rstrip('/')}/{name}"


def checked_name(name: str) -> str:
    """Return the name of an object; one that leaves its store is a ``ContractError``."""
    if name.startswith("/") or ".." in name.split("/"):
        raise ContractError(f"object name {name!r} leaves its store")
    return name


class _Memory:
    """Objects that were read or written lately, None for an absent one, and pointers."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes | None] = {}
        self.pointers: dict[str, tuple[bytes, str] | None] = {}
        self._bytes = 0

    def add(self, name: str, data: bytes | None) -> None:
        """Remember an object, in place of the oldest ones where there are too many bytes."""
        self.drop(name)
        if _REMEMBERED.fullmatch(name) is not None and len(data or b"") <= _MOST_BYTES_OF_ONE:
            self.objects[name] = data
            self._bytes += len(data or b"")
            while self._bytes > _REMEMBERED_BYTES:
                self.drop(next(iter(self.objects)))

    def drop(self, name: str) -> None:
        """Forget an object."""
        self._bytes -= len(self.objects.pop(name, None) or b"")
        self.pointers.pop(name, None)


class CheckedStore(ObjectStore):
    """What the stores have in common: an object is read whole, and its checksum verified."""

    @abstractmethod
    def _read(self, name: str) -> bytes:
        """Return an object's bytes as stored; raise ``MissingError`` if there is none."""

    @abstractmethod
    def _read_with_etag(self, name: str) -> tuple[bytes, str]:
        """Return an object's bytes as stored, and its ETag."""

    _memory: _Memory | None = None

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Read each object once during a block, in which nobody else writes them; a pointer once in each inner block."""
        if self._memory is not None:
            self._memory.pointers.clear()
            yield
            return
        self._memory = _Memory()
        try:
            yield
        finally:
            self._memory = None

    def get(self, name: str) -> bytes:
        """Return an object's checked bytes."""
        if self._memory is not None and name in self._memory.objects:
            if (data := self._memory.objects[name]) is None:
                raise damage(MissingError, self.root, name, "is missing")
            return data
        try:
            data = self._verified(name, self._read(name))
        except MissingError:
            if name.startswith("versions/"):  # other processes write the rest
                self._remember(name, None)
            raise
        self._remember(name, data)
        return data

    def _remember(self, name: str, data: bytes | None) -> None:
        if self._memory is not None:
            self._memory.add(name, data)

    def forget(self, name: str) -> None:
        """Read an object again, since another process may have written it."""
        if self._memory is not None:
            self._memory.drop(name)

    def _remembered(self, name: str) -> bytes | None:
        """Return a remembered object as it is stored."""
        data = self._memory.objects.get(name) if self._memory is not None else None
        return None if data is None else sealed(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Write an object unless it exists undamaged."""
        if not self._is_intact(name, sealed(name, data)):
            self.replace(name, data)

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder."""
        return sorted(self.sizes(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes of all objects below a folder."""
        return dict(self.listing(prefix))

    def read_mutable(self, name: str, *, fresh: bool = True) -> tuple[bytes, str] | None:
        """Return a mutable object's bytes and its ETag; unless ``fresh``, as an earlier call of the block returned them."""
        pointers = self._memory.pointers if self._memory is not None else {}
        if fresh or name not in pointers:
            try:
                stored, etag = self._read_with_etag(name)
                pointers[name] = self._verified(name, stored), etag
            except FileNotFoundError:
                pointers[name] = None
        return pointers[name]

    def _is_intact(self, name: str, stored: bytes) -> bool:
        """Return whether an object exists undamaged; it may differ from what would be ``stored`` now."""
        if self._remembered(name) is not None:
            return True
        try:
            check_content(name, self._verified(name, self._read(name)))
        except (DamagedError, ValueError):
            return False
        return True

    def _verified(self, name: str, stored: bytes) -> bytes:
        """Return stored bytes without their checksum; raises ``DamagedError`` where they changed."""
        try:
            return unsealed(name, stored)
        except ValueError as error:
            raise damage(DamagedError, self.root, name, str(error)) from error


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
        """Yield names and sizes of all files below a folder; raises ``UserError`` where one below can't be read."""
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
            raise TransientError(f"can't write {path}: its folder keeps going away; trying again may help") from error


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
