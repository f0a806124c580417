"""The corpus file for a GPU: every class of model that it names is loaded, tiny and with random weights."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from backends.models.registry import EMBEDDERS, TEXT_EMBEDDERS, language_model, scorer
from pipeline.corpus.corpora import load_corpus
from schemas.corpus import Corpus
from schemas.corpus.models import EmbeddingModels
from schemas.errors import UserError
from schemas.models import ModelName, Reply
from schemas.ports import Vector
from tasks.enriching.spaces import IMAGE, LATE, TEXT
from tests import tiny_vlm
from tests.tiny_models import (
    QWEN3_QUERY,
    draw,
    write_bert,
    write_clip,
    write_colqwen2,
    write_colqwen2_5,
    write_qwen3_embedding,
)

FILE = Path(__file__).parent.parent / "examples" / "gpu.yaml"
LONGEST = 64


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus(str(FILE))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders of tiny models of the classes that the file names."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    root = tmp_path_factory.mktemp("tiny")
    vlm_folder = tiny_vlm.write_qwen3(root / "vlm")
    read = Transformer(str(vlm_folder), transformer_task="any-to-any")
    yes, no = read.tokenizer.convert_tokens_to_ids(["y", "n"])
    CrossEncoder(modules=[read, LogitScore(yes, no)]).save_pretrained(str(root / "seeing"))
    return {
        "Qwen/Qwen3-VL-8B-Instruct": vlm_folder,
        "Qwen/Qwen3-Embedding-4B": write_qwen3_embedding(root / "text", longest=LONGEST),
        "laion/CLIP-ViT-H-14-laion2B-s32B-b79K": write_clip(root / "clip"),
        "vidore/colqwen2-v1.0-hf": write_colqwen2(root / "late"),
        "BAAI/bge-reranker-v2-m3": write_bert(root / "reranker", scores=True, family="XLMRoberta"),
        "Qwen/Qwen3-VL-Reranker-2B": root / "seeing",
    }


@pytest.fixture(scope="module")
def embeddings(corpus: Corpus, tiny: Mapping[str, Path]) -> EmbeddingModels:
    """The file's embeddings, with the tiny models."""
    models = corpus.embedding_models
    entries = {"text": models.text, "image": models.image, "late": models.late}
    return models.model_copy(
        update={
            key: entry.model_copy(update={"model": str(tiny[entry.model])})
            for key, entry in entries.items()
            if entry is not None
        }
    )


def last_tokens(folder: Path, texts: list[str]) -> Vector:
    """Return the vectors as their authors compute them: each text alone, cut before its end, the state of the end alone."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        ids = [*tokenizer(text, add_special_tokens=False)["input_ids"][: LONGEST - 1], tokenizer.eos_token_id]
        with torch.inference_mode():
            state = model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1].float().numpy()
        vectors.append(state / np.linalg.norm(state))
    return np.stack(vectors)


def test_texts_are_pooled_and_cut_as_their_model_wants_and_questions_have_the_instruction(
    corpus: Corpus, embeddings: EmbeddingModels, tiny: Mapping[str, Path]
) -> None:
    embedder = TEXT_EMBEDDERS.find(embeddings.text_model).load(4)
    texts = ["Loosen the screw.", "a", "Turn the shaft by hand. " * 9]
    folder = tiny[corpus.embedding_models.text.model]
    assert embedder.embed_documents(texts) == pytest.approx(last_tokens(folder, texts), abs=1e-5)
    prompt = corpus.embedding_models.text.query_prompt
    assert prompt is not None
    assert prompt.startswith("Instruct: ")
    assert prompt.endswith("\nQuery:")
    assert embedder.embed_query("which?") == pytest.approx(last_tokens(folder, [f"{prompt}which?"])[0], abs=1e-5)
    text_embedder = TEXT_EMBEDDERS.find(ModelName(str(folder), "1", (), "embeddings.text")).load(4)
    assert text_embedder.embed_query("which?") == pytest.approx(last_tokens(folder, [f"{QWEN3_QUERY}which?"])[0], abs=1e-5)


def test_pictures_become_vectors_of_both_models(embeddings: EmbeddingModels) -> None:
    pictures = [draw(seed) for seed in range(3)]
    for space in (IMAGE, LATE):
        model = space.model(embeddings)
        assert model is not None
        embedder: Any = EMBEDDERS[space.embeds].find(model).load(space.entry(embeddings).batch_size)
        vectors = embedder.embed_pictures(pictures)
        assert len(vectors) == 3
        assert all(np.linalg.norm(np.atleast_2d(vector), axis=1) == pytest.approx(1, abs=1e-3) for vector in vectors)
    assert TEXT.entry(embeddings).gpus == IMAGE.entry(embeddings).gpus == LATE.entry(embeddings).gpus == 1


def test_captions_and_answers_are_written_by_a_model_that_sees(corpus: Corpus, tiny: Mapping[str, Path]) -> None:
    options = corpus.models["vlm"]
    small = options.model_copy(update={"model": str(tiny[options.model]), "max_tokens": 4})
    model = language_model("models.vlm", small).load(options.batch_size)
    replies = dict(model.replies(tiny_vlm.requests(4)))
    assert all(isinstance(reply, Reply) for reply in replies.values()), replies


def test_rerankers_score_and_one_of_them_sees(corpus: Corpus, tiny: Mapping[str, Path]) -> None:
    for name, sees in (("reranker", False), ("seeing_reranker", True)):
        options = corpus.models[name]
        small = options.model_copy(update={"model": str(tiny[options.model])})
        model = scorer(f"models.{name}", small).load(4)
        assert model.sees_pictures is sees
        pictures = [draw(1), None] if sees else ()
        scores = model.scores("Which pump?", ["The water pump.", "A winch."], pictures)
        assert len(scores) == 2
        assert scores[0] != scores[1]


@pytest.mark.slow
def test_the_adapter_of_colqwen2_5_is_merged_by_the_script_of_the_guide(tmp_path: Path) -> None:
    """Queries get the vectors that the base model gives with the adapter beside its weights."""
    from safetensors.torch import load_file, save_file
    from transformers import ColQwen2ForRetrieval, ColQwen2Processor

    full_model, base, adapter, merged = (tmp_path / name for name in ("whole", "base", "adapter", "merged"))
    write_colqwen2_5(full_model)
    model, processor = (
        ColQwen2ForRetrieval.from_pretrained(full_model).eval(),
        ColQwen2Processor.from_pretrained(full_model),
    )
    processor.save_pretrained(base)
    model.config.vlm_config.save_pretrained(base)
    theirs = {"vlm.language_model.": "model.", "vlm.": "", "embedding_proj_layer.": "custom_text_proj."}
    weights = load_file(full_model / "model.safetensors")
    prefixes = {name: next(prefix for prefix in theirs if name.startswith(prefix)) for name in weights}
    stored = {theirs[prefix] + name.removeprefix(prefix): weights[name] for name, prefix in prefixes.items()}
    save_file(stored | {"lm_head.weight": torch.zeros(2)}, base / "model.safetensors")
    torch.manual_seed(1)
    parts: dict[str, torch.Tensor] = {}
    for module, prefix in (
        (model.vlm.language_model.layers[1].self_attn.q_proj, "model.layers.1.self_attn.q_proj"),
        (model.embedding_proj_layer, "custom_text_proj"),
    ):
        narrow, wide = torch.randn(2, module.in_features), torch.randn(module.out_features, 2)
        parts |= {
            f"base_model.model.{prefix}.lora_A.weight": narrow,
            f"base_model.model.{prefix}.lora_B.weight": wide,
        }
        delta = 4.0 * wide @ narrow
        module.register_forward_hook(lambda _, given, made, delta=delta: made + given[0] @ delta.T)
    adapter.mkdir()
    save_file(parts, adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 8}))
    guide = (FILE.parent.parent / "docs" / "guides" / "models-for-a-gpu.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```python merge\.py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "merge.py").write_text(script)
    process = subprocess.run(
        [sys.executable, str(tmp_path / "merge.py"), str(base), str(adapter), str(merged)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    embedder: Any = EMBEDDERS[LATE.embeds].find(ModelName(str(merged), "1", (), "embeddings.late")).load(2)
    inputs = processor.process_queries(text=["Which valve?"])
    with torch.inference_mode():
        expected = model(**inputs).embeddings[0].numpy()[inputs["attention_mask"][0].bool().numpy()]
    assert embedder.embed_query("Which valve?") == pytest.approx(expected, abs=1e-4)
    plain: Any = EMBEDDERS[LATE.embeds].find(ModelName(str(full_model), "1", (), "embeddings.late")).load(2)
    assert plain.embed_query("Which valve?") != pytest.approx(expected, abs=1e-2)
    with pytest.raises(UserError):
        EMBEDDERS[LATE.embeds].find(ModelName(str(adapter), "1", (), "embeddings.late")).load(2)


def test_what_is_not_pinned_says_so() -> None:
    """A branch may come to mean other weights."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(lines):
        assert ("revision: main" in line) == before.endswith("; unpinned"), line
    licences = [line for line in lines if re.search(r"# (Apache-2\.0|MIT), [\d.]+ GB", line)]
    assert len(licences) == len({model for line in lines for model in re.findall(r"(?:model|text): (\w+/[\w.-]+)", line)})
