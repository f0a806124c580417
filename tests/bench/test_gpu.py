"""The benchmark of models on a GPU, by tiny ones on a CPU."""

import pytest

from bench import gpu
from tests import tiny_models, tiny_vlm

TINY = gpu.Sizes(
    captioner=(tiny_vlm.TEXT, tiny_vlm.VISION),
    clip=tiny_models.CLIP,
    late=(tiny_models.QWEN2_TEXT, tiny_models.COLQWEN2_VISION, tiny_models.LATE_DIMENSION, 112 * 112),
    picture=(64, 48),
    count=4,
    batches=((2,), (2, 4), (2,)),
    tokens=3,
    product=64,
    copied=1 << 16,
)


def test_every_model_is_loaded_called_and_set_beside_what_the_chip_allows() -> None:
    rows = list(gpu.rows(TINY))
    assert [(row.name, row.unit) for row in rows] == [
        ("the chip: products in bfloat16", "TFLOP/s"),
        ("the chip: memory", "GB/s"),
        ("captioner, 2 at once", "images/s"),
        ("captioner, 2 at once", "tokens/s"),
        ("open_clip, 2 at once", "images/s"),
        ("open_clip, 2 at once", "texts/s"),
        ("open_clip, 4 at once", "images/s"),
        ("open_clip, 4 at once", "texts/s"),
        ("late interaction, 2 at once", "images/s"),
    ]
    assert all(row.ours > 0 for row in rows)
    assert all(row.peer for row in rows[2:])
    images, tokens = rows[2:4]
    assert tokens.ours / images.ours == pytest.approx(TINY.tokens)


def test_operations_are_counted() -> None:
    import torch

    left, right = torch.ones(3, 5), torch.ones(5, 7)
    assert gpu._operations(lambda: left @ right) == 2 * 3 * 5 * 7


def test_the_real_sizes_are_those_of_the_models_that_they_are_named_after() -> None:
    sizes = gpu.real_sizes()
    assert sizes.clip["embed_dim"] == 768
    text, vision = sizes.captioner
    assert text["hidden_size"] == vision["out_hidden_size"]
    assert sizes.late[0]["hidden_size"] == sizes.late[1]["hidden_size"]


def test_it_says_so_where_there_is_no_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(gpu, "best_device", lambda: "cpu")
    gpu.main()
    assert capsys.readouterr().out.strip() == gpu.NONE_HERE
