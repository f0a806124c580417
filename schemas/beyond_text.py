"""The page-per-row table of "Beyond Text": a row for each image of a page, and one for a page without images.

Source: "Beyond Text" (Riedler and Langer) and its public code, whose columns these are.
"""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class ExportFormat(StrEnum):
    """Formats of an export."""

    BEYOND_TEXT = "beyond-text"


class ImageFilter(StrEnum):
    """Which images are exported: those that the paper's code takes, or all that have pixels."""

    PAPER = "paper"
    NONE = "none"


BEYOND_TEXT = pa.schema(
    (
        pa.field("index", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("doc_title", pa.string(), nullable=False),
        pa.field("page_number", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("has_image", pa.bool_(), nullable=False),
        pa.field("image_id", pa.string()),
        pa.field("image_bytes", pa.binary()),
    )
)
"""``doc_title`` is title + " - " + subject, ``url`` is ``file.pdf#page=N``, ``image_bytes`` an RGB PNG, masks on white."""

UNIQUE_TEXTS = pa.schema(
    (
        pa.field("index", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field(
            "provenance",
            pa.list_(
                pa.struct(
                    [
                        pa.field("doc_id", pa.string(), nullable=False),
                        pa.field("doc_title", pa.string(), nullable=False),
                        pa.field("page_number", pa.int64(), nullable=False),
                        pa.field("url", pa.string(), nullable=False),
                    ]
                )
            ),
            nullable=False,
        ),
        pa.field("image_ids", pa.list_(pa.string()), nullable=False),
    )
)
"""Each distinct text once, with its pages and images."""

DROPS = pa.schema(
    (
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("page_number", pa.int64(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("image_id", pa.string()),
        pa.field("width", pa.int64()),
        pa.field("height", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
    )
)
"""Every picture that was left out, with the reason."""


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The result of an export. ``drops`` is the file that lists the images left out."""

    version: str
    file: str
    rows: int
    pages: int
    images: int
    dropped: int
    drops: str
