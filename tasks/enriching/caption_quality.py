"""Judge what a generative model wrote of a figure, page or text, from the words alone.

What refuses must hardly ever be wrong, for the answer was paid for; what marks may be. The rates beside each bound are of
35,438 passages and 512 captions out of 547 documents in 34 languages, written by people, which stand in for good
descriptions (false alarms), and of faults made out of them (found). Decision 29 has the whole of it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import regex

from schemas.corpus.captions import CaptionerKind
from schemas.flags import Flag
from schemas.generation import Description
from schemas.ports import LanguageDetector
from tasks.enriching.prompts import Prompt, Surroundings
from tasks.enriching.refusals import refuses

QUALITY_VERSION = "1"
"""Goes up when the same description gets other flags."""


def unaskable(kind: CaptionerKind, around: Surroundings) -> Flag | None:
    """Return why a model can't be asked at all: one that reads words, where none were recognised. None: it can be."""
    return None if kind.sees or words_of(around.words) else Flag.NO_TEXT


def flags(
    description: Description, prompt: Prompt, around: Surroundings, *, languages: LanguageDetector | None = None
) -> tuple[Flag, ...]:
    """Return what is wrong with a description, in the order of ``Flag``; () is nothing.

    Args:
        description: What a model wrote, or why it didn't.
        prompt: What it was asked.
        around: What the document says; the words recognised in it, its printed page and the language that is wanted included.
        languages: Detects languages; without one only another script is noticed.
    """
    if description.failure is not None:
        return (Flag.FAILED,)
    text = description.text
    words = words_of(text)
    if not words:
        return (Flag.EMPTY,)
    least, most = prompt.words or (0, len(words))
    count = length(text)
    found = {
        Flag.TOO_SHORT: count < least,
        Flag.TOO_LONG: count > most,
        Flag.REPETITION: repeats(words),
        Flag.PROMPT_ECHO: echoes(text, words, prompt.instructions),
        Flag.REFUSAL: refuses(text),
        Flag.WRONG_LANGUAGE: is_foreign(text, around, languages, of_words=prompt.subject in _OF_WORDS),
        Flag.MARKDOWN: is_marked_up(text, bullets=prompt.bullets),
        Flag.CUT_OFF: not description.complete,
        # A summary is to leave most of them out.
        Flag.NUMBERS_MISSING: prompt.subject != "text" and lacks_numbers(text, around.words),
        Flag.PAGE_NUMBER_MISSING: prompt.subject == "page" and lacks_page_number(text, around.page),
    }
    return tuple(flag for flag in Flag if found.get(flag))


_OF_WORDS = frozenset({"page", "text"})
"""Subjects whose own words, which a page or a text is made of, say which language is expected."""


# Words

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
_WORD = regex.compile(rf"(?V1)[{_UNSPACED}]\p{{M}}*|{_SPACED}(?:(?:{_SPACED}|[\p{{M}}'’.,_/-])*(?:{_SPACED}|\p{{M}}))?")
_UNSPACED_LETTER = regex.compile(rf"[{_UNSPACED}]")
_LETTERS_A_WORD = {"Han": 1.5, "Hiragana": 2.0, "Katakana": 3.0, "Thai": 4.0, "Lao": 4.0, "Khmer": 4.5, "Myanmar": 4.5}
"""Letters, as the eye counts them, of an average word in scripts that put no space between words."""
_SCRIPT_OF = {name: regex.compile(rf"\p{{{name}}}") for name in _LETTERS_A_WORD}


def words_of(text: str) -> list[str]:
    """Return words and numbers, folded; a letter of a script without spaces stands for itself."""
    return [word.casefold() for word in _WORD.findall(text)]


def length(text: str) -> int:
    """Return about how many words a text has, in any script."""
    spaced = sum(1 for word in words_of(text) if not _UNSPACED_LETTER.match(word))
    unspaced = sum(len(pattern.findall(text)) / _LETTERS_A_WORD[name] for name, pattern in _SCRIPT_OF.items())
    return spaced + round(unspaced)


# Repetition

_WINDOW = 60
_LEAST_DISTINCT = 0.25
"""Words that are looked at together, and the least share of them that must differ (the type-token ratio, which falls with
length)."""

_LOOP_WORDS = 20
_LOOP_TURNS = 4
_LONGEST_TURN = 100
_LOOKED_AT = 2_000
"""A loop is words that come again at once, in as many turns, and as many words in all; a turn has so many words at most.
A model that is in one stays there, so it is looked for among so many of the last words.

Of loops of 1 to 25 words and 4 to 20 turns behind the beginning of a passage, 86 to 98 % are found, and 99 % of those that
count on; the rest are shorter. False alarms: 10 of 8,035 passages of ``dev`` and no caption, all of them a form or what is
left of a table."""


def repeats(words: Sequence[str]) -> bool:
    """Return whether words go in a loop, as a model's do that has lost its way, or hardly differ.

    Numbers may count on from turn to turn, where a turn has words besides.
    """
    if any(len(set(part)) < _LEAST_DISTINCT * _WINDOW for part in _windows(words)):
        return True
    last = words[-_LOOKED_AT:]
    counted = ["0" if word[0].isdecimal() else word for word in last]
    periods = range(1, min(_LONGEST_TURN, len(last) // _LOOP_TURNS) + 1)
    return any(_turns(last, period) or _turns(counted, period, numbers=False) for period in periods)


def _windows(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(words) - _WINDOW + 1, _WINDOW // 2):
        yield words[start : start + _WINDOW]


def _turns(words: Sequence[str], period: int, *, numbers: bool = True) -> bool:
    """Return whether the same words come again at once, often enough; without ``numbers``, only where most are no number."""
    run = 0
    for at in range(period, len(words)):
        run = run + 1 if words[at] == words[at - period] else 0
        if run + period >= max(_LOOP_WORDS, _LOOP_TURNS * period) and (
            numbers or words[at - period : at].count("0") < period / 2
        ):
            return True
    return False


# Echo

_ECHO_RUN = 8
"""Words in a row that an answer may not have in common with the instructions of its prompt. No passage and no caption has
as many with any preset."""
_CHAT_MARKS = regex.compile(r"<\|[\w ]{1,40}\|>|</?think>|\[/?INST\]|<start_of_turn>|<end_of_turn>")


def echoes(text: str, words: Sequence[str], instructions: str) -> bool:
    """Return whether a text repeats a run of the instructions' words, all of them where there are few, or marks of a chat."""
    if _CHAT_MARKS.search(text):
        return True
    asked = words_of(instructions)
    size = min(_ECHO_RUN, len(asked))
    if not size or len(words) < size:
        return False
    runs = set(_runs(asked, size))
    return any(run in runs for run in _runs(words, size))


def _runs(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1))


# Language

_FEWEST_LETTERS = 12
"""Letters from which on a text has a script."""
_SCRIPT_SHARE = 0.7
_SCRIPT_TRACE = 0.03
"""A text is in another script where most of its letters, this share, are of one that hardly any letter beside it is of.

False alarms: none of 1,000 passages of ``dev``; 7 of 6,200 in documents that do mix scripts."""

_FEWEST_WORDS = 8
_LIKELY = 0.5
_UNLIKELY = 0.05
"""A text is in another language where each of the two is likely in its own place, and unlikely in the other's.

Passages among those of another document, by how many characters they have: 88 % of 80 are found, 97 % of 160, 98 % of 320;
41 % of 40, most of which have too few words. False alarms: none of ``dev``; 2 % of documents that do mix languages, such as
a manual of LaTeX for Hebrew, nearly all of which change it there. With the language named in the corpus file 95 % of 300
are found, and 1 % are false."""

_NAMES = (
    "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Ethiopic", "Devanagari", "Bengali",
    "Gujarati", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan",
    "Hangul",
)  # fmt: skip
_SCRIPTS = {
    **{name: regex.compile(rf"\p{{{name}}}") for name in _NAMES},
    "Han": regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}]"),
}
"""Chinese and Japanese share one: which of them it is, is a matter of language."""


def is_foreign(text: str, around: Surroundings, languages: LanguageDetector | None, *, of_words: bool = False) -> bool:
    """Return whether a text is in another language than is wanted, as far as that is certain.

    ``of_words`` counts the words that it is made of among what says which that is; those recognised in a figure don't.
    """
    own = around.words if of_words else ""
    beside = "\n".join(filter(None, (around.caption, around.section, around.before, around.after, own, around.title)))
    wanted = around.language.replace("_", "-").partition("-")[0].casefold()
    if not wanted and _is_of_another_script(text, beside):
        return True
    known = [text] if wanted else [text, beside]
    if languages is None or any(len(words_of(words)) < _FEWEST_WORDS for words in known):
        return False
    got, expected = languages.probabilities(text), {wanted: 1.0} if wanted else languages.probabilities(beside)
    likeliest, awaited = max(got, key=lambda code: got[code]), max(expected, key=lambda code: expected[code])
    return (
        min(got[likeliest], expected[awaited]) >= _LIKELY
        and max(got.get(awaited, 0.0), expected.get(likeliest, 0.0)) < _UNLIKELY
    )


def _is_of_another_script(text: str, beside: str) -> bool:
    own, other = _letters(text), _letters(beside)
    if min(sum(own.values()), sum(other.values())) < _FEWEST_LETTERS:
        return False
    script = max(own, key=lambda name: own[name])
    return own[script] >= _SCRIPT_SHARE * sum(own.values()) and other[script] <= _SCRIPT_TRACE * sum(other.values())


def _letters(text: str) -> dict[str, int]:
    return {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}


# Form

_MARKDOWN = regex.compile(
    r"(?m)\*\*[^*\n]{1,500}+\*\*|^[ \t]{0,3}#{1,6}[ \t]++\S|^[ \t]*+```|^[ \t]*+\|?[ \t]*+:?-{3,}+:?[ \t]*+\|"
    r"|\[[^\[\]\n]{1,200}+\]\([^()\s]{1,2000}+\)"
    r"|</?(?:b|i|u|strong|em|h[1-6]|br|p|ul|ol|li|table|thead|tbody|tr|td|th|div|span|sup|sub)\b[^<>\n]{0,80}>"
)
_BULLET = regex.compile(r"(?m)^[ \t]*+(?:[-*+•‣▪●]|\d{1,2}[.)])[ \t]++\S")
_FEWEST_BULLETS = 2
"""A single line that begins with a dash may be a minus, or a quotation."""


def is_marked_up(text: str, *, bullets: bool) -> bool:
    """Return whether a text has marks of Markdown or HTML; a list counts where bullets aren't asked for."""
    if _MARKDOWN.search(text):
        return True
    return not bullets and len(_BULLET.findall(text)) >= _FEWEST_BULLETS


# Numbers

_NUMBER = regex.compile(r"(?<![\p{L}\p{N}])\p{Nd}{1,15}+(?:[.,'’\u00a0\u202f]\p{Nd}{1,15}+){0,5}(?![\p{L}\p{N}])")
_MOST_MISSING = 0.5
_FEWEST_NUMBERS = 3
"""Share of a figure's numbers that may be missing, and how few numbers say nothing. 22 % of the 1,503 figures of ``dev``
have as many; all of their 50 captions lack most of them, for captions don't repeat what is seen: a doubt, no more."""
_SEPARATORS = regex.compile(r"[.,'’\u00a0\u202f]")


def lacks_numbers(text: str, words: str) -> bool:
    """Return whether most of the numbers that were read in a figure are missing.

    Those that go in even steps, as along an axis, aren't looked for, nor are digits that stand alone.
    """
    seen = _informative(_numbers(words))
    if len(seen) < _FEWEST_NUMBERS:
        return False
    return len(seen - _numbers(text)) > _MOST_MISSING * len(seen)


def _numbers(text: str) -> set[str]:
    """Return numbers of two digits or more as their digits alone: 1,024.0 and 1.024,0 are written in two countries."""
    found = (_SEPARATORS.sub("", number) for number in _NUMBER.findall(text))
    return {digits for digits in found if len(digits) > 1}


def _informative(numbers: set[str]) -> set[str]:
    values = sorted({int(number) for number in numbers})
    steps = [later - earlier for earlier, later in pairwise(values)]
    even: set[int] = set()
    for at in range(len(steps) - 1):
        if steps[at] == steps[at + 1]:
            even.update(values[at : at + 3])
    return {number for number in numbers if int(number) not in even}


def lacks_page_number(text: str, page: str) -> bool:
    """Return whether a printed page number isn't among a text's words."""
    number = regex.escape(page.strip())
    return (
        bool(number) and regex.search(rf"(?<![\p{{L}}\p{{N}}]){number}(?![\p{{L}}\p{{N}}])", text, regex.IGNORECASE) is None
    )
