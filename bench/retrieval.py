"""Retrieval by pages, ours beside plain ways: ``python -m bench.retrieval CORPUS QUESTIONS [--out docs/quality.md]``.

CORPUS is a published corpus whose documents the questions are about, OCR included; QUESTIONS is JSONL with ``doc``, ``pages``,
and as far as known ``evidence_sources``, ``scope``, ``gold_agrees``, ``answer``. Every question is put inside its document; those
whose ``scope`` isn't ``document`` are put to the whole corpus, too. A question counts as answered by a page of its gold pages;
those without an answer, and those whose pages are disputed, are left out.

Plain ways, in the same run, over the same words of the same pages, recognised ones included, in the same engine with the same
text model: BM25 over whole pages; chunks of 1,000 characters, overlapping by 200, found by hybrid search (rank fusion).
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.engines.lancedb_index import LanceIndex
from bench.table import rewrite
from evaluation.golden import paired_bootstrap
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.descriptions import StructuredFiles
from pipeline.records.publication import read_pointer
from schemas.corpus import DEFAULT_PRESET
from schemas.evidence import EVIDENCE
from schemas.filters import Filters, Modality
from schemas.ids import document_file, sha256
from schemas.ports import TextEmbedder, Vector
from schemas.retrieval import Query
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.presets import packaged
from tasks.answering.retrieve import retrieve
from tasks.answering.retrievers import Search
from tasks.enriching.spaces import TEXT

CHUNK_CHARS, OVERLAP_CHARS = 1_000, 200
DEPTH = 50
"""Rows that are asked for; pages are ranked by the first of theirs."""

PLAIN, PAGES = "plain chunks", "page BM25"
MEASURES = ("Success@1", "Success@3", "Success@5", "Success@10", "Success@50", "R@5", "nDCG@10")
HEADINGS = ("@1", "@3", "@5", "@10", "in the pool of 50", "all pages @5", "nDCG@10")
INSIDE, OVER = "inside the document", "over the corpus"

Page = tuple[str, int]
"""A source's file name, and a page of it from 1."""

PageSearch = Callable[[str, Filters], Sequence[Page]]
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """A question with the pages that answer it.

    Attributes:
        kinds: What kinds of evidence it belongs to, by the names that tables show.
        is_open: Whether it means something without its document.
    """

    id: str
    words: str
    doc: str
    pages: tuple[int, ...]
    kinds: tuple[str, ...]
    is_open: bool


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument("--preset", action="append", help="ours; by default the default preset, its parts, and hybrid")
    parser.add_argument("--out", type=Path, help="the page whose generated part is written again")
    parser.add_argument("--work", type=Path, help="where vectors of plain chunks are kept for the next run")
    parser.add_argument("--missed", type=Path, help="where questions without a page among the first five go, JSONL")
    arguments = parser.parse_args()
    if arguments.questions is None:
        print("retrieval: name a published corpus and questions with their pages")
        return
    workspace = open_workspace(arguments.corpus)
    live = read_pointer(workspace.store)
    if live is None:
        raise SystemExit(f"{arguments.corpus} has no live version; run: inset refresh {arguments.corpus}")
    opened = open_version(workspace, live.version)
    with TemporaryDirectory() as folder:
        questions = list(read_questions(arguments.questions, _layers(workspace, opened)))
        ways = dict(_ours(opened, arguments.preset or [DEFAULT_PRESET, "hybrid", "bm25", "dense"]))
        ways |= _plain(workspace, opened, Path(folder), arguments.work)
        runs = {name: _asked(search, questions, name) for name, search in ways.items()}
    scores = {name: {place: measured(run, questions) for place, run in made.items()} for name, made in runs.items()}
    text = report(questions, scores, version=opened.version, documents=len(opened.sources))
    print(text)
    if arguments.missed:
        _write_missed(arguments.missed, questions, runs, next(iter(ways)))
    if arguments.out:
        rewrite(arguments.out, "python -m bench.retrieval", text)


def read_questions(file: Path, layers: Mapping[Page, str]) -> Iterator[Question]:
    """Yield the questions that count.

    Args:
        file: JSONL.
        layers: The words of each page that its PDF holds as text.
    """
    for line in file.read_text(encoding="utf-8").splitlines():
        read = json.loads(line)
        if not (
            read.get("answerable", True) and read.get("gold_agrees") is not False and read["pages"] and read.get("doc")
        ):
            continue
        yield Question(
            id=read["id"],
            words=read["question"],
            doc=read["doc"],
            pages=tuple(read["pages"]),
            kinds=tuple(_kinds(read, layers)),
            is_open=read.get("scope") != "document",
        )


def _kinds(read: Mapping[str, Any], layers: Mapping[Page, str]) -> Iterator[str]:
    named = {str(kind).split()[0] for kind in read.get("evidence_sources", [])}
    shown = named & {"Figure", "Chart"}
    if shown and named == shown:
        yield "figure or chart"
        gold = " ".join(layers.get((read["doc"], page), "") for page in read["pages"])
        if read.get("needs_ocr") or set(_words(str(read.get("answer") or ""))) - set(_words(gold)):
            yield "… whose answer isn't text"
    elif shown:
        yield "figure or chart, and more"
    elif named == {"Table"}:
        yield "table"
    elif named:
        yield "text"
    else:
        yield "not labelled"
    if re.search(r"10-?k|annual.?report", read["doc"], re.IGNORECASE):
        yield "in annual reports"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _layers(workspace: Workspace, opened: OpenVersion) -> dict[Page, str]:
    import pymupdf

    layers = {}
    for doc_id, sources in opened.sources.items():
        with pymupdf.open(stream=workspace.store.get(document_file(doc_id)), filetype="pdf") as document:
            for number, page in enumerate(document, 1):
                layers[_name(sources[0]), number] = page.get_text()
    return layers


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _ours(opened: OpenVersion, names: Iterable[str]) -> Iterator[tuple[str, PageSearch]]:
    asked: dict[str, EmbeddedQuery] = {}

    def search(preset: str) -> PageSearch:
        def pages(words: str, filters: Filters) -> Sequence[Page]:
            question = asked.setdefault(words, opened.question(words))
            hits = opened.search(Query(words, k=DEPTH, filters=filters), packaged()[preset], question).hits
            return list(dict.fromkeys((_name(hit.source), page) for hit in hits for page in hit.pages))

        return pages

    for name in names:
        yield name, search(name)


def _plain(workspace: Workspace, opened: OpenVersion, folder: Path, work: Path | None) -> Iterator[tuple[str, PageSearch]]:
    embedder: Any = opened.embedders[TEXT.name]
    pages = list(_pages(workspace, opened))
    chunks = [(page, piece) for page, text in pages for piece in chunked(text)]
    blank: Vector = np.zeros((len(pages), embedder.dimension), np.float32)
    blank[:, 0] = 1
    yield PAGES, _searched(folder, "pages", pages, blank, embedder, "bm25")
    vectors = _embedded([text for _, text in chunks], embedder, work / workspace.spaces[TEXT.name].key if work else None)
    yield PLAIN, _searched(folder, "chunks", chunks, vectors, embedder, "hybrid")


def _pages(workspace: Workspace, opened: OpenVersion) -> Iterator[tuple[Page, str]]:
    """Yield the words of each page, with those that OCR read in its figures."""
    for doc_id, sources in opened.sources.items():
        files = StructuredFiles(workspace, doc_id, None)
        inside = defaultdict(list)
        for figure in files.figures:
            inside[figure.placement.page].append(figure.inner_text)
        for number, words in files.words.items():
            text = "\n".join(filter(None, (words.text, *inside[number])))
            if text.strip():
                yield (_name(sources[0]), number), text


def chunked(text: str) -> Iterator[str]:
    """Cut a page's text into chunks of 1,000 characters that overlap by 200, at white space if there is some."""
    start = 0
    while True:
        end = start + CHUNK_CHARS
        if end < len(text):
            end = max(text.rfind(" ", start + OVERLAP_CHARS, end), text.rfind("\n", start + OVERLAP_CHARS, end))
            end = end if end > 0 else start + CHUNK_CHARS
        yield text[start:end]
        if end >= len(text):
            return
        start = max(start + 1, end - OVERLAP_CHARS)


def _embedded(texts: Sequence[str], embedder: TextEmbedder, work: Path | None) -> Vector:
    kept = work / f"{sha256(json.dumps([embedder.name, *texts]).encode())[:16]}.npy" if work else None
    if kept is not None and kept.exists():
        loaded: Vector = np.load(kept)
        return loaded
    made = []
    for start in range(0, len(texts), 256):
        made.append(embedder.embed_documents(texts[start : start + 256]))
        print(f"\rembedding {start} of {len(texts)}", end="", file=sys.stderr, flush=True)
    vectors = np.concatenate(made)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, vectors)
    return vectors


def _searched(
    folder: Path, name: str, texts: Sequence[tuple[Page, str]], vectors: Vector, embedder: TextEmbedder, preset: str
) -> PageSearch:
    """Return a search in an index of texts alone, a page each."""
    schema = pa.schema(
        [
            *EVIDENCE,
            pa.field("search_text", pa.string()),
            pa.field("vector_text", pa.list_(pa.float32(), embedder.dimension)),
        ]
    )
    rows = [
        dict.fromkeys(EVIDENCE.names)
        | {
            "evidence_id": f"{place:08}",
            "modality": Modality.TEXT.value,
            "doc_id": source,
            "sources": [source],
            "page": number,
            "bbox": [0.0] * 4,
            "regions": [{"page": number, "bbox": [0.0] * 4}],
            "order": place,
            "section_path": [],
            "title": "",
            "text": text,
            "tagged_text": text,
            "figure_refs": [],
            "caption": "",
            "search_text": text,
            "vector_text": vector,
        }
        for place, (((source, number), text), vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    index = LanceIndex(str(folder / name), "Plain_1_1")
    index.create(schema, {"text": embedder.dimension})
    index.add([pa.RecordBatch.from_pylist(rows, schema=schema)])
    index.finish()
    asked: dict[str, EmbeddedQuery] = {}

    def search(words: str, filters: Filters) -> Sequence[Page]:
        question = asked.setdefault(words, EmbeddedQuery({"text": embedder}, words))
        found = retrieve(Search(index), question, packaged()[preset], k=DEPTH, filters=filters)
        return list(dict.fromkeys(texts[int(row)][0] for row, _ in found))

    return search


def _asked(search: PageSearch, questions: Sequence[Question], name: str) -> dict[str, dict[str, Sequence[Page]]]:
    made: dict[str, dict[str, Sequence[Page]]] = {INSIDE: {}, OVER: {}}
    for done, question in enumerate(questions, 1):
        made[INSIDE][question.id] = search(question.words, Filters(documents=[question.doc]))
        if question.is_open:
            made[OVER][question.id] = search(question.words, Filters())
        print(f"\r{name}: {done} of {len(questions)}   ", end="", file=sys.stderr, flush=True)
    return made


def measured(run: Mapping[str, Sequence[Page]], questions: Sequence[Question]) -> dict[str, dict[str, float]]:
    """Return each measure of each question, by ir-measures; pages are ranked as they stand."""
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    gold = [
        ir_measures.Qrel(question.id, _spelled((question.doc, page)), 1)
        for question in questions
        if question.id in run
        for page in question.pages
    ]
    ranked = [
        ir_measures.ScoredDoc(name, _spelled(page), -float(rank))
        for name, pages in run.items()
        for rank, page in enumerate(pages)
    ]
    found: dict[str, dict[str, float]] = {name: dict.fromkeys(run, 0.0) for name in MEASURES}
    for metric in ir_measures.iter_calc(measures, gold, ranked):
        found[str(metric.measure)][metric.query_id] = metric.value
    return found


def _spelled(page: Page) -> str:
    return f"{page[0]}#{page[1]}"


Measured = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Way to place to measure to question to value."""


def report(questions: Sequence[Question], scores: Measured, *, version: str, documents: int) -> str:
    """Return the generated part of the page: tables in Markdown."""
    ours, *others = scores
    kinds = ["all", *dict.fromkeys(kind for question in questions for kind in question.kinds)]
    lines = [
        f"Version `{version}`, {documents} documents, {len(questions)} questions inside their document, "
        f"{sum(question.is_open for question in questions)} over the corpus. @k: share of questions with a right page among the "
        f"first k; in brackets what 90 % of 2,000 bootstrap samples hold.",
        "",
    ]
    for place in (INSIDE, OVER):
        lines += [f"### {place.capitalize()}", "", _line("", *HEADINGS), _line(*["---"] * (1 + len(HEADINGS)))]
        for name in scores:
            lines.append(
                _line(name, *(_with_interval(list(scores[name][place][measure].values())) for measure in MEASURES))
            )
        lines += ["", _line("@5 by evidence", "questions", *scores), _line(*["---"] * (2 + len(scores)))]
        for kind in kinds:
            asked = _of(kind, questions, place)
            values = [[scores[name][place]["Success@5"][one] for one in asked] for name in scores]
            lines.append(_line(kind, str(len(asked)), *map(_with_interval, values)))
        lines += ["", _line(f"{ours} against", *others), _line(*["---"] * (1 + len(others)))]
        for measure, heading in (("Success@5", "@5"), ("nDCG@10", "nDCG@10")):
            for kind in kinds:
                asked = _of(kind, questions, place)
                differences = (
                    paired_bootstrap(
                        [scores[ours][place][measure][one] for one in asked],
                        [scores[other][place][measure][one] for one in asked],
                    )
                    for other in others
                )
                lines.append(
                    _line(f"{heading}, {kind}", *(f"{d:+.3f} ({low:+.3f} to {high:+.3f})" for d, low, high in differences))
                )
        lines.append("")
    return "\n".join(lines)


def _of(kind: str, questions: Sequence[Question], place: str) -> list[str]:
    return [one.id for one in questions if (kind == "all" or kind in one.kinds) and (place == INSIDE or one.is_open)]


def _with_interval(values: Sequence[float]) -> str:
    mean, low, high = paired_bootstrap(values, [0.0] * len(values))
    return f"{mean:.3f} ({low:.2f}–{high:.2f})" if values else ""


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _write_missed(
    file: Path, questions: Sequence[Question], runs: Mapping[str, Mapping[str, Mapping[str, Sequence[Page]]]], ours: str
) -> None:
    with file.open("w", encoding="utf-8") as out:
        for place in (INSIDE, OVER):
            for question in questions:
                pages = runs[ours][place].get(question.id)
                gold = {(question.doc, page) for page in question.pages}
                if pages is not None and not gold & set(pages[:5]):
                    rank = next((rank for rank, page in enumerate(pages, 1) if page in gold), None)
                    missed = {"id": question.id, "place": place, "question": question.words, "doc": question.doc}
                    out.write(json.dumps(missed | {"pages": question.pages, "rank": rank, "got": pages[:5]}) + "\n")


if __name__ == "__main__":
    main()
