"""Manuals that exist as PDF and HTML: ``python -m bench.twins --twins DIR --scorer FILE``.

``DIR`` has ``NAME.pdf`` and ``NAME.truth.json``, made of the HTML of the same source. The scorer is a program,
``SCORER score TRUTH FOUND ...``; its last ``ALL`` lines are printed, for each value of ``parse.layout`` and, where it is
installed, for pymupdf4llm's layout mode.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
    given = parser.parse_args()
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
            scores = subprocess.run(
                [given.python, given.scorer, "score", *pairs], check=True, capture_output=True, text=True
            )
        print(f"{name} ({time.process_time() - started:.0f} CPU-s in this process)")
        print(scores.stdout[scores.stdout.index("ALL") :])


def _inset(layout: Layout) -> Callable[[Path], dict[str, Any]]:
    return lambda pdf: inspect(pdf, options=ParseOptions(layout=layout)).model_dump(mode="json")


def _pymupdf4llm(pdf: Path) -> dict[str, Any]:
    import pymupdf4llm

    chunks = pymupdf4llm.to_markdown(str(pdf), page_chunks=True, use_ocr=False)
    return {"pages": [{"page": chunk["metadata"]["page_number"], "markdown": chunk["text"]} for chunk in chunks]}


if __name__ == "__main__":
    main()
