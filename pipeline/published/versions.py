"""Open versions of a corpus: the live one and those that requests name."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime

import pyarrow as pa

from backends.stores.checksums import damage
from pipeline.corpus.corpora import QuerySettings
from pipeline.corpus.workspace import Workspace
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.publication import manifest_name, read_pointer
from pipeline.records.version_names import nothing_live, resolve_version
from schemas.errors import (
    BadInputError,
    InsetError,
    MissingError,
    NotFoundError,
    TransientError,
    UnforeseenError,
    UserError,
)
from schemas.versions import Pointer

VERSIONS_OPEN = 4


class OpenVersions:
    """The open versions of one corpus, at most ``most``, least recently used closed first. Thread-safe.

    ``remove_older`` is called with the moment at which documents were last deleted from them, when that is first seen.
    """

    def __init__(
        self, workspace: Workspace, most: int = VERSIONS_OPEN, remove_older: Callable[[datetime], None] = lambda _: None
    ) -> None:
        self._workspace = workspace
        self._most = most
        self._name = workspace.corpus.name
        self.settings = QuerySettings(workspace.file, workspace.corpus)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenVersion] = OrderedDict()
        self._was_live = False
        self._remove_older = remove_older
        self.rewritten: datetime | None = None

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def nothing_live(self) -> str:
        """Return the message for a corpus without a published version."""
        return nothing_live(self._workspace.store, self._name)

    def live(self) -> Pointer | None:
        """Return the live version; None where this process has seen none.

        Raises:
            TransientError: A version was live before: the store is unavailable, or lost its pointer.
        """
        pointer = read_pointer(self._workspace.store)
        if pointer is None and self._was_live:
            raise TransientError(
                f"corpus {self._name}: {self._workspace.store.root} has no live version any more; is the store away?"
            )
        self._was_live = pointer is not None
        return pointer

    @contextlib.contextmanager
    def reading(self, version: str | None = None) -> Iterator[None]:
        """Translate errors of a damaged or unavailable store or index.

        Raises:
            NotFoundError: The version was removed meanwhile.
            TransientError: It can't be read now.
        """
        try:
            yield
        except (BadInputError, UserError):
            raise
        except (InsetError, OSError, RuntimeError, ValueError, pa.ArrowException) as error:
            if version is not None:
                with self._lock:
                    self._open.pop(version, None)  # opened again, it may be whole
                if self._is_gone(version):
                    raise NotFoundError(f"corpus {self._name}: there is no version {version} any more") from error
            if isinstance(error, TransientError):
                raise
            reason = error.message if isinstance(error, InsetError) else _reason(error)
            raise UnforeseenError(
                f"corpus {self._name} can't be read now: {reason}; to see what is wrong: inset doctor {self._name}"
            ) from error

    @contextlib.contextmanager
    def opened(self, wanted: str | Pointer | None) -> Iterator[OpenVersion]:
        """Open a version, the live one where None, by ``resolve_version``; errors are translated as by ``reading``."""
        with self.reading():
            pointer = wanted if isinstance(wanted, Pointer) else self.live()
            self._close_rewritten(pointer)
            if wanted is None:
                wanted = pointer
                if wanted is None:
                    raise NotFoundError(self.nothing_live())
            elif isinstance(wanted, str):
                wanted = resolve_version(self._workspace.store, self._name, wanted)
        version = wanted.version if isinstance(wanted, Pointer) else wanted
        with self.reading(version):
            # A named version may have been removed while it was open here; the live one is never removed.
            if isinstance(wanted, str) and ("/" in wanted or self._is_gone(version)):
                raise NotFoundError(f"corpus {self._name}: there is no version {version}")
            yield self._open_once(version)

    def _is_gone(self, version: str) -> bool:
        with self.reading():
            if self._workspace.store.exists(manifest_name(version)):
                return False
            live = self.live()  # raises where the whole store is away
            if live is not None and live.version == version:
                raise self._no_manifest(version)
            return True

    def _close_rewritten(self, pointer: Pointer | None) -> None:
        """Close all versions where documents were deleted from them since they were opened."""
        rewritten = pointer.rewritten if pointer is not None else None
        with self._lock:
            if rewritten != self.rewritten:
                self._open.clear()
                if rewritten is not None:
                    self._remove_older(rewritten)
                self.rewritten = rewritten

    def _open_once(self, version: str) -> OpenVersion:
        with self._lock:
            if version not in self._open:
                if not self._workspace.store.exists(manifest_name(version)):
                    raise self._no_manifest(version)
                self._open[version] = open_version(self._workspace, version, self.settings)
            self._open.move_to_end(version)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
            return self._open[version]

    def _no_manifest(self, version: str) -> MissingError:
        return damage(MissingError, self._workspace.store.root, manifest_name(version), "is missing")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
