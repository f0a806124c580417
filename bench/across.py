"""One question to several corpora, beside one corpus of all documents: ``python -m bench.across CORPUS QUESTIONS [--parts 4]``.

CORPUS is a published corpus whose documents the questions are about; QUESTIONS is as of ``bench.retrieval``, of which those
that mean something without their document are put to all. The documents are dealt, in the order of their names, to as many
corpora as ``--parts`` says, whose stores begin as copies of the whole one, so that finished work is found. A question counts if
one of its gold pages is among the first five. Times are of threads in one process: all corpora at once, beside the slowest of
them alone.
"""

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from bench.retrieval import Question, read_questions
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import open_workspace
from pipeline.published.across import merged
from pipeline.published.corpus import PublishedCorpus
from schemas.evidence import SearchResult
from schemas.retrieval import Query

FIRST = 5


def main() -> None:
    """Measure and print."""
    parser = parser_of("across", __doc__)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.questions is None:
        print("across: name a published corpus and questions with their pages")
        return
    questions = [question for question in read_questions(arguments.questions, {}) if question.is_open]
    with TemporaryDirectory(prefix="inset-") as folder:
        files = [_part(Path(folder), arguments.corpus, number, arguments.parts) for number in range(arguments.parts)]
        whole = PublishedCorpus(open_workspace(arguments.corpus))
        parts = {f"part_{number}": PublishedCorpus(open_workspace(str(file))) for number, file in enumerate(files)}
        show(f"{len(questions)} questions to {arguments.parts} corpora at once", _rows(questions, whole, parts))


def _rows(questions: Sequence[Question], whole: PublishedCorpus, parts: Mapping[str, PublishedCorpus]) -> list[Row]:
    answered_by_one, answered_by_all = 0, 0
    all_ms, slowest_ms = [], []
    with ThreadPoolExecutor(len(parts)) as threads:
        for question in questions:
            query = Query(question.words, k=FIRST)
            answered_by_one += _is_answered(question, whole.search(query))

            def search(corpus: PublishedCorpus, query: Query = query) -> SearchResult:
                return corpus.search(query, calibrated=True)

            alone = []
            for corpus in parts.values():
                start = time.perf_counter()
                search(corpus)
                alone.append(time.perf_counter() - start)
            start = time.perf_counter()
            results = dict(zip(parts, threads.map(search, parts.values()), strict=True))
            hits = merged(results, {}, 0, FIRST)
            all_ms.append(1000 * (time.perf_counter() - start))
            slowest_ms.append(1000 * max(alone))
            answered_by_all += _is_answered(question, hits)
    recall_of_all, recall_of_one = answered_by_all / len(questions), answered_by_one / len(questions)
    return [
        Row(
            "a gold page in the first five",
            "share",
            recall_of_all,
            recall_of_one,
            "one corpus of all",
            "at most 0.02 lower",
        ),
        Row(
            "all at once",
            "ms",
            statistics.median(all_ms),
            statistics.median(slowest_ms),
            "the slowest alone",
            "at most 20 more",
        ),
    ]


def _is_answered(question: Question, result: SearchResult) -> bool:
    gold = {(question.doc, page) for page in question.pages}
    return any((hit.source.rpartition("/")[2], page) in gold for hit in result.hits for page in hit.pages)


def _part(folder: Path, corpus: str, number: int, parts: int) -> Path:
    """Publish every ``parts``-th document as a corpus of its own, and return its corpus file."""
    workspace = open_workspace(corpus)
    name = f"part_{number}"
    source, store = folder / name / "pdfs", folder / name / "store"
    source.mkdir(parents=True)
    pdfs = sorted(Path(workspace.corpus.source_address).glob("*.pdf"))
    for pdf in pdfs[number::parts]:
        shutil.copy(pdf, source)
    shutil.copytree(
        workspace.store.root.removeprefix("file://"),
        store / name,
        ignore=shutil.ignore_patterns("LIVE", "LEASE*", "audit", "index", "versions", "*.json"),
    )
    settings = yaml.safe_load(workspace.file.read_text(encoding="utf-8"))
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(settings | {"name": name, "source": str(source), "store": str(store)}))
    refreshed = subprocess.run(
        [sys.executable, "-m", "cli.main", "refresh", str(file)], capture_output=True, text=True, check=False
    )
    if refreshed.returncode:
        raise SystemExit(f"{file}: {refreshed.stderr}")
    return file


if __name__ == "__main__":
    main()
