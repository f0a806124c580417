"""Count what a version's rows hold."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.notes import IN, OF_TYPE
from schemas.documents import TAGGED
from schemas.evidence import PLACEMENTS


class ContentCounter:
    """Counts rows, placements, tags, figures, languages and types; whole documents at a time."""

    def __init__(self, tables: TemporaryTables) -> None:
        self._tables = tables
        tables.create("figures", pa.schema([PLACEMENTS.field("figure_id")]))
        self._rows = self._placements = 0
        self._roles: Counter[str] = Counter()
        self._modalities: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._types: Counter[str] = Counter()

    def add(self, evidence: pa.Table, placements: pa.Table) -> None:
        """Count the rows of some documents."""
        self._rows += evidence.num_rows
        self._placements += placements.num_rows
        self._roles.update(map(str, placements.column("role").to_pylist()))
        self._modalities.update(map(str, evidence.column("modality").to_pylist()))
        self._languages.update(_by_document(evidence, "language"))
        self._types.update(_by_document(evidence, "doc_type"))
        known = placements.select(["figure_id"])
        self._tables.add("figures", known.filter(pc.is_valid(known.column("figure_id"))))

    def counts(self) -> dict[str, int]:
        """Return the counts as the note of ``assemble`` has them."""
        return {
            "figures": next(self._tables.values("SELECT count(DISTINCT figure_id) FROM figures")),
            "placements": self._placements,
            "tags": sum(self._roles[str(role)] for role in TAGGED),
            "rows": self._rows,
            **{f"rows_{modality}": count for modality, count in self._modalities.items()},
            **{f"{IN}{language}": count for language, count in self._languages.most_common()},
            **{f"{OF_TYPE}{doc_type}": count for doc_type, count in self._types.most_common()},
        }


def _by_document(evidence: pa.Table, column: str) -> list[str]:
    """Return the value of each document in a column, without nulls."""
    values = evidence.select(["doc_id", column]).group_by(["doc_id", column]).aggregate([]).column(column)
    return [str(value) for value in values.drop_null().to_pylist()]
