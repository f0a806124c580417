"""Real architectures with random weights, unless asked otherwise of some thousand parameters, saved as real models are."""

import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from tokenizers.pre_tokenizers import ByteLevel

CLIP_DIMENSION, LATE_DIMENSION = 16, 24

CLIP = {
    "embed_dim": CLIP_DIMENSION,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


def write_clip(folder: Path, *, seed: int = 0, sizes: Mapping[str, Any] = CLIP) -> Path:
    """Write a folder that open_clip loads: its configuration, with these sizes, beside its weights."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    configuration = {"model_cfg": sizes, "preprocess_cfg": {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28]}}
    (folder / "open_clip_config.json").write_text(json.dumps(configuration))
    torch.manual_seed(seed)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


def write_bert(folder: Path, *, scores: bool = False, seed: int = 0, family: str = "Bert") -> Path:
    """Write a folder of BERT with a tokenizer of letters: an encoder, or one that gives a pair of texts a score.

    ``family`` is how names of the classes begin: Bert or XLMRoberta.
    """
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = {
        token: token_id for token_id, token in enumerate([*special, *letters, *(f"##{letter}" for letter in letters)])
    }
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    special_tokens = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **special_tokens).save_pretrained(folder)
    configuration = getattr(transformers, f"{family}Config")(
        max_position_embeddings=512 + 2 * (family == "XLMRoberta"),  # XLM-RoBERTa counts positions from 2
        pad_token_id=0,
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
        initializer_range=0.5,
    )
    torch.manual_seed(seed)
    kind = "ForSequenceClassification" if scores else "Model"
    getattr(transformers, f"{family}{kind}")(configuration).save_pretrained(folder)
    return folder


_ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10_000.0}
_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}
QWEN2_TEXT: dict[str, Any] = _TEXT | {"rope_parameters": _ROPE}
COLQWEN2_VISION: Mapping[str, Any] = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
COLQWEN2_5_VISION: Mapping[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 32,
    "fullatt_block_indexes": [1],
    "window_size": 56,
}


def write_colqwen2(
    folder: Path,
    *,
    seed: int = 0,
    text: Mapping[str, Any] = QWEN2_TEXT,
    vision: Mapping[str, Any] = COLQWEN2_VISION,
    dimension: int = LATE_DIMENSION,
    max_pixels: int = 112 * 112,
    family: str = "Qwen2VLConfig",
) -> Path:
    """Write a folder of ColQwen2: configuration, weights, tokenizer and processor, as the real model has them.

    Args:
        folder: Where to.
        seed: What the weights are drawn by.
        text: The sizes of the part that reads.
        vision: The sizes of the part that sees.
        dimension: Numbers of a vector.
        max_pixels: What pictures are scaled down to.
        family: The configuration of the model that sees and reads.
    """
    import torch
    import transformers
    from transformers import (
        ColQwen2Config,
        ColQwen2ForRetrieval,
        ColQwen2Processor,
        Qwen2Tokenizer,
        Qwen2VLImageProcessor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
    vocabulary = {letter: token_id for token_id, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], additional_special_tokens=special)
    tokens = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    pictures = Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=max_pixels)
    ColQwen2Processor(pictures, tokenizer).save_pretrained(folder)
    vlm_config = getattr(transformers, family)(
        text_config={"vocab_size": len(tokenizer), **text},
        vision_config=dict(vision),
        image_token_id=tokens["<|image_pad|>"],
        vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    ColQwen2ForRetrieval(ColQwen2Config(vlm_config=vlm_config, embedding_dim=dimension)).save_pretrained(folder)
    return folder


def write_colqwen2_5(folder: Path) -> Path:
    """Write a folder of ColQwen2.5: the class of ColQwen2 round a Qwen2.5-VL."""
    return write_colqwen2(folder, vision=COLQWEN2_5_VISION, family="Qwen2_5_VLConfig")


def write_colpali(folder: Path, *, seed: int = 0) -> Path:
    """Write a folder of ColPali, likewise."""
    import torch
    from transformers import (
        ColPaliConfig,
        ColPaliForRetrieval,
        ColPaliProcessor,
        GemmaTokenizer,
        PaliGemmaConfig,
        SiglipImageProcessor,
    )

    letters = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<image>", "\n", "▁", *map(chr, range(33, 127))]
    tokenizer = GemmaTokenizer(
        vocab={letter: token_id for token_id, letter in enumerate(letters)},
        merges=[],
        additional_special_tokens=["<image>"],
    )
    pictures = SiglipImageProcessor(size={"height": 32, "width": 32})
    pictures.image_seq_length = 16
    processor = ColPaliProcessor(pictures, tokenizer)
    processor.save_pretrained(folder)
    vlm_config = PaliGemmaConfig(
        text_config=_TEXT | {"model_type": "gemma", "vocab_size": len(tokenizer), "head_dim": 16},
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
            "vision_use_head": False,
        },
        image_token_index=processor.image_token_id,
        projection_dim=32,
    )
    torch.manual_seed(seed)
    ColPaliForRetrieval(ColPaliConfig(vlm_config=vlm_config, embedding_dim=LATE_DIMENSION)).save_pretrained(folder)
    return folder


_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_causal(folder: Path, *, seed: int = 0) -> Path:
    """Write a folder of a causal language model with a chat template: it reads text alone."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {letter: token_id for token_id, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token="<|im_end|>", additional_special_tokens=special, model_max_length=4096
    )
    tokenizer.chat_template = _CHAT
    tokenizer.save_pretrained(folder)
    sizes = _TEXT | {"initializer_range": 0.5, "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(seed)
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    return folder


_CHAT_WITH_PICTURES = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def write_multimodal_reranker(folder: Path, *, seed: int = 0) -> Path:
    """Write a folder of a cross-encoder round a Qwen2-VL: the score is the log-odds of one letter against another."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore
    from transformers import (
        Qwen2Tokenizer,
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    special += ["<|image_pad|>", "<|video_pad|>"]
    vocabulary = {letter: token_id for token_id, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], additional_special_tokens=special, model_max_length=4096)
    tokens = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    pictures = Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=112 * 112)
    base = folder / "base"
    Qwen2VLProcessor(pictures, tokenizer, Qwen2VLVideoProcessor(), chat_template=_CHAT_WITH_PICTURES).save_pretrained(base)
    config = Qwen2VLConfig(
        text_config={"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": None, **QWEN2_TEXT},
        vision_config=dict(COLQWEN2_VISION),
        image_token_id=tokens["<|image_pad|>"],
        video_token_id=tokens["<|video_pad|>"],
        vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    Qwen2VLForConditionalGeneration(config).save_pretrained(base)
    read = Transformer(str(base), transformer_task="any-to-any")
    CrossEncoder(modules=[read, LogitScore(vocabulary["y"], vocabulary["n"])]).save_pretrained(str(folder / "whole"))
    return folder / "whole"


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


QWEN3: Mapping[str, Any] = {**_TEXT, "head_dim": 16}
QWEN3_QUERY = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


def write_qwen3_embedding(folder: Path, *, seed: int = 0, text: Mapping[str, Any] = QWEN3, longest: int = 64) -> Path:
    """Write a folder of Qwen3-Embedding: a causal model whose last token, the end of the text, is the vector.

    Args:
        folder: Where to.
        seed: What the weights are drawn by.
        text: The sizes of the model.
        longest: Tokens after which texts are cut.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
    from tokenizers.processors import TemplateProcessing
    from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3Model

    end = "<|endoftext|>"
    vocabulary = {letter: token_id for token_id, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], pad_token=end, eos_token=end, model_max_length=longest)
    number = tokenizer.convert_tokens_to_ids(end)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(f"$A {end}", f"$A $B {end}", [(end, number)])
    base = folder / "base"
    tokenizer.save_pretrained(base)
    torch.manual_seed(seed)
    Qwen3Model(Qwen3Config(**{"vocab_size": len(tokenizer), **text})).save_pretrained(base)
    read = Transformer(str(base), max_seq_length=longest)
    pooled = Pooling(int(text["hidden_size"]), pooling_mode="lasttoken")
    prompts = {"query": QWEN3_QUERY, "document": ""}
    SentenceTransformer(modules=[read, pooled, Normalize()], prompts=prompts).save_pretrained(str(folder / "whole"))
    return folder / "whole"
