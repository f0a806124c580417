"""Step: embed the contents of documents' rows, and store their vectors as a file a document."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import unless_damaged
from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import SpaceVectors, batched_rows, open_vectors
from pipeline.records.expected_calls import vectors_of
from ray_jobs.embed import BATCHES_A_CALL, embed, is_few
from ray_jobs.pools import Outcome, RowFailure
from schemas.base import batched
from schemas.errors import TransientError, UserError
from schemas.models import Usage
from schemas.ports import ObjectStore, Vector
from schemas.stages import Report, Step
from schemas.versions import Spent
from tasks.enriching.spaces import EmbeddingInput, RowText, Space
from tasks.enriching.spending import Budget, cost_of, maximum_embedding_cost

ROWS_AT_ONCE = 50_000
"""Rows that are embedded together: some 100 MB of text. Loading a model once for so many is cheap."""


_WRITTEN_EVERY_S = 20.0
"""Vectors of so long have to be made again after a kill."""


@dataclass
class _DocumentVectors:
    """A document that lacks vectors: its ``missing`` contents, those that ``earlier`` files have, and the new vectors."""

    doc_id: str
    missing: dict[str, EmbeddingInput]
    stored: set[str] = field(default_factory=set)
    earlier: list[str] = field(default_factory=list)
    new: dict[str, Vector] = field(default_factory=dict)
    unfinished_file: str | None = None

    @classmethod
    def of(
        cls, store: ObjectStore, vectors: SpaceVectors, doc_id: str, contents: dict[str, EmbeddingInput], before: str | None
    ) -> "_DocumentVectors | None":
        """Return a document that lacks its file; ``before`` is the document whose place in the source it takes."""
        document = cls(doc_id, contents)
        for folder in (doc_id, before):
            for file in store.names(f"{vectors.folder}/{folder}") if folder else ():
                records = unless_damaged(functools.partial(vectors.read, file))
                if records is None:  # a damaged file counts as absent
                    continue
                if file == vectors.file(doc_id, contents):
                    return None
                ids = document.missing.keys() & set(map(str, records.column("id").to_pylist()))
                document.stored |= ids
                document.earlier += [file] if ids else []
                document.missing = {name: content for name, content in document.missing.items() if name not in ids}
        return document

    def write(self, store: ObjectStore, vectors: SpaceVectors) -> None:
        """Write all vectors that there are; without ``missing`` ones, the document is finished."""
        tables, names = [], self.stored.copy()
        for file in self.earlier:
            records = vectors.read(file)
            tables.append(records.filter(pc.is_in(records.column("id"), pa.array(sorted(names), pa.string()))))
            names -= set(map(str, records.column("id").to_pylist()))
        file = vectors.write(self.doc_id, self.new, tables)
        if self.unfinished_file is not None:
            store.delete(self.unfinished_file)
        self.stored |= self.new.keys()
        self.earlier, self.new, self.unfinished_file = [file], {}, file


class Embedding:
    """Embeds what has no vector yet; ``paid`` is the cost of endpoints' vectors, by ``expected_embeddings``' names.

    A document takes over the vectors of its own files and of the document ``before`` it in the source, by their contents.
    """

    def __init__(
        self,
        workspace: Workspace,
        before: Mapping[str, str],
        budget: Budget,
        start_ray: Callable[[bool], None],
        report: Report,
    ) -> None:
        self._workspace, self._before, self._budget = workspace, before, budget
        self._start_ray, self._report = start_ray, report
        self.count, self.paid = 0, dict[str, Spent]()

    def embed(self, documents: Iterable[tuple[str, Sequence[RowText]]]) -> None:
        """Embed rows of documents, space by space; raises ``UserError`` where the budget doesn't hold its calls."""
        spaces = open_vectors(self._workspace.store, self._workspace.spaces)
        for group in batched_rows(documents, ROWS_AT_ONCE):
            for vectors in spaces:
                self._embed_in(vectors, group)

    def _embed_in(self, vectors: SpaceVectors, group: Sequence[tuple[str, Sequence[RowText]]]) -> None:
        store, corpus, space = self._workspace.store, self._workspace.corpus, vectors.space
        documents_by_content: dict[str, list[_DocumentVectors]] = {}
        contents: dict[str, EmbeddingInput] = {}
        for doc_id, rows in group:
            if row_contents := vectors.contents(rows):
                document = _DocumentVectors.of(store, vectors, doc_id, row_contents, self._before.get(doc_id))
                if document is not None and not document.missing:
                    document.write(store, vectors)
                elif document is not None:
                    contents |= document.missing
                    for name in document.missing:
                        documents_by_content.setdefault(name, []).append(document)
        if not contents:
            return
        self._start_ray(not is_few(space, len(contents), corpus.embedding_models, corpus.ray))
        failures: list[RowFailure] = []
        unfinished: dict[str, _DocumentVectors] = {}
        embedded_count, written_at = 0, time.monotonic()
        self._report(Step.EMBED, self.count, self.count + len(contents))
        try:
            for outcomes in self._vectors(space, list(contents), contents):
                failures.extend(outcome.failure for outcome in outcomes if outcome.failure is not None)
                vectors_by_content = {outcome.row_id: outcome.value for outcome in outcomes if outcome.value is not None}
                for name, vector in vectors_by_content.items():
                    for document in documents_by_content.pop(name):
                        document.new[name] = vector
                        del document.missing[name]
                        unfinished[document.doc_id] = document
                is_due = time.monotonic() - written_at > _WRITTEN_EVERY_S
                for document in [document for document in unfinished.values() if is_due or not document.missing]:
                    unfinished.pop(document.doc_id).write(store, vectors)
                    written_at = time.monotonic()
                embedded_count += len(outcomes)
                self._report(Step.EMBED, self.count + embedded_count, self.count + len(contents))
        finally:
            # Also on an error, since the models' work is done: the next refresh takes these vectors over.
            for document in unfinished.values():
                document.write(store, vectors)
        if failures:
            raise TransientError(
                f"{len(failures)} rows have no vector {space.name} ({failures[0].message}); "
                "refresh again: the others are kept"
            )
        self.count += len(contents)

    def _vectors(
        self, space: Space, missing: Sequence[str], contents: Mapping[str, EmbeddingInput]
    ) -> Iterator[list[Outcome[Vector]]]:
        """Yield vectors as ``embed`` does; calls of an endpoint are held to the budget."""
        store, corpus = self._workspace.store, self._workspace.corpus
        endpoint = space.endpoint(corpus.embedding_models)
        if endpoint is None:
            yield from embed(missing, contents, space, corpus.embedding_models, store.root, corpus.ray, Usage())
            return
        batch, embedded_count = space.entry(corpus.embedding_models).batch_size, 0
        for batch_names in batched(missing, batch * BATCHES_A_CALL):
            characters = sum(len(contents[name].text or "") for name in batch_names)
            maximum_cost = maximum_embedding_cost(endpoint.price, characters, endpoint.calls(len(batch_names), batch))
            if not self._budget.reserve(maximum_cost):
                raise UserError(
                    f"budget: it doesn't hold the calls of {space.option}: {len(missing) - embedded_count} rows have no "
                    f"vector {space.name} yet; raise it and refresh again: the others are kept"
                )
            usage = Usage()
            try:
                yield from embed(batch_names, contents, space, corpus.embedding_models, store.root, corpus.ray, usage)
            finally:
                # In ``finally``, since calls cost money even if a later one fails.
                spent = cost_of(endpoint.price, usage)
                self._budget.settle(maximum_cost, spent)
                if spent.calls:
                    name = vectors_of(space)
                    self.paid[name] = self.paid.get(name, Spent()) + spent
            embedded_count += len(batch_names)
