"""A version's rows as immutable parts that versions share, and the facts that cross documents.

A part holds the rows of whole documents, and parts cover disjoint ranges of document ids. A new version names the parts of the
version before; only those that hold a changed document are written again. A part's name is the digest of its bytes.

Facts that cross documents (figures with their numbers, digests of words) are multisets with signed counts, in files that are
named likewise: a new version adds a file with the difference.
"""

import bisect
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, zip_longest
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model, read_table
from backends.stores.temporary_tables import NAMED, TemporaryTables, keyed
from schemas.documents import TAGGED
from schemas.errors import MissingError
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.filters import Modality
from schemas.ids import sha256, version_file
from schemas.parquet import Rows, schema_of, table_of, to_parquet
from schemas.ports import ObjectStore

ROWS_A_PART = 1_000
"""If 1 % of documents of 20 rows change, 39 % of such parts do; of parts of 5,000 rows 92 %. A row takes 1.4 times as long."""

FOLDER = "rows"
"""Folder of the parts and facts of all versions of a corpus."""

_PARTS, DOCUMENTS = "parts.json", "documents.parquet"

_MOST_FACT_FILES = 8
"""Files of facts beyond which they are joined: each refresh reads all of them."""


class RowPart(BaseModel):
    """Rows of the documents from ``first`` to ``last``: names, numbers of rows and sizes of the two files."""

    model_config = ConfigDict(frozen=True)

    evidence: str
    placements: str
    first: str
    last: str
    rows: int
    bytes: int
    placement_bytes: int


class VersionParts(BaseModel):
    """The parts of a version, by document id, and the files of its facts with their sizes."""

    model_config = ConfigDict(frozen=True)

    parts: tuple[RowPart, ...] = ()
    words: dict[str, int] = {}
    figures: dict[str, int] = {}

    def sizes(self) -> dict[str, int]:
        """Return the names of all objects with their sizes."""
        evidence = {part.evidence: part.bytes for part in self.parts}
        return self.words | self.figures | evidence | {part.placements: part.placement_bytes for part in self.parts}

    def shards(self, doc_ids: Collection[str]) -> list[list[str]]:
        """Return some documents, sorted, in a list for each part that may hold them."""
        firsts = [part.first for part in self.parts]
        return [[*ids] for _, ids in groupby(sorted(doc_ids), key=lambda doc_id: bisect.bisect_right(firsts, doc_id))]

    def with_documents(self, doc_ids: Collection[str]) -> list[RowPart]:
        """Return the parts that may hold some documents."""
        firsts = [part.first for part in self.parts]
        indices = {bisect.bisect_right(firsts, doc_id) - 1 for doc_id in doc_ids}
        return [self.parts[index] for index in sorted(indices) if index >= 0]


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What a version holds of a document; ``digest`` is that of its rows, ``worded`` the rows that may repeat others."""

    doc_id: str
    digest: str
    text: int
    table: int
    figure: int
    page: int
    placements: int
    tags: int
    worded: int
    language: str | None
    doc_type: str | None

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.text + self.table + self.figure + self.page


WORDS = pa.schema((pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64(), nullable=False)))
"""A digest of words, and how many rows have them."""

FIGURES = pa.schema(
    (
        *(PLACEMENTS.field(name) for name in ("figure_id", "number", "doc_id", "page")),
        pa.field("n", pa.int64(), nullable=False),
    )
)
"""A figure in a document: its number, null without a tag, and its first page there."""


def read_parts(store: ObjectStore, version: str) -> VersionParts:
    """Return the parts of a version; raises ``MissingError`` if it has none, as those of release 0.2.0 and before."""
    try:
        return read_model(store, name := version_file(version, _PARTS), VersionParts)
    except MissingError as error:
        if store.names(version_file(version, "evidence")):
            corpus = store.root.rstrip("/").rpartition("/")[2]
            raise MissingError(
                f"{version} has rows of release 0.2.0 or before; to build them again from finished work: inset refresh {corpus}",
                name,
            ) from error
        raise


def read_documents(store: ObjectStore, version: str) -> dict[str, DocumentFacts]:
    """Return the facts of each document of a version."""
    table = read_table(store, version_file(version, DOCUMENTS), schema_of(DocumentFacts))
    return {facts.doc_id: facts for facts in Rows(DocumentFacts, table)}


def read_digests(store: ObjectStore, version: str) -> dict[str, str]:
    """Return the digest of the rows of each document of a version."""
    table = read_table(store, version_file(version, DOCUMENTS), columns=["doc_id", "digest"])
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def read_part_rows(store: ObjectStore, part: RowPart) -> VersionRows:
    """Return the rows of a part."""
    return VersionRows(read_table(store, part.evidence, EVIDENCE), read_table(store, part.placements, PLACEMENTS))


def rows_of_documents(store: ObjectStore, version: str, doc_ids: Set[str]) -> Iterator[tuple[str, VersionRows]]:
    """Yield the rows of some documents, each with its id; only their parts are read."""
    parts, names = read_parts(store, version), sorted(doc_ids)
    for part in parts.with_documents(doc_ids):
        names_in_part = names[bisect.bisect_left(names, part.first) : bisect.bisect_right(names, part.last)]
        yield from by_document(read_part_rows(store, part).of(names_in_part))


def by_document(rows: VersionRows) -> Iterator[tuple[str, VersionRows]]:
    """Yield the rows of each document."""
    tables = (rows.evidence, rows.placements)
    # Both tables are asked, since a document may have placements and no rows.
    names = sorted({str(name) for table in tables for name in table.column("doc_id").unique().to_pylist()})
    for index, doc_id in enumerate(names[:-1], 1):
        document_rows, rows = rows.split(names[index])
        yield doc_id, document_rows
    if names:
        yield names[-1], rows


DIGITS_OF_WORDS = 16
"""64 bits: of a hundred million rows, no two with other words share them, but for one chance in four thousand."""


class Facts:
    """The facts of a version that cross documents, as tables ``words`` and ``figures`` of a database."""

    def __init__(self, store: ObjectStore, parts: VersionParts, tables: TemporaryTables) -> None:
        self._store, self._tables = store, tables
        self._files = {"words": parts.words, "figures": parts.figures}
        # The first table has all facts of the version; the second has what it adds to the files of the version before.
        for name, schema in (("words", WORDS), ("figures", FIGURES)):
            tables.create(name, schema)
            tables.create(f"changed_{name}", schema)
            for file in self._files[name]:
                tables.add(name, read_table(store, file, schema))

    def add(self, words: pa.Table, figures: pa.Table) -> None:
        """Add facts of rows, as ``facts_of_rows`` returns them."""
        for name, rows in (("words", words), ("figures", figures)):
            self._tables.add(name, rows)
            self._tables.add(f"changed_{name}", rows)

    def sharing(self, numbers: str, digits: int, removed_documents: Set[str]) -> Iterator[pa.Table]:
        """Yield the tagged figures of remaining documents whose number ends as a removed document's, or one of a table.

        Rows are ``doc_id``, ``figure_id`` and ``number``, by document.
        """
        self._tables.create("gone", NAMED)
        self._tables.add_names("gone", removed_documents)
        ending = f"right(number, {digits})"
        endings_of_removed = f"SELECT {ending} FROM figures JOIN gone ON doc_id = gone.name WHERE number IS NOT NULL"
        yield from self._tables.query(
            f"SELECT doc_id, figure_id, number FROM figures ANTI JOIN gone ON doc_id = gone.name "
            f"WHERE {ending} IN (SELECT {ending} FROM {numbers} UNION {endings_of_removed}) "
            f"GROUP BY doc_id, figure_id, number {_LEFT} ORDER BY doc_id"
        )

    def sharing_figures(self, doc_ids: Set[str]) -> Iterator[pa.Table]:
        """Yield the figures of other documents that some documents have too, or whose number one of theirs has."""
        self._tables.create("changed", NAMED)
        self._tables.add_names("changed", doc_ids)
        figures_of_changed = "SELECT {} FROM figures JOIN changed ON doc_id = name"
        yield from self._tables.query(
            "SELECT doc_id, page, figure_id, number FROM figures ANTI JOIN changed ON doc_id = name "
            f"WHERE figure_id IN ({figures_of_changed.format('figure_id')}) OR number IN ({figures_of_changed.format('number')}) "
            f"GROUP BY doc_id, page, figure_id, number {_LEFT} ORDER BY doc_id, page, figure_id"
        )

    def repeated(self) -> int:
        """Return how many rows have words that an earlier row has."""
        counted = f"SELECT sum(n) AS n FROM words GROUP BY key {_LEFT}"
        return int(next(self._tables.values(f"SELECT coalesce(sum(n) - count(*), 0)::BIGINT FROM ({counted})")))

    def figures(self) -> int:
        """Return how many figures the version has."""
        counted_figures = f"SELECT figure_id FROM figures GROUP BY figure_id, number, doc_id, page {_LEFT}"
        return int(next(self._tables.values(f"SELECT count(DISTINCT figure_id) FROM ({counted_figures})")))

    def write(self, *, joined: bool) -> tuple[dict[str, int], dict[str, int]]:
        """Write the changes, or all facts ``joined``; return the names of the version's files of words and of figures."""
        return self._written("words", WORDS, joined), self._written("figures", FIGURES, joined)

    def _written(self, name: str, schema: pa.Schema, joined: bool) -> dict[str, int]:
        files = self._files[name]
        joined = joined or len(files) >= _MOST_FACT_FILES
        keys = ", ".join(schema.names[:-1])
        # Joined facts replace all files of the version before; else the changes are one more file.
        source = name if joined else f"changed_{name}"
        sql = f"SELECT {keys}, sum(n)::BIGINT AS n FROM {source} GROUP BY {keys} {_LEFT} ORDER BY {keys}"
        rows = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in self._tables.query(sql))])
        return ({} if joined else files) | (dict([write_rows(self._store, rows)]) if rows.num_rows else {})


def facts_of_rows(rows: VersionRows, sign: int = 1) -> tuple[pa.Table, pa.Table]:
    """Return the words and figures of rows, counted ``sign`` times."""
    keys = pc.utf8_slice_codeunits(keyed_by_words(rows.evidence, 0).column("key"), 0, DIGITS_OF_WORDS)
    placed = rows.placements.select(["figure_id", "number", "doc_id", "page"])
    placed = placed.filter(pc.is_valid(placed.column("figure_id")))
    first = placed.group_by(["figure_id", "number", "doc_id"], use_threads=False).aggregate([("page", "min")])
    columns = [*(first.column(name) for name in ("figure_id", "number", "doc_id", "page_min"))]
    words = pa.table([keys, pa.repeat(sign, len(keys))], schema=WORDS)
    return words, pa.table([*columns, pa.repeat(sign, first.num_rows)], schema=FIGURES)


@dataclass(frozen=True)
class NewRows:
    """Rows of some documents with their facts; ``words`` and ``figures`` are those of all rows."""

    rows: VersionRows
    documents: Sequence[DocumentFacts]
    words: pa.Table
    figures: pa.Table


def new_rows(rows_by_document: Iterable[tuple[str, VersionRows]]) -> NewRows:
    """Return rows of documents with their facts; a document may have none."""
    documents = [(doc_id, rows) for doc_id, rows in rows_by_document if rows.last is not None]
    rows = VersionRows.joined(rows for _, rows in documents)
    return NewRows(rows, [_facts(doc_id, rows) for doc_id, rows in documents], *facts_of_rows(rows))


# Counts of rows that were added and taken away again add up to 0.
_LEFT = "HAVING sum(n) <> 0"


def write_rows(store: ObjectStore, rows: pa.Table) -> tuple[str, int]:
    """Write rows under the digest of their bytes; return name and size."""
    data = to_parquet(rows.combine_chunks())
    name = f"{FOLDER}/{sha256(data)}.parquet"
    store.put(name, data)
    return name, len(data)


class _PartsWriter:
    """Cuts a stream of whole documents' rows into parts; the same stream gives the same parts, however it comes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._waiting: list[VersionRows] = []
        self.waiting = 0
        """Number of rows that aren't written yet."""
        self.parts: list[RowPart] = []

    def add(self, rows: VersionRows) -> None:
        """Add rows, and write the parts that are full."""
        self._waiting.append(rows)
        self.waiting += rows.evidence.num_rows
        while self.waiting > ROWS_A_PART:
            joined_rows = VersionRows.joined(self._waiting)
            documents = joined_rows.evidence.column("doc_id")
            # The document that doesn't fit begins the next part, unless it is alone.
            first_of_next = str(documents[ROWS_A_PART].as_py())
            if first_of_next == str(documents[0].as_py()):
                later_ids = (str(name) for name in documents.unique().to_pylist())
                first_of_next = next((name for name in later_ids if name > first_of_next), "")
            if not first_of_next:  # a long document is a part of its own
                break
            full, remainder = joined_rows.split(first_of_next)
            self._write(full)
            self._waiting, self.waiting = [remainder], remainder.evidence.num_rows

    def flush(self) -> None:
        """Write the rest as a part."""
        joined_rows = VersionRows.joined(self._waiting)
        if joined_rows.last is not None:
            self._write(joined_rows)
        self._waiting, self.waiting = [], 0

    def keep(self, part: RowPart) -> None:
        """Take over a part of an earlier version."""
        self.flush()
        self.parts.append(part)

    def _write(self, rows: VersionRows) -> None:
        evidence, size = write_rows(self._store, rows.evidence)
        placements, placement_size = write_rows(self._store, rows.placements)
        self.parts.append(
            RowPart(
                evidence=evidence,
                placements=placements,
                first=str(rows.first),
                last=str(rows.last),
                rows=rows.evidence.num_rows,
                bytes=size,
                placement_bytes=placement_size,
            )
        )


def write_version_rows(
    store: ObjectStore,
    version: str,
    base: VersionParts,
    documents: Mapping[str, DocumentFacts],
    dropped: Set[str],
    new_rows: Iterable[NewRows],
    facts: Facts,
    *,
    joined: bool = False,
) -> dict[str, int]:
    """Write the parts of a version that differ from ``base``, those of an earlier one, and their list; return its counts.

    ``documents`` are the facts of the documents in ``base``, of which ``dropped`` ones are left out, and ``facts`` those
    that cross documents. ``new_rows`` come by document id. With ``joined``, the files of facts are joined, so that no trace
    of ``dropped`` documents is left in them.
    """
    writer = _PartsWriter(store)
    facts_by_document = {doc_id: facts_of for doc_id, facts_of in documents.items() if doc_id not in dropped}
    dropped_ids = sorted(dropped)

    def added() -> Iterator[tuple[str, VersionRows]]:
        for batch in new_rows:
            facts.add(batch.words, batch.figures)
            facts_by_document.update({document.doc_id: document for document in batch.documents})
            yield from by_document(batch.rows)

    documents_to_add = added()
    next_document = next(documents_to_add, None)

    def added_before(doc_id: str | None) -> Iterator[tuple[str, VersionRows]]:
        nonlocal next_document
        while next_document is not None and (doc_id is None or next_document[0] < doc_id):
            yield next_document
            next_document = next(documents_to_add, None)

    # Merges two streams in the order of document ids: the parts of the earlier version, and the new documents. A part
    # is named again unless a document leaves it, or a new one comes before the next part.
    for part, following in zip_longest(base.parts, (later_part.first for later_part in base.parts[1:])):
        has_dropped = bisect.bisect_left(dropped_ids, part.first) < bisect.bisect_right(dropped_ids, part.last)
        is_joined = next_document is not None and (following is None or next_document[0] < following)
        # Small parts are joined with the next one.
        if not has_dropped and not is_joined and not 0 < writer.waiting < ROWS_A_PART // 4:
            writer.keep(part)
            continue
        rows = read_part_rows(store, part)
        if has_dropped:
            # Files of facts are shared with other versions, so the facts of dropped rows are subtracted in a new file.
            facts.add(*facts_of_rows(rows.of(dropped), -1))
            rows = rows.without(dropped)
        for _, document_rows in merge(by_document(rows), added_before(following), key=itemgetter(0)):
            writer.add(document_rows)
    for _, document_rows in added_before(None):
        writer.add(document_rows)
    writer.flush()
    return _write_lists(store, version, writer.parts, facts_by_document, facts, joined=joined)


def _write_lists(
    store: ObjectStore,
    version: str,
    parts: Sequence[RowPart],
    facts_by_document: Mapping[str, DocumentFacts],
    facts: Facts,
    *,
    joined: bool,
) -> dict[str, int]:
    """Write the facts of a version and the list of its parts; return its counts."""
    words, figures = facts.write(joined=joined)
    documents = [facts_by_document[doc_id] for doc_id in sorted(facts_by_document)]
    store.replace(version_file(version, DOCUMENTS), to_parquet(table_of(DocumentFacts, documents)))
    listed = VersionParts(parts=tuple(parts), words=words, figures=figures)
    store.replace(version_file(version, _PARTS), listed.model_dump_json().encode())
    return {"figures": facts.figures(), **count_documents(documents), "evidence_bytes": sum(part.bytes for part in parts)}


def _facts(doc_id: str, rows: VersionRows) -> DocumentFacts:
    modalities = Counter(map(str, rows.evidence.column("modality").to_pylist()))
    first = rows.evidence.slice(0, 1).to_pylist()
    tagged = {str(role) for role in TAGGED}
    text = json.dumps([rows.evidence.to_pylist(), rows.placements.to_pylist()], sort_keys=True)
    return DocumentFacts(
        doc_id=doc_id,
        digest=sha256(text.encode("utf-8", "surrogatepass")),
        **{str(modality): modalities[str(modality)] for modality in Modality},
        placements=rows.placements.num_rows,
        tags=sum(role in tagged for role in rows.placements.column("role").to_pylist()),
        worded=keyed_by_words(rows.evidence, 0).num_rows,
        language=first[0]["language"] if first else None,
        doc_type=first[0]["doc_type"] if first else None,
    )


IN = "documents_in_"
"""Prefix of the counts of documents by language."""

OF_TYPE = "documents_of_"
"""Prefix of the counts of documents by type."""


def count_documents(documents: Sequence[DocumentFacts]) -> dict[str, int]:
    """Return the counts of documents' rows as the note of ``assemble`` has them."""
    languages = Counter(facts.language for facts in documents if facts.language is not None)
    types = Counter(facts.doc_type for facts in documents if facts.doc_type is not None)
    modalities = {str(modality): sum(getattr(facts, modality) for facts in documents) for modality in Modality}
    return {
        "placements": sum(facts.placements for facts in documents),
        "tags": sum(facts.tags for facts in documents),
        "rows": sum(facts.rows for facts in documents),
        **{f"rows_{modality}": count for modality, count in modalities.items() if count},
        **{f"{IN}{language}": count for language, count in languages.most_common()},
        **{f"{OF_TYPE}{doc_type}": count for doc_type, count in types.most_common()},
    }


def keyed_by_words(evidence: pa.Table, first: int) -> pa.Table:
    """Return rows of ``KEYED``, the key a digest of title, section and text; none for rows without text, of figures and of pages.

    ``first`` is the index of the first row.
    """
    columns = (evidence.column(name).to_pylist() for name in ("modality", "title", "section_path", "text"))
    rows, keys = [], []
    for row, (modality, title, path, text) in enumerate(zip(*columns, strict=True), first):
        if text and modality not in (Modality.FIGURE, Modality.PAGE):
            rows.append(row)
            keys.append(sha256("\n".join((title or "", *path, text)).encode()))
    return keyed(rows, keys)
