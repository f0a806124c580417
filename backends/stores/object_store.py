"""Object stores: a folder, or S3."""

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
from typing import TYPE_CHECKING, Any, BinaryIO

import tenacity

from backends.stores.checksums import check_content, damage, sealed, unsealed
from schemas.errors import ContractError, DamagedError, MissingError, TransientError, UserError
from schemas.ids import sha256
from schemas.ports import ObjectStore
from schemas.printing import without_secrets

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PARTIAL = ".part-"
_ASKED_FIRST = 1 << 20
"""Bytes from which a store in S3 is asked for an object before it is sent."""
_REMEMBERED = re.compile(
    r"versions/[^/]+/(?!lance/|override\.json|rejection\.json).+|(rows|parsed|structured|quarantine|vectors)/.+|FORGOTTEN\.json"
)
"""Objects that only the holder of the lease writes, or whose content never changes."""

_REMEMBERED_BYTES, _MOST_BYTES_OF_ONE = 64 << 20, 4 << 20

_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_LOST_RACE = {"412", "409", "PreconditionFailed", "ConditionalRequestConflict"}
_DENIED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"}


def open_store(address: str) -> ObjectStore:
    """Open the store at a folder, a ``file://`` address or ``s3://bucket/prefix``; nothing is created."""
    if address.startswith("s3://"):
        return S3Store(address)
    return FolderStore(Path(address.removeprefix("file://")))


def join(address: str, name: str) -> str:
    """Return the address of ``name`` below a store's address."""
    return f"{address.rstrip('/')}/{name}"


def _checked(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise ContractError(f"object name {name!r} leaves its store")
    return name


class _Memory:
    """Objects that were read or written lately; None for an absent one."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes | None] = {}
        self._bytes = 0
        self.pointers: dict[str, tuple[bytes, str] | None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def __getitem__(self, name: str) -> bytes | None:
        return self._objects[name]

    def add(self, name: str, data: bytes | None) -> None:
        """Remember an object, in place of the oldest ones where there are too many bytes."""
        self.drop(name)
        if _REMEMBERED.fullmatch(name) is not None and len(data or b"") <= _MOST_BYTES_OF_ONE:
            self._objects[name] = data
            self._bytes += len(data or b"")
            while self._bytes > _REMEMBERED_BYTES:
                self.drop(next(iter(self._objects)))

    def drop(self, name: str) -> None:
        """Forget an object."""
        self._bytes -= len(self._objects.pop(name, None) or b"")
        self.pointers.pop(name, None)


class _CheckedStore(ObjectStore):
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
        memory = self._memory
        if memory is not None and name in memory:
            if (data := memory[name]) is None:
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
        data = self._memory[name] if self._memory is not None and name in self._memory else None
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
        """Return stored bytes without their checksum.

        Raises:
            TransientError: They changed.
        """
        try:
            return unsealed(name, stored)
        except ValueError as error:
            raise damage(DamagedError, self.root, name, str(error)) from error


class FolderStore(_CheckedStore):
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
        return self._root / _checked(name)

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
        """Yield names and sizes of all files below a folder.

        Raises:
            UserError: A folder below can't be read.
        """
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


class S3Store(_CheckedStore):
    """Objects in a bucket; swaps are conditional puts. Credentials and endpoint come from the environment."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        bucket, _, prefix = self._address.removeprefix("s3://").partition("/")
        if not bucket:
            raise UserError(f"{address}: there is no bucket in this address; write s3://bucket/prefix")
        self.bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""
        self.client: S3Client = s3_client()

    def __reduce__(self) -> tuple[type["S3Store"], tuple[str]]:
        return S3Store, (self._address,)

    @property
    def root(self) -> str:
        """The address."""
        return self._address

    def key(self, name: str) -> str:
        """Return an object's key in the bucket."""
        return self._prefix + _checked(name)

    def open(self, name: str) -> BinaryIO:
        """Fetch a whole object."""
        return io.BytesIO(self._remembered(name) or self._read(name))

    def replace(self, name: str, data: bytes) -> None:
        """Write an object over an existing one, in parts if it is large."""
        self.forget(name)
        with s3_errors(self._address, name):
            self.client.upload_fileobj(io.BytesIO(sealed(name, data)), self.bucket, self.key(name))
        self._remember(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Write an object unless it exists undamaged; a small one by one conditional request."""
        if len(data) > _ASKED_FIRST or not self._is_new(name, sealed(name, data)):
            super().put(name, data)
        else:
            self._remember(name, data)

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        return self._remembered(name) is not None or self._head(name) is not None

    def listing(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield names and sizes of all objects below a folder."""
        for page in self._pages(prefix, delimiter=""):
            yield from ((item["Key"][len(self._prefix) :], item["Size"]) for item in page.get("Contents", []))

    def digest(self, name: str) -> str:
        """Return the SHA-256 of an object as it is stored."""
        return sha256(self._remembered(name) or self._read(name))

    def abandoned(self, prefix: str) -> list[str]:
        """Return nothing: S3 shows no partial objects; a bucket's lifecycle rules end dead uploads."""
        return []

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below a folder."""
        pages = self._pages(prefix, delimiter="/")
        return sorted(
            item["Prefix"].rstrip("/").rpartition("/")[2] for page in pages for item in page.get("CommonPrefixes", [])
        )

    def _pages(self, prefix: str, *, delimiter: str) -> Iterator[Any]:
        below = self.key(prefix.rstrip("/") + "/" if prefix else "")
        with s3_errors(self._address, prefix):
            yield from self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=below, Delimiter=delimiter
            )

    def delete(self, name: str) -> None:
        """Remove an object."""
        self.forget(name)
        with s3_errors(self._address, name):
            self.client.delete_object(Bucket=self.bucket, Key=self.key(name))

    def etag(self, name: str) -> str | None:
        """Return a mutable object's ETag."""
        head = self._head(name)
        return head["ETag"] if head else None

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write by conditional put."""
        self.forget(name)
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        stored = sealed(name, data)
        try:
            with s3_errors(self._address, name):
                self.client.put_object(Bucket=self.bucket, Key=self.key(name), Body=stored, **condition)  # type: ignore[arg-type]
        except _LostRaceError as error:
            # A first try may have succeeded without an answer.
            return error.retried and self._read(name) == stored
        except FileNotFoundError:
            return False
        return True

    def _is_new(self, name: str, stored: bytes) -> bool:
        """Write an object unless there is one; return whether there was none."""
        try:
            with s3_errors(self._address, name):
                self.client.put_object(Bucket=self.bucket, Key=self.key(name), Body=stored, IfNoneMatch="*")
        except _LostRaceError:
            return False
        return True

    def _read(self, name: str) -> bytes:
        return self._read_with_etag(name)[0]

    def _read_with_etag(self, name: str) -> tuple[bytes, str]:
        try:
            with s3_errors(self._address, name):
                return read_object(self.client, self.bucket, self.key(name))
        except FileNotFoundError as error:
            raise damage(MissingError, self.root, name, "is missing") from error

    def _head(self, name: str) -> Any:
        try:
            with s3_errors(self._address, name):
                return self.client.head_object(Bucket=self.bucket, Key=self.key(name))
        except FileNotFoundError:
            return None

    def _is_intact(self, name: str, stored: bytes) -> bool:
        """Return whether an object exists undamaged; an equal size and MD5 save fetching it."""
        head = self._head(name)
        if head is None:
            return False
        digest = hashlib.md5(stored, usedforsecurity=False).hexdigest()
        is_same = head["ContentLength"] == len(stored) and head["ETag"].strip('"') == digest
        return is_same or super()._is_intact(name, stored)


class _LostRaceError(Exception):
    """Another conditional put came first; ``retried`` says whether ours was sent more than once."""

    def __init__(self, *, retried: bool) -> None:
        super().__init__()
        self.retried = retried


def s3_client() -> "S3Client":
    """Open a client with retries, and checksums in both directions; endpoint and credentials come from the environment."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"max_attempts": 8, "mode": "standard"},
        request_checksum_calculation="when_supported",
        response_checksum_validation="when_supported",
    )
    client: S3Client = boto3.client("s3", config=config)
    return client


def copy_folder(address: str, target: str) -> None:
    """Copy the objects below an ``s3://`` address to another one of the same bucket, within S3."""
    source, copies = S3Store(address), S3Store(target)
    with s3_errors(address, ""):
        for name in source.names(""):
            copies.client.copy({"Bucket": source.bucket, "Key": source.key(name)}, copies.bucket, copies.key(name))


def is_broken_body(error: BaseException) -> bool:
    """Return whether a response broke off or failed its checksum, so that a retry may help."""
    from botocore.exceptions import FlexibleChecksumError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return isinstance(error, FlexibleChecksumError | IncompleteReadError | ReadTimeoutError | ResponseStreamingError)


retry_broken_bodies = tenacity.retry(
    retry=tenacity.retry_if_exception(is_broken_body),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_random_exponential(0.2, max=5),
    reraise=True,
)
"""botocore retries requests, but not broken bodies."""


@retry_broken_bodies
def read_object(client: "S3Client", bucket: str, key: str) -> tuple[bytes, str]:
    """Return an object's bytes and ETag."""
    response = client.get_object(Bucket=bucket, Key=key)
    return response["Body"].read(), response["ETag"]


@contextlib.contextmanager
def s3_errors(address: str, name: str) -> Iterator[None]:
    """Translate botocore's errors: not found, lost race, the user's mistake, or transient."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in _NO_OBJECT:
            raise FileNotFoundError(join(address, name)) from error
        if code in _LOST_RACE:
            raise _LostRaceError(retried=bool(error.response["ResponseMetadata"].get("RetryAttempts"))) from error
        if code in _DENIED:
            raise UserError(f"{address}: S3 refused ({code}); check the bucket's name and your credentials") from error
        raise TransientError(f"{address}: S3 answered {code} for {name!r}; trying again may help") from error
    except NoCredentialsError as error:
        raise UserError(f"{address}: no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") from error
    except BotoCoreError as error:
        raise TransientError(
            f"{address}: S3 can't be reached ({without_secrets(str(error))}); trying again may help"
        ) from error
