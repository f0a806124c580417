"""Real architectures with random weights of some thousand parameters, saved to folders as real models are."""

import io
import json
import random
from pathlib import Path

from PIL import Image, ImageDraw

CLIP_DIMENSION, LATE_DIMENSION = 16, 24

_CLIP = {
    "embed_dim": CLIP_DIMENSION,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


def write_clip(folder: Path, *, seed: int = 0) -> Path:
    """Write a folder that open_clip loads: its configuration beside its weights."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    configuration = {"model_cfg": _CLIP, "preprocess_cfg": {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28]}}
    (folder / "open_clip_config.json").write_text(json.dumps(configuration))
    torch.manual_seed(seed)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


def draw(seed: int, width: int = 60, height: int = 40) -> bytes:
    """Return a PNG of coloured rectangles; the same for the same seed."""
    chance = random.Random(seed)
    image = Image.new("RGB", (width, height), "white")
    for _ in range(6):
        x, y = chance.randrange(width), chance.randrange(height)
        box = (x, y, x + chance.randrange(1, 30), y + chance.randrange(1, 30))
        ImageDraw.Draw(image).rectangle(box, fill=tuple(chance.randrange(256) for _ in range(3)))
    return png(image)


def square(colour: str) -> bytes:
    """Return a PNG of a square of one colour on white."""
    image = Image.new("RGB", (224, 224), "white")
    ImageDraw.Draw(image).rectangle((40, 40, 184, 184), fill=colour)
    return png(image)


def png(image: Image.Image) -> bytes:
    """Return a picture, encoded."""
    data = io.BytesIO()
    image.save(data, "png")
    return data.getvalue()
