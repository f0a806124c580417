"""What a model writes a question from: figures, the contents of a document, or tables of two documents.

The last two are the pipelines of OMG-QA (section "Question generation").
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Literal

from evaluation.questions import GoldPage, GoldRegion, Question
from schemas.evidence import Hit
from schemas.filters import Modality

Kind = Literal["figures", "contents", "tables"]
KINDS: tuple[Kind, ...] = ("figures", "contents", "tables")

TEXT_CHARACTERS = 3_000
"""Length of the text that a prompt quotes of one place; longer text is cut."""

EXCERPT_CHARACTERS = 300
"""Length of each part in a list of contents."""

PARTS_OF_A_KIND = 8
"""Texts, tables and figures each in a list of contents."""

_BEGINNING = 5
"""Texts at the beginning of a document."""

_LETTERS = {Modality.TEXT: "S", Modality.TABLE: "T", Modality.FIGURE: "F"}
_LEAST_ENTITY = 3
"""Characters of a cell that counts as an entity; shorter ones are units and marks."""


@dataclass(frozen=True)
class Material:
    """What one question is written from; ``name`` names it among the materials of a version.

    ``values`` fill the packaged ``prompt``; ``parts`` are rows that may be evidence, by label: those that the model says it
    used if it ``chooses``, else all; ``required`` ones are evidence, whatever it says. The picture of ``figure`` is sent;
    ``revise`` is a second material that revises the question.
    """

    name: str
    prompt: str
    values: Mapping[str, str]
    parts: Mapping[str, Hit]
    chooses: bool = False
    required: tuple[str, ...] = ()
    figure: str | None = None
    revise: "Material | None" = None

    def question(self, words: str, answer: str, used_labels: Sequence[str]) -> Question:
        """Return a question with the gold evidence of the parts that it uses."""
        rows = [self.parts[label] for label in used_labels]
        regions = [GoldRegion(doc=_file(row), page=region.page, bbox=region.bbox) for row in rows for region in row.regions]
        figures = [
            GoldRegion(doc=_file(row), page=row.page, bbox=row.bbox) for row in rows if row.modality is Modality.FIGURE
        ]
        pages = dict.fromkeys((cited_region.doc, cited_region.page) for cited_region in regions)
        return Question(
            id=self.name,
            question=words,
            answer=answer,
            documents=list(dict.fromkeys(_file(row) for row in rows)),
            pages=[GoldPage(doc=doc, page=page) for doc, page in pages],
            regions=regions,
            figures=figures,
            evidence_types=sorted({str(row.modality) for row in rows}),
        )


@dataclass
class Document:
    """The rows of a document in reading order, without those of whole pages."""

    doc_id: str
    rows: Sequence[Hit] = field(repr=False)

    @property
    def beginning(self) -> str:
        """Its first texts."""
        texts = (row.text for row in self.rows if row.modality is Modality.TEXT)
        return "\n".join(itertools.islice(texts, _BEGINNING))[:TEXT_CHARACTERS]

    @cached_property
    def tables(self) -> list[tuple[Hit, set[str]]]:
        """Its tables, each with the entities that its cells name."""
        return [(row, _entities(row)) for row in self.of(Modality.TABLE)]

    def of(self, modality: Modality) -> list[Hit]:
        """Return its rows of a modality."""
        return [row for row in self.rows if row.modality is modality]


def shuffled(names: Sequence[str], seed: int) -> list[str]:
    """Return names in an order that depends on them and the seed alone."""
    return sorted(names, key=lambda name: sha256(f"{seed} {name}".encode()).digest())


def of_figures(document: Document, seed: int) -> Iterator[Material]:
    """Yield a material for each figure with a caption."""
    captioned = {row.evidence_id: row for row in document.of(Modality.FIGURE) if row.caption}
    for name in shuffled([*captioned], seed):
        row = captioned[name]
        around = (text_row.text for text_row in document.of(Modality.TEXT) if set(text_row.pages) & set(row.pages))
        yield Material(
            name=f"figure {name}",
            prompt="figure",
            values={
                "title": row.title or row.source,
                "section": " > ".join(row.section_path),
                "caption": row.caption,
                "text": "\n".join(around)[:TEXT_CHARACTERS],
            },
            parts={"F1": row},
            figure=row.figure_id,
        )


def of_contents(document: Document, seed: int) -> Iterator[Material]:
    """Yield a material for a document with rows of two modalities."""
    parts: dict[str, Hit] = {}
    for modality, letter in _LETTERS.items():
        rows = {row.evidence_id: row for row in document.of(modality) if row.text.strip()}
        chosen_names = set(shuffled([*rows], seed)[:PARTS_OF_A_KIND])
        chosen_rows = [row for name, row in rows.items() if name in chosen_names]
        parts |= {f"{letter}{number}": row for number, row in enumerate(chosen_rows, 1)}
    if len({row.modality for row in parts.values()}) < 2:
        return
    first = next(iter(parts.values()))
    lines = (
        f"[{label}] {' > '.join(row.section_path)}: {' '.join(row.text.split())[:EXCERPT_CHARACTERS]}"
        for label, row in parts.items()
    )
    yield Material(
        name=f"contents {document.doc_id}",
        prompt="contents",
        values={"title": first.title or first.source, "parts": "\n".join(lines)},
        parts=parts,
        chooses=True,
    )


def of_tables(first: Document, second: Document) -> Iterator[Material]:
    """Yield a material for the two tables of two documents that share most entities, at least two."""
    pairs = itertools.product(first.tables, second.tables)
    shared_entities = [
        (sorted(entities & other_entities), first_table, second_table)
        for (first_table, entities), (second_table, other_entities) in pairs
    ]
    names, first_table, second_table = max(shared_entities, key=lambda pair: len(pair[0]), default=([], None, None))
    if first_table is None or second_table is None or len(names) < 2:
        return
    titles = {"title": first_table.title or first_table.source, "other_title": second_table.title or second_table.source}
    tables = {"table": first_table.text[:TEXT_CHARACTERS], "other_table": second_table.text[:TEXT_CHARACTERS]}
    name, parts = f"tables {first_table.evidence_id} {second_table.evidence_id}", {"T1": first_table, "T2": second_table}
    texts = [document.of(Modality.TEXT)[:_BEGINNING] for document in (first, second)]
    labels = {f"S{number}": row for number, row in enumerate(itertools.chain(*texts), 1)}
    lines = [f"[{label}] {row.text[:EXCERPT_CHARACTERS]}" for label, row in labels.items()]
    first_text, second_text = "\n".join(lines[: len(texts[0])]), "\n".join(lines[len(texts[0]) :])
    yield Material(
        name=name,
        prompt="tables",
        values={**titles, **tables, "shared": ", ".join(names[:PARTS_OF_A_KIND])},
        parts=parts,
        revise=Material(
            name=name,
            prompt="tables_with_text",
            values={**titles, **tables, "text": first_text, "other_text": second_text},
            parts=parts | labels,
            chooses=True,
            required=("T1", "T2"),
        ),
    )


def _entities(table: Hit) -> set[str]:
    cells = (" ".join(cell.split()).casefold() for row in table.rows for cell in row)
    return {cell for cell in cells if len(cell) >= _LEAST_ENTITY and any(map(str.isalpha, cell))}


def _file(row: Hit) -> str:
    return row.source.rpartition("/")[2]
