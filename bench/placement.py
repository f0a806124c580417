"""Pictures without a caption, and the text they stand by: ``python -m bench.placement [--pdfs DIR ...] [--tools DIR]``.

Of each folder of PDFs, the tool ``beside.py`` says how many pictures stand by the text that the page sets beside, above or
below them. *beside*: text is level with the picture; *between*: text is above or below it in its column; *either*: both.
The tool looks for the first occurrence of a tag and of a line on a page, so a symbol that a page shows twice counts as wrong,
however it is read. *by occurrence* are the same pictures and lines, each picture with an occurrence of its tag for itself and
by the nearest occurrence of its lines: what only the tool's own rows call wrong is the tool's limit.

Peers, in the same run. ``sort=True``: PyMuPDF's text blocks and Inset's figures, in the order in which PyMuPDF sorts blocks:
by their lower edge, then by their left one. Boxes and tags are those of Inset, so that only the order differs.
pymupdf4llm with its layout model, if it is installed, on a sample of the pages with such pictures, since it takes a second
a page; Inset's tag stands where pymupdf4llm shows a picture that overlaps the figure by half, and a figure that it doesn't
show stands nowhere.

Synthetic manuals, whose truth is known, are read with their pictures drawn where the page has them, last, first and at
random. Their peer are PyMuPDF's blocks by height, each image block a figure with its tag where it stands.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy.optimize import linear_sum_assignment

from backends.pdf.document import open_document
from bench.table import Row, parser_of, show
from pipeline.inspection.inspect import inspect
from schemas.corpus import ParseOptions
from schemas.documents import Role
from schemas.geometry import BBox
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.synthetic import PRESETS, STREAMS, synthesize
from tests.synthetic.scores import Reading, SeenBlock, SeenFigure, Tally, reading_of, score

SEEDS = (1, 2, 3)
PAGES = 30
WAYS = ("beside", "either", "between")
GOAL = "at least 96 %"
BY_OCCURRENCE = " by occurrence"
MEASURES = ("", BY_OCCURRENCE)
_NEAR = 60
_TAG = r"<image:[^>]*>"
_SAME_IOU = 0.5
_MARKUP = str.maketrans("", "", "*#|`\\")


Judge = Callable[[list[dict[str, Any]], Path], list["Judged"]]


class Judged(NamedTuple):
    """A figure as the tool judges it: how it stands to its text, and how many characters are between both in the reading."""

    way: str
    page: int
    tag: str
    distance: int | None

    @property
    def right(self) -> bool:
        """Whether it is read with the text that it stands by."""
        return self.distance is not None and self.distance < _NEAR


@dataclass(frozen=True)
class Outcome:
    """What was made of one document; ``sampled`` are the pages that slow tools get.

    ``figures`` are its pictures as a tool places them, by the tool's name and the measure.
    """

    name: str
    figures: dict[str, list[Judged]] = field(default_factory=dict)
    sampled: frozenset[int] = frozenset()
    failure: str = ""


def main() -> None:
    """Measure what there is data for."""
    arguments = _arguments()
    if arguments.pdfs and not arguments.tools:
        raise SystemExit("bench.placement: --pdfs needs --tools, the folder with beside.py")
    rows = list(_synthetic())
    for folder in arguments.pdfs:
        rows += _folder(folder, arguments)
    if not arguments.pdfs:
        sys.stderr.write("no --pdfs and --tools: only synthetic manuals are measured\n")
    show("pictures without a caption", rows)


def _arguments() -> argparse.Namespace:
    parser = parser_of("placement", __doc__)
    parser.add_argument("--pdfs", type=Path, nargs="*", default=[], metavar="DIR", help="folders of PDFs")
    parser.add_argument("--tools", type=Path, metavar="DIR", help="folder with beside.py")
    parser.add_argument(
        "--sample", type=int, default=3, help="pages of a document, for each way to stand, that pymupdf4llm gets; 0: none"
    )
    parser.add_argument("--list", action="store_true", help="name each picture that stands wrong")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


# ---- synthetic manuals ----


def _synthetic() -> Iterator[Row]:
    """Yield what share of the pictures of synthetic manuals stand where the page has them."""
    for stream in STREAMS:
        ours, theirs = [], []
        for seed in SEEDS:
            manual = synthesize(f"m{seed}", seed=seed, pages=PAGES, options=replace(PRESETS["pictures"], stream=stream))
            parsed = parse(open_document(manual.pdf), "", ParseOptions(), keep_figure=lambda _name, _data: None)
            ours.append(score(reading_of(parsed, structure(parsed, {})), manual.truth).beside)
            theirs.append(score(_read_blocks(manual.pdf), manual.truth).beside)
        own, peer = (Tally(sum(one.right for one in some), sum(one.total for one in some)) for some in (ours, theirs))
        name = f"synthetic, drawn: {stream}, {own.right} of {own.total}"
        yield Row(name, "%", _percent(own), _percent(peer), "plain PyMuPDF", "100 %")


def _read_blocks(data: bytes) -> Reading:
    """Return the figures and blocks that PyMuPDF finds in a PDF, by height."""
    import pymupdf

    figures: list[SeenFigure] = []
    blocks: list[SeenBlock] = []
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
    return Reading(tuple(figures), tuple(blocks), ())


# ---- folders of PDFs ----


def _folder(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    """Return what share of a folder's pictures stand by their text."""
    # The large ones first, lest one process waits for the other at the end.
    pdfs = sorted(folder.glob("*.pdf"), key=lambda path: path.stat().st_size, reverse=True)
    if not pdfs:
        raise SystemExit(f"bench.placement: {folder} holds no PDFs")
    sample = arguments.sample if importlib.util.find_spec("pymupdf4llm") else 0
    with ProcessPoolExecutor(max_workers=2, max_tasks_per_child=1) as pool:
        judged = pool.map(_outcome, pdfs, repeat(arguments.tools / "beside.py"), repeat(sample))
        outcomes = sorted(judged, key=lambda outcome: outcome.name)
    for outcome in outcomes:
        if outcome.failure:
            sys.stderr.write(f"{outcome.name}: {outcome.failure}\n")
    if arguments.list:
        _list(folder, outcomes)
    name = f"{folder.parent.name}/{folder.name}"
    return [*_shares(name, outcomes), *(_sampled(name, outcomes) if sample else [])]


def _shares(name: str, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    for measure in MEASURES:
        for way in WAYS:
            ours, theirs = (_counted(outcomes, tool + measure, way) for tool in ("ours", "sort=True"))
            if ours.total:
                label = f"{name}: {way}{measure}, {ours.right} of {ours.total}"
                yield Row(label, "%", _percent(ours), _percent(theirs), "sort=True", GOAL)
        yield Row(f"{name}: wrong{measure}, but sorting has it", "", _worse(outcomes, measure), goal="0")


def _sampled(name: str, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    for measure in MEASURES:
        for way in WAYS:
            ours, theirs = (_counted(outcomes, tool + measure, way, sampled=True) for tool in ("ours", "pymupdf4llm"))
            if ours.total:
                label = f"{name}: {way}{measure}, sample of {ours.total}"
                yield Row(label, "%", _percent(ours), _percent(theirs), "pymupdf4llm", GOAL)


def _counted(outcomes: Sequence[Outcome], tool: str, way: str, *, sampled: bool = False) -> Tally:
    figures = [
        figure
        for outcome in outcomes
        for figure in outcome.figures.get(tool, [])
        if figure.way == way and (not sampled or figure.page in outcome.sampled)
    ]
    return Tally(sum(figure.right for figure in figures), len(figures))


def _worse(outcomes: Sequence[Outcome], measure: str) -> int:
    """Return how many more of our figures stand right where sorting places them."""
    worse = 0
    for outcome in outcomes:
        ours, others = outcome.figures.get(f"ours{measure}", []), outcome.figures.get(f"sort=True{measure}", [])
        right, theirs = (Counter((one.page, one.tag) for one in some if one.right) for some in (ours, others))
        judged = {(one.page, one.tag) for one in ours}
        worse += sum(count for key, count in (theirs - right).items() if key in judged)
    return worse


def _percent(tally: Tally) -> float:
    return 100 * (tally.share or 0.0)


def _list(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Print the figures that stand wrong, a line each, and how far from their text."""
    for outcome in outcomes:
        sorting = {(one.page, one.tag) for one in outcome.figures.get("sort=True", []) if one.right}
        for measure in MEASURES:
            ours = outcome.figures.get(f"ours{measure}", [])
            shares = [f"{way} {sum(one.right for one in some)} of {len(some)}" for way, some in _by_way(ours) if some]
            if shares:
                print(f"{folder.name}/{outcome.name}{measure}: {', '.join(shares)}")
            for one in ours:
                if not one.right:
                    away = "not in the text" if one.distance is None else f"{one.distance} characters away"
                    also = ", sort=True has it right" if (one.page, one.tag) in sorting else ""
                    print(f"    p. {one.page} {one.way} {one.tag} {away}{also}")


def _by_way(figures: Sequence[Judged]) -> Iterator[tuple[str, list[Judged]]]:
    for way in WAYS:
        yield way, [figure for figure in figures if figure.way == way]


def _outcome(pdf: Path, tool: Path, sample: int) -> Outcome:
    """Read a PDF with each tool, and have their placements judged."""
    judges = {"": judgement(tool), BY_OCCURRENCE: judgement_by_occurrence(tool)}
    document = inspect(pdf)
    pages = [page.model_dump(mode="json") for page in document.pages]
    if not pages:
        return Outcome(pdf.stem, failure="; ".join(failure.message for failure in document.failures))
    # A page without a figure that counts needs no reading by the others.
    ours = judges[""](pages, pdf)
    judged = {figure.page for figure in ours}
    shown = [page for page in pages if page["page"] in judged]
    readings = {"ours": pages, "sort=True": sorted_pages(pdf, shown)}
    if some := _some(ours, sample):
        readings["pymupdf4llm"] = pymupdf4llm_pages(pdf, [page for page in shown if page["page"] in some])
    figures = {name + measure: judge(read, pdf) for measure, judge in judges.items() for name, read in readings.items()}
    return Outcome(pdf.stem, figures, some)


def _some(figures: Sequence[Judged], sample: int) -> frozenset[int]:
    """Return as many pages with figures of each way, evenly spread: of some ways there are few."""
    some: set[int] = set()
    for _, judged in _by_way(figures):
        pages = sorted({figure.page for figure in judged})
        some.update(pages[:: max(1, len(pages) // sample)][:sample] if sample else [])
    return frozenset(some)


def judgement(file: Path) -> Judge:
    """Return the tool's judgement of figures, less those of whose text no line is found as it is written."""
    judge = _loaded(file).judge
    return lambda pages, pdf: [judged for figure in judge(pages, pdf) if (judged := Judged(*figure)).distance != -1]


def judgement_by_occurrence(file: Path) -> Judge:
    """Return the tool's judgement of the same figures and lines, in which a tag or a line may stand on a page several times.

    Figures of one tag are one picture, and which of them an occurrence of the tag stands for can't be seen from the text: each
    gets one for itself, in such a way that most of them stand right. Of lines the nearest occurrence counts.
    """
    module = _loaded(file)
    module.distance = distances  # type: ignore[attr-defined]

    def judge(pages: list[dict[str, Any]], pdf: Path) -> list[Judged]:
        found = [Judged(*figure) for figure in module.judge(pages, pdf)]
        found = [figure for figure in found if figure.distance is not None]
        alike: dict[tuple[int, str], list[int]] = defaultdict(list)
        for number, figure in enumerate(found):
            alike[figure.page, figure.tag].append(number)
        for numbers in alike.values():
            away = np.array([found[number].distance for number in numbers])
            own = dict(zip(*linear_sum_assignment(away >= _NEAR), strict=True))
            for at, number in enumerate(numbers):
                found[number] = found[number]._replace(distance=int(away[at, own[at]]) if at in own else None)
        return found

    return judge


def distances(text: str, tag: str, lines: Sequence[str]) -> list[int] | None:
    """Return how many characters are between each occurrence of a tag and the nearest of some lines, less lines and tags.

    None if no line is found. White space is left out of all arguments.
    """
    held = [match.span() for line in lines for match in re.finditer(re.escape(line), text)]
    if not held:
        return None
    counts = np.ones(len(text) + 1, dtype=int)
    for start, end in [*held, *(match.span() for match in re.finditer(_TAG, text))]:
        counts[start:end] = 0
    before = np.concatenate([[0], counts.cumsum()])
    tags = [match.span() for match in re.finditer(re.escape(tag), text)]
    return [
        min(int(before[start] - before[to] if to <= start else before[at] - before[end]) for at, to in held)
        for start, end in tags
    ]


def _loaded(file: Path) -> ModuleType:
    """Load the tool: a script that judges the files it is called with when it is loaded, so it is called with an empty one."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise SystemExit(f"bench.placement: {file} is not there; --tools names the folder with beside.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(sys, "argv", [str(file), os.devnull, "."]), contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    return module


def sorted_pages(pdf: Path, pages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return pages with the text that PyMuPDF's blocks and our figures give, sorted as PyMuPDF sorts blocks."""
    import pymupdf

    made: list[dict[str, Any]] = []
    with pymupdf.open(pdf) as document:
        for page in pages:
            sheet = document[page["page"] - 1]
            sheet.set_rotation(0)
            flags = pymupdf.TEXTFLAGS_BLOCKS | pymupdf.TEXT_PRESERVE_IMAGES
            blocks = [(box[3], box[0], box[4]) for box in sheet.get_text("blocks", flags=flags) if box[6] == 0]
            blocks += [(one["bbox"][3], one["bbox"][0], one["tag"]) for one in page["figures"] if one["tag"]]
            text = "\n\n".join(block for _, _, block in sorted(blocks, key=lambda block: block[:2]))
            made.append(page | {"tagged_text": text})
    return made


def pymupdf4llm_pages(pdf: Path, pages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return pages with the text that pymupdf4llm makes of them, without its marks, and our tags where it shows our figures."""
    import pymupdf
    import pymupdf4llm

    with tempfile.TemporaryDirectory() as folder, pymupdf.open(pdf) as document:
        chunks = pymupdf4llm.to_markdown(
            document,
            pages=[page["page"] - 1 for page in pages],
            page_chunks=True,
            write_images=True,
            image_path=folder,
            use_ocr=False,
        )
    return [page | {"tagged_text": _tagged(page, chunk)} for page, chunk in zip(pages, chunks, strict=True)]


def _tagged(page: dict[str, Any], chunk: dict[str, Any]) -> str:
    """Return a chunk's text with our tags at the pictures in it."""
    shown = [box for box in chunk["page_boxes"] if box["class"] == "picture"]
    figures = [figure for figure in page["figures"] if figure["tag"]]
    pairs = sorted(
        (-BBox(*box["bbox"]).iou(BBox(*figure["bbox"])), at, number)
        for at, box in enumerate(shown)
        for number, figure in enumerate(figures)
    )
    taken: dict[int, int] = {}
    for overlap, at, number in pairs:
        if -overlap >= _SAME_IOU and at not in taken and number not in taken.values():
            taken[at] = number
    text: str = chunk["text"]
    for at in sorted(taken, key=lambda at: shown[at]["pos"][0], reverse=True):  # from the end on, so that no place moves
        start, end = shown[at]["pos"]
        text = f"{text[:start]}{figures[taken[at]]['tag']}{text[end:]}"
    return text.replace("<br>", " ").translate(_MARKUP)


if __name__ == "__main__":
    main()
