"""A small corpus."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.run import refresh
from tests import endpoint_server
from tests.endpoint_server import EndpointServer
from tests.manuals import write_manual


@pytest.fixture
def tables() -> Iterator[TemporaryTables]:
    """A temporary database."""
    with TemporaryTables() as temporary_tables:
        yield temporary_tables


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """A corpus of two manuals; OCR is off, since its own tests cover it."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    return write_corpus(tmp_path)


@pytest.fixture(scope="module")
def model() -> Iterator[EndpointServer]:
    """A server of models, which the tests of a module script."""
    with endpoint_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def refreshed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that corpus, its first version published; not to be touched.

    Folders of tests that import the fixture have one of their own; they share what it makes.
    """
    if not _refreshed:
        folder = tmp_path_factory.mktemp("refreshed")
        publish_manuals(folder, write_corpus(folder))
        _refreshed.append(folder)
    return _refreshed[0]


_refreshed: list[Path] = []


def publish_manuals(folder: Path, corpus_file: Path) -> None:
    """Write the two manuals and publish a version of them."""
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2, changed="20240301")
    assert refresh(open_workspace(str(corpus_file))).published


@pytest.fixture
def published(refreshed_once: Path, tmp_path: Path) -> Workspace:
    """That corpus with a version live: a copy, which takes no time to make."""
    shutil.copytree(refreshed_once, tmp_path, dirs_exist_ok=True)
    return open_workspace(str(tmp_path / "corpora" / "manuals.yaml"))


_EMBEDDERS = {"text": "text_embedder", "tables": "text_embedder", "image": "image_embedder", "late": "late_embedder"}


def named_models(embeddings: Mapping[str, Any], models: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the sections ``models`` and ``embeddings``, each embedder that is given as an entry named by its space."""
    entries = {
        space: {"kind": _EMBEDDERS[space], **entry} for space, entry in embeddings.items() if isinstance(entry, dict)
    }
    names = {space: space if space in entries else value for space, value in embeddings.items()}
    return {"models": {**(models or {}), **entries}, "embeddings": names}


def write_corpus(folder: Path, extra: str = "", *, name: str = "manuals", source: str = "pdfs") -> Path:
    """Write the corpus file; ``extra`` is YAML behind it."""
    file = folder / "corpora" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"name: {name}\nsource: ../{source}\ncaptions: {{ocr: none}}\nparse: {{workers: 2, layout: never}}\n{extra}"
    )
    return file
