"""Every model that a corpus file can name: found by its name alone, described without being loaded."""

import json
import subprocess
import sys

import pytest

from backends.models.registry import TEXT_EMBEDDERS, language_model
from schemas.corpus.models import EndpointOptions, EntryKind, ModelEntry
from schemas.errors import UserError
from schemas.models import ModelName

_LOADED = """
import json, sys
{code}
print(json.dumps([name for name in {heavy} if name in sys.modules]))
"""


def _loaded(code: str, heavy: list[str]) -> object:
    script = _LOADED.format(code=code, heavy=heavy)
    process = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    return json.loads(process.stdout)


@pytest.mark.parametrize("name", TEXT_EMBEDDERS.modules)
def test_each_name_leads_to_a_model_that_calls_itself_so(name: str) -> None:
    card = TEXT_EMBEDDERS.find(ModelName(name)).card()
    assert card.name == name
    assert card.revision
    assert card.dimension is not None


def test_reading_the_table_imports_no_model_and_no_array() -> None:
    table = "import backends.models.registry"
    assert _loaded(table, ["numpy", "pyarrow", "backends.models.minilm"]) == []


def test_describing_models_imports_no_engine() -> None:
    cards = (
        "from backends.models.registry import TEXT_EMBEDDERS\nfrom schemas.models import ModelName\n"
        "for name in TEXT_EMBEDDERS.modules: TEXT_EMBEDDERS.find(ModelName(name)).card()\n"
        "import backends.models.endpoint, backends.models.local_model, backends.models.rapidocr_recogniser\n"
    )
    assert _loaded(cards, ["torch", "transformers", "onnxruntime", "rapidocr", "cv2", "PIL", "openai", "httpx2"]) == []


def test_a_name_that_stands_for_nothing_lists_those_that_do() -> None:
    with pytest.raises(UserError, match=r"embeddings\.text: 'acme/x' needs a revision.* without one: minilm"):
        TEXT_EMBEDDERS.check(ModelName("acme/x"))
    TEXT_EMBEDDERS.check(ModelName("acme/x", "1"))


def captioner(kind: EntryKind, url: str = "http://localhost:1/v1") -> ModelEntry:
    endpoint = EndpointOptions(url=url) if kind.is_at_endpoint else None
    return ModelEntry.model_validate({"kind": kind, "model": "acme/x", "revision": "1", "endpoint": endpoint})


def test_every_kind_of_captioner_leads_to_a_model() -> None:
    for kind in (kind for kind in EntryKind if kind.writes):
        card = language_model("models.shapes", captioner(kind)).card()
        assert (card.name, card.revision, card.dimension) == ("acme/x", "1", None)


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [(EntryKind.VLM, "openai", "endpoints"), (EntryKind.LOCAL, "torchvision", "torch")],
)
def test_a_captioner_whose_extra_is_missing_names_it(
    monkeypatch: pytest.MonkeyPatch, kind: EntryKind, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"models\.shapes: .*pip install -e '\.\[{extra}\]'"):
        language_model("models.shapes", captioner(kind))


@pytest.mark.parametrize("url", ["localhost:8000/v1", "file:///v1", "http://", "v1", "http://host/v1?key=secret"])
def test_an_address_that_is_none_is_refused_with_the_corpus_file(url: str) -> None:
    with pytest.raises(ValueError, match="write an address such as http://host:8000/v1"):
        captioner(EntryKind.VLM, url)
