"""Pages per second of a whole refresh of the example corpus, and of each step: ``python -m bench.refresh [--json]``.

The floor of a step is what the bare library takes for the same data in the same run, where there is one.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from bench.table import Row, show
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.evidence import evidence_parts, search_texts
from pipeline.records.vectors import open_vectors, passages
from pipeline.refresh import refresh

MANUALS = Path(__file__).parent.parent / "examples" / "manuals"


def main() -> None:
    """Refresh the example corpus into a fresh store, then once more, and print what each step took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "manuals.yaml"
        questions = MANUALS / "questions.jsonl"
        file.write_text(f"name: manuals\nsource: {MANUALS / 'pdfs'}\nstore: {folder}/store\nquestions: {questions}\n")
        workspace = open_workspace(str(file))
        show("refresh of the example corpus", list(_rows(workspace, Path(folder))))


def _rows(workspace: Workspace, folder: Path) -> Iterator[Row]:
    began = time.monotonic()
    result = refresh(workspace, report=_tell)
    whole = time.monotonic() - began
    pages = result.counts.pages
    floors = {
        "parse": (_parse_floor(), "PyMuPDF text and image info"),
        "build": (_build_floor(workspace, result.version or "", folder), "lancedb, write and both indexes"),
    }
    for step, seconds in result.timings_s.items():
        floor, name = floors.get(step, (None, ""))
        yield Row(step, "pages/s", pages / max(seconds, 1e-3), pages / floor if floor else None, name)
    yield Row("whole refresh", "pages/s", pages / whole)
    yield Row("whole refresh", "s", whole, goal="a demo in 10 minutes, installation included")
    began = time.monotonic()
    refresh(workspace)
    yield Row("again, nothing changed", "s", time.monotonic() - began, goal="under 5 s")


def _tell(step: str, done: int, total: int, _spent: str = "") -> None:
    if done == total:
        sys.stderr.write(f"{step}: {total}\n")


def _parse_floor() -> float:
    import pymupdf

    began = time.monotonic()
    for path in sorted((MANUALS / "pdfs").glob("*.pdf")):
        with pymupdf.open(path) as document:
            for page in document:
                page.get_text("dict", flags=pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES)
                page.get_image_info(hashes=True)
    return time.monotonic() - began


def _build_floor(workspace: Workspace, version: str, folder: Path) -> float:
    import lancedb
    from lancedb.index import FTS

    evidence = pa.concat_tables(evidence_parts(workspace.store, version))
    texts = search_texts(evidence)
    (space,) = open_vectors(workspace.store, workspace.spaces)
    vectors, _ = space.of(passages(evidence))
    rows = [
        {"id": name, "text": text, "vector": vector}
        for name, text, vector in zip(evidence.column("evidence_id").to_pylist(), texts, vectors, strict=True)
    ]
    began = time.monotonic()
    table = lancedb.connect(str(folder / "floor")).create_table("rows", rows)
    table.create_index("text", config=FTS())
    return time.monotonic() - began


if __name__ == "__main__":
    main()
