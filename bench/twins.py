"""Manuals that exist in two formats: ``python -m bench.twins --twins DIR --scorer FILE [--format docx] [--scan 150]``.

``DIR`` has ``NAME.pdf`` and ``NAME.truth.json``, made of the HTML of the same source. The scorer is a program,
``SCORER score TRUTH FOUND ...``; its last ``ALL`` lines are printed, for each value of ``parse.layout`` and, where it is
installed, for pymupdf4llm's layout mode.

With a format, ``DIR`` has ``NAME.html`` with its pictures, which pandoc writes in that format. What Inset reads of it is scored
by the truth that ``SCORER truth HTML --pdf CONVERTED`` makes of the HTML.

With a resolution, the pages of ``SCANNED`` are drawn as pictures, skewed and noisy if so asked, and read with OCR.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from bench.tables import write_pictures
from pipeline.inspection.inspect import inspect
from schemas.corpus import Layout, ParseOptions
from schemas.corpus.models import CaptionOptions

SCANNED = {
    "gimp-latex": (8, 11),
    "gnucash-guide": (44, 52),
    "kicad-print": (10, 18),
    "tables-weasy": (30, 39),
    "types-writer": (19, 27),
}
"""First and last page, by manual: 41 pages with tables, figures, headings and columns."""


def main() -> None:
    """Print the scores of all readers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twins", type=Path, required=True)
    parser.add_argument("--scorer", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python of the scorer, which needs rapidfuzz")
    parser.add_argument("--format", choices=["docx", "odt", "rtf", "html", "md"], help="read HTML files in this format")
    parser.add_argument("--scan", type=int, metavar="DPI", help="read pages as pictures of so many dots an inch")
    parser.add_argument("--skew", type=float, default=0.0, metavar="DEGREES", help="turn the content of these pictures")
    parser.add_argument("--noise", type=float, default=0.0, metavar="LEVELS", help="standard deviation of noise, of 255")
    given = parser.parse_args()
    scorer = [given.python, str(given.scorer)]
    if given.format:
        _score_converted(sorted(given.twins.glob("*.html")), given.format, scorer)
        return
    if given.scan:
        _score_scans(given.twins, given.scan, given.skew, given.noise, scorer)
        return
    pdfs = sorted(given.twins.glob("*.pdf"))
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        f"Inset, parse.layout: {layout}": _inset(layout) for layout in get_args(Layout)
    }
    if importlib.util.find_spec("pymupdf4llm"):
        readers["pymupdf4llm, layout mode"] = _pymupdf4llm
    for name, read in readers.items():
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            pairs: list[str] = []
            for pdf in pdfs:
                found = Path(folder, f"{pdf.stem}.json")
                found.write_text(json.dumps(read(pdf)), encoding="utf-8")
                pairs += [str(pdf.with_suffix(".truth.json")), str(found)]
            print(f"{name} ({time.process_time() - started:.0f} CPU-s in this process)")
            _print_scores(scorer, pairs)


def _print_scores(scorer: Sequence[str], pairs: Sequence[str]) -> None:
    scores = subprocess.run([*scorer, "score", *pairs], check=True, capture_output=True, text=True).stdout
    print(scores[scores.index("ALL") :])


def _score_scans(twins: Path, dpi: int, skew: float, noise: float, scorer: Sequence[str]) -> None:
    """Print the scores of pages that are read as pictures."""
    import pymupdf

    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        pairs: list[str] = []
        for name, (first, last) in SCANNED.items():
            pages, scan, truth, found = (
                Path(folder, f"{name}{end}") for end in (".pages.pdf", ".pdf", ".truth.json", ".json")
            )
            with pymupdf.open(twins / f"{name}.pdf") as pdf:
                pdf.select(range(first - 1, last))
                pdf.save(pages)
            write_pictures(pages, scan, dpi, skew, noise)
            truth.write_text(json.dumps(_of_pages(twins / f"{name}.truth.json", first, last)), encoding="utf-8")
            read = inspect(scan, captions=CaptionOptions()).model_dump(mode="json")
            found.write_text(json.dumps(read), encoding="utf-8")
            pairs += [str(truth), str(found)]
        print(f"pictures of {dpi} dpi ({time.process_time() - started:.0f} CPU-s in this process)")
        _print_scores(scorer, pairs)


def _of_pages(truth: Path, first: int, last: int) -> dict[str, Any]:
    """Return what a truth says of some pages, which are counted from 1."""
    whole: dict[str, Any] = json.loads(truth.read_text(encoding="utf-8"))

    def of_pages(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            block | {key: block[key] - first + 1 for key in ("page", "end") if key in block}
            for block in blocks
            if first <= block.get("page", 0) and block.get("end", block.get("page", 0)) <= last
        ]

    pages = [page - first + 1 for page in whole["pages"] if first <= page <= last]
    blocks, furniture = of_pages(whole["blocks"]), of_pages(whole["furniture"])
    return whole | {"pages": pages, "blocks": blocks, "furniture": furniture, "dropped_headings": []}


def _score_converted(pages: Sequence[Path], suffix: str, scorer: Sequence[str]) -> None:
    """Print the scores of HTML files that are read in another format."""
    with tempfile.TemporaryDirectory() as folder:
        pairs: list[str] = []
        for page in pages:
            copies = Path(folder, page.stem)
            copies.mkdir()
            document, truth, output = (copies / f"{page.stem}{end}" for end in (f".{suffix}", ".truth.json", ".json"))
            if suffix == "html":
                shutil.copytree(page.parent, copies, dirs_exist_ok=True)
            else:
                resources = f"--resource-path={page.parent}"
                write = [shutil.which("pandoc") or "pandoc", "--standalone", resources, "-o", str(document), str(page)]
                subprocess.run(write, check=True)
            output.write_text(json.dumps(inspect(document, out=copies).model_dump(mode="json")), encoding="utf-8")
            command = [*scorer, "truth", str(page), "--pdf", str(copies / "document.pdf")]
            truth.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
            pairs += [str(truth), str(output)]
        print(f"{len(pages)} manuals as {suffix}")
        _print_scores(scorer, pairs)


def _inset(layout: Layout) -> Callable[[Path], dict[str, Any]]:
    return lambda pdf: inspect(pdf, options=ParseOptions(layout=layout)).model_dump(mode="json")


def _pymupdf4llm(pdf: Path) -> dict[str, Any]:
    import pymupdf4llm

    chunks = pymupdf4llm.to_markdown(str(pdf), page_chunks=True, use_ocr=False)
    return {"pages": [{"page": chunk["metadata"]["page_number"], "markdown": chunk["text"]} for chunk in chunks]}


if __name__ == "__main__":
    main()
