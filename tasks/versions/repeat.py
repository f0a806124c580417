"""Find rows that share a key with other rows of their version."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.filters import Modality
from schemas.ids import sha256

KEYED = pa.schema((pa.field("row", pa.int64(), nullable=False), pa.field("key", pa.string(), nullable=False)))
"""A row's index in the version, and its key."""


_REPEATING = frozenset({Modality.FIGURE, Modality.PAGE})


def keyed(rows: Sequence[int] | NDArray[np.int64], keys: Sequence[Any]) -> pa.Table:
    """Return rows of ``KEYED``."""
    return pa.table([pa.array(rows, pa.int64()), pa.array(keys, pa.string())], schema=KEYED)


def keyed_by_words(evidence: pa.Table, first: int) -> pa.Table:
    """Return rows of ``KEYED``, the key a digest of title, section and text; none for rows without text, of figures and of pages.

    ``first`` is the index of the first row.
    """
    columns = (evidence.column(name).to_pylist() for name in ("modality", "title", "section_path", "text"))
    rows, keys = [], []
    for row, (modality, title, path, text) in enumerate(zip(*columns, strict=True), first):
        if text and modality not in _REPEATING:
            rows.append(row)
            keys.append(sha256("\n".join((title or "", *path, text)).encode()))
    return keyed(rows, keys)
