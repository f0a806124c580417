"""What models of pictures make of a GPU: ``python -m bench.gpu [--json]``; ``bench.enrich`` runs it too where there is one.

Models of the real sizes with random weights, which cost what real ones do: a captioner of the size of Qwen2.5-VL-7B, ViT-L/14 of
open_clip, and ColQwen2 for pages. They are written to a folder, then loaded and called as a refresh does it: pictures are decoded
and scaled within the time. The captioner writes as many tokens as it may, as random weights know no end.

The peer is what the chip allows, found in the same run: the products of matrices that a call takes, counted by torch, at the rate
of one large product in bfloat16; and for each token that is written the weights once through memory, at the rate of a large copy.
"""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.models.clip import Clip
from backends.models.devices import best_device
from backends.models.late_interaction import LateInteraction
from backends.models.local_model import LocalModel
from bench.table import Row, show
from schemas.corpus.captions import CaptionerKind, ModelCaptioner
from schemas.generation import Request
from schemas.models import BFLOAT16, FLOAT32, PRECISION, ModelName

NONE_HERE = "no GPU is at hand, so nothing was measured of models on one"
_CHIP = "what the chip allows"
_TURNS = 3


@dataclass(frozen=True)
class Sizes:
    """How large models and their work are.

    Attributes:
        captioner: The captioner's part for text, and its part for pictures.
        clip: The configuration of a model of open_clip.
        late: The parts for text and for pictures of a model for late interaction, the numbers of a vector, and the pixels that
            it looks at.
        picture: Width and height of pictures, in pixels.
        count: Pictures, or texts, a measurement.
        batches: Those at once: for the captioner, open_clip and late interaction.
        tokens: What the captioner writes of a picture.
        product: Side of the matrices by which the chip is measured.
        copied: Bytes that are copied to measure its memory.
    """

    captioner: tuple[Mapping[str, Any], Mapping[str, Any]]
    clip: Mapping[str, Any]
    late: tuple[Mapping[str, Any], Mapping[str, Any], int, int]
    picture: tuple[int, int]
    count: int
    batches: tuple[Sequence[int], Sequence[int], Sequence[int]]
    tokens: int
    product: int
    copied: int


def real_sizes() -> Sizes:
    """Return the sizes of Qwen2.5-VL-7B, ViT-L/14 and ColQwen2, and of figures and pages as documents have them."""
    import open_clip

    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1_000_000.0}
    text = {"vocab_size": 152_064, "max_position_embeddings": 32_768, "initializer_range": 0.02, "rope_parameters": rope}
    large = {"hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28}
    small = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28}
    sees = {"depth": 32, "num_heads": 16}
    return Sizes(
        captioner=(
            text | large | {"num_attention_heads": 28, "num_key_value_heads": 4},
            sees
            | {
                "hidden_size": 1280,
                "intermediate_size": 3420,
                "out_hidden_size": 3584,
                "fullatt_block_indexes": [7, 15, 23, 31],
            },
        ),
        clip=open_clip.get_model_config("ViT-L-14"),
        late=(
            text | small | {"num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151_936},
            sees | {"embed_dim": 1280, "hidden_size": 1536, "mlp_ratio": 4},
            128,
            768 * 28 * 28,
        ),
        picture=(1024, 768),
        count=128,
        batches=((8, 32), (16, 64, 256), (4, 16, 64)),
        tokens=128,
        product=8192,
        copied=4 << 30,
    )


def main() -> None:
    """Measure, and print a table; or say that there is no GPU."""
    if best_device() == "cpu":
        print(NONE_HERE)
        return
    import torch

    show(f"models of pictures on {torch.cuda.get_device_name()}", list(rows(real_sizes())))


def rows(sizes: Sizes) -> Iterator[Row]:
    """Yield what was measured, model by model, on a GPU where there is one."""
    chip = _chip(sizes)
    yield Row("the chip: products in bfloat16", "TFLOP/s", chip.flops / 1e12)
    yield Row("the chip: memory", "GB/s", chip.memory / 1e9)
    from tests.tiny_models import draw

    pictures = [draw(number, *sizes.picture) for number in range(sizes.count)]
    for measure, batches in zip((_captioner, _clip, _late), sizes.batches, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            yield from measure(Path(folder), sizes, pictures, batches, chip)
        _freed()


@dataclass(frozen=True)
class _Chip:
    """What a chip does in a second: operations of a large product, and bytes of its memory read or written."""

    flops: float
    memory: float

    def least_s(self, operations: float, read: float = 0.0) -> float:
        """Return the seconds that so many operations take, and so many bytes that are read one after the other."""
        return operations / self.flops + read / self.memory


def _chip(sizes: Sizes) -> _Chip:
    import torch

    device = best_device()
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    square = torch.randn(sizes.product, sizes.product, device=device, dtype=dtype)
    filled = torch.zeros(sizes.copied, device=device, dtype=torch.uint8)
    other = torch.empty_like(filled)
    return _Chip(
        2 * sizes.product**3 / _best_s(lambda: square @ square), 2 * sizes.copied / _best_s(lambda: other.copy_(filled))
    )


def _best_s(work: Callable[[], object]) -> float:
    """Return the seconds that work takes at best, the first time, which prepares, left out."""
    import torch

    took = []
    for _ in range(_TURNS + 1):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    return min(took[1:])


def _operations(work: Callable[[], object]) -> int:
    """Return the operations of all products of matrices in some work."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    found: int = counter.get_total_flops()
    return found


@contextmanager
def _drawn_on_the_gpu() -> Iterator[None]:
    """Have random weights drawn where that takes seconds; on a CPU, billions take minutes."""
    import torch

    if best_device() == "cpu":
        yield
        return
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        _freed()


def _freed() -> None:
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def _captioner(folder: Path, sizes: Sizes, pictures: Sequence[bytes], batches: Sequence[int], chip: _Chip) -> Iterator[Row]:
    from tests import tiny_vlm

    text, vision = sizes.captioner
    with _drawn_on_the_gpu():
        tiny_vlm.write(folder, text=text, vision=vision)
    prompt = "Describe the picture, which is a figure of a technical document. " * 8
    requests = [Request.of(f"{number}", prompt, picture) for number, picture in enumerate(pictures)]
    settings = {"max_tokens": sizes.tokens, "max_side_px": max(sizes.picture)}
    options = ModelCaptioner(kind=CaptionerKind.LOCAL, model=str(folder), revision="1", **settings)
    model = LocalModel("bench", options, max(batches))
    weights = sum(
        part.numel() * part.element_size()
        for name, part in model.model.named_parameters()
        if "visual" not in name and "embed_tokens" not in name
    )
    for batch in batches:
        model._batch = batch
        operations = _operations(lambda: list(model.replies(requests)))  # it warms up, too
        written = model.usage.output_tokens
        began = time.perf_counter()
        list(model.replies(requests))
        took_s = time.perf_counter() - began
        written = model.usage.output_tokens - written
        least_s = chip.least_s(operations, weights * written / batch)
        yield _row("captioner", batch, "images/s", len(requests), took_s, least_s)
        yield _row("captioner", batch, "tokens/s", written, took_s, least_s)


def _clip(folder: Path, sizes: Sizes, pictures: Sequence[bytes], batches: Sequence[int], chip: _Chip) -> Iterator[Row]:
    from tests.tiny_models import write_clip

    write_clip(folder, sizes=sizes.clip)
    texts = [f"The pump number {number}, seen from the side, with the valve open." for number in range(len(pictures))]
    for batch in batches:
        model = Clip(_named(folder), batch)
        for unit, embed, inputs in (
            ("images/s", model.embed_pictures, pictures),
            ("texts/s", model.embed_documents, texts),
        ):
            yield _embedded("open_clip", batch, unit, embed, inputs, chip)


def _late(folder: Path, sizes: Sizes, pictures: Sequence[bytes], batches: Sequence[int], chip: _Chip) -> Iterator[Row]:
    from tests.tiny_models import write_colqwen2

    text, vision, dimension, pixels = sizes.late
    with _drawn_on_the_gpu():
        write_colqwen2(folder, text=text, vision=vision, dimension=dimension, max_pixels=pixels)
    for batch in batches:
        model = LateInteraction(_named(folder), batch)
        yield _embedded("late interaction", batch, "images/s", model.embed_pictures, pictures, chip)
        del model
        _freed()


def _named(folder: Path) -> ModelName:
    """Return a model as whoever has a GPU names it: in the precision that the chip is measured by."""
    return ModelName(str(folder), "1", ((PRECISION, FLOAT32 if best_device() == "cpu" else BFLOAT16),))


def _embedded(
    name: str, batch: int, unit: str, embed: Callable[[Sequence[Any]], object], inputs: Sequence[Any], chip: _Chip
) -> Row:
    operations = _operations(lambda: embed(inputs))
    return _row(name, batch, unit, len(inputs), _best_s(lambda: embed(inputs)), chip.least_s(operations))


def _row(name: str, batch: int, unit: str, count: float, took_s: float, least_s: float) -> Row:
    return Row(f"{name}, {batch} at once", unit, count / took_s, count / least_s, _CHIP)


if __name__ == "__main__":
    main()
