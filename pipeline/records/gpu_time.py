"""Estimate of the GPU minutes of a refresh, from the throughput that ``bench.gpu`` measured (``gpu_time.json``)."""

import json
import re
from collections.abc import Collection, Mapping
from importlib.resources import files

from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import open_vectors
from pipeline.records.expected_calls import expected_rows, vectors_of
from schemas.models import FLOAT32, PRECISION
from schemas.versions import ExpectedCalls, GpuWork, Manifest, PlannedDocument
from tasks.enriching.spaces import Space

_PRECISIONS = {FLOAT32, "bfloat16"}


def expected_gpu_work(
    workspace: Workspace,
    calls: Mapping[str, ExpectedCalls],
    changed: Collection[PlannedDocument],
    documents: Collection[PlannedDocument],
    live: Manifest | None,
) -> dict[str, GpuWork]:
    """Return the work of models to which the corpus file gives GPUs, by captioner, and as ``vectors image`` by space.

    A model that ``auto`` may put on a GPU isn't counted. Rows are estimated from bytes: those of ``changed`` documents, or of all
    ``documents`` where a space has no vectors yet.

    Args:
        workspace: The corpus.
        calls: Expected calls of captioners.
        changed: Documents whose rows are made.
        documents: All documents of the refresh.
        live: The manifest of the live version.
    """
    work_by_label: dict[str, GpuWork] = {}
    for label, captioner in workspace.captioners.items():
        options, expected = captioner.options, calls.get(label)
        uses_gpu = options.tensor_parallel > 1 or (options.gpus != "auto" and options.gpus > 0)
        if expected is not None and expected.items and not options.kind.is_at_endpoint and uses_gpu:
            work_by_label[label] = _work(options.model, expected.items, f"{expected.subject}s")
    embeddings = workspace.corpus.embeddings
    for vectors in open_vectors(workspace.store, workspace.spaces):
        space, model = vectors.space, vectors.space.model(embeddings)
        gpus = space.pool(embeddings).gpus
        if model is None or space.endpoint(embeddings) is not None or gpus == "auto" or not gpus:
            continue
        if rows := expected_rows(vectors, changed, documents, live):
            precision = str(model.setting(PRECISION) or FLOAT32)
            work_by_label[vectors_of(space)] = _work(model.name, rows, _unit(space), precision)
    return work_by_label


def _unit(space: Space) -> str:
    return "pictures" if space.sees else "texts"


def _work(model: str, items: int, subjects: str, precision: str | None = None) -> GpuWork:
    """Return the work of a model; minutes are None where no model of its family, size and precision was measured."""
    table = json.loads(files("pipeline.records").joinpath("gpu_time.json").read_text(encoding="utf-8"))
    rates = [row["per_s"] for row in table["measured"] if _is_same(row["model"], model, precision)]
    minutes = items / max(rates) / 60 if rates else None
    return GpuWork(model=model, items=items, subjects=subjects, minutes=minutes, chip=table["chip"], date=table["date"])


def _is_same(measured: str, model: str, precision: str | None) -> bool:
    """Return whether a row of the table, such as ``ViT-L-14, bfloat16``, is of the model of this name."""
    name, _, how = measured.partition(", ")
    return _letters(name) in _letters(model) and (how not in _PRECISIONS or how == precision)


def _letters(name: str) -> str:
    return re.sub(r"[-_/ ]", "", name).lower()
