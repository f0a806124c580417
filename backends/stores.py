"""Object stores: a folder, or S3."""

import contextlib
import fcntl
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenacity

from schemas.errors import ContractError, TransientError, UserError
from schemas.ids import sha256
from schemas.ports import ObjectStore
from schemas.printing import without_secrets

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PARTIAL = ".part-"
_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_LOST_RACE = {"412", "409", "PreconditionFailed", "ConditionalRequestConflict"}
_DENIED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"}


def open_store(address: str) -> ObjectStore:
    """Open the store at a folder, a ``file://`` address or ``s3://bucket/prefix``; nothing is created yet."""
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


class FolderStore:
    """Objects as files. A file appears under its name only when it is whole; swaps hold a file lock."""

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

    def get(self, name: str) -> bytes:
        """Return an object's bytes."""
        return self._path(name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Write an object unless it is there already."""
        if not self.exists(name):
            self.replace(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Write an object over an existing one."""
        self._write(self._path(name), data, sync=False)

    def exists(self, name: str) -> bool:
        """Say whether there is an object of that name."""
        return self._path(name).is_file()

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder."""
        folder = self._path(prefix)
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(_PARTIAL))
        return sorted(path.relative_to(self._root).as_posix() for path in files)

    def abandoned(self, prefix: str) -> list[str]:
        """Return the files that writers which died have left half written below a folder."""
        partial = (path for path in self._path(prefix).rglob(f"{_PARTIAL}*") if _is_abandoned(path))
        return sorted(path.relative_to(self._root).as_posix() for path in partial)

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below a folder."""
        try:
            with os.scandir(self._path(prefix)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, name: str) -> None:
        """Remove an object, and the folders that it leaves empty."""
        path = self._path(name)
        path.unlink(missing_ok=True)
        for parent in path.relative_to(self._root).parents[:-1]:
            try:
                (self._root / parent).rmdir()
            except OSError:
                return

    def read_mutable(self, name: str) -> tuple[bytes, str] | None:
        """Return a mutable object's bytes and the digest of them as its ETag."""
        try:
            data = self.get(name)
        except FileNotFoundError:
            return None
        return data, sha256(data)

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write under a file lock if the ETag is still the expected one."""
        with self._locked(name):
            found = self.read_mutable(name)
            if (found[1] if found else None) != expected:
                return False
            self._write(self._path(name), data, sync=True)
            return True

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        path = self._path(f"{name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _write(path: Path, data: bytes, *, sync: bool) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
        except PermissionError as error:
            raise UserError(f"can't write to {path.parent}: permission denied; choose another store") from error
        except OSError as error:
            raise TransientError(f"can't write to {path.parent}: {error}") from error
        try:
            with os.fdopen(handle, "wb") as file:
                # Gone when the process is: a partial file without its lock is nobody's.
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
                Path(partial).replace(path)
        except OSError as error:
            Path(partial).unlink(missing_ok=True)
            raise TransientError(f"can't write {path}: {error}") from error
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise


def _is_abandoned(partial: Path) -> bool:
    try:
        with partial.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its writer holds it, or has just finished
        return False
    return True


class S3Store:
    """Objects in a bucket; swaps are conditional puts. Credentials and endpoint come from the environment."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        bucket, _, prefix = self._address.removeprefix("s3://").partition("/")
        if not bucket:
            raise UserError(f"{address}: there is no bucket in this address; write s3://bucket/prefix")
        self._bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""
        self._client: S3Client = s3_client()

    def __reduce__(self) -> tuple[type["S3Store"], tuple[str]]:
        return S3Store, (self._address,)

    @property
    def root(self) -> str:
        """The address."""
        return self._address

    def _key(self, name: str) -> str:
        return self._prefix + _checked(name)

    def get(self, name: str) -> bytes:
        """Return an object's bytes."""
        return self._read(name)[0]

    def put(self, name: str, data: bytes) -> None:
        """Write an object unless it is there already."""
        if not self.exists(name):
            self.replace(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Write an object over an existing one, in parts where it is large."""
        with s3_errors(self._address, name):
            self._client.upload_fileobj(io.BytesIO(data), self._bucket, self._key(name))

    def exists(self, name: str) -> bool:
        """Say whether there is an object of that name."""
        try:
            with s3_errors(self._address, name):
                self._client.head_object(Bucket=self._bucket, Key=self._key(name))
        except FileNotFoundError:
            return False
        return True

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a folder."""
        pages = self._pages(prefix, delimiter="")
        return sorted(item["Key"][len(self._prefix) :] for page in pages for item in page.get("Contents", []))

    def abandoned(self, prefix: str) -> list[str]:
        """Return nothing: no object is seen before it is whole; a bucket's lifecycle rules end uploads that died."""
        return []

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below a folder."""
        pages = self._pages(prefix, delimiter="/")
        return sorted(
            item["Prefix"].rstrip("/").rpartition("/")[2] for page in pages for item in page.get("CommonPrefixes", [])
        )

    def _pages(self, prefix: str, *, delimiter: str) -> Iterator[Any]:
        below = self._key(prefix.rstrip("/") + "/" if prefix else "")
        with s3_errors(self._address, prefix):
            yield from self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=below, Delimiter=delimiter
            )

    def delete(self, name: str) -> None:
        """Remove an object."""
        with s3_errors(self._address, name):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def read_mutable(self, name: str) -> tuple[bytes, str] | None:
        """Return a mutable object's bytes and its ETag."""
        try:
            return self._read(name)
        except FileNotFoundError:
            return None

    def swap(self, name: str, data: bytes, expected: str | None) -> bool:
        """Write by conditional put."""
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        try:
            with s3_errors(self._address, name):
                self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data, **condition)  # type: ignore[arg-type]
        except _LostRaceError as error:
            # The first try may have been written and its answer lost: then the race was lost to ourselves.
            return error.retried and self.get(name) == data
        except FileNotFoundError:
            return False
        return True

    def _read(self, name: str) -> tuple[bytes, str]:
        with s3_errors(self._address, name):
            return read_object(self._client, self._bucket, self._key(name))


class _LostRaceError(Exception):
    """Somebody else's conditional put came first; ``retried`` says whether ours was sent more than once."""

    def __init__(self, *, retried: bool) -> None:
        super().__init__()
        self.retried = retried


def s3_client() -> "S3Client":
    """Open a client with retries and checksums both ways; endpoint and credentials come from the environment."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"max_attempts": 8, "mode": "standard"},
        request_checksum_calculation="when_supported",
        response_checksum_validation="when_supported",
    )
    client: S3Client = boto3.client("s3", config=config)
    return client


def is_broken_body(error: BaseException) -> bool:
    """Say whether a reply broke off, or isn't what was sent: worth asking again."""
    from botocore.exceptions import FlexibleChecksumError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return isinstance(error, FlexibleChecksumError | IncompleteReadError | ReadTimeoutError | ResponseStreamingError)


@tenacity.retry(
    retry=tenacity.retry_if_exception(is_broken_body),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_random_exponential(0.2, max=5),
    reraise=True,
)
def read_object(client: "S3Client", bucket: str, key: str) -> tuple[bytes, str]:
    """Return an object's bytes and its ETag. botocore tries requests again, but not bodies that break off or don't match."""
    found = client.get_object(Bucket=bucket, Key=key)
    return found["Body"].read(), found["ETag"]


@contextlib.contextmanager
def s3_errors(address: str, name: str) -> Iterator[None]:
    """Turn botocore's errors into ours: not found, lost race, user's mistake, or worth a retry."""
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
