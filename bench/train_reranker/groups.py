"""Groups of a question, the passage that answers, and wrong ones."""

import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.train_reranker.manuals import INDEX_PAGE, Manual, Row, rows_of
from bench.train_reranker.questions import Asked, asked
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words

SEED = 63
FILES_A_MANUAL, GROUPS_A_KIND = 350, 130
"""Most pages of a manual, and most questions of one kind from it (three times as many of sentences), so that none outweighs."""

WINDOW_WORDS, STRIDE, PATH_WORDS = 56, 14, 14
"""Words of the part of a row that is judged, between the beginnings of such parts, and of the headings before it."""

TERM = r"(?u)\b\w[\w.-]*\b"
RUN = 13
"""Words in a row that a training text may not share with documents that are kept apart."""


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


def write_groups(folder: Path, out: Path, apart: Sequence[Path]) -> None:
    """Write groups: ``kind``, ``manual``, ``question``, ``passages``, the right one first, and ``answers``, 1 or 0 each."""
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
            rows = [
                row for row in rows_of(manual) if not _count(counts, "rows left out by 13 words", _runs(row.text) & runs)
            ]
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
        # English has hardly a letter beyond ASCII, and many of these words.
        if sum(map(str.isascii, text)) < 0.98 * len(text):
            continue
        if (
            len(words) > 40 and sum(word in ("the", "of", "is", "and") for word in words) > 0.04 * len(words)
        ) or INDEX_PAGE.search(file.name):
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
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    if len(rows) < 20:
        return
    by_kind: dict[str, dict[str, Asked]] = defaultdict(dict)
    for made in asked(manual, rows, chance):
        by_kind[made[0]].setdefault(_plain(made[1]), made)
    kept: list[Asked] = []
    for kind, questions in sorted(by_kind.items()):
        most = GROUPS_A_KIND * (3 if kind == "sentence" else 1)
        kept += chance.sample([*questions.values()], min(most, len(questions)))
    vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=TERM)
    texts = vectorizer.fit_transform(f"{' '.join(row.path[-2:])} {row.text}" for row in rows)
    similarities = vectorizer.transform(question for _, question, _, _ in kept) @ texts.T
    for number, (kind, question, index, answer) in enumerate(kept):
        row = rows[index]
        likeness = similarities[[number]].toarray()[0]
        ranked = [
            int(at)
            for at in np.argsort(-likeness, kind="stable")[:25]
            if likeness[at] > 0 and rows[at].section != row.section
        ]
        near = [at for at in range(max(0, index - 4), min(len(rows), index + 5)) if rows[at].section != row.section]
        wrong = [
            rows[at]
            for at in dict.fromkeys(
                [*chance.sample(ranked[:12], min(3, len(ranked[:12]))), *chance.sample(near, min(1, len(near)))]
            )
        ]
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
