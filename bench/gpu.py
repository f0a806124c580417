"""Models on a GPU beside the same models on this machine's CPU: ``python -m bench.gpu [--json]``.

Weights are random but for the text model's; sizes are those of ViT-L-14, ColQwen2 of 2 billion parameters and Qwen2.5-VL of
3 billion. Vectors of both devices are compared by their least cosine. A description has 100 tokens.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from backends.models.clip import Clip
from backends.models.late_interaction import LateInteraction
from backends.models.local_model import LocalModel
from backends.models.minilm import packaged_folder
from backends.models.sentence_transformer import open_sentence_transformer
from bench.table import Row, show
from schemas.corpus.captions import ModelCaptioner
from schemas.generation import Request
from schemas.models import BFLOAT16, PRECISION, ModelName, settings
from schemas.ports import Vector
from tests import tiny_vlm
from tests.tiny_models import draw, write_clip, write_colqwen2

VIT_L_14: Mapping[str, Any] = {
    "embed_dim": 768,
    "vision_cfg": {"image_size": 224, "layers": 24, "width": 1024, "patch_size": 14},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 768, "heads": 12, "layers": 12},
}
_ROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1_000_000.0}}
QWEN2_2B: Mapping[str, Any] = {
    **{"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28},
    **{"num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 32768, **_ROPE},
}
COLQWEN2: Mapping[str, Any] = {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16, "mlp_ratio": 4}
QWEN2_5_3B: Mapping[str, Any] = {
    **{"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36},
    **{"num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 32768, **_ROPE},
}
QWEN2_5_VISION: Mapping[str, Any] = {
    **{"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16},
    **{"out_hidden_size": 2048, "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112},
}
TOKENS = 100
ON_CPU, ON_GPU = 8, 256
"""Inputs of a measurement on either device."""

PICTURE_PX = (640, 480)

Embed = Callable[[Sequence[Any]], Any]
"""Inputs to one vector, or several, each."""


def main() -> None:
    """Measure, and print a table."""
    import torch

    if not torch.cuda.is_available():
        print("gpu: this machine has none that torch can use")
        return
    pictures = [draw(seed, *PICTURE_PX) for seed in range(ON_GPU)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [*_texts(), *_clip(Path(folder), pictures), *_late(Path(folder), pictures), *_vlm(Path(folder), pictures)]
    show(f"models on {torch.cuda.get_device_name()}, beside {torch.get_num_threads()} threads of the CPU", rows)


def _texts() -> Iterator[Row]:
    named = ModelName(str(packaged_folder()), "1")
    texts = [f"Loosen screw {number} of the pump, then turn the shaft by hand. " * 12 for number in range(16 * ON_GPU)]

    def load() -> Embed:
        return open_sentence_transformer(named, batch=256).embed_documents

    yield from _both("MiniLM, float32", "texts/s", load, load, texts, cpu=16 * ON_CPU)


def _clip(folder: Path, pictures: Sequence[bytes]) -> Iterator[Row]:
    name = str(write_clip(folder / "clip", sizes=VIT_L_14))
    exact, quick = ModelName(name, "1"), ModelName(name, "1", settings(**{PRECISION: BFLOAT16}))
    for precision, named in (("float32", exact), ("bfloat16", quick)):
        yield from _both(
            f"ViT-L-14, {precision}",
            "pictures/s",
            lambda named=named: Clip(named, 64).embed_pictures,  # type: ignore[misc]
            lambda: Clip(exact, 64).embed_pictures,
            pictures,
        )


def _late(folder: Path, pictures: Sequence[bytes]) -> Iterator[Row]:
    sizes: dict[str, Any] = {"text": QWEN2_2B, "vision": COLQWEN2, "dimension": 128, "max_pixels": 768 * 28 * 28}
    named = ModelName(str(write_colqwen2(folder / "late", **sizes)), "1", settings(**{PRECISION: BFLOAT16}))

    def load() -> Embed:
        return LateInteraction(named, 16).embed_pictures

    yield from _both("ColQwen2, bfloat16", "pictures/s", load, load, pictures, cpu=2)


def _vlm(folder: Path, pictures: Sequence[bytes]) -> Iterator[Row]:
    name = str(tiny_vlm.write(folder / "vlm", text=QWEN2_5_3B, vision=QWEN2_5_VISION))
    asked = [
        Request.of(request_id=str(number), prompt="Describe the figure in two sentences.", picture=picture)
        for number, picture in enumerate(pictures)
    ]
    took = {}
    for gpus, count in ((1, ON_GPU), (0, 1)):
        captioner = ModelCaptioner(kind="local", model=name, revision="1", max_tokens=TOKENS, gpus=gpus)
        model = LocalModel("captions.models.vlm", captioner, 64)
        [*model.replies(asked[:1])]
        model.usage.output_tokens = 0
        began = time.perf_counter()
        [*model.replies(asked[:count])]
        took[gpus] = model.usage.output_tokens / (time.perf_counter() - began)
    yield Row("Qwen2.5-VL 3B, bfloat16", "tokens/s", took[1], took[0], "the CPU, float32")


def _both(
    name: str, unit: str, on_gpu: Callable[[], Embed], on_cpu: Callable[[], Embed], inputs: Sequence[Any], cpu: int = ON_CPU
) -> Iterator[Row]:
    import torch

    embed = on_gpu()
    embed(inputs[:1])
    torch.cuda.reset_peak_memory_stats()
    rate, made = _rate(embed, inputs)
    held = torch.cuda.max_memory_allocated() / 2**30
    del embed
    with patch("torch.cuda.is_available", return_value=False):
        embed = on_cpu()
        embed(inputs[:1])
        peer, expected = _rate(embed, inputs[:cpu])
    yield Row(name, unit, rate, peer, "the CPU")
    yield Row("  its memory on the GPU", "GiB", held)
    yield Row("  1 - cosine to the CPU's, most", "millionths", 1e6 * (1 - _least_cosine(made, expected)))


def _rate(embed: Embed, inputs: Sequence[Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    made = embed(inputs)
    return len(inputs) / (time.perf_counter() - began), made


def _least_cosine(made: Sequence[Vector], expected: Sequence[Vector]) -> float:
    return float(min(np.min(np.sum(a * b, axis=-1)) for a, b in zip(made, expected, strict=False)))


if __name__ == "__main__":
    main()
