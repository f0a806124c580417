"""What a refresh would take on GPUs, by what was measured of one."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import open_workspace
from pipeline.stages.plan import plan
from tests.pipeline.conftest import named_models, write_corpus
from tests.tiny_models import write_clip, write_colqwen2


def corpus(folder: Path, captioner: str, **embeddings: object) -> str:
    """Write a corpus file whose captioner and models of pictures have a GPU each."""
    local = {"kind": "local", "model": captioner, "revision": "1", "gpus": 1}
    options = {"ocr": "none", "captioner": "vlm"}
    file = write_corpus(folder, yaml.safe_dump(named_models(embeddings, {"vlm": local})))
    file.write_text(file.read_text().replace("captions: {ocr: none}", f"captions: {json.dumps(options)}"))
    return str(file)


def test_a_plan_gives_gpu_minutes_of_measured_models_alone(corpus_file: Path, tmp_path: Path) -> None:
    clip, late = str(write_clip(tmp_path / "CLIP-ViT-L-14")), str(write_colqwen2(tmp_path / "colqwen2.5-v0.2"))
    image = {"model": clip, "revision": "1", "precision": "bfloat16", "gpus": 1}
    file = corpus(
        corpus_file.parent.parent,
        "Qwen/Qwen2.5-VL-3B-Instruct",
        image=image,
        late={"model": late, "revision": "1", "precision": "bfloat16", "gpus": 1},
    )
    gpu = plan(open_workspace(file), "plan").summary.gpu
    assert gpu.keys() == {"vlm", "vectors image", "vectors late"}, "the text model runs on CPUs"
    assert gpu["vlm"].minutes == pytest.approx(gpu["vlm"].items / 9.68 / 60)
    assert gpu["vectors image"].minutes == pytest.approx(gpu["vectors image"].items / 559 / 60)
    assert gpu["vectors late"].minutes is None, "ColQwen2 was measured, ColQwen2.5 wasn't"
    output = " ".join(CliRunner().invoke(app, ["plan", file]).output.split())
    assert "by Qwen/Qwen2.5-VL-3B-Instruct: 0.0 minutes of one NVIDIA H100, measured on 2026-11-26" in output
    assert "GPU minutes unknown, since no such model was measured" in output


def test_another_precision_was_not_measured_and_auto_is_no_gpu_asked_for(corpus_file: Path, tmp_path: Path) -> None:
    late = str(write_colqwen2(tmp_path / "colqwen2-v1.0"))
    folder = corpus_file.parent.parent
    gpu = plan(
        open_workspace(corpus(folder, "Qwen/Qwen3-VL-8B-Instruct", late={"model": late, "revision": "1", "gpus": 1})),
        "plan",
    ).summary.gpu
    assert {name: one.minutes for name, one in gpu.items()} == {"vlm": None, "vectors late": None}
    auto = plan(open_workspace(corpus(folder, "a", late={"model": late, "revision": "1"})), "plan").summary.gpu
    assert auto.keys() == {"vlm"}
