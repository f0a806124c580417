"""Put a question into other words: those of documents, ones that stand alone, or correctly spelt ones."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from schemas.ports import StreamingModel
from schemas.retrieval import Turn
from schemas.text import folded_words, words
from tasks.answering.ask_model import filled, reply
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words
from tasks.answering.trace import StepRecord
from tasks.enriching.caption_quality import refuses

MOST_CHARS = 400
"""Maximum characters of a rewritten question; a longer reply is an answer."""


def rewritten(question: str, model: StreamingModel, record: StepRecord) -> str:
    """Return a question in a model's words; unchanged, with a note, if the reply is empty, a refusal or no query."""
    return query_from(model, filled("rewrite", question=question), record) or question


def query_from(model: StreamingModel, prompt: str, record: StepRecord) -> str:
    """Return the one-line query that a model writes; "", with a note, if the reply is empty, a refusal or no query."""
    query = reply(model, prompt, record).strip("\"'`“”„ ")
    if not query:
        record.note = record.note or "the model wrote nothing; the question is used"
    elif len(query) > MOST_CHARS or len(query.splitlines()) > 1:
        record.note = "the model wrote no query; the question is used"
    elif refuses(query) or not any(character.isalnum() for character in query):
        record.note = "the model refused; the question is used"
    else:
        return query
    return ""


FEWEST_WORDS = 2
"""Content words below which a question needs those of the turn before."""

KEPT = 2 / 3
"""Minimum share of a follow-up's content words that a model's rewriting keeps: a synonym is allowed, another question isn't."""

MOST_SUBJECT_WORDS = 8
"""Maximum words carried over, those of the last question first."""

_REFERS = re.compile(
    r"^\W*(?:and|but|or|so|then|also|why|what about|how about|what if)\b"
    r"|\b(?:it|its|they|them|their|theirs|this|these|those|the same|the (?:first|second|third|other|next|last) (?:one|step))\b"
    r"|\b(?:do|does|did|is|was|about|of|for|with|in|than|like|to|after|before|from|by|change|undo) (?:that|there)\b"
    r"|\bthat (?:is|was|one|case|value|step|button|option|picture|figure|table|number|command)\b|\b(?:there|then)\W*$",
    re.IGNORECASE,
)


def refers_back(question: str) -> bool:
    """Return whether a question needs the turn before it, by its pronouns or opening, or for want of words of its own."""
    own_words = list(folded_words(content_words(question)))
    return _REFERS.search(question) is not None or len(own_words) < FEWEST_WORDS


def on_topic(question: str, history: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns up to the last one that has a content word of a question, which may go back to it; all if none has."""
    subject = stems(content_words(question))
    turns = [n for n, turn in enumerate(history, 1) if not subject.isdisjoint(stems(content_words(turn.question)))]
    return history[: max(turns, default=len(history))]


def with_subject(question: str, history: Sequence[Turn]) -> str:
    """Return a question with the content words of earlier questions, if it refers to them; else unchanged.

    Each turn's question may itself refer to the one before it. Words that the question has aren't repeated.
    """
    standalone_question = ""
    for text in (*(turn.question for turn in history), question):
        subject = content_words(standalone_question).split() if standalone_question and refers_back(text) else []
        stems_present = stems(text)
        words = [word.strip("?!.,;:()\"'") for word in subject if not stems(word) & stems_present]
        carried = " ".join(list(dict.fromkeys(filter(None, words)))[:MOST_SUBJECT_WORDS])
        standalone_question = f"{text} ({carried})" if carried else text
    return standalone_question


MOST_QUESTIONS = 3
"""Questions that are answered one by one: each is a search."""

_NEXT_QUESTION = re.compile(
    r"(?<=\?)\s+(?=\w[^?]*\?)|,?\s+and\s+(?=(?:how|what|when|where|which|who|whose|why)\b)", re.IGNORECASE
)
"""Where a further question begins; what follows the last question mark ("Answer in millions.") is none."""


def questions_in(text: str) -> list[str]:
    """Return the questions that a text asks, each with the subject of those before; the text alone if it asks one."""
    questions = _NEXT_QUESTION.split(text.strip())
    # What has no content word, such as "How" of "How and why", is no question.
    if (
        not 1 < len(questions) <= MOST_QUESTIONS
        or content_words(questions[0]) == questions[0]
        or _REFERS.search(questions[0])
    ):
        return [text]
    return [
        with_subject(question, [Turn(question=earlier) for earlier in questions[:n]])
        for n, question in enumerate(questions)
    ]


def reworded_follow_up(question: str, history: Sequence[Turn], model: StreamingModel, record: StepRecord) -> str:
    """Return a question that stands alone in a model's words; "", with a note, if the model writes none.

    A model may answer instead: a rewriting keeps ``KEPT`` of the question's content words, and the question mark.
    """
    turns = "\n".join(f"Question: {turn.question}\nAnswer: {' '.join(turn.answer.split())[:600]}" for turn in history)
    standalone = query_from(model, filled("follow-up", turns=turns, question=question), record)
    subject = stems(content_words(_REFERS.sub(" ", question)))
    is_kept = len(subject & stems(standalone)) >= KEPT * len(subject)
    if standalone and not (is_kept and ("?" in standalone or "?" not in question)):
        record.note = "the model wrote another question or an answer; the words of the turns before are used"
        return ""
    return standalone


def with_synonyms(question: str, synonyms: Sequence[Sequence[str] | Mapping[str, str]]) -> str:
    """Return a question with other wordings of its words behind it, in brackets; unchanged if it has none of them.

    Each wording of a list stands for the others; that of a mapping for its value alone. Wordings are whole words in any case.
    """

    def has(wording: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(wording)}(?!\w)", question, re.IGNORECASE) is not None

    pairs = (
        pair for entry in synonyms for pair in (entry.items() if isinstance(entry, Mapping) else permutations(entry, 2))
    )
    added_wordings = dict.fromkeys(synonym for wording, synonym in pairs if has(wording) and not has(synonym))
    return f"{question} ({', '.join(added_wordings)})" if added_wordings else question


SHORTEST = 5
"""Minimum letters of a word that is corrected: shorter ones resemble too many others."""

ALIKE = 0.82
"""Minimum likeness, 2 × shared letters / all letters, of a word and its correction: "heigth" and "height" have 0.83. "lateral"
and "later" as well, so that only words that no dictionary knows are corrected."""

NEAREST = 40
"""Passages whose words may be corrections."""


def spelt(
    question: str,
    is_indexed: Callable[[str], bool],
    is_in_dictionary: Callable[[str], bool],
    passages: Callable[[], Sequence[str]],
) -> str:
    """Return a question with each misspelt word replaced by the most similar word of the nearest passages, if any.

    A word is misspelt if no row has it and no dictionary of the question's language knows it. ``is_in_dictionary`` is asked
    only of words that no row has, and ``passages`` is called only for misspelt words.
    """
    own_words = set(folded_words(content_words(question)))
    unknown_words = [
        word
        for word in words(question)
        if word.folded in own_words
        and len(word.folded) >= SHORTEST
        and word.folded.isalpha()
        and not is_indexed(word.folded)
        and not is_in_dictionary(question[word.start : word.end])
    ]
    vocabulary: set[str] = set()
    corrected = question
    # From the end, so that the places of the words before stay right.
    for word in reversed(unknown_words):
        vocabulary = vocabulary or {
            passage_word for text in passages() for passage_word in folded_words(text) if passage_word.isalpha()
        }
        similar = difflib.get_close_matches(word.folded, [v for v in vocabulary if v[0] == word.folded[0]], 1, ALIKE)
        if similar:
            corrected = f"{corrected[: word.start]}{similar[0]}{corrected[word.end :]}"
    return corrected
