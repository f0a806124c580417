"""The sections of a corpus file on what documents are: who may read them, fields of one's own, which one replaces another."""

import re
from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints, model_validator

from schemas.base import Location, Section, Text
from schemas.filters import FieldType

TITLE = "title"
"""The title of a document, which every document has beside its own fields."""

RESERVED = ("access", "principals", "source", TITLE)
"""Names of columns and keys that no field of one's own may have."""

_PART = re.compile(r"\{([^{}]*)\}")


PdfKey = Literal["author", "subject", "keywords", "creator", "producer", "language"]
PDF_KEYS: tuple[PdfKey, ...] = get_args(PdfKey)


class AccessOptions(Section):
    """Who may read which document; exactly one of ``table``, ``beside`` and ``entry_point`` says it."""

    table: Location | None = Field(
        None,
        description="A CSV or Parquet file with the columns source, a glob, and principals, such as group:service; user:4711. "
        "The last row that fits a source counts; a source without a row is nobody's.",
    )
    beside: bool = Field(False, description="true: the key access of NAME.pdf.meta.yaml beside each document says it.")
    entry_point: Text | None = Field(
        None, description="An entry point of the group inset.access: a function from sources to the principals of each."
    )
    site: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")] | None = Field(
        None, description="Where the groups are from: group:members is group:SITE/members in keys and commands."
    )

    @model_validator(mode="after")
    def _from_one(self) -> "AccessOptions":
        if (self.table is not None) + self.beside + (self.entry_point is not None) != 1:
            raise ValueError("name one of table, beside and entry_point, from which rights come")
        return self


class OwnField(Section):
    """A field of one's own: a fact of each document, which searches filter by."""

    type: FieldType = Field("keyword", description="keyword, keywords (several), number, date or boolean.")
    title: Text | None = Field(None, min_length=1, max_length=100, description="How people read it; default: its name.")
    shown: bool = Field(True, description="Whether citations and the page show it.")
    facet: bool = Field(False, description="Whether the page offers its values with their number of documents.")
    pdf: PdfKey | None = Field(
        None,
        description="The entry of the PDF's or original's own metadata that it is taken from, if nothing else says it.",
    )


class MetadataOptions(Section):
    """Where the values of ``fields`` come from; ``beside`` counts before ``table``, and that before ``path``."""

    table: Location | None = Field(
        None,
        description="A CSV or Parquet file with the column source, a glob, and a column a field; of each field the last row "
        "counts that fits a source and has a value.",
    )
    beside: bool = Field(False, description="true: NAME.pdf.meta.yaml beside each document has a key a field.")
    path: Text | None = Field(
        None, description="A pattern of sources that names fields, such as {product}/{revision}/*; a part holds no slash."
    )

    @model_validator(mode="after")
    def _named_once(self) -> "MetadataOptions":
        names = self.path_fields
        if len(set(names)) < len(names) or not all(map(str.isidentifier, names)):
            raise ValueError("path: write each field once, such as {product}/{revision}/*")
        return self

    def path_pattern(self) -> re.Pattern[str] | None:
        """Return the pattern of sources, with a group a field."""
        if self.path is None:
            return None
        parts = _PART.split(self.path)
        literals = (".*".join(map(re.escape, text.split("*"))) for text in parts[::2])
        groups = (f"(?P<{name}>[^/]+?)" for name in parts[1::2])
        return re.compile("".join(text for pair in zip(literals, [*groups, ""], strict=True) for text in pair), re.DOTALL)

    @property
    def path_fields(self) -> list[str]:
        """The fields that the pattern names."""
        return _PART.findall(self.path or "")


class Supersedes(Section):
    """Which document replaces which: of those that are equal in ``by``, the one with the greatest ``newest``."""

    by: list[str] = Field(
        min_length=1, description="Fields in which revisions of one document are equal; title is the document's own title."
    )
    newest: str = Field(description="The field, a number or a date, that is greatest in the valid revision.")
