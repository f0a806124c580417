"""Pages of lists of a large corpus: ``python -m bench.browse [--documents N] [--json]``.

A version of N documents is made up, 20 rows and a figure a page each, as ``assemble`` leaves it. Lists are then read over HTTP,
in this process: the first page reads titles of documents, others are in the middle of a list, by several orders and filters.
"""

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.scale import PAGES, ROWS_A_PAGE, vocabulary
from bench.table import Row, parser_of, show

if TYPE_CHECKING:
    from pipeline.corpus.workspace import Workspace

VERSION = "20260101T000000Z-00000001"
MOST_MS = 100
_TIMES = 7
_TEXTS = 1_000
_DOCUMENTS_AT_ONCE = 500
_CORPUS = "name: manuals\nsource: pdfs\nstore: store\ncaptions: {ocr: none}\n"
_LISTS = {
    "documents": "documents?",
    "documents by date": "documents?sort=-date&",
    "documents by title, of a folder": "documents?sort=title&source=folder-1*&",
    "documents by a part of their title": "documents?contains=pump%201&",
    "figures": "figures?",
    "figures by a part of their caption": "figures?contains=gear&",
}


def main() -> None:
    """Make up a version, and print how long pages of its lists take."""
    parser = parser_of("browse", __doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    documents = parser.parse_args().documents
    with tempfile.TemporaryDirectory(prefix="inset-browse-") as folder:
        (Path(folder) / "pdfs").mkdir()
        (Path(folder) / "manuals.yaml").write_text(_CORPUS)
        show(
            f"{documents:,} documents, {documents * PAGES * ROWS_A_PAGE:,} rows, made up",
            list(_rows(Path(folder), documents)),
        )


def _rows(folder: Path, documents: int) -> Iterator[Row]:
    from fastapi.testclient import TestClient

    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.corpus import PublishedCorpus
    from query_service.app import create_app

    workspace = open_workspace(str(folder / "manuals.yaml"))
    _make(workspace, documents)
    opened = _opened(workspace)

    class OneVersion(PublishedCorpus):
        @contextlib.contextmanager
        def opened(self, wanted: Any = None) -> Iterator[Any]:
            yield opened

    corpus = OneVersion(workspace)
    client = TestClient(create_app({"manuals": corpus}), base_url="http://localhost")

    def get(path: str) -> tuple[float, dict[str, Any]]:
        began = time.perf_counter()
        response = client.get(f"/v1/corpora/manuals/{path}")
        took = 1e3 * (time.perf_counter() - began)
        assert response.status_code == 200, response.text
        return took, response.json()

    yield Row("the first page of documents, which reads their titles", "ms", get("documents")[0], None, "", "")
    for name, path in _LISTS.items():
        _, page = get(path)
        times = list[float]()
        while len(times) < _TIMES and page["next"]:
            took, page = get(f"{path}cursor={page['next']}")
            times.append(took)
        yield Row(f"{name}, a page of 50", "ms", median(times), None, "", f"at most {MOST_MS}")
    corpus.close()


def _opened(workspace: "Workspace") -> Any:
    """Return an open version without an index, which no list reads."""
    from pipeline.published.own_fields import OwnFields
    from pipeline.published.version import OpenVersion, VersionTables
    from pipeline.records.ledger import read_ledger
    from schemas.tags import TagTemplate
    from schemas.versions import Counts

    ledger = list(read_ledger(workspace.store, VERSION))
    absent: Any = None
    sources, pages = {row.doc_id: [row.source] for row in ledger}, {row.doc_id: row.pages for row in ledger}
    return OpenVersion(
        workspace=workspace,
        version=VERSION,
        index=absent,
        settings=lambda: workspace.corpus,
        embedders={},
        template=TagTemplate(),
        counts=Counts(),
        sources=sources,
        pages=pages,
        tagged=None,
        converted={},
        tables=VersionTables(workspace.store, VERSION, sources, pages),
        sentence_vectors=absent,
        has_pages=False,
        calibration=absent,
        own_fields=OwnFields(None, {}, None, lambda: workspace.corpus),
    )


def _make(workspace: "Workspace", documents: int) -> None:
    import pyarrow as pa

    from backends.stores.temporary_tables import TemporaryTables
    from pipeline.records.ledger import write_ledger
    from pipeline.records.row_parts import Facts, NewRows, VersionParts, new_rows, write_version_rows
    from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
    from schemas.ids import sha256
    from schemas.parquet import Rows
    from schemas.versions import LedgerRow, Status

    chance, known = random.Random(7), vocabulary()
    texts = [" ".join(chance.choices(known, k=110)) for _ in range(_TEXTS)]
    doc_ids = sorted(sha256(str(number).encode()) for number in range(documents))

    def documents_rows() -> Iterator[NewRows]:
        for number, doc_id in enumerate(doc_ids):
            rows = [_row(chance, doc_id, number, order, texts) for order in range(PAGES * ROWS_A_PAGE)]
            placed = [_placement(doc_id, page) for page in range(1, PAGES + 1)]
            tables_of_rows = pa.Table.from_pylist(rows, EVIDENCE), pa.Table.from_pylist(placed, PLACEMENTS)
            yield new_rows([(doc_id, VersionRows(*tables_of_rows))])

    with TemporaryTables() as tables:
        facts = Facts(workspace.store, VersionParts(), tables)
        write_version_rows(workspace.store, VERSION, VersionParts(), {}, set(), documents_rows(), facts)
    ledger = (
        LedgerRow(f"folder-{number % 97}/manual-{number:06}.pdf", doc_id, 1_000_000 + number, "", Status.INDEXED, "", PAGES)
        for number, doc_id in enumerate(doc_ids)
    )
    write_ledger(workspace.store, VERSION, Rows.of(LedgerRow, sorted(ledger, key=lambda row: row.source)))


def _row(chance: random.Random, doc_id: str, number: int, order: int, texts: list[str]) -> dict[str, Any]:
    modality = ("text", "text", "table", "figure")[order % ROWS_A_PAGE]
    page, text = 1 + order // ROWS_A_PAGE, chance.choice(texts)
    figure = _figure_id(doc_id, page)
    box = [72.0, 72.0, 540.0, 200.0]
    return {
        "evidence_id": f"{doc_id[:8]}-{doc_id[8:12]}-{doc_id[12:16]}-{doc_id[16:20]}-{order:012x}",
        "modality": modality,
        "doc_id": doc_id,
        "sources": [f"folder-{number % 97}/manual-{number:06}.pdf"],
        "page": page,
        "bbox": box,
        "regions": [{"page": page, "bbox": box}],
        "order": order,
        "section_path": ["Operation"],
        "title": f"Manual of the pump {number}",
        "text": text,
        "tagged_text": text,
        "figure_refs": [figure] if modality == "figure" else [],
        "caption": "",
        "figure_id": figure if modality == "figure" else None,
        "tagged_rows": [["Key", "Does"], ["7", text[:20]]] if modality == "table" else None,
        "date": f"20{number % 25:02}-03-31" if number % 3 else None,
        "language": ("en", "de", "fr")[number % 3],
    }


def _placement(doc_id: str, page: int) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "page": page,
        "order": page,
        "bbox": [72.0, 500.0, 540.0, 700.0],
        "figure_id": _figure_id(doc_id, page),
        "number": f"{page:08}",
        "tag": f"<image:{page:08}.png>",
        "ext": "png",
        "width": 400,
        "height": 300,
        "kind": "raster",
        "role": "content",
        "reason": "a picture",
        "caption": f"Figure {page}. A {('gear', 'valve', 'seal')[page % 3]}",
    }


def _figure_id(doc_id: str, page: int) -> str:
    return f"{page:04x}{doc_id[4:]}"


if __name__ == "__main__":
    main()
