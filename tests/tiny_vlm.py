"""A vision-language model of the architecture of Qwen2.5-VL, its weights random and, unless asked otherwise, a few thousand.

It sees and it writes, and what it writes depends on what it sees and is asked; it makes no sense.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from schemas.models import Request
from tests.tiny_models import QWEN2_TEXT

_LETTERS = "It shows a red square beside a blue circle. What is in this figure? Describe it in a few words. " * 4

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]


TEXT: Mapping[str, Any] = QWEN2_TEXT | {"initializer_range": 0.5}
VISION: Mapping[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 32,
    "fullatt_block_indexes": [1],
    "initializer_range": 0.5,
}


QWEN3_TEXT: Mapping[str, Any] = {**TEXT, "head_dim": 16}
QWEN3_VISION: Mapping[str, Any] = {
    **{"depth": 2, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32},
    **{"deepstack_visual_indexes": [1], "num_position_embeddings": 64, "initializer_range": 0.5},
}


def write_qwen3(folder: Path) -> Path:
    """Write a folder of Qwen3-VL."""
    return write(folder, text=QWEN3_TEXT, vision=QWEN3_VISION, family="Qwen3VL", patch_px=16)


def write(
    folder: Path,
    *,
    seed: int = 7,
    text: Mapping[str, Any] = TEXT,
    vision: Mapping[str, Any] = VISION,
    family: str = "Qwen2_5_VL",
    patch_px: int = 14,
    **fields: Any,
) -> Path:
    """Write the configuration, the weights, the tokenizer and the processor that the real model has into a folder.

    Args:
        folder: Where to.
        seed: What the weights are drawn by.
        text: The sizes of the part that reads and writes.
        vision: The sizes of the part that sees.
        family: How names of its classes begin.
        patch_px: Side of what it sees as one.
        more: Other settings of the model.
    """
    import torch
    import transformers
    from transformers import Qwen2Tokenizer, Qwen2VLImageProcessor

    videos = transformers.Qwen3VLVideoProcessor if family == "Qwen3VL" else transformers.Qwen2VLVideoProcessor

    vocabulary, merges = _bytes_and_merges()
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary, merges=merges, eos_token="<|im_end|>", additional_special_tokens=_SPECIAL, model_max_length=4096
    )
    tokens = dict(zip(_SPECIAL, tokenizer.convert_tokens_to_ids(_SPECIAL), strict=True))
    getattr(transformers, f"{family}Processor")(
        Qwen2VLImageProcessor(patch_size=patch_px), tokenizer, videos(), chat_template=_TEMPLATE
    ).save_pretrained(folder)
    config = getattr(transformers, f"{family}Config")(
        text_config={
            "vocab_size": len(tokenizer),
            **text,
            "bos_token_id": None,
            "eos_token_id": tokens["<|im_end|>"],
            "pad_token_id": tokens["<|endoftext|>"],
        },
        vision_config=dict(vision),
        image_token_id=tokens["<|image_pad|>"],
        video_token_id=tokens["<|video_pad|>"],
        vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
        **fields,
    )
    torch.manual_seed(seed)
    getattr(transformers, f"{family}ForConditionalGeneration")(config).save_pretrained(folder)
    return folder


def _bytes_and_merges() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary of a byte-level tokenizer: all bytes, and a few pairs of them."""
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([_LETTERS], trainer)
    bpe = json.loads(tokenizer.to_str())["model"]
    return bpe["vocab"], [tuple(pair) for pair in bpe["merges"]]


def picture(seed: int, width: int = 60, height: int = 60) -> bytes:
    """Return noise as PNG, the same of the same seed."""
    noise = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    return buffer.getvalue()


def requests(count: int) -> list[Request]:
    """Return requests of several lengths and sizes, every third without a picture."""
    return [
        Request.of(
            request_id=f"request-{number}",
            prompt="What is it? " * (1 + number % 4) + f"Number {number}.",
            picture=picture(number, width=60 + 30 * (number % 3)) if number % 3 else None,
        )
        for number in range(count)
    ]
