"""How well synthetic manuals are read, by Inset and by plain PyMuPDF: ``python -m bench.synthetic [--json]``.

Those with pictures at their steps are read four times, since PDFs draw pictures where the page has them, last, first or at
random; how to read them is the same.

The peer is what a few lines of PyMuPDF give: text blocks sorted by height, each image block a figure with its tag at its
place in that order, and ``find_tables``.
"""

import time
from collections.abc import Iterator
from dataclasses import fields, replace

from backends.pdf.document import open_document
from bench.table import Row, show
from schemas.corpus.parse import ParseOptions
from schemas.documents import Role
from schemas.geometry import BBox
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.synthetic import PRESETS, STREAMS, Options, synthesize
from tests.synthetic.scores import ParseScores, Reading, SeenBlock, SeenFigure, SeenTable, Tally, reading_of, score

SEEDS = (1, 2, 3)
PAGES = 30
GOALS = {
    "false_figures": "at most 3 % of tags",
    "forged": "0",
    "adjacent": "100 %",
    "beside": "100 %",
    "found": "at least 95 %",
}


def main() -> None:
    """Make manuals of each preset, read them both ways, and print what share was right."""
    for preset, options in PRESETS.items():
        for stream in STREAMS if options.steps else [options.stream]:
            title = f"{preset}, pictures drawn: {stream}" if options.steps else preset
            rows = list(_rows(preset, replace(options, stream=stream)))
            show(f"reading {len(SEEDS)} synthetic manuals of {PAGES} pages each, {title}", rows)


def _rows(preset: str, options: Options) -> Iterator[Row]:
    ours: list[ParseScores] = []
    theirs: list[ParseScores] = []
    seconds = floor = 0.0
    for seed in SEEDS:
        manual = synthesize(f"{preset}-{seed}", seed=seed, pages=PAGES, options=options)
        began = time.monotonic()
        parsed = parse(open_document(manual.pdf), "", ParseOptions(), keep_figure=lambda _name, _data: None)
        reading = reading_of(parsed, structure(parsed, {}))
        seconds += time.monotonic() - began
        began = time.monotonic()
        naive = read_naively(manual.pdf)
        floor += time.monotonic() - began
        ours.append(score(reading, manual.truth))
        theirs.append(score(naive, manual.truth))
    for field in fields(ParseScores):
        own, peer = (_summed([getattr(scores, field.name) for scores in all_]) for all_ in (ours, theirs))
        goal = GOALS.get(field.name, "")
        name = field.name.replace("_", " ")
        if isinstance(own, Tally) and isinstance(peer, Tally):
            if not own.total:
                continue
            yield Row(name, f"% of {own.total}", 100 * (own.share or 0.0), 100 * (peer.share or 0.0), "plain PyMuPDF", goal)
        elif isinstance(own, int) and isinstance(peer, int):
            yield Row(name, "", own, peer, "plain PyMuPDF", goal)
    pages = len(SEEDS) * PAGES
    yield Row("speed", "pages/s", pages / seconds, pages / floor, "plain PyMuPDF, tables included")


def _summed(counts: list[Tally] | list[int]) -> Tally | int:
    tallies = [count for count in counts if isinstance(count, Tally)]
    if tallies:
        return Tally(sum(one.right for one in tallies), sum(one.total for one in tallies))
    return sum(count for count in counts if isinstance(count, int))


def read_naively(data: bytes) -> Reading:
    """Return what plain PyMuPDF makes of a PDF."""
    import pymupdf

    figures: list[SeenFigure] = []
    blocks: list[SeenBlock] = []
    tables: list[SeenTable] = []
    with pymupdf.open(stream=data, filetype="pdf") as document:
        for number, page in enumerate(document, 1):
            page.set_rotation(0)
            flags = pymupdf.TEXTFLAGS_BLOCKS | pymupdf.TEXT_PRESERVE_IMAGES
            for x0, y0, x1, y1, text, _, kind in page.get_text("blocks", sort=True, flags=flags):
                if kind == 0:
                    blocks.append(SeenBlock(number, text))
                    continue
                blocks.append(SeenBlock(number, "\x00", (len(figures),)))
                figures.append(SeenFigure(number, BBox(x0, y0, x1, y1) & BBox(*page.rect), Role.CONTENT))
            for table in page.find_tables(use_layout=False).tables:
                rows = tuple(tuple(cell or "" for cell in row) for row in table.extract())
                tables.append(SeenTable(number, BBox(*table.bbox), rows))
    return Reading(tuple(figures), tuple(blocks), tuple(tables))


if __name__ == "__main__":
    main()
