"""Manuals that exist in two formats: ``python -m bench.twins --twins DIR --scorer FILE [--format docx]``.

``DIR`` has ``NAME.pdf`` and ``NAME.truth.json``, made of the HTML of the same source. The scorer is a program,
``SCORER score TRUTH FOUND ...``; its last ``ALL`` lines are printed, for each value of ``parse.layout`` and, where it is
installed, for pymupdf4llm's layout mode.

With a format, ``DIR`` has ``NAME.html`` with its pictures, which pandoc writes in that format. What Inset reads of it is scored
by the truth that ``SCORER truth HTML --pdf CONVERTED`` makes of the HTML.
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

from pipeline.inspection.inspect import inspect
from schemas.corpus import Layout, ParseOptions


def main() -> None:
    """Print the scores of all readers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twins", type=Path, required=True)
    parser.add_argument("--scorer", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python of the scorer, which needs rapidfuzz")
    parser.add_argument("--format", choices=["docx", "odt", "rtf", "html", "md"], help="read HTML files in this format")
    given = parser.parse_args()
    scorer = [given.python, str(given.scorer)]
    if given.format:
        _score_converted(sorted(given.twins.glob("*.html")), given.format, scorer)
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
