"""An object store in S3."""

import contextlib
import hashlib
import io
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, BinaryIO

import tenacity

from backends.stores.checked_store import CheckedStore, checked_name, join
from backends.stores.objects import LISTED_AT_ONCE, damage, sealed
from schemas.errors import MissingError, TransientError, UserError
from schemas.ids import sha256
from schemas.printing import without_secrets

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ASKED_FIRST = 1 << 20
"""Bytes from which a store in S3 is asked for an object before it is sent."""
_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_LOST_RACE = {"412", "409", "PreconditionFailed", "ConditionalRequestConflict"}
_DENIED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"}


class S3Store(CheckedStore):
    """Objects in a bucket; swaps are conditional puts. Credentials and endpoint come from the environment."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        bucket, _, prefix = self._address.removeprefix("s3://").partition("/")
        if not bucket:
            raise UserError(f"{address}: there is no bucket in this address; write s3://bucket/prefix")
        self.bucket, self.prefix = bucket, f"{prefix}/" if prefix else ""
        self.client: S3Client = s3_client()

    def __reduce__(self) -> tuple[type["S3Store"], tuple[str]]:
        return S3Store, (self._address,)

    @property
    def root(self) -> str:
        """The address."""
        return self._address

    def key(self, name: str) -> str:
        """Return an object's key in the bucket."""
        return self.prefix + checked_name(name)

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
        if len(data) <= _ASKED_FIRST:
            # The request fails if the object exists; then ``super().put`` checks whether it is undamaged.
            with contextlib.suppress(_LostRaceError), s3_errors(self._address, name):
                body = sealed(name, data)
                self.client.put_object(Bucket=self.bucket, Key=self.key(name), Body=body, IfNoneMatch="*")
                self._remember(name, data)
                return
        super().put(name, data)

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        return self._remembered(name) is not None or self._head(name) is not None

    def listing(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield names and sizes of all objects below a folder."""
        for name, item in self.objects(prefix):
            yield name, item["Size"]

    def objects(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield names and entries of the listing of all objects below a folder."""
        for page in self._pages(prefix, delimiter=""):
            yield from ((item["Key"][len(self.prefix) :], item) for item in page.get("Contents", []))
            # The paginator would take this for the end.
            if page.get("IsTruncated") and not page.get("NextContinuationToken"):
                raise TransientError(f"{self._address}: S3 ended its listing early without a next page; refresh again")

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
                Bucket=self.bucket,
                Prefix=below,
                Delimiter=delimiter,
                PaginationConfig={"PageSize": LISTED_AT_ONCE},
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

    def age_s(self, name: str) -> float | None:
        """Return the seconds between an object's last write and the server's response."""
        if (head := self._head(name)) is None:
            return None
        answered = parsedate_to_datetime(head["ResponseMetadata"]["HTTPHeaders"]["date"])
        return float((answered - head["LastModified"]).total_seconds())

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
            # The object that was to be replaced is gone.
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
