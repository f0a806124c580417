"""Synthetic manuals: PDFs whose truth is known, made from a seed. The same seed gives the same bytes."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.questions import GoldPage, GoldRegion, Question
from schemas.documents import TAGGED
from tests.synthetic.content import Ask, Author
from tests.synthetic.flow import Flow
from tests.synthetic.options import PRESETS, STREAMS, Options
from tests.synthetic.prose import ENGLISH, MACHINES
from tests.synthetic.sheet import Fact
from tests.synthetic.truth import TrueBlock, TrueFigure, TruePage, TrueSection, TrueTable, Truth

__all__ = ["PRESETS", "STREAMS", "Manual", "Options", "Truth", "synthesize"]

_FRONT_PAGES = 2
_UNANSWERED = 5


@dataclass(frozen=True, slots=True)
class Manual:
    """A PDF, what is true of it, and what can be asked of it."""

    pdf: bytes
    truth: Truth
    questions: tuple[Question, ...]


def synthesize(name: str, *, seed: int, pages: int, options: Options) -> Manual:
    """Make a manual.

    Args:
        name: Its file name without ``.pdf``; questions name it.
        seed: What all that is random comes from.
        pages: How many; the first has the title, the second the contents.
        options: How hard it is.

    Returns:
        The manual; equal arguments give equal bytes, with the same release of PyMuPDF and Pillow.
    """
    import pymupdf

    pick = random.Random(f"{seed} {pages} {options}")
    subject = f"{pick.choice(MACHINES)} {pick.choice('ABCX')}{pick.randrange(100, 999)}"
    author = Author(pick, options)
    chapters = author.chapters(max(1, pages))
    flow = Flow(options, pick, subject, pages)
    flow.front(contents=pages >= _FRONT_PAGES)
    flow.chapters(chapters)
    document = pymupdf.open()
    drawn = [sheet.draw(document, pick) for sheet in flow.sheets]
    document.set_metadata({"title": f"{subject} service manual"})
    if options.outline:
        document.set_toc([[section.level, section.title, section.page] for section in flow.sections])
    pdf = bytes(document.tobytes(garbage=3, deflate=True, no_new_id=True))
    document.close()
    truth = _truth(name, seed, [page for page, _ in drawn], [fact for _, facts in drawn for fact in facts], flow.sections)
    return Manual(pdf, truth, tuple(_questions(truth, author.asks)))


def _truth(
    name: str, seed: int, pages: Sequence[TruePage], facts: Iterable[Fact], sections: Sequence[TrueSection]
) -> Truth:
    blocks: list[TrueBlock] = []
    figures: list[TrueFigure] = []
    tables: dict[str, TrueTable] = {}
    for fact in facts:
        match fact:
            case TrueBlock():
                blocks.append(fact)
            case TrueFigure():
                figures.append(fact)
            case TrueTable():
                earlier_part = tables.get(fact.id)
                tables[fact.id] = fact if earlier_part is None else _continued(earlier_part, fact)
    drawn = {figure.id for figure in figures}
    blocks = [
        block.model_copy(update={"mentions": tuple(figure_id for figure_id in block.mentions if figure_id in drawn)})
        for block in blocks
    ]
    tagged = {figure.id for figure in figures if figure.role in TAGGED}
    return Truth(
        name=name,
        seed=seed,
        pages=tuple(pages),
        blocks=tuple(blocks),
        figures=tuple(figures),
        tables=tuple(tables.values()),
        sections=tuple(sections),
        tags=tuple(figure_id for page in pages if not page.scanned for figure_id in page.order if figure_id in tagged),
    )


def _continued(table: TrueTable, part: TrueTable) -> TrueTable:
    return table.model_copy(
        update={
            "regions": (*table.regions, *part.regions),
            "rows": (*table.rows, *part.rows),
            "pictures": (*table.pictures, *part.pictures),
        }
    )


def _questions(truth: Truth, asks: Iterable[Ask]) -> Iterable[Question]:
    """Yield the questions that this manual answers, and a few that it doesn't."""
    document = f"{truth.name}.pdf"
    figures = {figure.id: figure for figure in truth.figures}
    texts = {block.id: block for block in truth.blocks}
    count = 0
    for ask in asks:
        count += 1
        name = f"{truth.name}-{count:04}"
        base_question = Question(id=name, question=ask.question, answer=ask.answer, documents=[document])
        figure, table = (
            figures.get(ask.source),
            next((candidate for candidate in truth.tables if candidate.id == ask.source), None),
        )
        if figure is not None:
            gold = GoldRegion(doc=document, page=figure.page, bbox=tuple(figure.bbox))
            yield base_question.model_copy(update={"pages": [GoldPage(doc=document, page=figure.page)], "figures": [gold]})
        elif table is not None:
            if not any(row[1] in ask.question for row in table.rows):
                continue  # its row did not fit into the last page
            pages = sorted({region.page for region in table.regions})
            yield base_question.model_copy(update={"pages": [GoldPage(doc=document, page=page) for page in pages]})
        elif ask.source in texts:
            yield base_question.model_copy(update={"pages": [GoldPage(doc=document, page=texts[ask.source].page)]})
    for number in range(_UNANSWERED):
        question = ENGLISH.ask.format(a=ENGLISH.parts[number], code=f"Z{number}00")
        yield Question(id=f"{truth.name}-none-{number + 1}", question=question, documents=[document], answerable=False)
