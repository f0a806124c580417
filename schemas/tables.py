"""The export of a version's tables."""

from dataclasses import dataclass

import pyarrow as pa

from schemas.documents import BBOX

TABLES = pa.schema(
    (
        pa.field("file", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("sources", pa.list_(pa.string()), nullable=False),
        pa.field("page", pa.int32(), nullable=False),
        pa.field("bbox", BBOX, nullable=False),
        pa.field("caption", pa.string(), nullable=False),
        pa.field("section_path", pa.list_(pa.string()), nullable=False),
        pa.field("rows", pa.int32(), nullable=False),
        pa.field("columns", pa.int32(), nullable=False),
    )
)
"""The tables exported: the file of each, where it begins, and its rows without its header."""


@dataclass(frozen=True, slots=True)
class TablesSummary:
    """The result of an export of tables."""

    version: str
    folder: str
    documents: int
    tables: int
    rows: int
