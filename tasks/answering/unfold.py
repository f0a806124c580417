"""Choose what of a passage a reader sees at once; the rest is folded.

What answers is never folded: the fold takes what surrounds it.
"""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from schemas.filters import Modality
from tasks.answering.candidates import Candidate, stems
from tasks.answering.passages import (
    Passage,
    PassageBlock,
    is_label,
    is_table_caption,
    kept_blocks,
    paragraph_after,
    paragraph_before,
    runs,
)

PARAGRAPH = 60
"""Words up to which a marked sentence is extended within its paragraph, or a list of points is unfolded with one that answers."""

SCREEN = 220
"""Words of a screen. A numbered list of one is unfolded whole; of a procedure of over two, the first sentence of each step."""

_REFERS = re.compile(
    r"\s*(?:this|that|these|those|it|its|they|their|he|she|such|so|then|however|therefore|thus|otherwise|instead|but|and|also)\b",
    re.IGNORECASE,
)


_POINTS_AT_PICTURE = re.compile(
    r"\b(?:figures?|fig\.|images?|pictures?|screenshots?|diagrams?|charts?|plots?|shown|drawing|illustrat\w+|looks? like)\b",
    re.IGNORECASE,
)
_POINTS_AT_CODE = re.compile(
    r"\b(?:here|above|(?:this|these|the preceding|the previous) (?:examples?|codes?|commands?|programs?|scripts?|functions?|"
    r"lines?|statements?|listings?|snippets?|declarations?|settings?))\b",
    re.IGNORECASE,
)


@dataclass
class Unfolded:
    """The sentences of a passage to show at once, by block, and the blocks of its procedure."""

    passage: Passage
    sentences: dict[int, set[int]] = field(default_factory=dict)
    procedure: range = range(0)

    @cached_property
    def kept_block_numbers(self) -> list[int]:
        """The blocks to show, folded or not."""
        return kept_blocks(self.passage)

    def ordered_blocks(self, best: int | None) -> list[int]:
        """Return the blocks to show, those that answer first, then the others in reading order.

        What answers is the procedure, or else the block ``best``, with what is unfolded around it.
        """
        numbers = self.kept_block_numbers
        answer = [number for number in numbers if number in self.procedure or (not self.procedure and number == best)]
        if not self.sentences.keys() & answer:
            return numbers
        start, stop = numbers.index(answer[0]), numbers.index(answer[-1]) + 1
        while start > 0 and numbers[start - 1] in self.sentences:
            start -= 1
        while stop < len(numbers) and numbers[stop] in self.sentences:
            stop += 1
        return [*numbers[start:stop], *numbers[:start], *numbers[stop:]]

    @classmethod
    def around(
        cls,
        passage: Passage,
        marked_candidates: Sequence[Candidate],
        asked_figures: Collection[str],
        *,
        how_to_terms: Set[str],
    ) -> "Unfolded":
        """Return what to show around the sentences and table rows that answer, best first, and the figures asked for, by number.

        ``how_to_terms`` are the stems of a question that asks for a procedure; empty for other questions.
        """
        unfolded = cls(passage)
        lists = runs(passage.blocks)
        if how_to_terms and marked_candidates:
            unfolded._show_procedure(lists, marked_candidates, how_to_terms)
        for candidate in marked_candidates:
            unfolded._show_candidate(candidate, lists)
        unfolded._show_figures(asked_figures)
        return unfolded

    def _show(self, block_number: int, sentences: Iterable[int] | None = None) -> None:
        if block_number in self.kept_block_numbers:
            all_sentences = range(max(1, len(self.passage.blocks[block_number].sentences)))
            self.sentences.setdefault(block_number, set()).update(all_sentences if sentences is None else sentences)

    def _show_procedure(
        self, lists: Sequence[range], marked_candidates: Sequence[Candidate], how_to_terms: Set[str]
    ) -> None:
        """Show the steps around the best sentence, or else the nearest ones behind it, with all that is between them.

        A list is a procedure for the question if its heading or introduction, or half of its steps, have one of its words.
        """
        blocks = self.passage.blocks
        steps = [run for run in lists if len(run) > 1 and blocks[run.start].number is not None]
        best = marked_candidates[0].block
        procedure = next((run for run in steps if best in run), None) or min(
            steps, key=lambda run: (run.start < best, abs(run.start - best)), default=None
        )
        if procedure is None:
            return
        introduction = paragraph_before(blocks, procedure.start)
        title = marked_candidates[0].heading + (f" {blocks[introduction].text}" if introduction is not None else "")
        items = [blocks[block_number].text for block_number in procedure if blocks[block_number].style == "item"]
        if how_to_terms.isdisjoint(stems(title)) and 2 * sum(
            not how_to_terms.isdisjoint(stems(text)) for text in items
        ) < len(items):
            return
        stop = procedure.stop
        # The picture of the last step stands behind it.
        while stop < len(blocks) and blocks[stop].style == "figure":
            stop += 1
        self.procedure = range(procedure.start, stop)
        is_long = self._words(self.procedure) > 2 * SCREEN
        for block_number in self.procedure:
            if not (is_long and blocks[block_number].style == "code"):
                self._show(block_number, [0] if is_long and blocks[block_number].style in ("item", "prose") else None)
        self._show_introduction(procedure.start)

    def _show_introduction(self, first: int) -> None:
        introduction = paragraph_before(self.passage.blocks, first)
        if introduction is not None and self.passage.blocks[introduction].introduces:
            self._show_last_sentence(introduction)

    def _show_last_sentence(self, block_number: int) -> None:
        self._show(block_number, [len(self.passage.blocks[block_number].sentences) - 1])

    def _show_candidate(self, candidate: Candidate, lists: Sequence[range]) -> None:
        blocks = self.passage.blocks
        block = blocks[candidate.block]
        if block.style == "table":
            self._show(candidate.block, ())
            has_caption = candidate.block > 0 and is_table_caption(blocks, candidate.block - 1)
            if has_caption:
                self._show(candidate.block - 1)
            self._show_introduction(candidate.block - has_caption)
            return
        following = paragraph_after(blocks, candidate.block)
        # A label such as "For version 2" has the words of the question, and what follows it has the answer.
        if is_label(block) and following is not None and blocks[following].style == "prose":
            self._show(following, _short_paragraph(blocks[following], 0))
        run = next((run for run in lists if candidate.block in run), None)
        if candidate.block in self.procedure:
            self._show(candidate.block, [candidate.sentence])
            return
        if run is not None:
            self._show_list(run, candidate)
            return
        self._show(candidate.block, [candidate.sentence])
        if block.style == "prose":
            self._show_paragraph(candidate, lists)
        self._show_code(candidate)

    def _show_paragraph(self, candidate: Candidate, lists: Sequence[range]) -> None:
        blocks = self.passage.blocks
        block = blocks[candidate.block]
        self._show(candidate.block, _short_paragraph(block, candidate.sentence))
        previous = paragraph_before(blocks, candidate.block)
        # A paragraph that begins with "It" or "This" is understood only with the sentence before.
        if candidate.sentence == 0 and previous is not None and _REFERS.match(block.sentence(0)):
            self._show_last_sentence(previous)
        for run in lists:
            is_adjacent = candidate.block in (run.start - 1, run.stop) and len(run) > 1
            if is_adjacent and self._words(run) <= PARAGRAPH:
                self._show_all(run)
        after = candidate.block + 1
        if block.introduces and after < len(blocks):
            following = next((run for run in lists if run.start == after), None)
            if following is not None:
                self._show_list(following, candidate._replace(block=after, sentence=0), most_words=SCREEN)
            elif blocks[after].style == "table":
                self._show(after, ())
            elif blocks[after].style == "prose":
                self._show(after, _short_paragraph(blocks[after], 0))

    def _words(self, block_numbers: range) -> int:
        return sum(len(self.passage.blocks[block_number].text.split()) for block_number in block_numbers)

    def _show_all(self, block_numbers: range) -> None:
        for block_number in block_numbers:
            self._show(block_number)

    def _show_list(self, run: range, candidate: Candidate, most_words: int = PARAGRAPH) -> None:
        """Show a list whole if it is numbered or has few words, or else the item that answers."""
        blocks = self.passage.blocks
        is_numbered = blocks[run.start].number is not None and all(blocks[number].style != "code" for number in run)
        first, stop = run.start, run.stop
        if self._words(run) > (SCREEN if is_numbered else most_words):
            items = [number for number in run if blocks[number].style == "item"]
            first = max(number for number in items if number <= candidate.block)
            stop = min((number for number in items if number > first), default=run.stop)
        if self._words(range(first, stop)) > SCREEN:
            self._show(first, [0])
            self._show(candidate.block, _short_paragraph(blocks[candidate.block], candidate.sentence))
            return
        self._show_all(range(first, stop))
        self._show_introduction(run.start)

    def _show_code(self, candidate: Candidate) -> None:
        """Show the code that a sentence introduces or is about, and the sentence before code that answers."""
        blocks = self.passage.blocks
        block, shown_sentences = blocks[candidate.block], self.sentences.get(candidate.block, set())
        last = len(block.sentences) - 1
        # A last sentence with a colon introduces code, even if an earlier sentence answers.
        introduces = last in shown_sentences and block.introduces
        following = candidate.block + 1
        while (not block.sentences or candidate.sentence == last or introduces) and (
            following < len(blocks) and blocks[following].style == "code"
        ):
            self._show(following)
            following += 1
        if block.style == "code" and (previous := paragraph_before(blocks, candidate.block)) is not None:
            self._show_last_sentence(previous)
        # A paragraph below code is about it if it points there ("the code above"), or begins with a pronoun.
        before = next((n for n in range(candidate.block - 1, -1, -1) if blocks[n].style != "figure"), None)
        if block.style == "prose" and before is not None and blocks[before].style == "code":
            texts = {number: block.sentence(number) for number in shown_sentences}
            if any(_POINTS_AT_CODE.search(text) or (number == 0 and _REFERS.match(text)) for number, text in texts.items()):
                self._show(before)

    def _show_figures(self, asked_figures: Collection[str]) -> None:
        """Show the figures asked for, those between unfolded blocks, and those beside a sentence that refers to a picture."""
        blocks = self.passage.blocks
        is_figure_passage = self.passage.rows[0].modality is Modality.FIGURE
        for block_number in self.kept_block_numbers:
            block = blocks[block_number]
            if block.style == "figure" and (
                is_figure_passage
                or any(number in block.text for number in asked_figures)
                or {block_number - 1, block_number + 1} <= self.sentences.keys()
                or any(
                    map(
                        self._refers_to_picture,
                        (paragraph_before(blocks, block_number), paragraph_after(blocks, block_number)),
                    )
                )
            ):
                self._show(block_number)

    def _refers_to_picture(self, block_number: int | None) -> bool:
        """Return whether a block is an unfolded item, or has an unfolded sentence that refers to a picture."""
        if block_number is None or block_number not in self.sentences:
            return False
        block = self.passage.blocks[block_number]
        texts = map(block.sentence, self.sentences[block_number])
        return block.style == "item" or any(map(_POINTS_AT_PICTURE.search, texts))


def _short_paragraph(block: PassageBlock, sentence_number: int) -> list[int]:
    """Return the sentences around a given one, those after it first, that make a short paragraph."""
    lengths = [len(block.text[start:end].split()) for start, end in block.sentences]
    if not lengths:
        return []
    first = last = sentence_number
    total = lengths[sentence_number]
    while last + 1 < len(lengths) and total + lengths[last + 1] <= PARAGRAPH:
        last += 1
        total += lengths[last]
    while first > 0 and total + lengths[first - 1] <= PARAGRAPH:
        first -= 1
        total += lengths[first]
    if first == sentence_number > 0 and _REFERS.match(block.sentence(sentence_number)):
        first -= 1
    return list(range(first, last + 1))
