"""The benchmark on a GPU: its tables, and all of its models at tiny sizes."""

import json
import sys
from pathlib import Path

import pytest

from bench import gpu
from bench.gpu import Measured, hourly, table


def test_hours_are_those_of_the_fastest_batch_and_of_the_share_that_a_pool_reaches() -> None:
    def one(batch: int, per_s: float) -> dict[str, object]:
        return {"model": "ViT", "unit": "pictures", "batch": batch, "per_s": per_s}

    text = hourly({"chip": "H100", "date": "2026-11-27", "measured": [one(16, 100), one(64, 500), one(256, 400)]})
    assert "| ViT | 1.8 million | 6.8 million | 54.7 million pictures |" in text
    assert "Measured on one H100, 2026-11-27" in text


def test_what_is_not_measured_is_a_dash() -> None:
    assert "| ViT | 8 | 12.5 pictures | – | – | – | – | – |" in table("CPU", [Measured("ViT", "pictures", 8, 12.5)])
    full = Measured("VLM", "figures", 64, 10, tokens_per_s=1000, tflops=40.0, share_of_peak=0.4, idle=0.125, peak_gib=7.25)
    assert "| VLM | 64 | 10.0 figures | 1000 | 40.0 | 40% | 12% | 7.2 GiB |" in table("H100", [full])


@pytest.mark.slow
def test_every_model_is_measured_at_tiny_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu", "--tiny", "--models", "--out", str(out)])
    gpu.main()
    measured = json.loads(out.read_text())["measured"]
    assert {measurement["model"] for measurement in measured} == {job.model for job in gpu.jobs(tiny=True)}, (
        capsys.readouterr().out
    )
    assert all(measurement["per_s"] > 0 and measurement["tflops"] > 0 for measurement in measured)


def test_the_page_on_sizes_has_the_table_by_which_plans_estimate() -> None:
    assert hourly(json.loads(gpu.GPU_TIME.read_text())) in gpu.SIZING.read_text()
