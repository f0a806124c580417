"""Train a small cross-encoder from manuals in HTML: ``python -m bench.train_reranker STEP …`` (docs/reranker.md).

``data MANUALS GROUPS --apart FOLDER …`` writes questions with passages, JSONL. MANUALS holds a folder a manual; what the PDFs and
question files of the folders ``--apart`` share with it, by digest or by 13 words in a row, is left out and counted.
``train GROUPS MODEL`` trains a ranker with two outputs, how well a passage ranks and whether it answers, from MiniLM's weights, and
writes it in 8 bits as ONNX; the same data and seed give the same bytes on the same processor. ``test GROUPS MODEL`` measures it on
manuals that were not trained on; ``rank CORPUS QUESTIONS MODEL`` on the rows that presets find for a corpus's questions.
"""

import argparse
import hashlib
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import numpy as np

from schemas.ports import Vector
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words, sentences

SEED = 63
TEST_MANUALS = ("bind9-doc", "borgbackup-doc", "gammu-doc", "hplip-doc", "rt5-doc-html")
"""Manuals that are kept for ``test``."""

FILES_A_MANUAL, GROUPS_A_KIND = 350, 130
"""Most pages of a manual, and most questions of one kind from it, so that no manual outweighs the others."""

ROW_WORDS, WINDOW_WORDS, STRIDE = 150, 56, 14
"""Words of a row, of the part of it that is judged, and between the beginnings of such parts."""

PATH_WORDS = 14
QUESTION_TOKENS, TOKENS = 24, 96
RUN = 13
LEARNING_RATE, GROUPS_A_STEP = 8e-5, 8
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
SKIPPED = {"script", "style", "head", "nav", "form", "header", "footer", "select", "button"}
NAVIGATION = re.compile(r"nav|toc|sidebar|footer|header|related|breadcrumb|menu\b|search|contents", re.IGNORECASE)
INDEX_PAGE = re.compile(r"genindex|bookindex|theindex|^ix\d+|Index", re.IGNORECASE)
BLOCKS = {"p", "li", "dt", "dd", "pre", "caption", "figcaption", "tr", "blockquote", "div", "td", "h1", "h2", "h3", "h4", "h5", "h6"}
NUMBERING = re.compile(r"^(?:(?:chapter|appendix|section|part)\s+)?(?:[\dA-Z]{1,2}(?:\.\d+)*)[.:)]?\s*[-–—]?\s+(?=\S)|[¶§#]\s*$", re.IGNORECASE)
ERROR = re.compile(r"\b(?:error|failed|cannot|can't|unable|denied|invalid|not found|refused|missing|warning)\b", re.IGNORECASE)
PRONOUN = re.compile(r"^(?:it|this|that|these|those|they|you|there|which|we|he|she|here|what|one|such|each|all|i)\b", re.IGNORECASE)

FROM_SENTENCES: Sequence[tuple[str, tuple[str, ...]]] = (
    (r"To (?!(?:some|this|that|the|an?|date|your|our|its|what|which) )([a-z][a-z-]+ [^,]{6,70}), \S.{15,}", ("How do I {0}?", "How can I {0}?", "What must I do to {0}?", "{0}")),
    (r"If ([^,]{10,80}), \S.{15,}", ("What happens if {0}?", "What should I do if {0}?")),
    (r"(.{3,50}?) (?:is|are|can be) used (?:to|for) ([^.;]{8,80}).*", ("What is {0} used for?", "What can be used to {1}?", "{0}")),
    (r"(.{10,80}?),? because ([^.]{10,})\.?", ("Why {0}?", "What is the reason that {0}?")),
    (r"The default(?: value| setting)? (?:of|for) ([^.,]{3,50}?) is ([^.]+)\.?", ("What is the default of {0}?", "default {0}")),
    (r"You (?:can|may|should|must) ([a-z]+ [^.]{8,70}?) (?:by|with|using) .{5,}", ("How can I {0}?", "How do I {0}?", "{0}")),
    (r"(?:The |An? )?((?:[\w-]+ ){0,3}[\w-]+) (?:is|are) (?:an? |the ).{15,}", ("What is {0}?", "What does {0} mean?", "{0}")),
    (r"(.{3,50}?) (specifies|controls|determines|sets|defines|describes|contains|provides|supports|requires) ([^.]{8,80}).*",
     ("What {1} {2}?", "Which {1} {2}?", "What does {0} do?")),
    (r"(.{3,50}?) (?:has|have|supports?|contains?|takes?) (?:up to |at most |about )?(?:\d[\d.,]*|two|three|four|five|six|eight|ten) ([a-z]+s)\b.*",
     ("How many {1} does {0} have?", "number of {1} of {0}")),
    (r"([^,.]{10,70}) (?:until|after|before|when) ([^,.]{10,70})\.?", ("What happens when {1}?", "When does {0}?")),
)
"""What a sentence says, and questions that it answers; a pattern's groups are the gaps."""

SYNONYMS = [pair.split("/") for pair in (
    "delete/remove show/display create/make choose/select begin/start directory/folder change/modify use/employ set/configure "
    "find/locate allow/permit stop/end build/compile print/output several/multiple picture/image error/problem need/require "
    "get/obtain fix/repair maximum/largest minimum/smallest value/setting quick/fast run/execute send/transmit"
).split()]  # fmt: skip
SYNONYM = {word: other for first, second in SYNONYMS for word, other in ((first, second), (second, first))}


@dataclass
class Section:
    """A heading with its text: the kind of each block is its HTML element."""

    path: tuple[str, ...]
    page: str
    blocks: list[tuple[str, str]] = field(default_factory=list)


class Manual(HTMLParser):
    """Pages of one manual: sections in order, where anchors are, and links."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[Section] = []
        self.anchors: dict[str, tuple[int, int]] = {}
        self.links: list[tuple[str, str, str, str]] = []  # page, target, its words, the words before it in its block

    def read(self, page: str, html: str) -> None:
        """Read a page; ``page`` is its path."""
        self.reset()
        self._page, self._titles = page, dict[int, str]()
        self._open: list[str] = []
        self._skipped: int | None = None
        self._words: list[str] = []
        self._link: tuple[str, int] | None = None
        self.sections.append(Section((), page))
        self._anchor("")
        self.feed(html)
        self._flush()

    def _anchor(self, name: str) -> None:
        self.anchors.setdefault(f"{self._page}#{name}", (len(self.sections) - 1, len(self.sections[-1].blocks)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        values = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self._words.append(" ")
            return
        if tag in BLOCKS and not (tag in ("p", "div", "td", "li") and "tr" in self._open and tag != "tr"):
            self._flush()
        self._open.append(tag)
        if self._skipped is None and (
            tag in SKIPPED or (tag in ("div", "ul", "table", "td", "p") and NAVIGATION.search(f"{values.get('class', '')} {values.get('id', '')[:12]}"))
        ):
            self._skipped = len(self._open)
        for name in {values.get("id"), values.get("name") if tag == "a" else None} - {None, ""}:
            self._pending = str(name)
            self._anchor(str(name))
        if tag == "a" and values.get("href") and self._skipped is None:
            self._link = (values["href"], len(self._words))
        if tag in ("td", "th") and self._words:
            self._words.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and those in it that were left open."""
        if tag not in self._open:
            return
        if tag == "a" and self._link is not None:
            target, start = self._link
            words, before = _spaced("".join(self._words[start:])), _spaced("".join(self._words[:start]))
            self.links.append((self._page, target, words, before))
            self._link = None
        if tag in BLOCKS and not (tag in ("p", "div", "td", "li") and "tr" in self._open):
            self._flush()
        while self._open.pop() != tag:
            pass
        if self._skipped is not None and len(self._open) < self._skipped:
            self._skipped = None

    def handle_data(self, data: str) -> None:
        """Add words."""
        if self._skipped is None:
            self._words.append(data)

    def _flush(self) -> None:
        text, self._words, self._link = _spaced("".join(self._words)), [], None
        if not text:
            return
        kind = next((tag for tag in reversed(self._open) if tag in BLOCKS and tag != "div"), "p")
        if re.fullmatch(r"h\d", kind):
            level = int(kind[1])
            self._titles = {n: title for n, title in self._titles.items() if n < level} | {level: NUMBERING.sub("", text)}
            moved = [name for name, at in self.anchors.items() if at == (len(self.sections) - 1, len(self.sections[-1].blocks))]
            self.sections.append(Section(tuple(self._titles[n] for n in sorted(self._titles)), self._page))
            self.anchors.update({name: (len(self.sections) - 1, 0) for name in moved[-4:] if not name.endswith("#")})
        else:
            self.sections[-1].blocks.append((kind, text))


def _spaced(text: str) -> str:
    return " ".join(text.replace("¶", " ").split())


@dataclass(frozen=True)
class Row:
    """Consecutive blocks of a section, as Inset's rows are."""

    section: int
    path: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]
    first: int = 0

    @property
    def text(self) -> str:
        """The words."""
        return " ".join(text for _, text in self.blocks)


def rows_of(manual: Manual) -> list[Row]:
    """Return the rows of a manual."""
    rows: list[Row] = []
    for number, section in enumerate(manual.sections):
        if INDEX_PAGE.search(section.page.rpartition("/")[2]):
            continue
        held: list[tuple[str, str]] = []
        first = 0
        for place, block in enumerate([*section.blocks, ("", "")]):
            if held and (not block[0] or sum(len(text.split()) for _, text in [*held, block]) > ROW_WORDS):
                rows.append(Row(number, section.path, tuple(held), first))
                held, first = [], place
            held.append((block[0], " ".join(block[1].split()[: ROW_WORDS * 2])))
    return [row for row in rows if 8 <= len(row.text.split())]


def window(question: str, text: str) -> str:
    """Return the part of a row with most of a question's words, the first of several."""
    words = text.split()
    if len(words) <= WINDOW_WORDS:
        return text
    terms = stems(content_words(question))
    hits = [(place, shared) for place, word in enumerate(words) if (shared := stems(word) & terms)]
    starts = range(0, len(words) - WINDOW_WORDS + STRIDE, STRIDE)
    best = max(starts, key=lambda s: len({w for at, shared in hits if s <= at < s + WINDOW_WORDS for w in shared}))
    return " ".join(words[best : best + WINDOW_WORDS])


def passage(question: str, path: Sequence[str], text: str) -> str:
    """Return what is judged of a row: its innermost headings, and its best part."""
    return f"{' '.join(' › '.join(path).split()[-PATH_WORDS:])}: {window(question, text)}"


# Questions


Asked = tuple[str, str, int, str]
"""Kind, question, index of the row, and the words in it that answer ("" where the row as a whole does)."""


def asked(manual: Manual, rows: Sequence[Row], chance: random.Random) -> Iterator[Asked]:
    """Yield questions that rows answer, by what the author of a manual wrote beside them."""
    first_row: dict[int, int] = {}
    for index, row in enumerate(rows):
        first_row.setdefault(row.section, index)
    for section, index in first_row.items():
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
            if 1 <= len(term.split()) <= 6 and len(term) > 3:
                yield "index", _from_term(term, chance), here[-1], ""
        elif 3 <= len(words.split()) <= 12 and not re.search(r"\b(?:here|section|chapter|page|next|previous|see|table|figure|http)\b", words, re.IGNORECASE):
            yield "link", _from_title(words.strip("[]() "), chance), here[-1], ""
    for index, row in enumerate(rows):
        yield from _inside(row, index, chance)


def _inside(row: Row, index: int, chance: random.Random) -> Iterator[Asked]:
    for (kind, term), (next_kind, text) in zip(row.blocks, row.blocks[1:], strict=False):
        if kind == "dt" and next_kind in ("dd", "p") and len(term.split()) <= 8 and len(text.split()) > 5:
            option = term.lstrip().startswith("-")
            yield ("option" if option else "term"), _from_term(term, chance, option=option), index, text
    for kind, text in row.blocks:
        if kind in ("caption", "figcaption") and 3 <= len(text.split()) <= 15:
            yield "caption", _from_title(NUMBERING.sub("", text), chance), index, ""
        if kind not in ("p", "li", "dd"):
            continue
        for quoted in re.findall(r"[\"“]([^\"”]{12,90})[\"”]", text):
            if ERROR.search(quoted) and len(text.split()) > len(quoted.split()) + 12:
                yield "error", chance.choice(('What does "{}" mean?', "{}", "I get the message {}")).format(quoted), index, text
        for start, end in sentences(text):
            if made := _from_sentence(text[start:end].strip(), chance):
                yield "sentence", made, index, text[start:end]


def _from_sentence(sentence: str, chance: random.Random) -> str | None:
    if not 8 <= len(sentence.split()) <= 45:
        return None
    for pattern, forms in FROM_SENTENCES:
        said = re.fullmatch(pattern, sentence)
        if said is not None and not any(PRONOUN.match(part) for part in said.groups()):
            gaps = [part[:1].lower() + part[1:] if part[1:2].islower() else part for part in said.groups()]
            return varied(chance.choice(forms).format(*gaps), chance)
    return None


def _from_title(title: str, chance: random.Random) -> str:
    words = title.split()
    lower = " ".join([words[0].lower() if words[0][1:].islower() else words[0], *words[1:]])
    if words[0].lower().endswith("ing") and len(words[0]) > 5:
        forms = ("How do I go about {}?", "How does {} work?", "{}", "What should I know about {}?", "Where is {} explained?")
    elif words[0].lower() in ("how", "what", "why", "when", "where", "which"):
        forms = ("{}?", "{}")
    else:
        forms = ("What is {}?", "What are {}?", "How does {} work?", "{}", "Tell me about {}", "Which {} are there?")
    return varied(chance.choice(forms).format(lower), chance)


def _from_term(term: str, chance: random.Random, *, option: bool = False) -> str:
    forms = ("What does {} do?", "What is {} for?", "{}") if option else ("What is {}?", "What does {} mean?", "{}", "Explain {}")
    return varied(chance.choice(forms).format(term), chance)


def varied(question: str, chance: random.Random) -> str:
    """Return a question with some words replaced by synonyms or left out, so that it isn't the passage's wording."""
    words = [SYNONYM.get(word, word) if chance.random() < 0.6 else word for word in question.split()]
    if len(words) > 6:
        words = [word for word in words if word[:1].isupper() or chance.random() > 0.08]
    keywords = _spaced(content_words(" ".join(words)))
    return keywords if keywords and chance.random() < 0.12 else " ".join(words)


def _joined(folder: str, path: str) -> str:
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


# Data


def write_groups(folder: Path, out: Path, apart: Sequence[Path]) -> None:
    """Write groups of a question with its passage, then wrong ones: ``kind``, ``manual``, ``question``, ``passages``, ``answers``."""
    runs, digests, questions = _kept_apart(apart)
    counts: Counter[str] = Counter()
    with out.open("w", encoding="utf-8") as lines:
        texts_of_others: list[str] = []
        for manual_folder in sorted(folder.iterdir()):
            chance = random.Random(f"{SEED} {manual_folder.name}")
            manual = Manual()
            for file in _english(manual_folder, chance):
                data = file.read_bytes()
                if hashlib.sha256(data).hexdigest() in digests:
                    counts["pages left out by digest"] += 1
                    continue
                manual.read(str(file.relative_to(manual_folder)), data.decode("utf-8", "replace"))
            rows = [row for row in rows_of(manual) if not _count(counts, "rows left out by 13 words", _runs(row.text) & runs)]
            counts["rows"] += len(rows)
            for group in _groups(manual_folder.name, manual, rows, texts_of_others, chance):
                if not _count(counts, "questions left out", {_plain(group["question"])} & questions):
                    counts[group["kind"]] += 1
                    lines.write(json.dumps(group, ensure_ascii=False) + "\n")
            texts_of_others += [row.text for row in chance.sample(rows, min(200, len(rows)))]
            print(manual_folder.name, len(rows), dict(counts), flush=True)


def _count(counts: Counter[str], name: str, shared: set[Any]) -> bool:
    counts[name] += bool(shared)
    return bool(shared)


def _english(folder: Path, chance: random.Random) -> list[Path]:
    """Return pages in English, as many as count."""
    files = sorted(file for file in folder.rglob("*.htm*") if file.is_file() and file.suffix in (".html", ".en", ".htm"))
    chance.shuffle(files)
    files.sort(key=lambda file: not INDEX_PAGE.search(file.name))
    kept: list[Path] = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        words = re.sub(r"<[^>]*>", " ", text).lower().split()
        if len(words) > 40 and sum(word in ("the", "of", "is", "and") for word in words) > 0.04 * len(words):
            kept.append(file)
        elif INDEX_PAGE.search(file.name):
            kept.append(file)
        if len(kept) == FILES_A_MANUAL:
            break
    return sorted(kept)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _runs(text: str) -> set[int]:
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[n : n + RUN])) for n in range(len(words) - RUN + 1)}


def _kept_apart(folders: Sequence[Path]) -> tuple[set[int], set[str], set[str]]:
    """Return runs of words of the PDFs of folders, digests of all files, and the questions of JSONL files."""
    import pymupdf

    runs, digests, questions = set[int](), set[str](), set[str]()
    for file in sorted(file for folder in folders for file in folder.rglob("*") if file.is_file()):
        digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
        if file.suffix == ".jsonl":
            records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
            questions |= {_plain(str(record["question"])) for record in records if "question" in record}
        elif file.suffix == ".pdf" and "hostile" not in file.parts:
            with pymupdf.open(file) as document:
                if not document.needs_pass:
                    runs |= _runs(" ".join(page.get_text() for page in document))
    print(f"{len(runs)} runs of {RUN} words, {len(digests)} files, {len(questions)} questions are kept apart")
    return runs, digests, questions


def _groups(
    name: str, manual: Manual, rows: Sequence[Row], others: Sequence[str], chance: random.Random
) -> Iterator[dict[str, Any]]:
    """Yield groups: the passage that answers is first; its twin without the answering words follows where these are known."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(rows) < 20:
        return
    by_kind: dict[str, dict[str, Asked]] = defaultdict(dict)
    for question in asked(manual, rows, chance):
        by_kind[question[0]].setdefault(_plain(question[1]), question)
    kept = [question for kind in sorted(by_kind) for question in _sampled([*by_kind[kind].values()], _most(kind), chance)]
    vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=r"(?u)\b\w[\w.-]*\b")
    texts = vectorizer.fit_transform(f"{' '.join(row.path[-2:])} {row.text}" for row in rows)
    similarities = vectorizer.transform(question for _, question, _, _ in kept) @ texts.T
    for number, (kind, question, index, answer) in enumerate(kept):
        row = rows[index]
        likeness = similarities[[number]].toarray()[0]
        ranked = [int(at) for at in np.argsort(-likeness, kind="stable")[:25] if likeness[at] > 0 and rows[at].section != row.section]
        near = [at for at in range(max(0, index - 4), min(len(rows), index + 5)) if rows[at].section != row.section]
        wrong = [rows[at] for at in dict.fromkeys([*chance.sample(ranked[:12], min(3, len(ranked[:12]))), *chance.sample(near, min(1, len(near)))])]
        # A heading that repeats the question would give the passage away: it is left out in half of the groups.
        cut = kind in ("heading", "faq", "link") and chance.random() < 0.6
        path = row.path[:-1] if cut else row.path
        text = row.text
        # The part that is judged holds the answer, whatever its words.
        shown = passage(question, path, text)
        if answer and answer[:40] not in shown:
            at = len(text[: text.find(answer[:40])].split()) if answer[:40] in text else 0
            shown = passage(question, path, " ".join(text.split()[max(0, at - 12) :][:WINDOW_WORDS]))
        passages, answers = [shown], [1]
        without = text.replace(answer, " ") if answer else ""
        if answer and len(without.split()) > 20:
            passages.append(passage(question, path, without))
            answers.append(0)
        for other in wrong:
            passages.append(passage(question, other.path[:-1] if cut and chance.random() < 0.5 else other.path, other.text))
            answers.append(0)
        if others and len(passages) < 5:
            passages.append(passage(question, (), chance.choice(others)))
            answers.append(0)
        if len(passages) > 2:
            yield {"kind": kind, "manual": name, "question": question, "passages": passages[:5], "answers": answers[:5]}


def _most(kind: str) -> int:
    return GROUPS_A_KIND * (3 if kind == "sentence" else 1)


def _sampled(questions: list[Asked], most: int, chance: random.Random) -> list[Asked]:
    return chance.sample(questions, min(most, len(questions)))


# The model


class Pairs:
    """Tokens of a question with passages; words that both have are marked by their segment, which few examples teach to find.

    Source:
        Boualili, Moreno and Boughanem, "MarkedBERT", SIGIR 2020: exact matches marked in the input.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._stem_by_id: dict[int, str] = {}
        for word, number in self._tokenizer.get_vocab().items():
            bare = word.removeprefix("##")
            if bare.isalnum() and content_words(f"{bare} x").strip() != "x":
                self._stem_by_id[number] = word[: len(word) - len(bare)] + next(iter(stems(bare)), bare)

    def __call__(self, question: str, passages: Sequence[str]) -> tuple[Vector, Vector, Vector]:
        """Return ids, segments and mask, shape ``(passages, tokens)``."""
        asked_ids = self._ids(question)[:QUESTION_TOKENS]
        texts = [self._ids(text)[: TOKENS - 3 - len(asked_ids)] for text in passages]
        length = -(-(max(map(len, texts)) + len(asked_ids) + 3) // 8) * 8
        ids, segments, mask = (np.zeros((len(texts), length), np.int64) for _ in range(3))
        asked_stems = {self._stem_by_id.get(number) for number in asked_ids} - {None}
        for row, text in enumerate(texts):
            shared = asked_stems & {self._stem_by_id.get(number) for number in text}
            tokens = [101, *asked_ids, 102, *text, 102]
            first = [2 * (self._stem_by_id.get(number) in shared) for number in asked_ids]
            second = [1 + 2 * (self._stem_by_id.get(number) in shared) for number in text]
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
            segments[row, : len(tokens)] = [0, *first, 0, *second, 1]
        return ids, segments, mask

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def new_ranker(layers: Sequence[int]) -> Any:
    """Return a torch module of MiniLM's ``layers`` with four segments and two outputs for the mean and first state."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    from backends.models.minilm import EPSILON, HEADS, packaged_folder

    weights = load_file(packaged_folder() / "model.safetensors")
    config = BertConfig(
        hidden_size=384, num_hidden_layers=len(layers), num_attention_heads=HEADS, intermediate_size=1536, type_vocab_size=4,
        layer_norm_eps=EPSILON, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip
    segments = "embeddings.token_type_embeddings.weight"
    own = {name: value for name, value in weights.items() if not name.startswith(("encoder.layer.", "pooler."))}
    own[segments] = torch.cat([weights[segments], weights[segments]])
    for number, layer in enumerate(layers):
        prefix = f"encoder.layer.{layer}."
        own |= {f"encoder.layer.{number}.{name.removeprefix(prefix)}": w for name, w in weights.items() if name.startswith(prefix)}

    class Ranker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(config, add_pooling_layer=False)
            self.bert.load_state_dict(own, strict=False)
            self.bert.embeddings.word_embeddings.weight.requires_grad = False
            self.head = torch.nn.Linear(2 * config.hidden_size, 2)

        def forward(self, ids: Any, segments: Any, mask: Any) -> Any:
            states = self.bert(input_ids=ids, token_type_ids=segments, attention_mask=mask).last_hidden_state
            weight = mask.unsqueeze(-1).to(states.dtype)
            mean = (states * weight).sum(1) / weight.sum(1)
            return self.head(torch.cat([states[:, 0], mean], 1))

    return Ranker()


def train(groups: Path, model: Path, *, layers: Sequence[int], most: int, kinds: str, rate: float, answer_weight: float) -> None:
    """Train on groups and write ``model``, 8 bits, beside its state in torch's form."""
    import torch

    from backends.models.minilm import packaged_folder

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    chance, pairs = random.Random(SEED), Pairs(packaged_folder())
    read = [group for group in _read(groups) if group["manual"] not in TEST_MANUALS and re.fullmatch(kinds, group["kind"])]
    chance.shuffle(read)
    read = read[:most]
    batches: list[list[dict[str, Any]]] = []
    for start in range(0, len(read), GROUPS_A_STEP * 16):
        near = sorted(read[start : start + GROUPS_A_STEP * 16], key=lambda group: max(map(len, group["passages"])))
        batches += [near[n : n + GROUPS_A_STEP] for n in range(0, len(near), GROUPS_A_STEP)]
    chance.shuffle(batches)
    ranker = new_ranker(layers)
    optimizer = torch.optim.AdamW([p for p in ranker.parameters() if p.requires_grad], lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=len(batches), pct_start=0.08, anneal_strategy="linear")
    started, losses = time.perf_counter(), list[tuple[float, float]]()
    for step, batch in enumerate(batches, 1):
        sizes = [len(group["passages"]) for group in batch]
        outputs = _outputs(ranker, pairs, batch)
        answers = torch.tensor([float(answer) for group in batch for answer in group["answers"]])
        answering = torch.nn.functional.binary_cross_entropy_with_logits(outputs[:, 1], answers, pos_weight=torch.tensor(2.0))
        ranking = torch.stack([-scores.log_softmax(0)[0] for scores in outputs[:, 0].split(sizes)]).mean()
        optimizer.zero_grad()
        (ranking + answer_weight * answering).backward()
        torch.nn.utils.clip_grad_norm_(ranker.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append((ranking.item(), answering.item()))
        if step % 50 == 0:
            means = np.mean(losses[-50:], axis=0)
            print(f"{step} of {len(batches)}: ranking {means[0]:.3f}, answering {means[1]:.3f}, {time.perf_counter() - started:.0f} s", flush=True)
            torch.save(ranker.state_dict(), model.with_suffix(".pt"))
    torch.save(ranker.state_dict(), model.with_suffix(".pt"))
    export(ranker, model)


def _outputs(ranker: Any, pairs: Pairs, batch: Sequence[Mapping[str, Any]]) -> Any:
    import torch

    parts = [pairs(group["question"], group["passages"]) for group in batch]
    length = max(ids.shape[1] for ids, _, _ in parts)
    tensors = (torch.from_numpy(np.concatenate([np.pad(part[n], ((0, 0), (0, length - part[n].shape[1]))) for part in parts])) for n in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = ranker(*tensors)
    return outputs.float()


def export(ranker: Any, model: Path) -> None:
    """Write a ranker as ONNX with weights of 8 bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ranker.eval()
    ranker.bert.set_attn_implementation("eager")
    example = torch.ones((2, 16), dtype=torch.int64)
    exact = model.with_suffix(".fp32.onnx")
    names = ["ids", "segments", "mask"]
    torch.onnx.export(
        ranker, (example, example, example), str(exact), input_names=names, output_names=["scores"], dynamo=False, opset_version=17,
        dynamic_axes={name: {0: "passages", 1: "tokens"} for name in names},
    )  # fmt: skip
    quantize_dynamic(exact, model, weight_type=QuantType.QInt8, per_channel=True)
    print(f"{model.stat().st_size / 1e6:.1f} MB, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}")


def _read(groups: Path) -> Iterator[dict[str, Any]]:
    with groups.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Scores:
    """Two numbers a passage, by an exported ranker on one thread."""

    def __init__(self, model: Path) -> None:
        import onnxruntime

        from backends.models.minilm import packaged_folder

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._pairs = Pairs(packaged_folder())

    def __call__(self, question: str, passages: Sequence[str]) -> Vector:
        """Return an array ``(passages, 2)``."""
        ids, segments, mask = self._pairs(question, passages)
        (scores,) = self._session.run(["scores"], {"ids": ids, "segments": segments, "mask": mask})
        return np.asarray(scores)


def test(groups: Path, model: Path) -> str:
    """Return how often the right passage is first, and the area under the curve of answering, by kind."""
    from sklearn.metrics import roc_auc_score

    judge = Scores(model)
    ranks, labels, answering = defaultdict[str, list[float]](list), defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    for group in _read(groups):
        if group["manual"] in TEST_MANUALS:
            scores = judge(group["question"], group["passages"])
            for kind in ("all", group["kind"]):
                ranks[kind].append(1 / (1 + float((scores[1:, 0] >= scores[0, 0]).sum())))
                labels[kind] += group["answers"]
                answering[kind] += scores[:, 1].tolist()
    lines = [f"{kind}: {len(ranks[kind])} questions, MRR {np.mean(ranks[kind]):.3f}, first {np.mean(np.equal(ranks[kind], 1)):.3f}, "
             f"AUC of answering {roc_auc_score(labels[kind], answering[kind]):.3f}" for kind in ranks]  # fmt: skip
    return "\n".join(lines)
