"""Check a model's description of a figure, page or text by its words alone.

Refusing flags must hardly ever be wrong, for the reply was paid for; warnings may be. Rates of false alarms are of 35,438
passages and 512 captions in 34 languages, written by people; rates found are of faults made from them (decision 10).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import regex

from schemas.corpus.models import EntryKind
from schemas.models import Description, Flag
from schemas.ports import LanguageDetector
from tasks.enriching.prompts import Prompt, Surroundings

QUALITY_VERSION = "1"
"""Goes up when the same description gets other flags."""


def missing_input(kind: EntryKind, around: Surroundings) -> Flag | None:
    """Return why a model can't describe it: a model that reads words needs some. None if it can."""
    return None if kind.sees or words_of(around.words) else Flag.NO_TEXT


def flags(
    description: Description, prompt: Prompt, around: Surroundings, *, languages: LanguageDetector | None = None
) -> tuple[Flag, ...]:
    """Return the flags of a stored reply, in the order of ``Flag``; without ``languages`` only another script is noticed."""
    if description.failure is not None:
        return (Flag.FAILED,)
    text = description.text
    words = words_of(text)
    if not words:
        return (Flag.EMPTY,)
    least_words, most_words = prompt.words or (0, len(words))
    count = length(text)
    has_flag = {
        Flag.TOO_SHORT: count < least_words,
        Flag.TOO_LONG: count > most_words,
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
    return tuple(flag for flag in Flag if has_flag.get(flag))


_OF_WORDS = frozenset({"page", "text"})
"""Subjects whose own words determine the expected language."""


# Words

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
_WORD = regex.compile(rf"(?V1)[{_UNSPACED}]\p{{M}}*|{_SPACED}(?:(?:{_SPACED}|[\p{{M}}'’.,_/-])*(?:{_SPACED}|\p{{M}}))?")
_UNSPACED_LETTER = regex.compile(rf"[{_UNSPACED}]")
_LETTERS_A_WORD = {"Han": 1.5, "Hiragana": 2.0, "Katakana": 3.0, "Thai": 4.0, "Lao": 4.0, "Khmer": 4.5, "Myanmar": 4.5}
"""Letters of an average word in scripts without spaces."""
_SCRIPT_OF = {name: regex.compile(rf"\p{{{name}}}") for name in _LETTERS_A_WORD}


def words_of(text: str) -> list[str]:
    """Return words and numbers, folded; in scripts without spaces each letter."""
    return [word.casefold() for word in _WORD.findall(text)]


def length(text: str) -> int:
    """Return about how many words a text has, in any script."""
    spaced = sum(1 for word in words_of(text) if not _UNSPACED_LETTER.match(word))
    unspaced = sum(len(pattern.findall(text)) / _LETTERS_A_WORD[name] for name, pattern in _SCRIPT_OF.items())
    return spaced + round(unspaced)


# Repetition

_WINDOW = 60
_LEAST_DISTINCT = 0.25
"""Window of words, and the minimum share of distinct words in it (type-token ratio)."""

_LOOP_WORDS = 20
_LOOP_TURNS = 4
_LONGEST_TURN = 100
_LOOKED_AT = 2_000
"""Window of last words; then minimum turns and words of a loop, and maximum words of a turn.

Of loops of 1 to 25 words and 4 to 20 turns, 86 to 98 % are found. False alarms: 10 of 8,035 passages, all forms or remains
of tables.
"""


def repeats(words: Sequence[str]) -> bool:
    """Return whether words form a loop, perhaps with counting numbers, or hardly differ."""
    # Windows overlap by half, so that their edges hide no repetition.
    starts = range(0, len(words) - _WINDOW + 1, _WINDOW // 2)
    if any(len(set(words[start : start + _WINDOW])) < _LEAST_DISTINCT * _WINDOW for start in starts):
        return True
    last = words[-_LOOKED_AT:]
    counted = ["0" if word[0].isdecimal() else word for word in last]
    periods = range(1, min(_LONGEST_TURN, len(last) // _LOOP_TURNS) + 1)
    return any(_turns(last, period) or _turns(counted, period, numbers=False) for period in periods)


def _turns(words: Sequence[str], period: int, *, numbers: bool = True) -> bool:
    """Return whether the last words repeat often enough; without ``numbers``, only if most aren't numbers."""
    # ``run`` counts words in a row that are equal to the word one period before.
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
"""Words in a row that a description may not share with its prompt's instructions; no passage or caption has as many."""
_CHAT_MARKS = regex.compile(r"<\|[\w ]{1,40}\|>|</?think>|\[/?INST\]|<start_of_turn>|<end_of_turn>")


def echoes(text: str, words: Sequence[str], instructions: str) -> bool:
    """Return whether a text repeats the instructions, or has marks of a chat."""
    if _CHAT_MARKS.search(text):
        return True
    instructed = words_of(instructions)
    size = min(_ECHO_RUN, len(instructed))
    if not size or len(words) < size:
        return False
    runs = set(_runs(instructed, size))
    return any(run in runs for run in _runs(words, size))


def _runs(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1))


# Language

_FEWEST_LETTERS = 12
"""Letters from which on a text has a script."""
_SCRIPT_SHARE = 0.7
_SCRIPT_TRACE = 0.03
"""Shares of letters that decide another script. False alarms: none of 1,000 passages of ``dev``."""

_FEWEST_WORDS = 8
_LIKELY = 0.5
_UNLIKELY = 0.05
"""Probabilities that decide another language.

Found: 88 % of passages of 80 characters, 97 % of 160. False alarms: none of ``dev``; 2 % of documents that mix languages.
"""

_NAMES = (
    "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Ethiopic", "Devanagari", "Bengali",
    "Gujarati", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan",
    "Hangul",
)  # fmt: skip
_SCRIPTS = {
    **{name: regex.compile(rf"\p{{{name}}}") for name in _NAMES},
    "Han": regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}]"),
}
"""Chinese and Japanese share one; the language tells them apart."""


def is_foreign(text: str, around: Surroundings, languages: LanguageDetector | None, *, of_words: bool = False) -> bool:
    """Return whether a text is certainly in another language than wanted; ``of_words``: the words read determine that."""
    read_words = around.words if of_words else ""
    beside = "\n".join(
        filter(None, (around.caption, around.section, around.before, around.after, read_words, around.title))
    )
    wanted_code = around.language.replace("_", "-").partition("-")[0].casefold()
    if not wanted_code and _is_of_another_script(text, beside):
        return True
    texts = [text] if wanted_code else [text, beside]
    if languages is None or any(len(words_of(words)) < _FEWEST_WORDS for words in texts):
        return False
    got, expected = languages.probabilities(text), {wanted_code: 1.0} if wanted_code else languages.probabilities(beside)
    likeliest, awaited = max(got, key=lambda code: got[code]), max(expected, key=lambda code: expected[code])
    return (
        min(got[likeliest], expected[awaited]) >= _LIKELY
        and max(got.get(awaited, 0.0), expected.get(likeliest, 0.0)) < _UNLIKELY
    )


def _is_of_another_script(text: str, beside: str) -> bool:
    text_letters, beside_letters = _letters(text), _letters(beside)
    if min(sum(text_letters.values()), sum(beside_letters.values())) < _FEWEST_LETTERS:
        return False
    script = max(text_letters, key=lambda name: text_letters[name])
    return text_letters[script] >= _SCRIPT_SHARE * sum(text_letters.values()) and beside_letters[
        script
    ] <= _SCRIPT_TRACE * sum(beside_letters.values())


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
    """Return whether a text has marks of Markdown or HTML; lists count unless bullets are expected."""
    if _MARKDOWN.search(text):
        return True
    return not bullets and len(_BULLET.findall(text)) >= _FEWEST_BULLETS


# Numbers

_NUMBER = regex.compile(r"(?<![\p{L}\p{N}])\p{Nd}{1,15}+(?:[.,'’\u00a0\u202f]\p{Nd}{1,15}+){0,5}(?![\p{L}\p{N}])")
_MOST_MISSING = 0.5
_FEWEST_NUMBERS = 3
"""Maximum share of missing numbers, and minimum number of numbers."""
_SEPARATORS = regex.compile(r"[.,'’\u00a0\u202f]")


def lacks_numbers(text: str, words: str) -> bool:
    """Return whether most numbers read in the figure are missing, without axis ticks and single digits."""
    read_numbers = _informative(_numbers(words))
    if len(read_numbers) < _FEWEST_NUMBERS:
        return False
    return len(read_numbers - _numbers(text)) > _MOST_MISSING * len(read_numbers)


def _numbers(text: str) -> set[str]:
    """Return numbers of at least two digits as digits alone: 1,024.0 and 1.024,0 are equal."""
    digit_groups = (_SEPARATORS.sub("", number) for number in _NUMBER.findall(text))
    return {digits for digits in digit_groups if len(digits) > 1}


def _informative(numbers: set[str]) -> set[str]:
    values = sorted({int(number) for number in numbers})
    steps = [later - earlier for earlier, later in pairwise(values)]
    # Three numbers at equal steps are taken for ticks of an axis.
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


_WITHIN = 160
"""Characters within which a refusal begins. Of 35,438 passages in 34 languages one has a false alarm."""

_GAP = r"[^.!?。！？।؟\n]{0,80}?"
"""Text between an excuse and an inability, in one sentence."""

_PICTURE = r"(?:image|picture|photo|figure|screenshot|attachment|document|page)s?"

_EXCUSES = (
    (  # en
        r"\b(?:sorry|apologi[sz]e|apologies|unfortunately|regret)\b",
        r"\b(?:I|we)\b[^.!?\n]{0,20}?(?:\b(?:can(?:no|['’])?t|unable|not able|won['’]?t)\b|\bdo(?:n['’]t| not) have\b)",
    ),
    (r"\b(?:tut mir leid|leider|entschuldig\w+|bedau[er]+e)\b", r"\bich\b[^.!?\n]{0,60}?\b(?:nicht|kein\w*)\b"),  # de
    (r"\b(?:het spijt me|sorry|helaas)\b", r"\bik\b[^.!?\n]{0,60}?\b(?:niet|geen)\b"),  # nl
    (r"(?:désolée?|malheureusement|je regrette)\b", r"\bje\b[^.!?\n]{0,30}?\b(?:pas|incapable)\b"),  # fr
    (r"\b(?:lo siento|disculp[ae]|lamentablemente|lamento)\b", r"\bno (?:puedo|soy capaz|me es posible|tengo)\b"),  # es
    (  # pt
        r"\b(?:desculp[ae]|lamento|infelizmente|sinto muito)\b",
        r"\bnão (?:posso|consigo|sou capaz|me é possível|tenho)\b",
    ),
    (r"\b(?:mi dispiace|purtroppo|spiacente)\b", r"\bnon (?:posso|riesco|sono in grado|ho)\b"),  # it
    (r"\b(?:ho sento|malauradament)\b", r"\bno (?:puc|soc capaç|tinc)\b"),  # ca
    (r"(?:îmi pare rău|din păcate)\b", r"\bnu (?:pot|sunt capabil|am)\b"),  # ro
    (r"\b(?:przepraszam|przykro mi|niestety)\b", r"\bnie (?:mogę|jestem w stanie|widzę|potrafię)\b"),  # pl
    (r"\b(?:omlouvám se|bohužel|promiňte)\b", r"\b(?:nemohu|nemůžu|nedokážu|nejsem schop\w+|nevidím)\b"),  # cs
    (r"\b(?:извините|к сожалению|простите|прошу прощения)\b", r"\bне (?:могу|вижу|в состоянии|имею)\b"),  # ru
    (r"\b(?:вибачте|на жаль|перепрошую)\b", r"\bне (?:можу|бачу|маю)\b"),  # uk
    (r"\b(?:tyvärr|förlåt|beklagar|ursäkta)\b", r"\bjag\b[^.!?\n]{0,40}?\b(?:inte|ingen)\b"),  # sv
    (r"\b(?:beklager|desværre|dessverre|undskyld)\b", r"\bjeg\b[^.!?\n]{0,40}?\b(?:ikke|ingen)\b"),  # da
    (r"\b(?:pahoittelen|valitettavasti|anteeksi)\b", r"\ben (?:voi|pysty|näe|osaa)\b"),  # fi
    (r"\b(?:sajnálom|sajnos|elnézést)\b", r"\bnem (?:tudok|tudom|látom|áll módomban)\b"),  # hu
    (r"\b(?:üzgünüm|maalesef|özür dilerim)\b", r"(?:amıyorum|emiyorum|amam|emem)\b"),  # tr
    (r"(?:λυπάμαι|συγγνώμη|δυστυχώς)", r"\bδεν (?:μπορώ|έχω|είμαι)\b"),  # el
    (r"\b(?:xin lỗi|rất tiếc)\b", r"\bkhông (?:thể|có)\b"),  # vi
    (r"\b(?:maaf|sayangnya)\b", r"\bsaya\b[^.!?\n]{0,20}?\btidak (?:bisa|dapat|mampu)\b"),  # id
    (r"(?:抱歉|对不起|對不起|很遗憾|很遺憾)", r"(?:无法|不能|無法|看不到)"),  # zh
    (r"(?:申し訳|すみません|ごめんなさい|残念ながら)", r"(?:できません|できかね|ません)"),  # ja
    (r"(?:죄송|미안|유감)", r"(?:수 없습니다|수 없어요|못합니다)"),  # ko
    (r"(?:عذر|آسف|للأسف|أعتذر)", r"(?:لا أستطيع|لا يمكنني|لست قادر|غير قادر)"),  # ar
    (r"(?:متأسف|متاسف|ببخشید|پوزش)", r"نمی[\u200c ]?توانم"),  # fa
    (r"(?:מצטער|סליחה|לצערי)", r"(?:לא יכול|לא ניתן|לא אוכל|איני)"),  # he
    (r"(?:क्षमा|खेद|माफ़)", r"(?:नहीं|असमर्थ)"),  # hi
    (r"(?:ขออภัย|ขอโทษ|เสียใจ)", r"ไม่สามารถ"),  # th
)
"""By language: an excuse, and an inability in the same sentence."""

_OUTRIGHT = (
    rf"\bI(?:['’]m|\s+am)?\s+(?:can(?:no|['’])?t|unable to|not able to)\s+(?:\w+\s+){{0,2}}?(?:see|view|access|analy[sz]e|"
    rf"describe|assist|help|identify|comply|fulfil+|interpret|process)\b[^.!?\n]{{0,40}}?\b(?:{_PICTURE}|this|that|with|request)\b",
    r"\bas an? (?:AI|artificial intelligence|(?:large )?language model|text-based (?:AI|model|assistant))\b",
    rf"\bno {_PICTURE} (?:was|is|were|has been|have been|seems?|appears?)\b[^.!?\n]{{0,20}}?\b(?:provided|attached|uploaded)\b",
    rf"\bplease (?:provide|upload|share|attach|send) (?:me )?(?:the|an?|your|that) (?:\w+ )?{_PICTURE}\b"
    r"[^.!?\n]{0,40}?\b(?:describe|assist|help|I|me)\b",
    r"\bich kann (?:das|dieses|ihnen|dir|dabei)\b[^.!?\n]{0,60}?\bnicht (?:sehen|helfen|beschreiben|erkennen|beantworten)",
    r"\bals (?:KI|künstliche Intelligenz|Sprachmodell)\b",
    r"\bals (?:een )?(?:AI|taalmodel)\b",
    r"\bje ne (?:peux|puis|suis) pas\b[^.!?\n]{0,30}?\b(?:voir|aider|décrire|analyser|capable|mesure)\b",
    r"\ben tant qu['’](?:IA|intelligence artificielle)\b|\ben tant que modèle de langage\b",
    r"\bno puedo (?:ver|ayudar|describir|analizar|asistir)\w*\b",
    r"\bcomo (?:una )?(?:IA|inteligencia artificial|modelo de lenguaje)\b",
    r"\bnão (?:posso|consigo) (?:ver|ajudar|descrever|analisar)\b|\bcomo (?:um )?modelo de linguagem\b",
    r"\bnon (?:posso|sono in grado di) (?:vedere|aiutar|descrivere|analizzare)\w*|\bcome modello linguistico\b",
    r"\bкак (?:ИИ|искусственный интеллект|языковая модель)\b",
    r"作为(?:一个|一名)?(?:AI|人工智能|语言模型)|我(?:无法|不能|無法|看不到)(?:直接)?(?:查看|看到|识别|描述)",
    r"AI(?:として|アシスタント|言語モデル)",
    r"AI(?:로서| 언어 모델)",
)
"""Refusals without an excuse: an inability to see or help, a self-description, a request for the picture."""

_REFUSAL = regex.compile(
    "|".join([*(f"(?:{excuse}){_GAP}(?:{inability})" for excuse, inability in _EXCUSES), *_OUTRIGHT]),
    regex.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Return whether a text begins with a refusal."""
    # A refusal begins within the limit, and may end behind it.
    refusal = _REFUSAL.search(text[: 2 * _WITHIN])
    return refusal is not None and refusal.start() <= _WITHIN
