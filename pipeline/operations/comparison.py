"""One question, asked of one or two versions or presets, with what differs marked."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.corpus.corpora import load_corpus
from pipeline.corpus.presets import default_preset, presets_of
from schemas.base import Frozen
from schemas.errors import InsetError
from schemas.evidence import Hit
from schemas.retrieval import Preset, Query

if TYPE_CHECKING:
    from pipeline.published.corpus import PublishedCorpus

MOST_HITS = 20
VERSIONS_OPEN = 2


class Side(NamedTuple):
    """What is asked: a version, and a preset; the corpus's default where None."""

    version: str
    preset: str | None = None


class ComparedHit(Frozen):
    """A hit with its rank on both sides.

    Attributes:
        other: Its rank on the other side; None where the other lacks it, or where there is no other.
    """

    hit: Hit
    rank: int
    other: int | None = None


class Answered(Frozen):
    """The reply of a side.

    Attributes:
        preset: The preset; None where the default could not be found out.
        seconds: How long the search took, with opening the version and loading models where that was needed.
        problem: Why there is no reply; "" where there is one.
    """

    version: str
    preset: str | None
    hits: list[ComparedHit]
    seconds: float
    problem: str = ""


def listed_presets(file: str) -> list[Preset]:
    """Return the presets of a corpus file, the default first; no version is opened.

    Raises:
        UserError: The file, or a preset of its folder, can't be read.
    """
    options = load_corpus(file).retrieval
    default = default_preset(options)
    return [default, *(preset for preset in presets_of(options).values() if preset.name != default.name)]


def ask(file: str, question: str, sides: Sequence[Side], k: int) -> list[Answered]:
    """Ask each side a question; what one can't answer is a problem of its own.

    The first search of a version opens its index and loads its models.

    Args:
        file: The corpus file.
        question: In plain words.
        sides: One or two.
        k: Hits, at most ``MOST_HITS``.

    Raises:
        UserError: The corpus file can't be read.
    """
    corpus = _open_corpus(file)
    answers = [_answer_of(corpus, question, side, min(k, MOST_HITS)) for side in sides]
    ranks = [{compared_hit.hit.evidence_id: compared_hit.rank for compared_hit in answer.hits} for answer in answers]
    if len(answers) < 2:
        return answers
    return [
        answer.model_copy(
            update={"hits": [hit.model_copy(update={"other": other_ranks.get(hit.hit.evidence_id)}) for hit in answer.hits]}
        )
        for answer, other_ranks in zip(answers, reversed(ranks), strict=True)
    ]


def _answer_of(corpus: "PublishedCorpus", question: str, side: Side, k: int) -> Answered:
    began = time.perf_counter()
    try:
        result = corpus.search(Query(question, preset=side.preset, version=side.version, k=k))
    except InsetError as error:
        seconds = time.perf_counter() - began
        return Answered(version=side.version, preset=side.preset, hits=[], seconds=seconds, problem=error.message)
    hits = [ComparedHit(hit=hit, rank=rank) for rank, hit in enumerate(result.hits, 1)]
    return Answered(version=side.version, preset=result.preset, hits=hits, seconds=time.perf_counter() - began)


_opening = threading.Lock()
_open: dict[tuple[str, int], "PublishedCorpus"] = {}


def _open_corpus(file: str) -> "PublishedCorpus":
    """Return the corpus of a file, opened again where the file changed; the one before is closed, since indexes take memory."""
    from pipeline.published.corpus import open_published

    key = file, Path(file).stat().st_mtime_ns
    with _opening:
        if key not in _open:
            _open.clear()
            _open[key] = open_published(file, versions_open=VERSIONS_OPEN)
        return _open[key]
