"""Sources at any address that fsspec opens, and at places that a package adds by the entry point ``inset.sources``."""

import contextlib
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote, urlsplit

import tenacity

from schemas.errors import BadInputError, FailureCode, InsetError, TransientError, UserError
from schemas.formats import FORMATS, ending, sorted_documents
from schemas.ids import sha256
from schemas.printing import line, without_secrets
from schemas.versions import SourceFile

Answer = TypeVar("Answer")

GROUP = "inset.sources"
"""The group of entry points: each is named by the scheme of its addresses, and makes a ``Source`` of an address."""

_TRIES, _LONGEST_WAIT_S = 5, 60.0
_ASKED_AT_ONCE = 32
"""Requests at once for what a listing of HTTP lacks: sizes and stamps."""
_DEEPEST = 64
"""Folders within folders beyond which a listing goes round a loop of links."""
_RANGE_BYTES = 8 << 20
"""Bytes that one request reads, so that a broken connection repeats no more."""

_STAMPS = (
    *("etag", "md5hash", "sha", "generation", "checksum", "mtime", "lastmodified", "modified", "updated"),
    *("lastmodifieddatetime", "modifiedtime", "lastwritetime"),
)
"""Fields of file systems that change with a file, the surest first, in small letters without signs."""

_REFUSED = frozenset({401, 403})


class Source(Protocol):
    """A place with documents; one that other packages add implements this alone.

    It is pickled with its address, and opened again in other processes. Credentials come from the environment.
    """

    def list(self) -> Iterable[SourceFile]:
        """Yield every file by its path below the source, complete or with an error; a stamp changes with the file, or is ""."""

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raise ``FileNotFoundError`` if it is gone, ``PermissionError`` if it can't be read."""

    def describe(self) -> str:
        """Return in a line what the place is and who asks, without secrets."""


class ListedSource:
    """A ``Source`` as a refresh reads it: listed whole or not at all, its errors told apart, asked again if it fails."""

    def __init__(self, address: str, place: Source) -> None:
        self._address, self._place = address, place

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return open_place, (self._address,)

    def files(self) -> list[SourceFile]:
        """Return the documents, sorted by name; what has no stamp is read, and its digest is the stamp.

        Raises ``UserError`` where the place refuses the listing, ``TransientError`` if it breaks off.
        """
        try:
            files = [*self._place.list()]
        except InsetError:
            raise
        except Exception as error:
            raise _of_listing(self._address, error) from error
        names = [file.source for file in files]
        if len({*names}) < len(names):
            raise TransientError(f"{self._address}: its listing has a name twice; it changed meanwhile: refresh again")
        documents = sorted_documents(file for file in files if ending(file.source) in FORMATS)
        return [self._stamped(file) if not file.stamp and file.problem is None else file for file in documents]

    def digest(self, source: str) -> tuple[str, int]:
        """Return the SHA-256 of a document, and its size."""
        data = self.read(source)
        return sha256(data), len(data)

    def read(self, source: str) -> bytes:
        """Return a document's bytes."""
        try:
            return asked_again(lambda: self._place.read(source))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise _of_file(self._address, source, error) from error

    def describe(self) -> str:
        """Return what the place is, in a line."""
        return line(without_secrets(self._place.describe()))

    def _stamped(self, file: SourceFile) -> SourceFile:
        try:
            data = self.read(file.source)
        except BadInputError as error:
            return SourceFile(file.source, file.size, "", error.message)
        except FileNotFoundError as error:
            raise TransientError(f"{self._address}: {file.source} went away while it was listed; refresh again") from error
        return SourceFile(file.source, len(data), sha256(data))


def open_place(address: str) -> ListedSource:
    """Open a source at ``scheme://…``; an entry point of the scheme comes before fsspec.

    Raises:
        UserError: Nothing installed opens such addresses.
    """
    scheme = address.partition("://")[0]
    for entry_point in importlib.metadata.entry_points(group=GROUP, name=scheme):
        return ListedSource(address, entry_point.load()(address))
    if scheme in ("http", "https") and urlsplit(address).path.endswith((".xml", ".txt")):
        return ListedSource(address, AddressList(address))
    return ListedSource(address, FileSystemPlace(address))


class FileSystemPlace:
    """Every file below an address of fsspec; nothing is written, and no listing is cached."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._files, self._base = _file_system(address)

    def list(self) -> Iterator[SourceFile]:
        """Yield every file; a folder that can't be listed is an error."""
        self._files.invalidate_cache()
        files: list[tuple[str, dict[str, Any]]] = []
        waiting, listed_paths = [(self._base, 0)], {self._base}
        while waiting:
            folder, depth = waiting.pop()
            for entry in asked_again(lambda: self._files.ls(folder, detail=True)):  # noqa: B023  it is called here
                path = str(entry["name"]).rstrip("/")
                name = self._name(path)
                if not name or path in listed_paths or any(part.startswith(".") for part in name.split("/")):
                    continue
                if entry.get("type") == "directory":
                    if depth == _DEEPEST:
                        raise UserError(f"{self._address}: {name} is {_DEEPEST} folders deep; is a link in a loop?")
                    listed_paths.add(path)
                    waiting.append((path, depth + 1))
                elif ending(name) in FORMATS:
                    files.append((path, entry))
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            yield from pool.map(lambda file: _source_file(self._files, file[0], self._name(file[0]), file[1]), files)

    def read(self, name: str) -> bytes:
        """Return a file's bytes, a range at a time."""
        self._files.invalidate_cache()
        path = f"{self._base}/{quote(name) if self._is_web else name}" if self._base else name
        size = asked_again(lambda: self._files.info(path)).get("size") or 0
        if size <= _RANGE_BYTES:
            return bytes(asked_again(lambda: self._files.cat_file(path)))
        parts: list[bytes] = []
        for start in range(0, size, _RANGE_BYTES):
            end = min(start + _RANGE_BYTES, size)
            parts.append(asked_again(lambda: self._files.cat_file(path, start=start, end=end)))  # noqa: B023  it is called here
            if len(parts[0]) == size:  # a server that knows no ranges sends the whole
                break
        return b"".join(parts)

    def describe(self) -> str:
        """Return the kind of file system and the address."""
        return f"{type(self._files).__name__} at {self._address}"

    @property
    def _is_web(self) -> bool:
        return self._address.startswith(("http://", "https://"))

    def _name(self, path: str) -> str:
        name = path.removeprefix(self._base).lstrip("/")
        return unquote(name.partition("?")[0]) if self._is_web else name


class AddressList:
    """The files that a sitemap, or a text with an address a line, names on its own server."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._root = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        self._files, _ = _file_system(self._root)

    def list(self) -> Iterator[SourceFile]:
        """Yield every named file; pages without an ending are HTML."""
        pages = [*self._addresses(self._address, 0)]
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            yield from pool.map(lambda page: self._listed(*page), dict(pages).items())

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        with contextlib.suppress(FileNotFoundError):
            return self._get(f"{self._root}/{quote(name)}")
        return self._get(f"{self._root}/{quote(name.removesuffix('.html').removesuffix('index'))}")

    def describe(self) -> str:
        """Return the address of the list."""
        return f"the addresses in {self._address}"

    def _get(self, address: str) -> bytes:
        return bytes(asked_again(lambda: self._files.cat_file(address)))

    def _addresses(self, address: str, depth: int) -> Iterator[tuple[str, str]]:
        text = self._get(address).decode("utf-8", "replace")
        if address.endswith(".txt"):
            dated_addresses = [
                (part.strip(), "") for part in text.splitlines() if part.strip() and not part.startswith("#")
            ]
        else:
            if "</urlset>" not in text and "</sitemapindex>" not in text:
                raise TransientError(f"{address} is no whole sitemap: its end is missing; refresh again")
            entries = re.findall(r"<loc>\s*([^<]+?)\s*</loc>(?:\s*<lastmod>\s*([^<]+?)\s*</lastmod>)?", text)
            dated_addresses = [(entry_address.replace("&amp;", "&"), changed) for entry_address, changed in entries]
        is_index = "<sitemapindex" in text and depth < _DEEPEST
        for entry_address, changed in dated_addresses:
            if not entry_address.startswith(f"{self._root}/"):
                continue
            if is_index:
                yield from self._addresses(entry_address, depth + 1)
            else:
                yield entry_address, changed

    def _listed(self, address: str, changed: str) -> SourceFile:
        name = unquote(urlsplit(address).path).strip("/") or "index"
        name = f"{name}/index.html" if address.endswith("/") else name if ending(name) in FORMATS else f"{name}.html"
        return SourceFile(name, None, changed) if changed else _source_file(self._files, address, name, {})


def _source_file(files: Any, path: str, name: str, entry: Mapping[str, Any]) -> SourceFile:
    """Return a listed file; listings of HTTP have names alone."""
    try:
        if entry.get("size") is None or entry.get("type") not in ("file", None):
            entry = asked_again(lambda: files.info(path))
    except FileNotFoundError:
        return SourceFile(name, 0, "", "it is listed, but isn't there")
    except PermissionError as error:
        return SourceFile(name, 0, "", f"the file can't be read: {error}")
    facts = {re.sub("[-_]", "", field).lower(): value for field, value in entry.items() if value}
    stamp = next((str(facts[field]) for field in _STAMPS if field in facts), "")
    return SourceFile(name, int(entry.get("size") or 0), stamp)


def _file_system(address: str) -> tuple[Any, str]:
    """Open a file system of fsspec; its settings are in ``FSSPEC_…`` variables, or in those of its service."""
    import fsspec.config

    fsspec.config.set_conf_env(fsspec.config.conf)
    scheme = address.partition("://")[0]
    try:
        files, base = fsspec.core.url_to_fs(
            address.rstrip("/") if not address.endswith("://") else address, skip_instance_cache=True
        )
    except (ImportError, ValueError) as error:
        extra = _EXTRAS.get(scheme)
        remedy = f"pip install -e '.[{extra}]'" if extra else "correct 'source' in the corpus file"
        raise UserError(
            f"nothing installed opens {scheme}:// addresses ({without_secrets(str(error))}); {remedy}"
        ) from error
    except Exception as error:
        raise _of_listing(address, error) from error
    return files, str(base).rstrip("/")


_EXTRAS = {
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "az": "azure",
    "sftp": "sftp",
    "ssh": "sftp",
    "smb": "smb",
    "webdav": "webdav",
    "http": "places",
    "https": "places",
    "github": "places",
    "msgd": "sharepoint",
    "gdrive": "gdrive",
}
"""The extra that opens addresses of a scheme."""


def stop_threads() -> None:
    """End the thread in which fsspec talks to servers: a sandbox holds for the thread that makes it alone."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and asyn.iothread[0] is not None:
        loop = asyn.get_loop()
        loop.call_soon_threadsafe(loop.stop)
        asyn.iothread[0].join()
        loop.close()
        asyn.reset_after_fork()


def asked_again(ask: Callable[[], Answer]) -> Answer:
    """Return what a place answers, asked again if it fails for the moment, as late as its ``Retry-After`` says."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_passing),
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=_wait_s,
        reraise=True,
    )
    try:
        return attempts(ask)
    except FileNotFoundError as error:
        # fsspec raises it for any failed request for facts of a file, too.
        if _status(error) in _REFUSED:
            raise PermissionError(str(error.__cause__)) from error
        if is_passing(error):
            raise ConnectionError(str(error.__cause__)) from error
        raise


def is_passing(error: BaseException) -> bool:
    """Return whether a place may answer a moment later."""
    if isinstance(error, FileNotFoundError):
        cause = error.__cause__
        return cause is not None and "NoSuch" not in type(cause).__name__ and is_passing(cause)
    status = _status(error)
    if status is not None:
        return status in (408, 429) or status >= 500
    if isinstance(error, InsetError | PermissionError | NotADirectoryError | IsADirectoryError | ImportError):
        return isinstance(error, TransientError)
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError | TimeoutError | EOFError) or bool(
        packages & {"aiohttp", "asyncssh", "httpx", "requests"}
    )


def _replies(error: BaseException | None) -> list[Any]:
    """Return what may hold a server's status and headers: an error, its cause, and their responses."""
    errors = [error, error and error.__cause__]
    return [*errors, *(getattr(reason, "response", None) for reason in errors)]


def _status(error: BaseException) -> int | None:
    """Return the status that a server sent."""
    statuses = (getattr(reply, name, None) for reply in _replies(error) for name in ("status", "status_code"))
    return next((status for status in statuses if isinstance(status, int)), None)


def _wait_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    for reply in _replies(error):
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            return min(float(reply.headers["Retry-After"]), _LONGEST_WAIT_S)
    return float(tenacity.wait_exponential_jitter(multiplier=0.2, max=5)(state))


def _of_listing(address: str, error: Exception) -> InsetError:
    reason = _reason(error)
    if isinstance(error, PermissionError) or _status(error) in _REFUSED:
        return UserError(f"{address} refuses the listing ({reason}); give the credentials in the environment access")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return UserError(f"{address} isn't there ({reason}); correct 'source' in the corpus file")
    return TransientError(f"{address} can't be listed ({reason}); refresh again")


def _of_file(address: str, source: str, error: Exception) -> Exception:
    if isinstance(error, InsetError):
        return error
    if isinstance(error, PermissionError | IsADirectoryError) or _status(error) in _REFUSED:
        message = f"{address} refuses the file ({_reason(error)}); give the credentials in the environment access"
        return BadInputError(message, FailureCode.SOURCE_UNREADABLE)
    return TransientError(f"{address}: {source} can't be read ({_reason(error)}); refresh again")


def _reason(error: BaseException) -> str:
    status = _status(error)
    return f"status {status}" if status is not None else line(without_secrets(f"{type(error).__name__}: {error}"))[:200]
