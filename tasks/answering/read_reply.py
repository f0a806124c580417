"""Parse a language model's reply while it streams: text, figures, tables and citations as the parts of an answer.

Names that were sent become figures and citations; unknown ones are dropped and counted; those with one wrong character are
repaired. Reasoning, control characters and mark-up are removed. The text held back until a name is decided has a bounded length,
so the time is linear in the reply.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import pairwise

from schemas.answers import AnswerCounts, FigurePart, Part, PartFinished, TablePart, TextDelta, TextPart
from schemas.tags import escape
from tasks.answering.compose import ModelInput, disarm, meant, plain
from tasks.answering.highlight import sentences

NO_ANSWER = "NO ANSWER"
"""The reply if the passages don't answer."""

_REFUSAL = re.compile(
    r"(?:(?:I(?:'m| am) )?sorry[,;.]? (?:but )?)?"
    r"I (?:can(?:'t| ?not)|could(?:n't| not)|am (?:not able|unable) to) answer\b[^.!?]{0,80}[.!]?",
    re.IGNORECASE,
)
"""A whole reply that says in other words that the passages don't answer."""

MOST_HELD = 256
"""Maximum characters held back while they may be part of a name."""

MOST_READ = 4096
"""Characters read at once: each name copies the rest."""

MOST_INDENT = 8
"""Maximum blanks before a list item, heading or fence."""

Event = TextDelta | PartFinished

_OPEN, _CLOSE = "[\\[\uff3b\u3010\u3014]", "[\\]\uff3d\u3011\u3015]"
_INSIDE = "[^<>\\[\\]\uff3b\uff3d\u3010\u3011\u3014\u3015\\n]"
_DASH = "[-_\u2010-\u2015]"
_MARK = re.compile(
    rf"(?P<picture>!\[[^<>\[\]\n]{{0,120}}\]\([^<>()\n]{{0,120}}\))"
    rf"|(?P<bracket>{_OPEN}{_INSIDE}{{1,80}}{_CLOSE})"
    rf"|(?P<words>\([ \t]?(?:see[ \t])?passages?[ \t]{{1,3}}P?[ \t]?\d[^()\n]{{0,60}}\))"
    rf"|(?P<broken>{_OPEN}[ \t]{{0,3}}(?:IMG[ \t]?{_DASH}?[ \t]?\w{{0,12}}|P[ \t]?\d{{1,4}}))"
    rf"|(?P<element></?[ \t]{{0,3}}im(?:g|age)\b[^<>\n]{{0,160}}>)"
    rf"|(?P<bare>IMG[ \t]?{_DASH}[ \t]?\w{{0,12}})"
    rf"|(?P<think></?think>)"
    rf"|(?P<bold>\*\*)",
    re.IGNORECASE,
)
# The beginnings of a mark at the end of the text so far: text before them can be shown at once.
_UNFINISHED = re.compile(
    rf"(?:!\[[^<>\[\]\n]{{0,120}}(?:\](?:\([^<>()\n]{{0,120}})?)?"
    rf"|!"
    rf"|{_OPEN}{_INSIDE}{{0,80}}"
    rf"|\([ \t]?(?:[sp][a-z \t]{{0,12}}|(?:see[ \t])?passages?[ \t][^()\n]{{0,66}})?"
    rf"|</?[ \t]{{0,3}}(?:i(?:m(?:g\b|a(?:g(?:e\b)?)?)?)?)?"
    rf"|</?[ \t]{{0,3}}im(?:g|age)\b[^<>\n]{{0,160}}"
    rf"|</?(?:t(?:h(?:i(?:nk?)?)?)?)?"
    rf"|I(?:M(?:G[ \t]?(?:{_DASH}[ \t]?\w{{0,12}})?)?)?"
    rf"|\*)\Z",
    re.IGNORECASE,
)
_ENDS_THINKING = re.compile("</think>", re.IGNORECASE)
_PASSAGES = re.compile(r"P\s?\d{1,4}(?:[\s,;&+]*(?:and\s|[-–]\s?)?P?\s?\d{1,4})*", re.IGNORECASE)
_NUMBERS = re.compile(r"\d{1,3}(?:\s?[,;]\s?\d{1,3})*")
_FIGURE = re.compile(r"(?:IMG|IMAGE)[\W_]*(\w{1,12})", re.IGNORECASE)
_TRANSLATED = re.compile(r"(?:[^\W\d_]{1,20}[\W_]{0,3})?(\d{5,7})(?:\.\w{1,5})?")
_DROPPED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ue000-\ue002]")

_UNDECIDED = re.compile(r"[ \t]{0,8}(?:#{1,6}|[-*•+]|\d{1,3}[.)]?|`{1,3}[^\n`]{0,20})?")
_FENCE = re.compile(r"[ \t]{0,8}```")
_HEADING = re.compile(r"[ \t]{0,8}#{1,6}[ \t]+")
_ITEM = re.compile(r"[ \t]{0,8}(?:[-*•+]|\d{1,3}[.)])[ \t]+")
_TABLE = re.compile(r"[ \t]{0,8}\|")
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_STOPS = re.compile(r"[\s.,;:!?…。！？]+")
_SPACES = re.compile(r"[ \t]+")
_NAME = "\ue002"
"""Stands in a text for a name that is read; replies have no such character."""

_AROUND_NAMES = re.compile(rf" ?{_NAME}[{_NAME} ]*(?P<stop>[.,;:!?。！？])?")

_Named = tuple[list[FigurePart], list[int]]
"""The figures, and the numbers of the passages, that a name means."""


class ReplyReader:
    """The parser of a reply to some messages; ``says_no_answer``: the model says that the passages don't answer."""

    def __init__(self, model_input: ModelInput) -> None:
        self.says_no_answer = False
        self._model_input = model_input
        self._writer = _Writer(model_input)
        self._pending = ""
        self._is_thinking = self._has_begun = False

    @property
    def parts(self) -> list[Part]:
        """The parts so far; after ``close``, all of them."""
        return self._writer.parts

    @property
    def counts(self) -> AnswerCounts:
        """What was dropped, repaired or left without a citation."""
        return with_uncited(AnswerCounts(**self._writer.counts), self.parts)

    def feed(self, text: str) -> list[Event]:
        """Parse more of the reply, cut anywhere, and return its events."""
        events: list[Event] = []
        for start in range(0, len(text), MOST_READ):
            self._pending += _DROPPED.sub("", text[start : start + MOST_READ])
            events.extend(self._read(last=False))
        return events

    def close(self) -> list[Event]:
        """Parse the end of the reply."""
        events = [*self._read(last=True), *self._writer.close()]
        texts = [part.text if isinstance(part, TextPart) and not part.citations else "" for part in self.parts]
        if len(texts) == 1 and _REFUSAL.fullmatch(texts[0]):
            self.says_no_answer = True
        return events

    def _read(self, *, last: bool) -> Iterator[Event]:
        while self._pending and not self.says_no_answer:
            if self._is_thinking:
                thought, *rest_of_reply = _ENDS_THINKING.split(self._pending, maxsplit=1)
                self._is_thinking = not rest_of_reply
                # Of a thought, only what may be the beginning of its end mark is kept.
                self._pending = rest_of_reply[0] if rest_of_reply else thought[-len("</think>") :]
                if self._is_thinking:
                    return
            if not self._has_begun and self._waits_for_no_answer(last):
                return
            text = self._pending
            mark = _MARK.search(text)
            unfinished = _UNFINISHED.search(text, max(0, len(text) - MOST_HELD))
            # At the end of the text, "[P1" is a broken name, or the beginning of "[P12]": more text decides.
            if mark is not None and unfinished is not None and unfinished.start() <= mark.start():
                mark = mark if last and unfinished[0] == mark["bare"] else None  # a name that may still go on
            if mark is None:
                end = self._end_of_text(text, unfinished, last)
                self._pending = "" if last else text[end:]
                yield from self._writer.write(text[:end])
                return
            self._pending = text[mark.end() :]
            yield from self._writer.write(text[: mark.start()])
            yield from self._read_mark(mark.lastgroup or "", mark[0])

    def _read_mark(self, kind: str, mark_text: str) -> Iterator[Event]:
        if kind == "think":
            self._is_thinking = not mark_text.startswith("</")
            if not self._is_thinking:  # unannounced reasoning before it
                self._writer, self._has_begun = _Writer(self._model_input), False
        elif kind == "bold":
            yield from self._writer.write("" if not self._writer.is_code else mark_text)
        else:
            yield from self._writer.mark(kind, mark_text)

    def _waits_for_no_answer(self, last: bool) -> bool:
        """Return whether the reply says that nothing answers, or may still say so."""
        self._pending = self._pending.lstrip(" \n\t")
        opening = self._pending.lstrip(" \n\t\"'*`").upper()
        # Endless quotation marks before the first word aren't held back.
        if len(self._pending) - len(opening) > MOST_HELD:
            self._has_begun = True
            return False
        if opening.startswith("<") and not last and "<THINK>".startswith(opening[:7]):
            return len(opening) < len("<THINK>")
        if not opening or (NO_ANSWER.startswith(opening) and not last):
            return not last
        self._has_begun = True
        if opening.startswith(NO_ANSWER) and not opening[len(NO_ANSWER) :][:1].isalnum():
            self.says_no_answer = True
        return self.says_no_answer

    def _end_of_text(self, text: str, unfinished: "re.Match[str] | None", last: bool) -> int:
        """Return the end of the text that belongs to no name; a possible start of a name is held back, and dropped at the end."""
        if unfinished is None:
            return len(text)
        if not last:
            return unfinished.start()
        name_start = plain(unfinished[0]).lstrip("![<").strip().upper()
        is_figure = "IMG" in name_start or "IMAGE" in name_start or unfinished[0].startswith("![")
        if is_figure or (plain(unfinished[0]).startswith("[") and re.match(r"P(?:\s*\d|\Z)|IM?\Z", name_start)):
            self._writer.counts["unknown_tags" if is_figure or name_start[0] == "I" else "unknown_citations"] += 1
            return unfinished.start()
        return len(text)


class _Writer:
    """Builds parts from text and names: a paragraph, list item, heading, table or piece of code is read when it ends."""

    def __init__(self, model_input: ModelInput) -> None:
        self.parts: list[Part] = []
        self.counts = Counter[str]()
        self._model_input = model_input
        self._shown_figures: set[str] = set()
        self._line_start: str | None = ""  # start of a line until its style is known; None within a line
        self._style = "prose"
        self._skips_line = False
        self._text: list[str] = []  # of the block so far, with _NAME in place of each of _names
        self._names: list[_Named] = []

    @property
    def is_code(self) -> bool:
        return self._style == "code"

    def write(self, text: str) -> Iterator[Event]:
        for piece in text.splitlines(keepends=True) if "\n" in text else [text]:
            line = piece.removesuffix("\n")
            ends_line = line != piece
            if self._line_start is not None:
                self._line_start += line
                if not self.is_code and self._line_start.isspace():
                    self._line_start = self._line_start[:MOST_INDENT]  # bounded: a model may write endless blanks
                if (
                    not ends_line
                    and len(self._line_start) <= MOST_HELD
                    and (not self._line_start.strip() or _UNDECIDED.fullmatch(self._line_start))
                ):
                    continue
                line = yield from self._decide_style()
            if not self._skips_line:
                yield from self._words(line)
            if ends_line:
                yield from self._end_line()

    def mark(self, kind: str, mark_text: str) -> Iterator[Event]:
        if self._line_start is not None:
            yield from self._words((yield from self._decide_style()))
        resolved = self._resolve(kind, mark_text)
        if isinstance(resolved, str):
            yield from self._words(resolved)
        else:
            self._text.append(_NAME)
            self._names.append(resolved)

    def close(self) -> Iterator[Event]:
        if self._line_start:
            yield from self._words((yield from self._decide_style()))
        yield from self._end_block()

    def _decide_style(self) -> Generator[Event, None, str]:
        """Determine a line's style by its start, and return its text."""
        head, self._line_start = self._line_start or "", None
        if _FENCE.match(head):
            style = "prose" if self.is_code else "code"
            yield from self._end_block()
            self._style, self._skips_line = style, True
            return ""
        if self.is_code:
            return head
        if _TABLE.match(head):
            if self._style != "table":
                yield from self._end_block()
            self._style = "table"
            return head
        if not head.strip():
            yield from self._end_block()
            return ""
        for style, match in (("heading", _HEADING.match(head)), ("item", _ITEM.match(head))):
            if match is not None:
                yield from self._end_block()
                self._style = style
                return head[match.end() :] if style == "heading" else head.lstrip()
        if self._style in ("heading", "table") or (self._style == "item" and not head[0].isspace()):
            yield from self._end_block()
        return f" {head.lstrip()}" if self._text else head.lstrip()

    def _end_line(self) -> Iterator[Event]:
        if self._style in ("code", "table") and not self._skips_line:
            yield from self._words("\n")
        elif self._style == "heading":
            yield from self._end_block()
        self._line_start, self._skips_line = "", False

    def _words(self, words: str) -> Iterator[Event]:
        if words:
            self._text.append(words)
        if words and self._style != "table":
            yield TextDelta(part=len(self.parts), text=words)

    def _end_block(self) -> Iterator[Event]:
        """Yield the parts of a block: a sentence with citations, sentences between those, and figures where they were named."""
        named_text, names, style = "".join(self._text), self._names, self._style
        self._text, self._names, self._style = [], [], "prose"
        if style == "table":
            yield from self._table(named_text, names)
            return
        if style != "code":
            named_text = _AROUND_NAMES.sub(_names_first, _SPACES.sub(" ", named_text)).strip()
        positions = [match.start() - n for n, match in enumerate(re.finditer(_NAME, named_text))]
        text = named_text.replace(_NAME, "")
        spans = sentences(text) if style in ("prose", "item") else []
        starts = [0, *(start for start, _ in spans[1:])]
        # A name behind a sentence belongs to it, up to the first letter of the next one.
        cited: dict[int, list[int]] = {start: [] for start in starts}
        figures: dict[int, list[FigurePart]] = {}
        for position, (figures_named, numbers) in zip(positions, names, strict=True):
            cited[max(start for start in starts if start < position or not start)] += numbers
            if figures_named:
                stops = _STOPS.match(text, position)
                figures.setdefault(stops.end() if stops else position, []).extend(figures_named)
        cuts = {start for before, start in pairwise(starts) if cited[before] or cited[start]}
        continues = False
        for start, stop in pairwise(sorted({0, len(text), *cuts, *figures})):
            for figure in figures.get(start, ()):
                yield from self._add(figure)
            continues = continues and start not in figures
            piece = text[start:stop].strip("\n" if style == "code" else None)
            if piece:
                citations = list(dict.fromkeys(cited[max(first for first in starts if first <= start)]))
                fields = {"text": escape(disarm(piece)), "citations": citations, "style": style, "continues": continues}
                yield from self._add(TextPart.model_validate(fields))
                continues = True
        for figure in figures.get(len(text), ()):
            yield from self._add(figure)

    def _table(self, named_text: str, names: Iterable[_Named]) -> Iterator[Event]:
        figures: list[FigurePart] = []
        numbers: dict[int, None] = {}
        unread_names = iter(names)

        def tags(_: re.Match[str]) -> str:
            figures_named, passages = next(unread_names)
            figures.extend(figures_named)
            numbers.update(dict.fromkeys(passages))
            return " ".join(figure.tag for figure in figures_named)

        lines = [line for line in named_text.splitlines() if not _RULE.fullmatch(line)]
        rows = [[re.sub(_NAME, tags, disarm(escape(cell.strip()))).strip() for cell in _cells(line)] for line in lines]
        if rows:
            yield from self._add(TablePart(rows=rows, figures=figures, citations=list(numbers)))

    def _add(self, part: Part) -> Iterator[Event]:
        self.parts.append(part)
        yield PartFinished(part=len(self.parts) - 1, value=part)

    def _resolve(self, kind: str, mark_text: str) -> _Named | str:
        """Return the figures and citations of a name; the text itself if it is none."""
        if kind == "words":
            return [], self._numbers(re.findall(r"\d{1,4}", mark_text))
        if kind not in ("bracket", "broken"):
            sent_digits = [
                digits for digits in re.findall(r"\d{5,7}", plain(mark_text)) if digits in self._model_input.figures
            ]
            figure_match = _FIGURE.search(plain(mark_text))
            return self._figures(sent_digits[:1] or ([figure_match[1]] if figure_match and kind == "bare" else [""])), []
        inner = plain(plain(mark_text)[1:].removesuffix("]").removesuffix("\u3011").removesuffix("\u3015"))
        digit_runs = re.findall(r"\d+", inner)
        if _PASSAGES.fullmatch(inner):
            return [], self._numbers(digit_runs)
        if re.match(r"P\s?\d", inner, re.IGNORECASE):
            return [], self._numbers(re.findall(r"P\s?(\d{1,4})", inner, re.IGNORECASE))
        if _NUMBERS.fullmatch(inner):
            # Some models write [3] in place of [P3]; a [3] that a passage prints is a quotation.
            is_quoted = any(n < 1 or f"[{n}]" in self._model_input.numbers for n in map(int, digit_runs))
            if self._model_input.passages and not is_quoted and not self.is_code:
                return [], self._numbers(digit_runs)
        if figure_names := _FIGURE.findall(inner) if _FIGURE.match(inner) else []:
            return self._figures(figure_names), []
        if re.fullmatch(r"(?:IMG|IMAGE)[\W_]*", inner, re.IGNORECASE):
            return self._figures([""]), []
        # A model that answers in another language may translate the name, as in [BILD-48213]: the digits decide.
        translated = _TRANSLATED.fullmatch(inner)
        if translated is not None and translated[1] in self._model_input.figures:
            self.counts["repaired_tags"] += 1
            return self._figures([translated[1]]), []
        return mark_text

    def _numbers(self, digit_runs: Sequence[str]) -> list[int]:
        numbers = []
        for number in map(int, digit_runs):
            if 1 <= number <= len(self._model_input.passages):
                numbers.append(number)
            else:
                self.counts["unknown_citations"] += 1
        return list(dict.fromkeys(numbers))

    def _figures(self, names: Sequence[str]) -> list[FigurePart]:
        figures = []
        for name in names:
            digits: str | None = name
            if name not in self._model_input.figures:
                digits = None if name in self._model_input.numbers else meant(name, self._model_input.figures)
                self.counts["unknown_tags" if digits is None else "repaired_tags"] += 1
            if digits is None:
                continue
            part = self._model_input.figures[digits]
            if part.figure_id in self._shown_figures:
                self.counts["repeated_tags"] += 1
            else:
                self._shown_figures.add(part.figure_id)
                figures.append(part)
        return figures


def _names_first(names: re.Match[str]) -> str:
    """Return names without the blanks around them, of which one stays behind them unless a full stop follows."""
    return _NAME * names[0].count(_NAME) + (names["stop"] or " " * (" " in names[0]))


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _uncited(part: Part) -> int:
    """Return the sentences of a part without a citation; headings, code and list leaders don't count."""
    if not isinstance(part, TextPart) or part.citations or part.style not in ("prose", "item"):
        return 0
    return sum(not part.text[start:end].rstrip().endswith(":") for start, end in sentences(part.text))


def with_uncited(counts: AnswerCounts, parts: Sequence[Part]) -> AnswerCounts:
    """Return the counts with the number of sentences of some parts that cite no passage."""
    return counts.model_copy(update={"uncited_sentences": sum(map(_uncited, parts))})
