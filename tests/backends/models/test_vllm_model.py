"""Local models split over GPUs: what vLLM is given, what becomes of its outputs, and a machine without it.

vLLM needs a GPU and is not installed here, so its engine is a stand-in with the classes and fields that are used.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from backends.models.registry import language_model, language_model_card
from schemas.corpus.models import ModelCaptioner
from schemas.errors import BadInputError, UserError
from schemas.models import Reply, Request
from tests.tiny_models import draw


def captioner(folder: Path, **more: Any) -> ModelCaptioner:
    given = {"kind": "local", "model": str(folder), "revision": "r1", "tensor_parallel": 2, "max_tokens": 8, **more}
    return ModelCaptioner.model_validate(given)


@dataclass
class _Completion:
    text: str
    token_ids: list[int]
    finish_reason: str


@dataclass
class _RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[_Completion]


@dataclass
class _SamplingParams:
    temperature: float
    top_p: float
    max_tokens: int


@dataclass
class _Engine:
    """Says how many pictures it was sent, nothing where the prompt is "silent"; the third reply is cut."""

    arguments: dict[str, Any] = field(default_factory=dict)
    chats: list[Any] = field(default_factory=list)

    def start(self, **arguments: Any) -> "_Engine":
        if arguments["tensor_parallel_size"] == 64:
            raise ValueError("World size (64) is larger than the number of available GPUs (2)\nmore")
        self.arguments = arguments
        return self

    def chat(self, chats: list[Any], sampling: _SamplingParams, use_tqdm: bool) -> list[_RequestOutput]:
        assert (sampling.temperature, sampling.max_tokens, use_tqdm) == (0.0, 8, False)
        self.chats += chats
        made = []
        for number, messages in enumerate(chats):
            *pictures, text = messages[-1]["content"]
            said = "" if text["text"] == "silent" else f" {len(pictures)} pictures "
            made.append(_RequestOutput([1] * 5, [_Completion(said, [1] * 3, "length" if number == 2 else "stop")]))
        return made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> _Engine:
    made, module = _Engine(), ModuleType("vllm")
    module.__dict__.update(LLM=made.start, SamplingParams=_SamplingParams)
    monkeypatch.setitem(sys.modules, "vllm", module)
    return made


def test_requests_go_to_the_engine_together_and_each_has_one_outcome(engine: _Engine, tmp_path: Path) -> None:
    model = language_model("captions.models.vlm", captioner(tmp_path)).load(8)
    asked = [
        Request.of("picture", "What is it?", draw(1)),
        Request.of("silent", "silent"),
        Request.of("cut", "And this?"),
        Request.of("broken", "What is it?", b"no picture"),
    ]
    outcomes = dict(model.replies(asked))
    assert engine.arguments == {"model": str(tmp_path), "tensor_parallel_size": 2, "dtype": "bfloat16", "seed": 0}
    assert outcomes["picture"] == Reply("1 pictures", str(tmp_path), 1, 5, 3, complete=True)
    assert outcomes["cut"] == Reply("0 pictures", str(tmp_path), 1, 5, 3, complete=False)
    assert isinstance(outcomes["silent"], BadInputError)
    assert isinstance(outcomes["broken"], BadInputError)
    assert (model.usage.calls, model.usage.input_tokens, model.faults["empty_answers"]) == (3, 15, 1)
    shown, words = engine.chats[0][0]["content"]
    assert shown["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert words == {"type": "text", "text": "What is it?"}
    assert [*model.stream(asked[0])] == ["1 pictures", outcomes["picture"]]


def test_what_the_engine_refuses_is_one_line(engine: _Engine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^captions\.models\.vlm: vLLM can't run .* on 64 GPUs: World size \(64\)[^\n]*$"):
        language_model("captions.models.vlm", captioner(tmp_path, tensor_parallel=64)).load(8)
    assert engine.arguments == {}


def test_a_machine_without_vllm_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(
        UserError, match=r"^captions\.models\.vlm: tensor_parallel needs vLLM where the model runs; install it"
    ):
        language_model("captions.models.vlm", captioner(tmp_path)).load(8)


def test_a_split_model_has_another_card_and_takes_whole_gpus_only(tmp_path: Path) -> None:
    alone = language_model_card(captioner(tmp_path, tensor_parallel=1))
    assert language_model_card(captioner(tmp_path)).settings_version != alone.settings_version
    for wrong in ({"gpus": 0.5}, {"kind": "vlm", "endpoint": {"url": "http://localhost/v1"}}):
        with pytest.raises(ValidationError, match="tensor_parallel splits a local model over whole GPUs"):
            captioner(tmp_path, **wrong)
