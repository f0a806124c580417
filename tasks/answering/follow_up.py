"""Make a question that stands alone from a follow-up question and the turns before it."""

import re
from collections.abc import Sequence

from schemas.ports import StreamingModel
from schemas.retrieval import Turn
from schemas.text import folded_words
from tasks.answering.ask_model import filled
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words
from tasks.answering.rewrite import query_from
from tasks.answering.trace import StepRecord

FEWEST_WORDS = 2
"""Content words below which a question needs those of the turn before."""

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


def reworded_follow_up(question: str, history: Sequence[Turn], model: StreamingModel, record: StepRecord) -> str:
    """Return a question that stands alone in a model's words; "", with a note, if the model writes none."""
    turns = "\n".join(f"Question: {turn.question}\nAnswer: {' '.join(turn.answer.split())[:600]}" for turn in history)
    return query_from(model, filled("follow-up", turns=turns, question=question), record)
