"""Models at work on a GPU, in nine minutes: ``python -m bench.gpu [--out FILE] [--tiny]``.

Code is that of a refresh, sizes are those of real models, weights are random: there is nothing to download. For each model and
batch size: items and tokens a second, FLOPs as torch counts them against the chip's peak in bfloat16, the share of the time in
which no kernel runs, and peak memory. Then the stage ``enrich`` of the example corpus, with a model each for pictures, pages and
captions, on the GPU; and with tiny models on the GPU and on the CPU, whose rows are compared.

``--tiny`` tries all of it with tiny models, on the CPU if there is no GPU. ``--out`` also writes the figures as JSON, and
``--from FILE`` makes such a file ``gpu_time.json``, and the page on sizes
(``docs/guides/size-a-platform.md``).
"""

import contextlib
import gc
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from backends.models.clip import Clip
from backends.models.late_interaction import LateInteraction
from backends.models.local_model import LocalModel
from backends.models.sentence_transformer import open_sentence_transformer
from bench.table import parser_of, rewrite
from pipeline.corpus.workspace import open_workspace
from pipeline.run import RefreshRun
from schemas.corpus.models import ModelEntry
from schemas.models import BFLOAT16, PRECISION, ModelName, Request, settings
from schemas.parquet import from_parquet
from schemas.stages import Stage
from tests import tiny_models, tiny_vlm
from tests.tiny_models import draw, write_clip, write_colqwen2, write_qwen3_embedding

LIMIT_S = 9 * 60
"""Seconds after which no further measurement begins; each takes at most one minute."""

MANUALS = Path(__file__).parent.parent / "examples" / "manuals" / "pdfs"
SIZING = Path(__file__).parent.parent / "docs" / "guides" / "size-a-platform.md"
GPU_TIME = Path(__file__).with_name("gpu_time.json")

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12}
"""FLOPs a second in bfloat16 without sparsity, by their makers' data sheets."""

POOL_SHARE = 0.95
"""Least share of linear throughput that a pool reaches (``python -m bench.pool``)."""

TOKENS = 100
"""Of a caption. Random weights end no text before."""

TEXT_TOKENS = 256
PICTURE_PX = (640, 480)

_VOCABULARY = 151_936
_ROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1_000_000.0}}
_VIT_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 768, "heads": 12, "layers": 12}
VIT_L = {
    "embed_dim": 768,
    "vision_cfg": {"image_size": 224, "layers": 24, "width": 1024, "patch_size": 14},
    "text_cfg": _VIT_TEXT,
}
VIT_H = {
    "embed_dim": 1024,
    "vision_cfg": {"image_size": 224, "layers": 32, "width": 1280, "head_width": 80, "patch_size": 14},
    "text_cfg": _VIT_TEXT | {"width": 1024, "heads": 16, "layers": 24},
}


def _qwen(hidden: int, inner: int, layers: int, heads: int, keys: int, **more: Any) -> dict[str, Any]:
    return {
        **{"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers},
        **{"num_attention_heads": heads, "num_key_value_heads": keys, "max_position_embeddings": 32768, **more},
        "vocab_size": _VOCABULARY,
    }


def _sight(hidden: int) -> dict[str, Any]:
    return {
        **{"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": hidden},
        **{"fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112},
    }


COLQWEN2: dict[str, Any] = {
    "text": _qwen(1536, 8960, 28, 12, 2, **_ROPE),
    "vision": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16, "mlp_ratio": 4},
    "dimension": 128,
    "max_pixels": 768 * 28 * 28,
}
VLM_3B: dict[str, Any] = {"text": _qwen(2048, 11008, 36, 16, 2, **_ROPE), "vision": _sight(2048)}
VLM_7B: dict[str, Any] = {"text": _qwen(3584, 18944, 28, 28, 4, **_ROPE), "vision": _sight(3584)}
QWEN3_600M = _qwen(1024, 3072, 28, 16, 8, head_dim=128)
QWEN3_4B = _qwen(2560, 9728, 36, 32, 8, head_dim=128)

Work = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Measured:
    """One model at one batch size. ``tflops`` and shares are None if they can't be counted."""

    model: str
    unit: str
    batch: int
    per_s: float
    tokens_per_s: float | None = None
    tflops: float | None = None
    share_of_peak: float | None = None
    idle: float | None = None
    peak_gib: float | None = None


@dataclass(frozen=True)
class Job:
    """A model to measure.

    Attributes:
        model: Its name in the table.
        unit: What it takes.
        write: Writes its folder.
        load: Returns its work, by folder and batch size.
        inputs: What it is given, at least twice the largest batch.
        batches: Batch sizes.
        tokens: Tokens of an input that are counted; 0 for none.
    """

    model: str
    unit: str
    write: Callable[[Path], Path]
    load: Callable[[Path, int], Work]
    inputs: Sequence[Any]
    batches: Sequence[int]
    tokens: int = 0


def main() -> None:
    """Measure, and print tables."""
    import torch

    parser = parser_of("gpu", __doc__)
    parser.add_argument("--tiny", action="store_true", help="tiny models")
    parser.add_argument("--models", action="store_true", help="models alone, without the stage")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--from", dest="given", type=Path, help="a JSON file to make the page on sizes from")
    options = parser.parse_args()
    if options.given:
        report = json.loads(options.given.read_text(encoding="utf-8"))
        kept = {name: report[name] for name in ("chip", "date")} | {"measured": fastest(report["measured"])}
        GPU_TIME.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        rewrite(SIZING, "python -m bench.gpu", hourly(report))
        return
    if not options.tiny and not torch.cuda.is_available():
        print("gpu: this machine has none that torch can use; --tiny tries the benchmark without one")
        return
    began = time.perf_counter()
    measured: list[Measured] = []
    with TemporaryDirectory() as folder:
        for job in jobs(tiny=options.tiny):
            if time.perf_counter() - began > LIMIT_S - 150:
                print(f"{job.model}: not measured, {LIMIT_S // 60} minutes are up")
                continue
            measured += _tried(job, Path(folder))
        chip = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        print(table(chip, measured))
        lines = [] if options.models else [*stage(Path(folder), began, tiny=options.tiny)]
        print("\n".join(lines))
    if options.out:
        report = {"chip": chip, "date": time.strftime("%Y-%m-%d"), "stage": lines}
        options.out.write_text(json.dumps(report | {"measured": [asdict(one) for one in measured]}, indent=1) + "\n")


def jobs(*, tiny: bool) -> Iterator[Job]:
    """Yield what is measured, the most used first."""
    count = 4 if tiny else 512
    pictures = [draw(seed, *(PICTURE_PX if not tiny else (60, 40))) for seed in range(count)]
    texts = [f"{number} " + "turn the shaft by hand " * TEXT_TOKENS for number in range(count)]
    asked = [Request.of(str(number), "Describe it.", picture) for number, picture in enumerate(pictures)]
    some = (1, 2) if tiny else (16, 64, 256)
    few = (1, 2) if tiny else (4, 16)

    def clip(sizes: Mapping[str, Any]) -> Callable[[Path], Path]:
        return lambda folder: write_clip(folder, sizes=tiny_models.CLIP if tiny else sizes)

    def late(folder: Path) -> Path:
        return write_colqwen2(folder, **({} if tiny else COLQWEN2))

    def text(sizes: Mapping[str, Any]) -> Callable[[Path], Path]:
        return lambda folder: write_qwen3_embedding(folder, text=tiny_models.QWEN3 if tiny else sizes, longest=TEXT_TOKENS)

    def vlm(sizes: Mapping[str, Any]) -> Callable[[Path], Path]:
        return lambda folder: tiny_vlm.write(folder, **({} if tiny else sizes))

    def writes(batches: Sequence[int]) -> dict[str, Any]:
        def load(folder: Path, batch: int) -> Work:
            captioner = ModelEntry(kind="local", model=str(folder), revision="1", max_tokens=4 if tiny else TOKENS)
            model = LocalModel("models.vlm", captioner, batch)
            return lambda requests: [*model.replies(requests)]

        return {"load": load, "inputs": asked, "batches": batches, "tokens": TOKENS}

    sees: dict[str, Any] = {"unit": "pictures", "inputs": pictures}
    yield Job("ViT-L-14, bfloat16", write=clip(VIT_L), load=_clip, batches=some, **sees)
    yield Job("ViT-H-14, bfloat16", write=clip(VIT_H), load=_clip, batches=some, **sees)
    reads: dict[str, Any] = {"unit": "texts", "load": _text, "inputs": texts, "batches": few, "tokens": TEXT_TOKENS}
    yield Job("Qwen3-Embedding 0.6B", write=text(QWEN3_600M), **reads)
    yield Job("Qwen2.5-VL 3B, transformers", "figures", vlm(VLM_3B), **writes((1, 2) if tiny else (64, 128)))
    yield Job("ColQwen2-v1, bfloat16", write=late, load=_late, batches=few, **sees)
    yield Job("Qwen3-Embedding 4B", write=text(QWEN3_4B), **reads)
    yield Job("Qwen2.5-VL 7B, transformers", "figures", vlm(VLM_7B), **writes((1,) if tiny else (64,)))


def _named(folder: Path, **more: str) -> ModelName:
    return ModelName(str(folder), "1", settings(**more), "bench")


def _clip(folder: Path, batch: int) -> Work:
    return Clip(_named(folder, **{PRECISION: BFLOAT16}), batch).embed_pictures


def _late(folder: Path, batch: int) -> Work:
    return LateInteraction(_named(folder, **{PRECISION: BFLOAT16}), batch).embed_pictures


def _text(folder: Path, batch: int) -> Work:
    return open_sentence_transformer(_named(folder), batch=batch).embed_documents


def _tried(job: Job, folder: Path) -> list[Measured]:
    """Measure a job at each of its batch sizes; what fails is printed, and the others go on."""
    measured: list[Measured] = []
    written = folder / "model"
    try:
        with _quick_weights():
            written = job.write(written)
        for batch in job.batches:
            measured.append(measure(job, written, batch))
            _free()
    except Exception as error:  # noqa: BLE001  the time on a GPU is short, and the other models can be measured
        print(f"{job.model}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    shutil.rmtree(folder / "model", ignore_errors=True)
    _free()
    return measured


@contextlib.contextmanager
def _quick_weights() -> Iterator[None]:
    """Let weights be drawn on the GPU, and in bfloat16; billions of them take minutes otherwise."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def _free() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def measure(job: Job, folder: Path, batch: int) -> Measured:
    """Measure a model at a batch size."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    on_gpu = torch.cuda.is_available()
    work = job.load(folder, batch)
    few = job.inputs[: min(2, len(job.inputs))]
    with FlopCounterMode(display=False) as counter:
        work(few)
    flops = counter.get_total_flops() / len(few)
    inputs = job.inputs[: 4 * batch]
    work(inputs[:batch])  # kernels are chosen at the first call of a shape
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    work(inputs)
    per_s = len(inputs) / (time.perf_counter() - began)
    peak = next((peak for name, peak in PEAK.items() if on_gpu and name in torch.cuda.get_device_name()), None)
    return Measured(
        model=job.model,
        unit=job.unit,
        batch=batch,
        per_s=per_s,
        tokens_per_s=per_s * job.tokens if job.tokens else None,
        tflops=flops * per_s / 1e12 if flops else None,
        share_of_peak=flops * per_s / peak if flops and peak else None,
        idle=_idle(work, inputs) if on_gpu else None,
        peak_gib=torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
    )


def _idle(work: Work, inputs: Sequence[Any]) -> float | None:
    """Return the share of a run in which no kernel runs, by the profiler of torch."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        began = time.perf_counter()
        work(inputs[: max(1, len(inputs) // 4)])
        torch.cuda.synchronize()
        wall = time.perf_counter() - began
    busy: float = sum(event.self_device_time_total for event in profile.key_averages()) / 1e6
    return max(0.0, 1 - busy / wall)


def stage(folder: Path, began: float, *, tiny: bool) -> Iterator[str]:
    """Yield lines on ``enrich`` of the example corpus: on the GPU as long as time is left, and tiny models on both devices."""
    import torch

    models = _models(folder / "tiny", tiny=True)
    on_cpu = _rows(folder / "on-cpu", models, gpus=0)[1]
    yield f"enrich with tiny models on the CPU: {sum(map(len, on_cpu.values()))} records of {len(on_cpu)} caches"
    if not torch.cuda.is_available():
        return
    on_gpu = _rows(folder / "on-gpu", models, gpus=1)[1]
    if {cache: rows.keys() for cache, rows in on_gpu.items()} != {cache: rows.keys() for cache, rows in on_cpu.items()}:
        yield "the GPU made OTHER rows"
        return
    pairs = ((on_gpu[cache][key], vector) for cache, rows in on_cpu.items() for key, vector in rows.items())
    yield f"the same rows on the GPU, least cosine {min(_cosine(*pair) for pair in pairs):.5f}"
    if tiny or time.perf_counter() - began > LIMIT_S - 60:
        return
    with _quick_weights():
        models = _models(folder / "real", tiny=False)
    _free()
    with _sampled() as used:
        seconds, rows = _rows(folder / "real-on-gpu", models, gpus=1)
    count = sum(map(len, rows.values()))
    yield f"enrich with ViT-L-14, ColQwen2 2B and Qwen2.5-VL 3B on the GPU: {seconds:.0f} s, {count} vectors"
    yield f"  the GPU was idle for {1 - np.mean(used) / 100:.0%} of it"


def _models(folder: Path, *, tiny: bool) -> dict[str, Path]:
    sizes = {job.model: job.write for job in jobs(tiny=tiny)}
    return {
        "image": sizes["ViT-L-14, bfloat16"](folder / "image"),
        "late": sizes["ColQwen2-v1, bfloat16"](folder / "late"),
        "vlm": sizes["Qwen2.5-VL 3B, transformers"](folder / "vlm"),
    }


def _rows(folder: Path, models: Mapping[str, Path], *, gpus: int) -> tuple[float, dict[str, dict[str, Any]]]:
    """Enrich the example corpus; return the seconds it took, and the stored vectors by cache and key."""
    named = {name: {"model": str(path), "revision": "1", "gpus": gpus} for name, path in models.items()}
    corpus = {
        "name": "bench",
        "source": str(MANUALS),
        "store": str(folder / "store"),
        "captions": {
            "ocr": "none",
            "captioner": "vlm",
        },
        "models": {
            "vlm": named["vlm"] | {"kind": "local", "max_tokens": 8, "batch": 32},
            "image": named["image"] | {"kind": "image_embedder"},
            "late": named["late"] | {"kind": "late_embedder"},
        },
        "embeddings": {"image": "image", "late": "late"},
    }
    folder.mkdir(parents=True)
    file = folder / "bench.yaml"
    file.write_text(yaml.safe_dump(corpus))
    workspace = open_workspace(str(file))
    run = RefreshRun(workspace, "bench")
    version = run.plan().version
    run.parse(version)
    began = time.perf_counter()
    run.work(Stage.ENRICH, version)
    took = time.perf_counter() - began
    vectors: dict[str, dict[str, Any]] = {}
    for name in workspace.store.names("vectors"):
        cache = vectors.setdefault(name.rpartition("/")[0], {})
        for row in from_parquet(workspace.store.get(name)).to_pylist():
            key, vector = row.values()
            cache[str(key)] = vector
    return took, vectors


def _cosine(one: Any, other: Any) -> float:
    a, b = (np.atleast_2d(np.asarray(vector, np.float64)) for vector in (one, other))
    return float(min((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)))


@contextlib.contextmanager
def _sampled() -> Iterator[list[float]]:
    """Yield a list that holds the GPU's utilisation, five times a second, after the block."""
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    used: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sampler:
        try:
            yield used
        finally:
            sampler.terminate()
            used += [float(line) for line in (sampler.stdout or ()) if line.strip().isdecimal()]


def table(chip: str, measured: Sequence[Measured]) -> str:
    """Return the figures as Markdown."""
    lines = [
        f"On {chip}, {time.strftime('%Y-%m-%d')}, random weights; captions of {TOKENS} tokens, texts of {TEXT_TOKENS}:",
        "",
        "| model | batch | items/s | tokens/s | TFLOP/s | of peak | GPU idle | peak memory |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in measured:
        figures = (
            f"{one.per_s:.1f} {one.unit}",
            "–" if one.tokens_per_s is None else f"{one.tokens_per_s:.0f}",
            "–" if one.tflops is None else f"{one.tflops:.1f}",
            "–" if one.share_of_peak is None else f"{one.share_of_peak:.0%}",
            "–" if one.idle is None else f"{one.idle:.0%}",
            "–" if one.peak_gib is None else f"{one.peak_gib:.1f} GiB",
        )
        lines.append(f"| {one.model} | {one.batch} | {' | '.join(figures)} |")
    return "\n".join(lines)


def hourly(report: Mapping[str, Any]) -> str:
    """Return what GPUs do an hour, from a measured table: each model at its fastest batch size, as Markdown."""
    lines = [
        f"Measured on one {report['chip']}, {report['date']}; of several GPUs, {POOL_SHARE} of linear, which a pool of eight",
        "actors with a model that sleeps reaches (`python -m bench.pool`). Several GPUs were never run.",
        "",
        "| model | one GPU, an hour | 4 | 32 |",
        "|---|---:|---:|---:|",
    ]
    for one in fastest(report["measured"]):
        hour = 3600 * one["per_s"]
        counts = [hour, *(gpus * POOL_SHARE * hour for gpus in (4, 32))]
        shown = " | ".join(_count(count) for count in counts)
        lines.append(f"| {one['model']} | {shown} {one['unit']} |")
    return "\n".join(lines)


def fastest(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return model, unit and items a second of each model at its fastest batch size."""
    rows: dict[str, dict[str, Any]] = {}
    for one in measured:
        if one["per_s"] > rows.get(one["model"], {"per_s": 0})["per_s"]:
            rows[one["model"]] = {name: one[name] for name in ("model", "unit", "per_s")}
    return [*rows.values()]


def _count(count: float) -> str:
    return f"{count / 1e6:.1f} million" if count >= 999_500 else f"{round(count, -3):,.0f}"


if __name__ == "__main__":
    main()
