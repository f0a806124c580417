"""What a threshold of the page reader decides: ``python -m bench.thresholds MODULE.NAME LOWER HIGHER [PDF ...] [--json]``.

Reads PDFs with a named constant as it is, lower and higher, names the pages on which figures, tables or text change, and counts
them: what the line of evidence below the constant says. No model runs; pages that are pictures have no words.
``python -m bench.thresholds tasks.figures.overlays.JOIN_PT 4 9`` takes half a minute on the example manuals.

The constant is set before what imports it is loaded, so that constants made of it follow, unless they are its own module's.
"""

import argparse
import importlib
import multiprocessing
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from sys import stderr
from typing import NamedTuple

from bench.table import Row, parser_of, show

MANUALS = Path(__file__).parent.parent / "examples" / "manuals" / "pdfs"
EXAMPLE = "tasks.figures.overlays.JOIN_PT", "4", "9"
"""What it measures without arguments."""


class Shown(NamedTuple):
    """What a page shows a reader, so that it can be compared."""

    figures: str
    tables: str
    text: str


Pages = Mapping[tuple[str, int], Shown]
"""By the name of the PDF and the number of the page."""


def main() -> None:
    """Print which pages change with a constant."""
    arguments = _arguments()
    pdfs = arguments.pdfs or sorted(MANUALS.glob("*.pdf"))
    was = read(pdfs)
    rows: list[Row] = []
    for value in (arguments.lower, arguments.higher):
        now = read(pdfs, {arguments.constant: value})
        rows += _rows(f"{arguments.constant.rpartition('.')[2]} {value}", was, now)
    show(f"{arguments.constant} on {len(was):,} pages of {len(pdfs)} PDFs", rows)


def _arguments() -> argparse.Namespace:
    parser = parser_of("thresholds", __doc__)
    constant, lower, higher = EXAMPLE
    parser.add_argument("constant", nargs="?", default=constant, metavar="MODULE.NAME", help=f"default: {constant}")
    parser.add_argument("lower", nargs="?", type=float, default=lower, help=f"default: {lower}")
    parser.add_argument("higher", nargs="?", type=float, default=higher, help=f"default: {higher}")
    parser.add_argument("pdfs", nargs="*", type=Path, metavar="PDF", help="default: the example manuals")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    module, _, name = arguments.constant.rpartition(".")
    try:
        now = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"{arguments.constant}: {error}")
    if type(now) not in (int, float):
        parser.error(f"{arguments.constant} isn't a number")
    if type(now) is int and not (arguments.lower.is_integer() and arguments.higher.is_integer()):
        parser.error(f"{arguments.constant} is a whole number")
    return arguments


def read(pdfs: Sequence[Path], values: Mapping[str, float] | None = None) -> Pages:
    """Return what PDFs show, page by page, read with constants at other values.

    Args:
        pdfs: Paths; the names of the files differ.
        values: By ``MODULE.NAME``. A whole number stays one.
    """
    # Processes of their own, started again: a constant can't be changed in a module that others have taken it from.
    again = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2, len(pdfs)), again, initializer=_set, initargs=(dict(values or {}),)) as pool:
        return dict(chain.from_iterable(pool.map(_pages, pdfs)))


def _set(values: Mapping[str, float]) -> None:
    for constant, value in values.items():
        module_name, _, name = constant.rpartition(".")
        module = importlib.import_module(module_name)
        setattr(module, name, type(getattr(module, name))(value))


def _pages(pdf: Path) -> list[tuple[tuple[str, int], Shown]]:
    # Not with the module: the constant must be set first.
    from backends.pdf.document import open_document
    from schemas.corpus import ParseOptions
    from tasks.reading.parse import parse
    from tasks.reading.structure import structure

    parsed = parse(open_document(pdf.read_bytes()), "", ParseOptions(), keep_figure=lambda _name, _data: None)
    figures: dict[int, list[object]] = defaultdict(list)
    tables: dict[int, list[object]] = defaultdict(list)
    text: dict[int, list[object]] = defaultdict(list)
    for place in parsed.placements:
        figures[place.page].append((place.bbox, place.role, place.figure_id))
    for table in parsed.tables:
        tables[table.page].append((table.bbox, table.rows))
    document = structure(parsed, {})
    text[1].append(document.title)
    for block in document.blocks:
        text[block.page].append((block.kind, block.text, block.section_path, block.level))
    for figure in document.figures:
        text[figure.placement.page].append((figure.placement.bbox, figure.caption, figure.section_path))
    numbers = (page.page for page in parsed.pages)
    return [
        ((pdf.name, number), Shown(repr(figures[number]), repr(tables[number]), repr(text[number]))) for number in numbers
    ]


def _rows(name: str, was: Pages, now: Pages) -> Iterator[Row]:
    """Yield how many pages change: a page counts for each kind of thing that changes on it."""
    for kind in Shown._fields:
        changed = [page for page in was if getattr(was[page], kind) != getattr(now[page], kind)]
        stderr.writelines(f"{name}, {kind}: {pdf}, page {number}\n" for pdf, number in changed)
        yield Row(f"{name}: {kind}", "pages", len(changed))
    yield Row(f"{name}: any", "pages", sum(was[page] != now[page] for page in was))


if __name__ == "__main__":
    main()
