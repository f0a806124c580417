"""What grows with a corpus: ``python -m bench.scale [--documents N ...] [--pages P] [--listed N ...] [--json]``.

Finished work of N documents is made up, 4 rows for each of 5 pages: structured documents, figures, and vectors in their
cache, as the steps before ``assemble`` leave them, so that no model and no PDF is measured. Then a version is made of it, a
hundredth of the documents changes, and another is made; each stage runs in a process of its own, whose peak memory and
CPU-seconds are shown. Vectors are random, of unit length. Wall times of a shared machine say little: ratios
are of CPU-seconds a row. Stages run in one process; with ``--workers``, ``assemble`` and ``check`` run on so many workers of Ray,
too, and wall times are compared. With ``--listed``, only the plan of N listed PDFs is made, read and cut into shards.

With ``--simulated``, what each refresh reads of a whole version is made up for N documents, without rows and vectors: the ledger,
the facts of documents, the list of parts and the facts that cross documents; then a version with 1 % other documents beside it.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import shake_128
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.table import Row, parser_of, show

if TYPE_CHECKING:
    from pipeline.corpus.workspace import Workspace
    from schemas.documents import Chunk, ParsedDocument, StructuredDocument
    from schemas.versions import PlannedDocument, SourceFile

PAGES = 5
TEXTS_A_PAGE = 3
ROWS_A_PAGE = TEXTS_A_PAGE + 1
WORDS_A_TEXT = 110
WORDS = 30_000
FIGURE_PX = 8
DOCUMENTS_AT_ONCE = 250

MOST_MB, MOST_GROWTH, MOST_TIME_RATIO, MOST_REFRESH = 2048, 1.5, 1.2, 0.1

_CORPUS = "name: manuals\nsource: pdfs\nstore: store\ncaptions: {ocr: none}\nchunks: {tokens: 512}\n"
_RAY = "ray: {{num_cpus: {}}}\n"
_FIRST, _SECOND = "20260101T000000Z-00000001", "20260102T000000Z-00000002"
_FULL = ("assemble", "check", "build")
_STAGES = ("made up", *_FULL, "publish", "changed", *(f"refresh: {stage}" for stage in (*_FULL, "publish")), "diff")
_SHARDED, _ON_WORKERS = ("assemble", "check"), " on workers"
_SETTING_UP = ("made up", "changed")


@dataclass(frozen=True)
class Cost:
    """What a stage took: ``peak_mb`` of its own process, ``cpu_s`` of that and of its children."""

    peak_mb: float
    cpu_s: float
    wall_s: float


def main() -> None:
    """Make versions of corpora of several sizes, and print what their stages take."""
    parser = parser_of("scale", __doc__)
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[2_000, 20_000, 100_000], help="sizes, the smallest first"
    )
    parser.add_argument(
        "--pages", type=int, default=PAGES, help=f"pages a document, {ROWS_A_PAGE} rows each (default: {PAGES})"
    )
    parser.add_argument("--listed", type=int, nargs="+", help="plan so many listed PDFs, and nothing else")
    parser.add_argument("--simulated", type=int, nargs="+", help="read and write what versions of N documents list")
    parser.add_argument("--weaviate", metavar="URL", help="build in this server instead of in LanceDB")
    parser.add_argument("--workers", type=int, help="compare assemble and check on so many workers with one process")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--stage", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        stage, root, documents, pages = arguments.stage
        print(json.dumps(asdict(_run(stage, Path(root), int(documents), int(pages)))))
        return
    if arguments.listed:
        show("plan of made-up listings, no PDF is read", [row for listed in arguments.listed for row in _planned(listed)])
        return
    if arguments.simulated:
        rows = [row for documents in arguments.simulated for row in _simulated(documents)]
        show(f"what versions list, of documents of {_ROWS_LISTED} rows each, made up; no rows, no vectors", rows)
        return
    index = f"index: {{engine: weaviate, url: {arguments.weaviate}}}\n" if arguments.weaviate else ""
    costs: dict[int, dict[str, Cost]] = {}
    for documents in arguments.documents:
        with tempfile.TemporaryDirectory(prefix="inset-scale-") as folder:
            costs[documents] = {}
            stages = [(stage, stage, 1) for stage in _STAGES]
            if arguments.workers:
                stages += [(stage + _ON_WORKERS, stage, arguments.workers) for stage in _SHARDED]
            for name, stage, workers in stages:
                (Path(folder) / "manuals.yaml").write_text(_CORPUS + _RAY.format(workers) + index)
                cost = costs[documents][name] = _alone(stage, Path(folder), documents, arguments.pages)
                sys.stderr.write(
                    f"{documents} documents, {name}: {cost.peak_mb:.0f} MB, {cost.cpu_s:.1f} CPU-s, {cost.wall_s:.1f} s\n"
                )
    rows = arguments.pages * ROWS_A_PAGE
    show(f"documents of {rows} rows each, made up; {'Weaviate' if index else 'LanceDB'}", list(_rows(costs, rows)))


def _rows(costs: dict[int, dict[str, Cost]], rows_each: int) -> Iterator[Row]:
    least, *_ = sizes = list(costs)
    for documents in sizes:
        rows, stages, first = documents * rows_each, costs[documents], costs[least]
        floor = f"{least:,} documents"
        for stage, cost in stages.items():
            if stage in _SETTING_UP or stage.endswith(_ON_WORKERS):
                continue
            name, peer = f"{documents:,} {stage}", first[stage]
            ours, theirs = 1e6 * cost.cpu_s / rows, 1e6 * peer.cpu_s / (least * rows_each)
            peak = f"ratio at most {MOST_GROWTH}, below {MOST_MB}"
            yield Row(f"{name}, peak", "MB", cost.peak_mb, peer.peak_mb, floor, peak)
            yield Row(f"{name}, time a row", "CPU-µs", ours, theirs, floor, f"ratio at most {MOST_TIME_RATIO}")
        for stage in _SHARDED if "check" + _ON_WORKERS in stages else ():
            name = f"{documents:,} {stage}{_ON_WORKERS}"
            yield Row(
                name, "s", stages[stage + _ON_WORKERS].wall_s, stages[stage].wall_s, "one process", "ratio at most 0.59"
            )
        share = f"ratio at most {MOST_REFRESH}"
        again, full = stages["refresh: build"], stages["build"]
        yield Row(f"{documents:,} build of a 1 % refresh", "CPU-s", again.cpu_s, full.cpu_s, "the full build", share)
        yield Row(f"{documents:,} build of a 1 % refresh", "s", again.wall_s, full.wall_s, "the full build", share)


def _planned(listed: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="inset-scale-") as folder:
        (Path(folder) / "manuals.yaml").write_text(_CORPUS)
        cost = _alone("plan", Path(folder), listed, PAGES)
    yield Row(f"{listed:,} plan, peak", "MB", cost.peak_mb, goal=f"below {MOST_MB}")
    yield Row(f"{listed:,} plan, time a document", "CPU-µs", 1e6 * cost.cpu_s / listed)


def _simulated(documents: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="inset-scale-") as folder:
        (Path(folder) / "manuals.yaml").write_text(_CORPUS)
        for stage in _LISTS:
            cost = _alone(stage, Path(folder), documents, PAGES)
            sys.stderr.write(
                f"{documents} documents, {stage}: {cost.peak_mb:.0f} MB, {cost.cpu_s:.1f} CPU-s, {cost.wall_s:.1f} s\n"
            )
            if stage != "lists":
                yield Row(f"{documents:,} {stage}, peak", "MB", cost.peak_mb, goal=f"below {MOST_MB}")
                yield Row(f"{documents:,} {stage}, time a document", "CPU-µs", 1e6 * cost.cpu_s / documents)


def _alone(stage: str, root: Path, documents: int, pages: int) -> Cost:
    command = [sys.executable, "-m", "bench.scale", "--stage", stage, str(root), str(documents), str(pages)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return Cost(**json.loads(ran.stdout.splitlines()[-1]))


def _run(stage: str, root: Path, documents: int, pages: int) -> Cost:
    name = stage.removeprefix("refresh: ")
    version = _FIRST if name == stage else _SECOND
    steps: dict[str, Callable[[], object]] = {
        "made up": partial(_make, root, documents, pages),
        "plan": partial(_plan_listed, root, documents),
        "changed": partial(_change, root, documents, pages),
        "publish": partial(_publish, root, version),
        "diff": partial(_diff, root),
        "lists": partial(_write_lists, root, documents),
        "facts of a first version": partial(_write_facts, root, _FIRST, None, range(documents)),
        "facts of 1 %": partial(_write_facts, root, _SECOND, _FIRST, range(0, documents, 100)),
        "ledger": partial(_read_ledger, root),
        "parts": partial(_read_parts, root),
        "difference": partial(_read_difference, root),
    }
    step = steps.get(name) or _stage(root, name, version)
    began = time.monotonic()
    step()
    wall_s = time.monotonic() - began
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = sum(used.ru_utime + used.ru_stime for used in (own, children))
    return Cost(own.ru_maxrss / 1024, cpu_s, wall_s)


# ---- what is measured ----


def _open(root: Path) -> "Workspace":
    from pipeline.corpus.workspace import open_workspace

    return open_workspace(str(root / "manuals.yaml"))


def _stage(root: Path, name: str, version: str) -> Callable[[], object]:
    from pipeline.run import WORK
    from schemas.stages import Stage, silent

    def run() -> None:
        note = WORK[Stage(name)](_open(root), version, silent)
        refused = [f"{gate.gate}: {gate.message}" for gate in note.gates if not gate.passed]
        assert not refused, refused

    return run


class _Listing:
    """A source of made-up PDFs of a megabyte, which can't be read."""

    def __init__(self, count: int) -> None:
        self._count = count

    def files(self) -> "list[SourceFile]":
        from schemas.versions import SourceFile

        return [SourceFile(f"manuals/manual-{number:07}.pdf", 1_000_000, "1") for number in range(self._count)]

    def digest(self, source: str) -> str:
        from schemas.ids import sha256

        return sha256(source.encode())


def _plan_listed(root: Path, documents: int) -> None:
    from unittest import mock

    from pipeline.corpus.workspace import Workspace
    from pipeline.records.notes import read_plan, write_plan
    from pipeline.stages.plan import plan

    workspace = _open(root)
    with mock.patch.object(Workspace, "source", return_value=_Listing(documents)):
        made = plan(workspace, "bench")
    write_plan(workspace.store, made)
    shards = read_plan(workspace.store, made.version).shards
    assert sum(map(len, shards)) == documents


def _publish(root: Path, version: str) -> None:
    from pipeline.records.lease import holding, release
    from pipeline.stages.publish import publish

    workspace = _open(root)
    with holding(workspace.store, "bench", tied_to_process=True) as lease:
        assert publish(workspace, version, lease)
    release(workspace.store, "bench")


def _diff(root: Path) -> None:
    from pipeline.records.differences import compare_versions

    found = compare_versions(_open(root), _FIRST, _SECOND)
    assert found.documents.changed


# ---- made-up work ----


def publish_made_up(root: Path, documents: int, pages: int) -> None:
    """Publish a corpus ``manuals`` of made-up documents, unchecked; its file is ``manuals.yaml`` in ``root``."""
    (root / "manuals.yaml").write_text(_CORPUS + _RAY.format(1))
    _make(root, documents, pages)
    for stage in ("assemble", "build"):
        _stage(root, stage, _FIRST)()
    _publish(root, _FIRST)


def _make(root: Path, documents: int, pages: int) -> None:
    (root / "pdfs").mkdir()
    planned = _documents(root, range(documents), "a", pages)
    _plan(root, _FIRST, None, planned)


def _change(root: Path, documents: int, pages: int) -> None:
    from pipeline.records.notes import read_plan

    store = _open(root).store
    again = range(0, documents, 100)
    changed = dict(zip(again, _documents(root, again, "b", pages), strict=True))
    before = read_plan(store, _FIRST).documents
    _plan(root, _SECOND, _FIRST, [changed.get(number, document) for number, document in enumerate(before)])


def _plan(root: Path, version: str, parent: str | None, documents: "list[PlannedDocument]") -> None:
    from pipeline.records.notes import write_plan
    from schemas.versions import Plan, PlanSummary

    count = len(documents)
    summary = PlanSummary(
        new=count, changed=0, gone=0, kept=0, to_parse=0, bytes_to_parse=0, sources={"new": [], "changed": [], "gone": []}
    )
    plan = Plan(
        run_id=f"bench-{version[-1]}",
        version=version,
        fingerprint=version[-8:] * 2,
        parent=parent,
        summary=summary,
        documents=documents,
        carried=[],
        shards=[],
    )
    write_plan(_open(root).store, plan)


def _documents(root: Path, numbers: range, edition: str, pages: int) -> "list[PlannedDocument]":
    from schemas.versions import PlannedDocument

    parts = [numbers[start : start + DOCUMENTS_AT_ONCE] for start in range(0, len(numbers), DOCUMENTS_AT_ONCE)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        names = [name for made in pool.map(partial(_write_documents, root, edition, pages), parts) for name in made]
    attempt = _open(root).keys.attempt
    return [
        PlannedDocument(f"manual-{number:06}.pdf", doc_id, 1_000_000, f"{attempt}-{edition}")
        for number, doc_id in zip(numbers, names, strict=True)
    ]


def _write_documents(root: Path, edition: str, pages: int, numbers: Sequence[int]) -> list[str]:
    """Write finished work of documents without the care that a store takes, and the vectors of their texts."""
    import numpy as np

    from backends.stores.document_files import pack_parsed, pack_structured, parsed_file, structured_file
    from pipeline.records.collection import open_vectors
    from pipeline.records.documents import DocumentReader
    from schemas.ids import sha256
    from tasks.enriching.spaces import RowText

    workspace = _open(root)
    store, keys = Path(workspace.store.root), workspace.keys
    known = vocabulary()
    reader = DocumentReader(workspace)
    names: list[str] = []
    rows_by_document: dict[str, list[RowText]] = {}
    for number in numbers:
        chance = random.Random(f"{edition}{number}")
        doc_id = sha256(f"{edition}{number}".encode())
        title = f"Manual {number} of the pump {doc_id[:6]}"
        parsed, structured, chunks = _document(chance, doc_id, title, known, store / "figures", pages)
        for name, data in (
            (parsed_file(doc_id, keys.parse), pack_parsed(parsed)),
            (structured_file(doc_id, keys.structured), pack_structured(structured, (), chunks)),
        ):
            (store / name).parent.mkdir(parents=True, exist_ok=True)
            (store / name).write_bytes(data)
        names.append(doc_id)
        rows_by_document[doc_id] = reader.passages(doc_id, f"{doc_id}.pdf")
    generator = np.random.default_rng(numbers[0])
    for space in open_vectors(workspace.store, workspace.spaces):
        for doc_id, rows in rows_by_document.items():
            ids = sorted(space.contents(rows))
            vectors = generator.standard_normal((len(ids), space.dimension)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            space.write(doc_id, dict(zip(ids, vectors, strict=True)))
    return names


# ---- what versions list ----

_LISTS = ("lists", "facts of a first version", "facts of 1 %", "ledger", "parts", "difference")
_ROWS_LISTED, _WORDED, _FIGURES = 20, 15, 5
_DOCUMENTS_A_BATCH = 5_000


def _name(edition: str, number: int) -> str:
    from schemas.ids import sha256

    return sha256(f"{edition}{number}".encode())


def _names_listed(documents: int, version: str) -> list[str]:
    return [_name("b" if version == _SECOND and number % 100 == 0 else "a", number) for number in range(documents)]


def _write_lists(root: Path, documents: int) -> None:
    """Write ledger, facts of documents and parts of two versions, of which 1 % differs."""
    from pipeline.records.ledger import write_ledger
    from pipeline.records.row_parts import DOCUMENTS, ROWS_A_PART, DocumentFacts, RowPart, VersionParts
    from schemas.ids import version_file
    from schemas.parquet import Rows, to_parquet
    from schemas.versions import LedgerRow, Status

    store = _open(root).store
    for version in (_FIRST, _SECOND):
        names = _names_listed(documents, version)
        ledger = (
            LedgerRow(f"manuals/manual-{number:07}.pdf", name, 1_000_000, "1", Status.INDEXED, "a", PAGES)
            for number, name in enumerate(names)
        )
        write_ledger(store, version, Rows.of(LedgerRow, ledger))
        names.sort()
        facts = (DocumentFacts(name, name, 15, 0, 5, 0, 5, 5, _WORDED, "en", None) for name in names)
        store.replace(version_file(version, DOCUMENTS), to_parquet(Rows.of(DocumentFacts, facts).table))
        starts = range(0, documents, ROWS_A_PART // _ROWS_LISTED)
        parts = tuple(
            RowPart(
                evidence=f"rows/{names[start]}.parquet",
                placements=f"rows/{names[start]}.parquet",
                first=names[start],
                last=names[min(start + ROWS_A_PART // _ROWS_LISTED, documents) - 1],
                rows=ROWS_A_PART,
                bytes=1,
                placement_bytes=1,
            )
            for start in starts
        )
        store.replace(version_file(version, "parts.json"), VersionParts(parts=parts).model_dump_json().encode())


def _write_facts(root: Path, version: str, earlier: str | None, numbers: range) -> None:
    """Add the facts that cross documents, of some documents, to those of an earlier version, and count all."""
    from backends.stores.temporary_tables import TemporaryTables
    from pipeline.records.row_parts import Facts, VersionParts, read_parts
    from schemas.ids import version_file

    store = _open(root).store
    before = read_parts(store, earlier) if earlier else VersionParts()
    with TemporaryTables() as tables:
        facts = Facts(store, before, tables)
        for start in range(0, len(numbers), _DOCUMENTS_A_BATCH):
            batch = numbers[start : start + _DOCUMENTS_A_BATCH]
            if earlier:
                facts.add(*_facts_listed("a", batch, -1))
            facts.add(*_facts_listed("b" if earlier else "a", batch, 1))
        words, figures = facts.write(joined=False)
        assert (facts.figures() > 0, facts.repeated()) == (True, 0)
        if earlier:
            sum(table.num_rows for table in facts.sharing_figures({_name("b", number) for number in numbers}))
    listed = read_parts(store, version).model_copy(update={"words": words, "figures": figures})
    store.replace(version_file(version, "parts.json"), listed.model_dump_json().encode())


def _facts_listed(edition: str, numbers: range, sign: int) -> "tuple[pa.Table, pa.Table]":
    """Return made-up words and figures of documents, the same ones each time."""
    from pipeline.records.row_parts import DIGITS_OF_WORDS, FIGURES, WORDS

    names = [_name(edition, number) for number in numbers]
    digits = "".join(shake_128(name.encode()).hexdigest(_WORDED * DIGITS_OF_WORDS // 2) for name in names)
    keys = [digits[start : start + DIGITS_OF_WORDS] for start in range(0, len(digits), DIGITS_OF_WORDS)]
    words = pa.table([keys, pa.repeat(sign, len(keys))], schema=WORDS)
    figures = [
        (f"{name[:16]}{page}", str(number), name, page)
        for number, name in zip(numbers, names, strict=True)
        for page in range(_FIGURES)
    ]
    columns = [*map(list, zip(*figures, strict=True)), pa.repeat(sign, len(figures))]
    return words, pa.table(columns, schema=FIGURES)


def _read_ledger(root: Path) -> None:
    from pipeline.records.ledger import document_counts, first_sources, indexed_pages, read_ledger

    ledger = read_ledger(_open(root).store, _SECOND)
    assert len(first_sources(ledger)) == len(indexed_pages(ledger)) == document_counts(ledger, [])["documents"]


def _read_parts(root: Path) -> None:
    from pipeline.records.row_parts import read_documents, read_parts

    store = _open(root).store
    parts, changed = read_parts(store, _SECOND), [*read_documents(store, _SECOND)][::100]
    assert len(parts.shards(changed)) <= len(parts.with_documents(changed)) + 1


def _read_difference(root: Path) -> None:
    from pipeline.records.differences import difference

    changes = difference(_open(root).store, _SECOND, _FIRST, with_columns=True)
    assert 0 < len(changes.changed) == len(changes.removed)


def vocabulary() -> list[str]:
    """Return the made-up words of which texts are made, the same ones each time."""
    chance = random.Random(7)
    syllables = [consonant + vowel for consonant in "bdfghklmnprstvz" for vowel in "aeiou"]
    return ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(WORDS)]


def _document(
    chance: random.Random, doc_id: str, title: str, vocabulary: list[str], figures: Path, count: int
) -> "tuple[ParsedDocument, StructuredDocument, list[Chunk]]":
    """Return a document of ``count`` pages; its figures are written."""
    import io
    from hashlib import sha1

    from PIL import Image

    from schemas.documents import (
        Block,
        BlockKind,
        Chunk,
        Figure,
        Kind,
        Page,
        ParsedDocument,
        PlacedFigure,
        Placement,
        Region,
        Role,
        StructuredDocument,
    )
    from schemas.filters import Modality
    from schemas.geometry import BBox
    from schemas.ids import figure_id
    from schemas.tags import placeholder

    chunks: list[Chunk] = []
    pictures: list[Figure] = []
    placements: list[Placement] = []
    placed: list[PlacedFigure] = []
    path = ("Operation",)
    for page in range(1, count + 1):
        pixels = chance.randbytes(FIGURE_PX * FIGURE_PX * 3)
        name = figure_id(FIGURE_PX, FIGURE_PX, pixels)
        digest = sha1(f"{FIGURE_PX}x{FIGURE_PX}:".encode() + pixels, usedforsecurity=False).hexdigest()
        encoded = io.BytesIO()
        Image.frombytes("RGB", (FIGURE_PX, FIGURE_PX), pixels).save(encoded, "png", compress_level=1)
        figures.mkdir(parents=True, exist_ok=True)
        (figures / f"{name}.png").write_bytes(encoded.getvalue())
        caption = f"Figure {page}. The {' '.join(chance.choices(vocabulary, k=8))}"
        box = BBox(72, 500, 540, 700)
        pictures.append(Figure(name, digest, FIGURE_PX, FIGURE_PX, "png"))
        placements.append(Placement(page, page - 1, box, name, Kind.RASTER, Role.CONTENT, "a picture"))
        placed.append(PlacedFigure(placements[-1], caption, path, "", page * ROWS_A_PAGE - 1))
        first = (page - 1) * ROWS_A_PAGE
        for order in range(first, first + TEXTS_A_PAGE):
            # Few words are frequent and most are rare, as in any language.
            words = " ".join(vocabulary[int(WORDS ** chance.random()) - 1] for _ in range(WORDS_A_TEXT))
            refs = (name,) if order == first else ()
            tagged = f"{words} {placeholder(name)}" if refs else words
            where = (Region(page, BBox(72, 72 + order, 540, 200 + order)),)
            chunks.append(Chunk(order, Modality.TEXT, where, path, words, tagged, refs))
        where = (Region(page, box),)
        chunks.append(
            Chunk(
                *(first + TEXTS_A_PAGE, Modality.FIGURE, where, path, caption, f"{placeholder(name)} {caption}", (name,)),
                caption=caption,
                figure_id=name,
                placement=page - 1,
            )
        )
    pages = tuple(Page(page, 612.0, 792.0, 0, 2_000) for page in range(1, count + 1))
    blocks = tuple(
        Block(order, 1 + order // ROWS_A_PAGE, BlockKind.TEXT, BBox(72, 72, 540, 200), "words")
        for order in range(count * ROWS_A_PAGE)
    )
    placed_all, all_pictures = tuple(placements), tuple(pictures)
    parsed = ParsedDocument(doc_id, title, pages, (), all_pictures, placed_all)
    structured = StructuredDocument(doc_id, title, pages, blocks, tuple(placed), placed_all, all_pictures)
    return parsed, structured, chunks


if __name__ == "__main__":
    main()
