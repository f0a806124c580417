"""Differences between two versions, and reports of experiments that ran on them."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import read_model, read_table, reading, unless_damaged
from backends.stores.temporary_tables import TemporaryTables
from evaluation.golden import ModeReport
from pipeline.corpus.workspace import Workspace
from pipeline.records.columns import read_columns
from pipeline.records.ledger import first_sources, read_ledger
from pipeline.records.manifests import named_manifest, readable_manifest
from pipeline.records.publication import resolve_version
from pipeline.records.row_parts import FIGURES, read_digests, read_parts, rows_of_documents
from schemas.base import Frozen
from schemas.evidence import EVIDENCE
from schemas.ids import version_file
from schemas.parquet import required
from schemas.ports import ObjectStore
from schemas.reports import ChangedFigure, VersionDiff
from schemas.versions import Manifest
from tasks.versions.diff import FIGURES_NAMED, NO_FIGURES, FiguresFound, VersionFacts, diff, release_note


@dataclass(frozen=True)
class Difference:
    """The documents whose rows are gone or changed since an earlier version, and those whose rows are changed or new."""

    store: ObjectStore
    version: str
    earlier: str
    removed: list[str]
    changed: list[str]

    def changed_rows(self) -> Iterator[pa.Table]:
        """Yield the later version's rows of ``changed`` documents."""
        for part in read_parts(self.store, self.version).with_documents(self.changed):
            rows = read_table(self.store, part.evidence, EVIDENCE)
            yield rows.filter(pc.is_in(rows.column("doc_id"), pa.array(self.changed, pa.string())))


def difference(store: ObjectStore, version: str, earlier: str, *, with_columns: bool = False) -> Difference:
    """Return how a version differs from another one.

    ``with_columns`` also compares the columns that an index's rows have by their document, such as rights.
    """
    digests_before, digests_now = read_digests(store, earlier), read_digests(store, version)
    removed = {doc_id for doc_id, digest in digests_before.items() if digests_now.get(doc_id) != digest}
    changed = {doc_id for doc_id, digest in digests_now.items() if digests_before.get(doc_id) != digest}
    if with_columns:
        before, now = (_columns_by_document(store, name) for name in (earlier, version))
        differing = {doc_id for doc_id in before.keys() | now.keys() if before.get(doc_id) != now.get(doc_id)}
        removed |= differing & digests_before.keys()
        changed |= differing & digests_now.keys()
    return Difference(store, version, earlier, sorted(removed), sorted(changed))


def _columns_by_document(store: ObjectStore, version: str) -> dict[str, dict[str, Any]]:
    columns = read_columns(store, version)
    return {} if columns is None else {row["doc_id"]: row for row in columns.to_pylist()}


REPORT = "report.html"
COMPARED = "changes.json"


class Compared(Frozen):
    """What surely became worse or better since earlier reports of the same experiment, a line each."""

    worse: list[str]
    better: list[str]


def stored_name(version: str, experiment: str, file: str) -> str:
    """Return the store name of a file of an experiment's last run on a version."""
    return version_file(version, f"evaluation/{experiment}/{file}")


def read_compared(store: ObjectStore, version: str, experiment: str) -> Compared | None:
    """Return what changed when an experiment was last compared; None if it wasn't."""
    name = stored_name(version, experiment, COMPARED)
    return read_model(store, name, Compared) if store.exists(name) else None


JUDGED = "judged"
"""Report of the default preset among those in a version's ``evaluation/``."""

COMPLAINTS_ANSWERED = "evaluation/complaints.json"
"""Which golden questions made of feedback a version answers, by id."""

_METRICS = {"recall_at_1", "recall_at_10", "reciprocal_rank", "ndcg_at_10", "figure_recall_at_10", "answered", "abstained"}


def compare_versions(workspace: Workspace, base: str, version: str) -> VersionDiff:
    """Return what changed between two versions, each by name or as ``resolve_version`` knows it, or raise ``UserError``."""
    store, corpus = workspace.store, workspace.corpus.name
    base_manifest, manifest = (
        named_manifest(store, corpus, resolve_version(store, corpus, name)) for name in (base, version)
    )
    return _version_diff(store, base_manifest, manifest)


def write_diff(store: ObjectStore, manifest: Manifest) -> None:
    """Write what changed since a version's parent: ``diff.json``, and ``release_note.md`` for people."""
    base = readable_manifest(store, manifest.parent)
    # Files of the parent may be damaged.
    version_diff = unless_damaged(lambda: _version_diff(store, base, manifest)) if base is not None else None
    _write_diff(store, manifest.version, version_diff or _version_diff(store, None, manifest))


def write_numbers_diff(store: ObjectStore, base: Manifest, manifest: Manifest) -> None:
    """Write what changed in numbers alone, for a version that lacks documents which nobody may name."""
    base_facts, facts = (
        VersionFacts(manifest=described, sources=read_ledger(store, manifest.version), metrics={}, found={})
        for described in (base, manifest)
    )
    _write_diff(store, manifest.version, diff(base_facts, facts))


def _write_diff(store: ObjectStore, version: str, version_diff: VersionDiff) -> None:
    store.replace(version_file(version, "diff.json"), version_diff.model_dump_json(indent=1).encode())
    store.replace(version_file(version, "release_note.md"), release_note(version_diff).encode())


def _version_diff(store: ObjectStore, base: Manifest | None, manifest: Manifest) -> VersionDiff:
    gained, lost = _figures_gained_and_lost(store, manifest.version, base.version if base else None)
    return diff(_facts(store, base) if base else None, _facts(store, manifest), gained, lost)


def _facts(store: ObjectStore, manifest: Manifest) -> VersionFacts:
    report: ModeReport | None = None
    with contextlib.suppress(FileNotFoundError):
        report = read_model(store, version_file(manifest.version, f"evaluation/{JUDGED}.json"), ModeReport)
    return VersionFacts(
        manifest=manifest,
        sources=read_ledger(store, manifest.version),
        metrics=report.model_dump(include=_METRICS) if report else {},
        found={score.id: score.page_rank is not None for score in report.scores} if report else {},
        complaints=_complaints(store, manifest.version),
    )


def _complaints(store: ObjectStore, version: str) -> tuple[int, int] | None:
    """Return how many complaints a version answers, and of how many; None where there are none."""
    name = version_file(version, COMPLAINTS_ANSWERED)
    if not store.exists(name):
        return None
    answered = store.get(name)
    with reading(store, name):
        outcomes = json.loads(answered)
    return sum(outcomes.values()), len(outcomes)


_SOURCES = pa.schema(required(doc_id=pa.string(), source=pa.string()))
_TAGGED = "(SELECT figure_id, doc_id, page FROM {} WHERE number IS NOT NULL GROUP BY ALL HAVING sum(n) <> 0)"


def _figures_gained_and_lost(store: ObjectStore, version: str, base: str | None) -> tuple[FiguresFound, FiguresFound]:
    """Return the tagged figures that a version has and its base hasn't, and the other way, by their facts."""
    with TemporaryTables() as tables:
        for name, with_figures in (("now", version), ("before", base)):
            tables.create(name, FIGURES)
            for file in read_parts(store, with_figures).figures if with_figures else ():
                tables.add(name, read_table(store, file, FIGURES))
        lost = NO_FIGURES if base is None else _figures_only_in(store, base, tables, "before", "now")
        return _figures_only_in(store, version, tables, "now", "before"), lost


def _figures_only_in(
    store: ObjectStore, version: str, tables: TemporaryTables, figures_of_it: str, figures_of_other: str
) -> FiguresFound:
    """Return the tagged figures of a version that another one hasn't; both have a table of figures by name."""
    sources, sources_table = first_sources(read_ledger(store, version)), f"sources_{figures_of_it}"
    tables.create(sources_table, _SOURCES)
    tables.add(sources_table, pa.table([[*sources], [*sources.values()]], schema=_SOURCES))
    only = (
        "(SELECT figure_id, min(doc_id) AS doc_id, arg_min(page, doc_id) AS page FROM "
        f"{_TAGGED.format(figures_of_it)} ANTI JOIN {_TAGGED.format(figures_of_other)} USING (figure_id) GROUP BY figure_id)"
    )
    total = int(next(tables.values(f"SELECT count(*) FROM {only}")))
    first_figures = (
        f"FROM {only} LEFT JOIN {sources_table} USING (doc_id) ORDER BY source, page, figure_id LIMIT {FIGURES_NAMED}"
    )
    selected = f"SELECT doc_id, figure_id, coalesce(source, doc_id) AS source {first_figures}"
    figures = [row for part in tables.query(selected) for row in part.to_pylist()]
    placed: dict[tuple[str, str], dict[str, Any]] = {}
    for doc_id, rows in rows_of_documents(store, version, {row["doc_id"] for row in figures}):
        tagged = rows.placements.filter(pc.is_valid(rows.placements.column("tag")))
        for placement in tagged.select(["figure_id", "tag", "page", "caption"]).to_pylist():
            placed.setdefault((doc_id, placement["figure_id"]), placement)
    named_figures = [
        ChangedFigure(source=row["source"], **placed[row["doc_id"], row["figure_id"]])
        for row in figures
        if (row["doc_id"], row["figure_id"]) in placed
    ]
    return named_figures, total
