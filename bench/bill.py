"""The bill of a first refresh: ``python -m bench.bill [--sample N] [--json] PDF ...``.

The PDFs are refreshed in one process, with the packaged models; the CPU-seconds of the whole machine are told by step, so nothing
else may run. Beside them, in the same run, what the models cost alone, in this process: the layout model on every Nth page, OCR
on every Nth of the pictures that were read, the text model on every Nth of the rows. The layout model reads scanned pages once
more when they are structured.
"""

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import psutil

from backends.models.minilm import MiniLM
from backends.models.rapidocr_recogniser import RapidOcr
from backends.pdf.page import page_regions
from backends.stores.document_files import read_parsed
from backends.stores.objects import read_table
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.evidence import evidence_parts
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from schemas.ids import figure_file
from schemas.stages import Stage, Step
from tasks.reading.recognise import page_scans

ONE_IN = 10
MODELS: dict[str, tuple[str, str]] = {
    Stage.PARSE: ("layout model", "a page"),
    Step.RECOGNISE: ("OCR", "a picture"),
    Step.STRUCTURE: ("layout model", "a page"),
    Step.EMBED: ("text model", "a row"),
}
"""The model of a step, and what it works on."""

MOST_OVERHEAD, MOST_MINUTES = 1.15, 20.0


def main() -> None:
    """Refresh PDFs, and print the bill."""
    parser = parser_of("bill", __doc__)
    parser.add_argument("pdfs", nargs="+", type=Path, metavar="PDF")
    parser.add_argument("--sample", type=int, default=ONE_IN, help=f"models alone see one in so many (default: {ONE_IN})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inset-bill-") as folder:
        (root := Path(folder) / "pdfs").mkdir()
        for pdf in arguments.pdfs:
            (root / pdf.name).symlink_to(pdf.absolute())
        (Path(folder) / "bill.yaml").write_text("name: bill\nsource: pdfs\nstore: store\n")
        workspace = open_workspace(str(Path(folder) / "bill.yaml"))
        cpu_s, wall_s, version = _refreshed(workspace)
        manifest = read_manifest(workspace.store, version)
        assert manifest is not None
        pages, rows = manifest.counts.pages, manifest.counts.rows
        pictures = _pictures_read(workspace)
        layout_s = _layout_s(arguments.pdfs, arguments.sample)
        counts: dict[str, int] = {Stage.PARSE: pages, Step.RECOGNISE: len(pictures), Step.EMBED: rows}
        alone: dict[str, float] = {
            Stage.PARSE: layout_s,
            Step.STRUCTURE: layout_s * _scanned_pages(workspace, {*pictures}) / pages,
            Step.RECOGNISE: _ocr_s(workspace, pictures[:: arguments.sample]),
            Step.EMBED: _embedding_s(workspace, version, arguments.sample),
        }
        bill = []
        for step, seconds in cpu_s.items():
            model, unit = MODELS.get(step, ("", "a page"))
            peer_ms = 1000 * alone[step] if model else None
            each_ms = 1000 * seconds / counts.get(step, pages)
            bill.append(Row(f"{step} {unit}", "CPU-ms", each_ms, peer_ms, f"{model} alone" if model else ""))
        all_alone = sum(alone[step] * counts.get(step, pages) for step in alone)
        bill.append(
            Row("all", "CPU-s", sum(cpu_s.values()), all_alone, "the models alone", f"ratio at most {MOST_OVERHEAD}")
        )
        bill.append(Row("all", "minutes", wall_s / 60, goal=f"{MOST_MINUTES:g} for 3,694 pages on two cores"))
    show(
        f"first refresh of {len(arguments.pdfs)} documents: {pages} pages, {len(pictures)} pictures read, {rows} rows", bill
    )


def _machine_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)  # Ray's workers are nice


def _refreshed(workspace: Workspace) -> tuple[dict[str, float], float, str]:
    """Refresh; return the CPU-seconds of each step, those of the whole in seconds, and the version."""
    cpu_s: dict[str, float] = defaultdict(float)
    current, since, began = str(Stage.PLAN), _machine_s(), time.monotonic()

    def report(step: str, done: int, total: int, /, _detail: str = "") -> None:
        nonlocal current, since
        if step != current:
            now = _machine_s()
            cpu_s[current] += now - since
            current, since = step, now
            sys.stderr.write(f"{step}: {done} of {total}, {time.monotonic() - began:.0f} s\n")

    result = refresh(workspace, report=report)
    cpu_s[current] += _machine_s() - since
    assert result.version is not None, result
    return dict(cpu_s), time.monotonic() - began, result.version


def _pictures_read(workspace: Workspace) -> list[str]:
    names = workspace.store.names(f"recognised/{workspace.keys.recognised}")
    return [str(picture) for name in names for picture in read_table(workspace.store, name).column("id").to_pylist()]


def _scanned_pages(workspace: Workspace, pictures_read: Set[str]) -> int:
    parsed = (read_parsed(workspace.store, name) for name in workspace.store.names("parsed"))
    return sum(figure.figure_id in pictures_read for document in parsed for _, figure in page_scans(document))


def _mean_s(work: Callable[[Any], object], inputs: Iterable[Any]) -> float:
    """Return the mean CPU-seconds of work on inputs; the first is done once more before, since it loads a model."""
    seconds: list[float] = []
    for number, each_input in enumerate(inputs):
        if number == 0:
            work(each_input)
        began = time.process_time()
        work(each_input)
        seconds.append(time.process_time() - began)
    return sum(seconds) / len(seconds)


def _layout_s(pdfs: Sequence[Path], one_in: int) -> float:
    import pymupdf

    documents = (pymupdf.open(pdf) for pdf in pdfs)
    pages = (document[number] for document in documents for number in range(0, len(document), one_in))
    return _mean_s(lambda page: page_regions(page, 0), pages)


def _ocr_s(workspace: Workspace, pictures: Sequence[str]) -> float:
    stored = {*workspace.store.names("figures")}
    names = [name for name in map(figure_file, pictures) if name in stored]
    return _mean_s(RapidOcr().recognise, map(workspace.store.get, names))


def _embedding_s(workspace: Workspace, version: str, one_in: int) -> float:
    texts = [str(text) for part in evidence_parts(workspace.store, version) for text in part.column("text").to_pylist()]
    sampled = sorted(filter(None, texts), key=len)[::one_in]
    return _mean_s(MiniLM().embed_documents, [sampled]) / len(sampled)


if __name__ == "__main__":
    main()
