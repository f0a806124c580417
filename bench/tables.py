"""Cells of tables against their truth: ``python -m bench.tables --pdfs DIR --truth FILE --scorer FILE``.

The scorer is a program: ``SCORER TRUTH FOUND``. FOUND has a line a document, with the tables of its pages; the last line that
it prints has names and figures, ``neighbours 0.9 perfect 60``. *neighbours*: mean F1 of the pairs of cells that are side by side
or one below the other, over all true tables. *perfect* and *below half*: tables with that F1. *false*: tables that are none.

``--as-pictures 150`` reads the same pages as pictures of 150 dpi, words by OCR: scans with known tables. Peers are left out.
``--skew 3`` turns the content of these pictures by 3°, of even pages the other way.

Peers, in the same run and one process each: pymupdf4llm with its layout model, pdfplumber. One that isn't installed is left out.
"""

import argparse
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.table import Row, parser_of, show
from pipeline.inspection.inspect import inspect
from schemas.corpus.models import CaptionOptions

if TYPE_CHECKING:
    import pymupdf

Pages = list[dict[str, Any]]
MEASURES = {
    "neighbours": ("mean F1", "at least 0.95"),
    "perfect": ("tables", ""),
    "below half": ("tables", "0"),
    "false": ("tables", "at most 2"),
}
GOALS_OF_PICTURES = {"neighbours": "at least 0.85"}


def main() -> None:
    """Score Inset and each peer."""
    arguments = _arguments()
    if arguments.as_pictures:
        _score_pictures(arguments)
        return
    ours, seconds = scores_of(inset_pages, arguments)
    rows: list[Row] = []
    for name, read in PEERS.items():
        if importlib.util.find_spec(name) is None:
            sys.stderr.write(f"{name} is not installed: left out\n")
            continue
        theirs, peer_seconds = scores_of(read, arguments)
        rows += [Row(key, unit, ours[key], theirs[key], name, goal) for key, (unit, goal) in MEASURES.items()]
        rows.append(Row("wall time", "s", seconds, peer_seconds, name))
    if not rows:
        rows = [Row(key, unit, ours[key], goal=goal) for key, (unit, goal) in MEASURES.items()]
    show("tables", rows)


def _score_pictures(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = {
            pdf.stem: write_pictures(pdf, Path(folder) / pdf.name, arguments.as_pictures, arguments.skew)
            for pdf in sorted(arguments.pdfs.glob("*.pdf"))
        }
        truth = Path(folder) / "truth.jsonl"
        truth.write_text("".join(f"{line}\n" for line in moved(arguments.truth, places)))
        arguments.pdfs, arguments.truth = Path(folder), truth
        ours, seconds = scores_of(recognised_pages, arguments)
    goals = GOALS_OF_PICTURES
    rows = [Row(key, unit, ours[key], goal=goals.get(key, "")) for key, (unit, _) in MEASURES.items()]
    skewed = f", skewed by {arguments.skew:g}°" if arguments.skew else ""
    show(f"tables, pages as pictures of {arguments.as_pictures} dpi{skewed}", [*rows, Row("wall time", "s", seconds)])


def write_pictures(pdf: Path, to: Path, dpi: int, skew: float = 0.0, noise: float = 0.0) -> list["pymupdf.Matrix"]:
    """Write a PDF whose pages are pictures of those of another, rotated as they are.

    Args:
        pdf: The PDF to draw.
        to: The file to write.
        dpi: Of the pictures.
        skew: Degrees clockwise by which the content of odd pages is turned on larger sheets; that of even pages the other way.
        noise: Standard deviation of the levels of their pixels, of 255, around those that are drawn.

    Returns:
        For each page, the matrix from its points to those of the written page.
    """
    import pymupdf
    from PIL import Image

    places: list[pymupdf.Matrix] = []
    with pymupdf.open(pdf) as given, pymupdf.open() as made:
        for page in given:
            rotation = page.rotation
            page.set_rotation(0)
            pixmap = page.get_pixmap(dpi=dpi)
            place, size = pymupdf.Matrix(1, 1), page.rect
            drawn = Image.frombytes("RGB", (pixmap.width, pixmap.height), pixmap.samples)
            if angle := skew if page.number % 2 == 0 else -skew:
                drawn = drawn.rotate(-angle, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
                place = pymupdf.Matrix(angle)
                size = page.rect * place
                place *= pymupdf.Matrix(1, 0, 0, 1, -size.x0, -size.y0)
            if noise:
                levels = np.random.default_rng(page.number).normal(np.asarray(drawn), noise)
                drawn = Image.fromarray(levels.clip(0, 255).astype(np.uint8))
            written = io.BytesIO()
            drawn.save(written, "PNG")
            sheet = made.new_page(width=size.width, height=size.height)
            sheet.insert_image(sheet.rect, stream=written.getvalue())
            sheet.set_rotation(rotation)
            places.append(place)
        made.save(to, deflate=True)
    return places


def moved(truth: Path, places: Mapping[str, Sequence["pymupdf.Matrix"]]) -> Iterator[str]:
    """Yield the true tables, JSON lines, with their boxes where the pages' matrices place them."""
    import pymupdf

    for line in truth.read_text().splitlines():
        table = json.loads(line)
        for region in table["regions"] if table["doc"] in places else ():
            region["bbox"] = list(pymupdf.Rect(region["bbox"]) * places[table["doc"]][region["page"] - 1])
        yield json.dumps(table)


def _arguments() -> argparse.Namespace:
    parser = parser_of("tables", __doc__)
    parser.add_argument("--pdfs", type=Path, required=True, metavar="DIR", help="the PDFs")
    parser.add_argument("--truth", type=Path, required=True, metavar="FILE", help="their true tables, JSON lines")
    parser.add_argument("--scorer", type=Path, required=True, metavar="FILE", help="the program that compares")
    parser.add_argument("--as-pictures", type=int, metavar="DPI", help="read the pages as pictures of so many dots an inch")
    parser.add_argument("--skew", type=float, default=0.0, metavar="DEGREES", help="turn the content of these pictures")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def scores_of(read: Callable[[Path], Pages], arguments: argparse.Namespace) -> tuple[dict[str, float], float]:
    """Return the scorer's figures by name, and the wall time of reading in seconds."""
    start = time.perf_counter()
    found = [{"doc": pdf.stem, "pages": read(pdf)} for pdf in sorted(arguments.pdfs.glob("*.pdf"))]
    seconds = time.perf_counter() - start
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(document) + "\n" for document in found)
        file.flush()
        command = [sys.executable, str(arguments.scorer), str(arguments.truth), file.name]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"bench.tables: {arguments.scorer} failed: {result.stderr.strip()[-300:]}")
    return figures_of(result.stdout), seconds


def figures_of(printed: str) -> dict[str, float]:
    """Return the figures of a scorer's last line by name."""
    last = printed.strip().rpartition("\n")[2]
    figures = {name.strip(): float(value) for name, value in re.findall(r"([a-z ]+) ([\d.]+)", last)}
    if missing := MEASURES.keys() - figures:
        raise SystemExit(f"bench.tables: the scorer's last line has no {', '.join(sorted(missing))}: {last!r}")
    return figures


def inset_pages(pdf: Path) -> Pages:
    """Return the pages of a PDF as Inset reads them."""
    return [page.model_dump(mode="json") for page in inspect(pdf).pages]


def recognised_pages(pdf: Path) -> Pages:
    """Return the pages of a scanned PDF as Inset reads them with OCR."""
    return [page.model_dump(mode="json") for page in inspect(pdf, captions=CaptionOptions()).pages]


def pymupdf4llm_pages(pdf: Path) -> Pages:
    """Return the tables that pymupdf4llm's layout model finds on each page."""
    import pymupdf4llm

    pages = json.loads(pymupdf4llm.to_json(str(pdf), use_ocr=False))["pages"]
    tables = ([box["table"] for box in page["boxes"] if box["boxclass"] == "table" and box["table"]] for page in pages)
    return list(_pages([(table["bbox"], table["extract"]) for table in some] for some in tables))


def pdfplumber_pages(pdf: Path) -> Pages:
    """Return the tables that pdfplumber finds on each page with its default settings."""
    import pdfplumber

    with pdfplumber.open(pdf) as document:
        return list(_pages([(table.bbox, table.extract()) for table in page.find_tables()] for page in document.pages))


def _pages(tables: Any) -> Iterator[dict[str, Any]]:
    for number, some in enumerate(tables, 1):
        yield {"page": number, "tables": [{"bbox": list(box), "rows": rows} for box, rows in some]}


PEERS: dict[str, Callable[[Path], Pages]] = {"pymupdf4llm": pymupdf4llm_pages, "pdfplumber": pdfplumber_pages}


if __name__ == "__main__":
    main()
