"""Questions that the rows of a manual answer, made of what its author wrote beside them."""

import random
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urldefrag

from bench.train_reranker.manuals import INDEX_PAGE, NUMBERING, Manual, Row, spaced
from tasks.answering.highlight import content_words, sentences

ERROR = re.compile(
    r"\b(?:error|failed|cannot|can't|unable|denied|invalid|not found|refused|missing|warning)\b", re.IGNORECASE
)
PRONOUN = re.compile(
    r"\b(?:it|this|that|these|those|they|there|which|we|he|she|here|what|such|i)\b|^(?:you|each|all|one)\b", re.IGNORECASE
)

FROM_SENTENCES = r"""
To (?!(?:some|this|that|the|an?|date|your|our|its|what|which) )([a-z][a-z-]+ [^,]{6,70}), \S.{15,}
    How do I {0}? / How can I {0}? / What must I do to {0}? / {0}
If ([^,]{10,80}), \S.{15,}
    What happens if {0}? / What should I do if {0}?
(.{3,50}?) (?:is|are|can be) used (?:to|for) ([^.;]{8,80}).*
    What is {0} used for? / What can be used to {1}? / {0}
(.{10,80}?),? because ([^.]{10,})\.?
    Why {0}? / What is the reason that {0}?
The default(?: value| setting)? (?:of|for) ([^.,]{3,50}?) is ([^.]+)\.?
    What is the default of {0}? / default {0}
You (?:can|may|should|must) ([a-z]+ [^.]{8,70}?) (?:by|with|using) .{5,}
    How can I {0}? / How do I {0}? / {0}
(?:The |An? )?((?:[\w-]+ ){0,3}[\w-]+) (?:is|are) (?:an? |the ).{15,}
    What is {0}? / What does {0} mean? / {0}
(.{3,50}?) (specifies|controls|determines|sets|defines|describes|contains|provides|supports|requires) ([^.]{8,80}).*
    What {1} {2}? / Which {1} {2}? / What does {0} do?
(.{3,50}?) (?:ha(?:s|ve)|supports?|contains?|takes?) (?:up to |at most |about )?(?:\d[\d.,]*|two|three|four|five|six|eight|ten) ([a-z]+s)\b.*
    How many {1} does {0} have? / number of {1} of {0}
([^,.]{10,70}) (?:until|after|before|when) ([^,.]{10,70})\.?
    What happens when {1}?
""".strip().splitlines()  # noqa: E501
"""What a sentence says, and under it questions that it answers; a pattern's groups are the gaps."""

SYNONYMS = (
    "delete/remove show/display create/make choose/select begin/start directory/folder change/modify use/employ set/configure "
    "find/locate allow/permit stop/end build/compile print/output several/multiple picture/image error/problem need/require "
    "get/obtain fix/repair maximum/largest minimum/smallest value/setting quick/fast run/execute send/transmit"
)
SYNONYM = {word: other for pair in SYNONYMS.split() for word, other in (pair.split("/"), pair.split("/")[::-1])}


Asked = tuple[str, str, int, str]
"""Kind, question, index of the row, and the words in it that answer ("" where the row as a whole does)."""


def asked(manual: Manual, rows: Sequence[Row], chance: random.Random) -> Iterator[Asked]:
    """Yield questions that rows answer, by what the author of a manual wrote beside them."""
    first_row: dict[int, int] = {}
    for index, row in enumerate(rows):
        first_row.setdefault(row.section, index)
    for index in first_row.values():
        title = (rows[index].path or ("",))[-1]
        if title.endswith("?"):
            yield "faq", title, index, rows[index].blocks[0][1]
        elif 2 <= len(title.split()) <= 12 and rows[index].first == 0:
            yield "heading", _from_title(title, chance), index, ""
    for page, target, words, before in manual.links:
        path, anchor = urldefrag(unquote(target))
        folder = page.rpartition("/")[0]
        goal = f"{_joined(folder, path) if path else page}#{anchor}"
        section, block = manual.anchors.get(goal, (-1, 0))
        here = [n for n, row in enumerate(rows[first_row[section] : first_row[section] + 40], first_row[section])
                if row.section == section and row.first <= block] if section in first_row else []  # fmt: skip
        if not here:
            continue
        if INDEX_PAGE.search(page.rpartition("/")[2]):
            term = re.sub(r"[\[(].*|,\s*$|.*\|", "", before or words).strip(" ,;:")
            if 1 <= len(term.split()) <= 6 and re.match(r"\W{0,2}[A-Za-z]{3}", term):
                yield "index", _from_term(term, chance), here[-1], ""
        elif 3 <= len(words.split()) <= 12 and not re.search(
            r"\b(?:here|section|chapter|page|next|previous|see|table|figure|http)\b", words, re.IGNORECASE
        ):
            yield "link", _from_title(words.strip("[]() "), chance), here[-1], ""
    for index, row in enumerate(rows):
        yield from _inside(row, index, chance)


def _inside(row: Row, index: int, chance: random.Random) -> Iterator[Asked]:
    for (kind, term), (next_kind, text) in zip(row.blocks, row.blocks[1:], strict=False):
        if kind == "dt" and next_kind in ("dd", "p") and len(term.split()) <= 8 and len(text.split()) > 5:
            option = term.lstrip().startswith("-")
            yield ("option" if option else "term"), _from_term(term, chance, option=option), index, text
    head: list[str] = []
    for kind, text in row.blocks:
        cells = [cell.strip() for cell in text.split(" | ")]
        if kind == "th":
            head = cells
        elif kind == "tr" and len(cells) == len(head) > 1 and 1 <= len(cells[0].split()) <= 6:
            column = chance.randrange(1, len(head))
            if cells[column] and len(head[column].split()) <= 4:
                forms = ("What is the {0} of {1}?", "Which {0} does {1} have?", "{1} {0}", "What {0} is given for {1}?")
                yield "cell", varied(chance.choice(forms).format(head[column].lower(), cells[0]), chance), index, text
    for kind, text in row.blocks:
        if kind in ("caption", "figcaption") and 3 <= len(text.split()) <= 15:
            yield "caption", _from_title(NUMBERING.sub("", text), chance), index, ""
        if kind not in ("p", "li", "dd"):
            continue
        for quoted in re.findall(r"[\"“]([^\"”]{12,90})[\"”]", text):
            if ERROR.search(quoted) and len(text.split()) > len(quoted.split()) + 12:
                yield (
                    "error",
                    chance.choice(('What does "{}" mean?', "{}", "I get the message {}")).format(quoted),
                    index,
                    text,
                )
        for start, end in sentences(text):
            if made := _from_sentence(text[start:end].strip(), chance):
                yield "sentence", made, index, text[start:end]


def _from_sentence(sentence: str, chance: random.Random) -> str | None:
    if not 8 <= len(sentence.split()) <= 45:
        return None
    for pattern, questions in zip(FROM_SENTENCES[::2], FROM_SENTENCES[1::2], strict=True):
        said = re.fullmatch(pattern, sentence)
        if said is not None and not any(PRONOUN.search(" ".join(part.split()[:4])) for part in said.groups()):
            gaps = [part[:1].lower() + part[1:] if part[1:2].islower() else part for part in said.groups()]
            return varied(chance.choice(questions.strip().split(" / ")).format(*gaps), chance)
    return None


def _from_title(title: str, chance: random.Random) -> str:
    words = title.rstrip("?.: ").split() or [title]
    lower = " ".join([words[0].lower() if words[0][1:].islower() else words[0], *words[1:]])
    if words[0].lower().endswith("ing") and len(words[0]) > 5:
        forms: tuple[str, ...] = (
            "How do I go about {}?",
            "How does {} work?",
            "{}",
            "What should I know about {}?",
            "Where is {} explained?",
        )
    elif words[0].lower() in ("how", "what", "why", "when", "where", "which"):
        forms = ("{}?", "{}")
    else:
        forms = ("What is {}?", "What are {}?", "How does {} work?", "{}", "Tell me about {}", "Which {} are there?")
    return varied(chance.choice(forms).format(lower), chance)


def _from_term(term: str, chance: random.Random, *, option: bool = False) -> str:
    forms = (
        ("What does {} do?", "What is {} for?", "{}")
        if option
        else ("What is {}?", "What does {} mean?", "{}", "Explain {}")
    )
    return varied(chance.choice(forms).format(term), chance)


def varied(question: str, chance: random.Random) -> str:
    """Return a question with some words replaced by synonyms or left out, so that it isn't the passage's wording."""
    words = [SYNONYM.get(word, word) if chance.random() < 0.6 else word for word in question.split()]
    if len(words) > 6:
        words = [word for word in words if word[:1].isupper() or chance.random() > 0.08]
    keywords = spaced(content_words(" ".join(words)))
    return keywords if keywords and chance.random() < 0.12 else " ".join(words)


def _joined(folder: str, path: str) -> str:
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)
