"""Choose what of a passage a reader sees at once; the rest is folded.

What answers is never folded: the fold takes what surrounds it.
"""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field

from tasks.answering.candidates import Candidate, stems
from tasks.answering.passages import (
    Passage,
    is_table_caption,
    kept_blocks,
    paragraph_before,
    runs,
)

READ_ON = 60
"""Words read on behind the best sentence, in the page's order. With 80, answers have 6 words more."""

SHORT_LIST = 60
"""Maximum words of a list of points that is unfolded with one that answers."""

SCREEN = 220
"""Words of a screen. A numbered list of one is unfolded whole; of a procedure of over two, the first sentence of each step."""

_REFERS = re.compile(
    r"\s*(?:(?:this|that|these|those|it|its|they|their|he|she|such|so|then|however|therefore|thus|otherwise|instead|but|and|also)\b"
    r"|(?:solution|remedy|answer|cause|work-?around|fix|action|a)\s*:)",
    re.IGNORECASE,
)
"""How a sentence begins that is understood only with the one before, or the solution of a problem."""

STEPS_IN_PROSE = 3
"""Minimum number of imperatives of a procedure without numbers."""

_NO_VERB = (
    "the an? this that these those it they we you he she i there here in on at of for from with by to as if when while once "
    "after before until since because all each every some any no only both most many one two is are was were has had will "
    "would can could may might must shall should did and or but so than its their our your my his her not"
)
_IMPERATIVE = re.compile(
    # What may come first: "Then", or "To save it,".
    r"\W*(?:(?:then|next|now|first|finally|second|third|please|also|and)\b\W+|(?:to|if|when|once|after|before|in|on|from|for|with)\b[^.,]*,\s+)*"
    rf"(?!(?:{_NO_VERB.replace(' ', '|')})\b)[a-z]{{2,}}(?<![^s]s)(?<!ed)(?<!ing)(?:\s+(?:on|off|in|out|up|down|back))?\s+"
    r"(?:(?:the|an?|your|all|any|each|every|this|these|that|those|it|them|one|both|not|to|into|until)\b"
    r"|(?-i:[A-Z“\"'<\[(]))",
    re.IGNORECASE,
)
"""A sentence that tells to do something: a word that may be a verb, and what it may be done to."""


@dataclass
class Unfolded:
    """The sentences of a passage to show at once, by block, and the blocks of its procedure."""

    passage: Passage
    sentences: dict[int, set[int]] = field(default_factory=dict)
    procedure: range = range(0)

    @property
    def kept_block_numbers(self) -> range:
        """The blocks to show, folded or not: those of the rows found, and what is unfolded before and behind them."""
        numbers = [*kept_blocks(self.passage), *self.sentences]
        return range(min(numbers, default=0), max(numbers, default=-1) + 1)

    def ordered_blocks(self, best: Sequence[int], *, alone: bool) -> list[int]:
        """Return the blocks to show, those that answer first, then the others in reading order.

        What answers is the procedure, or else the block in ``best``, with what is unfolded around it; ``alone``: only behind it.
        """
        numbers = self.kept_block_numbers
        answer = self.procedure or best
        if self.sentences.keys().isdisjoint(answer):
            return [*numbers]
        start, stop = answer[0], answer[-1] + 1
        while not alone and start - 1 in self.sentences:
            start -= 1
        while stop < numbers.stop and (stop in self.sentences or self.passage.blocks[stop].style == "figure"):
            stop += 1
        return [*range(start, stop), *range(numbers.start, start), *range(stop, numbers.stop)]

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
        if marked_candidates and not unfolded.procedure:
            unfolded._read_on(marked_candidates[0])
        unfolded._show_introduced(lists)
        unfolded._show_figures(asked_figures)
        return unfolded

    def _show(self, block_number: int, sentences: Iterable[int] | None = None) -> None:
        all_sentences = range(max(1, len(self.passage.blocks[block_number].sentences)))
        self.sentences.setdefault(block_number, set()).update(all_sentences if sentences is None else sentences)

    def _read_on(self, best: Candidate) -> None:
        """Show ``READ_ON`` words behind the best sentence: whole sentences, items and code, to a heading or table."""
        blocks, words_left = self.passage.blocks, READ_ON
        for number in range(best.block, len(blocks)):
            block = blocks[number]
            if block.style in ("heading", "table") or is_table_caption(blocks, number):
                return
            first = best.sentence + 1 if number == best.block else 0
            unread = range(first, len(block.sentences))
            for unit in [unread] if block.style == "item" else [range(n, n + 1) for n in unread]:
                words_left -= sum(len(block.sentence(sentence).split()) for sentence in unit)
                if words_left < 0:
                    return
                self._show(number, unit)

    def _show_procedure(
        self, lists: Sequence[range], marked_candidates: Sequence[Candidate], how_to_terms: Set[str]
    ) -> None:
        """Show the steps around the best sentence, or else the nearest ones behind it, with all that is between them."""
        blocks = self.passage.blocks
        procedure = self._numbered_steps(lists, marked_candidates[0], how_to_terms)
        procedure = procedure or self._steps_in_prose(marked_candidates[0].block)
        stop = procedure.stop
        # The picture of the last step stands behind it.
        while procedure and stop < len(blocks) and blocks[stop].style == "figure":
            stop += 1
        self.procedure = range(procedure.start, stop)
        is_long = self._words(self.procedure) > 2 * SCREEN
        for block_number in self.procedure:
            if not (is_long and blocks[block_number].style == "code"):
                self._show(block_number, [0] if is_long and blocks[block_number].style in ("item", "prose") else None)

    def _numbered_steps(self, lists: Sequence[range], best: Candidate, how_to_terms: Set[str]) -> range:
        """Return the numbered list that is a procedure for the question; empty if there is none.

        Its heading or introduction, or half of its steps, have one of the question's words.
        """
        blocks = self.passage.blocks
        numbered = [run for run in lists if len(run) > 1 and blocks[run.start].number is not None]
        steps = next((run for run in numbered if best.block in run), None) or min(
            numbered, key=lambda run: (run.start < best.block, abs(run.start - best.block)), default=range(0)
        )
        introduction = paragraph_before(blocks, steps.start)
        title = best.heading + (f" {blocks[introduction].text}" if introduction is not None else "")
        items = [blocks[block_number].text for block_number in steps if blocks[block_number].style == "item"]
        is_asked_for = not how_to_terms.isdisjoint(stems(title)) or 2 * sum(
            not how_to_terms.isdisjoint(stems(text)) for text in items
        ) >= len(items)
        return steps if is_asked_for else range(0)

    def _steps_in_prose(self, best: int) -> range:
        """Return the blocks from the first imperative of the best sentence's section to the last, ``SCREEN`` words at most."""
        blocks = self.passage.blocks
        headings = [number for number, block in enumerate(blocks) if block.style in ("heading", "table")]
        section = range(
            max((n + 1 for n in headings if n < best), default=0),
            min((n for n in headings if n > best), default=len(blocks)),
        )
        imperatives = [
            number
            for number in section
            if blocks[number].style in ("prose", "item")
            for text in map(blocks[number].sentence, range(len(blocks[number].sentences)))
            if _IMPERATIVE.match(text) and text.endswith((".", "!", ":", ";", ")"))
        ]
        if len(imperatives) < STEPS_IN_PROSE:
            return range(0)
        steps = range(min(best, imperatives[0]), max(best, imperatives[-1]) + 1)
        while len(steps) > 1 and self._words(steps) > SCREEN:
            steps = steps[:-1] if steps[-1] > best else steps[1:]
        return steps

    def _show_candidate(self, candidate: Candidate, lists: Sequence[range]) -> None:
        blocks = self.passage.blocks
        block = blocks[candidate.block]
        if block.style == "table":
            self._show(candidate.block, ())
            if candidate.block > 0 and is_table_caption(blocks, candidate.block - 1):
                self._show(candidate.block - 1)
            return
        run = next((run for run in lists if candidate.block in run), None)
        if run is not None and candidate.block not in self.procedure:
            self._show_list(run, candidate.block, SHORT_LIST)
            return
        self._show(candidate.block, [candidate.sentence])
        # A sentence that begins with "It" or "This" is understood only with the one before.
        if (
            block.style == "prose"
            and candidate.block not in self.procedure
            and _REFERS.match(block.sentence(candidate.sentence))
        ):
            previous = paragraph_before(blocks, candidate.block)
            if candidate.sentence > 0:
                self._show(candidate.block, [candidate.sentence - 1])
            elif previous is not None:
                self._show(previous, [len(blocks[previous].sentences) - 1])

    def _show_introduced(self, lists: Sequence[range]) -> None:
        """Show the list or table that an unfolded sentence with a colon introduces, and the code behind an unfolded one."""
        blocks = self.passage.blocks
        for number, shown_sentences in [*self.sentences.items()]:
            after = number + 1
            if len(blocks[number].sentences) - 1 not in shown_sentences or after == len(blocks):
                continue
            if blocks[number].introduces:
                for introduced in lists:
                    if introduced.start == after:
                        self._show_list(introduced, after, SCREEN)
                if blocks[after].style == "table":
                    self._show(after, ())
            # Code follows the sentence about it, with a colon or without.
            while after < len(blocks) and blocks[after].style == "code":
                self._show(after)
                after += 1

    def _words(self, block_numbers: range) -> int:
        return sum(len(self.passage.blocks[block_number].text.split()) for block_number in block_numbers)

    def _show_list(self, run: range, block_number: int, most_words: int) -> None:
        """Show a list whole if it has few words, a numbered one up to ``SCREEN``; or else the block that answers."""
        is_numbered = self.passage.blocks[run.start].number is not None
        is_short = self._words(run) <= (SCREEN if is_numbered else most_words)
        for number in run if is_short else (block_number,):
            self._show(number)

    def _show_figures(self, asked_figures: Collection[str]) -> None:
        """Show the figures asked for, and those between unfolded blocks."""
        blocks = self.passage.blocks
        is_figure_passage = self.passage.is_figure
        for block_number in self.kept_block_numbers:
            block = blocks[block_number]
            if block.style == "figure" and (
                is_figure_passage
                or any(number in block.text for number in asked_figures)
                or {block_number - 1, block_number + 1} <= self.sentences.keys()
            ):
                self._show(block_number)
