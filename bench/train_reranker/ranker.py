"""The cross-encoder: tokens, training, export to ONNX in 8 bits, scores."""

import hashlib
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.train_reranker.groups import SEED
from schemas.ports import Vector
from tasks.answering.candidates import stems
from tasks.answering.highlight import content_words

TEST_MANUALS = ("borgbackup-doc", "gammu-doc", "rt5-doc-html")
"""Manuals that are kept for ``test``."""

QUESTION_TOKENS, TOKENS = 24, 96
GROUPS_A_STEP = 8
Tokens = NDArray[np.int64]
LEARNING_RATE, ANSWERING = 8e-5, 0.5
"""The second is the weight of the loss of answering beside that of ranking."""


class Pairs:
    """Tokens of a question with passages; words that both have are marked by their segment, which few examples teach to find.

    Source:
        Boualili, Moreno and Boughanem, "MarkedBERT", SIGIR 2020: exact matches marked in the input.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._stem_by_id: dict[int, str] = {}
        for word, number in self._tokenizer.get_vocab().items():
            bare = word.removeprefix("##")
            if bare.isalnum() and content_words(f"{bare} x").strip() != "x":
                self._stem_by_id[number] = word[: len(word) - len(bare)] + next(iter(stems(bare)), bare)

    def __call__(self, question: str, passages: Sequence[str]) -> tuple[Tokens, Tokens, Tokens]:
        """Return ids, segments and mask, shape ``(passages, tokens)``."""
        asked_ids = self._ids(question)[:QUESTION_TOKENS]
        texts = [self._ids(text)[: TOKENS - 3 - len(asked_ids)] for text in passages]
        length = -(-(max(map(len, texts)) + len(asked_ids) + 3) // 8) * 8
        ids, segments, mask = (np.zeros((len(texts), length), np.int64) for _ in range(3))
        asked_stems = {self._stem_by_id.get(number) for number in asked_ids} - {None}
        for row, text in enumerate(texts):
            shared = asked_stems & {self._stem_by_id.get(number) for number in text}
            tokens = [101, *asked_ids, 102, *text, 102]
            first = [2 * (self._stem_by_id.get(number) in shared) for number in asked_ids]
            second = [1 + 2 * (self._stem_by_id.get(number) in shared) for number in text]
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
            segments[row, : len(tokens)] = [0, *first, 0, *second, 1]
        return ids, segments, mask

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def new_ranker(layers: Sequence[int]) -> Any:
    """Return a torch module of MiniLM's ``layers`` with four segments and two outputs for the mean and first state."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    from backends.models.minilm import EPSILON, HEADS, packaged_folder

    weights = load_file(packaged_folder() / "model.safetensors")
    config = BertConfig(
        hidden_size=384, num_hidden_layers=len(layers), num_attention_heads=HEADS, intermediate_size=1536, type_vocab_size=4,
        layer_norm_eps=EPSILON, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip
    segments = "embeddings.token_type_embeddings.weight"
    own = {name: value for name, value in weights.items() if not name.startswith(("encoder.layer.", "pooler."))}
    own[segments] = torch.cat([weights[segments], weights[segments]])
    for number, layer in enumerate(layers):
        prefix = f"encoder.layer.{layer}."
        own |= {
            f"encoder.layer.{number}.{name.removeprefix(prefix)}": w
            for name, w in weights.items()
            if name.startswith(prefix)
        }

    class Ranker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(config, add_pooling_layer=False)
            self.bert.load_state_dict(own, strict=False)
            self.bert.embeddings.word_embeddings.weight.requires_grad = False
            self.head = torch.nn.Linear(2 * config.hidden_size, 2)

        def forward(self, ids: Any, segments: Any, mask: Any) -> Any:
            states = self.bert(input_ids=ids, token_type_ids=segments, attention_mask=mask).last_hidden_state
            weight = mask.unsqueeze(-1).to(states.dtype)
            mean = (states * weight).sum(1) / weight.sum(1)
            return self.head(torch.cat([states[:, 0], mean], 1))

    return Ranker()


def train(
    groups: Path, model: Path, *, layers: Sequence[int], most: int, skipped: int, kinds: str, start: Path | None
) -> None:
    """Train on ``most`` groups of some kinds after the first ``skipped``; write ``model``, in 8 bits, and its state (``.pt``).

    ``start`` is the state of an earlier training that goes on.
    """
    import torch

    from backends.models.minilm import packaged_folder

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    chance, pairs = random.Random(SEED), Pairs(packaged_folder())
    read = [group for group in _read(groups) if group["manual"] not in TEST_MANUALS]
    chance.shuffle(read)
    read = [group for group in read[skipped:] if re.fullmatch(kinds, group["kind"])][:most]
    batches: list[list[dict[str, Any]]] = []
    for first in range(0, len(read), GROUPS_A_STEP * 16):
        near = sorted(read[first : first + GROUPS_A_STEP * 16], key=lambda group: max(map(len, group["passages"])))
        batches += [near[n : n + GROUPS_A_STEP] for n in range(0, len(near), GROUPS_A_STEP)]
    chance.shuffle(batches)
    ranker = new_ranker(layers)
    if start is not None:
        ranker.load_state_dict(torch.load(start))
    optimizer = torch.optim.AdamW([p for p in ranker.parameters() if p.requires_grad], lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=len(batches), pct_start=0.08, anneal_strategy="linear"
    )
    started, losses = time.perf_counter(), list[tuple[float, float]]()
    for step, batch in enumerate(batches, 1):
        sizes = [len(group["passages"]) for group in batch]
        outputs = _outputs(ranker, pairs, batch)
        answers = torch.tensor([float(answer) for group in batch for answer in group["answers"]])
        answering = torch.nn.functional.binary_cross_entropy_with_logits(
            outputs[:, 1], answers, pos_weight=torch.tensor(2.0)
        )
        ranking = torch.stack([-scores.log_softmax(0)[0] for scores in outputs[:, 0].split(sizes)]).mean()
        optimizer.zero_grad()
        loss: Any = ranking + ANSWERING * answering
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ranker.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append((ranking.item(), answering.item()))
        if step % 50 == 0:
            means = np.mean(losses[-50:], axis=0)
            seconds = time.perf_counter() - started
            print(
                f"{step} of {len(batches)}: ranking {means[0]:.3f}, answering {means[1]:.3f}, {seconds:.0f} s", flush=True
            )
            torch.save(ranker.state_dict(), model.with_suffix(".pt"))
    torch.save(ranker.state_dict(), model.with_suffix(".pt"))
    export(ranker, model)


def _outputs(ranker: Any, pairs: Pairs, batch: Sequence[Mapping[str, Any]]) -> Any:
    import torch

    parts = [pairs(group["question"], group["passages"]) for group in batch]
    length = max(ids.shape[1] for ids, _, _ in parts)
    tensors = (
        torch.from_numpy(np.concatenate([np.pad(part[n], ((0, 0), (0, length - part[n].shape[1]))) for part in parts]))
        for n in range(3)
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = ranker(*tensors)
    return outputs.float()


def export(ranker: Any, model: Path) -> None:
    """Write a ranker as ONNX with weights of 8 bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ranker.eval()
    ranker.bert.set_attn_implementation("eager")
    example = torch.ones((2, 16), dtype=torch.int64)
    exact = model.with_suffix(".fp32.onnx")
    names = ["ids", "segments", "mask"]
    axes = {name: {0: "passages", 1: "tokens"} for name in names}
    forms: dict[str, Any] = {"input_names": names, "output_names": ["scores"], "dynamic_axes": axes, "opset_version": 17}
    torch.onnx.export(ranker, (example, example, example), str(exact), dynamo=False, **forms)
    quantize_dynamic(exact, model, weight_type=QuantType.QInt8, per_channel=True)
    print(f"{model.stat().st_size / 1e6:.1f} MB, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}")


def _read(groups: Path) -> Iterator[dict[str, Any]]:
    with groups.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Scores:
    """Two numbers a passage, by an exported ranker on one thread."""

    def __init__(self, model: Path) -> None:
        import onnxruntime

        from backends.models.minilm import packaged_folder

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._pairs = Pairs(packaged_folder())

    def __call__(self, question: str, passages: Sequence[str]) -> Vector:
        """Return an array ``(passages, 2)``."""
        ids, segments, mask = self._pairs(question, passages)
        (scores,) = self._session.run(["scores"], {"ids": ids, "segments": segments, "mask": mask})
        return np.asarray(scores)


def test(groups: Path, model: Path) -> str:
    """Return how often the right passage is first, and the area under the curve of answering, by kind."""
    from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

    judge = Scores(model)
    ranks, labels, answering = (
        defaultdict[str, list[float]](list),
        defaultdict[str, list[int]](list),
        defaultdict[str, list[float]](list),
    )
    for group in _read(groups):
        if group["manual"] in TEST_MANUALS:
            scores = judge(group["question"], group["passages"])
            for kind in ("all", group["kind"]):
                ranks[kind].append(1 / (1 + float((scores[1:, 0] >= scores[0, 0]).sum())))
                labels[kind] += group["answers"]
                answering[kind] += scores[:, 1].tolist()
    lines = []
    for kind, reciprocals in ranks.items():
        first, area = np.mean(np.equal(reciprocals, 1)), roc_auc_score(labels[kind], answering[kind])
        lines.append(
            f"{kind}: {len(reciprocals)} questions, MRR {np.mean(reciprocals):.3f}, first {first:.3f}, AUC {area:.3f}"
        )
    return "\n".join(lines)
