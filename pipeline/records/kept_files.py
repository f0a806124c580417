"""Structured documents of a store in S3, kept on this machine's disk while a refresh reads them several times."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from backends.stores.objects import is_remote
from schemas.ids import sha256
from schemas.ports import ObjectStore

MOST_BYTES = 4 << 30
"""Bytes of kept files. The first ones stay, since each pass reads all documents in the same order."""


class _KeptFiles:
    def __init__(self, store: ObjectStore) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inset-structured-"))
        self.bytes = 0
        weakref.finalize(store, shutil.rmtree, self.folder, ignore_errors=True)


_kept: "weakref.WeakKeyDictionary[ObjectStore, _KeptFiles]" = weakref.WeakKeyDictionary()


def read_kept(store: ObjectStore, name: str, is_final: Callable[[bytes], bool]) -> bytes:
    """Return an object, from the disk where it was read before by this store.

    Only objects in S3 are kept, and of those the ones that are final; their folder goes with the store.
    """
    if not is_remote(store):
        return store.get(name)
    if store not in _kept:
        _kept[store] = _KeptFiles(store)
    cached_files = _kept[store]
    file = cached_files.folder / sha256(name.encode())
    try:
        return file.read_bytes()
    except OSError:
        data = store.get(name)
    if cached_files.bytes + len(data) <= MOST_BYTES and is_final(data):
        try:
            file.write_bytes(data)
        except OSError:  # the disk is full, which is no reason to fail
            file.unlink(missing_ok=True)
            cached_files.bytes = MOST_BYTES
        cached_files.bytes += len(data)
    return data
