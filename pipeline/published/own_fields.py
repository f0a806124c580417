"""Fields of a corpus's own in an open version: values of documents, facets, and which revision supersedes which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.records.columns import NEWER
from schemas.corpus import Corpus
from schemas.corpus.documents import OwnField, Supersedes
from schemas.evidence import FieldValue
from schemas.filters import SUPERSEDED, FieldType, field_column
from schemas.reports import Facet

MOST_VALUES = 50
"""Maximum values of a facet, the most frequent ones."""

AreVisible = Callable[[Sequence[str]], NDArray[np.bool_]]
"""Returns which documents a reader may see."""


_NO_DOCUMENTS = pa.schema([("doc_id", pa.string())]).empty_table()


class OwnFields:
    """The fields of a version's documents.

    Args:
        table: Columns by ``doc_id``; None where the version has none.
        fields: Those that the version was made with, by name.
        supersedes: How revisions supersede each other in the version.
        settings: Returns the current corpus file, whose titles and choices of what is shown count.
    """

    def __init__(
        self,
        table: pa.Table | None,
        fields: Mapping[str, OwnField],
        supersedes: Supersedes | None,
        settings: Callable[[], Corpus],
    ) -> None:
        columns = [] if table is None else table.column_names
        self._fields = {name: field for name, field in fields.items() if field_column(name) in columns}
        self._supersedes = supersedes if SUPERSEDED in columns else None
        column_names = [*map(field_column, self._fields), *([SUPERSEDED, NEWER] if self._supersedes else [])]
        table = _NO_DOCUMENTS if table is None or not column_names else table.select(["doc_id", *column_names])
        self._table = table.combine_chunks()
        self._rows: dict[Any, int] = {doc_id: row for row, doc_id in enumerate(self._table.column("doc_id").to_pylist())}
        self._settings = settings

    @property
    def types(self) -> dict[str, FieldType]:
        """The type of each field."""
        return {name: field.type for name, field in self._fields.items()}

    @property
    def newest(self) -> str | None:
        """The field that is greatest in a valid revision; None where no document supersedes another."""
        return None if self._supersedes is None else self._supersedes.newest

    def of(self, doc_id: str) -> dict[str, FieldValue]:
        """Return the shown fields of a document that have a value."""
        values = {name: self._value(doc_id, name) for name in self._fields if self._now(name).shown}
        return {name: value for name, value in values.items() if value is not None}

    def superseded(self, doc_id: str, are_visible: AreVisible) -> str:
        """Return what supersedes a document, such as "Revision 7, superseded by 9"; "" where nothing does."""
        name = self.newest
        if name is None or not (newer := self._newer(doc_id, are_visible)):
            return ""
        value, newest = (in_words(self._value(revision, name)) for revision in (doc_id, newer[0]))
        return f"{self._title(name)} {value}, superseded by {newest}"

    def valid_for(self, are_visible: AreVisible) -> tuple[str, ...]:
        """Return the superseded documents of whose newer revisions a reader may see none."""
        if self._supersedes is None:
            return ()
        superseded = self._table.filter(self._table.column(SUPERSEDED)).column("doc_id").to_pylist()
        return tuple(str(doc_id) for doc_id in superseded if not self._newer(str(doc_id), are_visible))

    def facets(self, are_visible: AreVisible) -> list[Facet]:
        """Return the fields with, of facets, the documents by value that a reader may see, the most frequent first."""
        visible_rows = self._table.filter(pa.array(are_visible([*self._rows]), pa.bool_()))
        return [
            Facet(
                name=name,
                title=self._title(name),
                type=field.type,
                values=_counted(visible_rows.column(field_column(name))) if self._now(name).facet else {},
            )
            for name, field in self._fields.items()
        ]

    def _now(self, name: str) -> OwnField:
        return self._settings().fields.get(name, self._fields[name])

    def _title(self, name: str) -> str:
        return self._now(name).title or name.replace("_", " ").capitalize()

    def _newer(self, doc_id: str, are_visible: AreVisible) -> list[str]:
        newer = self._cell(doc_id, NEWER) or []
        return [name for name, is_visible in zip(newer, are_visible(newer), strict=True) if is_visible]

    def _value(self, doc_id: str, name: str) -> Any:
        value = self._cell(doc_id, field_column(name))
        return value[0] if self._fields[name].type == "keyword" and value else value

    def _cell(self, doc_id: str, column: str) -> Any:
        return self._table.column(column)[self._rows[doc_id]].as_py() if doc_id in self._rows else None


def in_words(value: object) -> str:
    """Return a field's value as people read it."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "yes" if value is True else "no" if value is False else f"{value:g}" if isinstance(value, float) else str(value)


def _counted(column: "pa.ChunkedArray[Any]") -> dict[str, int]:
    values: Any = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    counts = [(str(row["counts"]), row["values"]) for row in values.drop_null().value_counts().to_pylist()]
    counts.sort(key=lambda pair: (-int(pair[0]), pair[1]))
    return {
        str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value): int(
            count
        )
        for count, value in counts[:MOST_VALUES]
    }
