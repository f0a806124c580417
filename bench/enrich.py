"""Texts a second of the packaged text model, and pictures a second whose words are read: ``python -m bench.enrich [--json]``.

The texts are every fourth of the example corpus. Peers, in the same run, each timed three times in turn, the best time counts:
torch, as it runs a model that a corpus file names, and ``SentenceTransformer.encode`` with its defaults.

Words are read in every picture of the example corpus whose words its PDF lacks, by one thread, in CPU-seconds. The peer is
RapidOCR with its packaged settings and network; F1 counts the words of a picture that both read.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from backends.models.minilm import MiniLM, packaged_folder
from backends.models.rapidocr_recogniser import PARAMETERS, RapidOcr
from backends.models.registry import TEXT_EMBEDDERS
from backends.pdf.document import open_document
from bench.table import Row, show
from evaluation.questions import load_questions
from schemas.corpus import ChunkOptions, ParseOptions
from schemas.ids import sha256
from schemas.models import MINILM, ModelName
from schemas.ports import TextEmbedder, Vector
from tasks.enriching.chunk import chunk
from tasks.enriching.spaces import search_text
from tasks.reading.parse import parse
from tasks.reading.recognise import pictures_to_recognise
from tasks.reading.structure import structure

MANUALS = Path(__file__).parent.parent / "examples" / "manuals"
ONE_IN = 4
TURNS = 3
TORCH = "torch, in buckets of lengths"
ARENA = "EngineConfig.onnxruntime.enable_cpu_mem_arena"
PACKAGED = "as packaged, memory given back"

Way = Callable[[], Vector]


def main() -> None:
    """Measure, and print a table."""
    folder = str(packaged_folder())
    ours, before = MiniLM(), TEXT_EMBEDDERS.find(ModelName(folder, "1")).load(32)
    texts = _texts()[::ONE_IN]
    questions = [question.question for question in load_questions(str(MANUALS / "questions.jsonl"))]
    rows = [
        *_documents(ours, before, texts),
        *_questions(ours, before, questions),
        *_words(pictures := _pictures()),
    ]
    show(f"the packaged text model on {len(texts)} texts, words of {len(pictures)} pictures", rows)


def _texts() -> list[str]:
    texts, count_tokens = [], TEXT_EMBEDDERS.find(ModelName(MINILM)).token_counter()
    for file in sorted((MANUALS / "pdfs").glob("*.pdf")):
        pdf = file.read_bytes()
        parsed = parse(open_document(pdf), sha256(pdf), ParseOptions(), keep_figure=lambda _name, _data: None)
        document = structure(parsed, {})
        pieces = chunk(document, count_tokens, max_tokens=ChunkOptions().tokens)
        texts += [search_text(document.title, piece.section_path, piece.text) for piece in pieces if piece.text]
    return texts


def _documents(ours: TextEmbedder, before: TextEmbedder, texts: Sequence[str]) -> Iterator[Row]:
    from sentence_transformers import SentenceTransformer

    naive = SentenceTransformer(str(packaged_folder()), device="cpu")
    peers: dict[str, tuple[Way, str]] = {
        TORCH: (lambda: before.embed_documents(texts), "at least 2"),
        "SentenceTransformer.encode": (lambda: naive.encode(list(texts), normalize_embeddings=True), "at least 1.3"),
    }
    took, made = _timed({"ours": lambda: ours.embed_documents(texts)} | {name: way for name, (way, _) in peers.items()})
    for name, (_, goal) in peers.items():
        yield Row("documents, all cores", "texts/s", len(texts) / took["ours"], len(texts) / took[name], name, goal)
    nearness = float((made["ours"] * made[TORCH]).sum(axis=1).min())
    yield Row("its vectors beside torch's, least", "cosine", nearness, goal="at least 0.9999")


def _timed(ways: Mapping[str, Way]) -> tuple[dict[str, float], dict[str, Vector]]:
    took = dict.fromkeys(ways, float("inf"))
    made: dict[str, Vector] = {}
    for _ in range(TURNS):
        for name, way in ways.items():
            began = time.perf_counter()
            made[name] = way()
            took[name] = min(took[name], time.perf_counter() - began)
    return took, made


def _questions(ours: TextEmbedder, before: TextEmbedder, questions: Sequence[str]) -> Iterator[Row]:
    yield Row("a question", "ms", _median_ms(ours, questions), _median_ms(before, questions), TORCH, "at most 10 ms")


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


if __name__ == "__main__":
    main()
