"""Versions with failures, and pictures of figures, made without a refresh."""

import io
from collections.abc import Sequence
from typing import Any

from PIL import Image

from pipeline.records.ledger import write_failures, write_ledger
from schemas.errors import Failure, FailureCode
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.ids import figure_file, figure_id, sha256
from schemas.parquet import Rows
from schemas.ports import ObjectStore
from schemas.versions import LedgerRow, Status
from tests.manuals import picture
from tests.versions import write_version


def write_left_out(store: ObjectStore, version: str, *, quarantined: Sequence[str] = ()) -> None:
    """Write a version without rows whose ledger has sources in quarantine."""
    write_version(store, version, EVIDENCE.empty_table(), PLACEMENTS.empty_table())
    ledger = [LedgerRow(source, "", 1, "1", Status.QUARANTINED, "a") for source in sorted(quarantined)]
    write_ledger(store, version, Rows.of(LedgerRow, ledger))


def write_pixels(store: ObjectStore, *, width: int = 600, height: int = 300) -> str:
    """Write a figure; return its id."""
    data = picture(1, width, height)
    with Image.open(io.BytesIO(data)) as pixels:
        name = figure_id(width, height, pixels.convert("RGB").tobytes())
    store.replace(figure_file(name), data)
    return name


def failure(source: str, code: FailureCode = FailureCode.DAMAGED, **details: Any) -> Failure:
    """Return a failure; by default of a whole document whose bytes were read."""
    facts = {"doc_id": sha256(source.encode()), "page": None, "step": "parse", "message": f"{source} is broken"}
    return Failure(source=source, code=code, **(facts | details))


def write_quarantine(
    store: ObjectStore, version: str, failures: Sequence[Failure], *, left_out: Sequence[str] = ()
) -> None:
    """Write the failures of the refresh that made a version of ``write_version``, and its ledger."""
    write_failures(store, f"run-{int(version.rpartition('-')[2], 16)}", failures)
    write_left_out(store, version, quarantined=left_out)
