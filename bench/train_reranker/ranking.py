"""What a ranker changes in the rows that the default preset finds, by pages."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.answers import Asking
from bench.retrieval import Page, measured, read_questions
from bench.train_reranker.groups import passage
from bench.train_reranker.ranker import Scores
from evaluation.golden import paired_bootstrap
from pipeline.corpus.presets import default_preset
from pipeline.corpus.workspace import open_workspace
from pipeline.published.version import open_version
from pipeline.records.publication import read_pointer
from schemas.evidence import Hit
from schemas.filters import Filters
from schemas.retrieval import Query

MEASURES = ("Success@1", "Success@5", "nDCG@10")
WEIGHTS = (0.25, 0.5, 1.0)
OFFSET = 10
"""Added to ranks before they are fused."""


def report(corpus: str, file: Path, model: Path, rows: int) -> str:
    """Return what changes for each weight of the ranker's rank, inside documents and over the corpus, in both halves."""
    workspace = open_workspace(corpus)
    live = read_pointer(workspace.store)
    if live is None:
        raise SystemExit(f"{corpus} has no live version; run: inset refresh {corpus}")
    opened, plan, judge = open_version(workspace, live.version), default_preset(workspace.corpus.retrieval), Scores(model)
    known = {source.rpartition("/")[2] for sources in opened.sources.values() for source in sources}
    questions = [question for question in read_questions(file, {}) if question.doc in known]
    lines, seconds = [], list[float]()
    for place in ("inside", "over"):
        runs: dict[str, dict[str, Sequence[Page]]] = {}
        for question in questions:
            if place == "over" and not question.is_open:
                continue
            filters = Filters(documents=[question.doc] if place == "inside" else [])
            hits = opened.search(Query(question.words, k=50, filters=filters), plan, opened.question(question.words)).hits
            started = time.process_time()
            texts = [
                passage(question.words, [*filter(None, [hit.title, *hit.section_path])], hit.text) for hit in hits[:rows]
            ]
            scores = judge(question.words, texts)[:, 0] if texts else np.empty(0)
            seconds.append(time.process_time() - started)
            ranks = np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
            runs.setdefault("before", {})[question.id] = _pages(hits)
            for weight in (*WEIGHTS, np.inf):
                fused = [
                    (1 / (OFFSET + n) if weight < np.inf else 0) + min(weight, 1e9) / (OFFSET + rank)
                    for n, rank in enumerate(ranks)
                ]
                order = np.argsort(-np.array(fused), kind="stable")
                runs.setdefault(f"weight {weight}", {})[question.id] = _pages([*(hits[n] for n in order), *hits[rows:]])
        values = {name: measured(run, questions) for name, run in runs.items()}
        for half in ("tuned", "aside"):
            names = [
                one.id for one in questions if one.id in runs["before"] and Asking({"id": one.id}, "", {}).half == half
            ]
            before = {measure: [values["before"][measure][name] for name in names] for measure in MEASURES}
            means = ", ".join(f"{measure} {np.mean(column):.3f}" for measure, column in before.items())
            lines.append(f"{place}, {half}, {len(names)} questions, before: {means}")
            for way in [*runs][1:]:
                changes = (
                    paired_bootstrap([values[way][measure][name] for name in names], before[measure])
                    for measure in MEASURES
                )
                lines.append(
                    f"  {way}: " + ", ".join(f"{mean:+.3f} ({low:+.3f} to {high:+.3f})" for mean, low, high in changes)
                )
    return "\n".join([*lines, f"{1000 * np.mean(seconds):.0f} ms of CPU a question"])


def _pages(hits: Iterable[Hit]) -> list[Page]:
    return list(dict.fromkeys((hit.source.rpartition("/")[2], page) for hit in hits for page in hit.pages))
