"""Extractive answers: the sentences that answer come first, figures stand where the pages put them."""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.answers import AnswerResult, Citation, FigurePart, Part, TablePart, TextPart
from schemas.evidence import CitedFigure, Modality, Span
from schemas.figure_labels import caption_label, mentions
from schemas.tags import TagTemplate, escape
from schemas.words import folded_words
from tasks.answering.cite import citation
from tasks.answering.highlight import content_words
from tasks.answering.passages import Passage, PassageBlock, figures_of, runs

COMPARED = 5
"""Sentences compared with a question by their vectors, for each passage that an answer may show.

On the 68 example questions the sentence that wins is among the first 7 by words and rank for 95 of 100, and the three best are
among the first 15; comparing all of them, 75 in the mean, takes four times the CPU.
"""

MOST_TABLE_ROWS = 40
"""Rows of a table that are compared with a question."""

NEAR, WORDS, RANKED = 1.0, 0.4, 0.4
"""Weights of a sentence's cosine, its share of the question's words, and its passage's rank."""

STEPS = 1.2
"""Bonus of a step in a how-to question, times the share of the question's words in its heading."""

ASKS = 0.3
"""Penalty of a sentence that is itself a question."""

FURTHER = 0.35
"""Maximum distance to the best sentence at which a further passage is unfolded."""

MARKED = 0.2
"""Maximum distance to the passage's best sentence at which a sentence is marked."""

MOST_MARKED = 3
"""Sentences marked in a passage."""

ENOUGH = 90
"""Words after which no further passage is unfolded."""

PARAGRAPH = 60
"""Words up to which a marked sentence is extended within its paragraph."""

SCREEN = 220
"""Words up to which a procedure is unfolded whole; of a longer one, only the step that answers."""

SHORT_LIST = 60
"""Words up to which a list of points is unfolded with one that answers."""

FIGURE_RANK, FIGURE_RANK_WANTED = 3, 8
"""A figure up to this rank is unfolded regardless of its words; the second value is for questions about figures."""

MOST_FIGURES = 2
"""Figures that an answer shows unfolded."""

_PICTURED = re.compile(
    r"\b(?:figures?|fig\.|charts?|graphs?|diagrams?|plots?|pictures?|pictured|images?|photos?|photographs?|illustrat\w+|drawings?|"
    r"maps?|screenshots?|logos?|icons?|depict\w*|shown|looks? like|colou?rs?|schematic|flow ?charts?|legend|pie|bars?)\b",
    re.IGNORECASE,
)
_HOW = re.compile(
    r"\bhow (?:do|can|to|should|must|would|does one)\b|\bsteps?\b|\bprocedure\b|\bin which order\b", re.IGNORECASE
)
_REFERS = re.compile(
    r"\s*(?:this|that|these|those|it|its|they|their|he|she|such|so|then|however|therefore|thus|otherwise|instead|but|and|also)\b",
    re.IGNORECASE,
)
_POINTS_AT_PICTURE = re.compile(
    r"\b(?:figures?|fig\.|images?|pictures?|screenshots?|diagrams?|charts?|plots?|shown|drawing|illustrat\w+|looks? like)\b",
    re.IGNORECASE,
)

_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|ed|es|s|ly|y|e)$")
_POINTS_AT_CODE = re.compile(
    r"\b(?:here|above|(?:this|these|the preceding|the previous) (?:examples?|codes?|commands?|programs?|scripts?|functions?|"
    r"lines?|statements?|listings?|snippets?|declarations?|settings?))\b",
    re.IGNORECASE,
)


class Candidate(NamedTuple):
    """A sentence, table row or figure that may answer.

    ``place`` is its index in the block; ``text`` has no tags; ``heading`` is its section's; ``is_step``: in a numbered list.
    """

    passage: int
    block: int
    place: int
    text: str
    heading: str = ""
    is_step: bool = False

    @property
    def context(self) -> str:
        """The text with its heading, which it need not repeat."""
        return f"{self.heading}: {self.text}" if self.heading else self.text


def candidates(passages: Sequence[Passage], template: TagTemplate) -> list[Candidate]:
    """Return the candidates: sentences, table rows and figures of the rows found, and of lists that cross their edges."""
    found: list[Candidate] = []
    for number, passage in enumerate(passages):
        steps = {place for run in runs(passage.blocks) if len(run) > 1 for place in run}
        for place in _kept(passage):
            block = passage.blocks[place]
            heading = next(iter(passage.rows[block.rows[0]].section_path[-1:]), "")
            is_step = place in steps and block.number is not None
            texts = enumerate(_texts(passage, block, template))
            found.extend(Candidate(number, place, at, text, heading, is_step) for at, text in texts if text)
    return found


def _texts(passage: Passage, block: PassageBlock, template: TagTemplate) -> Iterator[str]:
    row = passage.rows[block.rows[0]]
    if block.style == "figure":
        if row.modality is Modality.FIGURE:
            yield row.text or row.caption
    elif block.style == "table":
        header, *body = row.rows or [[]]
        for cells in [header, *body][:MOST_TABLE_ROWS]:
            named = (
                f"{name}: {cell}" if name and name != cell else cell for name, cell in zip(header, cells, strict=False)
            )
            yield " ".join(filter(None, (row.caption, *named)))
    else:
        for start, end in block.sentences:
            yield template.without(block.text[start:end])


def scores(
    question: str,
    found: Sequence[Candidate],
    passages: Sequence[Passage],
    cosines: Callable[[Sequence[Candidate]], Sequence[float]],
    *,
    most: int,
) -> tuple[list[float], dict[Candidate, float]]:
    """Return a score for each candidate, and the cosines of those compared.

    A score is by the question's words, weighted by rarity, by rank, and by the cosine of the sentence and the question. Only the
    best candidates by words and rank are compared; the others count as far away as the farthest of those.

    Args:
        question: Its words.
        found: The candidates.
        passages: Their passages.
        cosines: Returns the cosine of each candidate with the question; called once.
        most: Passages that the answer may show.
    """
    by_words = _by_words(question, found, passages)
    best = sorted(range(len(found)), key=lambda place: (-by_words[place], place))[: COMPARED * most]
    compared = [found[place] for place in sorted(best)]
    near = dict(zip(compared, cosines(compared), strict=True)) if compared else {}
    farthest = min(near.values(), default=0.0)
    scored = [score + NEAR * near.get(candidate, farthest) for candidate, score in zip(found, by_words, strict=True)]
    return scored, near


def _by_words(question: str, found: Sequence[Candidate], passages: Sequence[Passage]) -> list[float]:
    terms = _stems(content_words(question))
    held = [terms & _stems(candidate.context) for candidate in found]
    frequency = Counter(word for own in held for word in own)
    rarity = {word: math.log(1 + (len(found) - count + 0.5) / (count + 0.5)) for word, count in frequency.items()}
    whole = math.fsum(rarity.values()) or 1.0
    is_how = _HOW.search(question) is not None

    def share(own: Iterable[str]) -> float:
        return math.fsum(sorted(rarity[word] for word in own)) / whole

    return [
        WORDS * share(own)
        + RANKED / (1 + passages[candidate.passage].rank)
        + (STEPS * share(terms & _stems(candidate.heading)) if is_how and candidate.is_step else 0.0)
        - (ASKS if candidate.text.rstrip().endswith("?") else 0.0)
        for candidate, own in zip(found, held, strict=True)
    ]


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in folded_words(text)}


@functools.lru_cache(10_000)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)


def extract(
    question: str,
    passages: Sequence[Passage],
    found: Sequence[Candidate],
    scored: Sequence[float],
    template: TagTemplate,
    *,
    corpus: str,
    version: str,
    most: int,
    tags: Mapping[str, str],
) -> AnswerResult:
    """Return the extractive answer; every word is the documents'. No passages give an abstention.

    The passage with the best sentence comes first, in reading order: the sentences that answer are marked and unfolded with their
    list, short paragraph, code or figure; the rest is folded. Further passages are unfolded if they add a sentence that scores
    about as well. ``tags`` are of figures that are mentioned and stand elsewhere; ``most`` bounds the passages.
    """
    best: dict[int, list[tuple[float, Candidate]]] = {}
    for score, candidate in zip(scored, found, strict=True):
        best.setdefault(candidate.passage, []).append((score, candidate))
    order = sorted(best, key=lambda number: (-max(score for score, _ in best[number]), number))
    top = max(scored, default=0.0)
    wants = wants_figure(question, passages)
    if wants:
        order = _figures_first(order, passages, question)
    answer = _Answer(template, corpus, version, tags, wants=wants, is_how=_HOW.search(question) is not None)
    for number in order:
        if answer.passages == most:
            break
        own = sorted(best[number], key=lambda one: (-one[0], one[1]))
        limit = own[0][0] - MARKED
        marked = [candidate for score, candidate in own[:MOST_MARKED] if score >= limit]
        is_figure = passages[number].rows[0].modality is Modality.FIGURE
        is_found = is_figure and passages[number].rank < (FIGURE_RANK_WANTED if wants else FIGURE_RANK)
        adds = answer.words == 0 or is_found or (answer.words < ENOUGH and own[0][0] >= top - FURTHER)
        answer.add(passages[number], marked, unfolded=adds)
    return AnswerResult(version=version, abstained=not answer.parts, parts=answer.parts, citations=answer.citations)


def wants_figure(question: str, passages: Sequence[Passage]) -> bool:
    """Return whether a question is about a figure: by its words, or because a figure ranks first."""
    return _PICTURED.search(question) is not None or any(
        passage.rank == 0 and passage.rows[0].modality is Modality.FIGURE for passage in passages
    )


def _figures_first(order: Sequence[int], passages: Sequence[Passage], question: str) -> list[int]:
    """Put the figures that a question names by number first, or else the best figure."""
    figures = [number for number in order if passages[number].rows[0].modality is Modality.FIGURE]
    labels = {label for label in mentions(question) if label.number}
    named = [number for number in figures if caption_label(passages[number].rows[0].caption) in labels]
    first = named or sorted(figures, key=lambda number: passages[number].rank)[:1]
    return [*first, *(number for number in order if number not in first)]


@dataclass
class _Answer:
    template: TagTemplate
    corpus: str
    version: str
    tags: Mapping[str, str]
    wants: bool
    is_how: bool
    parts: list[Part] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    passages: int = 0
    words: int = 0
    figures: int = 0
    _shown: set[str] = field(default_factory=set)
    _cited: dict[str, int] = field(default_factory=dict)

    def add(self, passage: Passage, marked: Sequence[Candidate], *, unfolded: bool) -> None:
        """Add a passage, with its marked sentences unfolded or wholly folded; skip it if it shows only figures shown before."""
        own = figures_of(passage)
        if passage.rows[0].modality is Modality.FIGURE and {figure.figure_id for figure in own.values()} <= self._shown:
            return
        if passage.rows[0].modality is Modality.FIGURE and not unfolded and not self.wants:
            return
        kept = _kept(passage)
        shown = self._unfolded(passage, kept, marked) if unfolded else {}
        marks = {(candidate.block, candidate.place) for candidate in marked} if unfolded else set()
        made = [part for place in kept for part in self._parts(passage, place, shown.get(place, frozenset()), marks, own)]
        if made:
            self.parts.extend(made)
            self.passages += 1

    def _unfolded(self, passage: Passage, kept: Sequence[int], marked: Sequence[Candidate]) -> dict[int, frozenset[int]]:
        blocks = passage.blocks
        shown: dict[int, set[int]] = {}

        def show(place: int, which: Iterable[int] | None = None) -> None:
            if place in kept:
                every = range(max(1, len(blocks[place].sentences)))
                shown.setdefault(place, set()).update(every if which is None else which)

        lists = runs(blocks)
        for candidate in marked:
            block = blocks[candidate.block]
            if block.style == "table":
                show(candidate.block, ())
                continue
            run = next((run for run in lists if candidate.block in run), None)
            if run is not None:
                self._show_list(blocks, run, candidate.block, show)
                continue
            show(candidate.block, [candidate.place])
            if block.style == "prose":
                show(candidate.block, _filled(block, candidate.place))
                text = block.text[slice(*block.sentences[candidate.place])]
                if (
                    candidate.place == 0
                    and _REFERS.match(text)
                    and (before := _before(blocks, candidate.block)) is not None
                ):
                    show(before, [len(blocks[before].sentences) - 1])
                following = next((run for run in lists if run.start == candidate.block + 1), None)
                if following is not None and (self.is_how or block.text.rstrip().endswith(":")):
                    self._show_list(blocks, following, following.start, show)
                if (code := _code_before(blocks, candidate.block)) is not None and _about_code(
                    block, shown[candidate.block]
                ):
                    show(code)
            after = candidate.block + 1
            last = len(block.sentences) - 1
            introduces = last in shown.get(candidate.block, ()) and block.text.rstrip().endswith(":")
            ends = not block.sentences or candidate.place == last or introduces
            while ends and after < len(blocks) and blocks[after].style == "code":
                show(after)
                after += 1
            if block.style == "code" and (before := _before(blocks, candidate.block)) is not None:
                show(before, [len(blocks[before].sentences) - 1])
        if self.is_how and marked and not any(place in run for run in lists for place in shown):
            steps = [run for run in lists if len(run) > 1 and blocks[run.start].number is not None and run.start in kept]
            if steps:
                last = max(candidate.block for candidate in marked)
                self._show_list(blocks, min(steps, key=lambda run: (run.start < last, run.start)), steps[0].start, show)
        leads = passage.rows[0].modality is Modality.FIGURE or (
            passage.rank == 0 and len(figures_of(passage)) <= MOST_FIGURES
        )
        for place in kept:
            if blocks[place].style == "figure" and (
                leads or {place - 1, place + 1} <= shown.keys() or self._belongs(blocks, place, shown)
            ):
                show(place)
        if shown:
            first = min(shown)
            heading = next((place for place in reversed(kept) if place < first and blocks[place].style == "heading"), None)
            if heading is not None:
                show(heading)
        return {place: frozenset(which) for place, which in shown.items()}

    def _belongs(self, blocks: Sequence[PassageBlock], place: int, shown: Mapping[int, set[int]]) -> bool:
        """Return whether a figure is next to an unfolded sentence that refers to a picture; to any, if the question wants one."""
        beside = [at for at in (_before(blocks, place), _after(blocks, place)) if at is not None and at in shown]
        return bool(beside) and (
            self.wants
            or any(
                blocks[at].style == "item"
                or _POINTS_AT_PICTURE.search(blocks[at].text[slice(*blocks[at].sentences[which])])
                for at in beside
                for which in shown[at]
                if blocks[at].sentences
            )
        )

    def _show_list(self, blocks: Sequence[PassageBlock], run: range, at: int, show: "Callable[..., None]") -> None:
        numbered = blocks[run.start].number is not None
        length = sum(len(blocks[place].text.split()) for place in run)
        examples = any(blocks[place].style == "code" for place in run)
        if length <= (SCREEN if (numbered or self.is_how) and not examples else SHORT_LIST):
            first, stop = run.start, run.stop
        else:
            first = next(place for place in range(at, run.start - 1, -1) if blocks[place].style == "item")
            stop = next((place for place in range(first + 1, run.stop) if blocks[place].style == "item"), run.stop)
        for place in range(first, stop):
            show(place)
        before = _before(blocks, run.start)
        if before is not None and blocks[before].text.rstrip().endswith(":"):
            show(before, [len(blocks[before].sentences) - 1])

    def _parts(
        self,
        passage: Passage,
        place: int,
        shown: frozenset[int],
        marks: set[tuple[int, int]],
        own: Mapping[str, CitedFigure],
    ) -> Iterator[Part]:
        block = passage.blocks[place]
        if block.style == "table":
            yield self._table(passage, block, {at for number, at in marks if number == place}, own)
            return
        cited = [self._cite(passage, number) for number in block.rows]
        if block.style in ("heading", "figure"):
            folded = not (shown or (place, 0) in marks)
            yield from self._pieces(passage, place, block, (0, len(block.text)), [], cited, folded, own)
            return
        for start, end, folded, marked in _groups(block, shown, {at for number, at in marks if number == place}):
            yield from self._pieces(passage, place, block, (start, end), marked, cited, folded, own)
            if not folded:
                yield from self._mentioned(block.text[start:end], own, cited)

    def _pieces(
        self,
        passage: Passage,
        place: int,
        block: PassageBlock,
        span: Span,
        marked: Sequence[Span],
        cited: list[int],
        folded: bool,
        own: Mapping[str, CitedFigure],
    ) -> Iterator[Part]:
        start, end = span
        at = start
        for written, number in self.template.split(block.text[start:end]):
            stop = at + len(written)
            if number is None:
                kept = block.text[at:stop].strip("\n") if block.style == "code" else block.text[at:stop].strip()
                if kept:
                    first = at + block.text[at:stop].index(kept)
                    spans = [
                        (max(begin, first) - first, min(finish, first + len(kept)) - first)
                        for begin, finish in marked
                        if begin < first + len(kept) and finish > first
                    ]
                    if not folded:
                        self.words += len(kept.split())
                    style = block.style if block.style in ("heading", "item", "code") else "prose"
                    yield TextPart(text=kept, citations=cited, style=style, marked=spans, folded=folded)
            elif (figure := own.get(number)) is not None and figure.figure_id not in self._shown:
                yield self._figure(figure, written, cited, folded)
            at = stop

    def _figure(self, figure: CitedFigure, tag: str, cited: list[int], folded: bool) -> FigurePart:
        self._shown.add(figure.figure_id)
        folded = folded or self.figures >= MOST_FIGURES
        self.figures += not folded
        return FigurePart(
            figure_id=figure.figure_id,
            tag=tag,
            caption=escape(figure.caption),
            page=figure.page,
            bbox=figure.bbox,
            citations=cited,
            folded=folded,
        )

    def _mentioned(self, text: str, own: Mapping[str, CitedFigure], cited: list[int]) -> Iterator[FigurePart]:
        labels = {label for label in mentions(text) if label.number}
        for figure in own.values() if labels else ():
            if figure.figure_id in self._shown or figure.figure_id not in self.tags:
                continue
            if caption_label(figure.caption) in labels and self.figures < MOST_FIGURES:
                yield self._figure(figure, self.tags[figure.figure_id], cited, folded=False)

    def _table(
        self, passage: Passage, block: PassageBlock, key_rows: set[int], own: Mapping[str, CitedFigure]
    ) -> TablePart:
        """Return a table with its figures in their cells; tags of figures that aren't shown are dropped."""
        row = passage.rows[block.rows[0]]
        cited = [self._cite(passage, block.rows[0])]
        placed: dict[str, FigurePart] = {}

        def cell(text: str) -> str:
            kept = []
            for written, number in self.template.split(text):
                if number is None or written in placed:
                    kept.append(written)
                elif (figure := own.get(number)) is not None and figure.figure_id not in self._shown:
                    placed[written] = self._figure(figure, written, cited, folded=not key_rows)
                    kept.append(written)
            return "".join(kept).strip()

        rows = [[cell(text) for text in line] for line in row.tagged_rows]
        if key_rows:
            self.words += sum(len(text.split()) for at, line in enumerate(rows) if at in {0, *key_rows} for text in line)
        return TablePart(
            rows=rows, figures=list(placed.values()), citations=cited, key_rows=sorted(key_rows - {0}), folded=not key_rows
        )

    def _cite(self, passage: Passage, number: int) -> int:
        hit = passage.rows[number]
        if hit.evidence_id not in self._cited:
            self._cited[hit.evidence_id] = len(self.citations) + 1
            self.citations.append(citation(hit, len(self.citations) + 1, corpus=self.corpus, version=self.version))
        return self._cited[hit.evidence_id]


def _kept(passage: Passage) -> list[int]:
    """Return the blocks to show: those of the rows found, and the lists that cross their edges."""
    own = [place for place, block in enumerate(passage.blocks) if not passage.found.isdisjoint(block.rows)]
    if not own:
        return []
    first, last = own[0], own[-1]
    for run in runs(passage.blocks):
        if run.start < first < run.stop or run.start == first:
            before = _before(passage.blocks, run.start)
            first = run.start if before is None or not passage.blocks[before].text.rstrip().endswith(":") else before
        if run.start <= last < run.stop:
            last = run.stop - 1
    while last > first and passage.blocks[last].style == "heading":
        last -= 1
    return list(range(first, last + 1))


def _before(blocks: Sequence[PassageBlock], place: int) -> int | None:
    """Return the nearest paragraph before a block, skipping figures; None at a heading or the start."""
    for at in range(place - 1, -1, -1):
        if blocks[at].style == "figure":
            continue
        return at if blocks[at].style in ("prose", "item") else None
    return None


def _after(blocks: Sequence[PassageBlock], place: int) -> int | None:
    """Return the nearest paragraph after a block, skipping figures; None at a heading or the end."""
    for at in range(place + 1, len(blocks)):
        if blocks[at].style != "figure":
            return at if blocks[at].style in ("prose", "item") else None
    return None


def _code_before(blocks: Sequence[PassageBlock], place: int) -> int | None:
    """Return the code that stands directly before a block, skipping figures; None for none."""
    at = next((at for at in range(place - 1, -1, -1) if blocks[at].style != "figure"), None)
    return at if at is not None and blocks[at].style == "code" else None


def _about_code(block: PassageBlock, shown: Iterable[int]) -> bool:
    """Return whether the sentences of a paragraph that are shown refer to the code before it."""
    texts = {at: block.text[slice(*block.sentences[at])] for at in shown}
    return any(_POINTS_AT_CODE.search(text) or (at == 0 and _REFERS.match(text)) for at, text in texts.items())


def _filled(block: PassageBlock, place: int) -> list[int]:
    """Return the sentences around a given one, those after it first, that make a short paragraph."""
    lengths = [len(block.text[start:end].split()) for start, end in block.sentences]
    first = last = place
    total = lengths[place]
    while last + 1 < len(lengths) and total + lengths[last + 1] <= PARAGRAPH:
        last += 1
        total += lengths[last]
    while first > 0 and total + lengths[first - 1] <= PARAGRAPH:
        first -= 1
        total += lengths[first]
    if first == place and place > 0 and _REFERS.match(block.text[slice(*block.sentences[place])]):
        first -= 1
    return list(range(first, last + 1))


def _groups(block: PassageBlock, shown: frozenset[int], marks: set[int]) -> Iterator[tuple[int, int, bool, list[Span]]]:
    """Yield runs of sentences that are all folded or all unfolded: start, end, whether folded, and the marked spans."""
    held: list[int] = []

    def run() -> tuple[int, int, bool, list[Span]]:
        ends = block.sentences
        return (
            ends[held[0]][0],
            ends[held[-1]][1],
            held[0] not in shown,
            [ends[at] for at in held if at in marks and at in shown],
        )

    for at in range(len(block.sentences)):
        if held and (held[-1] in shown) != (at in shown):
            yield run()
            held = []
        held.append(at)
    if held:
        yield run()
