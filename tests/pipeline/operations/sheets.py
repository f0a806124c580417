"""Versions with placements, rows of figures and failures, made without a refresh."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from PIL import Image

from pipeline.records.ledger import write_failures, write_ledger
from schemas.errors import Failure, FailureCode
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.filters import Modality
from schemas.ids import figure_file, figure_id, sha256
from schemas.parquet import Rows
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, Status
from tests.manuals import picture
from tests.versions import write_version

BOX = [10.0, 20.0, 110.0, 90.0]


def document_id(number: int) -> str:
    """Return the id of a document, in the order of numbers."""
    return f"{number:064x}"


def placement(document: int, order: int, **other: Any) -> dict[str, Any]:
    """Return a placement; by default content with a caption, and pixels of its own."""
    name = sha256(f"{document} {order}".encode())
    row = {"doc_id": document_id(document), "page": order + 1, "order": order, "bbox": BOX, "figure_id": name}
    row |= {"number": "7", "tag": f"<image:{document}-{order}.png>", "ext": "png", "width": 120, "height": 80}
    row |= {"kind": "raster", "role": "content", "reason": "has a caption", "caption": f"Figure {order} of {document}"}
    return row | other


def described(placed: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return the row of a placed figure."""
    row: dict[str, Any] = {name: placed[name] for name in ("doc_id", "page", "bbox", "order", "figure_id", "caption")}
    row |= {"evidence_id": f"{placed['doc_id']}/{placed['order']}", "modality": Modality.FIGURE, "sources": ["a.pdf"]}
    row |= {"regions": [], "section_path": [], "title": "", "text": "", "tagged_text": "", "figure_refs": []}
    return row | {"description": None, "described_by": "context", "flags": []} | other


def write_sheet(
    store: ObjectStore,
    version: str,
    placements: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]] = (),
    *,
    quarantined: Sequence[str] = (),
) -> None:
    """Write the placements of a version, rows of some, and a ledger with their documents: ``manuals/<number>.pdf``."""
    evidence = pa.Table.from_pylist(list(rows), schema=EVIDENCE).sort_by("doc_id")
    write_version(store, version, evidence, pa.Table.from_pylist(list(placements), schema=PLACEMENTS).sort_by("doc_id"))
    doc_ids = sorted({row["doc_id"] for row in placements})
    ledger = [
        LedgerRow(f"manuals/{int(doc_id, 16)}.pdf", doc_id, 1, "1", Status.INDEXED, "a", pages=9) for doc_id in doc_ids
    ]
    ledger += [LedgerRow(source, "", 1, "1", Status.QUARANTINED, "a") for source in quarantined]
    write_ledger(store, version, Rows.of(LedgerRow, sorted(ledger, key=lambda row: row.source)))


def write_pixels(store: ObjectStore, *, width: int = 600, height: int = 300) -> str:
    """Write a figure; return its id."""
    data = picture(1, width, height)
    with Image.open(io.BytesIO(data)) as pixels:
        name = figure_id(width, height, pixels.convert("RGB").tobytes())
    store.replace(figure_file(name), data)
    return name


def failure(source: str, code: FailureCode = FailureCode.DAMAGED, **other: Any) -> Failure:
    """Return a failure; by default of a whole document whose bytes were read."""
    facts = {"doc_id": sha256(source.encode()), "page": None, "step": "parse", "message": f"{source} is broken"}
    return Failure(source=source, code=code, **(facts | other))


def write_quarantine(
    store: ObjectStore, version: str, failures: Sequence[Failure], *, left_out: Sequence[str] = ()
) -> None:
    """Write the failures of the refresh that made a version of ``write_version``, and its ledger."""
    write_failures(store, f"run-{int(version.rpartition('-')[2], 16)}", failures)
    write_sheet(store, version, [], quarantined=left_out)
