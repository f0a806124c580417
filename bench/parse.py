"""Parsing, ours beside its peers: ``python -m bench.parse [--data DIR] [--tools DIR] [--sample N] [--json] [PDF ...]``.

Without data it measures the speed of the example manuals. With the evaluation data (``dev/``, ``captions.jsonl``,
``figure_boxes.jsonl``) and the tools that score them, it also measures how often a tag stands beside its caption, whether
figures are found whole, and whether the regions that questions are about are met. Manuals that the data's truth names but
that lie elsewhere (Debian's LinuxCNC_Documentation and yosys_manual) are given as PDFs.

Peers, in the same run: pymupdf4llm with its layout model and images, on a sample of the pages with captions, since it takes
a second a page; the overlay of "RAG Beyond Text", which prints each image's tag into its box and reads the page again;
embedded images alone. The floor of speed is PyMuPDF's text and image info, without pixels.
"""

import argparse
import importlib.util
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from backends.pdf.document import open_document
from backends.stores.sources import open_source
from bench.table import Row, parser_of, show
from schemas.corpus import ParseOptions
from schemas.documents import Role, StructuredDocument
from schemas.geometry import BBox
from schemas.ids import sha256
from schemas.tags import TagTemplate, fill
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tasks.versions.assemble import number_figures
from workers.garbage import infrequent_gc
from workers.parse_shard import ParseJob, parse_documents

MANUALS = Path(__file__).parent.parent / "examples" / "manuals" / "pdfs"
OPTIONS = ParseOptions()
_REPEATS = 5
ASKED_ABOUT = {"Figure", "Chart", "Table"}


class Made(NamedTuple):
    """What a tool makes of a PDF: each page's tagged text, where figures and tables are, which pages are pictures."""

    pages: list[str]
    figures: dict[int, list[BBox]]
    tables: dict[int, list[BBox]]
    scans: set[int]


def main() -> None:
    """Measure what there is data for."""
    arguments = _arguments()
    pdfs = {path.stem: path for path in arguments.pdfs or sorted(MANUALS.glob("*.pdf"))}
    if arguments.data:
        pdfs |= {path.stem: path for path in sorted((arguments.data / "dev" / "pdfs").glob("*.pdf"))}
    rows: list[Row] = []
    if arguments.data and arguments.tools:
        made = _all(_ownof, pdfs)
        rows += _adjacency(arguments, pdfs, made)
        rows += _boxes(arguments, pdfs, made)
        rows += _regions(arguments, pdfs, made)
    else:
        sys.stderr.write("no --data and --tools: how well figures are found isn't measured\n")
    for path in arguments.pdfs or pdfs.values():
        rows += _speed(path, arguments.sample)
    rows.append(_workers(max(arguments.pdfs or pdfs.values(), key=lambda path: path.stat().st_size)))
    show("parsing", rows)


def _arguments() -> argparse.Namespace:
    parser = parser_of("parse", __doc__)
    parser.add_argument("--data", type=Path, help="folder with dev/, captions.jsonl and figure_boxes.jsonl")
    parser.add_argument("--tools", type=Path, help="folder with placement.py and figure_boxes.py")
    parser.add_argument("--sample", type=int, default=20, help="pages of a document that slow peers get")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("pdfs", nargs="*", type=Path, metavar="PDF", help="manuals; default: the examples")
    return parser.parse_args()


# ---- what each tool makes of a PDF ----


def ours(path: Path) -> Made:
    """Return what a refresh makes of a PDF, without OCR."""
    structured, _ = look(path, OPTIONS)
    numbers = number_figures({figure.figure_id: int(figure.sha1, 16) for figure in structured.pictures})
    template = TagTemplate()
    texts: dict[int, list[str]] = defaultdict(list)
    tables: dict[int, list[BBox]] = defaultdict(list)
    for block in structured.blocks:
        texts[block.page].append(fill(block.text, lambda name: template.write(numbers[name])))
        if block.rows:
            tables[block.page].append(block.bbox)
            for part in block.parts[1:]:  # where it goes on over the page
                tables[part.page].append(part.bbox)
    figures: dict[int, list[BBox]] = defaultdict(list)
    for placement in structured.placements:
        if placement.role is Role.CONTENT:
            figures[placement.page].append(placement.bbox)
    covered = {Role.PAGE_SCAN, Role.BACKGROUND}
    scans = {placement.page for placement in structured.placements if placement.role in covered}
    return Made(["\n\n".join(texts[page.page]) for page in structured.pages], figures, tables, scans)


def look(path: Path, options: ParseOptions) -> tuple[StructuredDocument, dict[str, bytes]]:
    """Parse and structure; return the document and its figures' pixels."""
    pictures: dict[str, bytes] = {}
    parsed = parse(open_document(path.read_bytes()), "d", options, keep_figure=pictures.__setitem__)
    return structure(parsed, {}), pictures


def _ownof(item: tuple[str, Path]) -> tuple[str, Made]:
    return item[0], ours(item[1])


def overlay(path: Path, pages: Sequence[int]) -> dict[int, str]:
    """Print each image's tag into its box and read the page again, as the paper does."""
    import pymupdf

    texts: dict[int, str] = {}
    with pymupdf.open(path) as document:
        for number in pages:
            page = document[number - 1]
            for info in page.get_image_info(hashes=True):
                tag = f"<image:{int(info['digest'].hex(), 16) % 10**8:08d}.png>"
                page.insert_textbox(pymupdf.Rect(info["bbox"]), tag, fontsize=11)
            texts[number] = document[number - 1].get_text()
    return texts


def pymupdf4llm_pages(path: Path, pages: Sequence[int]) -> dict[int, str]:
    """Return what pymupdf4llm with its layout model and images makes of some pages, OCR off."""
    import pymupdf
    import pymupdf4llm

    with tempfile.TemporaryDirectory() as folder, pymupdf.open(path) as document:
        chunks = pymupdf4llm.to_markdown(
            document,
            pages=[page - 1 for page in pages],
            page_chunks=True,
            write_images=True,
            image_path=folder,
            use_ocr=False,
        )
    return {page: chunk["text"] for page, chunk in zip(pages, chunks, strict=True)}


def _embedded(path: Path) -> dict[int, list[BBox]]:
    import pymupdf

    with pymupdf.open(path) as document:
        return {page.number + 1: [BBox(*info["bbox"]) for info in page.get_image_info()] for page in document}


def _all(work: Callable[[tuple[str, Path]], tuple[str, Made]], pdfs: dict[str, Path]) -> dict[str, Made]:
    with ProcessPoolExecutor(max_workers=2, max_tasks_per_child=1) as pool:
        return dict(pool.map(work, sorted(pdfs.items())))


# ---- how well ----


def _adjacency(arguments: argparse.Namespace, pdfs: dict[str, Path], made: dict[str, Made]) -> Iterator[Row]:
    """Yield how many captions have their own tag beside them."""
    adjacent = _tool(arguments.tools / "placement.py").adjacent
    captions: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in (arguments.data / "captions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        captions[row["doc"]][row["page"]].append(row)
    goals = {"LinuxCNC_Documentation": "100 %", "yosys_manual": "28 of 28", "papers": "64 of 65"}
    groups: dict[str, list[str]] = defaultdict(list)
    for doc in captions:
        groups[doc if doc in goals else "papers"].append(doc)
    for group, docs in groups.items():
        if any(doc not in pdfs for doc in docs):
            sys.stderr.write(f"{group}: not all of its PDFs were given\n")
            continue
        whole = Counter[str]()
        sampled = Counter[str]()
        for doc in docs:
            pages = sorted(captions[doc])
            some = pages[:: max(1, len(pages) // arguments.sample)][: arguments.sample]
            peers = {"pymupdf4llm": pymupdf4llm_pages(pdfs[doc], some), "overlay": overlay(pdfs[doc], some)}
            for page in pages:
                held = captions[doc][page]
                right = sum(row[1] for row in adjacent(held, made[doc].pages[page - 1])[0])
                whole.update(right=right, captions=len(held))
                if page in some:
                    sampled.update(ours=right, captions=len(held))
                    sampled.update(
                        {name: sum(row[1] for row in adjacent(held, texts[page])[0]) for name, texts in peers.items()}
                    )
        share = 100 * whole["right"] / whole["captions"]
        name = f"{group}: tag beside caption"
        yield Row(f"{name}, all {whole['captions']}", "%", share, goal=goals[group])
        for peer in ("pymupdf4llm", "overlay"):
            mine, theirs = (100 * sampled[tool] / sampled["captions"] for tool in ("ours", peer))
            yield Row(f"{name}, sample of {sampled['captions']}", "%", mine, theirs, peer)


def _boxes(arguments: argparse.Namespace, pdfs: dict[str, Path], made: dict[str, Made]) -> Iterator[Row]:
    """Yield how many graphics are found whole, and no more."""
    score = _tool(arguments.tools / "figure_boxes.py").score
    truth = [json.loads(line) for line in (arguments.data / "figure_boxes.jsonl").read_text(encoding="utf-8").splitlines()]
    docs = sorted({row["doc"] for row in truth} & set(pdfs))
    shares = []
    for boxes in ({doc: made[doc].figures for doc in docs}, {doc: _embedded(pdfs[doc]) for doc in docs}):
        shown = [
            {
                "doc": doc,
                "pages": [{"page": page, "figures": [{"bbox": list(box)} for box in found]} for page, found in by.items()],
            }
            for doc, by in boxes.items()
        ]
        total: Counter[str] = sum((Counter(counts) for counts in score(truth, shown).values()), Counter())
        shares.append(100 * (total["right_form"] + total["right_image"]) / (total["n_form"] + total["n_image"]))
    yield Row(f"boxes of {len(truth)} graphics right", "%", shares[0], shares[1], "embedded images", "95 %")


def _regions(arguments: argparse.Namespace, pdfs: dict[str, Path], made: dict[str, Made]) -> Iterator[Row]:
    """Yield how many regions that questions are about are met by a figure or table, and how many of those a page has."""
    asked: dict[tuple[str, int, BBox], set[str]] = defaultdict(set)
    for line in (arguments.data / "dev" / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kinds = ASKED_ABOUT & set(row["evidence_sources"])
        if row["gold_agrees"] and kinds:
            for region in row.get("regions") or []:
                asked[Path(row["doc"]).stem, region["page"], BBox(*region["bbox"])] |= kinds
    met, images, of = Counter[str](), Counter[str](), Counter[str]()
    embedded = {doc: _embedded(pdfs[doc]) for doc in {doc for doc, _, _ in asked}}
    for (doc, page, box), kinds in asked.items():
        kind = "scans" if page in made[doc].scans else "tables" if kinds == {"Table"} else "figures"
        of[kind] += 1
        met[kind] += any(box.iou(other) >= 0.5 for other in _apart(made[doc], page))
        images[kind] += any(box.iou(other) >= 0.5 for other in embedded[doc].get(page, []))
    for kind in (*sorted(of), ""):
        mine, theirs, all_ = (sum(counts.values()) if not kind else counts[kind] for counts in (met, images, of))
        name = f"regions asked about met, {all_} of {kind or 'all kinds'}"
        yield Row(name, "%", 100 * mine / all_, 100 * theirs / all_, "embedded images", "" if kind else "67 %")
    pages = sum(len(made[doc].pages) for doc in pdfs if doc in embedded)
    shown = sum(len(_apart(made[doc], page + 1)) for doc in embedded for page in range(len(made[doc].pages)))
    yield Row("figures and tables a page", "", shown / pages)


def _apart(made: Made, page: int) -> list[BBox]:
    """Return figures and tables of a page that don't overlap each other, the larger first."""
    kept: list[BBox] = []
    for box in sorted((*made.figures.get(page, []), *made.tables.get(page, [])), key=lambda box: box.area, reverse=True):
        if all(box.iou(other) < 0.3 for other in kept):
            kept.append(box)
    return kept


def _tool(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise SystemExit(
            f"bench.parse: {file} is not there; --tools names the folder with placement.py and figure_boxes.py"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- how fast ----


def _speed(path: Path, sample: int) -> Iterator[Row]:
    """Yield CPU seconds against the floor without pixels, and against pymupdf4llm with them."""
    import pymupdf

    with pymupdf.open(path) as document:
        pages = document.page_count
    with _fresh_process() as process:
        bare, floor = process.submit(_without_pixels, path).result()
    name = path.stem[:24]
    yield Row(f"{name}, {pages} p, no pixels", "CPU s", bare, floor, "text and image info", "2 x manuals, 3 x papers")
    some = sorted({1 + number * pages // sample for number in range(min(sample, pages))})
    cut = _cut(path, some)
    mine = _seconds(
        lambda: structure(parse(open_document(cut), "d", ParseOptions(), keep_figure=lambda _name, _png: None), {})
    )
    theirs = _seconds(lambda: pymupdf4llm_pages(path, some))
    yield Row(f"{name}, {len(some)} p, with figures", "CPU s", mine, theirs, "pymupdf4llm", "1/10 manuals, 1/3 papers")
    with _fresh_process() as process:
        peak = process.submit(_peak, path).result()
    yield Row(f"{name}, {pages} p, memory", "MiB", peak, goal="500")


def _fresh_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))


def _without_pixels(path: Path) -> tuple[float, float]:
    """Return our CPU seconds and the floor's, in a process that looks for garbage as a parse worker does.

    A machine is faster at one time than at another: so both are measured in turn, and of the pairs that with the middle ratio
    is returned. The least of each may come from different times.
    """
    data = path.read_bytes()
    seconds: list[tuple[float, float]] = []
    with infrequent_gc():
        for _ in range(_REPEATS):
            own = _seconds(
                lambda: structure(
                    parse(open_document(data), "d", ParseOptions(), keep_figure=lambda _name, _picture: None), {}
                )
            )
            seconds.append((own, _seconds(lambda: _floor(path))))
    return sorted(seconds, key=lambda pair: pair[0] / pair[1])[_REPEATS // 2]


def _peak(path: Path) -> float:
    """Return the most memory that a process takes for one document, in MiB."""
    structure(parse(open_document(path.read_bytes()), "d", OPTIONS, keep_figure=lambda _name, _png: None), {})
    return peak_memory()


def peak_memory() -> float:
    """Return the most memory that this process has taken, in MiB; getrusage counts what the parent held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _workers(path: Path) -> Row:
    """Return how much faster two workers parse four documents than one does."""
    import pymupdf

    with tempfile.TemporaryDirectory() as folder, pymupdf.open(path) as document:
        jobs = []
        for number in range(4):
            document.set_metadata({"title": f"copy {number}"})
            data = bytes(document.tobytes())
            (Path(folder) / f"{number}.pdf").write_bytes(data)
            jobs.append(ParseJob(sha256(data), f"{number}.pdf"))
        seconds: list[float] = []
        for workers in (1, 1, 2):  # the first one warms up
            began = time.monotonic()
            options = ParseOptions(workers=workers)
            store = f"{folder}/store-{len(seconds)}"
            for _ in parse_documents(
                jobs, source=open_source(folder), store_address=store, options=options, passwords=[], run_id=None
            ):
                pass
            seconds.append(time.monotonic() - began)
    return Row(f"four of {path.stem[:20]}, two workers", "s", seconds[2], seconds[1], "one worker", "1/1.8")


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _floor(path: Path) -> None:
    import pymupdf

    with pymupdf.open(path) as document:
        for page in document:
            page.get_text("dict", flags=pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES)
            page.get_image_info(hashes=True)


def _cut(path: Path, pages: Sequence[int]) -> bytes:
    import pymupdf

    with pymupdf.open(path) as document:
        document.select([page - 1 for page in pages])
        return bytes(document.tobytes())


if __name__ == "__main__":
    main()
