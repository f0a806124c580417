"""What object stores have in common: names, checksums, and what a run remembers of objects."""

import contextlib
import re
from abc import abstractmethod
from collections.abc import Iterator

from backends.stores.objects import check_content, damage, sealed, unsealed
from schemas.errors import ContractError, DamagedError, MissingError
from schemas.ports import ObjectStore

# The engine writes ``lance/``, and people write overrides and rejections without the lease.
_REMEMBERED = re.compile(
    r"versions/[^/]+/(?!lance/|override\.json|rejection\.json).+|(rows|parsed|structured|quarantine|vectors)/.+|FORGOTTEN\.json"
)
"""Objects that only the holder of the lease writes, or whose content never changes."""

_REMEMBERED_BYTES, _MOST_BYTES_OF_ONE = 64 << 20, 4 << 20


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
        """Remember an object, in place of the oldest ones if there are too many bytes."""
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
        """Return stored bytes without their checksum; raises ``DamagedError`` if they changed."""
        try:
            return unsealed(name, stored)
        except ValueError as error:
            raise damage(DamagedError, self.root, name, str(error)) from error
