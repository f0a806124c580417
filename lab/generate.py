"""Generate a question set from a version: a model writes each question from a figure, a document's contents, or two tables."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from evaluation.questions import Question
from lab.generation.materials import Document, Kind, Material, of_contents, of_figures, of_tables, shuffled
from lab.generation.write import UnusableError, write_question
from lab.model_replies import NoReplyError
from lab.replies import Replies
from pipeline.corpus.workspace import Workspace
from pipeline.published.version import OpenVersion, open_version
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import Spend
from schemas.errors import UserError
from schemas.filters import Modality
from schemas.models import DEFAULT_SPACE
from schemas.ports import TextEmbedder
from schemas.stages import Report, silent

MOST_DOCUMENTS = 200
"""Documents that questions come from; of a larger corpus a sample. All of their tables are compared with one another."""

TRIES = 3
"""Materials tried for each question wanted."""


@dataclass
class Generated:
    """Questions, and how many materials gave none, by reason."""

    questions: list[Question] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def generate_questions(
    workspace: Workspace, version: str, kind: Kind, count: int, *, model: str, seed: int = 0, report: Report = silent
) -> Generated:
    """Let a model of the corpus file write ``count`` questions from materials of a kind, chosen by ``seed``, of a version.

    Replies are kept with the corpus: the same call again costs nothing. A model that sees pictures is
    shown the figure. Raises ``UserError`` if there is no such model.
    """
    options = generative_model(workspace, model)
    replies = Replies(workspace, Spend())
    opened = replace(open_version(workspace, version), record=replies.record)
    generated, written_questions = Generated(), set[str]()
    try:
        for material in itertools.islice(_materials(opened, kind, seed), TRIES * count):
            replies.begin(0)
            picture = None
            if material.figure is not None and options.kind.sees:
                picture = opened.picture(material.figure)
            try:
                question = write_question(opened.models()[model], material, picture)
            except (UnusableError, NoReplyError) as error:
                generated.rejected[str(error)] += 1
                continue
            if (words := question.question.casefold()) in written_questions:
                generated.rejected["the question was written before"] += 1
                continue
            written_questions.add(words)
            generated.questions.append(question)
            report(f"write from {kind}", len(generated.questions), count)
            if len(generated.questions) == count:
                break
    finally:
        replies.flush()
    return generated


def generative_model(workspace: Workspace, model: str) -> ModelEntry:
    """Return the options of a generative model of the corpus file; raises ``UserError`` if there is none."""
    options = workspace.corpus.models.get(model)
    if options is None or not options.kind.writes:
        model_names = [name for name, model_config in workspace.corpus.models.items() if model_config.kind.writes]
        remedy = f"use {', '.join(model_names)}, or add it" if model_names else "add it"
        raise UserError(f"{workspace.file}: there is no generative model {model}; {remedy} under models")
    return options


def _materials(opened: OpenVersion, kind: Kind, seed: int) -> Iterator[Material]:
    doc_ids = shuffled([*opened.sources], seed)[:MOST_DOCUMENTS]
    if kind == "tables":
        yield from _pair_materials(opened, doc_ids)
        return
    materials_of = of_figures if kind == "figures" else of_contents

    def of_document(doc_id: str) -> Iterator[Material]:
        yield from materials_of(_document(opened, doc_id), seed)  # read when its turn comes

    waiting = [of_document(doc_id) for doc_id in doc_ids]
    while waiting:  # one of each document in turn
        open_materials = []
        for materials in waiting:
            if (material := next(materials, None)) is not None:
                open_materials.append(materials)
                yield material
        waiting = open_materials


def _pair_materials(opened: OpenVersion, doc_ids: Sequence[str]) -> Iterator[Material]:
    """Yield materials of pairs of documents, those whose beginnings are most alike first."""
    documents = [document for document in (_document(opened, doc_id) for doc_id in doc_ids) if document.of(Modality.TABLE)]
    if len(documents) < 2:
        return
    embedder = cast("TextEmbedder", opened.embedders[DEFAULT_SPACE])
    vectors = embedder.embed_documents([document.beginning for document in documents])
    first, second = np.triu_indices(len(documents), k=1)
    similarities = (vectors[first] * vectors[second]).sum(axis=1)
    for pair_number in np.argsort(-similarities, kind="stable"):
        yield from of_tables(documents[first[pair_number]], documents[second[pair_number]])


def _document(opened: OpenVersion, doc_id: str) -> Document:
    rows = opened.rows_of(doc_id).to_pylist()
    evidence_rows = [row for row in rows if row["modality"] != Modality.PAGE]
    return Document(
        doc_id, opened.as_hits(evidence_rows, dict.fromkeys((row["evidence_id"] for row in evidence_rows), 1.0))
    )
