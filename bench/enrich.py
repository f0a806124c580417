"""Texts per second of the packaged text model, and what a question waits for it: ``python -m bench.enrich [--json]``.

The texts are every fourth of the example corpus, in the order of its documents. Beside ours, in the same run: the path by which
torch runs a model that a corpus file names, ``SentenceTransformer.encode`` as it comes, and a loop by hand over the same graph,
whose texts are cut into tokens beforehand. Each is timed in turn, three times, and its best time counts. An actor has one
thread, and so has its peer.

The stage is measured by itself: 10,000 texts go from the driver to two actors and into shards of a cache, by a model that costs
nothing; what that takes of the processor, in the driver and in the actors, is set beside what the model takes for as many. Two
actors are compared with one by the clock, which says something only where two cores are free: how many they had is shown beside
it, the processor's time over that of the clock while they worked. "On free cores" is what the clock would show there: it follows
from the processor's time of a text, which grows where two disturb each other, and from the share of the time that they were at
work, which shrinks where they wait for the driver.

A question is embedded on one thread, alone and beside a process that keeps a core busy; its peer is the path of torch. The first
question is timed from the start of a process.

Words are read off every picture of the example corpus whose words its PDF lacks, by one thread, in CPU-seconds,
once more with the settings and the network of before. F1 counts the words of a picture that both read.

Where a GPU is at hand, models of pictures are measured on it: ``bench.gpu``. Where none is, the title says so.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from backends.models.bert import Bert
from backends.models.devices import best_device
from backends.models.minilm import EPSILON, HEADS, LONGEST_TOKENS, MiniLM, packaged_folder
from backends.models.rapidocr_recogniser import PARAMETERS, RapidOcr
from backends.models.registry import TEXT_EMBEDDERS
from backends.models.sentence_embedder import load_tokenizer
from backends.pdf.document import open_document
from backends.stores.object_store import open_store
from bench import gpu
from bench.table import Row, show
from evaluation.questions import load_questions
from pipeline.records.cache import RecordCache
from pipeline.stages.enrich.keep import keep
from ray_jobs.cluster import connected
from ray_jobs.embed import BATCHES_A_CALL
from ray_jobs.enrich import structure_with
from ray_jobs.outcomes import Outcome
from ray_jobs.pools import run_pool
from schemas.batches import batched
from schemas.corpus import ChunkOptions, EmbeddingOptions, ParseOptions, RayOptions
from schemas.ids import sha256
from schemas.ports import TextEmbedder, Vector
from schemas.progress import silent
from tasks.enriching.chunk import chunk
from tasks.enriching.embed import search_text
from tasks.reading.parse import parse
from tasks.reading.recognise import pictures_to_recognise

MANUALS = Path(__file__).parent.parent / "examples" / "manuals"
ONE_IN = 4
TURNS = 3
STAGE_TEXTS = 10_000
TORCH = "torch, in buckets of lengths"
ARENA = "EngineConfig.onnxruntime.enable_cpu_mem_arena"
PACKAGED = "as packaged, memory given back"

Way = Callable[[], Vector]

_FIRST = """
from backends.models.registry import TEXT_EMBEDDERS
from schemas.corpus import EmbeddingOptions
TEXT_EMBEDDERS.of(EmbeddingOptions(**{named!r})).load(32).embed_query("What is this?")
"""


def main() -> None:
    """Measure, and print a table."""
    folder = str(packaged_folder())
    named = EmbeddingOptions(text=folder, revision="1")
    ours, before = MiniLM(), TEXT_EMBEDDERS.of(named).load(32)
    texts = _texts(ours)[::ONE_IN]
    questions = [question.question for question in load_questions(str(MANUALS / "questions.jsonl"))]
    rows = [
        *_first({}, {"text": folder, "revision": "1"}),
        *_documents(ours, before, texts),
        *_questions(ours, before, questions),
        *_actors(before, texts),
        *_words(pictures := _pictures()),
        *_stage(texts),
    ]
    there = best_device() != "cpu"
    title = f"the packaged text model on {len(texts)} texts, words of {len(pictures)} pictures"
    show(title if there else f"{title}; {gpu.NONE_HERE}", [*rows, *(gpu.rows(gpu.real_sizes()) if there else ())])


def _texts(embedder: TextEmbedder) -> list[str]:
    texts = []
    for file in sorted((MANUALS / "pdfs").glob("*.pdf")):
        pdf = file.read_bytes()
        parsed = parse(open_document(pdf), sha256(pdf), ParseOptions(), keep_figure=lambda _name, _data: None)
        document = structure_with(parsed, (), ())
        pieces = chunk(document, embedder.count_tokens, max_tokens=ChunkOptions().tokens)
        texts += [search_text(document.title, piece.section_path, piece.text) for piece in pieces if piece.text]
    return texts


def _documents(ours: TextEmbedder, before: TextEmbedder, texts: Sequence[str]) -> Iterator[Row]:
    from sentence_transformers import SentenceTransformer

    naive = SentenceTransformer(str(packaged_folder()), device="cpu")
    peers: dict[str, tuple[Way, str]] = {
        TORCH: (lambda: before.embed_documents(texts), "at least 2"),
        "SentenceTransformer.encode": (lambda: naive.encode(list(texts), normalize_embeddings=True), "at least 1.3"),
        "a loop by hand over onnxruntime": (_loop_by_hand(texts), "at least 0.9"),
    }
    took, made = _timed({"ours": lambda: ours.embed_documents(texts)} | {name: way for name, (way, _) in peers.items()})
    for name, (_, goal) in peers.items():
        yield Row("documents, all cores", "texts/s", len(texts) / took["ours"], len(texts) / took[name], name, goal)
    nearness = float((made["ours"] * made[TORCH]).sum(axis=1).min())
    yield Row("its vectors beside torch's, least", "cosine", nearness, goal="at least 0.9999")


def _actors(before: TextEmbedder, texts: Sequence[str]) -> Iterator[Row]:
    import torch

    torch.set_num_threads(1)
    ours = MiniLM(threads=1)
    took, _ = _timed({"ours": lambda: ours.embed_documents(texts), TORCH: lambda: before.embed_documents(texts)})
    yield Row("documents, an actor", "texts/s", len(texts) / took["ours"], len(texts) / took[TORCH], TORCH, "at least 2")


class _Noting:
    """An actor that writes down when it is at work, and what of the processor its process has taken by then."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / str(os.getpid())

    def run(self, batch: Sequence[tuple[str, str]]) -> list[Outcome[Vector]]:
        """Return a vector for each text."""
        began, before = time.time(), time.process_time()
        vectors = self._embed([text for _, text in batch])
        with self._file.open("a") as calls:
            calls.write(f"{began} {time.time()} {before} {time.process_time()} {len(batch)}\n")
        return [Outcome(row_id, vector) for (row_id, _), vector in zip(batch, vectors, strict=True)]

    def _embed(self, texts: Sequence[str]) -> Vector:
        raise NotImplementedError


class FreeEmbedder(_Noting):
    """An actor that embeds at no cost."""

    def _embed(self, texts: Sequence[str]) -> Vector:
        return np.zeros((len(texts), 384), np.float32)


class OurEmbedder(_Noting):
    """An actor with the packaged model, on one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._model = MiniLM(threads=1)

    def _embed(self, texts: Sequence[str]) -> Vector:
        return self._model.embed_documents(texts)


@dataclass(frozen=True)
class _Call:
    """A batch at an actor: when, by the clock and by the processor's time of its process, and how many texts."""

    began: float
    ended: float
    cpu_before: float
    cpu_after: float
    texts: float


@dataclass(frozen=True)
class _AtWork:
    """What actors did while all of them were there: texts, the processor's time, and time at work, of all actors together."""

    actors: int
    clock_s: float
    texts: float
    cpu_s: float
    working_s: float

    @property
    def rate(self) -> float:
        """Texts a second, by the clock."""
        return self.texts / self.clock_s

    @property
    def cpu_ms_a_text(self) -> float:
        """The processor's time that a text takes."""
        return 1000 * self.cpu_s / self.texts

    @property
    def cores(self) -> float:
        """Cores that the actors had together while they worked."""
        return self.actors * self.cpu_s / self.working_s

    @property
    def share_at_work(self) -> float:
        """The share of the clock's time that they worked, and didn't wait for a batch."""
        return self.working_s / (self.actors * self.clock_s)

    @property
    def rate_on_free_cores(self) -> float:
        """Texts a second, had each actor had a core for itself."""
        return self.actors * self.share_at_work * self.texts / self.cpu_s


def _calls(folder: Path) -> list[list[_Call]]:
    """Return the calls of each actor, in order."""
    return [
        [_Call(*map(float, line.split())) for line in file.read_text().splitlines()] for file in sorted(folder.iterdir())
    ]


def _at_work(actors: Sequence[Sequence[_Call]]) -> _AtWork:
    """Sum up what actors did from when the last of them had done its first batch until the first of them had done its last."""
    began, ended = max(calls[0].ended for calls in actors), min(calls[-1].ended for calls in actors)
    texts = cpu_s = working_s = 0.0
    for call in chain.from_iterable(actors):
        within_s = max(0.0, min(ended, call.ended) - max(began, call.began))
        share = within_s / (call.ended - call.began)
        texts += share * call.texts
        cpu_s += share * (call.cpu_after - call.cpu_before)
        working_s += within_s
    return _AtWork(len(actors), ended - began, texts, cpu_s, working_s)


def _stage(texts: Sequence[str]) -> Iterator[Row]:
    model = MiniLM(threads=1)
    model.embed_documents(texts[:4])
    began = time.process_time()
    model.embed_documents(texts)
    each_s = (time.process_time() - began) / len(texts)
    named = [(f"{number}", texts[number % len(texts)]) for number in range(STAGE_TEXTS)]
    options = EmbeddingOptions()
    with connected(RayOptions(num_cpus=2)), tempfile.TemporaryDirectory() as folder:
        spent_s = _spent_by_stage(named, options.batch * BATCHES_A_CALL, Path(folder))
        yield Row("the stage beside its model", "% of its CPU", 100 * spent_s / (each_s * len(named)), goal="at most 10")
        one, two = (_working(named[: 4 * len(texts)], options.batch, workers, Path(folder)) for workers in (1, 2))
    goal = "at least 1.8 where two cores are free"
    yield Row("two actors, by the clock", "texts/s", two.rate, one.rate, "one actor", goal)
    yield Row("cores that two actors had", "cores", two.cores, one.cores, "one actor", "2 where two are free")
    yield Row("two actors at work", "% of time", 100 * two.share_at_work, 100 * one.share_at_work, "one actor")
    yield Row("CPU of a text, two actors", "ms", two.cpu_ms_a_text, one.cpu_ms_a_text, "one actor")
    free = two.rate_on_free_cores, one.rate_on_free_cores
    yield Row("two actors, on free cores", "texts/s", free[0], free[1], "one actor", "at least 1.8")


def _spent_by_stage(named: Sequence[tuple[str, str]], size: int, folder: Path) -> float:
    """Return the seconds of the processor that texts take from the driver to the shards, without a model."""
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("vector", pa.list_(pa.float32(), 384))])
    cache = RecordCache(open_store(str(folder / "store")), "vectors/free", schema)
    times = folder / "free"
    times.mkdir()
    made = run_pool(FreeEmbedder, (times,), batched(named, size), workers=2)
    first = next(made)  # the actors are there
    began = time.process_time()
    rest = (pa.table({"id": [one.row_id for one in some], "vector": [one.value for one in some]}, schema) for some in made)
    keep(cache, rest, "embed", len(named) - len(first), silent)
    spent = time.process_time() - began
    return spent + sum(calls[-1].cpu_after - calls[0].cpu_after for calls in _calls(times))


def _working(named: Sequence[tuple[str, str]], size: int, workers: int, folder: Path) -> _AtWork:
    """Return what actors do while they embed."""
    times = folder / f"with-{workers}"
    times.mkdir()
    done = sum(map(len, run_pool(OurEmbedder, (times,), batched(named, size), workers=workers)))
    assert done == len(named)
    return _at_work(_calls(times))


def _timed(ways: Mapping[str, Way]) -> tuple[dict[str, float], dict[str, Vector]]:
    took = dict.fromkeys(ways, float("inf"))
    made: dict[str, Vector] = {}
    for _ in range(TURNS):
        for name, way in ways.items():
            began = time.perf_counter()
            made[name] = way()
            took[name] = min(took[name], time.perf_counter() - began)
    return took, made


def _loop_by_hand(texts: Sequence[str]) -> Way:
    from safetensors.numpy import load_file

    folder = packaged_folder()
    session = Bert(load_file(folder / "model.safetensors"), heads=HEADS, epsilon=EPSILON, threads=1).session
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    tokenizer.enable_truncation(LONGEST_TOKENS)
    tokens = [np.array([found.ids]) for found in tokenizer.encode_batch_fast(list(texts))]
    threads = os.cpu_count() or 1

    def loop() -> Vector:
        vectors = np.empty((len(tokens), 384), np.float32)
        waiting = sorted(range(len(tokens)), key=lambda place: tokens[place].size)

        def work(_thread: int) -> None:
            while waiting:
                place = waiting.pop()
                vectors[place] = session.run(None, {"ids": tokens[place]})[0][0]

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    return loop


def _questions(ours: TextEmbedder, before: TextEmbedder, questions: Sequence[str]) -> Iterator[Row]:
    alone = _median_ms(ours, questions)
    yield Row("a question, alone", "ms", alone, _median_ms(before, questions), TORCH, "at most 10 ms")
    with _busy_core():
        beside, torch = _median_ms(ours, questions), _median_ms(before, questions)
    yield Row("a question, a core busy", "ms", beside, torch, TORCH, f"at most {2 * alone:.1f} ms, twice the above")


def _median_ms(embedder: TextEmbedder, questions: Sequence[str]) -> float:
    took = []
    for question in questions:
        began = time.perf_counter()
        embedder.embed_query(question)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


def _pictures() -> list[bytes]:
    pictures = []
    for file in sorted((MANUALS / "pdfs").glob("*.pdf")):
        pdf = file.read_bytes()
        kept: dict[str, bytes] = {}
        parsed = parse(open_document(pdf), sha256(pdf), ParseOptions(), keep_figure=kept.__setitem__)
        labelled = {line.inside for line in parsed.lines if line.inside is not None}
        wanted = pictures_to_recognise(parsed.placements, labelled)
        pictures += [kept[f"{figure_id}.png"] for figure_id in wanted]
    return pictures


def _words(pictures: Sequence[bytes]) -> Iterator[Row]:
    readers = {"ours": RapidOcr(), PACKAGED: RapidOcr(parameters={**PARAMETERS, ARENA: False}, int8=False)}
    took = dict.fromkeys(readers, 0.0)
    read: dict[str, list[Counter[str]]] = {name: [] for name in readers}
    for reader in readers.values():
        reader.recognise(pictures[0])
    for picture in pictures:
        for name, reader in readers.items():
            began = time.process_time()
            lines = reader.recognise(picture)
            took[name] += time.process_time() - began
            read[name].append(Counter(word for line in lines for word in line.text.split()))
    yield Row(
        "reading words, an actor",
        "pictures/s",
        len(pictures) / took["ours"],
        len(pictures) / took[PACKAGED],
        PACKAGED,
        "at least 1.5",
    )
    both = sum((a & b).total() for a, b in zip(*read.values(), strict=True))
    all_words = sum(words.total() for pages in read.values() for words in pages)
    yield Row("its words beside those", "F1", 2 * both / all_words, goal="at least 0.98")


@contextmanager
def _busy_core() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        yield
        busy.kill()


def _first(ours: Mapping[str, str], before: Mapping[str, str]) -> Iterator[Row]:
    took = []
    for named in (ours, before):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-W", "ignore", "-c", _FIRST.format(named=dict(named))], check=True)
        took.append(time.perf_counter() - began)
    yield Row("the first question of a process", "s", took[0], took[1], TORCH)


if __name__ == "__main__":
    main()
