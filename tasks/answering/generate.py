"""Have a language model write an answer, and read it part by part while it is written."""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile

from schemas.answers import AnswerCounts, FigurePart, Part, PartFinished, TextDelta, TextPart
from schemas.errors import BadInputError, TransientError
from schemas.evidence import CitedFigure, Hit
from schemas.models import Message, Request
from schemas.ports import StreamingModel
from schemas.tags import TagTemplate
from tasks.answering.candidates import stems
from tasks.answering.compose import ModelInput
from tasks.answering.highlight import content_words, sentences
from tasks.answering.passages import read_passage
from tasks.answering.read_reply import ReplyReader

FROM_THOUGHT = "the model wrote no answer behind its reasoning; these are the sentences of it that the passages support"
CUT_OFF = "the model stopped at its limit of tokens, so the answer may end early"
NO_ANSWER_WRITTEN = "the model wrote no answer"
NO_SENTENCE = "the model wrote no sentence"

ASK_AGAIN = "Now write the answer alone, without any reasoning, in at most three sentences."
"""What a model is told once, if its reply has no answer: small models end inside a thought, or copy a figure's name alone."""

MOST_REPEATED = 2_000
"""Maximum characters of a reply without an answer that a model is sent with ``ASK_AGAIN``."""

_THINKING = re.compile(r"</?think>", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer written by a model; ``failure`` says why the reply is incomplete, ``note`` is for readers."""

    parts: list[Part] = field(default_factory=list)
    counts: AnswerCounts = field(default_factory=AnswerCounts)
    says_no_answer: bool = False
    failure: str = ""
    note: str = ""


def write(
    model: StreamingModel, model_input: ModelInput, *, may_ask_again: bool
) -> Iterator[TextDelta | PartFinished | WrittenAnswer]:
    """Yield the events of an answer while the model writes, then the whole answer.

    With ``may_ask_again``, a reply without a sentence is read for sentences of its reasoning that a passage supports; if there
    are none, the model is asked once more, for the answer alone. Raises ``UserError`` if the model can't be used as configured.
    """
    answer, reply = yield from _read(model, model_input)
    if may_ask_again and answer.failure in (NO_ANSWER_WRITTEN, NO_SENTENCE):
        thoughts = _supported_thoughts(reply, model_input)
        if thoughts:
            answer = WrittenAnswer(thoughts, note=FROM_THOUGHT)
        else:
            messages = (
                *model_input.messages,
                Message("assistant", reply[-MOST_REPEATED:] or "…"),
                Message("user", ASK_AGAIN),
            )
            answer, _ = yield from _read(model, replace(model_input, messages=messages))
    yield answer


def _read(
    model: StreamingModel, model_input: ModelInput
) -> Generator[TextDelta | PartFinished, None, tuple[WrittenAnswer, str]]:
    """Yield the events of one reply; return the answer, and the reply without marks of reasoning."""
    reader, failure, note = ReplyReader(model_input), "", ""
    pieces: list[str] = []
    with closing(model.stream(Request("answer", model_input.messages))) as reply:
        for item in reply:
            if isinstance(item, str):
                pieces.append(item)
                yield from reader.feed(item)
            elif isinstance(item, BadInputError | TransientError):
                failure = item.message
            else:
                note = item.note if item.complete else CUT_OFF
    yield from reader.close()
    if not (failure or reader.says_no_answer):
        if not reader.parts:
            failure = NO_ANSWER_WRITTEN
        elif all(isinstance(part, FigurePart) for part in reader.parts):
            failure = NO_SENTENCE
    answer = WrittenAnswer(reader.parts, reader.counts, reader.says_no_answer, failure, note)
    return answer, _THINKING.sub("", "".join(pieces)).strip()


def _supported_thoughts(thought: str, model_input: ModelInput) -> list[Part]:
    """Return the sentences of a model's reasoning that a passage supports, with the figures behind them."""
    reader = ReplyReader(model_input)
    reader.feed(thought)
    reader.close()
    parts, _ = with_support(reader.parts, [hit.text for hit in model_input.passages], "")
    return (
        [part for part in parts if part.citations] if any(part.type == "text" and part.citations for part in parts) else []
    )


ALIKE = 0.7
"""Minimum share of a text's words in a passage's sentence that supports it."""

ABOUT = 0.5
"""Minimum share of a text's words, with the question's, in a passage that supports it."""

NEAR = 0.5
"""Minimum share of a cited text's words, without the question's, in two adjacent sentences of its passage. Of twenty
inventions without a number or a name (in the tests) none reaches it, and of twenty true paraphrases 19 do."""

_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had)\b", re.IGNORECASE
)
_MARKER = re.compile(r"\A\s*(?:[-*•]|\(?\w{1,2}[.)])\s+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z]\w{2,}|\w*[a-z0-9]_\w+|\b[A-Z]{2,}\d*\b")
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"\b([^\W\d_]+)[ _=-]?(\d+)\b")
_LEAD = re.compile(r"\W*(?:the )?(?:correct )?answer(?: to (?:the|this|your) question)? is\b:?", re.IGNORECASE)
_PRONOUN = re.compile(r"(?:it|they|this|these)\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|no|none|without|cannot)\b|n['’]t\b", re.IGNORECASE)


def with_support(parts: Sequence[Part], passages: Sequence[str], question: str) -> tuple[list[Part], int]:
    """Return an answer's parts with the citations that the passages support, and how many texts no passage supports.

    A text loses its citations if it has a number or name that neither its passages nor the question have, if few of its words
    stand near each other in its passages, if it negates what they say, or if it only restates the question. One without
    citations gets that of a passage with a sentence like it. Citation 1 is of the first passage.
    """
    checked: list[Part] = []
    unsupported = 0
    # A text that cites nothing is checked sentence by sentence, since each may be from another passage.
    for part in (sentence for written_part in parts for sentence in _sentences(written_part)):
        if not isinstance(part, TextPart) or part.style not in ("prose", "item"):
            checked.append(part)
            continue
        # The number of a list item isn't one that a passage must have.
        claim = _LEAD.sub("", _MARKER.sub("", part.text, count=1), count=1)
        details = {word.casefold() for word in (*_NUMBER.findall(claim), *_NAME.findall(claim))} - {
            *_NUMBER.findall(question),
            *_WORD.findall(question.casefold()),
        }
        if not details and _repeats_question(claim, question):
            checked.append(part.model_copy(update={"citations": []}))
            continue
        passage_sentences = [_said(text, question, claim) for text in passages]
        fitting = [
            n
            for n, text in enumerate(passages, 1)
            if details <= {*_NUMBER.findall(text), *_WORD.findall(text.casefold())}
            and _is_about(claim, question, text)
            and not _contradicts(claim, passage_sentences[n - 1])
        ]
        citations = [
            n for n in part.citations if n in fitting and _nearness(claim, passage_sentences[n - 1], question) >= NEAR
        ]
        # Passages come best first, so the best one that supports the text is cited.
        if not citations:
            citations = [
                n
                for n in fitting
                if (details or not part.citations) and _nearness(claim, passage_sentences[n - 1], question) >= ALIKE
            ][:1]
        unsupported += bool(part.citations or details) and not citations
        checked.append(part.model_copy(update={"citations": citations}))
    return checked, unsupported


def _repeats_question(text: str, question: str) -> bool:
    """Return whether a text asks something itself, or says nothing beyond a question other than one for yes or no."""
    words = stems(content_words(text))
    says_more = not words or not words <= stems(question) or _YES_OR_NO.match(question) is not None
    return text.rstrip().endswith("?") or not says_more


def _said(text: str, question: str, claim: str) -> list[str]:
    """Return the sentences of a passage that may support a claim; a row of a table is one, with the heads.

    If a passage has what question and claim name by a number, such as "error 302", only sentences with it and those behind them
    count, and of a table only the rows that have what the question names, such as M8.
    """
    lines = text.splitlines()
    header, *rows = [line for line in lines if line.startswith("|")] or [""]
    prose = "\n".join(line for line in lines if not line.startswith("|"))
    texts = [prose[start:end] for start, end in sentences(prose)]
    question_names = _numbered(question)
    subject = question_names & _numbered(claim)
    numbers = [n for n, sentence in enumerate(texts) if subject & _numbered(sentence)]
    about = [texts[n] for n in sorted({*numbers, *(n + 1 for n in numbers)}) if n < len(texts)] if numbers else texts
    named_rows = [row for row in rows if question_names & _numbered(row)]
    return [*about, *(f"{header} {row}" for row in named_rows or rows)]


def _numbered(text: str) -> set[tuple[str, str]]:
    """Return what a text names by a word or letters and a number, such as error 302 or M8."""
    return {(word, number) for word, number in _NUMBERED.findall(text.casefold()) if word in content_words(f"{word} 0")}


def _is_about(claim: str, question: str, text: str) -> bool:
    """Return whether a passage has enough of a claim's words, and not only others of what is asked about by number."""
    subject, text_names = _numbered(question) & _numbered(claim), _numbered(text)
    other_names = {word for word, _ in text_names} & {word for word, _ in subject - text_names}
    words = stems(content_words(claim))
    return bool(words) and not other_names and len(words & stems(text)) >= ABOUT * len(words)


def figures_beside(claim: str, hit: Hit, template: TagTemplate) -> list[CitedFigure]:
    """Return the figures that a passage has in, or directly below, the block with the sentence that supports a claim."""
    if hit.figure_id is not None:
        return [figure for figure in hit.figures if figure.figure_id == hit.figure_id]
    blocks = read_passage([hit], {hit.evidence_id: 0}, template).blocks
    likeness = [
        _likeness(claim, [template.without(block.text[start:end]) for start, end in block.sentences]) for block in blocks
    ]
    best = max(range(len(blocks)), key=likeness.__getitem__, default=0)
    if not blocks or likeness[best] < ALIKE:
        return []
    after = takewhile(lambda block: block.style == "figure", blocks[best + 1 :])
    tagged = " ".join(block.text for block in (blocks[best], *after))
    numbers = dict.fromkeys(number for _, number in template.split(tagged) if number is not None)
    figures = {figure.number: figure for figure in hit.figures}
    return [figures[number] for number in numbers if number in figures]


def _sentences(part: Part) -> Iterator[Part]:
    """Yield the sentences of a text that cites nothing, each as a part; any other part as it is."""
    spans = sentences(part.text) if isinstance(part, TextPart) and not part.citations and part.style == "prose" else []
    if len(spans) < 2 or not isinstance(part, TextPart):
        yield part
        return
    for index, (start, end) in enumerate(spans):
        between = part.text[spans[index - 1][1] : start] if index else ""
        continues = "\n\n" not in between if index else part.continues
        yield part.model_copy(update={"text": part.text[start:end], "continues": continues})


def _likeness(claim: str, passage_sentences: Sequence[str]) -> float:
    """Return the largest share of a claim's words that stand in one sentence."""
    words = stems(content_words(claim))
    return max((len(words & stems(sentence)) / max(1, len(words)) for sentence in passage_sentences), default=0.0)


def _nearness(claim: str, passage_sentences: Sequence[str], question: str) -> float:
    """Return the largest share of a claim's words that stand in two adjacent sentences of a passage; 1 if it has none."""
    words = stems(content_words(claim))
    words = words - stems(question) or words
    stems_by_sentence = [stems(sentence) for sentence in passage_sentences]
    windows = (first | second for first, second in pairwise([*stems_by_sentence, set()]))
    return max((len(words & window) for window in windows), default=0) / len(words) if words else 1.0


def _contradicts(claim: str, passage_sentences: Sequence[str]) -> bool:
    """Return whether a sentence like a claim says the opposite, one of the two being negated, and none more like it agrees."""
    is_negated = _NEGATION.search(claim) is not None
    texts: dict[bool, list[str]] = {True: [], False: []}
    for before, sentence in pairwise(["", *passage_sentences]):
        opposes = (_NEGATION.search(sentence) is not None) != is_negated
        # What "It" means stands in the sentence before.
        is_alike = _PRONOUN.match(sentence) and _likeness(claim, [sentence]) >= NEAR
        texts[opposes].append(f"{before} {sentence}" if is_alike else sentence)
    likeness = _likeness(claim, texts[True])
    return likeness >= ALIKE and likeness >= _likeness(claim, texts[False])
