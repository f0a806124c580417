"""Extractive answers: the sentences that answer come first, figures stand where the pages put them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, groupby

from schemas.answers import AnswerResult, Citation, FigurePart, Part, TablePart, TextPart
from schemas.evidence import CitedFigure, Hit, Span
from schemas.tags import TagTemplate
from schemas.text import caption_label, mentions
from schemas.text import folded as folded_text
from tasks.answering.asked_figures import MOST_FIGURES, SHOWN_FROM, speaks_of_pictures
from tasks.answering.candidates import Candidate, is_how_to, is_yes_no, stems
from tasks.answering.cite import citation, figure_part
from tasks.answering.highlight import content_words
from tasks.answering.passages import LABEL_WORDS, Passage, PassageBlock, figures_of, read_passage
from tasks.answering.unfold import SCREEN, Unfolded

PROCEDURE_FURTHER = 0.6
"""Maximum distance of the best step of a procedure to the best sentence at which a how-to question shows the procedure, however
many words are shown. It shows three of twenty procedures more."""

ENOUGH = 40
"""Words after which no further passage is unfolded."""

WRITTEN_FROM = 2
"""Passages that a model is sent: one of 1.5 billion parameters writes the best answers from two, and what continues the best."""

MARKED, MOST_MARKED, MARKED_WORDS = 0.35, 3, 80
"""Maximum distance to the passage's best sentence at which a sentence is marked, and to the best of all at which a further
passage is unfolded; number of marked sentences, and words that those behind the best may fill with it. Of 360 questions of the
development documents 51 instead of 49 % have their answer's words unfolded at 0.35 instead of 0.2, with 85 instead of 77 words;
without the limit of words answers have 4 words more."""


@dataclass(frozen=True)
class Material:
    """The passages by rank that an answer to a question may show, their sentences with scores, and the figures of their pages.

    ``figures`` may be asked for, best first, each with a probability.
    """

    question: str
    passages: Sequence[Passage] = ()
    candidates: Sequence[Candidate] = ()
    scores: Sequence[float] = ()
    figures: Sequence[tuple[Hit, float]] = ()

    @cached_property
    def how_to_terms(self) -> Set[str]:
        """The stems of a question that asks for a procedure; empty for others."""
        return stems(content_words(self.question)) if is_how_to(self.question) else set()

    @cached_property
    def shown_figures(self) -> Sequence[Hit]:
        """The figures that are shown."""
        return [figure for figure, probability in self.figures[:MOST_FIGURES] if probability >= SHOWN_FROM]

    @cached_property
    def by_passage(self) -> Mapping[int, Sequence[tuple[float, Candidate]]]:
        """The candidates of each passage with their scores, best first; the passage of the best one comes first."""
        best: dict[int, list[tuple[float, Candidate]]] = {}
        for pair in sorted(zip(self.scores, self.candidates, strict=True), key=lambda pair: (-pair[0], pair[1])):
            best.setdefault(pair[1].passage, []).append(pair)
        return best

    @cached_property
    def procedure(self) -> int | None:
        """The passage with the best step, if a procedure is asked for and it scores about as well as the best sentence."""
        steps = [pair for pair in zip(self.scores, self.candidates, strict=True) if self.how_to_terms and pair[1].is_step]
        score, step = max(steps, key=lambda pair: pair[0], default=(0.0, None))
        return step.passage if step is not None and score >= max(self.scores) - PROCEDURE_FURTHER else None

    def marked(self, number: int) -> list[Candidate]:
        """Return the candidates of a passage that answer, best first."""
        ranked = self.by_passage[number]
        best_score, best = ranked[0]
        near = [candidate for score, candidate in ranked[:MOST_MARKED] if score >= best_score - MARKED]
        if is_yes_no(self.question):
            near = [candidate for candidate in near if candidate >= best or candidate.block != best.block]
        words = accumulate(len(candidate.text.split()) for candidate in near)
        return [
            candidate for candidate, so_far in zip(near, words, strict=True) if candidate is best or so_far <= MARKED_WORDS
        ]


def extract(
    materials: Sequence[Material], template: TagTemplate, *, corpus: str, version: str, max_passages: int
) -> AnswerResult:
    """Return the extractive answer to one or several questions; every word is the documents'. No passages give an abstention.

    The passage with the best sentence comes first, in reading order: the sentences that answer are marked and unfolded with their
    list, code or figure and what follows; the rest and further passages are folded. The answer to a yes/no question begins with
    the best sentence. At most ``max_passages`` of each question and those of figures asked for are shown.
    """
    answer = _Answer(template, corpus, version)
    for material in materials:
        answer.add_all(material, max_passages)
    return AnswerResult(version=version, abstained=not answer.parts, parts=answer.parts, citations=answer.citations)


def rows_that_answer(material: Material) -> list[Hit]:
    """Return the rows of what an extractive answer unfolds of the ``WRITTEN_FROM`` best passages."""
    rows: list[Hit] = []
    for number in sorted(material.by_passage, key=lambda number: number != material.procedure)[:WRITTEN_FROM]:
        passage = material.passages[number]
        unfolded = Unfolded.around(passage, material.marked(number), (), how_to_terms=material.how_to_terms).sentences
        row_numbers = {row_number for block_number in unfolded for row_number in passage.blocks[block_number].rows}
        rows += [passage.rows[row_number] for row_number in sorted(row_numbers)]
    return rows


@dataclass
class _Answer:
    template: TagTemplate
    corpus: str
    version: str
    material: Material = field(default_factory=lambda: Material(""))
    parts: list[Part] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    words: int = 0
    figures: int = 0
    shown_figures: set[str | None] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    _cited: dict[str, int] = field(default_factory=dict)

    @property
    def asked_figures(self) -> Set[str | None]:
        return {figure.figure_id for figure in self.material.shown_figures}

    def add_all(self, material: Material, max_passages: int) -> None:
        """Add the passages of a question."""
        self.material, passages, words_before = material, 0, self.words
        is_of_pictures, top = speaks_of_pictures(material.question), max(material.scores, default=0.0)
        if is_of_pictures and not material.how_to_terms:
            self.add_figures(material.shown_figures[:1])
        # The pictures of a procedure's steps stand in it, so their own rows, which repeat the steps, don't precede it.
        is_procedure = material.procedure is not None
        for number in sorted(material.by_passage, key=lambda number: is_procedure and material.passages[number].is_figure):
            if passages == max_passages:
                break
            passage = material.passages[number]
            # A figure's own row is a passage if nothing stands before it; behind others, only figures asked for are shown.
            if passage.is_figure and passages:
                continue
            adds = self.words - words_before < ENOUGH and material.by_passage[number][0][0] >= top - MARKED
            is_unfolded = number == material.procedure or self.words == words_before or adds
            passages += self.add(passage, material.marked(number), unfolded=is_unfolded, figures_lead=is_of_pictures)
            self.add_figures(material.shown_figures)

    def add(
        self, passage: Passage, marked_candidates: Sequence[Candidate], *, unfolded: bool, figures_lead: bool = True
    ) -> bool:
        """Add a passage, its marked sentences unfolded or all folded; return whether it has more than figures shown before."""
        figures = figures_of(passage)
        if passage.is_figure and self.shown_figures.issuperset(figure.figure_id for figure in figures.values()):
            return False
        shown_candidates = marked_candidates if unfolded else ()
        asked_numbers = {
            number for number, figure in figures.items() if unfolded and figure.figure_id in self.asked_figures
        }
        selection = Unfolded.around(passage, shown_candidates, asked_numbers, how_to_terms=self.material.how_to_terms)
        best = [candidate.block for candidate in marked_candidates[:1]]
        blocks = selection.ordered_blocks(best, alone=is_yes_no(self.material.question))
        writer = _PassageWriter(self, figures, selection, {(mark.block, mark.sentence) for mark in shown_candidates})
        parts = _without_empty_folds(part for block_number in blocks for part in writer.parts(block_number))
        self.parts.extend(_answer_first(parts, figures_lead=figures_lead or bool(selection.procedure)))
        return bool(parts)

    def add_figures(self, rows: Sequence[Hit]) -> None:
        """Add figures that are asked for and not shown yet, each as a passage of its own."""
        for row in rows:
            if self.figures < MOST_FIGURES:
                self.add(read_passage([row], {row.evidence_id: 0}, self.template), (), unfolded=True)

    def cite(self, hit: Hit) -> int:
        """Return the number of a row's citation."""
        if hit.evidence_id not in self._cited:
            self._cited[hit.evidence_id] = len(self.citations) + 1
            self.citations.append(citation(hit, len(self.citations) + 1, corpus=self.corpus, version=self.version))
        return self._cited[hit.evidence_id]


@dataclass
class _PassageWriter:
    """Writes the blocks of a passage as parts; ``marks`` are its sentences that answer, as block and sentence."""

    answer: _Answer
    figures: Mapping[str, CitedFigure]
    selection: Unfolded
    marks: Set[tuple[int, int]]

    def parts(self, block_number: int) -> Iterator[Part]:
        block = self.selection.passage.blocks[block_number]
        # The words of a picture may stand in its own row and in a text.
        text = folded_text(self.answer.template.without(block.text))
        if len(text.split()) > LABEL_WORDS and any(text in shown_text for shown_text in self.answer.texts):
            return
        cited = [self.answer.cite(self.selection.passage.rows[row_number]) for row_number in block.rows]
        marks = {sentence_number for number, sentence_number in self.marks if number == block_number}
        if block.style == "table":
            is_shown = block_number in self.selection.sentences
            yield self._table(self.selection.passage.rows[block.rows[0]], cited[:1], marks, is_shown=is_shown)
            return
        shown_sentences = self.selection.sentences.get(block_number, set())
        in_procedure = block_number in self.selection.procedure
        if block.style in ("heading", "figure"):
            folded = not (shown_sentences or 0 in marks)
            yield from self._pieces(block, (0, len(block.text)), [], cited, folded=folded, in_procedure=in_procedure)
            return
        for is_shown, run in groupby(range(len(block.sentences)), key=shown_sentences.__contains__):
            numbers = list(run)
            span = block.sentences[numbers[0]][0], block.sentences[numbers[-1]][1]
            marked_spans = [block.sentences[number] for number in numbers if is_shown and number in marks]
            yield from self._pieces(block, span, marked_spans, cited, folded=not is_shown, in_procedure=in_procedure)
            if is_shown:
                yield from self._mentioned_figures(block.text[slice(*span)], cited)

    def _pieces(
        self,
        block: PassageBlock,
        span: Span,
        marked_spans: Sequence[Span],
        cited: list[int],
        *,
        folded: bool,
        in_procedure: bool,
    ) -> Iterator[Part]:
        """Yield a span of a block as texts and figures, in order."""
        style = block.style if block.style in ("heading", "item", "code") else "prose"
        offset = span[0]
        for piece, number in self.answer.template.split(block.text[slice(*span)]):
            stripped = piece.strip("\n" if style == "code" else None)
            first = offset + piece.index(stripped)
            offset += len(piece)
            if number is not None:
                yield from self._figure(number, piece, cited, folded=folded, in_procedure=in_procedure)
            elif stripped:
                # Marks are spans of the block; those of a piece count from its first visible character.
                marked = [
                    (max(mark_start, first) - first, min(mark_end, first + len(stripped)) - first)
                    for mark_start, mark_end in marked_spans
                    if mark_start < first + len(stripped) and mark_end > first
                ]
                if not folded:
                    self.answer.words += len(stripped.split())
                    self.answer.texts.append(folded_text(stripped))
                yield TextPart(text=stripped, citations=cited, style=style, marked=marked, folded=folded)

    def _figure(
        self, number: str, tag: str, cited: list[int], *, folded: bool, in_procedure: bool = False
    ) -> Iterator[FigurePart]:
        """Yield a figure that isn't shown yet; it is folded if enough are shown, those of a procedure apart."""
        answer, figure = self.answer, self.figures.get(number)
        if figure is not None and figure.figure_id not in answer.shown_figures:
            answer.shown_figures.add(figure.figure_id)
            too_many = answer.figures >= MOST_FIGURES and not in_procedure
            folded = too_many or (folded and figure.figure_id not in answer.asked_figures)
            answer.figures += not folded
            yield figure_part(figure, tag, cited, folded=folded)

    def _mentioned_figures(self, text: str, cited: list[int]) -> Iterator[FigurePart]:
        """Yield the figures that a text mentions by number and that stand elsewhere."""
        labels = {label for label in mentions(text) if label.number}
        for number, figure in self.figures.items() if labels else ():
            if caption_label(figure.caption) in labels and self.answer.figures < MOST_FIGURES:
                yield from self._figure(number, TagTemplate().write(number), cited, folded=False)

    def _table(self, row: Hit, cited: list[int], key_rows: set[int], *, is_shown: bool) -> TablePart:
        """Return a table with its figures in their cells; tags of figures that aren't shown are dropped.

        A table that is shown for the sentence before it is folded if it is longer than a screen.
        """
        words = [sum(len(text.split()) for text in line) for line in row.rows]
        folded = not (key_rows or (is_shown and sum(words) <= SCREEN))
        key_rows -= {0}
        second_head = _second_head(row.rows)
        shown_rows = sorted(key_rows | second_head) if key_rows else []
        head = [row.rows[number] for number in [0, *second_head]]
        key_column = _named_column(self.answer.material.question, head) if key_rows else None
        parts_by_tag: dict[str, FigurePart] = {}

        def cell(text: str) -> str:
            pieces = []
            for piece, number in self.answer.template.split(text):
                if number is not None and piece not in parts_by_tag:
                    parts_by_tag.update((piece, part) for part in self._figure(number, piece, cited, folded=folded))
                if number is None or piece in parts_by_tag:
                    pieces.append(piece)
            return "".join(pieces).strip()

        rows = [[cell(text) for text in line] for line in row.tagged_rows]
        if not folded:
            self.answer.words += sum(words[number] for number in [0, *shown_rows]) if shown_rows else sum(words)
        figures = list(parts_by_tag.values())
        return TablePart(
            rows=rows, figures=figures, citations=cited, key_rows=shown_rows, key_column=key_column, folded=folded
        )


def _second_head(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the number of a table's second row if that goes on with the header: it has names, none in the first column."""
    goes_on = len(rows) > 2 and rows[2][0] and not rows[1][0] and "".join(rows[1])[:1].isalpha()
    return {1} if goes_on else set()


def _named_column(question: str, head: Sequence[Sequence[str]]) -> int | None:
    """Return the column whose names share more words with a question than those of any other.

    The first column names rows, so it is none. Half of the tables that answer development questions have such a column; it
    holds the answer in 13 of 15 whose answer is a cell, and the two others' heads are read a column off.
    """
    words = stems(content_words(question))
    shared = [len(words & stems(content_words(" ".join(names)))) for names in zip(*head, strict=False)][1:]
    most_shared = max(shared, default=0)
    return 1 + shared.index(most_shared) if most_shared and shared.count(most_shared) == 1 else None


def _without_empty_folds(parts: Iterable[Part]) -> list[Part]:
    """Return a passage's parts without the folds beside its answer that hold only headings, or a label."""
    runs = [(folded, list(run)) for folded, run in groupby(parts, key=lambda part: part.folded)]
    return [part for folded, run in runs if not (folded and len(runs) > 1 and _is_empty(run)) for part in run]


def _is_empty(fold: Sequence[Part]) -> bool:
    contents = [part for part in fold if part.type != "text" or part.style != "heading"]
    return len(contents) <= 1 and all(part.type == "text" and len(part.text.split()) <= LABEL_WORDS for part in contents)


def _answer_first(parts: Sequence[Part], *, figures_lead: bool) -> list[Part]:
    """Return a passage's parts with figures that don't lead, and folds, behind the answer that they precede."""
    first = next((n for n, part in enumerate(parts) if not part.folded and (figures_lead or part.type != "figure")), 0)
    stop = next((number for number in range(first, len(parts)) if parts[number].folded), len(parts))
    before = sorted(parts[:first], key=lambda part: part.folded)
    return [*parts[first:stop], *before, *parts[stop:]]
